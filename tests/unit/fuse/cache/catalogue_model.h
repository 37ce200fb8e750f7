/* SPDX-License-Identifier: Apache-2.0 */
/* catalogue_model — drives the cache's catalogue as its callers do, by operations that bytes
 * choose, beside a model that knows of each file its blocks and what holds it, nothing else. After
 * each operation everything that the catalogue counts is computed from the model anew and compared,
 * and each entry has to be in exactly the places where it belongs. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_CACHE_CATALOGUE_MODEL_H
#define MILLRACE_TESTS_UNIT_FUSE_CACHE_CATALOGUE_MODEL_H

#include "fuse/cache/catalogue_priv.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_FILES    96
#define MODEL_PATHS    8
#define MODEL_VERSIONS 3
#define MODEL_TIERS    2
#define MODEL_BLOCKS   200 /* of the largest file */
#define MODEL_MOVES    4
#define MODEL_MIB      (UINT64_C(1) << 20)

struct model_file {
    bool used, attached, loaded;
    uint32_t id;
    unsigned path, version;
    uint64_t size;
    unsigned refs, handles;
    uint8_t block[MODEL_BLOCKS]; /* 1: here */
    bool from_table;             /* what the table said counts until it is loaded */
    uint32_t table_pages;
    bool placed; /* it has a data file on `tier` */
    int tier;
    int64_t location;
    uint32_t born;
    bool complete, split, dead, drop, busy, pinned, resident;
    bool gone; /* removed, not recycled yet */
    uint64_t reserved;
};

struct model {
    struct catalogue *cat;
    struct catalogue_tier tiers[MODEL_TIERS];
    struct model_file files[MODEL_FILES];
    struct catalogue_victim moving[MODEL_MOVES];
    bool move_on[MODEL_MOVES];
    struct catalogue_move hint; /* the last move that catalogue_close spoke of */
    bool has_hint;
    bool was_over[MODEL_TIERS];
    int64_t now, blocked[MODEL_TIERS];
    uint64_t limit[MODEL_TIERS]; /* pages, of the disk */
    uint32_t births;
    const uint8_t *data;
    size_t size, at;
    unsigned step;
    char failure[160]; /* the first one */
};

#define MODEL_CHECK(m, cond)                                                                   \
    do {                                                                                       \
        if (!(cond) && !(m)->failure[0])                                                       \
            snprintf((m)->failure, sizeof(m)->failure, "operation %u, line %d: %s", (m)->step, \
                __LINE__, #cond);                                                              \
    } while (0)

static inline unsigned model_byte(struct model *m)
{
    return m->at < m->size ? m->data[m->at++] : 0;
}

/* -- what follows from a file's blocks -- */

static inline uint32_t model_nblocks(const struct model_file *f)
{
    return (uint32_t)((f->size + MODEL_MIB - 1) / MODEL_MIB);
}

static inline uint32_t model_nsegs(const struct model_file *f)
{
    return (model_nblocks(f) + 63) / 64;
}

static inline uint32_t model_block_pages(const struct model_file *f, uint32_t b)
{
    uint64_t left = f->size - b * MODEL_MIB;
    return (uint32_t)(((left < MODEL_MIB ? left : MODEL_MIB) + 4095) / 4096);
}

static inline uint32_t model_valid(const struct model_file *f)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < model_nblocks(f); b++)
        n += f->block[b];
    return n;
}

static inline uint32_t model_seg_pages(const struct model_file *f, uint32_t seg)
{
    uint32_t n = 0;
    for (uint32_t b = seg * 64; b < seg * 64 + 64 && b < model_nblocks(f); b++)
        n += f->block[b] ? model_block_pages(f, b) : 0;
    return n;
}

static inline uint32_t model_pages(const struct model_file *f)
{
    uint32_t n = 0;
    for (uint32_t seg = 0; seg < model_nsegs(f); seg++)
        n += model_seg_pages(f, seg);
    return f->from_table ? f->table_pages : n;
}

