/* SPDX-License-Identifier: Apache-2.0 */
/* One fetch from a worker, with the store as a second runner when the worker is late. */
#include "fuse/peers/priv.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_BYTES_PER_S (4 << 20) /* a worker that delivers less is slow, too */
#define STALL_NS         (20 * NS_PER_S)
/* pauses of hedge_ns without a byte, and no hedge was allowed */
#define SILENT_PAUSES_MAX 10

/* One fetch by up to two threads: the one that asks the worker gives its bytes to the sink as they
 * come (unless it was given up), the one that asks the store has a buffer of its own. */
struct peer_fetch {
    struct peers *peers;
    struct peer *w;
    char *path, *version;
    struct cache_key key; /* its strings are path and version */
    uint64_t off;
    size_t len;
    bool probe; /* the worker was down: it gets no more time than a hedge needs */
    pthread_mutex_t mu;
    pthread_cond_t changed;
    unsigned refs;           /* mu: the reader and the threads */
    struct cache_sink *sink; /* mu; NULL: it takes no more */
    size_t came;             /* mu: bytes from the worker */
    size_t got;              /* mu: of those, what is in the sink */
    /* mu; the worker's checksums of the blocks; NULL: it sends none, bytes go on as they come */
    uint32_t *crcs;
    char *block;       /* mu: what has come of the block at `got` */
    const char *wrong; /* mu: why nothing of the worker's answer is used */
    char auth[SIGN_REQUEST_MAX];
    bool refused;                                             /* mu: by the sink */
    char *hedge;                                              /* mu: from the store */
    enum { RUNNING, DONE, FAILED } worker_state, store_state; /* mu */
    int worker_status;                                        /* mu: HTTP, 0 if none */
    struct err worker_err, store_err;                         /* mu */
    atomic_bool cancel_worker, cancel_store;
};

static bool hedge_allowed(struct peers *p)
{
    int now = atomic_load(&p->tokens);
    while (now >= PEERS_HEDGE_COST)
        if (atomic_compare_exchange_weak(&p->tokens, &now, now - PEERS_HEDGE_COST))
            return true;
    return false;
}

void peers_earn_hedge(struct peers *p)
{
    int now = atomic_load(&p->tokens);
    while (now < PEERS_HEDGE_TOKENS && !atomic_compare_exchange_weak(&p->tokens, &now, now + 1))
        ;
}

static void peer_fetch_put(struct peer_fetch *j) /* j->mu is held on entry */
{
    bool last = --j->refs == 0;
    pthread_mutex_unlock(&j->mu);
    if (!last)
        return;
    pthread_cond_destroy(&j->changed);
    pthread_mutex_destroy(&j->mu);
    free(j->hedge);
    free(j->crcs);
    free(j->block);
    free(j->path);
    free(j->version);
    free(j);
}

/* To the sink, unless it was given up. j->mu is held. */
static bool give(struct peer_fetch *j, const void *data, size_t len)
{
    if (!j->sink)
        return false;
    j->sink->origin = 1;
    if (j->sink->take(j->sink->user, data, len)) {
        j->refused = true;
        return false;
    }
    j->got += len;
    return true;
}

/* Nothing of a block is used before all of it was compared: a sink takes nothing back. */
static bool gather(struct peer_fetch *j, const char *data, size_t len)
{
    while (len) {
        size_t whole = MIN((size_t)CACHE_BLOCK, j->len - j->got), in = j->came - j->got,
               piece = MIN(len, whole - in);
        memcpy(j->block + in, data, piece);
        j->came += piece;
        data += piece;
        len -= piece;
        if (in + piece < whole)
            break;
        if (crc32c(0, j->block, whole) != j->crcs[j->got / CACHE_BLOCK]) {
            atomic_fetch_add(&j->peers->corrupt, 1);
            j->wrong = "a block that it sent is not as its checksum says";
            return false;
        }
        if (!give(j, j->block, whole))
            return false;
    }
    return true;
}

static int forward_bytes(void *user, const void *data, size_t len)
{
    struct peer_fetch *j = user;
    pthread_mutex_lock(&j->mu);
    bool taken = j->sink && len <= j->len - j->came;
    if (taken && j->crcs) {
        taken = gather(j, data, len);
    } else if (taken) {
        taken = give(j, data, len);
        j->came = j->got;
    }
    pthread_mutex_unlock(&j->mu);
    return taken ? 0 : -1;
}

/* The checksums of the answer; true: nothing is wrong with them. */
static bool take_crcs(struct peer_fetch *j, const char *text)
{
    size_t n = (j->len + CACHE_BLOCK - 1) / CACHE_BLOCK;
    if (!*text || j->off % CACHE_BLOCK) /* an older worker; or no reader's range */
        return !j->peers->key;
    uint32_t *crcs = malloc(n * sizeof *crcs);
    char *block = malloc(MIN((size_t)CACHE_BLOCK, j->len));
    if (!crcs || !block || peers_crcs_parse(text, crcs, n)) {
        free(crcs);
        free(block);
        return false;
    }
    pthread_mutex_lock(&j->mu);
    j->crcs = crcs;
    j->block = block;
    pthread_mutex_unlock(&j->mu);
    return true;
}

