/* SPDX-License-Identifier: Apache-2.0 */
/* catalogue_drive — the operations of catalogue_model.h on bytes, room, pins and the table, and the
 * run over all of them. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_CACHE_CATALOGUE_DRIVE_H
#define MILLRACE_TESTS_UNIT_FUSE_CACHE_CATALOGUE_DRIVE_H

#include "tests/unit/fuse/cache/catalogue_model.h"

/* -- blocks come and go -- */

/* Would the pin, if it is one, fit with so many pages? Then it has them. */
static inline bool model_pin_fits(struct model *m, struct model_file *f, uint64_t pages)
{
    uint64_t files, had = f->pinned ? f->reserved : 0;
    if (f->pinned && pages <= had)
        return true;
    if (model_pinned(m, &files) - had + pages > model_pin_most(m))
        return false;
    f->reserved = pages;
    return true;
}

/* Of what a first byte makes one too many: an older version, or itself if a later one has bytes. */
static inline bool model_is_superseded(const struct model_file *f, const struct model_file *by)
{
    return model_in_sight(by) && by != f && by->path == f->path
        && (by->born <= f->born || model_valid(by));
}

static inline void model_supersede(struct model *m, struct model_file *f)
{
    for (int i = 0; i < MODEL_VERSIONS + 1; i++) {
        bool any = false;
        for (int k = 0; k < MODEL_FILES && !f->dead; k++)
            any |= model_is_superseded(f, &m->files[k]);
        struct catalogue_gone gone;
        MODEL_CHECK(m, catalogue_supersede(m->cat, f->id, &gone) == any);
        struct model_file *g = any ? model_by_id(m, gone.id) : NULL;
        if (!g)
            return;
        bool newer = false;
        for (int k = 0; k < MODEL_FILES; k++)
            newer |= m->files[k].born > f->born && model_is_superseded(f, &m->files[k]);
        MODEL_CHECK(m, g == f ? newer : g->path == f->path && g->born <= f->born && !g->dead);
        MODEL_CHECK(m, gone.is_removed == (g->refs == 0));
        if (gone.is_removed)
            model_gone(m, &gone);
        g->dead = true;
        g->pinned = g->split = false;
    }
    MODEL_CHECK(m, !"supersede does not end");
}

static inline void model_fill(struct model *m)
{
    struct model_file *f = model_pick(m, model_is_in_use);
    unsigned from = model_byte(m), most = model_byte(m) % 32 + 1;
    for (unsigned i = 0; f && i < most; i++) {
        uint32_t b = (from + i) % model_nblocks(f), pages = model_block_pages(f, b);
        if (f->block[b])
            continue;
        bool first = model_valid(f) == 0;
        int tier = f->placed ? f->tier : model_choice(m, f);
        if (!f->placed)
            MODEL_CHECK(m, catalogue_choose(m->cat, f->id, m->now) == tier);
        if (tier < 0 || !model_reserve(m, tier, pages))
            return;
        uint64_t want = model_pages_of(f, model_valid(f) + 1u);
        bool fits = !f->pinned || model_pin_fits(m, f, want);
        MODEL_CHECK(m, catalogue_pin_grow(m->cat, f->id, want) == fits);
        if (!fits) {
            catalogue_release(m->cat, tier, pages);
            return;
        }
        if (!f->placed) {
            f->resident = !m->tiers[tier].is_lasting && model_nblocks(f) > 1;
            f->location = m->tiers[tier].is_lasting ? 0 : 4096 * (int64_t)f->id;
            f->tier = tier;
            f->placed = true;
            catalogue_place(m->cat, f->id, tier, f->location, f->resident);
        }
        f->block[b] = 1;
        catalogue_account(m->cat, f->id, b / 64, 1, pages, 77);
        f->split = model_nsegs(f) > 1 && !f->dead;
        if (model_valid(f) == model_nblocks(f)) {
            catalogue_finish(m->cat, f->id, 5 + (int64_t)b);
            f->complete = true;
            f->split = false;
            f->location = m->tiers[tier].is_lasting ? 5 + (int64_t)b : f->location;
        }
        if (first)
            model_supersede(m, f);
    }
}