static inline uint64_t model_used(const struct model *m, int tier)
{
    uint64_t used = 0;
    for (int i = 0; i < MODEL_FILES; i++)
        if (m->files[i].used && m->files[i].tier == tier)
            used += model_pages(&m->files[i]);
    for (int i = 0; i < MODEL_MOVES; i++)
        if (m->move_on[i] && m->moving[i].move.to == tier)
            used += m->moving[i].pages; /* reserved there */
    return used;
}

static inline uint64_t model_pinned(const struct model *m, uint64_t *files)
{
    uint64_t pages = 0;
    *files = 0;
    for (int i = 0; i < MODEL_FILES; i++)
        if (m->files[i].used && m->files[i].pinned) {
            pages += m->files[i].reserved;
            ++*files;
        }
    return pages;
}

static inline uint64_t model_pin_most(const struct model *m)
{
    return m->tiers[1].quota / 2; /* the lasting one */
}

static inline struct model_file *model_by_id(struct model *m, uint32_t id)
{
    for (int i = 0; i < MODEL_FILES; i++)
        if (m->files[i].used && m->files[i].id == id)
            return &m->files[i];
    return NULL;
}

static inline bool model_in_sight(const struct model_file *f)
{
    return f->used && !f->dead && !f->gone;
}

static inline struct model_file *model_find(struct model *m, unsigned path, unsigned version)
{
    for (int i = 0; i < MODEL_FILES; i++) {
        struct model_file *f = &m->files[i];
        if (model_in_sight(f) && f->path == path && f->version == version)
            return f;
    }
    return NULL;
}

/* -- what the catalogue has to answer -- */

static inline uint64_t model_mark(const struct model *m, int tier, unsigned share)
{
    uint64_t quota = m->tiers[tier].quota;
    return MIN(quota - quota / share, m->limit[tier]);
}

static inline int model_choice(const struct model *m, const struct model_file *f)
{
    int best = -1;
    for (int t = 0; t < MODEL_TIERS; t++) {
        if (m->blocked[t] > m->now || (f->pinned && !m->tiers[t].is_lasting))
            continue;
        best = t;
        if (model_used(m, t) + (f->size + 4095) / 4096 <= model_mark(m, t, 20))
            break;
    }
    return best;
}

static inline bool model_reserve(struct model *m, int tier, uint64_t pages)
{
    uint64_t used = model_used(m, tier), quota = m->tiers[tier].quota;
    enum catalogue_room want = m->blocked[tier] > m->now || pages > quota ? CATALOGUE_REFUSED
        : used + pages > model_mark(m, tier, UINT32_MAX)                  ? CATALOGUE_NO_ROOM
        : used + pages > model_mark(m, tier, 20)                          ? CATALOGUE_ROOM_LOW
                                                                          : CATALOGUE_ROOM;
    MODEL_CHECK(m, catalogue_reserve(m->cat, tier, pages, m->now) == want);
    return want == CATALOGUE_ROOM || want == CATALOGUE_ROOM_LOW;
}

static inline uint64_t model_pages_of(const struct model_file *f, uint64_t blocks)
{
    uint64_t all = (f->size + 4095) / 4096;
    return blocks * 256 < all ? blocks * 256 : all;
}

/* -- everything compared -- */

static inline bool model_in_queue(struct model *m, uint32_t id, int tier, uint32_t pages)
{
    const struct s3f_unit *u = &entry_at(m->cat, id)->unit;
    if (u->queue == S3F_OUT)
        return false;
    const struct s3f_list *l = &m->cat->tiers[tier].queue.lists[u->queue];
    unsigned seen = 0;
    for (uint32_t at = l->head; at != S3F_NONE; at = entry_at(m->cat, at)->unit.next)
        seen += at == id;
    MODEL_CHECK(m, seen == 1);
    MODEL_CHECK(m, u->weight == pages);
    return true;
}

