/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/controller.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/task.h"
#include "lib/json/jget.h"
#include "operator/ctl/controller_metrics.h"
#include "operator/ctl/queue.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_DEFAULT 4
#define RESYNC_DEFAULT  (600 * NS_PER_S)
#define BACKOFF_MIN     (50 * NS_PER_MS)
#define BACKOFF_MAX     (60 * NS_PER_S)
#define PERSON_MIN      (5 * NS_PER_S) /* where a person must act, trying again soon is of no use */
#define PERSON_MAX      (300 * NS_PER_S)
#define QUOTA_MIN       (10 * NS_PER_S) /* room in a quota comes by itself, and tells nobody */
#define QUOTA_MAX       (30 * NS_PER_S)
#define EXISTS_WAIT     (10 * NS_PER_S) /* what has our name may go, and is not watched */

struct subscription {
    struct controller *controller;
    controller_map map;
    void *user;
    int64_t after_ns;
    bool (*is_news)(const json_t *was, const json_t *now); /* NULL: every change is */
    bool keys; /* of the informer whose objects are the keys */
    struct subscription *next;
};

struct controller {
    struct controller_conf conf;
    struct queue *queue;
    struct apply *apply;       /* borrowed, set by start */
    struct subscription *subs; /* owned; the informers hold pointers to them */
    struct task *workers;      /* owned, conf.workers */
    struct task resync;
    struct controller_metrics metrics;
};

struct controller *controller_new(const struct controller_conf *conf)
{
    struct controller *c = xcalloc(1, sizeof *c);
    c->conf = *conf;
    if (!c->conf.workers)
        c->conf.workers = WORKERS_DEFAULT;
    if (!c->conf.resync_ns)
        c->conf.resync_ns = RESYNC_DEFAULT;
    struct queue_metrics counted;
    queue_metrics_init(&counted, conf->name);
    c->queue = queue_new(&(struct queue_backoff){BACKOFF_MIN, BACKOFF_MAX}, &counted);
    c->workers = xcalloc(c->conf.workers, sizeof *c->workers);
    controller_metrics_init(&c->metrics, conf->name, c->conf.workers);
    return c;
}

void controller_free(struct controller *c)
{
    if (!c)
        return;
    controller_stop(c);
    queue_free(c->queue);
    while (c->subs) {
        struct subscription *next = c->subs->next;
        free(c->subs);
        c->subs = next;
    }
    free(c->workers);
    free(c);
}

void controller_enqueue(struct controller *c, const char *key, int64_t after_ns)
{
    queue_add_after(c->queue, key, after_ns);
}

/* ---- what wakes a key ---- */

static void wake_key(void *to, const char *key)
{
    const struct subscription *s = to;
    if (s->after_ns)
        queue_add_after(s->controller->queue, key, s->after_ns);
    else
        queue_add(s->controller->queue, key);
}

static void wake_new_key(void *to, const char *key)
{
    queue_add_new(((const struct subscription *)to)->controller->queue, key);
}

static void on_change(void *user, const json_t *was, const json_t *now)
{
    struct subscription *s = user;
    if (was && now && s->is_news && !s->is_news(was, now))
        return;
    if (was)
        s->map(s->user, was, wake_key, s);
    if (now)
        s->map(s->user, now, !was && s->keys ? wake_new_key : wake_key, s);
}

static struct subscription *subscribe(
    struct controller *c, struct informer *inf, controller_map map, void *user)
{
    struct subscription *s = xcalloc(1, sizeof *s);
    *s = (struct subscription){
        .controller = c, .map = map, .user = user, .keys = inf == c->conf.keys, .next = c->subs};
    c->subs = s;
    informer_on_change(inf, on_change, s);
    return s;
}

void controller_watch_after(
    struct controller *c, struct informer *inf, controller_map map, void *user, int64_t after_ns)
{
    subscribe(c, inf, map, user)->after_ns = after_ns;
}

void controller_watch_news(struct controller *c, struct informer *inf, controller_map map,
    void *user, bool (*is_news)(const json_t *was, const json_t *now))
{
    subscribe(c, inf, map, user)->is_news = is_news;
}

void controller_watch_news_after(struct controller *c, struct informer *inf, controller_map map,
    void *user, bool (*is_news)(const json_t *was, const json_t *now), int64_t after_ns)
{
    struct subscription *s = subscribe(c, inf, map, user);
    s->is_news = is_news;
    s->after_ns = after_ns;
}