static void not_used(struct peer_fetch *j, const char *why)
{
    pthread_mutex_lock(&j->mu);
    j->wrong = why;
    pthread_mutex_unlock(&j->mu);
}

/* Is it the range that was asked for, from one who has the key? A server that knows nothing of
 * ranges must not get further. */
static int check_answer(void *user, const struct http_resp *resp)
{
    struct peer_fetch *j = user;
    char want[96], range[96] = "", crcs[PEERS_CRCS_TEXT] = "";
    snprintf(want, sizeof want, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, j->off,
        j->off + j->len - 1, j->key.size);
    if (resp->status != 206 || !http_header(resp, "content-range", range, sizeof range)
        || strcmp(range, want) != 0)
        return -1;
    if (!peers_is_signed(j->peers->key, j->auth, resp)) {
        not_used(j, PEERS_UNSIGNED);
        return -1;
    }
    http_header(resp, SIGN_CRC_HEADER, crcs, sizeof crcs);
    if (take_crcs(j, crcs))
        return 0;
    not_used(j, "the checksums that it sent are not those of what was asked for");
    return -1;
}

/* What a failed request says, with the text of the worker. */
static int refusal(struct peer_fetch *j, struct http_resp *resp, struct err *e)
{
    char *text = buf_str(&resp->body);
    if (resp->status == 401)
        not_used(j, "it has another key, or we have none");
    else if (!peers_is_signed(j->peers->key, j->auth, resp))
        not_used(j, PEERS_UNSIGNED);
    return err_set(e, http_class_of_status(resp->status), "%s: %.*s", j->w->url,
        (int)strcspn(text, "\r\n"), text);
}

static void ask_peer(void *arg) /* takes over a ref */
{
    struct peer_fetch *j = arg;
    cleanup_free char *query = peers_query(&j->key);
    cleanup_free char *url = xasprintf("%s" PEERS_DATA "?%s", j->w->url, query);
    char range[80], auth[SIGN_REQUEST_MAX + 32];
    snprintf(range, sizeof range, "Range: bytes=%" PRIu64 "-%" PRIu64, j->off, j->off + j->len - 1);
    const char *headers[] = {range, NULL, NULL};
    if (j->peers->key) {
        const struct sign_ask ask = {"GET", PEERS_DATA, query, range + strlen("Range: ")};
        sign_request(j->peers->key, &ask, clock_real_ns() / NS_PER_S, j->auth);
        snprintf(auth, sizeof auth, SIGN_REQUEST_HEADER ": %s", j->auth);
        headers[1] = auth;
    }
    struct http_req req = {.method = "GET",
        .url = url,
        .headers = headers,
        .sink = forward_bytes,
        .begin = check_answer,
        .sink_user = j,
        .stall_ns = STALL_NS,
        .cancel = &j->cancel_worker};
    struct http_resp resp = {0};
    struct err e = ERR_INIT;
    int rc = atomic_load(&j->cancel_worker) ? err_set(&e, ERR_RETRY, "cancelled")
                                            : http_do(j->peers->http, &req, &resp, &e);
    if (rc == 0 && resp.status / 100 != 2)
        rc = refusal(j, &resp, &e);
    pthread_mutex_lock(&j->mu);
    if (rc == 0 && j->got != j->len)
        rc = err_set(&e, ERR_RETRY, "%s sent %zu bytes of %zu", j->w->url, j->got, j->len);
    j->worker_status = resp.status;
    j->worker_state = rc ? FAILED : DONE;
    j->worker_err = e;
    pthread_cond_broadcast(&j->changed);
    http_resp_free(&resp);
    peer_fetch_put(j);
}

static void ask_store(void *arg) /* takes over a ref */
{
    struct peer_fetch *j = arg;
    struct err e = ERR_INIT;
    char *buf = malloc(j->len);
    int rc = buf ? 0 : err_sys(&e, ENOMEM, "read %s", j->path);
    struct store *s = j->key.mount < j->peers->conf->nmounts ? j->peers->stores[j->key.mount]
                                                             : NULL;
    if (rc == 0 && !s)
        rc = err_set(&e, ERR_RETRY, "the store of %s cannot be used", j->path);
    if (rc == 0)
        rc = store_read(s, j->path, j->version, j->off, j->len, buf, &j->cancel_store, &e);
    pthread_mutex_lock(&j->mu);
    j->hedge = buf;
    j->store_state = rc ? FAILED : DONE;
    j->store_err = e;
    pthread_cond_broadcast(&j->changed);
    peer_fetch_put(j);
}

/* -- one fetch ------------------------------------------------------------------------------- */

static struct peer_fetch *peer_fetch_new(struct peers *p, struct peer *w,
    const struct cache_key *key, uint64_t off, size_t len, struct cache_sink *sink)
{
    struct peer_fetch *j = calloc(1, sizeof *j);
    char *path = strdup(key->path), *version = strdup(key->version);
    if (!j || !path || !version) {
        free(j);
        free(path);
        free(version);
        return NULL;
    }
    *j = (struct peer_fetch){.peers = p,
        .w = w,
        .path = path,
        .version = version,
        .key = {key->mount, path, version, key->size},
        .off = off,
        .len = len,
        .refs = 1,
        .sink = sink,
        .store_state = FAILED};
    pthread_mutex_init(&j->mu, NULL);
    clock_cond_init(&j->changed);
    return j;
}

