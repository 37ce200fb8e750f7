/* SPDX-License-Identifier: Apache-2.0 */
/* The bottom of the catalogue: the array of entries, their hash, their units and places in queues.
 */
#include "fuse/cache/catalogue_priv.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"

#include <stdlib.h>

#define BUCKETS_MIN  256u
#define PROMOTE_HITS 2

/* -- the array and the hash ------------------------------------------------------------------ */

static uint32_t entry_bucket(const struct catalogue *cat, const uint64_t path[2])
{
    return (uint32_t)path[0] & (cat->nbuckets - 1);
}

int entry_rehash(struct catalogue *cat)
{
    uint32_t n = cat->nbuckets ? cat->nbuckets * 2 : BUCKETS_MIN;
    uint32_t *buckets = malloc(n * sizeof *buckets);
    if (!buckets)
        return -1; /* longer chains are only slower; the first table is made by catalogue_new */
    for (uint32_t i = 0; i < n; i++)
        buckets[i] = NONE;
    uint32_t old_n = cat->nbuckets, *old = cat->buckets;
    cat->buckets = buckets;
    cat->nbuckets = n;
    for (uint32_t i = 0; i < old_n; i++)
        for (uint32_t id = old[i], next; id != NONE; id = next) {
            next = entry_at(cat, id)->chain;
            uint32_t b = entry_bucket(cat, entry_at(cat, id)->path);
            entry_at(cat, id)->chain = buckets[b];
            buckets[b] = id;
        }
    free(old);
    return 0;
}

static bool grow(struct catalogue *cat)
{
    struct cat_entry **more = realloc(cat->chunks, (cat->nchunks + 1u) * sizeof *more);
    if (!more)
        return false;
    cat->chunks = more;
    more[cat->nchunks] = calloc(ENTRY_CHUNK, sizeof **more);
    return more[cat->nchunks] && ++cat->nchunks;
}

uint32_t entry_new(struct catalogue *cat, enum cat_kind kind)
{
    mutex_assert_held(&cat->mu);
    uint32_t id = cat->free_entries;
    if (id != NONE) {
        cat->free_entries = entry_at(cat, id)->chain;
    } else {
        if (cat->nentries == cat->nchunks * ENTRY_CHUNK && !grow(cat))
            return NONE;
        id = cat->nentries++;
    }
    *entry_at(cat, id) = (struct cat_entry){.kind = (uint8_t)kind, .chain = NONE, .owner = NONE};
    return id;
}

void entry_free(struct catalogue *cat, uint32_t id)
{
    mutex_assert_held(&cat->mu);
    entry_at(cat, id)->kind = ENTRY_FREE;
    entry_at(cat, id)->chain = cat->free_entries;
    cat->free_entries = id;
}

void entry_hash(struct catalogue *cat, uint32_t id)
{
    mutex_assert_held(&cat->mu);
    if (cat->nfiles >= cat->nbuckets)
        entry_rehash(cat);
    uint32_t b = entry_bucket(cat, entry_at(cat, id)->path);
    entry_at(cat, id)->chain = cat->buckets[b];
    cat->buckets[b] = id;
    cat->nfiles++;
}

void entry_unhash(struct catalogue *cat, uint32_t id)
{
    mutex_assert_held(&cat->mu);
    for (uint32_t *at = &cat->buckets[entry_bucket(cat, entry_at(cat, id)->path)]; *at != NONE;
         at = &entry_at(cat, *at)->chain)
        if (*at == id) {
            *at = entry_at(cat, id)->chain;
            cat->nfiles--;
            return;
        }
}

uint32_t entry_find(
    const struct catalogue *cat, const uint64_t path[2], const uint64_t *version, uint32_t but)
{
    for (uint32_t id = cat->buckets[entry_bucket(cat, path)]; id != NONE;
         id = entry_at(cat, id)->chain) {
        const struct cat_entry *s = entry_at(cat, id);
        if (s->path[0] == path[0] && s->path[1] == path[1] && (!version || s->version == *version)
            && id != but)
            return id;
    }
    return NONE;
}

struct meta_file entry_meta(const struct catalogue *cat, uint32_t id)
{
    const struct cat_entry *s = entry_at(cat, id);
    return (struct meta_file){
        .path = {s->path[0], s->path[1]},
        .version = s->version,
        .size = s->size,
        .mtime_ns = s->location,
        .valid = s->valid,
        .pages = s->pages,
        .crc0 = s->crc0,
        .medium = cat->tiers[s->tier].conf.medium,
        .flags = s->flags & ENTRY_PINNED,
    };
}

