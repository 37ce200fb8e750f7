/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue's counting: blocks and pages of a file, and whether it or its segments are what the
 * queue holds. */
#include "fuse/cache/cache.h"
#include "fuse/cache/catalogue_priv.h"
#include "lib/base/mem.h"

#define PAGE 4096u

static uint32_t blocks_of(const struct cat_entry *s)
{
    return (uint32_t)(s->size / CACHE_BLOCK + (s->size % CACHE_BLOCK != 0));
}

static uint32_t add_pages(uint32_t pages, int64_t more) { return (uint32_t)(pages + more); }

void catalogue_place(struct catalogue *cat, uint32_t id, int tier, int64_t location, bool resident)
{
    pthread_mutex_lock(&cat->mu);
    struct cat_entry *s = entry_at(cat, id);
    s->tier = (uint8_t)tier;
    s->location = location;
    s->use->is_resident = resident;
    pthread_mutex_unlock(&cat->mu);
}

static void account_seg(struct catalogue *cat, uint32_t id, uint32_t seg, int64_t pages)
{
    struct cat_entry *f = entry_at(cat, id);
    uint32_t unit = f->use->units[seg];
    if (unit == NONE && pages > 0)
        unit = entry_unit_new(cat, id, seg, 0);
    if (unit == NONE) { /* no memory for a unit: counted, but not evictable alone */
        f->pages = add_pages(f->pages, pages);
        return;
    }
    struct cat_entry *u = entry_at(cat, unit);
    u->pages = add_pages(u->pages, pages);
    s3f_weigh(entry_queue(cat, unit), unit, u->pages);
    if (u->pages == 0)
        entry_unit_free(cat, unit);
}

/* The file as a unit of the queue has so many pages. */
static void weigh_whole(struct catalogue *cat, uint32_t id, uint32_t pages)
{
    struct cat_entry *f = entry_at(cat, id);
    f->pages = pages;
    if (!pages)
        s3f_remove(entry_queue(cat, id), id);
    else if (f->unit.queue != S3F_OUT)
        s3f_weigh(entry_queue(cat, id), id, pages);
    else if (!(f->flags & ENTRY_DEAD))
        entry_enqueue(cat, id);
}

void catalogue_account(
    struct catalogue *cat, uint32_t id, uint32_t seg, int32_t blocks, int64_t pages, uint32_t crc)
{
    pthread_mutex_lock(&cat->mu);
    struct cat_entry *f = entry_at(cat, id);
    bool had = f->valid > 0;
    f->valid = (uint32_t)((int64_t)f->valid + blocks);
    if (had != (f->valid > 0))
        cat->nwith_data += f->valid ? 1 : (uint64_t)-1;
    if (blocks_of(f) == 1 && blocks > 0)
        f->crc0 = crc;
    if (f->use->nsegs > 1 && !(f->flags & (ENTRY_COMPLETE | ENTRY_DEAD)))
        account_seg(cat, id, seg, pages);
    else
        weigh_whole(cat, id, add_pages(f->pages, pages));
    pthread_mutex_unlock(&cat->mu);
}

void catalogue_finish(struct catalogue *cat, uint32_t id, int64_t mtime_ns)
{
    pthread_mutex_lock(&cat->mu);
    struct cat_entry *f = entry_at(cat, id);
    bool was = f->flags & ENTRY_COMPLETE;
    if (f->use->nsegs > 1 && !was) {
        entry_join(cat, id);
        if (!(f->flags & ENTRY_DEAD))
            entry_enqueue(cat, id);
    }
    if (cat->tiers[f->tier].conf.is_lasting)
        f->location = mtime_ns;
    f->flags |= ENTRY_COMPLETE;
    cat->ncomplete += !was;
    pthread_mutex_unlock(&cat->mu);
}

static uint32_t full_pages(const struct cat_entry *f, uint32_t seg)
{
    uint64_t pages = f->size / PAGE + (f->size % PAGE != 0);
    return (uint32_t)MIN(CATALOGUE_SEG_PAGES, pages - (uint64_t)seg * CATALOGUE_SEG_PAGES);
}

/* What the queue holds of a partial file of many segments is its segments, of so many pages each.
 * NULL: all there can be, but those that one of them lost. */
