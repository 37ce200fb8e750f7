/* SPDX-License-Identifier: Apache-2.0 */
/* Filling: the bytes of one block on their way to a tier, piece by piece or all at once. */
#include "fuse/cache/priv.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Marks the block as being written. The segment, or NULL: it is here already (*here) or there is no
 * memory, file or pin for it. */
static struct seg *mark_landing(struct node *n, uint32_t block, int tier, bool *here)
{
    struct seg *s = NULL;
    int failed = 0;
    pthread_mutex_lock(&n->mu);
    *here = node_has(n, block);
    bool may = !*here && keep_grow(n);
    if (may && atomic_load(&n->fd) < 0 && node_open_data(n, tier))
        failed = errno;
    if (may && !failed && n->tier == tier && (s = node_seg_make(n, block))) {
        s->landing++;
        n->landing++;
    }
    pthread_mutex_unlock(&n->mu);
    if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG)
        tier_full(n->c, tier);
    else if (failed)
        log_warn("cache: can't create a file: %s", strerror(failed));
    return s;
}

int landing_begin(struct landing *l, struct node *n, uint32_t block)
{
    struct cache *c = n->c;
    *l = (struct landing){.n = n, .block = block, .len = block_len(n, block)};
    pthread_mutex_lock(&n->mu);
    l->tier = n->tier;
    l->here = node_has(n, block);
    pthread_mutex_unlock(&n->mu);
    if (l->here)
        return 0;
    if (l->tier < 0 && (l->tier = tier_choose(c, n->slot)) < 0)
        return -1;
    uint64_t pages = to_pages(l->len);
    if (tier_reserve(c, l->tier, pages))
        return -1;
    l->s = mark_landing(n, block, l->tier, &l->here);
    if (l->s) {
        atomic_fetch_add(&c->landing, 1);
        return 0;
    }
    tier_release(c, l->tier, pages);
    return l->here ? 0 : -1;
}

int landing_write(struct landing *l, const void *data, size_t len)
{
    uint64_t off = l->n->base + (uint64_t)l->block * CACHE_BLOCK + l->done;
    l->done += (uint32_t)len;
    if (l->here)
        return 0;
    l->crc = crc32c(l->crc, data, len);
    if (!l->stored && media_write(l->n->fd, data, len, off))
        l->failed = errno;
    return l->failed ? -1 : 0;
}

/* The block is here now. n->mu is held. */
static void arrived(const struct landing *l, bool fresh)
{
    struct node *n = l->n;
    uint64_t bit = block_bit(l->block);
    l->s->crc[l->block % SEG_BLOCKS] = l->crc;
    if (fresh)
        atomic_fetch_or(&l->s->fresh, bit);
    else
        atomic_fetch_and(&l->s->fresh, ~bit);
    atomic_fetch_or(&l->s->trusted, bit);
    atomic_fetch_or(&l->s->valid, bit);
    uint32_t valid = atomic_fetch_add(&n->nvalid, 1) + 1;
    node_account(n, l->block / SEG_BLOCKS, 1, (int64_t)to_pages(l->len));
    if (valid == n->nblocks)
        node_finished(n);
}

int landing_end(struct landing *l, bool fresh)
{
    struct node *n = l->n;
    struct cache *c = n->c;
    if (!l->s)
        return 0;
    unsigned char record[META_SIDE_RECORD];
    meta_side_put(record, &n->id, l->block, l->crc);
    bool whole = l->done == l->len && !l->failed;
    if (whole && block_write_side(n, l->block, record)) {
        l->failed = errno;
        whole = false;
    }
    pthread_mutex_lock(&n->mu);
    l->s->landing--;
    n->landing--;
    /* another fetch of it landed meanwhile, with the same bytes */
    bool here = atomic_load(&l->s->valid) & block_bit(l->block);
    bool first = whole && !here && atomic_load(&n->nvalid) == 0;
    if (whole && !here)
        arrived(l, fresh);
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->mu);
    atomic_fetch_sub(&c->landing, 1);
    if (!whole || here)
        tier_release(c, l->tier, to_pages(l->len));
    else
        slot_persist(c, n->slot);
    if (first)
        cache_supersede(c, n->slot);
    int why = l->failed;
    if (why == ENOSPC || why == EDQUOT || why == EFBIG || why == ENOMEM)
        tier_full(c, l->tier);
    else if (why)
        log_warn("cache: writing to %s: %s",
            c->tiers[l->tier].dir ? c->tiers[l->tier].dir : "memory", strerror(why));
    return whole || here ? 0 : -1;
}

int block_land(struct node *n, uint32_t block, const char *data, enum land how)
{
    struct landing l;
    if (landing_begin(&l, n, block))
        return -1;
    l.stored = how == LAND_STORED;
    landing_write(&l, data, l.len);
    return landing_end(&l, how == LAND_FRESH);
}
