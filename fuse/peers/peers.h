/* SPDX-License-Identifier: Apache-2.0 */
/* peers — which cache worker has which bytes, and getting them from there: chunks of 64 MiB of a
 * file are spread over the workers by rendezvous hashing of (worker's name, mount, path, chunk), so
 * every client and loader asks the same worker, and a worker that comes or goes moves its own share
 * only. A worker that gives no byte in time is hedged: the store is asked as well and the first
 * answer counts. A dead worker is bypassed, and tried again after a pause that grows to 30 s.
 * Without workers everything comes from the store. Where their number is in a file, it may change
 * at any time: what is being fetched goes on, what comes next asks the owners of the new number.
 * Blocks from a worker are compared with the checksums that it sends with them before anything of
 * them is used; with a key, answers that are not signed with it are not used either. Threads: any.
 */
#ifndef MILLRACE_FUSE_PEERS_PEERS_H
#define MILLRACE_FUSE_PEERS_PEERS_H

#include "fuse/cache/cache.h"
#include "fuse/store/store.h"
#include "lib/conf/conf.h"
#include "lib/http/http.h"
#include "lib/sign/sign.h"

#define PEERS_CHUNK (UINT64_C(64) << 20) /* bytes */

struct peers; /* opaque */

struct peers_conf {
    const struct conf *conf;     /* borrowed until peers_free */
    struct store *const *stores; /* one for each mount; borrowed; a NULL one fails with RETRY */
    /* of the Dataset; NULL: requests are not signed, answers not checked. Borrowed */
    const struct sign_key *key;
    int64_t hedge_ns; /* no byte for that long: the store is asked too; 0: 500 ms */
    int64_t look_ns;  /* how old the number of workers may be; 0: 1 s */
    /* base URLs of the workers instead of those that conf names (tests); nurls */
    const char *const *urls;
    int nurls;
};
struct peers *peers_new(const struct peers_conf *rc, struct err *e);
void peers_free(struct peers *p); /* no peers_fetch is running */

/* A cache_source's .fetch; user is the peers. Bytes from a worker have the origin 1, from the store
 * 0. */
int peers_fetch(void *peers, const struct cache_key *key, uint64_t off, size_t len,
    struct cache_sink *sink, const atomic_bool *cancel, struct err *e);

/* Its .part: of the store, unless workers are asked. */
size_t peers_part(void *peers, uint32_t mount);

#define PEERS_CACHED "/v1/cached" /* peers_query(): how many bytes of it are here, in digits */

struct peers_stats {
    uint64_t worker_bytes, store_bytes; /* that readers got */
    /* times the store was asked beside a slow worker; and was faster */
    uint64_t hedged, hedges_won;
    uint64_t corrupt;  /* blocks from workers that were not as their checksums say */
    uint64_t bypassed; /* fetches that did not ask the owner because it was down */
    int workers, down;
};
void peers_stats(struct peers *p, struct peers_stats *out);

/* The worker (0 … count-1) that has chunk off / PEERS_CHUNK of the path; -1 if count is 0. Pure,
 * and the same for ever. */
int peers_owner(
    const char *name, int count, const char *mount_point, const char *path, uint64_t off);
/* "http://<name>-<i>.<service>:<port>"; caller frees. */
char *peers_url(const struct conf *conf, int worker);
/* The part of a file that one worker owns. */
struct peers_share {
    char *worker; /* owned: its name, which is its pod's */
    int index;
    uint64_t owns; /* bytes */
    uint64_t has;  /* bytes of the file that are in its cache, if it said so */
    char why[128]; /* why it did not; "": it did */
};
/* Of the workers that own something of it, in order; has and why are not asked for yet. Caller
 * gives them back with peers_shares_free(). */
size_t peers_shares(struct peers *p, const struct cache_key *key, struct peers_share **out);
/* Asks them, some at a time and each for a second or two. One that is known to be down is not. */
void peers_shares_ask(
    struct peers *p, const struct cache_key *key, struct peers_share *shares, size_t n);
void peers_shares_free(struct peers_share *shares, size_t n);
/* A request to a worker that answers with a few words: signed where there is a key, and its answer
 * checked. As http_do; RETRY: the answer is not signed with this key. */
struct peers_call {
    const char *method, *url, *path, *query; /* url: peers_url; query: "" for none */
    int64_t stall_ns;
    const atomic_bool *cancel;
};
int peers_call(struct http *http, const struct sign_key *key, const struct peers_call *call,
    struct http_resp *resp, struct err *e);
/* The header of checksums: exactly n of them, one for each CACHE_BLOCK. The writer's caller frees
 * what it gets. -1: not so. */
char *peers_crcs_text(const uint32_t *crcs, size_t n);
int peers_crcs_parse(const char *text, uint32_t *crcs, size_t n);
#define PEERS_CRCS_MAX (PEERS_CHUNK / CACHE_BLOCK)
/* mount=…&path=…&version=…&size=… of a worker's requests, escaped; caller frees. */
char *peers_query(const struct cache_key *key);

#endif