/* -- in use ---------------------------------------------------------------------------------- */

uint32_t entry_nsegs(const struct cat_entry *s)
{
    uint64_t seg = (uint64_t)CATALOGUE_SEG_PAGES * 4096;
    return (uint32_t)(s->size / seg + (s->size % seg != 0));
}

bool entry_ref(struct catalogue *cat, uint32_t id)
{
    mutex_assert_held(&cat->mu);
    struct cat_entry *s = entry_at(cat, id);
    if (s->use) {
        s->use->refs++;
        return true;
    }
    uint32_t nsegs = entry_nsegs(s);
    struct cat_use *use = calloc(
        1, sizeof *use + nsegs * (sizeof use->units[0] + sizeof use->hits[0]));
    if (!use)
        return false;
    use->refs = 1;
    use->nsegs = nsegs;
    use->hits = (atomic_uint *)(use->units + nsegs);
    for (uint32_t i = 0; i < nsegs; i++)
        use->units[i] = NONE;
    for (uint32_t unit = s->owner; unit != NONE; unit = entry_at(cat, unit)->chain)
        use->units[entry_at(cat, unit)->seg] = unit;
    s->use = use;
    return true;
}

bool entry_is_open(const struct cat_entry *s) { return s->use && s->use->refs > 0; }

void entry_unuse(struct cat_entry *s)
{
    free(s->use);
    s->use = NULL;
}

/* -- queues and units ------------------------------------------------------------------------ */

static struct s3f_unit *unit_at(void *user, uint32_t id)
{
    struct catalogue *cat = user;
    return &entry_at(cat, id)->unit;
}

/* Hits that readers counted since the last look. */
static unsigned unit_touched(void *user, uint32_t id)
{
    struct catalogue *cat = user;
    const struct cat_entry *s = entry_at(cat, id);
    bool whole = s->kind == ENTRY_FILE;
    struct cat_use *use = whole ? s->use : entry_at(cat, s->owner)->use;
    if (!use)
        return 0;
    unsigned hits = 0;
    for (uint32_t i = whole ? 0 : s->seg; i < (whole ? use->nsegs : s->seg + 1); i++)
        hits += atomic_exchange(&use->hits[i], 0);
    return hits;
}

void entry_queue_init(struct catalogue *cat, struct cat_tier *t)
{
    struct s3f_ops ops = {unit_at, unit_touched, cat};
    s3f_init(&t->queue, t->conf.quota, &ops);
}

struct s3f *entry_queue(struct catalogue *cat, uint32_t id)
{
    return &cat->tiers[entry_at(cat, id)->tier].queue;
}

uint64_t entry_key(const struct catalogue *cat, uint32_t id)
{
    const struct cat_entry *s = entry_at(cat, id);
    if (s->kind == ENTRY_UNIT)
        return hash64_mix(entry_at(cat, s->owner)->path[0], s->seg + UINT64_C(1));
    return s->path[0];
}

void entry_enqueue(struct catalogue *cat, uint32_t id)
{
    mutex_assert_held(&cat->mu);
    const struct cat_entry *s = entry_at(cat, id),
                           *file = s->kind == ENTRY_UNIT ? entry_at(cat, s->owner) : s;
    if (!(file->flags & ENTRY_PINNED))
        s3f_insert(entry_queue(cat, id), id, s->pages, entry_key(cat, id));
}

uint32_t entry_unit_new(struct catalogue *cat, uint32_t file, uint32_t seg, uint32_t pages)
{
    mutex_assert_held(&cat->mu);
    uint32_t id = entry_new(cat, ENTRY_UNIT);
    if (id == NONE)
        return NONE;
    struct cat_entry *f = entry_at(cat, file), *u = entry_at(cat, id);
    u->owner = file;
    u->seg = seg;
    u->tier = f->tier;
    u->pages = pages;
    u->chain = f->owner;
    f->owner = id;
    f->flags |= ENTRY_SPLIT;
    if (f->use)
        f->use->units[seg] = id;
    entry_enqueue(cat, id);
    return id;
}

void entry_unit_free(struct catalogue *cat, uint32_t id)
{
    mutex_assert_held(&cat->mu);
    struct cat_entry *u = entry_at(cat, id), *f = entry_at(cat, u->owner);
    s3f_remove(entry_queue(cat, id), id);
    for (uint32_t *at = &f->owner; *at != NONE; at = &entry_at(cat, *at)->chain)
        if (*at == id) {
            *at = u->chain;
            break;
        }
    if (f->use)
        f->use->units[u->seg] = NONE;
    entry_free(cat, id);
}

