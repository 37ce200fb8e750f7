/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share: owner.c weighs workers and chunks, number.c tells how many
 * workers there are, health.c which are up, call.c what is said to them and how it is told from
 * what others say, race.c fetches from one of them with the store as a second runner, peers.c picks
 * the worker that has a chunk, where.c tells who has what of a file. */
#ifndef MILLRACE_FUSE_PEERS_PRIV_H
#define MILLRACE_FUSE_PEERS_PRIV_H

#include "fuse/peers/peers.h"
#include "lib/base/clock.h"
#include "lib/base/pool.h"
#include "lib/http/http.h"

#include <pthread.h>

struct peer {
    char *url;
    uint64_t seed;         /* of its name */
    pthread_mutex_t mu;    /* a leaf */
    int64_t down_until_ns; /* mu; 0: up */
    int64_t backoff_ns;    /* mu */
    int silent;            /* mu */
};

struct peers {
    const struct conf *conf;
    struct store *const *stores;
    struct peer *workers; /* room for as many as there may be; ones that went keep their place */
    atomic_int nworkers;
    const char *const *urls;
    int max_workers;
    pthread_mutex_t mu; /* while their number changes; outermost */
    int made;           /* mu: workers that have begun, ≥ nworkers */
    int64_t look_ns;
    _Atomic int64_t next_look_ns;
    /* set before nworkers is first > 0 */
    struct http *http;
    const struct sign_key *key;
    struct pool *pool, *hedge_pool;
    int64_t hedge_ns;
    atomic_int tokens;
    atomic_bool stopping;
    _Atomic uint64_t worker_bytes, store_bytes, hedged, hedges_won, bypassed, corrupt;
};

/* -- owner.c --------------------------------------------------------------------------------- */

uint64_t peers_chunk(const char *mount_point, const char *path, uint64_t off);
uint64_t peer_seed(const char *name, int i); /* the owner has the largest hash of both */

/* what workers' names begin with */
const char *peers_worker_name(const struct conf *conf);

/* -- number.c -------------------------------------------------------------------------------- */

/* Called once: as many as there are now, and may be. */
int peers_count(struct peers *p, const struct peers_conf *rc, struct err *e);
/* How many workers there are; looks again now and then. Of those, workers[] can be used. */
int peers_number(struct peers *p);

/* -- health.c -------------------------------------------------------------------------------- */

/* After its pause a worker is tried by one request (*probe); the others go to the store until that
 * found something. */
bool peer_may_be_asked(struct peer *w, bool *probe);
/* It was taken away and comes back: what it was before counts no more. */
void peer_begin_anew(struct peer *w);
void peer_answered(struct peer *w);
void peer_failed(struct peer *w, const char *why);
/* It gave no byte in time. Several times in a row, or once to a probe: it counts as down. */
void peer_silent(struct peer *w, bool probe);

/* -- call.c ---------------------------------------------------------------------------------- */

#define PEERS_DATA      "/v1/data"
#define PEERS_CRCS_TEXT (PEERS_CRCS_MAX * 9 + 1) /* bytes of the header */
#define PEERS_UNSIGNED  "its answer is not signed with the key of this Dataset"
/* Does the answer come from one who has the key? request: its SIGN_REQUEST_HEADER. key NULL: yes.
 */
bool peers_is_signed(const struct sign_key *key, const char *request, const struct http_resp *resp);

/* -- race.c ---------------------------------------------------------------------------------- */

#define PEERS_THREADS       48
#define PEERS_HEDGE_THREADS 8
/* a hedge costs 10, a request earns 1: a slow store is not asked twice for ever */
#define PEERS_HEDGE_TOKENS 80
#define PEERS_HEDGE_COST   10

/* A request was made: earns a part of a hedge. */
void peers_earn_hedge(struct peers *p);
/* Fetches from a worker, and from the store as well when the worker is late. 0: the sink has all;
 * 1: the store has to be asked for the rest, after *got; -1: e. */
int peers_race(struct peers *p, struct peer *w, const struct cache_key *key, uint64_t off,
    size_t len, struct cache_sink *sink, bool probe, const atomic_bool *cancel, size_t *got,
    struct err *e);

#endif
