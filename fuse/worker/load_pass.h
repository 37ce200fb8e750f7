/* SPDX-License-Identifier: Apache-2.0 */
/* load_pass — what one load and a preload share: passes over paths of the dataset's tree, in
 * which each chunk of each file is loaded into the cache worker that owns it. A pass asks for what
 * is there already, too: the workers' answers say what was missing. Threads: one at a time makes
 * passes, one may list beside it; counters are read from any, under mu. */
#ifndef MILLRACE_FUSE_WORKER_LOAD_PASS_H
#define MILLRACE_FUSE_WORKER_LOAD_PASS_H

#include "fuse/worker/load_failed.h"
#include "fuse/worker/load_rate.h"
#include "fuse/worker/request.h"
#include "fuse/worker/server.h"
#include "lib/base/pool.h"
#include "lib/http/http.h"

#define LOAD_THREADS    16
#define LOAD_NO_WORKERS "the dataset has no cache workers to load into"

struct load_path {
    const char *path; /* of the dataset's tree; "/": all of it */
    enum request_pin pin;
};

struct load_counts {
    uint64_t files, bytes; /* listed so far */
    /* of those in mounts that may change: how many, and a digest of names and versions, in any
     * order */
    uint64_t changing, digest;
    uint64_t done_files, done_bytes, failed_files;
    uint64_t missing; /* chunks that were not there, or not all of them */
};

/* What a listing waits for. */
struct load_waits {
    int64_t slow_ns;  /* that long without an answer is told; 0: 10 s */
    unsigned asking;  /* listings that wait for an answer */
    int64_t asked_ns; /* mono: since when the last of them does */
    size_t mount;     /* … of which mount */
    /* of the last answer that refused and will be asked for again, until there is a better one */
    struct report_problem refused;
};

struct load {
    struct server *s;
    const char *const *given; /* ngiven, of load_open; NULL if none */
    int ngiven;
    struct http *http; /* owned, like the URLs of the workers, nurls */
    char **urls;       /* these change between passes: load_look() */
    int nurls;
    unsigned threads;      /* of a pass; 0: LOAD_THREADS */
    struct load_rate rate; /* mu: of what is fetched from the stores */
    uint8_t mark; /* of what a pass asks for, so that the workers count what they evict of it; 0:
                     none */
    const char *unpin_how; /* of what is pinned: for messages */
    pthread_mutex_t mu;
    struct pool *pool;    /* of this pass */
    struct load_counts n; /* mu: of this pass */
    unsigned row;         /* mu: files failed since the last that did not */
    bool pins_full;       /* mu: a worker takes no more pins */
    const struct load_path
        *empty;  /* the first path in which this pass has found no file, or NULL */
    bool enough; /* mu: set, and unset, from outside: what is left of this pass is skipped */
    struct load_waits waits;         /* mu */
    char first_error[512];           /* mu */
    struct load_failed_files failed; /* mu: of this pass */
};

/* urls: of the workers instead of those that the configuration names, borrowed; nurls 0: none.
 * Close it also when that failed. */
int load_open(struct load *l, struct server *s, const char *const *urls, int nurls, struct err *e);
void load_close(struct load *l);
/* Between passes: has the number of workers changed? What a pass loads has other owners then. */
bool load_look(struct load *l);

/* A listing asks a mount's store. */
void load_asks(struct load *l, size_t mount);
/* asked: and waits no longer. e: the store refused, and is asked again; NULL: it answered. */
void load_answered(struct load *l, bool asked, const struct err *e);
/* What the listing waits for; false: nothing. l->mu is held. */
bool load_waits_for(const struct load *l, struct report_problem *out);

/* -1: it did not come to its end, or a path is not there (NOTFOUND; what the others have is
 * loaded); files that failed are counted, and are no error of the pass. pins_full and enough say
 * whether that was why. */
int load_pass(struct load *l, const struct load_path *paths, size_t n, struct err *e);

/* Calls fn for each file below the paths, once, whichever of them are above it; it takes path. pin:
 * PIN if any of those says so. */
struct load_each {
    bool changing; /* only in mounts that are not immutable */
    void (*fn)(void *user, size_t mount, char *path_taken, const struct store_stat *st,
        enum request_pin pin);
    void *user;
    const struct load_path *empty; /* out: the first path below which there is no file, or NULL */
};
/* NOTFOUND: a path is not there; e names all of those, and what the others have was given. */
int load_list(
    struct load *l, const struct load_path *paths, size_t n, struct load_each *each, struct err *e);
/* NOTFOUND: says where files were looked for in vain; -1. */
int load_set_empty(const struct load *l, const struct load_path *path, struct err *e);
/* Adds a file that was listed. */
void load_count(const struct load *l, struct load_counts *n, size_t mount, const char *path,
    const struct store_stat *st, enum request_pin pin);

/* false: the program ends */
bool load_pause(struct load *l, int64_t ns);
/* Until the stores answer; RETRY names the problem when that takes longer. */
int load_wait_ready(struct load *l, int64_t wait_ns, struct err *e);
/* Ends the pins of every file on every worker, also of those that are in no listing. unless: but on
 * a worker that was given the same word before; NULL: on all. */
int load_unpin_all(struct load *l, const char *unless, struct err *e);
/* Ends the marks of what the last passes with l->mark did not ask for. */
int load_unmark(struct load *l, struct err *e);

/* Which parts of which mounts a path of the dataset's tree means: the mount it is in, and mounts
 * below it. NULL if none. Pure. */
struct load_target {
    size_t mount;
    char *dir; /* below the mount, "" for all of it; owned */
};
struct load_target *load_targets(const struct conf *conf, const char *path, size_t *n);
void load_targets_free(struct load_target *t, size_t n);
/* Why a path may be one that is not there, as " (…)", or "". A literal. */
const char *load_path_hint(const char *path);

#endif