/* A block turns out to be corrupt. */
static inline void model_lose(struct model *m)
{
    struct model_file *f = model_pick(m, model_has_blocks);
    if (!f || f->busy)
        return;
    uint32_t b = model_byte(m) % model_nblocks(f);
    while (!f->block[b])
        b = (b + 1) % model_nblocks(f);
    uint32_t pages = model_block_pages(f, b);
    f->block[b] = 0;
    f->split = model_nsegs(f) > 1 && !f->dead;
    catalogue_account(m->cat, f->id, b / 64, -1, -(int64_t)pages, 0);
    catalogue_unfinish(m->cat, f->id, b / 64, pages);
    catalogue_release(m->cat, f->tier, pages);
    f->complete = false;
}

/* -- room -- */

static inline void model_end_move(struct model *m, unsigned i)
{
    struct catalogue_victim *v = &m->moving[i];
    struct model_file *f = model_by_id(m, v->move.id);
    m->move_on[i] = false;
    MODEL_CHECK(m, f && f->busy);
    if (!f)
        return;
    model_attach(m, f);
    bool alone = f->refs == 1 && !f->dead && !f->drop && f->complete;
    bool resident = !m->tiers[v->move.to].is_lasting && model_nblocks(f) > 1;
    int64_t location = 1000 + model_byte(m);
    if (model_byte(m) % 8 == 0) {
        catalogue_move_fail(m->cat, v);
        catalogue_release(m->cat, v->move.to, v->pages);
    } else if (catalogue_move_end(m->cat, v, location, resident)) {
        MODEL_CHECK(m, alone);
        f->tier = v->move.to;
        f->location = location;
        f->resident = resident;
    } else {
        MODEL_CHECK(m, !alone);
        catalogue_move_fail(m->cat, v);
        catalogue_release(m->cat, v->move.to, v->pages);
    }
    f->busy = false;
    model_unref(m, f);
}

/* The catalogue gave a reference to move an idle file. */
static inline void model_begin_move(struct model *m, const struct catalogue_victim *v)
{
    struct model_file *f = model_by_id(m, v->move.id);
    MODEL_CHECK(m, f && f->refs == 0 && f->complete && !f->busy && !f->dead);
    MODEL_CHECK(m, f && v->move.from == f->tier && v->move.to != f->tier);
    MODEL_CHECK(m, f && v->pages == model_pages(f));
    MODEL_CHECK(m, f && v->object == (f->attached ? f : NULL));
    if (!f)
        return;
    f->refs = 1;
    f->busy = true;
    unsigned i = 0;
    while (i < MODEL_MOVES && m->move_on[i])
        i++;
    if (i < MODEL_MOVES && model_reserve(m, v->move.to, v->pages)) {
        m->moving[i] = *v;
        m->move_on[i] = true;
        return;
    }
    struct catalogue_gone gone;
    catalogue_move_fail(m->cat, v);
    f->busy = false;
    if (model_byte(m) % 2)
        MODEL_CHECK(m, !catalogue_remove(m->cat, v, &gone)); /* in use */
    model_unref(m, f);
    if (model_byte(m) % 2 || !f->used || f->gone || f->pinned)
        return;
    bool idle = f->refs == 0 && f->tier == v->move.from;
    bool removed = catalogue_remove(m->cat, v, &gone);
    MODEL_CHECK(m, removed == idle);
    if (removed)
        model_gone(m, &gone);
}

static inline void model_evict_segment(struct model *m, const struct catalogue_victim *v)
{
    struct model_file *f = model_by_id(m, v->move.id);
    MODEL_CHECK(m, f && !f->pinned && !f->busy && !f->dead && !f->complete);
    MODEL_CHECK(m, f && f->tier == v->move.from && v->seg < model_nsegs(f));
    MODEL_CHECK(m, f && v->object == (f->attached ? f : NULL));
    if (!f)
        return;
    f->refs++;
    model_attach(m, f);
    uint32_t pages = f->placed ? model_seg_pages(f, v->seg) : 0;
    bool done = pages && !f->complete && model_byte(m) % 4;
    if (done) {
        int32_t blocks = 0;
        for (uint32_t b = v->seg * 64; b < v->seg * 64 + 64 && b < model_nblocks(f); b++) {
            blocks += f->block[b];
            f->block[b] = 0;
        }
        catalogue_account(m->cat, f->id, v->seg, -blocks, -(int64_t)pages, 0);
        catalogue_release(m->cat, f->tier, pages);
    }
    catalogue_evicted(m->cat, v, done);
    model_unref(m, f);
}

