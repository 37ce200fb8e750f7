/* SPDX-License-Identifier: Apache-2.0 */
/* Which names were changed here a moment ago, or are being changed: what a store was asked before
 * that says nothing of them, however late it answers. In memory only: the questions of a process
 * end with it. */
#include "fuse/index/format.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* So many are remembered; what was asked before more of them is asked again. */
#define CHANGES_MAX ((uint64_t)1 << 16)

#define MOVES_MAX   ((uint64_t)1 << 10) /* the same, of directories' paths */

struct local_changes {
    uint64_t count;               /* so many changes so far */
    uint64_t hashes[CHANGES_MAX]; /* pages come into being as they are used */
    uint64_t nmoves;
    struct {
        uint64_t at, hash; /* the count when it moved */
    } moves[MOVES_MAX];
    uint64_t *changing;
    size_t nchanging, room;
};

static uint64_t name_hash(uint64_t dir, const char *name, size_t len)
{
    return hash64_mix(dir, hash64(name, len));
}

struct local_changes *local_changes_new(void) { return calloc(1, sizeof(struct local_changes)); }

void local_changes_free(struct local_changes *c)
{
    if (c)
        free(c->changing);
    free(c);
}

static void changes_add(struct local_changes *c, uint64_t hash)
{
    c->hashes[c->count++ % CHANGES_MAX] = hash;
}

void index_changed(struct inodes *ix, const struct rec *r)
{
    changes_add(ix->changes, name_hash(r->parent, index_text(ix, r->name), r->name_len));
}

void index_moved(struct inodes *ix, uint32_t dir)
{
    struct local_changes *c = ix->changes;
    uint64_t hash = name_hash(dir, "", 0), i = c->nmoves++ % MOVES_MAX;
    changes_add(c, hash);
    c->moves[i].hash = hash;
    c->moves[i].at = c->count;
}

uint64_t inodes_asked(struct inodes *ix)
{
    pthread_rwlock_rdlock(&ix->lock);
    uint64_t now = ix->changes->count;
    pthread_rwlock_unlock(&ix->lock);
    return now;
}

static bool is_under_way(const struct local_changes *c, uint64_t hash)
{
    for (size_t i = 0; i < c->nchanging; i++)
        if (c->changing[i] == hash)
            return true;
    return false;
}

static bool was_changed(const struct local_changes *c, uint64_t hash, uint64_t asked)
{
    if (c->count - asked > CHANGES_MAX)
        return true;
    for (uint64_t i = asked; i < c->count; i++)
        if (c->hashes[i % CHANGES_MAX] == hash)
            return true;
    return false;
}

static bool has_moved(const struct local_changes *c, uint64_t hash, uint64_t asked)
{
    uint64_t first = c->nmoves > MOVES_MAX ? c->nmoves - MOVES_MAX : 0;
    for (uint64_t i = c->nmoves; i > first && c->moves[(i - 1) % MOVES_MAX].at > asked; i--)
        if (c->moves[(i - 1) % MOVES_MAX].hash == hash)
            return true;
    /* as many since, and it may have been one before them */
    return first && c->moves[first % MOVES_MAX].at > asked;
}

bool index_was_moved(const struct inodes *ix, uint64_t dir, uint64_t asked)
{
    const struct local_changes *c = ix->changes;
    bool moved = c->nmoves && c->moves[(c->nmoves - 1) % MOVES_MAX].at > asked;
    if (asked == INODES_NOW || (!moved && !c->nchanging))
        return false;
    for (uint32_t i = (uint32_t)dir; i && i < ix->h->nrecs; i = ix->recs[i].parent) {
        uint64_t hash = name_hash(i, "", 0);
        if (is_under_way(c, hash) || (moved && has_moved(c, hash, asked)))
            return true;
        if (i == INODE_ROOT)
            break;
    }
    return false;
}

enum inodes_change index_evaluate(
    const struct inodes *ix, uint64_t dir, const char *name, size_t len, uint64_t asked)
{
    const struct local_changes *c = ix->changes;
    if (asked == INODES_NOW || (asked == c->count && !c->nchanging))
        return INODES_SAME;
    if (c->count - asked > CHANGES_MAX || index_was_moved(ix, dir, asked))
        return INODES_ASK_AGAIN;
    uint64_t hash = name_hash(dir, name, len);
    return is_under_way(c, hash)      ? INODES_BUSY
        : was_changed(c, hash, asked) ? INODES_OUTDATED
                                      : INODES_SAME;
}

/* -- the same of many names in one directory -------------------------------------------------- */

static int by_hash(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void index_recent_open(struct index_recent *r, const struct inodes *ix, uint64_t asked)
{
    const struct local_changes *c = ix->changes;
    uint64_t n = asked == INODES_NOW ? 0 : c->count - asked;
    *r = (struct index_recent){.all = n > CHANGES_MAX};
    if (r->all || !(r->hashes = malloc((n + c->nchanging + 1) * sizeof *r->hashes))) {
        r->all = true;
        return;
    }
    for (uint64_t i = asked; r->n < n; i++)
        r->hashes[r->n++] = c->hashes[i % CHANGES_MAX];
    for (size_t i = 0; asked != INODES_NOW && i < c->nchanging; i++)
        r->hashes[r->n++] = c->changing[i];
    qsort(r->hashes, r->n, sizeof *r->hashes, by_hash);
}

bool index_recent_has(const struct index_recent *r, uint64_t dir, const char *name, size_t len)
{
    uint64_t hash = name_hash(dir, name, len);
    return r->all || (r->n && bsearch(&hash, r->hashes, r->n, sizeof hash, by_hash));
}

void index_recent_close(struct index_recent *r) { free(r->hashes); }

enum inodes_change inodes_evaluate(
    struct inodes *ix, uint64_t dir, const char *name, uint64_t asked)
{
    pthread_rwlock_rdlock(&ix->lock);
    enum inodes_change a = index_evaluate(ix, dir, name, strlen(name), asked);
    pthread_rwlock_unlock(&ix->lock);
    return a;
}

void inodes_change(struct inodes *ix, uint64_t dir, const char *name)
{
    pthread_rwlock_wrlock(&ix->lock);
    struct local_changes *c = ix->changes;
    if (c->nchanging == c->room) {
        c->room = MAX(c->room * 2, 16);
        c->changing = xrealloc(c->changing, c->room * sizeof *c->changing);
    }
    c->changing[c->nchanging++] = name_hash(dir, name, strlen(name));
    pthread_rwlock_unlock(&ix->lock);
}

void inodes_change_end(struct inodes *ix, uint64_t dir, const char *name)
{
    pthread_rwlock_wrlock(&ix->lock);
    struct local_changes *c = ix->changes;
    uint64_t hash = name_hash(dir, name, strlen(name));
    for (size_t i = 0; i < c->nchanging; i++)
        if (c->changing[i] == hash) {
            c->changing[i] = c->changing[--c->nchanging];
            break;
        }
    pthread_rwlock_unlock(&ix->lock);
}
