/* SPDX-License-Identifier: Apache-2.0 */
/* poll — asks client, worker and loader pods for their /status over HTTP: every 2 s until they
 * are ready (loaders: have loaded), every 15 s after, at once when the pod changes. Keeps their
 * last reports for the plans: news at once, mere counters all at once every 30 s (of a DataLoad:
 * every 10 s), so that a busy Dataset is not written all the time. Pods that only have the
 * labels of a Dataset, in another namespace, are not asked. Listeners are called at each change
 * and enqueue keys. Runs only while we lead. Threads: any. Locks: poll.mu, a leaf: not held during
 * requests and listeners. */
#ifndef MILLRACE_OPERATOR_DATASET_POLL_H
#define MILLRACE_OPERATOR_DATASET_POLL_H

#include "lib/json/obj.h"
#include "operator/ctl/manager.h"

#include <stdint.h>

struct poll; /* opaque */

/* The pod of which something new is known. */
struct poll_target {
    /* "" where there is none */
    char *uid, *ns, *name, *component, *dataset, *dataset_uid, *dataload;
};
/* counts: only counters, of any pods of its Dataset */
typedef void (*poll_listener)(void *user, const struct poll_target *t, bool counts);

/* Bytes counted for a Dataset by pods that were deleted since. */
struct poll_reads {
    int64_t cache, worker, store, direct, written; /* direct: the clients' part of store */
};

/* The only one of this manager: made on the first call, which also hooks it to the informer of our
 * pods and to the lead; never freed. */
struct poll *poll_shared(struct manager *mgr, struct err *e);
void poll_listen(struct poll *p, poll_listener fn, void *user); /* before it runs */

/* caller unrefs; NULL: nothing known */
struct obj *poll_report(struct poll *p, const char *pod_uid);
void poll_retired(struct poll *p, const char *dataset_uid, struct poll_reads *out);
/* The same and what the pods of now have counted, of all Datasets: uid → struct poll_reads; the
 * caller frees it. */
struct map *poll_reads_all(struct poll *p);
void poll_forget(struct poll *p, const char *dataset_uid); /* the dataset is gone */

#endif
