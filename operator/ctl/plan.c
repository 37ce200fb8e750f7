/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/plan.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_LEN 17 /* 16 hex digits + NUL */

void plan_clear(struct plan *p)
{
    for (size_t i = 0; i < p->n; i++) {
        struct plan_action *a = &p->actions[i];
        free(a->ns);
        free(a->name);
        free(a->uid);
        free(a->propagation);
        free(a->reason);
        free(a->message);
        free(a->wanted);
        json_decref(a->secret);
        json_decref(a->body);
    }
    free(p->actions);
    p->actions = NULL;
    p->n = p->cap = 0;
}

static struct plan_action *plan_grow(struct plan *p)
{
    if (p->n == p->cap)
        p->actions = xrealloc(p->actions, (p->cap = p->cap ? p->cap * 2 : 8) * sizeof *p->actions);
    return &p->actions[p->n++];
}

void plan_move(struct plan *to, struct plan *from)
{
    for (size_t i = 0; i < from->n; i++)
        *plan_grow(to) = from->actions[i];
    from->n = 0;
    plan_clear(from);
}

static struct plan_action *plan_add(
    struct plan *p, enum plan_op op, const struct kube_res *res, const json_t *object)
{
    struct plan_action *a = plan_grow(p);
    *a = (struct plan_action){.op = op, .res = res, .grace_s = -1, .after_ns = -1};
    a->ns = xstrdup(kube_namespace(object));
    a->name = xstrdup(kube_name(object));
    a->uid = xstrdup(kube_uid(object));
    return a;
}

/* ---- finalizer ---- */

static void finalizers(
    struct plan *p, const struct kube_res *res, const json_t *cr, const char *finalizer, bool want)
{
    json_t *list = json_array();
    const json_t *item;
    bool have = false;
    size_t i;
    json_array_foreach (jget_arr(cr, "metadata.finalizers"), i, item) {
        bool same = strcmp(json_string_value(item), finalizer) == 0;
        have |= same;
        if (!same || want)
            json_array_append_new(list, json_deep_copy(item));
    }
    if (have == want) {
        json_decref(list);
        return;
    }
    if (want)
        json_array_append_new(list, json_string(finalizer));
    struct plan_action *a = plan_add(p, PLAN_PATCH, res, cr);
    /* the list goes out whole, so it must be the list we saw */
    a->body = json_pack("{s:{s:o,s:s}}", "metadata", "finalizers", list, "resourceVersion",
        jget_str(cr, "metadata.resourceVersion", ""));
}

void plan_finalizer_add(
    struct plan *p, const struct kube_res *res, const json_t *cr, const char *finalizer)
{
    if (!kube_deleting(cr)) /* the server accepts no new ones then */
        finalizers(p, res, cr, finalizer, true);
}

void plan_finalizer_remove(
    struct plan *p, const struct kube_res *res, const json_t *cr, const char *finalizer)
{
    finalizers(p, res, cr, finalizer, false);
}

/* ---- children ---- */

static void hash_of(const json_t *desired, char out[HASH_LEN])
{
    snprintf(out, HASH_LEN, "%016" PRIx64, json_hash(desired));
}

static bool plan_apply_needed(const json_t *desired, const json_t *cached)
{
    char hash[HASH_LEN];
    hash_of(desired, hash);
    return !cached || strcmp(kube_annotation(cached, ANNOTATION_HASH), hash) != 0;
}

void plan_apply(
    struct plan *p, const struct kube_res *res, json_t *desired_take, const json_t *cached)
{
    if (!p->resync && !plan_apply_needed(desired_take, cached)) {
        json_decref(desired_take);
        return;
    }
    char hash[HASH_LEN];
    hash_of(desired_take, hash);
    json_t *metadata = json_object_get(desired_take, "metadata");
    json_t *annotations = json_object_get(metadata, "annotations");
    if (!annotations) {
        annotations = json_object();
        json_object_set_new(metadata, "annotations", annotations);
    }
    json_object_set_new(annotations, ANNOTATION_HASH, json_string(hash));
    plan_add(p, PLAN_APPLY, res, desired_take)->body = desired_take;
}

