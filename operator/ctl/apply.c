/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/apply.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/http/metric.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <string.h>

/* ---- answers go to the informers ---- */

static void observe(struct apply *a, const struct kube_res *res, const json_t *answer)
{
    for (size_t i = 0; i < a->ninformers; i++)
        if (informer_res(a->informers[i]) == res)
            informer_observe(a->informers[i], json_deep_copy(answer));
}

static void observe_gone(struct apply *a, const struct plan_action *x)
{
    cleanup_free char *key = kube_key(x->ns, x->name);
    for (size_t i = 0; i < a->ninformers; i++)
        if (informer_res(a->informers[i]) == x->res)
            informer_observe_gone(a->informers[i], key, *x->uid ? x->uid : NULL);
}

/* The answer to a patch or delete that took away the last thing that held the object. */
static bool was_last_breath(const json_t *answer)
{
    return kube_deleting(answer) && !jget_len(answer, "metadata.finalizers")
        && jget_int(answer, "metadata.deletionGracePeriodSeconds", 0) == 0;
}

METRIC_COUNTER(api_writes, "millrace_api_writes_total", "verb",
    "Write requests to the API server that succeeded.");

static void count_write(const char *verb, struct apply_result *r)
{
    metric_add(metric_of(&api_writes, verb), 1);
    r->writes++;
}

/* ---- one action ---- */

static const char *controller_uid(const json_t *object)
{
    return jget_str(kube_controller_of(object), "uid", "");
}

#define NOT_OURS "an object of that name belongs to somebody else; rename or delete it"

static int look_whose(struct apply *a, const struct plan_action *x, struct err *e)
{
    cleanup_json json_t *there = NULL;
    if (kube_get(a->kube, x->res, x->ns, x->name, &there, e)) {
        if (e->cls != ERR_NOTFOUND)
            return -1;
        err_clear(e);
        return 0;
    }
    if (strcmp(controller_uid(x->body), controller_uid(there)) != 0)
        return err_set(e, ERR_EXISTS, "%s %s: " NOT_OURS, x->res->kind, x->name);
    return 0;
}

static int run_apply(
    struct apply *a, const struct plan_action *x, struct apply_result *r, struct err *e)
{
    cleanup_json json_t *answer = NULL;
    struct kube_write how = {x->strict, &r->warnings, false};
    if (x->extra && look_whose(a, x, e))
        return -1;
    if (kube_apply_with(a->kube, x->res, x->ns, x->name, "", x->body, &how, &answer, e))
        return -1;
    count_write("apply", r);
    observe(a, x->res, answer);
    return 0;
}

/* Of the labels that it was made with, those that it has no more; NULL: it has all. */
static json_t *lost_labels(const json_t *made, const json_t *there)
{
    json_t *lost = NULL, *value;
    const char *label;
    json_object_foreach ((json_t *)(uintptr_t)jget_obj(made, "metadata.labels"), label, value) {
        if (strcmp(kube_label(there, label), kube_label(made, label)) == 0)
            continue;
        lost = lost ? lost : json_object();
        json_object_set(lost, label, value);
    }
    return lost;
}

/* We see but what has our labels: whoever took one away hid it from us, and its name is in use. */
static int label_again(struct apply *a, const struct plan_action *x, const json_t *there,
    json_t *lost_take, struct err *e)
{
    cleanup_json json_t *answer = NULL,
                        *patch = json_pack("{s:{s:s,s:o}}", "metadata", "uid", kube_uid(there),
                            "labels", lost_take);
    if (kube_patch(a->kube, x->res, x->ns, x->name, "", KUBE_PATCH_MERGE, patch, &answer, e))
        return -1;
    observe(a, x->res, answer);
    cleanup_json json_t *still = lost_labels(x->body, answer);
    if (still)
        return err_set(e, ERR_DENIED,
            "%s %s/%s: label %s is taken away or changed as soon as it is set, and what lacks it is not seen: an admission webhook or a policy does so, and has to leave it",
            x->res->kind, x->ns, x->name, json_object_iter_key(json_object_iter(still)));
    return 0;
}

/* The object exists: ours, from a write whose answer we never saw, or a stranger. */
static int already_there(struct apply *a, const struct plan_action *x, struct err *e)
{
    cleanup_json json_t *there = NULL;
    struct err exists = *e;
    if (kube_get(a->kube, x->res, x->ns, x->name, &there, e)) {
        if (e->cls == ERR_NOTFOUND) /* deleted in between: the next reconcile creates it */
            e->cls = ERR_CONFLICT;
        return -1;
    }
    const char *owner = controller_uid(x->body);
    if (!*owner || strcmp(owner, controller_uid(there)) != 0) {
        *e = exists;
        return err_wrap(e, NOT_OURS);
    }
    observe(a, x->res, there);
    if (kube_deleting(there))
        return err_set(e, ERR_CONFLICT, "create %s %s/%s: the old one is still being deleted",
            x->res->plural, x->ns, x->name);
    err_clear(e);
    json_t *lost = lost_labels(x->body, there);
    return lost ? label_again(a, x, there, lost, e) : 0;
}

