/* SPDX-License-Identifier: Apache-2.0 */
/* controller — key in, reconcile, plan, apply; again if it failed. Level-triggered: a key says what
 * to look at, not what happened. A key is never reconciled by two threads at once.
 *
 * One reconcile: the function observes: it collects what the plan needs from informers, and fills
 * the plan (pure from there on); the plan is applied; the informers have the answers before the key
 * can come up again. Failures: RETRY and CONFLICT back off from 50 ms to 1 min; INVALID, DENIED and
 * the others from 5 s to 5 min (a person must act; a change of the object is seen at once anyway).
 * Metrics per controller: reconciles, errors, duration, queue length, writes. */
#ifndef MILLRACE_OPERATOR_CTL_CONTROLLER_H
#define MILLRACE_OPERATOR_CTL_CONTROLLER_H

#include "operator/ctl/apply.h"
#include "operator/ctl/informer.h"
#include "operator/ctl/plan.h"

#include <stdint.h>

struct controller; /* opaque */

struct controller_conf {
    const char *name; /* literal: "dataset" */
    unsigned workers; /* threads; 0: 4 */
    /* every known key again, plan.resync set, spread over this time; 0: 10 min; -1: never */
    int64_t resync_ns;
    struct informer *keys; /* whose objects are the keys: for resync */
    /* An object that is not there (any more) is a normal case: 0 with an empty plan. -1: nothing is
     * applied, back-off. */
    int (*reconcile)(void *user, const char *key, struct plan *plan, struct err *e);
    /* An action failed: err is why (INVALID: the server refuses what the user asked for). May add
     * events and a status to `then`, which is applied at once, its own errors only logged; the key
     * backs off anyway. NULL, or nothing added to `then`: a Warning event "ApplyFailed" about the
     * object of that key in `keys`, for INVALID, DENIED and EXISTS. */
    void (*on_apply_error)(void *user, const char *key, const struct plan_action *failed,
        const struct err *why, struct plan *then);
    void *user;
};

struct controller *controller_new(const struct controller_conf *conf); /* copies */
void controller_free(struct controller *c);                            /* stops it first */

/* Which keys an object of an informer concerns: calls emit(to, key) for each. Pure. */
typedef void (*controller_map)(
    void *user, const json_t *object, void (*emit)(void *to, const char *key), void *to);
/* Enqueues the keys of the object as it was and as it is now; an object of conf.keys that is new
 * waits behind those that are begun. Before the informer starts. */
void controller_watch(struct controller *c, struct informer *inf, controller_map map, void *user);
/* The same, for objects that change in bursts: keys wait after_ns, and what comes meanwhile comes
 * along. */
void controller_watch_after(
    struct controller *c, struct informer *inf, controller_map map, void *user, int64_t after_ns);
/* The same, for objects that also change in what is nothing to this controller. is_news: pure. */
void controller_watch_news(struct controller *c, struct informer *inf, controller_map map,
    void *user, bool (*is_news)(const json_t *was, const json_t *now));
/* Both. */
void controller_watch_news_after(struct controller *c, struct informer *inf, controller_map map,
    void *user, bool (*is_news)(const json_t *was, const json_t *now), int64_t after_ns);
/* its own key */
void controller_map_self(
    void *user, const json_t *object, void (*emit)(void *, const char *), void *to);
/* Key of the controlling owner if that is of kind `user` (const char *, e.g. "TFJob"), in the
 * object's namespace. */
void controller_map_owner(
    void *user, const json_t *object, void (*emit)(void *, const char *), void *to);

/* From any thread, at any time: reconcile key in after_ns (0: now). */
void controller_enqueue(struct controller *c, const char *key, int64_t after_ns);

/* apply is borrowed; keys may have been queued before */
int controller_start(struct controller *c, struct apply *apply, struct err *e);
void controller_stop(struct controller *c); /* running reconciles finish; joins */

#endif
