/* SPDX-License-Identifier: Apache-2.0 */
/* Hash chains by (directory, name) and sibling lists; both can be made again from the records. */
#include "lib/base/hash.h"
#include "fuse/index/format.h"

#include <stdlib.h>
#include <string.h>

static uint32_t bucket_of(uint64_t hash, uint32_t nbuckets)
{
    uint32_t half = UINT32_C(1) << (31 - __builtin_clz(nbuckets));
    uint32_t b = (uint32_t)hash & (half * 2 - 1);
    return b < nbuckets ? b : b & (half - 1);
}

static uint64_t hash_name(uint32_t dir, const char *name, size_t len)
{
    return hash64_mix(dir, hash64(name, len));
}

static uint64_t hash_rec(const struct inodes *ix, const struct rec *r)
{
    return hash_name(r->parent, index_text(ix, r->name), r->name_len);
}

uint32_t index_find(const struct inodes *ix, uint32_t dir, const char *name, size_t len)
{
    uint32_t i = ix->buckets[bucket_of(hash_name(dir, name, len), ix->h->nbuckets)];
    for (; i; i = ix->recs[i].chain) {
        const struct rec *r = &ix->recs[i];
        if (r->parent == dir && r->name_len == len
            && memcmp(index_text(ix, r->name), name, len) == 0)
            return i;
    }
    return 0;
}

static void chain_add(struct inodes *ix, uint32_t ino)
{
    uint32_t *b = &ix->buckets[bucket_of(hash_rec(ix, &ix->recs[ino]), ix->h->nbuckets)];
    ix->recs[ino].chain = *b;
    *b = ino;
}

/* Linear hashing: one more bucket, filled from the one that it splits. No pause ever is longer than
 * a chain. */
static int buckets_grow(struct inodes *ix, struct err *e)
{
    uint32_t n = ix->h->nbuckets, half = UINT32_C(1) << (31 - __builtin_clz(n));
    if (index_reserve(ix, REGION_BUCKETS, ((uint64_t)n + 1) * sizeof *ix->buckets, e))
        return -1;
    uint32_t i = ix->buckets[n - half];
    ix->buckets[n] = ix->buckets[n - half] = 0;
    ix->h->nbuckets = n + 1;
    for (uint32_t next; i; i = next) {
        next = ix->recs[i].chain;
        chain_add(ix, i);
    }
    return 0;
}

static void sibling_add(struct inodes *ix, uint32_t ino)
{
    struct rec *r = &ix->recs[ino], *dir = &ix->recs[r->parent];
    r->prev = dir->kids.last;
    r->next = 0;
    if (r->prev)
        ix->recs[r->prev].next = ino;
    else
        dir->kids.first = ino;
    dir->kids.last = ino;
    dir->dir.count++;
}

int index_link(struct inodes *ix, uint32_t ino, struct err *e)
{
    struct rec *dir = &ix->recs[ix->recs[ino].parent];
    if (ix->h->live / 3 * 2 >= ix->h->nbuckets && buckets_grow(ix, e)) /* 2.7 bytes an inode */
        return -1;
    ix->recs[ino].seq = ++dir->dir.next_seq;
    chain_add(ix, ino);
    sibling_add(ix, ino);
    return 0;
}

void index_unlink(struct inodes *ix, uint32_t ino)
{
    struct rec *r = &ix->recs[ino], *dir = &ix->recs[r->parent];
    uint32_t *p = &ix->buckets[bucket_of(hash_rec(ix, r), ix->h->nbuckets)];
    while (*p && *p != ino)
        p = &ix->recs[*p].chain;
    if (*p)
        *p = r->chain;
    if (r->prev)
        ix->recs[r->prev].next = r->next;
    else
        dir->kids.first = r->next;
    if (r->next)
        ix->recs[r->next].prev = r->prev;
    else
        dir->kids.last = r->prev;
    dir->dir.count--;
    r->next = r->prev = r->chain = 0;
}

/* Can it be found, and is it the only one of its name? Goes along no more than `limit` links: they
 * may form a ring. */
