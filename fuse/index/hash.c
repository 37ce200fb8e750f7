/* SPDX-License-Identifier: Apache-2.0 */
/* Hash chains by (directory, name) and sibling lists; both can be made again from the records
 * (repair.c). */
#include "lib/base/hash.h"
#include "fuse/index/format.h"

#include <string.h>

static uint32_t name_bucket(uint64_t hash, uint32_t nbuckets)
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
    uint32_t i = ix->buckets[name_bucket(hash_name(dir, name, len), ix->h->nbuckets)];
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
    uint32_t *b = &ix->buckets[name_bucket(hash_rec(ix, &ix->recs[ino]), ix->h->nbuckets)];
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

void index_relink(struct inodes *ix, uint32_t ino)
{
    chain_add(ix, ino);
    sibling_add(ix, ino);
}

int index_link(struct inodes *ix, uint32_t ino, struct err *e)
{
    struct rec *dir = &ix->recs[ix->recs[ino].parent];
    if (ix->h->live / 3 * 2 >= ix->h->nbuckets && buckets_grow(ix, e)) /* 2.7 bytes an inode */
        return -1;
    ix->recs[ino].seq = ++dir->dir.next_seq;
    index_relink(ix, ino);
    return 0;
}

void index_unlink(struct inodes *ix, uint32_t ino)
{
    struct rec *r = &ix->recs[ino], *dir = &ix->recs[r->parent];
    uint32_t *p = &ix->buckets[name_bucket(hash_rec(ix, r), ix->h->nbuckets)];
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

/* The links may form a ring. */
bool index_is_found(const struct inodes *ix, uint32_t ino, uint32_t limit)
{
    const struct rec *r = &ix->recs[ino];
    uint32_t i = ix->buckets[name_bucket(hash_rec(ix, r), ix->h->nbuckets)];
    for (; i && i != ino && i < ix->h->nrecs && limit; i = ix->recs[i].chain, limit--) {
        const struct rec *o = &ix->recs[i];
        if (o->parent == r->parent && o->name_len == r->name_len
            && (!(o->flags & INODE_USED)
                || memcmp(index_text(ix, o->name), index_text(ix, r->name), r->name_len) == 0))
            return false;
    }
    return i == ino;
}

/* A record that is found has a link to it. If there are no more links than records, nothing else is
 * in a chain, and nothing in one twice. */
bool index_chains_ok(const struct inodes *ix, uint32_t named)
{
    const struct index_head *h = ix->h;
    uint32_t links = 0;
    for (uint32_t b = 0; b < h->nbuckets; b++)
        links += ix->buckets[b] != 0;
    for (uint32_t i = INODE_ROOT + 1; i < h->nrecs; i++) {
        const struct rec *r = &ix->recs[i];
        if (!(r->flags & INODE_USED) || (r->flags & INODE_UNLINKED))
            continue;
        links += r->chain != 0;
        if (!index_is_found(ix, i, named))
            return false;
    }
    return links == named;
}
