/* SPDX-License-Identifier: Apache-2.0 */
/* load — the loader: loads paths of the dataset into its cache workers, each chunk into the one
 * that owns it, and checks at the end that everything is there. Progress is a member "load" of
 * /status. */
#ifndef MILLRACE_FUSE_WORKER_LOAD_H
#define MILLRACE_FUSE_WORKER_LOAD_H

#include "fuse/worker/request.h"
#include "fuse/worker/server.h"

struct load_conf {
    char **paths; /* in the dataset's tree; npaths 0: all of it */
    int npaths;
    /* of what is loaded; REQUEST_UNPIN of everything ends pins of files that are gone, too */
    enum request_pin pin;
    int threads;       /* 0: 16 */
    int64_t bandwidth; /* of what is fetched from the stores, bytes a second; 0: no bound */
    int64_t wait_ns;   /* for the store to answer */
    /* file that gets the counters (one line of JSON) and a sentence about the end, or NULL */
    const char *report;
    /* of the workers instead of those that the configuration names (tests); nurls */
    const char *const *urls;
    int nurls;
};
/* Exit status: 0 if every byte is in the cache, LOADER_EXIT_FINAL if trying again does not help.
 * cancel (the server's) ends it early. */
int load_run(struct server *s, const struct load_conf *lc);

#endif
