/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the links of the index again from its records, after a process died in the middle of a
 * change, or where they do not hold together. What cannot be believed is dropped: the kernel may
 * know its id, so the id is not used again in this mount and every request for it gets ESTALE. */
#include "fuse/index/format.h"
#include "lib/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct sibling {
    uint32_t parent, seq, ino;
};

enum reach { REACH_UNKNOWN, REACH_ROOT, REACH_NOT, REACH_ASKED };

struct repair {
    struct inodes *ix;
    uint8_t *reach;   /* of each record: enum reach */
    uint8_t *claimed; /* of each unit of the heap: by how many, up to 2 */
    struct sibling *all;
    size_t n, dropped;
    bool changing; /* a process was killed in the middle of a change */
};

static int compare_siblings(const void *pa, const void *pb)
{
    const struct sibling *a = pa, *b = pb;
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static void drop(struct repair *p, uint32_t ino)
{
    struct rec *r = &p->ix->recs[ino];
    uint32_t generation = r->generation;
    memset(r, 0, sizeof *r);
    r->generation = generation;
    r->flags = INODE_USED | INODE_UNLINKED | INODE_DROPPED;
    r->mode = S_IFREG;
    r->mount = INODE_NO_MOUNT;
    r->epoch = p->ix->h->epoch;
    p->dropped++;
}

static bool is_text_of_others(struct repair *p, uint32_t unit, size_t len, bool claim)
{
    bool shared = false;
    for (size_t units = index_units(len); units--; unit++) {
        if (claim && p->claimed[unit] < 2)
            p->claimed[unit]++;
        shared |= p->claimed[unit] > 1;
    }
    return shared;
}

/* Both its texts; claim: counts them first. */
static bool has_texts_of_others(struct repair *p, const struct rec *r, bool claim)
{
    uint32_t unit = r->flags & INODE_DIR ? 0 : index_version_unit(r);
    bool name = r->name_len && is_text_of_others(p, r->name, r->name_len, claim);
    return (unit && is_text_of_others(p, unit, r->version[4], claim)) || name;
}

/* A text that two records have is at most one's, and nothing says whose. */
static void drop_shared_texts(struct repair *p)
{
    const struct index_head *h = p->ix->h;
    for (int claim = 1; claim >= 0; claim--)
        for (uint32_t i = INODE_ROOT + 1; i < h->nrecs; i++)
            if ((p->ix->recs[i].flags & INODE_USED)
                && has_texts_of_others(p, &p->ix->recs[i], claim) && !claim)
                drop(p, i);
}

static bool is_live_dir(const struct inodes *ix, uint32_t ino)
{
    const unsigned want = INODE_USED | INODE_DIR;
    return ino && ino < ix->h->nrecs && (ix->recs[ino].flags & (want | INODE_UNLINKED)) == want;
}

/* Is it somewhere below the root? */
static bool is_below_root(struct repair *p, uint32_t ino)
{
    uint32_t i = ino;
    for (; p->reach[i] == REACH_UNKNOWN; i = p->ix->recs[i].parent) {
        p->reach[i] = REACH_ASKED;
        if (!is_live_dir(p->ix, p->ix->recs[i].parent))
            break;
    }
    uint8_t found = p->reach[i] == REACH_ROOT ? REACH_ROOT
                                              : REACH_NOT; /* else the end, or a ring */
    for (i = ino; p->reach[i] == REACH_ASKED; i = p->ix->recs[i].parent) {
        p->reach[i] = found;
        if (!is_live_dir(p->ix, p->ix->recs[i].parent))
            break;
    }
    return found == REACH_ROOT;
}

static void drop_lost(struct repair *p)
{
    p->reach[INODE_ROOT] = REACH_ROOT;
    for (uint32_t i = INODE_ROOT + 1; i < p->ix->h->nrecs; i++) {
        const struct rec *r = &p->ix->recs[i];
        if ((r->flags & INODE_USED) && !(r->flags & INODE_UNLINKED))
            is_below_root(p, i);
    }
    for (uint32_t i = INODE_ROOT + 1; i < p->ix->h->nrecs; i++)
        if (p->reach[i] == REACH_NOT)
            drop(p, i);
}

/* Where no change was under way, who is not found by its name has another name or directory than it
 * had, or a caller before it has: to give the id to what has that name now would be a wrong file.
 */
static void drop_unfound(struct repair *p)
{
    const struct inodes *ix = p->ix;
    if (p->changing)
        return;
    for (uint32_t i = INODE_ROOT + 1; i < ix->h->nrecs; i++)
        p->reach[i] = (ix->recs[i].flags & (INODE_USED | INODE_UNLINKED)) == INODE_USED
                && !index_is_found(ix, i, ix->h->nrecs)
            ? REACH_NOT
            : REACH_UNKNOWN;
    for (uint32_t i = INODE_ROOT + 1; i < ix->h->nrecs; i++)
        if (p->reach[i] == REACH_NOT)
            drop(p, i);
    memset(p->reach, REACH_UNKNOWN, ix->h->nrecs);
}

/* Frees what was to be freed and drops what is unsound by itself. */
static void sort_out(struct repair *p)
{
    struct inodes *ix = p->ix;
    const struct index_head *h = ix->h;
    for (uint32_t i = INODE_ROOT + 1; i < h->nrecs; i++) {
        struct rec *r = &ix->recs[i];
        bool wanted = r->epoch == h->epoch && (r->nlookup || r->opens);
        /* it died between taking the name away and giving the record back */
        if (p->changing && (r->flags & INODE_UNLINKED) && !(r->flags & INODE_DROPPED) && !wanted) {
            r->flags = 0;
            r->generation++;
        }
        /* of what was dropped before nothing is left; else it only says so */
        bool kept = wanted || (r->flags & INODE_DROPPED) || !(r->flags & INODE_UNLINKED);
        if ((r->flags & INODE_USED) && !(kept && index_rec_ok(ix, i)))
            drop(p, i);
    }
    drop_unfound(p);
    drop_shared_texts(p);
    drop_lost(p);
}

/* Counts, the list of free records and that of what has a name; no links are left. */
static void collect(struct repair *p)
{
    struct inodes *ix = p->ix;
    struct index_head *h = ix->h;
    memset(ix->buckets, 0, (size_t)h->nbuckets * sizeof *ix->buckets);
    memset(h->heap_free, 0, sizeof h->heap_free);
    h->free_rec = h->live = h->unlinked = h->dirty = 0;
    for (uint32_t i = h->nrecs - 1; i > 0; i--) {
        struct rec *r = &ix->recs[i];
        r->next = r->prev = r->chain = 0;
        if (!(r->flags & INODE_USED)) {
            r->next = h->free_rec;
            h->free_rec = i;
            continue;
        }
        h->live++;
        h->unlinked += !!(r->flags & INODE_UNLINKED);
        h->dirty += !!(r->flags & INODE_DIRTY);
        if (r->flags & INODE_DIR) {
            r->kids.first = r->kids.last = r->dir.count = 0;
            if (p->dropped) /* what was dropped may have been in it: it has to be asked for */
                r->flags &= (uint16_t)~INODE_LISTED;
        }
        if (i != INODE_ROOT && !(r->flags & INODE_UNLINKED))
            p->all[p->n++] = (struct sibling){r->parent, r->seq, i};
    }
}

static int link_again(struct repair *p, struct err *e)
{
    struct inodes *ix = p->ix;
    qsort(p->all, p->n, sizeof *p->all, compare_siblings);
    for (size_t k = 0; k < p->n; k++) {
        const struct rec *r = &ix->recs[p->all[k].ino];
        struct rec *dir = &ix->recs[r->parent];
        if (index_find(ix, r->parent, index_text(ix, r->name), r->name_len))
            return err_set(e, ERR_FATAL, "the index is damaged: inode %u has the name of another",
                p->all[k].ino);
        if (dir->dir.next_seq < r->seq)
            dir->dir.next_seq = r->seq;
        index_relink(ix, p->all[k].ino);
    }
    return 0;
}

int index_rebuild(struct inodes *ix, struct err *e)
{
    struct index_head *h = ix->h;
    struct repair p = {.ix = ix, .changing = atomic_load(&h->busy)};
    int rc = -1;
    if (h->undo_ino && h->undo_ino < h->nrecs)
        ix->recs[h->undo_ino] = h->undo;
    p.all = calloc(h->nrecs, sizeof *p.all);
    p.reach = calloc(h->nrecs, 1);
    p.claimed = calloc((size_t)h->heap_units + 1, 1);
    if (!p.all || !p.reach || !p.claimed) {
        err_set(e, ERR_EXHAUSTED, "no memory to repair the index of %u inodes", h->nrecs);
    } else if (!(ix->recs[INODE_ROOT].flags & INODE_USED) || !index_rec_ok(ix, INODE_ROOT)) {
        err_set(e, ERR_FATAL, "the index is damaged: its root");
    } else {
        sort_out(&p);
        collect(&p);
        rc = link_again(&p, e);
    }
    if (p.dropped) {
        char number[24];
        snprintf(number, sizeof number, "%zu", p.dropped);
        log_kv(LOG_WARN,
            "the index was damaged: some files and directories that are open have to be opened again",
            "count", number, NULL);
    }
    free(p.all);
    free(p.reach);
    free(p.claimed);
    if (rc)
        return -1;
    h->undo_ino = 0;
    atomic_store(&h->busy, 0);
    return 0;
}
