/* SPDX-License-Identifier: Apache-2.0 */
/* Does everything in the index hold together? Asked once, of a file that another process left: a
 * checksum says that it is what was written, not that it is sound, and one link that leads astray
 * is a crash or a loop later. */
#include "fuse/index/format.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct check {
    const struct inodes *ix;
    uint8_t *heap;  /* a bit for each unit of the heap: taken */
    uint32_t named; /* inodes with a name, without the root */
};

static bool rec_is_named(const struct rec *r)
{
    return (r->flags & INODE_USED) && !(r->flags & INODE_UNLINKED);
}

static bool text_inside(const struct inodes *ix, uint32_t unit, size_t len)
{
    return unit && (uint64_t)unit + index_units(len) <= ix->h->heap_units;
}

static bool name_is_sound(const struct inodes *ix, const struct rec *r)
{
    const char *name = index_text(ix, r->name);
    size_t len = r->name_len;
    return len && !memchr(name, '\0', len) && !memchr(name, '/', len)
        && (name[0] != '.' || (len != 1 && (len != 2 || name[1] != '.')));
}

bool index_rec_ok(const struct inodes *ix, uint32_t ino)
{
    const struct rec *r = &ix->recs[ino];
    bool dir = r->flags & INODE_DIR;
    uint32_t unit;
    if (r->flags & INODE_DROPPED)
        return ino != INODE_ROOT && !r->name_len && !index_version_unit(r)
            && r->flags == (INODE_USED | INODE_UNLINKED | INODE_DROPPED);
    if (r->mount != INODE_NO_MOUNT && r->mount >= index_nslots(ix))
        return false;
    if (!S_ISDIR(r->mode) != !dir || (!dir && !S_ISREG(r->mode) && !S_ISLNK(r->mode)))
        return false;
    if (!dir && !index_version_ok(r))
        return false;
    if (!dir && (unit = index_version_unit(r)) && !text_inside(ix, unit, r->version[4]))
        return false;
    if (ino == INODE_ROOT)
        return dir && (r->flags & INODE_MOUNT) && !(r->flags & INODE_UNLINKED)
            && r->parent == INODE_ROOT;
    return r->parent < ix->h->nrecs && text_inside(ix, r->name, r->name_len)
        && name_is_sound(ix, r);
}

/* False: it is taken already. */
static bool claim(struct check *c, uint32_t unit, size_t units)
{
    for (; units--; unit++) {
        if (c->heap[unit / 8] & 1 << unit % 8)
            return false;
        c->heap[unit / 8] |= (uint8_t)(1 << unit % 8);
    }
    return true;
}

/* Each record by itself, what the head counts, and the free ones. */
static bool records_ok(struct check *c)
{
    const struct inodes *ix = c->ix;
    const struct index_head *h = ix->h;
    uint32_t live = 0, unlinked = 0, dirty = 0, unit;
    for (uint32_t i = 1; i < h->nrecs; i++) {
        const struct rec *r = &ix->recs[i];
        if (!(r->flags & INODE_USED))
            continue;
        if (!index_rec_ok(ix, i)
            || (i != INODE_ROOT && r->name_len && !claim(c, r->name, index_units(r->name_len))))
            return false;
        if (!(r->flags & INODE_DIR) && (unit = index_version_unit(r))
            && !claim(c, unit, index_units(r->version[4])))
            return false;
        if ((r->flags & (INODE_DIR | INODE_UNLINKED)) == (INODE_DIR | INODE_UNLINKED)
            && (r->kids.first || r->kids.last))
            return false;
        live++;
        unlinked += !!(r->flags & INODE_UNLINKED);
        dirty += !!(r->flags & INODE_DIRTY);
    }
    if (!(ix->recs[INODE_ROOT].flags & INODE_USED) || live != h->live || unlinked != h->unlinked
        || dirty != h->dirty)
        return false;
    c->named = live - unlinked - 1;
    uint32_t free_recs = h->nrecs - 1 - live, i = h->free_rec;
    for (; i && free_recs && i < h->nrecs && !(ix->recs[i].flags & INODE_USED); free_recs--)
        i = ix->recs[i].next;
    return i == 0 && free_recs == 0; /* a ring would never get to its end */
}

static bool heap_ok(struct check *c)
{
    const struct index_head *h = c->ix->h;
    if (h->heap_free[0])
        return false;
    for (uint32_t units = 1; units < sizeof h->heap_free / sizeof *h->heap_free; units++)
        for (uint32_t unit = h->heap_free[units]; unit;
             memcpy(&unit, index_text(c->ix, unit), sizeof unit))
            if ((uint64_t)unit + units > h->heap_units || !claim(c, unit, units)) /* so no ring */
                return false;
    return true;
}

/* The children of a directory; each names it and its neighbour, so nothing is met twice. Takes them
 * off c->named. */
static bool siblings_ok(struct check *c, uint32_t ino)
{
    const struct inodes *ix = c->ix;
    const struct rec *dir = &ix->recs[ino];
    uint32_t count = 0, prev = 0;
    for (uint32_t i = dir->kids.first; i; prev = i, i = ix->recs[i].next) {
        const struct rec *r = &ix->recs[i];
        if (i == INODE_ROOT || i >= ix->h->nrecs || !rec_is_named(r) || r->parent != ino
            || r->prev != prev || c->named == 0)
            return false;
        c->named--;
        count++;
    }
    return dir->kids.last == prev && dir->dir.count == count;
}

/* How many inodes are below the root. The lists of siblings are sound. */
static uint32_t count_below_root(const struct inodes *ix)
{
    const struct rec *root = &ix->recs[INODE_ROOT], *r = root;
    for (uint32_t n = 0;; n++) {
        if ((r->flags & INODE_DIR) && r->kids.first) {
            r = &ix->recs[r->kids.first];
            continue;
        }
        while (r != root && !r->next)
            r = &ix->recs[r->parent];
        if (r == root)
            return n;
        r = &ix->recs[r->next];
    }
}

static bool tree_ok(const struct check *c)
{
    struct check left = *c;
    for (uint32_t i = 1; i < c->ix->h->nrecs; i++)
        if (rec_is_named(&c->ix->recs[i]) && (c->ix->recs[i].flags & INODE_DIR)
            && !siblings_ok(&left, i))
            return false;
    /* no ring of directories beside the root */
    return left.named == 0 && count_below_root(c->ix) == c->named;
}

bool index_check(const struct inodes *ix)
{
    struct check c = {.ix = ix, .heap = calloc(ix->h->heap_units / 8 + 1, 1)};
    bool ok = c.heap && ix->h->heap_units && claim(&c, 0, 1) && records_ok(&c) && heap_ok(&c)
        && tree_ok(&c) && index_chains_ok(ix, c.named);
    free(c.heap);
    return ok;
}