static bool is_found(const struct inodes *ix, uint32_t ino, uint32_t limit)
{
    const struct rec *r = &ix->recs[ino];
    uint32_t i = ix->buckets[bucket_of(hash_rec(ix, r), ix->h->nbuckets)];
    for (; i && i != ino && i < ix->h->nrecs && limit; i = ix->recs[i].chain, limit--) {
        const struct rec *o = &ix->recs[i];
        if (o->parent == r->parent && o->name_len == r->name_len
            && (!(o->flags & INODE_USED)
                || memcmp(index_text(ix, o->name), index_text(ix, r->name), r->name_len) == 0))
            return false;
    }
    return i == ino;
}

/* Whoever is found has a link to it; if there are no more links than that, nothing else is in a
 * chain, or in one twice. */
bool index_chains_ok(const struct inodes *ix, uint32_t named)
{
    const struct head *h = ix->h;
    uint32_t links = 0;
    for (uint32_t b = 0; b < h->nbuckets; b++)
        links += ix->buckets[b] != 0;
    for (uint32_t i = INODE_ROOT + 1; i < h->nrecs; i++) {
        const struct rec *r = &ix->recs[i];
        if (!(r->flags & INODE_USED) || (r->flags & INODE_GONE))
            continue;
        links += r->chain != 0;
        if (!is_found(ix, i, named))
            return false;
    }
    return links == named;
}

struct order {
    uint32_t parent, seq, ino;
};

static int by_parent_and_seq(const void *pa, const void *pb)
{
    const struct order *a = pa, *b = pb;
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* After a process died in the middle of a change: links everything again from parents and names.
 * Freed heap blocks are lost. */
int index_rebuild(struct inodes *ix, struct err *e)
{
    struct head *h = ix->h;
    if (h->undo_ino && h->undo_ino < h->nrecs)
        ix->recs[h->undo_ino] = h->undo;
    struct order *all = calloc(h->nrecs, sizeof *all);
    if (!all)
        return err_set(e, ERR_EXHAUSTED, "no memory to repair the index of %u inodes", h->nrecs);
    size_t n = 0;
    memset(ix->buckets, 0, (size_t)h->nbuckets * sizeof *ix->buckets);
    memset(h->heap_free, 0, sizeof h->heap_free);
    h->free_rec = h->live = h->gone = h->dirty = 0;
    for (uint32_t i = h->nrecs - 1; i > 0; i--) {
        struct rec *r = &ix->recs[i];
        r->next = r->prev = r->chain = 0;
        bool wanted = r->epoch == h->epoch && (r->nlookup || r->opens);
        /* it died between taking the name away and giving the record back */
        if ((r->flags & INODE_GONE) && !wanted) {
            r->flags = 0;
            r->generation++;
        }
        if (!(r->flags & INODE_USED)) {
            r->next = h->free_rec;
            h->free_rec = i;
            continue;
        }
        if (!index_rec_ok(ix, i)) {
            free(all);
            return err_set(e, ERR_FATAL, "the index is damaged: inode %u", i);
        }
        h->live++;
        h->gone += !!(r->flags & INODE_GONE);
        h->dirty += !!(r->flags & INODE_DIRTY);
        if (r->flags & INODE_DIR)
            r->kids.first = r->kids.last = r->dir.count = 0;
        if (i != INODE_ROOT && !(r->flags & INODE_GONE))
            all[n++] = (struct order){r->parent, r->seq, i};
    }
    qsort(all, n, sizeof *all, by_parent_and_seq);
    for (size_t k = 0; k < n; k++) {
        const struct rec *dir = all[k].parent < h->nrecs ? &ix->recs[all[k].parent] : NULL;
        if (!dir || !(dir->flags & INODE_DIR) || !(dir->flags & INODE_USED)) {
            err_set(e, ERR_FATAL, "the index is damaged: inode %u has no directory", all[k].ino);
            free(all);
            return -1;
        }
        chain_add(ix, all[k].ino);
        sibling_add(ix, all[k].ino);
    }
    free(all);
    h->undo_ino = 0;
    atomic_store(&h->busy, 0);
    return 0;
}