void controller_watch(struct controller *c, struct informer *inf, controller_map map, void *user)
{
    subscribe(c, inf, map, user);
}

void controller_map_self(
    void *user, const json_t *object, void (*emit)(void *, const char *), void *to)
{
    (void)user;
    cleanup_free char *key = kube_key_of(object);
    emit(to, key);
}

void controller_map_owner(
    void *user, const json_t *object, void (*emit)(void *, const char *), void *to)
{
    const json_t *owner = kube_controller_of(object);
    if (strcmp(jget_str(owner, "kind", ""), user) != 0)
        return;
    cleanup_free char *key = kube_key(kube_namespace(object), jget_str(owner, "name", ""));
    emit(to, key);
}

/* ---- one reconcile ---- */

/* The least wait before a key is tried again: errors that only a person can mend are not
 * hurried. */
static int64_t at_least(const struct err *e, unsigned failures)
{
    switch (e->cls) {
    case ERR_NONE:
    case ERR_RETRY:
    case ERR_CONFLICT:
        return 0;
    case ERR_NOTFOUND:
    case ERR_EXISTS:
    case ERR_INVALID:
    case ERR_DENIED:
    case ERR_EXHAUSTED:
    case ERR_FATAL:
        break;
    }
    int64_t wait = PERSON_MIN;
    for (; failures && wait < PERSON_MAX; failures--)
        wait *= 2;
    return MIN(wait, PERSON_MAX);
}

/* Explains the failure on the object itself, unless the controller does that better. */
static void explain_failure(struct controller *c, const char *key, const struct plan *plan,
    size_t failed, const struct err *why)
{
    cleanup_plan struct plan then = PLAN_INIT;
    if (apply_namespace_gone(why))
        return;
    if (c->conf.on_apply_error)
        c->conf.on_apply_error(c->conf.user, key, &plan->actions[failed], why, &then);
    bool for_people = why->cls == ERR_INVALID || why->cls == ERR_DENIED || why->cls == ERR_EXISTS;
    if (!then.n && for_people && c->conf.keys) {
        cleanup_obj struct obj *o = informer_get(c->conf.keys, key);
        if (o)
            plan_event(&then, informer_res(c->conf.keys), obj_json(o), true, "ApplyFailed", "%s",
                why->msg);
    }
    struct apply_result r;
    struct err e = ERR_INIT;
    if (apply_plan(c->apply, &then, &r, &e))
        log_kv(LOG_WARN, "the failure could not be written down", "controller", c->conf.name, "key",
            key, "error", e.msg, NULL);
}

/* What the server remarked, as Events about the object whose key it is. */
static void tell_warnings(
    struct controller *c, const char *key, const struct kube_warnings *warnings)
{
    if (!warnings->n || !c->conf.keys)
        return;
    cleanup_obj struct obj *o = informer_get(c->conf.keys, key);
    cleanup_plan struct plan plan = PLAN_INIT;
    for (unsigned i = 0; o && i < warnings->n; i++)
        plan_event(&plan, informer_res(c->conf.keys), obj_json(o), true, "APIWarning", "%s",
            warnings->text[i]);
    struct apply_result r;
    apply_plan(c->apply, &plan, &r, NULL);
}

/* 0, or -1 with *e. *requeue_ns: when it wants to be looked at again, -1 if not. */
static int reconcile_once(
    struct controller *c, const char *key, bool resync, int64_t *requeue_ns, struct err *e)
{
    cleanup_plan struct plan plan = PLAN_INIT;
    struct apply_result r = {.requeue_ns = -1};
    plan.resync = resync;
    if (c->conf.reconcile(c->conf.user, key, &plan, e))
        return -1;
    if (plan.n && log_enabled(LOG_DEBUG)) {
        cleanup_json json_t *j = plan_json(&plan);
        cleanup_free char *text = json_dumps(j, JSON_COMPACT);
        log_kv(LOG_DEBUG, "plan", "controller", c->conf.name, "key", key, "plan", text, NULL);
    }
    int rc = apply_plan(c->apply, &plan, &r, e);
    *requeue_ns = r.requeue_ns;
    tell_warnings(c, key, &r.warnings);
    if (r.without_extra)
        explain_failure(c, key, &plan, r.extra, &r.extra_why);
    if (rc)
        explain_failure(c, key, &plan, r.done, e);
    return rc;
}

