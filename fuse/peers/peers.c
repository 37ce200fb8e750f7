/* SPDX-License-Identifier: Apache-2.0 */
/* A range of a file, from the workers that own its chunks or from the store. */
#include "fuse/peers/priv.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEDGE_NS (500 * NS_PER_MS)

static struct peer *owner_of_chunk(struct peers *p, const struct cache_key *key, uint64_t off)
{
    const char *mount = key->mount < p->conf->nmounts ? p->conf->mounts[key->mount].mount_point
                                                      : "";
    uint64_t chunk = peers_chunk(mount, key->path, off), best = 0;
    struct peer *owner = NULL;
    for (int i = 0, n = peers_number(p); i < n; i++) {
        uint64_t weight = hash64_mix(p->workers[i].seed, chunk);
        if (!owner || weight > best) {
            best = weight;
            owner = &p->workers[i];
        }
    }
    return owner;
}

static int fetch_from_store(struct peers *p, const struct cache_key *key, uint64_t off, size_t len,
    struct cache_sink *sink, const atomic_bool *cancel, struct err *e)
{
    struct store *s = key->mount < p->conf->nmounts ? p->stores[key->mount] : NULL;
    if (!s)
        return err_set(e, ERR_RETRY, "the store of %s cannot be used", key->path);
    sink->origin = 0;
    if (sink->is_ahead && store_is_silent(s))
        return err_set(e, ERR_RETRY, "%s is not read ahead: its store does not answer", key->path);
    if (store_stream_of(
            s, key->path, key->version, key->size, off, len, sink->take, sink->user, cancel, e))
        return -1;
    atomic_fetch_add(&p->store_bytes, len);
    return 0;
}

int peers_fetch(void *user, const struct cache_key *key, uint64_t off, size_t len,
    struct cache_sink *sink, const atomic_bool *cancel, struct err *e)
{
    struct peers *p = user;
    struct err none = ERR_INIT;
    e = e ? e : &none;
    for (size_t done = 0; done < len;) { /* a range over two chunks has two owners */
        uint64_t at = off + done;
        size_t part = (size_t)MIN((uint64_t)(len - done), PEERS_CHUNK - at % PEERS_CHUNK), got = 0;
        struct peer *w = owner_of_chunk(p, key, at);
        int rc = 1;
        bool probe;
        peers_earn_hedge(p);
        if (w && peer_may_be_asked(w, &probe))
            rc = peers_race(p, w, key, at, part, sink, probe, cancel, &got, e);
        else if (w)
            atomic_fetch_add(&p->bypassed, 1);
        if (rc == 1)
            rc = got < part ? fetch_from_store(p, key, at + got, part - got, sink, cancel, e) : 0;
        if (rc)
            return -1;
        done += part;
    }
    return 0;
}

size_t peers_part(void *user, uint32_t mount)
{
    struct peers *p = user;
    return mount < p->conf->nmounts && !peers_number(p)
        ? store_part(p->conf->mounts[mount].mount_point)
        : 0;
}

/* -- lifecycle ------------------------------------------------------------------------------- */

struct peers *peers_new(const struct peers_conf *rc, struct err *e)
{
    struct peers *p = xcalloc(1, sizeof *p);
    p->conf = rc->conf;
    p->stores = rc->stores;
    p->key = rc->key;
    p->hedge_ns = rc->hedge_ns ? rc->hedge_ns : HEDGE_NS;
    p->tokens = PEERS_HEDGE_TOKENS;
    p->urls = rc->nurls ? rc->urls : NULL;
    pthread_mutex_init(&p->mu, NULL);
    if (peers_count(p, rc, e) == 0)
        return p;
    peers_free(p);
    return NULL;
}

void peers_free(struct peers *p)
{
    if (!p)
        return;
    atomic_store(&p->stopping, true);
    pool_free(p->pool);
    pool_free(p->hedge_pool);
    http_free(p->http);
    for (int i = 0; i < p->made; i++) {
        pthread_mutex_destroy(&p->workers[i].mu);
        free(p->workers[i].url);
    }
    free(p->workers);
    pthread_mutex_destroy(&p->mu);
    free(p);
}

void peers_stats(struct peers *p, struct peers_stats *out)
{
    *out = (struct peers_stats){.worker_bytes = p->worker_bytes,
        .store_bytes = p->store_bytes,
        .hedged = p->hedged,
        .hedges_won = p->hedges_won,
        .bypassed = p->bypassed,
        .corrupt = p->corrupt,
        .workers = peers_number(p)};
    for (int i = 0; i < out->workers; i++) {
        pthread_mutex_lock(&p->workers[i].mu);
        out->down += p->workers[i].down_until_ns != 0;
        pthread_mutex_unlock(&p->workers[i].mu);
    }
}