static void split(
    struct catalogue *cat, uint32_t id, const uint32_t *pages, uint32_t seg, uint64_t lost)
{
    struct cat_entry *f = entry_at(cat, id);
    uint64_t sum = 0;
    s3f_remove(entry_queue(cat, id), id);
    for (uint32_t i = 0; i < f->use->nsegs; i++) {
        uint32_t n = pages ? pages[i] : full_pages(f, i) - (i == seg ? (uint32_t)lost : 0);
        /* without memory for the unit it is not evictable until it is opened again */
        if (n && entry_unit_new(cat, id, i, n) != NONE)
            sum += n;
    }
    /* a kill -9 may have left the count behind by a block or two */
    cat->tiers[f->tier].used += sum - f->pages;
    f->pages = 0;
    f->flags |= ENTRY_SPLIT;
}

void catalogue_unfinish(struct catalogue *cat, uint32_t id, uint32_t seg, uint64_t pages)
{
    pthread_mutex_lock(&cat->mu);
    struct cat_entry *f = entry_at(cat, id);
    if (f->flags & ENTRY_COMPLETE) {
        f->flags &= (uint8_t)~ENTRY_COMPLETE;
        cat->ncomplete--;
        if (f->use->nsegs > 1 && !(f->flags & ENTRY_DEAD))
            split(cat, id, NULL, seg, pages);
    }
    pthread_mutex_unlock(&cat->mu);
}

/* The file was open before: its segments are in the queue. */
static void reconcile_units(struct catalogue *cat, uint32_t id, const uint32_t *pages)
{
    struct cat_entry *f = entry_at(cat, id);
    uint64_t *used = &cat->tiers[f->tier].used;
    for (uint32_t unit = f->owner, next; unit != NONE; unit = next) {
        struct cat_entry *u = entry_at(cat, unit);
        next = u->chain;
        *used += (uint64_t)pages[u->seg] - u->pages; /* records are gone from the sidecar */
        u->pages = pages[u->seg];
        s3f_weigh(entry_queue(cat, unit), unit, u->pages);
        if (!u->pages)
            entry_unit_free(cat, unit);
    }
    *used -= f->pages; /* of segments for which there was no memory */
    f->pages = 0;
    for (uint32_t i = 0; i < f->use->nsegs; i++)
        if (pages[i] && f->use->units[i] == NONE && entry_unit_new(cat, id, i, pages[i]) != NONE)
            *used += pages[i];
}

static void reconcile_whole(struct catalogue *cat, uint32_t id, const uint32_t *pages)
{
    struct cat_entry *f = entry_at(cat, id);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < f->use->nsegs; i++)
        sum += pages[i];
    cat->tiers[f->tier].used += sum - f->pages;
    weigh_whole(cat, id, (uint32_t)sum);
}

void catalogue_reconcile(struct catalogue *cat, uint32_t id, uint32_t valid, const uint32_t *pages)
{
    pthread_mutex_lock(&cat->mu);
    struct cat_entry *f = entry_at(cat, id);
    bool complete = valid == blocks_of(f), was = f->flags & ENTRY_COMPLETE;
    if (complete && !was) {
        f->flags |= ENTRY_COMPLETE;
        f->location = 0; /* not verified */
        cat->ncomplete++;
    } else if (was && !complete) {
        f->flags &= (uint8_t)~ENTRY_COMPLETE;
        cat->ncomplete--;
    }
    if (!valid && f->valid)
        cat->nwith_data--;
    if (complete && f->flags & ENTRY_SPLIT)
        entry_join(cat, id);
    bool many = f->use->nsegs > 1 && !complete;
    if (many && f->flags & ENTRY_SPLIT)
        reconcile_units(cat, id, pages);
    else if (many && !(f->flags & ENTRY_DEAD))
        split(cat, id, pages, 0, 0);
    else
        reconcile_whole(cat, id, pages);
    entry_at(cat, id)->valid = valid;
    pthread_mutex_unlock(&cat->mu);
}

void catalogue_forget(struct catalogue *cat, uint32_t id)
{
    pthread_mutex_lock(&cat->mu);
    entry_join(cat, id);
    struct cat_entry *f = entry_at(cat, id);
    s3f_remove(entry_queue(cat, id), id);
    cat->tiers[f->tier].used -= f->pages;
    if (f->flags & ENTRY_COMPLETE)
        cat->ncomplete--;
    if (f->valid)
        cat->nwith_data--;
    f->flags &= (uint8_t)~ENTRY_COMPLETE;
    f->pages = f->valid = 0;
    pthread_mutex_unlock(&cat->mu);
}