static bool is_used_up(const struct err *e)
{
    return e->cls == ERR_DENIED && strstr(e->msg, "exceeded quota");
}

bool apply_by_quota(const struct err *e)
{
    return is_used_up(e) || (e->cls == ERR_DENIED && strstr(e->msg, "failed quota"));
}

bool apply_namespace_gone(const struct err *e)
{
    return e->cls == ERR_DENIED && strstr(e->msg, "because it is being terminated");
}

/* Does it say that the server will not have such a pod? */
static bool is_answer(const struct err *e)
{
    switch (e->cls) {
    case ERR_DENIED:
        return !apply_namespace_gone(e);
    case ERR_INVALID:
    case ERR_EXISTS:
    case ERR_EXHAUSTED:
    case ERR_FATAL:
        return true;
    case ERR_RETRY:
        return strstr(e->msg, "webhook"); /* one that is down keeps pods from being made */
    case ERR_NONE:
    case ERR_CONFLICT:
    case ERR_NOTFOUND:
        break;
    }
    return false;
}

/* We may make Secrets, and not read them: one that is there is as good. */
static int make_secret(
    struct apply *a, const json_t *secret, bool was_made, struct apply_result *r, struct err *e)
{
    cleanup_json json_t *answer = NULL;
    struct kube_write how = {.warnings = &r->warnings};
    if (kube_create_with(a->kube, &kube_secrets, kube_namespace(secret), secret, &how, &answer, e)
        == 0)
        count_write("create", r);
    else if (e->cls != ERR_EXISTS && !(was_made && apply_by_quota(e)))
        return -1;
    err_clear(e);
    if (a->verdicts && !was_made)
        verdicts_made(a->verdicts, secret, clock_real_ns());
    return 0;
}

/* Of a pod that the plan can do without: the next one hears of it. */
static int heard(struct apply *a, const struct plan_action *x, struct err *e)
{
    if (!x->wanted || !a->verdicts || !is_answer(e))
        return -1;
    bool taken = e->cls == ERR_EXISTS;
    verdicts_put(a->verdicts, x, e->msg, taken, clock_real_ns());
    err_clear(e);
    return 0;
}

static int run_create(
    struct apply *a, const struct plan_action *x, struct apply_result *r, struct err *e)
{
    cleanup_json json_t *answer = NULL;
    struct kube_write how = {x->strict, &r->warnings, false};
    if (x->res == &kube_secrets)
        return make_secret(a, x->body, x->was_made, r, e);
    if (kube_create_with(a->kube, x->res, x->ns, x->body, &how, &answer, e) == 0) {
        count_write("create", r);
        observe(a, x->res, answer);
        if (x->wanted && a->verdicts)
            verdicts_drop(a->verdicts, x);
        return 0;
    }
    if (e->cls == ERR_EXISTS && already_there(a, x, e) == 0)
        return 0;
    return heard(a, x, e);
}

/* Asked about under a name that nothing has; the words name the pod that it is about. */
#define NEXT "-next"
static void name_as_it_is(const char *name, char *words)
{
    cleanup_free char *next = xasprintf("%s" NEXT, name);
    size_t len = strlen(next), cut = strlen(NEXT);
    for (char *at = words; (at = strstr(at, next));) {
        at += len - cut;
        memmove(at, at + cut, strlen(at + cut) + 1);
    }
}

static int run_try(
    struct apply *a, const struct plan_action *x, struct apply_result *r, struct err *e)
{
    cleanup_json json_t *answer = NULL, *pod = json_deep_copy(x->body);
    cleanup_free char *next = xasprintf("%s" NEXT, x->name);
    struct kube_write how = {.dry_run = true};
    const char *refused = NULL;
    json_object_set_new(json_object_get(pod, "metadata"), "name", json_string(next));
    if (!a->verdicts)
        return 0;
    if (x->secret && make_secret(a, x->secret, false, r, e)) {
        if (!is_answer(e))
            return -1;
        refused = e->msg;
    } else if (kube_create_with(a->kube, x->res, x->ns, pod, &how, &answer, e)) {
        if (!is_answer(e))
            return -1;
        name_as_it_is(x->name, e->msg);
        bool room = x->makes_room && is_used_up(e);
        /* an old webhook: nobody can tell */
        bool blind = strstr(e->msg, "does not support dry run") != NULL;
        refused = room || blind || e->cls == ERR_EXISTS ? NULL : e->msg;
    }
    verdicts_put(a->verdicts, x, refused, false, clock_real_ns());
    err_clear(e);
    return 0;
}

