/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/passthrough.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEFAULT 16000
#define NONE        UINT32_MAX

struct backing_entry {
    uint64_t ino, generation, bytes;
    int32_t id;
    uint32_t chain;      /* of its bucket; of a free entry: the next free one */
    uint32_t prev, next; /* by age */
};

struct backings {
    struct backing_ops ops;
    struct inodes *inodes;
    pthread_mutex_t mu;
    struct backing_entry
        *entries;      /* mu; max + 1: the last is the head of the ring: .next is the oldest */
    uint32_t *buckets; /* mu */
    /* mu but max and nbuckets; unused: entries from there on were never used */
    uint32_t max, nbuckets, count, free, unused;
    uint64_t max_bytes, bytes;          /* bytes: mu */
    bool taken;                         /* mu: the kernel has taken a file */
    char refusal[BACKINGS_REFUSAL_MAX]; /* mu */
};

struct backings *backings_new(
    const struct backing_ops *ops, struct inodes *inodes, size_t max, uint64_t max_bytes)
{
    struct backings *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->ops = *ops;
    b->inodes = inodes;
    b->max = max ? (uint32_t)max : MAX_DEFAULT;
    b->max_bytes = max_bytes;
    for (b->nbuckets = 64; b->nbuckets < b->max; b->nbuckets *= 2)
        continue;
    b->free = NONE;
    /* pages come into being as they are used */
    b->entries = calloc(b->max + (size_t)1, sizeof *b->entries);
    b->buckets = calloc(b->nbuckets, sizeof *b->buckets);
    pthread_mutex_init(&b->mu, NULL);
    if (!b->entries || !b->buckets) {
        free(b->entries);
        free(b->buckets);
        free(b);
        return NULL;
    }
    b->entries[b->max].prev = b->entries[b->max].next = b->max;
    return b;
}

/* Buckets hold numbers of entries plus one. */
static uint32_t *backing_bucket(struct backings *b, uint64_t ino)
{
    return &b->buckets[hash64_mix(ino, 1) & (b->nbuckets - 1)];
}

static uint32_t backing_find(struct backings *b, uint64_t ino)
{
    uint32_t at = *backing_bucket(b, ino);
    while (at && b->entries[at - 1].ino != ino)
        at = b->entries[at - 1].chain;
    return at ? at - 1 : NONE;
}

static struct backing_entry backing_remove(struct backings *b, uint32_t i)
{
    struct backing_entry e = b->entries[i];
    uint32_t *at = backing_bucket(b, e.ino);
    while (*at != i + 1)
        at = &b->entries[*at - 1].chain;
    *at = e.chain;
    b->entries[e.prev].next = e.next;
    b->entries[e.next].prev = e.prev;
    b->entries[i].chain = b->free;
    b->free = i;
    b->count--;
    b->bytes -= e.bytes;
    return e;
}

static void backing_add(struct backings *b, const struct inode *n)
{
    uint32_t i = b->free, *at = backing_bucket(b, n->ino), head = b->max;
    if (i != NONE)
        b->free = b->entries[i].chain;
    else
        i = b->unused++;
    b->entries[i] = (struct backing_entry){
        n->ino, n->generation, n->size, n->backing, *at, b->entries[head].prev, head};
    *at = i + 1;
    b->entries[b->entries[head].prev].next = i;
    b->entries[head].prev = i;
    b->count++;
    b->bytes += n->size;
}

/* Takes the id out of the index: it may be released after that. b->mu is held. */
static int32_t backing_disown(struct backings *b, const struct backing_entry *e)
{
    struct inode n, none = {.backing = 0};
    if (inodes_get(b->inodes, e->ino, &n) == 0 && n.generation == e->generation
        && n.backing == e->id)
        inodes_set(b->inodes, e->ino, INODES_BACKING, &none, 0, INODE_PASSTHROUGH);
    return e->id;
}

int32_t backings_reopen(struct backings *b, uint64_t ino)
{
    struct inode n;
    int32_t id = 0, stale = 0;
    pthread_mutex_lock(&b->mu);
    uint32_t i = backing_find(b, ino);
    if (inodes_get(b->inodes, ino, &n) == 0 && n.backing > 0
        && (n.opens == 0 || (n.flags & INODE_PASSTHROUGH))) {
        id = n.backing;
        inodes_set(b->inodes, ino, 0, NULL, INODE_PASSTHROUGH, 0);
        inodes_opened(b->inodes, ino, 1);
    }
    if (i != NONE) {
        struct backing_entry e = backing_remove(b, i);
        stale = e.id != id ? backing_disown(b, &e) : 0; /* the record is another file's now */
    }
    pthread_mutex_unlock(&b->mu);
    if (stale > 0)
        b->ops.close(b->ops.user, stale);
    return id;
}

/* failed: NULL: the kernel has taken a file. */
static void backing_note(struct backings *b, const struct err *failed)
{
    pthread_mutex_lock(&b->mu);
    if (!failed) {
        b->taken = true;
        b->refusal[0] = '\0';
    } else if (!b->taken && failed->cls != ERR_RETRY) {
        snprintf(b->refusal, sizeof b->refusal, "%s", failed->msg);
    }
    pthread_mutex_unlock(&b->mu);
}

