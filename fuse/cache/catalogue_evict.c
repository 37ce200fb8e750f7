/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue's room: where new bytes go, which entry leaves a tier next, and its moves between
 * tiers. */
#include "fuse/cache/catalogue_priv.h"
#include "lib/base/mem.h"

/* bytes that a caller may wait for while they are copied */
#define SETTLE_MAX (UINT64_C(256) << 20)

/* Below a quota there is a margin, so that eviction comes before who needs the room. A disk's limit
 * has none: there, what is cached leaves only for what comes. */
static uint64_t mark_below(const struct cat_tier *t, unsigned share)
{
    return MIN(t->conf.quota - t->conf.quota / share, t->limit);
}

static uint64_t high_mark(const struct cat_tier *t) { return mark_below(t, 20); }

/* New bytes push nothing out of a faster tier; what turns out to be used again moves up. A pin
 * survives the process, so pinned bytes go where they last. */
int catalogue_choose(struct catalogue *cat, uint32_t id, int64_t now_ns)
{
    int best = -1;
    pthread_mutex_lock(&cat->mu);
    const struct cat_entry *s = entry_at(cat, id);
    uint64_t pages = s->size / 4096 + (s->size % 4096 != 0);
    bool lasts = s->flags & ENTRY_PINNED && entry_lasting_tier(cat) >= 0;
    for (size_t i = 0; i < cat->ntiers; i++) {
        const struct cat_tier *t = &cat->tiers[i];
        if (!t->conf.quota || t->blocked_ns > now_ns || (lasts && !t->conf.is_lasting))
            continue;
        best = (int)i;
        if (t->used + pages <= high_mark(t))
            break;
    }
    pthread_mutex_unlock(&cat->mu);
    return best;
}

enum catalogue_room catalogue_reserve(
    struct catalogue *cat, int tier, uint64_t pages, int64_t now_ns)
{
    enum catalogue_room rc = CATALOGUE_NO_ROOM;
    pthread_mutex_lock(&cat->mu);
    struct cat_tier *t = &cat->tiers[tier];
    if (t->blocked_ns > now_ns || pages > t->conf.quota) {
        rc = CATALOGUE_REFUSED;
    } else if (t->used + pages <= t->limit) {
        t->used += pages;
        rc = t->used > high_mark(t) ? CATALOGUE_ROOM_LOW : CATALOGUE_ROOM;
    }
    pthread_mutex_unlock(&cat->mu);
    return rc;
}

void catalogue_release(struct catalogue *cat, int tier, uint64_t pages)
{
    pthread_mutex_lock(&cat->mu);
    cat->tiers[tier].used -= pages;
    pthread_mutex_unlock(&cat->mu);
}

bool catalogue_block(struct catalogue *cat, int tier, int64_t now_ns, int64_t until_ns)
{
    pthread_mutex_lock(&cat->mu);
    bool first = cat->tiers[tier].blocked_ns <= now_ns;
    cat->tiers[tier].blocked_ns = until_ns;
    pthread_mutex_unlock(&cat->mu);
    return first;
}

bool catalogue_is_low(struct catalogue *cat, int tier)
{
    pthread_mutex_lock(&cat->mu);
    const struct cat_tier *t = &cat->tiers[tier];
    bool low = t->used > mark_below(t, 10);
    pthread_mutex_unlock(&cat->mu);
    return low;
}

uint64_t catalogue_room(struct catalogue *cat, int tier)
{
    pthread_mutex_lock(&cat->mu);
    const struct cat_tier *t = &cat->tiers[tier];
    uint64_t room = t->conf.quota - MIN(t->used, t->conf.quota);
    pthread_mutex_unlock(&cat->mu);
    return room;
}

uint64_t catalogue_gives(struct catalogue *cat, int tier)
{
    pthread_mutex_lock(&cat->mu);
    uint64_t pages = s3f_weight(&cat->tiers[tier].queue);
    pthread_mutex_unlock(&cat->mu);
    return pages;
}

struct room_wanted {
    const struct catalogue *cat;
    uint64_t pages;
};

static bool is_stuck(const struct cat_entry *f)
{
    return f->flags & ENTRY_BUSY || (entry_is_open(f) && f->flags & ENTRY_COMPLETE);
}

static bool leaves_enough(void *user, uint32_t unit)
{
    struct room_wanted *w = user;
    const struct cat_entry *u = entry_at(w->cat, unit),
                           *f = u->kind == ENTRY_FILE ? u : entry_at(w->cat, u->owner);
    if (!is_stuck(f))
        w->pages -= MIN(w->pages, (uint64_t)u->pages);
    return !w->pages;
}