static int run_delete(
    struct apply *a, const struct plan_action *x, struct apply_result *r, struct err *e)
{
    cleanup_json json_t *answer = NULL, *there = NULL;
    struct kube_delete how = {*x->uid ? x->uid : NULL, x->propagation, x->grace_s};
    if (kube_delete(a->kube, x->res, x->ns, x->name, &how, &answer, e) == 0) {
        count_write("delete", r);
        if (!answer || was_last_breath(answer))
            observe_gone(a, x);
        else
            observe(a, x->res, answer);
        return 0;
    }
    if (e->cls == ERR_CONFLICT && *x->uid) { /* another object under that name? */
        struct err conflict = *e;
        if (kube_get(a->kube, x->res, x->ns, x->name, &there, e) == 0
            && strcmp(kube_uid(there), x->uid) == 0) {
            *e = conflict;
            return -1;
        }
    }
    if (!there && e->cls != ERR_NOTFOUND)
        return -1;
    err_clear(e);
    observe_gone(a, x);
    return 0;
}

static int run_patch(struct apply *a, const struct plan_action *x, const char *sub,
    struct apply_result *r, struct err *e)
{
    cleanup_json json_t *patch = json_deep_copy(x->body), *answer = NULL;
    json_t *metadata = json_object_get(patch, "metadata");
    if (!metadata) {
        metadata = json_object();
        json_object_set_new(patch, "metadata", metadata);
    }
    if (*x->uid)
        /* not the next object of that name */
        json_object_set_new(metadata, "uid", json_string(x->uid));
    if (kube_patch(a->kube, x->res, x->ns, x->name, sub, KUBE_PATCH_MERGE, patch, &answer, e)) {
        if (e->cls != ERR_NOTFOUND)
            return -1;
        err_clear(e); /* it was deleted: there is nothing left to patch */
        observe_gone(a, x);
        return 0;
    }
    count_write(*sub ? "status" : "patch", r);
    if (was_last_breath(answer))
        observe_gone(a, x);
    else
        observe(a, x->res, answer);
    return 0;
}

static void run_event(struct apply *a, const struct plan_action *x)
{
    struct event_about about = {x->res, x->ns, x->name, x->uid};
    if (a->events)
        events_post(a->events, &about, x->warning, x->reason, x->message);
    cleanup_free char *key = kube_key(x->ns, x->name);
    log_kv(x->warning ? LOG_WARN : LOG_INFO, x->message, "kind", x->res->kind, "object", key,
        "reason", x->reason, NULL);
}

static int run_action(
    struct apply *a, const struct plan_action *x, struct apply_result *r, struct err *e)
{
    switch (x->op) {
    case PLAN_APPLY:
        return run_apply(a, x, r, e);
    case PLAN_CREATE:
        return run_create(a, x, r, e);
    case PLAN_DELETE:
        return run_delete(a, x, r, e);
    case PLAN_PATCH:
        return run_patch(a, x, "", r, e);
    case PLAN_STATUS:
        return run_patch(a, x, "status", r, e);
    case PLAN_TRY:
        return run_try(a, x, r, e);
    case PLAN_EVENT:
        run_event(a, x);
        return 0;
    case PLAN_REQUEUE:
        if (r->requeue_ns < 0 || x->after_ns < r->requeue_ns)
            r->requeue_ns = x->after_ns;
        return 0;
    }
    return err_set(e, ERR_FATAL, "unknown action");
}

#define EXTRA_AGAIN_NS (60 * NS_PER_S)
static void go_on_without(struct apply_result *r, struct err *e)
{
    if (!r->without_extra) {
        r->without_extra = true;
        r->extra = r->done;
        r->extra_why = *e;
    }
    if (r->requeue_ns < 0 || r->requeue_ns > EXTRA_AGAIN_NS)
        r->requeue_ns = EXTRA_AGAIN_NS;
    err_clear(e);
}

int apply_plan(struct apply *a, const struct plan *p, struct apply_result *r, struct err *e)
{
    struct err local = ERR_INIT;
    if (!e)
        e = &local; /* what to do next depends on the class */
    *r = (struct apply_result){.requeue_ns = -1};
    for (; r->done < p->n; r->done++) {
        if (run_action(a, &p->actions[r->done], r, e) == 0)
            continue;
        if (!p->actions[r->done].extra)
            return -1;
        go_on_without(r, e);
    }
    return 0;
}