static inline void model_check_units(struct model *m, struct model_file *f, unsigned *queued)
{
    unsigned units = 0;
    for (uint32_t u = entry_at(m->cat, f->id)->owner; u != NONE; u = entry_at(m->cat, u)->chain) {
        const struct cat_entry *e = entry_at(m->cat, u);
        MODEL_CHECK(m, e->kind == ENTRY_UNIT && e->owner == f->id && e->tier == f->tier);
        MODEL_CHECK(m, e->seg < model_nsegs(f) && e->pages == model_seg_pages(f, e->seg));
        const struct cat_use *use = entry_at(m->cat, f->id)->use;
        MODEL_CHECK(m, !use || use->units[e->seg] == u);
        bool in = model_in_queue(m, u, f->tier, e->pages);
        MODEL_CHECK(m, in == !f->pinned);
        queued[f->tier] += in;
        if (++units > model_nsegs(f))
            break;
    }
    unsigned segs = 0;
    for (uint32_t seg = 0; seg < model_nsegs(f); seg++)
        segs += f->split && model_seg_pages(f, seg) > 0;
    MODEL_CHECK(m, units == segs);
}

static inline void model_check_file(struct model *m, struct model_file *f, unsigned *queued)
{
    const struct cat_entry *e = entry_at(m->cat, f->id);
    MODEL_CHECK(m, e->kind == ENTRY_FILE);
    uint32_t pages = f->split ? 0 : model_pages(f);
    MODEL_CHECK(m, e->pages == pages);
    if (f->gone)
        return;
    for (int t = 0; t < MODEL_TIERS; t++)
        MODEL_CHECK(m,
            catalogue_has_file(m->cat, t, f->id, e->path[1], (uint32_t)f->version)
                == (t == e->tier || f->busy));
    MODEL_CHECK(m, e->size == f->size && e->valid == model_valid(f));
    MODEL_CHECK(m, !!(e->flags & ENTRY_COMPLETE) == f->complete);
    MODEL_CHECK(m, !!(e->flags & ENTRY_PINNED) == f->pinned);
    MODEL_CHECK(m, !!(e->flags & ENTRY_BUSY) == f->busy);
    MODEL_CHECK(m, !!(e->flags & ENTRY_DROP) == f->drop);
    MODEL_CHECK(m, !f->pinned || e->reserved == f->reserved);
    MODEL_CHECK(m, !f->placed || (e->tier == f->tier && e->location == f->location));
    MODEL_CHECK(m, (e->use ? e->use->refs : 0) == f->refs);
    MODEL_CHECK(m, (e->use ? e->use->handles : 0) == f->handles);
    MODEL_CHECK(m, (e->use ? e->use->object : NULL) == (f->attached ? f : NULL));
    unsigned found = 0;
    for (uint32_t id = m->cat->buckets[e->path[0] & (m->cat->nbuckets - 1)]; id != NONE;
         id = entry_at(m->cat, id)->chain)
        found += id == f->id;
    MODEL_CHECK(m, found == !f->dead);
    bool in = model_in_queue(m, f->id, f->tier, pages);
    MODEL_CHECK(m, in == (!f->dead && !f->pinned && !f->split && pages > 0));
    queued[f->tier] += in;
    model_check_units(m, f, queued);
}

static inline void model_check(struct model *m)
{
    uint64_t used = 0, quota = 0, files = 0, complete = 0, npinned,
             pinned = model_pinned(m, &npinned);
    unsigned queued[MODEL_TIERS] = {0}, nfiles = 0, units = 0, nfree = 0;
    for (int i = 0; i < MODEL_FILES; i++)
        if (m->files[i].used) {
            model_check_file(m, &m->files[i], queued);
            files += !m->files[i].gone && model_valid(&m->files[i]) > 0;
            complete += !m->files[i].gone && m->files[i].complete;
            nfiles++;
        }
    for (int t = 0; t < MODEL_TIERS; t++) {
        const struct cat_tier *tier = &m->cat->tiers[t];
        MODEL_CHECK(m, tier->used == model_used(m, t));
        MODEL_CHECK(m, tier->used <= tier->conf.quota || m->was_over[t]);
        m->was_over[t] = tier->used > tier->conf.quota;
        MODEL_CHECK(m, catalogue_is_low(m->cat, t) == (tier->used > model_mark(m, t, 10)));
        MODEL_CHECK(
            m, tier->queue.lists[S3F_SMALL].count + tier->queue.lists[S3F_MAIN].count == queued[t]);
        used += tier->used;
        quota += tier->conf.quota;
    }
    for (uint32_t id = m->cat->free_entries; id != NONE && nfree <= m->cat->nentries;
         id = entry_at(m->cat, id)->chain) {
        MODEL_CHECK(m, entry_at(m->cat, id)->kind == ENTRY_FREE);
        nfree++;
    }
    for (uint32_t id = 0; id < m->cat->nentries; id++)
        units += entry_at(m->cat, id)->kind == ENTRY_UNIT;
    MODEL_CHECK(m, nfree + units + nfiles == m->cat->nentries); /* no id is lost or used twice */
    struct catalogue_stats s = catalogue_stats(m->cat);
    MODEL_CHECK(m, s.used == used && s.quota == quota);
    MODEL_CHECK(m, s.files == files && s.complete_files == complete);
    MODEL_CHECK(m, s.pinned == pinned && s.pinned_files == npinned);
    MODEL_CHECK(m, s.pinned_most == model_pin_most(m) && pinned <= s.pinned_most);
}

