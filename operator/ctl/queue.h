/* SPDX-License-Identifier: Apache-2.0 */
/* queue — keys waiting to be reconciled. A key is never handed to two workers at once; adding it
 * while it is being worked on runs it once more afterwards. Keys that are begun go before new
 * ones: they need few passes more, and their users wait for them, while new keys may come by the
 * thousand; every QUEUE_SHARE-th pass goes to a new key all the same. Threads: any. Locks:
 * queue.mu, a leaf, never across a callback. */
#ifndef MILLRACE_OPERATOR_CTL_QUEUE_H
#define MILLRACE_OPERATOR_CTL_QUEUE_H

#include "operator/ctl/controller_metrics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUEUE_SHARE 16

struct queue; /* opaque */

struct queue_backoff {
    /* wait after the first failure; doubles with each further one, ± 20 % so that keys spread */
    int64_t min_ns;
    int64_t max_ns;
};

/* caller owns; queue_free(). counted: copied, or NULL */
struct queue *queue_new(const struct queue_backoff *b, const struct queue_metrics *counted);
void queue_free(struct queue *q);                 /* no worker may be left in it */
void queue_add(struct queue *q, const char *key); /* now; copies key; no-op once stopped */
/* now, behind all that is due, in order; another add (but of a resync) ends that */
void queue_add_new(struct queue *q, const char *key);
/* the earlier time wins */
void queue_add_after(struct queue *q, const char *key, int64_t after_ns);
/* the same, and the next get says resync */
void queue_add_resync(struct queue *q, const char *key, int64_t after_ns);
/* Blocks for the next key that is due; caller owns it and calls queue_done(). NULL once stopped:
 * keys that wait stay undone. */
char *queue_get(struct queue *q, bool *resync);
/* success: its count of failures starts again at 0 */
void queue_done(struct queue *q, const char *key);
/* Failure: comes back after its back-off, but not before at_least_ns. Returns the wait in ns. */
int64_t queue_fail(struct queue *q, const char *key, int64_t at_least_ns);
/* The same, but again after min_ns to max_ns, however often it failed. */
int64_t queue_fail_steady(struct queue *q, const char *key, int64_t min_ns, int64_t max_ns);
void queue_stop(struct queue *q); /* wakes every queue_get */
/* due or delayed, being worked on not counted */
size_t queue_len(struct queue *q);
unsigned queue_failures(struct queue *q, const char *key);

#endif
