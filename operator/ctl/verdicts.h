/* SPDX-License-Identifier: Apache-2.0 */
/* verdicts — what the API server said when it was asked, by a dry run, whether it would take the
 * pod that is to replace one that runs; and what it said of a pod that it refused to make. Kept for
 * a while, so that it is not asked at each turn, and so that plans see the answer: no pod is
 * deleted before its successor is known to be taken, and one that is refused keeps nothing else
 * from being done.
 * Threads: any. Lock: verdicts.mu, a leaf: not held while listeners are called. */
#ifndef MILLRACE_OPERATOR_CTL_VERDICTS_H
#define MILLRACE_OPERATOR_CTL_VERDICTS_H

#include "lib/json/obj.h"
#include "operator/ctl/plan.h"

#include <jansson.h>
#include <stdint.h>

#define VERDICT_NS      (60 * INT64_C(1000000000)) /* how long one counts */
#define CREATE_AGAIN_NS (20 * INT64_C(1000000000)) /* until what was refused is created again */

struct verdicts; /* opaque */
struct verdicts *verdicts_new(void);
void verdicts_free(struct verdicts *v);
/* asked: a PLAN_TRY, or a create that was refused. refused: the server's words; NULL: it would be
 * taken. taken: since a pod of another owner has the name. */
void verdicts_put(struct verdicts *v, const struct plan_action *asked, const char *refused,
    bool taken, int64_t now_ns);
/* It was created after all: nothing is held against the next one of that name. */
void verdicts_drop(struct verdicts *v, const struct plan_action *created);
/* The Secret is there. */
void verdicts_made(struct verdicts *v, const json_t *secret, int64_t now_ns);
/* Of the pods of one owner, by name: {wanted, at, refused, taken}. The caller unrefs; NULL: none.
 */
struct obj *verdicts_of(struct verdicts *v, const char *owner_uid);
void verdicts_forget(struct verdicts *v, const char *owner_uid);
/* Called with the pod that was asked about at each verdict. Before there are any. */
typedef void (*verdict_listener)(void *user, const json_t *pod);
void verdicts_listen(struct verdicts *v, verdict_listener fn, void *user);

/* ---- of plans: pure ---- */

enum verdict {
    VERDICT_ASKED,   /* not known: the plan asks, and the answer wakes the key */
    VERDICT_TAKEN,   /* the pod may be deleted */
    VERDICT_REFUSED, /* it stays; the plan asks again in a while */
};
/* May the successor take the pod's place? said: of verdicts_of(), may be NULL. */
enum verdict plan_try(
    struct plan *p, const json_t *said, const json_t *pod, json_t *successor_take, int64_t now_ns);
/* Creates the pod, unless that was refused less than CREATE_AGAIN_NS ago. The words of the refusal
 * as long as it is not taken back; NULL: none is known. */
const char *plan_create_heard(struct plan *p, const json_t *said, json_t *pod_take, int64_t now_ns);
/* Has the Secret of that name been made lately, or was there? */
bool verdict_is_made(const json_t *said, const char *name);
/* Is it refused since a pod of another owner has its name? */
bool verdict_is_taken(const json_t *said, const char *name);
/* Why the successor of that ANNOTATION_HASH was refused when it was last asked about; NULL: it was
 * not. */
const char *verdict_refusal(const json_t *said, const json_t *pod, const char *hash);

#endif
