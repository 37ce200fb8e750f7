/* SPDX-License-Identifier: Apache-2.0 */
/* Which mount of the dataset a record belongs to. Records have the number of a slot, and the slot
 * has the mount's identity: when mounts are added, removed or put in another order while the kernel
 * knows ids of ours, no record has to change. */
#include "fuse/index/format.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

static uint64_t slot_id(const struct inodes *ix, unsigned mount)
{
    return ix->conf.mounts ? ix->conf.mounts[mount] : mount + 1;
}

static uint32_t slot_server(const struct inodes *ix, unsigned mount)
{
    return ix->conf.servers ? ix->conf.servers[mount] : 0;
}

static bool slot_is(const struct inodes *ix, unsigned slot, unsigned mount)
{
    uint32_t was = ix->h->servers[slot], is = slot_server(ix, mount);
    return ix->h->slots[slot] == slot_id(ix, mount) && (!was || !is || was == is);
}

bool index_slots_ok(const struct inodes *ix)
{
    const struct index_head *h = ix->h;
    if (h->nslots > INDEX_SLOTS_MAX)
        return false;
    for (unsigned i = 0; h->version != INDEX_VERSION_EDITED && i < h->nslots; i++)
        if (h->nslots != ix->conf.nmounts || !slot_is(ix, i, i))
            return false;
    return true;
}

unsigned index_nslots(const struct inodes *ix)
{
    return ix->h->nslots ? ix->h->nslots : ix->conf.nmounts;
}

static int slot_find(const struct inodes *ix, unsigned mount)
{
    for (unsigned i = 0; i < ix->h->nslots; i++)
        if (slot_is(ix, i, mount))
            return (int)i;
    return -1;
}

/* One that no mount of now has, nor any record. */
static int slot_unused(const struct inodes *ix)
{
    bool used[256] = {false};
    for (unsigned i = 0; i < ix->conf.nmounts; i++)
        used[ix->to_slot[i]] = true;
    for (uint32_t i = 1; i < ix->h->nrecs; i++)
        if (ix->recs[i].flags & INODE_USED)
            used[ix->recs[i].mount] = true;
    for (unsigned i = 0; i < INDEX_SLOTS_MAX; i++)
        if (!used[i])
            return (int)i;
    return -1;
}

static int slot_take(struct inodes *ix, uint64_t id, struct err *e)
{
    struct index_head *h = ix->h;
    int slot = h->nslots < INDEX_SLOTS_MAX ? (int)h->nslots : slot_unused(ix);
    if (slot < 0)
        return err_set(e, ERR_EXHAUSTED,
            "files of too many mounts that the dataset had are still in use: restart the pods that use it");
    h->slots[slot] = id;
    h->nslots = MAX(h->nslots, (uint32_t)slot + 1);
    return slot;
}

int index_slots_open(struct inodes *ix, bool fresh, struct err *e)
{
    struct index_head *h = ix->h;
    unsigned n = ix->conf.nmounts;
    if (n > INDEX_SLOTS_MAX)
        return err_set(e, ERR_INVALID, "a dataset has at most %d mounts", INDEX_SLOTS_MAX);
    memset(ix->to_conf, INODE_NO_MOUNT, sizeof ix->to_conf);
    memset(ix->to_slot, INODE_NO_MOUNT, sizeof ix->to_slot);
    if (fresh || !h->nslots) { /* earlier versions had mount and slot the same */
        for (unsigned i = 0; i < n; i++)
            h->slots[i] = slot_id(ix, i);
        h->nslots = n;
        h->version = INDEX_VERSION;
    }
    for (unsigned i = 0; i < n; i++) { /* first those that are here: they are not to be taken */
        int slot = slot_find(ix, i);
        if (slot >= 0)
            ix->to_slot[i] = (uint8_t)slot;
    }
    for (unsigned i = 0; i < n; i++) {
        int slot = ix->to_slot[i];
        if (slot == INODE_NO_MOUNT && (slot = slot_take(ix, slot_id(ix, i), e)) < 0)
            return -1;
        ix->to_slot[i] = (uint8_t)slot;
        ix->to_conf[slot] = (uint8_t)i;
        h->servers[slot] = slot_server(ix, i);
        if ((unsigned)slot != i) /* programs that take one for the other must not use it */
            h->version = INDEX_VERSION_EDITED;
    }
    if (h->nslots != n)
        h->version = INDEX_VERSION_EDITED;
    return 0;
}

size_t inodes_gone_mounts(struct inodes *ix, uint64_t **out)
{
    size_t n = 0;
    *out = NULL;
    pthread_rwlock_rdlock(&ix->lock);
    for (uint32_t i = 1; ix->h->version == INDEX_VERSION_EDITED && i < ix->h->nrecs; i++) {
        const struct rec *r = &ix->recs[i];
        if (!(r->flags & INODE_USED) || !(r->flags & INODE_MOUNT) || r->flags & INODE_UNLINKED
            || r->mount == INODE_NO_MOUNT || ix->to_conf[r->mount] != INODE_NO_MOUNT)
            continue;
        *out = xrealloc(*out, (n + 1) * sizeof **out);
        (*out)[n++] = i;
    }
    pthread_rwlock_unlock(&ix->lock);
    return n;
}

/* The directories of what goes, and whatever is below: its content is nobody's any more. */
static void slot_forget(struct inodes *ix, struct rec *top)
{
    struct rec *r = top;
    for (;;) {
        index_rec_flags(ix, r, 0,
            INODE_DIRTY | INODE_STAGED | INODE_LOCAL | INODE_MOUNT | INODE_MOUNTPOINT_DIR);
        if ((r->flags & INODE_DIR) && r->kids.first) {
            r = &ix->recs[r->kids.first];
            continue;
        }
        while (r != top && !r->next)
            r = &ix->recs[r->parent];
        if (r == top)
            return;
        r = &ix->recs[r->next];
    }
}

void inodes_abandon(struct inodes *ix, uint64_t ino)
{
    index_change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    if (r && ino != INODE_ROOT && !(r->flags & INODE_UNLINKED)) {
        slot_forget(ix, r);
        index_rec_orphan(ix, r);
    }
    index_change_end(ix);
}

void inodes_unmount(struct inodes *ix, uint64_t dir, unsigned mount)
{
    index_change_begin(ix, NULL);
    struct rec *d = index_rec(ix, dir);
    if (d)
        d->mount = ix->to_slot[mount & 255];
    if (d && dir == INODE_ROOT)
        index_rec_flags(ix, d, 0, INODE_LISTED);
    else if (d)
        index_rec_flags(ix, d, INODE_MOUNTPOINT_DIR, INODE_MOUNT | INODE_LISTED);
    index_change_end(ix);
}