bool catalogue_can_have(struct catalogue *cat, int tier, uint64_t pages)
{
    pthread_mutex_lock(&cat->mu);
    const struct cat_tier *t = &cat->tiers[tier];
    uint64_t limit = MIN(t->limit, t->conf.quota);
    struct room_wanted w = {cat, t->used + pages > limit ? t->used + pages - limit : 0};
    bool can = pages <= limit && (!w.pages || s3f_any(&t->queue, leaves_enough, &w));
    pthread_mutex_unlock(&cat->mu);
    return can;
}

void catalogue_limit(struct catalogue *cat, int tier, int64_t room)
{
    pthread_mutex_lock(&cat->mu);
    struct cat_tier *t = &cat->tiers[tier];
    int64_t limit = MAX((int64_t)t->used + room, 0);
    t->limit = MIN((uint64_t)limit, t->conf.quota);
    pthread_mutex_unlock(&cat->mu);
}

/* -- victims --------------------------------------------------------------------------------- */

/* Takes a reference on a file that is to be moved. mu is held; false: no memory. */
static bool take_to_move(struct catalogue *cat, uint32_t id, int to, struct catalogue_victim *out)
{
    if (!entry_ref(cat, id))
        return false;
    struct cat_entry *s = entry_at(cat, id);
    s->flags |= ENTRY_BUSY;
    *out = (struct catalogue_victim){.what = CATALOGUE_MOVE,
        .move = {id, s->path[0], s->tier, to},
        .pages = s->pages,
        .object = s->use->object};
    return true;
}

/* An idle file goes down a tier if it is whole and there is one, else away. */
static bool evict_whole(struct catalogue *cat, int tier, uint32_t id, struct catalogue_victim *out)
{
    const struct cat_entry *s = entry_at(cat, id);
    if ((size_t)tier + 1 < cat->ntiers && s->flags & ENTRY_COMPLETE
        && s->pages < cat->tiers[tier + 1].conf.quota / 2)
        return take_to_move(cat, id, tier + 1, out);
    out->what = CATALOGUE_REMOVED;
    s3f_evicted(&cat->tiers[tier].queue, id, entry_key(cat, id));
    entry_remove(cat, id, &out->gone);
    return true;
}

/* What to do about the unit that the policy chose; false: it may not go now. */
static bool evict_what(struct catalogue *cat, int tier, uint32_t unit, struct catalogue_victim *out)
{
    const struct cat_entry *u = entry_at(cat, unit);
    bool whole = u->kind == ENTRY_FILE;
    uint32_t id = whole ? unit : u->owner;
    const struct cat_entry *f = entry_at(cat, id);
    bool open = entry_is_open(f), complete = f->flags & ENTRY_COMPLETE;
    if (is_stuck(f))
        return false;
    bool splits = whole && !complete && entry_nsegs(f) > 1;
    if (whole && !open && !splits)
        return evict_whole(cat, tier, id, out);
    if (!entry_ref(cat, id))
        return false;
    *out = (struct catalogue_victim){.what = splits ? CATALOGUE_SPLIT : CATALOGUE_SEGMENT,
        .move = {id, f->path[0], tier, tier},
        .unit = unit,
        .seg = whole ? 0 : u->seg,
        .key = entry_key(cat, unit),
        .was_small = u->unit.queue == S3F_SMALL,
        .object = f->use->object};
    return true;
}

void catalogue_victim(
    struct catalogue *cat, int tier, unsigned *skips, struct catalogue_victim *victim)
{
    pthread_mutex_lock(&cat->mu);
    struct s3f *queue = &cat->tiers[tier].queue;
    victim->what = CATALOGUE_NOTHING;
    for (uint32_t id; *skips && (id = s3f_victim(queue)) != S3F_NONE;) {
        --*skips;
        if (evict_what(cat, tier, id, victim))
            break;
        s3f_skip(queue, id);
    }
    pthread_mutex_unlock(&cat->mu);
}

void catalogue_evicted(struct catalogue *cat, const struct catalogue_victim *victim, bool done)
{
    pthread_mutex_lock(&cat->mu);
    struct s3f *queue = &cat->tiers[victim->move.from].queue;
    const struct cat_entry *u = entry_at(cat, victim->unit);
    if (done && victim->was_small)
        s3f_remember(queue, victim->key);
    else if (!done && u->kind != ENTRY_FREE && u->tier == victim->move.from
        && entry_key(cat, victim->unit) == victim->key)
        s3f_skip(queue, victim->unit);
    pthread_mutex_unlock(&cat->mu);
}

