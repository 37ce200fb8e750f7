/* SPDX-License-Identifier: Apache-2.0 */
/* preload — keeps paths of the dataset in its cache workers. It loads them, then looks at
 * what could take them away: a worker that is another process now, files that changed or came in
 * the stores, bytes that workers evicted; and once an hour at everything, whatever was seen. What
 * is missing is loaded again. Progress, and why it cannot be complete, is a member "load" of
 * /status. */
#ifndef MILLRACE_FUSE_WORKER_PRELOAD_H
#define MILLRACE_FUSE_WORKER_PRELOAD_H

#include "fuse/worker/load_pass.h"

struct preload_conf {
    const struct load_path *paths; /* npaths; 0: nothing shall be kept: pins end, no more */
    size_t npaths;
    unsigned threads; /* 0: 16 */
    int64_t tick_ns;  /* between questions to the workers; 0: 5 s */
    int64_t look_ns;  /* between listings, at least; 0: the dataset's metadataSync, or 60 s */
    int64_t slow_ns;  /* a store that answers a listing no sooner is told of; 0: 10 s */
    /* of the workers instead of those that the configuration names (tests); nurls */
    const char *const *urls;
    int nurls;
};
/* Until cancel (the server's). Exit status. */
int preload_run(struct server *s, const struct preload_conf *kc);

#endif
