/* SPDX-License-Identifier: Apache-2.0 */
/* plan — what a reconcile wants done, as data: a list of actions that ctl/apply runs in order,
 * stopping at the first error. Plan functions are pure: no I/O, no clock, no globals; everything
 * they look at was observed before. Adding functions take the json they are given and leave out
 * what is already so (the cached object is passed for that), hence a plan made after the plan was
 * applied is empty. Usual order: finalizer, children, deletes, one status, events, requeue.
 * Threads: one plan, one thread. */
#ifndef MILLRACE_OPERATOR_CTL_PLAN_H
#define MILLRACE_OPERATOR_CTL_PLAN_H

#include "lib/base/err.h"
#include "lib/kube/kube.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum plan_op {
    PLAN_APPLY, /* server-side apply of body (carries ANNOTATION_HASH) */
    /* POST body; AlreadyExists is success if the object there has the same controller. Of Secrets
     * we read none: one that is there is success */
    PLAN_CREATE,
    PLAN_DELETE, /* absent already is success; so is another uid under that name */
    /* merge patch body, with uid (and resourceVersion where it is in body) as precondition */
    PLAN_PATCH,
    PLAN_STATUS, /* merge patch body on the status subresource */
    /* asks by a dry run whether body would be taken as the successor of a pod: see ctl/verdicts. It
     * changes nothing, and a refusal is no error */
    PLAN_TRY,
    PLAN_EVENT,   /* core/v1 Event about the object */
    PLAN_REQUEUE, /* reconcile this key again after `after_ns`; the earliest wins */
};

struct plan_action {
    enum plan_op op;
    const struct kube_res *res; /* NULL for requeue */
    /* the object; uid: precondition of delete and patches, subject of events; "" if none */
    char *ns, *name, *uid;
    bool strict; /* create, apply: fields that the server does not know are refused */
    /* the object does without it: that it cannot be done is told, and the plan goes on. apply: what
     * has another controller is left alone, for informers do not see what others have */
    bool extra;
    json_t *body;           /* owned; NULL for delete, event, requeue */
    char *propagation;      /* delete: NULL: the server's default */
    int64_t grace_s;        /* delete: -1: the object's own */
    bool warning;           /* event */
    char *reason, *message; /* event */
    /* try: names the pod and its successor; create: a refusal is a verdict, not an error */
    char *wanted;
    bool was_made;    /* create, of a Secret: before, so a quota that refuses it says nothing */
    json_t *secret;   /* try: the Secret that body mounts, made before it is asked about; or NULL */
    bool makes_room;  /* try: it asks for no more than the pod, which a quota counts now */
    int64_t after_ns; /* requeue */
};

struct plan {
    struct plan_action *actions; /* owned */
    size_t n, cap;
    /* set before reconcile on the slow resync: children are applied even if their hash is
     * unchanged, which undoes foreign edits (the server drops an apply that changes nothing) */
    bool resync;
};

#define PLAN_INIT         \
    {                     \
        NULL, 0, 0, false \
    }
void plan_clear(struct plan *p); /* frees all actions */
#define cleanup_plan __attribute__((cleanup(plan_clear)))
/* Moves the actions of `from` behind those of `to`. */
void plan_move(struct plan *to, struct plan *from);

/* Adds the finalizer unless cr has it, or takes it away if it is there. Guarded by cr's
 * resourceVersion. */
void plan_finalizer_add(
    struct plan *p, const struct kube_res *res, const json_t *cr, const char *finalizer);
void plan_finalizer_remove(
    struct plan *p, const struct kube_res *res, const json_t *cr, const char *finalizer);

/* Server-side apply of a child. The hash of desired becomes its annotation; nothing is added to the
 * plan if cached (the child as we know it, or NULL) carries the same. desired has metadata.name,
 * and metadata.namespace where res is namespaced. */
void plan_apply(
    struct plan *p, const struct kube_res *res, json_t *desired_take, const json_t *cached);

void plan_create(struct plan *p, const struct kube_res *res, json_t *object_take);
/* was_made: it is there, but where a person has deleted it. The server asks quotas before it looks
 * whether the name is taken. */
void plan_create_secret(struct plan *p, json_t *secret_take, bool was_made);
/* Of the actions since the first one of that number: what is asked about mounts the Secret, and is
 * refused where that is. */
void plan_try_with_secret(struct plan *p, size_t since, json_t *secret_take);
/* The next plans hear of a refusal: see ctl/verdicts. The action is wanted. */
void plan_create_wanted(struct plan *p, json_t *pod_take, const char *wanted);

/* Of the actions since the first one of that number: what is created or applied is strict. */
void plan_strict(struct plan *p, size_t since);

/* Of the actions since the first one of that number: they are extras. */
void plan_extra(struct plan *p, size_t since);

/* Deletes the object as cached (its uid is the precondition); left out if it is being deleted
 * already, unless grace_s would shorten its grace to 0. grace_s -1 and propagation NULL: defaults.
 */
void plan_delete(struct plan *p, const struct kube_res *res, const json_t *cached, int64_t grace_s,
    const char *propagation);

/* Would the server take this successor of the pod? wanted: the verdict's name. */
void plan_ask(
    struct plan *p, const json_t *pod, json_t *successor_take, const char *wanted, bool makes_room);

/* Merge patch of an object we know (uid is the precondition). */
void plan_patch(
    struct plan *p, const struct kube_res *res, const json_t *cached, json_t *merge_patch_take);

/* cr.status becomes status: the difference goes out as one merge patch, nothing if there is none.
 */
void plan_status(struct plan *p, const struct kube_res *res, const json_t *cr, json_t *status_take);

/* The same, of a status that is memory: CONFLICT if the object is not as the server has it, after a
 * write whose answer was lost, say. It is made anew then of what the watch brings. */
void plan_status_guarded(
    struct plan *p, const struct kube_res *res, const json_t *cr, json_t *status_take);

/* An Event about an object. Equal ones (object, reason, message) are counted, not repeated. No
 * secrets: it is redacted again anyway. */
void plan_event(struct plan *p, const struct kube_res *res, const json_t *about, bool warning,
    const char *reason, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

void plan_requeue(struct plan *p, int64_t after_ns);

/* For debug logs and tests, without what is in Secrets:
 * [{"op":"apply","resource":"pods","key":"ns/name","object":{…}}, …]. ANNOTATION_HASH is left out
 * of objects. Caller owns it. */
json_t *plan_json(const struct plan *p);

/* RFC 7386: a patch that turns `from` into `to`; NULL if they are equal. from may be NULL. */
json_t *plan_merge_diff(const json_t *from, const json_t *to);

#endif
