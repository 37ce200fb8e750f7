/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a record: made, linked, shown as a struct inode, detached from its name, freed once
 * the kernel has forgotten it; and the marks around each change, for index_rebuild(). */
#include "fuse/index/format.h"

#include <errno.h>
#include <string.h>

void index_rec_refresh(const struct inodes *ix, struct rec *r)
{
    if (r->epoch == ix->h->epoch)
        return;
    r->epoch = ix->h->epoch;
    r->nlookup = 0;
    r->opens = 0;
    r->backing = 0;
    r->flags &= (uint16_t) ~(INODE_PASSTHROUGH | INODE_MISCOUNTED);
}

bool index_rec_current(const struct inodes *ix, const struct rec *r)
{
    return r->epoch == ix->h->epoch;
}

void index_rec_view(const struct inodes *ix, const struct rec *r, struct inode *out)
{
    bool dir = r->flags & INODE_DIR, current = index_rec_current(ix, r);
    out->ino = index_ino(ix, r);
    out->generation = r->generation;
    out->parent = r->parent;
    out->cookie = (uint64_t)r->seq << 32 | out->ino;
    out->size = dir ? 0 : r->size;
    out->mtime_ns = r->mtime_ns;
    out->mode = r->mode;
    out->uid = r->uid;
    out->gid = r->gid;
    out->attr = r->attr & 7;
    out->untold = r->attr >> 4 & 7;
    out->flags = current ? r->flags : r->flags & ~(unsigned)(INODE_PASSTHROUGH | INODE_MISCOUNTED);
    out->mount = ix->to_conf[r->mount];
    out->opens = current ? r->opens : 0;
    out->backing = current ? r->backing : 0;
    out->synced_s = r->synced;
    out->listed_s = dir && (r->flags & INODE_LISTED) ? r->dir.listed : 0;
    out->nchildren = dir ? r->dir.count : 0;
    out->version[0] = '\0';
    if (!dir)
        index_version_get(ix, r, out->version);
}

void index_change_begin(struct inodes *ix, const struct rec *old)
{
    pthread_rwlock_wrlock(&ix->lock);
    if (old)
        ix->h->undo = *old;
    atomic_signal_fence(memory_order_seq_cst);
    ix->h->undo_ino = old ? index_ino(ix, old) : 0;
    atomic_store(&ix->h->busy, 1);
}

void index_change_undoable(struct inodes *ix, const struct rec *old)
{
    ix->h->undo_ino = 0;
    atomic_signal_fence(memory_order_seq_cst);
    ix->h->undo = *old;
    atomic_signal_fence(memory_order_seq_cst);
    ix->h->undo_ino = index_ino(ix, old);
}

void index_change_end(struct inodes *ix)
{
    ix->h->undo_ino = 0;
    atomic_store(&ix->h->busy, 0);
    pthread_rwlock_unlock(&ix->lock);
}

void index_rec_flags(struct inodes *ix, struct rec *r, unsigned set, unsigned clear)
{
    unsigned now = (r->flags | set) & ~clear;
    ix->h->dirty += (now & INODE_DIRTY ? 1u : 0u) - (r->flags & INODE_DIRTY ? 1u : 0u);
    r->flags = (uint16_t)now;
}

void index_rec_replace(struct inodes *ix, struct rec *r, const struct rec *now)
{
    struct rec old = *r;
    index_change_undoable(ix, r);
    atomic_signal_fence(memory_order_seq_cst);
    *r = *now;
    atomic_signal_fence(memory_order_seq_cst);
    ix->h->undo_ino = 0;
    atomic_signal_fence(memory_order_seq_cst);
    if (index_version_unit(&old) && index_version_unit(&old) != index_version_unit(now))
        index_version_clear(ix, &old);
}