/* After a turn that failed: a write of it may have been done, with an answer that was lost, and the
 * watch may bring that later than what others made of it. The next plan is of the object as the
 * server has it, or as it is known, to who may not ask; -1: the server does not say. */
static int ask_again(struct controller *c, const char *key, struct err *e)
{
    if (!c->conf.keys || !queue_failures(c->queue, key))
        return 0;
    cleanup_obj struct obj *known = informer_get(c->conf.keys, key);
    cleanup_json json_t *now = NULL;
    if (!known)
        return 0;
    if (kube_get(c->apply->kube, informer_res(c->conf.keys), kube_namespace(obj_json(known)),
            kube_name(obj_json(known)), &now, e)
        == 0) {
        informer_observe(c->conf.keys, json_incref(now));
        return 0;
    }
    if (e->cls != ERR_NOTFOUND && e->cls != ERR_DENIED)
        return -1;
    bool gone = e->cls == ERR_NOTFOUND;
    err_clear(e);
    if (gone)
        informer_observe_gone(c->conf.keys, key, kube_uid(obj_json(known)));
    return 0;
}

static void reconcile_key(struct controller *c, const char *key, bool resync)
{
    struct err e = ERR_INIT;
    int64_t begun = clock_mono_ns(), requeue_ns = -1;
    controller_metrics_begin(&c->metrics);
    int rc = ask_again(c, key, &e) || reconcile_once(c, key, resync, &requeue_ns, &e);
    enum reconcile_result result = requeue_ns >= 0 ? RECONCILE_REQUEUE : RECONCILE_SUCCESS;
    controller_metrics_end(
        &c->metrics, rc ? RECONCILE_ERROR : result, clock_mono_ns() - begun, queue_len(c->queue));
    if (rc == 0) {
        if (requeue_ns >= 0)
            queue_add_after(c->queue, key, requeue_ns);
        queue_done(c->queue, key);
        return;
    }
    unsigned before = queue_failures(c->queue, key);
    int64_t wait = apply_by_quota(&e) ? queue_fail_steady(c->queue, key, QUOTA_MIN, QUOTA_MAX)
        : e.cls == ERR_EXISTS         ? queue_fail_steady(c->queue, key, EXISTS_WAIT, EXISTS_WAIT)
                                      : queue_fail(c->queue, key, at_least(&e, before));
    char text[24];
    snprintf(text, sizeof text, "%.3gs", (double)wait / (double)NS_PER_S);
    /* conflicts are normal: the next reconcile sees the newer object */
    log_kv(e.cls == ERR_CONFLICT && before < 3 ? LOG_DEBUG : LOG_WARN, "reconcile failed",
        "controller", c->conf.name, "key", key, "error", e.msg, "class", err_class_name(e.cls),
        "again_in", text, NULL);
}

static void controller_thread(void *user)
{
    struct controller *c = user;
    bool resync = false;
    for (char *key; (key = queue_get(c->queue, &resync)); free(key))
        reconcile_key(c, key, resync);
}

/* ---- resync ---- */

static void resync_all(struct controller *c)
{
    cleanup_keys char **all = informer_keys(c->conf.keys, NULL, NULL);
    size_t n = 0;
    while (all[n])
        n++;
    for (size_t i = 0; i < n; i++)
        queue_add_resync(
            c->queue, all[i], (int64_t)((double)c->conf.resync_ns / 2 * (double)i / (double)n));
}

static void resync_thread(void *user)
{
    struct controller *c = user;
    int64_t next = clock_mono_ns() + c->conf.resync_ns;
    for (; !task_wait(&c->resync, next); next += c->conf.resync_ns)
        resync_all(c);
}

int controller_start(struct controller *c, struct apply *apply, struct err *e)
{
    c->apply = apply;
    int rc = 0;
    for (unsigned i = 0; i < c->conf.workers && !rc; i++)
        rc = task_start(&c->workers[i], c->conf.name, controller_thread, c, e);
    if (!rc && c->conf.keys && c->conf.resync_ns > 0)
        rc = task_start(&c->resync, "resync", resync_thread, c, e);
    if (!rc)
        return 0;
    controller_stop(c);
    return err_wrap(e, "%s controller", c->conf.name);
}

void controller_stop(struct controller *c)
{
    queue_stop(c->queue);
    for (unsigned i = 0; i < c->conf.workers; i++)
        task_stop(&c->workers[i]);
    task_stop(&c->resync);
}
