/* SPDX-License-Identifier: Apache-2.0 */
/* verdicts — what the API server said when it was asked, by a dry run, whether it would take the
 * pod that is to replace one that runs. Kept for a minute, so that it is not asked at each turn,
 * and so that plans see the answer: no pod is deleted before its successor is known to be taken.
 * Threads: any. Lock: verdicts.mu, a leaf: not held while listeners are called. */
#ifndef MILLRACE_OPERATOR_CTL_VERDICTS_H
#define MILLRACE_OPERATOR_CTL_VERDICTS_H

#include "lib/json/obj.h"
#include "operator/ctl/plan.h"

#include <jansson.h>
#include <stdint.h>

#define VERDICT_NS (60 * INT64_C(1000000000)) /* how long one counts */

struct verdicts; /* opaque */
struct verdicts *verdicts_new(void);
void verdicts_free(struct verdicts *v);
/* asked: a PLAN_TRY. refused: the server's words; NULL: it would be taken. */
void verdicts_put(
    struct verdicts *v, const struct plan_action *asked, const char *refused, int64_t now_ns);
/* Of the pods of one owner, by name: {wanted, at, refused}. The caller unrefs; NULL: none. */
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
/* Why the successor of that ANNOTATION_HASH was refused when it was last asked about; NULL: it was
 * not. */
const char *verdict_refusal(const json_t *said, const json_t *pod, const char *hash);

#endif