void plan_create(struct plan *p, const struct kube_res *res, json_t *object_take)
{
    plan_add(p, PLAN_CREATE, res, object_take)->body = object_take;
}

void plan_create_secret(struct plan *p, json_t *secret_take, bool was_made)
{
    struct plan_action *a = plan_add(p, PLAN_CREATE, &kube_secrets, secret_take);
    a->body = secret_take;
    a->was_made = was_made;
}

void plan_try_with_secret(struct plan *p, size_t since, json_t *secret_take)
{
    for (; since < p->n; since++)
        if (p->actions[since].op == PLAN_TRY)
            p->actions[since].secret = json_incref(secret_take);
    json_decref(secret_take);
}

void plan_create_wanted(struct plan *p, json_t *pod_take, const char *wanted)
{
    struct plan_action *a = plan_add(p, PLAN_CREATE, &kube_pods, pod_take);
    a->body = pod_take;
    a->wanted = xstrdup(wanted);
}

void plan_strict(struct plan *p, size_t since)
{
    for (; since < p->n; since++)
        p->actions[since].strict = true;
}

void plan_extra(struct plan *p, size_t since)
{
    for (; since < p->n; since++)
        p->actions[since].extra = true;
}

void plan_delete(struct plan *p, const struct kube_res *res, const json_t *cached, int64_t grace_s,
    const char *propagation)
{
    bool sooner = grace_s == 0 && jget_int(cached, "metadata.deletionGracePeriodSeconds", 0) > 0;
    if (kube_deleting(cached) && !sooner)
        return;
    struct plan_action *a = plan_add(p, PLAN_DELETE, res, cached);
    a->grace_s = grace_s;
    a->propagation = xstrdup(propagation);
}

void plan_ask(
    struct plan *p, const json_t *pod, json_t *successor_take, const char *wanted, bool makes_room)
{
    struct plan_action *a = plan_add(p, PLAN_TRY, &kube_pods, pod);
    a->body = successor_take;
    a->wanted = xstrdup(wanted);
    a->makes_room = makes_room;
}

void plan_patch(
    struct plan *p, const struct kube_res *res, const json_t *cached, json_t *merge_patch_take)
{
    plan_add(p, PLAN_PATCH, res, cached)->body = merge_patch_take;
}

/* ---- status ---- */

/* A null in a merge patch removes: in a desired document it means the same as an absent member. */
static const json_t *member(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_null(v) ? NULL : v;
}

static json_t *diff_objects(const json_t *from, const json_t *to)
{
    json_t *diff = json_object(), *unconst = (json_t *)(uintptr_t)from;
    const char *key;
    for (void *at = json_object_iter(unconst); at; at = json_object_iter_next(unconst, at))
        if (!member(to, key = json_object_iter_key(at)))
            json_object_set_new(diff, key, json_null());
    unconst = (json_t *)(uintptr_t)to;
    for (void *at = json_object_iter(unconst); at; at = json_object_iter_next(unconst, at)) {
        const json_t *value = member(to, key = json_object_iter_key(at));
        json_t *part = value ? plan_merge_diff(member(from, key), value) : NULL;
        if (part)
            json_object_set_new(diff, key, part);
    }
    return diff;
}

json_t *plan_merge_diff(const json_t *from, const json_t *to)
{
    if (from && json_equal(from, to))
        return NULL;
    if (!json_is_object(to))
        return json_deep_copy(to);
    /* An object replaces any other value, but merges into an object: then removed members must
     * be named. */
    json_t *diff = diff_objects(json_is_object(from) ? from : NULL, to);
    if (from && json_is_object(from) && !json_object_size(diff)) { /* they differ in nulls only */
        json_decref(diff);
        return NULL;
    }
    return diff;
}

