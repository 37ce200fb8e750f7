/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/catalogue.h"

#include "fuse/cache/catalogue_priv.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

struct catalogue *catalogue_new(const struct catalogue_tier *tiers, size_t ntiers)
{
    struct catalogue *cat = calloc(1, sizeof *cat);
    if (!cat)
        return NULL;
    pthread_mutex_init(&cat->mu, NULL);
    cat->free_entries = NONE;
    cat->ntiers = ntiers;
    for (size_t i = 0; i < CATALOGUE_TIERS; i++) {
        if (i < ntiers)
            cat->tiers[i].conf = tiers[i];
        cat->tiers[i].limit = tiers[i].quota;
        entry_queue_init(cat, &cat->tiers[i]);
    }
    if (entry_rehash(cat) == 0)
        return cat;
    catalogue_free(cat);
    return NULL;
}

void catalogue_free(struct catalogue *cat)
{
    if (!cat)
        return;
    for (size_t i = 0; i < CATALOGUE_TIERS; i++)
        s3f_fini(&cat->tiers[i].queue);
    for (uint32_t i = 0; i < cat->nchunks; i++)
        free(cat->chunks[i]);
    free(cat->chunks);
    free(cat->buckets);
    pthread_mutex_destroy(&cat->mu);
    free(cat);
}

void *catalogue_detach(struct catalogue *cat, uint32_t *from)
{
    void *object = NULL;
    pthread_mutex_lock(&cat->mu);
    for (; *from < cat->nentries && !object; ++*from) {
        struct cat_entry *s = entry_at(cat, *from);
        if (s->kind != ENTRY_FILE || !s->use)
            continue;
        object = s->use->object;
        entry_unuse(s);
    }
    pthread_mutex_unlock(&cat->mu);
    return object;
}

/* -- opening and closing --------------------------------------------------------------------- */

/* The entry of that version, new if need be. mu is held. */
static uint32_t entry_for(
    struct catalogue *cat, const uint64_t path[2], uint64_t version, uint64_t size)
{
    uint32_t id = entry_find(cat, path, &version, NONE);
    if (id != NONE)
        return id;
    id = entry_new(cat, ENTRY_FILE);
    if (id == NONE)
        return NONE;
    struct cat_entry *s = entry_at(cat, id);
    s->path[0] = path[0];
    s->path[1] = path[1];
    s->version = version;
    s->size = size;
    s->born = ++cat->births;
    entry_hash(cat, id);
    return id;
}

static struct catalogue_info info_of(const struct catalogue *cat, uint32_t id)
{
    const struct cat_entry *s = entry_at(cat, id);
    return (struct catalogue_info){.meta = entry_meta(cat, id),
        .tier = s->tier,
        .is_trusted = s->flags & ENTRY_TRUSTED,
        .is_pinned = s->flags & ENTRY_PINNED,
        .is_loaded = s->loaded,
        .hits = s->use ? s->use->hits : NULL,
        .object = s->use ? s->use->object : NULL};
}

uint32_t catalogue_open(struct catalogue *cat, const uint64_t path[2], uint64_t version,
    uint64_t size, bool handle, struct catalogue_info *info)
{
    pthread_mutex_lock(&cat->mu);
    uint32_t id = entry_for(cat, path, version, size);
    struct cat_entry *s = id == NONE ? NULL : entry_at(cat, id);
    if (s && entry_ref(cat, id)) {
        s->use->handles += handle;
        *info = info_of(cat, id);
        if (s->valid && s->unit.queue != S3F_OUT)
            s3f_touch(entry_queue(cat, id), id, 1);
    } else if (s) {
        if (!s->valid) {
            entry_unhash(cat, id);
            entry_free(cat, id);
        }
        id = NONE;
    }
    pthread_mutex_unlock(&cat->mu);
    return id;
}

#define VISIT_MOST 4096u /* entries, with the lock held */

static bool may_visit(const struct cat_entry *s, bool in_use)
{
    return s->kind == ENTRY_FILE && s->valid && !(s->flags & ENTRY_BUSY)
        && (in_use ? s->use && s->use->refs : !(s->flags & (ENTRY_DEAD | ENTRY_DROP)));
}

uint32_t catalogue_visit(
    struct catalogue *cat, uint32_t *from, bool in_use, struct catalogue_info *info)
{
    uint32_t found = NONE, id = *from;
    pthread_mutex_lock(&cat->mu);
    for (uint32_t end = MIN(cat->nentries, id + VISIT_MOST); id < end && found == NONE; id++)
        if (may_visit(entry_at(cat, id), in_use) && entry_ref(cat, id))
            found = id;
    if (found != NONE)
        *info = info_of(cat, found);
    *from = id < cat->nentries ? id : NONE;
    pthread_mutex_unlock(&cat->mu);
    return found;
}

void *catalogue_attach(struct catalogue *cat, uint32_t id, void *object)
{
    pthread_mutex_lock(&cat->mu);
    struct cat_use *use = entry_at(cat, id)->use;
    if (!use->object)
        use->object = object;
    object = use->object;
    pthread_mutex_unlock(&cat->mu);
    return object;
}