void backings_refusal(struct backings *b, char out[BACKINGS_REFUSAL_MAX])
{
    pthread_mutex_lock(&b->mu);
    memcpy(out, b->refusal, BACKINGS_REFUSAL_MAX);
    pthread_mutex_unlock(&b->mu);
}

bool backings_disk_only(const struct backings *b) { return b->ops.disk_only; }

int32_t backings_register(struct backings *b, uint64_t ino, int fd, struct err *e)
{
    struct inode set = {0};
    int rc = b->ops.open(b->ops.user, fd, &set.backing, e);
    if (!rc && set.backing <= 0)
        rc = err_set(e, ERR_FATAL, "the kernel gave no id for a backing file");
    backing_note(b, rc ? e : NULL);
    if (rc)
        return 0;
    inodes_set(b->inodes, ino, INODES_BACKING, &set, 0, 0);
    return backings_reopen(b, ino);
}

/* Gives back the oldest until there is room for one more with so many bytes; one that is larger
 * than all room may be alone. */
static void backings_make_room(struct backings *b, uint64_t bytes)
{
    pthread_mutex_lock(&b->mu);
    while (b->count && (b->count == b->max || b->bytes + bytes > b->max_bytes)) {
        struct backing_entry e = backing_remove(b, b->entries[b->max].next);
        int32_t old = backing_disown(b, &e);
        pthread_mutex_unlock(&b->mu);
        b->ops.close(b->ops.user, old);
        pthread_mutex_lock(&b->mu);
    }
    pthread_mutex_unlock(&b->mu);
}

void backings_shrink(struct backings *b) { backings_make_room(b, b->max_bytes + 1); }

void backings_idle(struct backings *b, const struct inode *was)
{
    struct inode n;
    int32_t old = 0;
    if (was->backing <= 0)
        return;
    backings_make_room(b, was->size);
    pthread_mutex_lock(&b->mu);
    if (inodes_get(b->inodes, was->ino, &n) || n.generation != was->generation) {
        old = was->backing; /* its name went before */
    } else if (n.backing > 0 && n.opens == 0) {
        uint32_t i = backing_find(b, n.ino);
        if (i != NONE) {
            struct backing_entry e = backing_remove(b, i);
            old = e.id != n.backing ? e.id : 0;
        }
        if (b->count < b->max) {
            backing_add(b, &n);
        } else { /* others were quicker */
            struct backing_entry e = {.ino = n.ino, .generation = n.generation, .id = n.backing};
            old = backing_disown(b, &e);
        }
    }
    pthread_mutex_unlock(&b->mu);
    if (old > 0)
        b->ops.close(b->ops.user, old);
}

bool backings_drop(struct backings *b, uint64_t ino)
{
    int32_t old = 0;
    struct inode n = {0};
    pthread_mutex_lock(&b->mu);
    bool known = inodes_get(b->inodes, ino, &n) == 0,
         used = known && n.backing > 0 && n.opens && (n.flags & INODE_PASSTHROUGH);
    uint32_t i = backing_find(b, ino);
    if (i != NONE) {
        struct backing_entry e = backing_remove(b, i);
        old = backing_disown(b, &e);
    } else if (known && n.backing > 0 && !used) { /* its last close is not here yet */
        struct backing_entry e = {.ino = ino, .generation = n.generation, .id = n.backing};
        old = backing_disown(b, &e);
    }
    pthread_mutex_unlock(&b->mu);
    if (old > 0)
        b->ops.close(b->ops.user, old);
    return !used;
}

static void backing_resume(void *user, const struct inode *n)
{
    struct backings *b = user;
    if (!n->opens && b->count < b->max)
        backing_add(b, n);
}

void backings_resume(struct backings *b)
{
    pthread_mutex_lock(&b->mu);
    inodes_backings(b->inodes, backing_resume, b);
    pthread_mutex_unlock(&b->mu);
}

struct backing_ids {
    int32_t *ids;
    size_t n, cap;
};

static void backing_note_id(void *user, const struct inode *n)
{
    struct backing_ids *l = user;
    if (l->n == l->cap) {
        l->cap = MAX(l->cap * 2, 64);
        l->ids = xrealloc(l->ids, l->cap * sizeof *l->ids);
    }
    l->ids[l->n++] = n->backing;
}

size_t backings_ids(struct backings *b, int32_t **ids)
{
    struct backing_ids l = {0};
    inodes_backings(b->inodes, backing_note_id, &l);
    *ids = l.ids;
    return l.n;
}

size_t backings_count(struct backings *b)
{
    pthread_mutex_lock(&b->mu);
    size_t n = b->count;
    pthread_mutex_unlock(&b->mu);
    return n;
}

void backings_free(struct backings *b)
{
    if (!b)
        return;
    while (b->count) {
        struct backing_entry e = backing_remove(b, b->entries[b->max].next);
        b->ops.close(b->ops.user, backing_disown(b, &e));
    }
    pthread_mutex_destroy(&b->mu);
    free(b->entries);
    free(b->buckets);
    free(b);
}