static void peer_fetch_wait(struct peer_fetch *j, int64_t ns)
{
    clock_cond_wait(&j->changed, &j->mu, ns);
}

/* The worker is late. j->mu is held. */
static bool begin_hedge(struct peer_fetch *j)
{
    struct peers *p = j->peers;
    if (!j->probe && !hedge_allowed(p))
        return false;
    j->refs++;
    j->store_state = RUNNING;
    if (pool_queued(p->hedge_pool, 0) >= PEERS_HEDGE_THREADS
        || pool_add(p->hedge_pool, 0, ask_store, j)) {
        j->refs--;
        j->store_state = FAILED;
        return false;
    }
    atomic_fetch_add(&p->hedged, 1);
    return true;
}

/* Until one of both has the bytes, all failed, or the worker was silent for too long. j->mu is
 * held. */
static void race(struct peer_fetch *j, const atomic_bool *cancel)
{
    struct peers *p = j->peers;
    int64_t start = clock_mono_ns(), moved = start;
    size_t seen = 0;
    bool hedged = false;
    while (!(cancel && atomic_load(cancel)) && !atomic_load(&p->stopping)) {
        if (j->refused || j->worker_state == DONE || j->store_state == DONE
            || (j->worker_state == FAILED && j->store_state == FAILED))
            break;
        int64_t now = clock_mono_ns();
        if (j->came != seen) {
            seen = j->came;
            moved = now;
        }
        int64_t slow = start + p->hedge_ns + (int64_t)j->len * NS_PER_S / SLOW_BYTES_PER_S;
        if (!hedged && j->worker_state == RUNNING && now >= MIN(moved + p->hedge_ns, slow))
            hedged = begin_hedge(j);
        if (!hedged && !seen && now >= start + SILENT_PAUSES_MAX * p->hedge_ns)
            break;
        int64_t next = MIN(moved + p->hedge_ns, slow);
        peer_fetch_wait(
            j, hedged || next <= now ? now + 100 * NS_PER_MS : MIN(next, now + 100 * NS_PER_MS));
    }
}

static int err_cancelled(const struct cache_key *key, struct err *e)
{
    err_set(e, ERR_RETRY, "read %s: cancelled", key->path);
    e->sys = ECANCELED;
    return -1;
}

/* The store was faster, or the worker broke off: what is missing comes from there. j->mu is held.
 */
static int use_hedge(struct peer_fetch *j, struct err *e)
{
    size_t left = j->len - j->got;
    j->sink->origin = 0;
    if (j->sink->take(j->sink->user, j->hedge + j->got, left))
        return err_cancelled(&j->key, e);
    atomic_fetch_add(&j->peers->store_bytes, left);
    atomic_fetch_add(&j->peers->hedges_won, 1);
    return 0;
}

int peers_race(struct peers *p, struct peer *w, const struct cache_key *key, uint64_t off,
    size_t len, struct cache_sink *sink, bool probe, const atomic_bool *cancel, size_t *got,
    struct err *e)
{
    *got = 0;
    struct peer_fetch *j = peer_fetch_new(p, w, key, off, len, sink);
    if (!j)
        return 1;
    j->probe = probe;
    pthread_mutex_lock(&j->mu);
    j->refs++;
    /* all threads wait for workers */
    if (pool_queued(p->pool, 0) >= PEERS_THREADS || pool_add(p->pool, 0, ask_peer, j)) {
        j->refs--;
        peer_fetch_put(j);
        return 1;
    }
    race(j, cancel);
    int rc = 1;
    *got = j->got;
    atomic_fetch_add(&p->worker_bytes, j->got);
    if (j->worker_state == DONE) {
        rc = 0;
        peer_answered(w);
    } else if (j->refused) {
        rc = err_cancelled(key, e);
    } else if (j->store_state == DONE) {
        rc = use_hedge(j, e);
        if (j->got == 0)
            peer_silent(w, probe);
    } else if (j->worker_state == RUNNING && !(cancel && atomic_load(cancel))
        && !atomic_load(&p->stopping)) {
        peer_silent(w, probe);
    } else if (j->worker_state == RUNNING) {
        rc = err_cancelled(key, e);
    } else if (j->wrong) { /* what is not in the sink comes from the store */
        peer_failed(w, j->wrong);
    } else if (j->worker_status == 409) { /* the worker looked: the store has another version */
        *e = j->worker_err;
        e->sys = ESTALE;
        rc = -1;
    } else if (j->worker_status == 0) {
        peer_failed(w, j->worker_err.msg);
    } else { /* alive, but it can't help with this one */
        peer_answered(w);
    }
    j->sink = NULL;
    atomic_store(&j->cancel_worker, true);
    atomic_store(&j->cancel_store, true);
    peer_fetch_put(j);
    return rc;
}