void entry_join(struct catalogue *cat, uint32_t id)
{
    mutex_assert_held(&cat->mu);
    struct cat_entry *f = entry_at(cat, id);
    while (f->owner != NONE) {
        f->pages += entry_at(cat, f->owner)->pages;
        entry_unit_free(cat, f->owner);
    }
    f->flags &= (uint8_t)~ENTRY_SPLIT;
}

/* -- pins and tiers
 * ------------------------------------------------------------------------------------ */

int entry_lasting_tier(const struct catalogue *cat)
{
    for (size_t i = 0; i < cat->ntiers; i++)
        if (cat->tiers[i].conf.is_lasting)
            return (int)i;
    return -1;
}

/* What is hot moves up; what is pinned leaves memory, once. */
int entry_better_tier(const struct catalogue *cat, const struct cat_entry *s)
{
    if (!(s->flags & ENTRY_COMPLETE) || s->flags & (ENTRY_BUSY | ENTRY_DEAD))
        return -1;
    if (s->flags & ENTRY_PINNED)
        return cat->tiers[s->tier].conf.is_lasting ? -1 : entry_lasting_tier(cat);
    bool hot = s->tier > 0 && s->unit.freq >= PROMOTE_HITS
        && (s->size / 4096 + (s->size % 4096 != 0)) * 8 <= cat->tiers[s->tier - 1].conf.quota;
    return hot ? s->tier - 1 : -1;
}

/* Half of the disk; of memory, where there is nothing else. */
uint64_t entry_pin_most(const struct catalogue *cat)
{
    uint64_t sum = 0;
    bool lasts = entry_lasting_tier(cat) >= 0;
    for (size_t i = 0; i < cat->ntiers; i++)
        sum += lasts && !cat->tiers[i].conf.is_lasting ? 0 : cat->tiers[i].conf.quota;
    return sum / 2;
}

bool entry_pin(struct catalogue *cat, uint32_t id, uint64_t pages)
{
    mutex_assert_held(&cat->mu);
    struct cat_entry *s = entry_at(cat, id);
    bool was = s->flags & ENTRY_PINNED;
    uint64_t had = was ? s->reserved : 0;
    if (was && pages <= had)
        return true;
    if (cat->pin_pages - had + pages > entry_pin_most(cat))
        return false;
    cat->pin_pages += pages - had;
    s->reserved = (uint32_t)pages;
    if (was)
        return true;
    cat->npinned++;
    s->flags |= ENTRY_PINNED;
    s3f_remove(entry_queue(cat, id), id);
    for (uint32_t unit = s->owner; unit != NONE; unit = entry_at(cat, unit)->chain)
        s3f_remove(entry_queue(cat, unit), unit);
    return true;
}

void entry_unpin(struct catalogue *cat, uint32_t id)
{
    mutex_assert_held(&cat->mu);
    struct cat_entry *s = entry_at(cat, id);
    if (!(s->flags & ENTRY_PINNED))
        return;
    cat->pin_pages -= s->reserved;
    cat->npinned--;
    s->flags &= (uint8_t)~ENTRY_PINNED;
    for (uint32_t unit = s->owner; unit != NONE; unit = entry_at(cat, unit)->chain)
        entry_enqueue(cat, unit);
    if (!(s->flags & ENTRY_SPLIT) && s->pages)
        entry_enqueue(cat, id);
}

/* -- the end --------------------------------------------------------------------------------- */

void entry_remove(struct catalogue *cat, uint32_t id, struct catalogue_gone *gone)
{
    mutex_assert_held(&cat->mu);
    struct cat_entry *s = entry_at(cat, id);
    entry_unpin(cat, id);
    entry_join(cat, id);
    s3f_remove(entry_queue(cat, id), id);
    if (!(s->flags & ENTRY_DEAD))
        entry_unhash(cat, id);
    if (s->flags & ENTRY_COMPLETE)
        cat->ncomplete--;
    if (s->valid)
        cat->nwith_data--;
    *gone = (struct catalogue_gone){.id = id,
        .is_removed = true,
        .is_complete = s->flags & ENTRY_COMPLETE,
        .is_loaded = s->loaded,
        .tier = s->tier,
        .meta = entry_meta(cat, id),
        .object = s->use ? s->use->object : NULL};
    s->flags = ENTRY_DEAD;
    s->valid = 0;
    entry_unuse(s);
}