void index_rec_reclaim(struct inodes *ix, struct rec *r)
{
    index_rec_refresh(ix, r);
    if (!(r->flags & INODE_UNLINKED) || r->nlookup || r->opens
        || index_is_held(ix, index_ino(ix, r)))
        return;
    index_rec_flags(ix, r, 0, INODE_DIRTY);
    index_text_free(ix, r->name, r->name_len);
    if (!(r->flags & INODE_DIR))
        index_version_clear(ix, r);
    r->flags = 0;
    r->generation++;
    r->next = ix->h->free_rec;
    ix->h->free_rec = index_ino(ix, r);
    ix->h->unlinked--;
    ix->h->live--;
}

struct rec *index_rec_new(struct inodes *ix, const char *name, struct err *e)
{
    struct index_head *h = ix->h;
    size_t len = strlen(name);
    if (len == 0 || len > INODE_NAME_MAX || strchr(name, '/')) {
        err_sys(e, len > INODE_NAME_MAX ? ENAMETOOLONG : EINVAL, "name \"%.40s\"", name);
        return NULL;
    }
    uint32_t i = h->free_rec, unit;
    if (!i
        && (h->nrecs == UINT32_MAX
            || index_reserve(ix, REGION_RECS, ((uint64_t)h->nrecs + 1) * sizeof(struct rec), e)))
        return NULL;
    if (!(unit = index_text_new(ix, name, len, e)))
        return NULL;
    if (i)
        h->free_rec = ix->recs[i].next;
    else
        i = h->nrecs++;
    struct rec *r = &ix->recs[i];
    uint32_t generation = r->generation;
    memset(r, 0, sizeof *r);
    r->generation = generation ? generation : 1;
    r->name = unit;
    r->name_len = (uint8_t)len;
    r->epoch = h->epoch;
    return r;
}

int index_rec_add(struct inodes *ix, struct rec *r, unsigned flags, struct err *e)
{
    uint32_t ino = index_ino(ix, r);
    if (index_link(ix, ino, e)) {
        index_text_free(ix, r->name, r->name_len);
        if (!(flags & INODE_DIR))
            index_version_clear(ix, r);
        r->flags = 0;
        r->next = ix->h->free_rec;
        ix->h->free_rec = ino;
        return -1;
    }
    ix->h->live++;
    index_rec_flags(ix, r, flags | INODE_USED, 0);
    return 0;
}

static void detach_one(struct inodes *ix, struct rec *r, unsigned why)
{
    if (r->flags & INODE_UNLINKED)
        return;
    index_unlink(ix, index_ino(ix, r));
    r->flags |= (uint16_t)(INODE_UNLINKED | why);
    r->parent = 0;
    ix->h->unlinked++;
    index_rec_reclaim(ix, r);
}

static void detach_all(struct inodes *ix, struct rec *top, unsigned why)
{
    struct rec *r = top;
    for (;;) {
        while ((r->flags & INODE_DIR) && r->kids.first)
            r = &ix->recs[r->kids.first];
        struct rec *up = r == top ? NULL : &ix->recs[r->parent];
        detach_one(ix, r, why);
        if (!up)
            return;
        r = up;
    }
}

void index_rec_detach(struct inodes *ix, struct rec *top) { detach_all(ix, top, 0); }

void index_rec_orphan(struct inodes *ix, struct rec *top) { detach_all(ix, top, INODE_ORPHANED); }

bool index_rec_is_precious(const struct inodes *ix, const struct rec *top)
{
    const unsigned keep = INODE_LOCAL | INODE_DIRTY | INODE_STAGED | INODE_MOUNT
        | INODE_MOUNTPOINT_DIR;
    const struct rec *r = top;
    for (;;) {
        if (r->flags & keep)
            return true;
        if ((r->flags & INODE_DIR) && r->kids.first) {
            r = &ix->recs[r->kids.first];
            continue;
        }
        while (r != top && !r->next)
            r = &ix->recs[r->parent];
        if (r == top)
            return false;
        r = &ix->recs[r->next];
    }
}