static inline void model_victim(struct model *m)
{
    int tier = (int)(model_byte(m) % MODEL_TIERS);
    unsigned skips = 64;
    struct catalogue_victim v;
    catalogue_victim(m->cat, tier, &skips, &v);
    struct model_file *f;
    switch (v.what) {
    case CATALOGUE_WAIT:
        MODEL_CHECK(m, v.what != CATALOGUE_WAIT);
        return;
    case CATALOGUE_NOTHING:
        for (int i = 0; i < MODEL_FILES && skips; i++) { /* nothing was left that may go */
            f = &m->files[i];
            MODEL_CHECK(m,
                !model_in_sight(f) || f->pinned || f->tier != tier || f->busy || f->refs
                    || !model_pages(f));
        }
        return;
    case CATALOGUE_REMOVED:
        f = model_by_id(m, v.gone.id);
        MODEL_CHECK(m, f && !f->pinned && !f->dead && f->tier == tier);
        MODEL_CHECK(m, f && (f->complete || model_nsegs(f) == 1));
        model_gone(m, &v.gone);
        return;
    case CATALOGUE_MOVE:
        f = model_by_id(m, v.move.id);
        MODEL_CHECK(m, f && !f->pinned);
        model_begin_move(m, &v);
        return;
    case CATALOGUE_SPLIT:
        f = model_by_id(m, v.move.id);
        MODEL_CHECK(m, f && !f->pinned && !f->busy && !f->split && !f->complete);
        if (!f)
            return;
        f->refs++;
        model_attach(m, f);
        model_unref(m, f);
        return;
    case CATALOGUE_SEGMENT:
        model_evict_segment(m, &v);
        return;
    }
}

static inline void model_promote(struct model *m)
{
    struct catalogue_victim v;
    if (!m->has_hint)
        return;
    m->has_hint = false;
    struct model_file *f = model_by_id(m, m->hint.id);
    bool idle = f && !f->gone && f->refs == 0 && f->complete && !f->busy && !f->dead && !f->drop
        && f->tier == m->hint.from && (!f->pinned || m->tiers[m->hint.to].is_lasting);
    uint64_t key[2] = {0};
    if (f)
        model_path(f->path, key);
    bool begins = catalogue_move_begin(m->cat, &m->hint, &v);
    MODEL_CHECK(m, begins == (idle && key[0] == m->hint.path));
    if (begins)
        model_begin_move(m, &v);
}

/* -- pins, drops, the table -- */

static inline void model_pin(struct model *m)
{
    struct model_file *f = model_pick(m, model_is_in_use);
    if (!f)
        return;
    uint64_t pages = model_pages_of(f, model_valid(f) + model_byte(m) % 70u);
    bool fits = !f->dead && model_pin_fits(m, f, pages);
    enum catalogue_pinning rc = catalogue_pin(m->cat, f->id, pages);
    MODEL_CHECK(m,
        rc
            == (f->dead    ? CATALOGUE_PIN_GONE
                    : fits ? CATALOGUE_PINNED
                           : CATALOGUE_PIN_FULL));
    f->pinned |= fits;
    f->drop &= !fits;
}

static inline void model_unpin(struct model *m)
{
    unsigned path = model_byte(m);
    uint64_t key[2];
    model_path(path % MODEL_PATHS, key);
    uint32_t id = path & 0x80 ? catalogue_unpin_next(m->cat, path % 16)
                              : catalogue_unpin(m->cat, key);
    struct model_file *f = id == NONE ? NULL : model_by_id(m, id);
    MODEL_CHECK(m, id == NONE || (f && f->pinned));
    if (f)
        f->pinned = false;
    for (int i = 0; i < MODEL_FILES && id == NONE; i++) {
        const struct model_file *g = &m->files[i];
        bool meant = path & 0x80 ? g->id >= path % 16 : g->path == path % MODEL_PATHS;
        MODEL_CHECK(m, !g->used || !g->pinned || !meant);
    }
}