bool catalogue_remove(
    struct catalogue *cat, const struct catalogue_victim *victim, struct catalogue_gone *gone)
{
    const struct catalogue_move *m = &victim->move;
    pthread_mutex_lock(&cat->mu);
    const struct cat_entry *s = entry_at(cat, m->id);
    bool idle = s->kind == ENTRY_FILE && s->path[0] == m->path && s->tier == m->from
        && !(s->flags & (ENTRY_DEAD | ENTRY_BUSY)) && !entry_is_open(s);
    if (idle) {
        s3f_evicted(&cat->tiers[m->from].queue, m->id, entry_key(cat, m->id));
        entry_remove(cat, m->id, gone);
    }
    pthread_mutex_unlock(&cat->mu);
    return idle;
}

/* -- moves ----------------------------------------------------------------------------------- */

bool catalogue_move_begin(
    struct catalogue *cat, const struct catalogue_move *move, struct catalogue_victim *out)
{
    pthread_mutex_lock(&cat->mu);
    const struct cat_entry *s = entry_at(cat, move->id);
    bool begin = s->kind == ENTRY_FILE && s->path[0] == move->path && s->flags & ENTRY_COMPLETE
        && s->tier == move->from
        && (!(s->flags & ENTRY_PINNED) || cat->tiers[move->to].conf.is_lasting)
        && !(s->flags & (ENTRY_BUSY | ENTRY_DEAD | ENTRY_DROP)) && !entry_is_open(s)
        && take_to_move(cat, move->id, move->to, out);
    pthread_mutex_unlock(&cat->mu);
    return begin;
}

bool catalogue_move_end(
    struct catalogue *cat, const struct catalogue_victim *moved, int64_t location, bool resident)
{
    uint32_t id = moved->move.id;
    int from = moved->move.from, to = moved->move.to;
    pthread_mutex_lock(&cat->mu);
    struct cat_entry *s = entry_at(cat, id);
    bool alone = s->use->refs == 1 && !(s->flags & (ENTRY_DEAD | ENTRY_DROP))
        && s->flags & ENTRY_COMPLETE;
    if (alone) {
        s3f_remove(&cat->tiers[from].queue, id);
        cat->tiers[from].used -= s->pages;
        cat->tiers[to].used += s->pages - moved->pages;
        s->tier = (uint8_t)to;
        s->location = location;
        s->use->is_resident = resident;
        if (to < from) /* hot: past the small queue */
            s3f_remember(&cat->tiers[to].queue, entry_key(cat, id));
        entry_enqueue(cat, id);
        s->flags &= (uint8_t)~ENTRY_BUSY;
    }
    pthread_mutex_unlock(&cat->mu);
    return alone;
}

void catalogue_move_fail(struct catalogue *cat, const struct catalogue_victim *moved)
{
    pthread_mutex_lock(&cat->mu);
    entry_at(cat, moved->move.id)->flags &= (uint8_t)~ENTRY_BUSY;
    pthread_mutex_unlock(&cat->mu);
}

void catalogue_settle(struct catalogue *cat, const uint64_t path[2], uint64_t version,
    uint64_t pages, struct catalogue_victim *out)
{
    out->what = CATALOGUE_NOTHING;
    pthread_mutex_lock(&cat->mu);
    int to = entry_lasting_tier(cat);
    uint32_t id = to < 0 ? NONE : entry_find(cat, path, &version, NONE);
    const struct cat_entry *s = id == NONE ? NULL : entry_at(cat, id);
    bool goes = s && s->valid && !cat->tiers[s->tier].conf.is_lasting && !(s->flags & ENTRY_DROP)
        && (s->flags & ENTRY_PINNED || cat->pin_pages + pages <= entry_pin_most(cat));
    if (goes && (s->flags & ENTRY_BUSY || entry_is_open(s))) {
        out->what = CATALOGUE_WAIT;
    } else if (goes && s->flags & ENTRY_COMPLETE && s->size <= SETTLE_MAX) {
        take_to_move(cat, id, to, out);
    } else if (goes) {
        out->what = CATALOGUE_REMOVED;
        entry_remove(cat, id, &out->gone);
    }
    pthread_mutex_unlock(&cat->mu);
}
