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

struct local_changes {
    uint64_t count, moved;        /* so many changes so far; at the latest of a directory's path */
    uint64_t hashes[CHANGES_MAX]; /* pages come into being as they are used */
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
    changes_add(ix->changes, name_hash(dir, "", 0));
    ix->changes->moved = ix->changes->count;
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

bool index_was_moved(const struct inodes *ix, uint64_t dir, uint64_t asked)
{
    const struct local_changes *c = ix->changes;
    if (asked == INODES_NOW || (c->moved <= asked && !c->nchanging))
        return false;
    for (uint32_t i = (uint32_t)dir; i && i < ix->h->nrecs; i = ix->recs[i].parent) {
        uint64_t hash = name_hash(i, "", 0);
        if (is_under_way(c, hash) || (c->moved > asked && was_changed(c, hash, asked)))
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
