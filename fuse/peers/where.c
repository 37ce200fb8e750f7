/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker has what of a file. */
#include "fuse/peers/priv.h"

#include "lib/base/each.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ASK_NS      (2 * NS_PER_S)
#define ASK_THREADS 16

static int owner_index(struct peers *p, int n, const struct cache_key *key, uint64_t off)
{
    const char *mount = key->mount < p->conf->nmounts ? p->conf->mounts[key->mount].mount_point
                                                      : "";
    return peers_owner(peers_worker_name(p->conf), n, mount, key->path, off);
}

size_t peers_shares(struct peers *p, const struct cache_key *key, struct peers_share **out)
{
    int n = peers_number(p);
    size_t kept = 0;
    struct peers_share *all = xcalloc((size_t)n + 1, sizeof *all);
    for (uint64_t off = 0; n && off < key->size; off += PEERS_CHUNK)
        all[owner_index(p, n, key, off)].owns += MIN(PEERS_CHUNK, key->size - off);
    for (int i = 0; i < n; i++)
        if (all[i].owns) {
            all[kept] = (struct peers_share){.owns = all[i].owns, .index = i};
            all[kept++].worker = xasprintf("%s-%d", peers_worker_name(p->conf), i);
        }
    *out = all;
    return kept;
}

struct shares_ask {
    struct peers *p;
    struct peers_share *shares;
    const char *query;
};

static bool is_down(struct peer *w)
{
    pthread_mutex_lock(&w->mu);
    bool down = clock_mono_ns() < w->down_until_ns;
    pthread_mutex_unlock(&w->mu);
    return down;
}

/* -1: it says no number */
static int cached_said(const char *text, uint64_t *bytes)
{
    char *end;
    errno = 0;
    *bytes = strtoull(text, &end, 10);
    return *text < '0' || *text > '9' || errno || (*end && *end != '\n') ? -1 : 0;
}

static int share_ask(void *user, size_t i, struct err *e)
{
    struct shares_ask *a = user;
    struct peers_share *s = &a->shares[i];
    struct peer *w = &a->p->workers[s->index];
    cleanup_resp struct http_resp resp = {0};
    struct err own = ERR_INIT;
    const struct peers_call call = {"GET", w->url, PEERS_CACHED, a->query, ASK_NS, NULL};
    (void)e; /* of one worker, which says it of itself */
    if (is_down(w))
        snprintf(s->why, sizeof s->why, "it does not answer");
    else if (peers_call(a->p->http, a->p->key, &call, &resp, &own))
        snprintf(s->why, sizeof s->why, "%.120s", own.msg);
    else if (resp.status != 200)
        snprintf(s->why, sizeof s->why, "it answers with status %d", resp.status);
    else if (cached_said(buf_str(&resp.body), &s->has))
        snprintf(s->why, sizeof s->why, "it answers with status 200, and no number");
    return 0;
}

void peers_shares_ask(
    struct peers *p, const struct cache_key *key, struct peers_share *shares, size_t n)
{
    cleanup_free char *query = peers_query(key);
    struct shares_ask a = {p, shares, query};
    each("where", n, ASK_THREADS, share_ask, &a, NULL, NULL);
}

void peers_shares_free(struct peers_share *shares, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(shares[i].worker);
    free(shares);
}