/* -- what callers do -- */

static inline void model_path(unsigned path, uint64_t out[2])
{
    out[0] = path / 2 * 7 + 3; /* some share a bucket, two a first half */
    out[1] = path + 1;
}

static inline uint64_t model_size(unsigned path, unsigned version)
{
    static const uint64_t sizes[] = {0, 1, 5000, MODEL_MIB, MODEL_MIB + 1, 3 * MODEL_MIB,
        9 * MODEL_MIB + 77, 64 * MODEL_MIB, 64 * MODEL_MIB + 1, 130 * MODEL_MIB + 5,
        MODEL_BLOCKS * MODEL_MIB};
    return sizes[(path * 5 + version * 3) % (sizeof sizes / sizeof sizes[0])];
}

static inline void model_gone(struct model *m, const struct catalogue_gone *gone)
{
    struct model_file *f = model_by_id(m, gone->id);
    MODEL_CHECK(m, f && !f->gone && f->refs == 0 && !f->busy);
    if (!f)
        return;
    MODEL_CHECK(m, gone->is_removed && gone->is_complete == f->complete);
    MODEL_CHECK(m, gone->meta.valid == model_valid(f) && gone->meta.size == f->size);
    MODEL_CHECK(m, gone->object == (f->attached ? f : NULL));
    MODEL_CHECK(m, !model_valid(f) || gone->tier == f->tier);
    f->gone = true;
    f->attached = f->pinned = f->split = f->placed = false;
    if (model_byte(m) % 2) {
        catalogue_recycle(m->cat, f->id);
        f->used = false;
    }
}

/* What was found on the disk: as it was, with less, with more, or nothing. */
static inline void model_load(struct model *m, struct model_file *f)
{
    if (f->loaded)
        return;
    f->loaded = true;
    if (!model_valid(f) || !f->placed || !m->tiers[f->tier].is_lasting)
        return;
    unsigned how = model_byte(m) % 8, block = model_byte(m) % model_nblocks(f);
    f->from_table = false;
    if (how == 0) {
        catalogue_forget(m->cat, f->id);
        memset(f->block, 0, sizeof f->block);
        f->complete = f->split = f->placed = false;
        return;
    }
    if (how <= 2)
        f->block[block] = how == 1;
    uint32_t pages[MODEL_BLOCKS / 64 + 1];
    for (uint32_t seg = 0; seg < model_nsegs(f); seg++)
        pages[seg] = model_seg_pages(f, seg);
    bool was = f->complete;
    f->complete = model_valid(f) == model_nblocks(f);
    if (f->complete && !was)
        f->location = 0;
    f->split = model_nsegs(f) > 1 && !f->complete && !f->dead;
    if (model_used(m, f->tier) > m->tiers[f->tier].quota)
        m->was_over[f->tier] = true;
    catalogue_reconcile(m->cat, f->id, model_valid(f), pages);
}

static inline void model_attach(struct model *m, struct model_file *f)
{
    if (!f->attached)
        MODEL_CHECK(m, catalogue_attach(m->cat, f->id, f) == f);
    MODEL_CHECK(m, catalogue_attach(m->cat, f->id, m) == f); /* too late */
    f->attached = true;
    model_load(m, f);
}