static inline void model_drop(struct model *m)
{
    unsigned path = model_byte(m) % MODEL_PATHS, how = model_byte(m);
    struct model_file *one = how % 2 ? model_find(m, path, how / 2 % MODEL_VERSIONS) : NULL;
    uint64_t key[2], version = how / 2 % MODEL_VERSIONS;
    model_path(path, key);
    struct catalogue_gone gone;
    bool any = catalogue_drop(m->cat, key, how % 2 ? &version : NULL, NONE, &gone);
    bool there = one;
    for (unsigned v = 0; v < MODEL_VERSIONS && how % 2 == 0; v++)
        there |= model_find(m, path, v) != NULL;
    MODEL_CHECK(m, any == there);
    if (!any)
        return;
    struct model_file *f = model_by_id(m, gone.id);
    MODEL_CHECK(m, f && f->path == path && (!one || f == one));
    MODEL_CHECK(m, f && gone.is_removed == (f->refs == 0));
    if (!f)
        return;
    if (gone.is_removed) {
        model_gone(m, &gone);
        return;
    }
    MODEL_CHECK(m, gone.is_complete == f->complete);
    MODEL_CHECK(m, gone.object == (f->attached ? f : NULL));
    f->refs++;
    f->pinned = false;
    f->drop |= f->complete;
    model_unref(m, f);
}

static inline void model_settle(struct model *m)
{
    unsigned path = model_byte(m) % MODEL_PATHS, version = model_byte(m) % MODEL_VERSIONS;
    struct model_file *f = model_find(m, path, version);
    uint64_t key[2], files, pages = model_byte(m) * 64u;
    model_path(path, key);
    struct catalogue_victim v;
    catalogue_settle(m->cat, key, version, pages, &v);
    bool goes = f && model_valid(f) && !m->tiers[f->tier].is_lasting && !f->drop
        && (f->pinned || model_pinned(m, &files) + pages <= model_pin_most(m));
    enum catalogue_what want = !goes ? CATALOGUE_NOTHING
        : f->busy || f->refs         ? CATALOGUE_WAIT
        : f->complete                ? CATALOGUE_MOVE
                                     : CATALOGUE_REMOVED;
    MODEL_CHECK(m, v.what == want);
    if (v.what == CATALOGUE_MOVE)
        model_begin_move(m, &v);
    else if (v.what == CATALOGUE_REMOVED)
        model_gone(m, &v.gone);
}

static inline void model_recycle(struct model *m)
{
    for (int i = 0; i < MODEL_FILES; i++)
        if (m->files[i].used && m->files[i].gone) {
            catalogue_recycle(m->cat, m->files[i].id);
            m->files[i].used = false;
        }
}

static inline void model_new(struct model *m)
{
    m->tiers[0] = (struct catalogue_tier){40 * 256, 0, false};
    m->tiers[1] = (struct catalogue_tier){180 * 256, 1, true};
    m->limit[0] = m->limit[1] = UINT64_MAX;
    m->cat = catalogue_new(m->tiers, MODEL_TIERS);
}