struct catalogue_info catalogue_info(struct catalogue *cat, uint32_t id)
{
    pthread_mutex_lock(&cat->mu);
    struct catalogue_info info = info_of(cat, id);
    pthread_mutex_unlock(&cat->mu);
    return info;
}

void catalogue_ref(struct catalogue *cat, uint32_t id)
{
    pthread_mutex_lock(&cat->mu);
    entry_at(cat, id)->use->refs++;
    pthread_mutex_unlock(&cat->mu);
}

bool catalogue_close_handle(struct catalogue *cat, uint32_t id)
{
    pthread_mutex_lock(&cat->mu);
    bool last = --entry_at(cat, id)->use->handles == 0;
    pthread_mutex_unlock(&cat->mu);
    return last;
}

void catalogue_recycle(struct catalogue *cat, uint32_t id)
{
    pthread_mutex_lock(&cat->mu);
    const struct cat_entry *s = entry_at(cat, id);
    cat->tiers[s->tier].used -= s->pages;
    entry_free(cat, id);
    pthread_mutex_unlock(&cat->mu);
}

/* The last reference of an entry that stays is given back. mu is held. */
static void leave(struct catalogue *cat, uint32_t id, bool may_move, struct catalogue_left *left)
{
    struct cat_entry *s = entry_at(cat, id);
    left->gone = (struct catalogue_gone){.id = id, .is_complete = s->flags & ENTRY_COMPLETE};
    int to = may_move ? entry_better_tier(cat, s) : -1;
    left->moves = to >= 0;
    if (left->moves) {
        left->move = (struct catalogue_move){id, s->path[0], s->tier, to};
        s->unit.freq = 0;
    }
    if (s->use->is_resident)
        return;
    left->gone.object = s->use->object;
    entry_unuse(s);
}

/* mu is held. */
static enum catalogue_end close_last(struct catalogue *cat, uint32_t id,
    const struct catalogue_closing *closing, struct catalogue_left *left)
{
    struct cat_entry *s = entry_at(cat, id);
    bool stays = s->valid && !(s->flags & (ENTRY_DEAD | ENTRY_DROP)),
         stale = !(s->flags & ENTRY_COMPLETE) || !s->location;
    if (stays && stale && !closing->is_checked)
        return CATALOGUE_CHECK;
    s->use->refs = 0;
    if (closing->is_trusted) {
        s->location = closing->mtime_ns;
        s->flags |= ENTRY_TRUSTED;
    } else if (closing->is_distrusted) {
        s->flags &= (uint8_t)~ENTRY_TRUSTED;
    }
    left->moves = false;
    if (stays)
        leave(cat, id, closing->may_move, left);
    else
        entry_remove(cat, id, &left->gone);
    return CATALOGUE_LEFT;
}

enum catalogue_end catalogue_close(struct catalogue *cat, uint32_t id,
    const struct catalogue_closing *closing, struct catalogue_left *left)
{
    enum catalogue_end rc = CATALOGUE_IN_USE;
    pthread_mutex_lock(&cat->mu);
    if (entry_at(cat, id)->use->refs > 1)
        entry_at(cat, id)->use->refs--;
    else
        rc = close_last(cat, id, closing, left);
    pthread_mutex_unlock(&cat->mu);
    return rc;
}

/* Takes the file out of sight: it goes now, or with its last reference. mu is held. */
static void hide(struct catalogue *cat, uint32_t id, struct catalogue_gone *gone)
{
    struct cat_entry *s = entry_at(cat, id);
    if (!entry_is_open(s)) {
        entry_remove(cat, id, gone);
        return;
    }
    entry_unpin(cat, id);
    entry_join(cat, id);
    s3f_remove(entry_queue(cat, id), id);
    entry_unhash(cat, id);
    s->flags |= ENTRY_DEAD;
    *gone = (struct catalogue_gone){.id = id};
}

bool catalogue_supersede(struct catalogue *cat, uint32_t id, struct catalogue_gone *gone)
{
    pthread_mutex_lock(&cat->mu);
    const struct cat_entry *s = entry_at(cat, id);
    uint32_t goes = NONE;
    for (uint32_t at = s->flags & ENTRY_DEAD ? NONE : entry_find(cat, s->path, NULL, NONE);
         at != NONE && goes == NONE; at = entry_at(cat, at)->chain) {
        const struct cat_entry *other = entry_at(cat, at);
        if (at == id || other->path[0] != s->path[0] || other->path[1] != s->path[1])
            continue;
        if ((int32_t)(other->born - s->born) <= 0)
            goes = at;
        else if (other->valid) /* opened after us, and no mere name: it is we who are old */
            goes = id;
    }
    if (goes != NONE)
        hide(cat, goes, gone);
    pthread_mutex_unlock(&cat->mu);
    return goes != NONE;
}