static inline void model_left(
    struct model *m, struct model_file *f, const struct catalogue_left *left)
{
    MODEL_CHECK(m, left->gone.is_removed == (f->dead || f->drop || !model_valid(f)));
    if (left->gone.is_removed) {
        model_gone(m, &left->gone);
        return;
    }
    MODEL_CHECK(m, left->gone.object == (f->resident || !f->attached ? NULL : f));
    if (!f->resident)
        f->attached = f->loaded = false;
    if (left->moves) {
        MODEL_CHECK(m, f->complete && !f->busy && left->move.id == f->id);
        MODEL_CHECK(m, left->move.from == f->tier && left->move.to != f->tier);
        MODEL_CHECK(m, !f->pinned || m->tiers[left->move.to].is_lasting);
        m->hint = left->move;
        m->has_hint = true;
    }
}

static inline void model_unref(struct model *m, struct model_file *f)
{
    struct catalogue_closing k = {.may_move = true};
    struct catalogue_left left;
    enum catalogue_end end = catalogue_close(m->cat, f->id, &k, &left),
                       want = f->refs > 1                                         ? CATALOGUE_IN_USE
        : model_valid(f) && !f->dead && !f->drop && !(f->complete && f->location) ? CATALOGUE_CHECK
                                                                                  : CATALOGUE_LEFT;
    MODEL_CHECK(m, end == want);
    if (end == CATALOGUE_CHECK) {
        k.is_checked = true;
        k.is_trusted = m->tiers[f->tier].is_lasting && model_byte(m) % 2;
        k.is_distrusted = !k.is_trusted && model_byte(m) % 2;
        k.mtime_ns = 1 + model_byte(m);
        MODEL_CHECK(m, catalogue_close(m->cat, f->id, &k, &left) == CATALOGUE_LEFT);
        f->location = k.is_trusted ? k.mtime_ns : f->location;
    }
    f->refs--;
    if (f->refs == 0)
        model_left(m, f, &left);
}

static inline void model_open(struct model *m)
{
    unsigned path = model_byte(m) % MODEL_PATHS, version = model_byte(m) % MODEL_VERSIONS;
    unsigned how = model_byte(m);
    struct model_file *f = model_find(m, path, version);
    struct model_file *fresh = NULL;
    for (int i = 0; i < MODEL_FILES && !fresh; i++)
        fresh = m->files[i].used ? NULL : &m->files[i];
    if (!f && !fresh)
        return;
    uint64_t key[2];
    model_path(path, key);
    struct catalogue_info info;
    uint32_t id = catalogue_open(m->cat, key, version, model_size(path, version), how & 1, &info);
    MODEL_CHECK(m, id != NONE && (!f || f->id == id));
    MODEL_CHECK(m, info.object == (f && f->attached ? f : NULL) && info.hits);
    if (!f) {
        MODEL_CHECK(m, !model_by_id(m, id));
        f = fresh;
        *f = (struct model_file){.used = true,
            .id = id,
            .path = path,
            .version = version,
            .size = model_size(path, version),
            .born = ++m->births};
    }
    f->refs++;
    f->handles += how & 1;
    if (how & 6)
        model_attach(m, f);
}

/* The next file for which it holds, from a place that a byte chooses. */
static inline struct model_file *model_pick(
    struct model *m, bool (*fits)(const struct model_file *f))
{
    unsigned from = model_byte(m);
    for (unsigned i = 0; i < MODEL_FILES; i++) {
        struct model_file *f = &m->files[(from + i) % MODEL_FILES];
        if (f->used && !f->gone && fits(f))
            return f;
    }
    return NULL;
}

/* A mover's reference is the mover's to give back. */
static inline bool model_is_open(const struct model_file *f)
{
    return f->refs > (f->busy ? 1u : 0u);
}
static inline bool model_is_in_use(const struct model_file *f)
{
    return model_is_open(f) && f->attached && f->size > 0;
}
static inline bool model_has_blocks(const struct model_file *f)
{
    return model_is_in_use(f) && model_valid(f) > 0;
}

static inline void model_close(struct model *m)
{
    struct model_file *f = model_pick(m, model_is_open);
    if (!f)
        return;
    if (f->handles) {
        MODEL_CHECK(m, catalogue_close_handle(m->cat, f->id) == (f->handles == 1));
        f->handles--;
    }
    model_unref(m, f);
}

#endif
