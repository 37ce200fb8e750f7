/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue's pins: which files eviction spares, and marks: of which files it is counted. What
 * is pinned is in no queue, so that eviction never comes across it. A pin reserves the pages that
 * its file may take, and grows with it; the sum of all is bounded, so that the rest of the cache
 * goes on being one. */
#include "fuse/cache/catalogue_priv.h"

enum catalogue_pinning catalogue_pin(struct catalogue *cat, uint32_t id, uint64_t pages)
{
    pthread_mutex_lock(&cat->mu);
    struct cat_entry *s = entry_at(cat, id);
    enum catalogue_pinning rc = s->flags & ENTRY_DEAD ? CATALOGUE_PIN_GONE
        : entry_pin(cat, id, pages)                   ? CATALOGUE_PINNED
                                                      : CATALOGUE_PIN_FULL;
    if (rc == CATALOGUE_PINNED)
        s->flags &= (uint8_t)~ENTRY_DROP;
    pthread_mutex_unlock(&cat->mu);
    return rc;
}

bool catalogue_pin_grow(struct catalogue *cat, uint32_t id, uint64_t pages)
{
    pthread_mutex_lock(&cat->mu);
    bool fits = !(entry_at(cat, id)->flags & ENTRY_PINNED) || entry_pin(cat, id, pages);
    pthread_mutex_unlock(&cat->mu);
    return fits;
}

uint32_t catalogue_unpin(struct catalogue *cat, const uint64_t path[2])
{
    pthread_mutex_lock(&cat->mu);
    uint32_t id = entry_find(cat, path, NULL, NONE);
    for (; id != NONE; id = entry_at(cat, id)->chain) {
        const struct cat_entry *s = entry_at(cat, id);
        if (s->path[0] == path[0] && s->path[1] == path[1] && s->flags & ENTRY_PINNED)
            break;
    }
    if (id != NONE)
        entry_unpin(cat, id);
    pthread_mutex_unlock(&cat->mu);
    return id;
}

uint32_t catalogue_unpin_next(struct catalogue *cat, uint32_t from)
{
    pthread_mutex_lock(&cat->mu);
    uint32_t id = from;
    while (id < cat->nentries
        && (entry_at(cat, id)->kind != ENTRY_FILE || !(entry_at(cat, id)->flags & ENTRY_PINNED)))
        id++;
    if (id < cat->nentries)
        entry_unpin(cat, id);
    else
        id = NONE;
    pthread_mutex_unlock(&cat->mu);
    return id;
}

void catalogue_mark_loaded(struct catalogue *cat, uint32_t id, uint8_t mark)
{
    pthread_mutex_lock(&cat->mu);
    entry_at(cat, id)->loaded = mark;
    pthread_mutex_unlock(&cat->mu);
}

void catalogue_forget_loaded(struct catalogue *cat, uint8_t but)
{
    pthread_mutex_lock(&cat->mu);
    for (uint32_t id = 0; id < cat->nentries; id++)
        if (entry_at(cat, id)->kind == ENTRY_FILE && entry_at(cat, id)->loaded != but)
            entry_at(cat, id)->loaded = 0;
    pthread_mutex_unlock(&cat->mu);
}