bool catalogue_drop(struct catalogue *cat, const uint64_t path[2], const uint64_t *version,
    uint32_t but, struct catalogue_gone *gone)
{
    pthread_mutex_lock(&cat->mu);
    uint32_t id = entry_find(cat, path, version, but);
    struct cat_entry *s = id == NONE ? NULL : entry_at(cat, id);
    if (s && !entry_is_open(s)) {
        entry_remove(cat, id, gone);
    } else if (s) {
        entry_unpin(cat, id);
        s->use->refs++;
        *gone = (struct catalogue_gone){
            .id = id, .is_complete = s->flags & ENTRY_COMPLETE, .object = s->use->object};
        if (gone->is_complete)
            s->flags |= ENTRY_DROP;
    }
    pthread_mutex_unlock(&cat->mu);
    return s;
}

/* -- the table and the outside --------------------------------------------------------------- */

void catalogue_record(
    struct catalogue *cat, uint32_t id, uint32_t boot, unsigned char record[META_RECORD])
{
    memset(record, 0, META_RECORD);
    pthread_mutex_lock(&cat->mu);
    const struct cat_entry *s = entry_at(cat, id);
    if (s->kind == ENTRY_FILE && s->valid && !(s->flags & (ENTRY_DEAD | ENTRY_DROP))
        && cat->tiers[s->tier].conf.is_lasting) {
        struct meta_file f = entry_meta(cat, id);
        f.boot = boot;
        uint64_t pages = s->size / 4096 + (s->size % 4096 != 0);
        if (s->flags & ENTRY_SPLIT)
            f.pages = (uint32_t)MIN((uint64_t)s->valid * 256, pages);
        meta_record_put(record, &f);
    }
    pthread_mutex_unlock(&cat->mu);
}

/* mu is held. 1: there is no room for its pin. */
static int load_entry(struct catalogue *cat, uint32_t id, const struct meta_file *f, bool same_boot)
{
    size_t tier = 0;
    while (tier < cat->ntiers && cat->tiers[tier].conf.medium != f->medium)
        tier++;
    if (tier == cat->ntiers || !cat->tiers[tier].conf.is_lasting
        || entry_find(cat, f->path, NULL, NONE) != NONE)
        return 0; /* the file itself is removed later as an orphan */
    struct cat_entry *s = entry_at(cat, id);
    *s = (struct cat_entry){.kind = ENTRY_FILE,
        .path = {f->path[0], f->path[1]},
        .version = f->version,
        .size = f->size,
        .location = same_boot ? f->mtime_ns : 0,
        .valid = f->valid,
        .pages = f->pages,
        .crc0 = f->crc0,
        .owner = NONE,
        .tier = (uint8_t)tier};
    uint64_t blocks = s->size / (1u << 20) + (s->size % (1u << 20) != 0);
    if (s->valid == blocks) {
        s->flags |= ENTRY_COMPLETE;
        cat->ncomplete++;
    }
    cat->nwith_data++;
    entry_hash(cat, id);
    cat->tiers[tier].used += s->pages;
    bool fits = !(f->flags & META_PINNED) || entry_pin(cat, id, s->pages);
    entry_enqueue(cat, id);
    return !fits;
}

int catalogue_load(struct catalogue *cat, const struct meta_file *f, bool same_boot)
{
    pthread_mutex_lock(&cat->mu);
    uint32_t id = entry_new(cat, ENTRY_FREE); /* in order while none is free */
    int rc = id == NONE ? -1 : f ? load_entry(cat, id, f, same_boot) : 0;
    pthread_mutex_unlock(&cat->mu);
    return rc;
}

void catalogue_loaded(struct catalogue *cat)
{
    pthread_mutex_lock(&cat->mu);
    for (uint32_t id = 0; id < cat->nentries; id++)
        if (entry_at(cat, id)->kind == ENTRY_FREE)
            entry_free(cat, id);
    pthread_mutex_unlock(&cat->mu);
}

bool catalogue_has_file(
    struct catalogue *cat, int tier, uint32_t id, uint64_t hash, uint32_t version)
{
    pthread_mutex_lock(&cat->mu);
    const struct cat_entry *s = id < cat->nentries ? entry_at(cat, id) : NULL;
    bool has = s && s->kind == ENTRY_FILE && s->path[1] == hash && (uint32_t)s->version == version
        && (s->tier == tier || s->flags & ENTRY_BUSY);
    pthread_mutex_unlock(&cat->mu);
    return has;
}

struct catalogue_stats catalogue_stats(struct catalogue *cat)
{
    pthread_mutex_lock(&cat->mu);
    struct catalogue_stats out = {.files = cat->nwith_data,
        .complete_files = cat->ncomplete,
        .pinned = cat->pin_pages,
        .pinned_most = entry_pin_most(cat),
        .pinned_files = cat->npinned};
    for (size_t i = 0; i < cat->ntiers; i++) {
        const struct cat_tier *t = &cat->tiers[i];
        out.used += t->used;
        out.quota += t->conf.quota;
        if (t->conf.is_lasting)
            out.blocked_ns = MAX(out.blocked_ns, t->blocked_ns);
    }
    pthread_mutex_unlock(&cat->mu);
    return out;
}