/* As if killed: what the table has of each entry is what there is; the rest never was. */
static inline void model_restart(struct model *m)
{
    uint32_t n = m->cat->nentries, from = 0;
    unsigned char(*records)[META_RECORD] = calloc(n + 1u, META_RECORD);
    for (uint32_t id = 0; id < n; id++)
        catalogue_record(m->cat, id, 1, records[id]);
    while (catalogue_detach(m->cat, &from))
        ;
    catalogue_free(m->cat);
    model_new(m);
    memset(m->move_on, 0, sizeof m->move_on);
    memset(m->blocked, 0, sizeof m->blocked);
    m->has_hint = false;
    bool same_boot = model_byte(m) % 2;
    for (int i = 0; i < MODEL_FILES; i++) {
        struct model_file *f = &m->files[i];
        struct meta_file meta;
        if (!f->used)
            continue;
        bool kept = meta_record_get(records[f->id], &meta);
        MODEL_CHECK(m,
            kept
                == (model_in_sight(f) && !f->drop && model_valid(f)
                    && m->tiers[f->tier].is_lasting));
        MODEL_CHECK(m, !kept || (meta.size == f->size && meta.valid == model_valid(f)));
        MODEL_CHECK(m, !kept || !!(meta.flags & META_PINNED) == f->pinned);
        f->used = kept;
        f->refs = f->handles = 0;
        f->attached = f->loaded = f->split = f->busy = f->resident = f->pinned = false;
        f->location = same_boot ? f->location : 0;
        f->from_table = true;
        f->table_pages = kept ? meta.pages : 0;
        f->born = 0;
    }
    m->births = 0;
    for (int t = 0; t < MODEL_TIERS; t++)
        m->was_over[t] = true; /* the table counts whole blocks */
    for (uint32_t id = 0; id < n; id++) {
        struct meta_file meta;
        bool kept = meta_record_get(records[id], &meta);
        struct model_file *f = kept ? model_by_id(m, id) : NULL;
        MODEL_CHECK(m, !kept || f);
        bool fits = !f || !(meta.flags & META_PINNED) || model_pin_fits(m, f, meta.pages);
        MODEL_CHECK(m, catalogue_load(m->cat, f ? &meta : NULL, same_boot) == !fits);
        if (f)
            f->pinned = meta.flags & META_PINNED && fits;
    }
    catalogue_loaded(m->cat);
    free(records);
}

static inline void model_time(struct model *m)
{
    int tier = (int)(model_byte(m) % MODEL_TIERS);
    m->now += 10;
    if (model_byte(m) % 8)
        return;
    MODEL_CHECK(
        m, catalogue_block(m->cat, tier, m->now, m->now + 25) == (m->blocked[tier] <= m->now));
    m->blocked[tier] = m->now + 25;
}

/* The disk of a tier has more or less room than before, or is out of the question. */
static inline void model_disk(struct model *m)
{
    int tier = (int)(model_byte(m) % MODEL_TIERS);
    int64_t room = ((int64_t)model_byte(m) - 100) * 256;
    uint64_t used = model_used(m, tier), quota = m->tiers[tier].quota;
    catalogue_limit(m->cat, tier, room);
    m->limit[tier] = (uint64_t)MAX((int64_t)used + room, INT64_C(0));
    MODEL_CHECK(m, catalogue_room(m->cat, tier) == quota - MIN(quota, used));
}

static inline void model_touch(struct model *m)
{
    struct model_file *f = model_pick(m, model_is_in_use);
    if (f && model_byte(m) % 4 == 0) {
        catalogue_ref(m->cat, f->id);
        f->refs++;
    }
    if (f)
        atomic_fetch_add(&catalogue_info(m->cat, f->id).hits[model_byte(m) % model_nsegs(f)], 1);
}

static inline void model_finish_moves(struct model *m)
{
    for (unsigned i = 0; i < MODEL_MOVES; i++)
        if (m->move_on[i])
            model_end_move(m, i);
}

static inline void model_step(struct model *m)
{
    static void (*const ops[])(struct model *) = {model_open, model_open, model_open, model_open,
        model_close, model_close, model_close, model_fill, model_fill, model_fill, model_fill,
        model_fill, model_lose, model_victim, model_victim, model_victim, model_promote, model_pin,
        model_unpin, model_drop, model_settle, model_recycle, model_time, model_disk, model_touch,
        model_touch, model_finish_moves};
    unsigned op = model_byte(m);
    if (op == 255)
        model_restart(m);
    else
        ops[op % (sizeof ops / sizeof ops[0])](m);
    m->step++;
    model_check(m);
}

/* What went wrong first with these bytes, or NULL; *steps: operations. */
static inline const char *model_run(
    struct model *m, const uint8_t *data, size_t size, unsigned *steps)
{
    memset(m, 0, sizeof *m);
    m->data = data;
    m->size = size;
    model_new(m);
    while (m->at < m->size && !m->failure[0])
        model_step(m);
    uint32_t from = 0;
    while (catalogue_detach(m->cat, &from))
        ;
    catalogue_free(m->cat);
    *steps = m->step;
    return m->failure[0] ? m->failure : NULL;
}

#endif