void plan_status(struct plan *p, const struct kube_res *res, const json_t *cr, json_t *status_take)
{
    json_t *diff = plan_merge_diff(json_object_get(cr, "status"), status_take);
    json_decref(status_take);
    if (!diff)
        return;
    plan_add(p, PLAN_STATUS, res, cr)->body = json_pack("{s:o}", "status", diff);
}

void plan_status_guarded(
    struct plan *p, const struct kube_res *res, const json_t *cr, json_t *status_take)
{
    size_t before = p->n;
    const char *version = jget_str(cr, "metadata.resourceVersion", NULL);
    plan_status(p, res, cr, status_take);
    if (p->n > before && version)
        json_object_set_new(
            p->actions[before].body, "metadata", json_pack("{s:s}", "resourceVersion", version));
}

/* ---- events, requeue ---- */

void plan_event(struct plan *p, const struct kube_res *res, const json_t *about, bool warning,
    const char *reason, const char *fmt, ...)
{
    struct plan_action *a = plan_add(p, PLAN_EVENT, res, about);
    va_list ap;
    va_start(ap, fmt);
    a->message = xvasprintf(fmt, ap);
    va_end(ap);
    a->reason = xstrdup(reason);
    a->warning = warning;
}

void plan_requeue(struct plan *p, int64_t after_ns)
{
    plan_add(p, PLAN_REQUEUE, NULL, NULL)->after_ns = after_ns;
}

/* ---- for people and golden files ---- */

static const char *op_name(enum plan_op op)
{
    switch (op) {
    case PLAN_APPLY:
        return "apply";
    case PLAN_CREATE:
        return "create";
    case PLAN_DELETE:
        return "delete";
    case PLAN_PATCH:
        return "patch";
    case PLAN_STATUS:
        return "status";
    case PLAN_TRY:
        return "try";
    case PLAN_EVENT:
        return "event";
    case PLAN_REQUEUE:
        return "requeue";
    }
    return NULL;
}

/* The body without the hash, which changes with every unrelated edit of a builder. */
static json_t *body_json(const struct plan_action *a)
{
    json_t *body = json_deep_copy(a->body);
    json_t *metadata = json_object_get(body, "metadata");
    json_t *annotations = json_object_get(metadata, "annotations");
    if (a->res == &kube_secrets)
        json_object_del(body, "stringData");
    if ((a->op == PLAN_APPLY || a->op == PLAN_CREATE || a->op == PLAN_TRY) && annotations) {
        json_object_del(annotations, ANNOTATION_HASH);
        if (!json_object_size(annotations))
            json_object_del(metadata, "annotations");
    }
    return body;
}

static json_t *action_json(const struct plan_action *a)
{
    json_t *j = json_pack("{s:s}", "op", op_name(a->op));
    if (a->res) {
        cleanup_free char *key = kube_key(a->ns, a->name);
        json_object_set_new(j, "resource", json_string(a->res->plural));
        json_object_set_new(j, "key", json_string(key));
    }
    switch (a->op) {
    case PLAN_APPLY:
    case PLAN_CREATE:
    case PLAN_TRY:
        json_object_set_new(j, "object", body_json(a));
        break;
    case PLAN_PATCH:
    case PLAN_STATUS:
        json_object_set_new(j, "patch", body_json(a));
        break;
    case PLAN_DELETE:
        json_object_set_new(j, "uid", json_string(a->uid));
        if (a->grace_s >= 0)
            json_object_set_new(j, "graceSeconds", json_integer(a->grace_s));
        if (a->propagation)
            json_object_set_new(j, "propagation", json_string(a->propagation));
        break;
    case PLAN_EVENT:
        json_object_set_new(j, "type", json_string(a->warning ? "Warning" : "Normal"));
        json_object_set_new(j, "reason", json_string(a->reason));
        json_object_set_new(j, "message", json_string(a->message));
        break;
    case PLAN_REQUEUE:
        json_object_set_new(j, "afterMs", json_integer(a->after_ns / 1000000));
        break;
    }
    return j;
}

json_t *plan_json(const struct plan *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->n; i++)
        json_array_append_new(list, action_json(&p->actions[i]));
    return list;
}
