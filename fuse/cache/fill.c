/* SPDX-License-Identifier: Apache-2.0 */
/* Filling: the bytes of one block on their way to a tier, piece by piece or all at once. */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

#include <errno.h>
#include <string.h>

bool fill_may_grow(struct object *o)
{
    mutex_assert_held(&o->mu);
    uint64_t blocks = (uint64_t)atomic_load(&o->nvalid) + o->filling + 1;
    return catalogue_pin_grow(o->c->catalogue, o->entry, object_pages(o, blocks));
}

/* Marks the block as being written. The segment, or NULL: it is here already (*here) or there is no
 * memory, file or pin for it. */
static struct seg *fill_mark(struct object *o, uint32_t block, int tier, bool *here)
{
    struct seg *s = NULL;
    int failed = 0;
    pthread_mutex_lock(&o->mu);
    *here = object_has(o, block);
    bool may = !*here && fill_may_grow(o);
    if (may && atomic_load(&o->fd) < 0 && object_open_data(o, tier))
        failed = errno;
    if (may && !failed && o->tier == tier && (s = object_seg_make(o, block))) {
        s->filling++;
        o->filling++;
    }
    pthread_mutex_unlock(&o->mu);
    if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG)
        evict_disk_full(o->c, tier);
    else if (failed)
        log_warn("cache: can't create a file: %s", strerror(failed));
    return s;
}

int fill_begin(struct fill *l, struct object *o, uint32_t block)
{
    struct cache *c = o->c;
    *l = (struct fill){.o = o, .block = block, .len = block_len(o, block)};
    pthread_mutex_lock(&o->mu);
    l->tier = o->tier;
    l->here = object_has(o, block);
    pthread_mutex_unlock(&o->mu);
    if (l->here)
        return 0;
    if (l->tier < 0 && (l->tier = catalogue_choose(c->catalogue, o->entry, clock_mono_ns())) < 0)
        return -1;
    uint64_t pages = to_pages(l->len);
    if (evict_reserve(c, l->tier, pages))
        return -1;
    l->s = fill_mark(o, block, l->tier, &l->here);
    if (l->s) {
        atomic_fetch_add(&c->filling, 1);
        return 0;
    }
    catalogue_release(c->catalogue, l->tier, pages);
    return l->here ? 0 : -1;
}

int fill_write(struct fill *l, const void *data, size_t len)
{
    uint64_t off = l->o->base + (uint64_t)l->block * CACHE_BLOCK + l->done;
    l->done += (uint32_t)len;
    if (l->here)
        return 0;
    l->crc = crc32c(l->crc, data, len);
    if (!l->stored && io_pwrite(l->o->fd, data, len, off))
        l->failed = errno;
    return l->failed ? -1 : 0;
}

/* The block is here now. o->mu is held. */
static void fill_arrived(const struct fill *l, bool fresh)
{
    struct object *o = l->o;
    uint64_t bit = block_bit(l->block);
    l->s->crc[l->block % SEG_BLOCKS] = l->crc;
    if (fresh)
        atomic_fetch_or(&l->s->fresh, bit);
    else
        atomic_fetch_and(&l->s->fresh, ~bit);
    atomic_fetch_or(&l->s->trusted, bit);
    atomic_fetch_or(&l->s->valid, bit);
    uint32_t valid = atomic_fetch_add(&o->nvalid, 1) + 1;
    catalogue_account(
        o->c->catalogue, o->entry, l->block / SEG_BLOCKS, 1, (int64_t)to_pages(l->len), l->crc);
    if (valid == o->nblocks)
        catalogue_finish(o->c->catalogue, o->entry, location_mtime(o->fd));
}

int fill_end(struct fill *l, bool fresh)
{
    struct object *o = l->o;
    struct cache *c = o->c;
    if (!l->s)
        return 0;
    unsigned char record[META_SIDECAR_RECORD];
    meta_sidecar_put(record, &o->id, l->block, l->crc);
    bool whole = l->done == l->len && !l->failed;
    if (whole && object_write_sidecar(o, l->block, record)) {
        l->failed = errno;
        whole = false;
    }
    pthread_mutex_lock(&o->mu);
    l->s->filling--;
    o->filling--;
    /* another fetch of it came first, with the same bytes */
    bool here = atomic_load(&l->s->valid) & block_bit(l->block);
    bool first = whole && !here && atomic_load(&o->nvalid) == 0;
    if (whole && !here)
        fill_arrived(l, fresh);
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->mu);
    atomic_fetch_sub(&c->filling, 1);
    if (!whole || here)
        catalogue_release(c->catalogue, l->tier, to_pages(l->len));
    else
        table_persist(c, o->entry);
    if (first)
        evict_supersede(c, o->entry);
    int why = l->failed;
    if (why == ENOSPC || why == EDQUOT || why == EFBIG || why == ENOMEM)
        evict_disk_full(c, l->tier);
    else if (why)
        log_warn("cache: writing to %s: %s",
            c->media[l->tier].dir ? c->media[l->tier].dir : "memory", strerror(why));
    return whole || here ? 0 : -1;
}

int fill_block(struct object *o, uint32_t block, const char *data, enum fill_how how)
{
    struct fill l;
    if (fill_begin(&l, o, block))
        return -1;
    l.stored = how == FILL_STORED;
    fill_write(&l, data, l.len);
    return fill_end(&l, how == FILL_FRESH);
}
