/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/index/index.h"

#include "fuse/index/format.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

int inodes_get(struct inodes *ix, uint64_t ino, struct inode *out)
{
    pthread_rwlock_rdlock(&ix->lock);
    const struct rec *r = index_rec(ix, ino);
    if (r)
        index_rec_view(ix, r, out);
    pthread_rwlock_unlock(&ix->lock);
    return r ? 0 : -1;
}

bool inodes_find(struct inodes *ix, uint64_t dir, const char *name, struct inode *out)
{
    pthread_rwlock_rdlock(&ix->lock);
    uint32_t i = dir < UINT32_MAX ? index_find(ix, (uint32_t)dir, name, strlen(name)) : 0;
    if (i)
        index_rec_view(ix, &ix->recs[i], out);
    pthread_rwlock_unlock(&ix->lock);
    return i != 0;
}

int inodes_create(struct inodes *ix, uint64_t dir, const char *name, const struct inode *like,
    struct inode *out, struct err *e)
{
    int rc = -1;
    index_change_begin(ix, NULL);
    const struct rec *d = index_rec(ix, dir);
    struct rec *r;
    if (!d || !(d->flags & INODE_DIR) || (d->flags & INODE_UNLINKED)) {
        err_sys(e, ENOENT, "the directory of \"%s\" is gone", name);
    } else if (index_find(ix, (uint32_t)dir, name, strlen(name))) {
        err_sys(e, EEXIST, "create \"%s\"", name);
    } else if ((r = index_rec_new(ix, name, e))) {
        bool is_dir = like->flags & INODE_DIR;
        r->parent = (uint32_t)dir;
        r->mode = (uint16_t)like->mode;
        r->uid = like->uid;
        r->gid = like->gid;
        r->attr = index_attr(like->attr, like->untold);
        r->mtime_ns = like->mtime_ns;
        r->synced = like->synced_s;
        r->mount = ix->to_slot[like->mount & 255];
        if (is_dir)
            r->dir.listed = like->synced_s;
        else
            r->size = like->size;
        rc = index_rec_add(ix, r, like->flags, e);
        if (rc == 0) {
            index_changed(ix, r);
            index_rec_view(ix, r, out);
        }
    }
    index_change_end(ix);
    return rc;
}

void inodes_remove(struct inodes *ix, uint64_t ino)
{
    index_change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    if (r && ino != INODE_ROOT) {
        if (!(r->flags & INODE_UNLINKED))
            index_changed(ix, r);
        if (r->flags & INODE_DIR)
            index_moved(ix, (uint32_t)ino);
        index_rec_detach(ix, r);
    }
    index_change_end(ix);
}

bool inodes_orphan(struct inodes *ix, uint64_t ino, uint64_t asked)
{
    index_change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    bool goes = r && ino != INODE_ROOT && !(r->flags & INODE_UNLINKED)
        && !index_rec_is_precious(ix, r)
        && index_evaluate(ix, r->parent, index_text(ix, r->name), r->name_len, asked)
            == INODES_SAME;
    if (goes)
        index_rec_orphan(ix, r);
    index_change_end(ix);
    return goes;
}

int inodes_rename(struct inodes *ix, uint64_t ino, uint64_t dir, const char *name, struct err *e)
{
    int rc = -1;
    size_t len = strlen(name);
    index_change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    const struct rec *d = index_rec(ix, dir);
    uint32_t target, unit;
    if (!r || (r->flags & INODE_UNLINKED) || !d || !(d->flags & INODE_DIR)
        || (d->flags & INODE_UNLINKED)) {
        err_sys(e, ESTALE, "rename to \"%s\"", name);
    } else if (len == 0 || len > INODE_NAME_MAX) {
        err_sys(e, ENAMETOOLONG, "rename to \"%.40s\"", name);
    } else if ((unit = index_text_new(ix, name, len, e))) {
        rc = 0;
        target = index_find(ix, (uint32_t)dir, name, len);
        if (target && target != ino)
            index_rec_detach(ix, &ix->recs[target]);
        if (target != ino) {
            uint32_t old = r->name, old_len = r->name_len;
            index_changed(ix, r);
            index_change_undoable(ix, r);
            index_unlink(ix, (uint32_t)ino);
            r->parent = (uint32_t)dir;
            r->name = unit;
            r->name_len = (uint8_t)len;
            /* it was counted already: no bucket more is due, so this link cannot fail */
            ix->h->live--;
            rc = index_link(ix, (uint32_t)ino, e);
            ix->h->live++;
            index_changed(ix, r);
            if (r->flags & INODE_DIR)
                index_moved(ix, (uint32_t)ino);
            /* the old name is not to be had back once its room is given away */
            ix->h->undo_ino = 0;
            atomic_signal_fence(memory_order_seq_cst);
            index_text_free(ix, old, old_len);
        } else {
            index_text_free(ix, unit, len);
        }
    }
    index_change_end(ix);
    return rc;
}

/* Without room for it the version is not known, so the store is asked: what the file had before
 * would be taken for it otherwise. */
static void rec_set_version(struct inodes *ix, struct rec *now, const char *text)
{
    if (index_version_pack(ix, now, text, NULL) == 0)
        return;
    index_version_pack(ix, now, "", NULL);
    now->synced = 0;
}

void inodes_set(struct inodes *ix, uint64_t ino, unsigned fields, const struct inode *from,
    unsigned set, unsigned clear)
{
    index_change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    if (r) {
        index_rec_refresh(ix, r);
        struct rec now = *r;
        bool dir = r->flags & INODE_DIR;
        if ((fields & INODES_SIZE) && !dir)
            now.size = from->size;
        if ((fields & INODES_GROW) && !dir && from->size > r->size)
            now.size = from->size;
        if (fields & INODES_MTIME) {
            now.mtime_ns = from->mtime_ns;
            now.attr &= (uint8_t)~index_attr(STORE_MTIME, STORE_MTIME);
        }
        if (fields & INODES_MODE)
            now.mode = (uint16_t)((r->mode & S_IFMT) | (from->mode & 07777));
        if (fields & INODES_OWNER) {
            now.uid = from->uid;
            now.gid = from->gid;
        }
        if (fields & INODES_ATTR)
            now.attr = index_attr(from->attr, from->untold);
        if (fields & INODES_SYNCED)
            now.synced = from->synced_s;
        if (fields & INODES_BACKING)
            now.backing = from->backing;
        if ((fields & INODES_VERSION) && !dir)
            rec_set_version(ix, &now, from->version);
        if (dir || !(fields & INODES_VERSION)) {
            *r = now;
        } else {
            index_rec_replace(ix, r, &now);
            if (!(r->flags & INODE_UNLINKED))
                index_changed(ix, r);
        }
        index_rec_flags(ix, r, set, clear);
    }
    index_change_end(ix);
}

unsigned inodes_opened(struct inodes *ix, uint64_t ino, int delta)
{
    unsigned now = 0;
    index_change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    if (r) {
        index_rec_refresh(ix, r);
        int opens = (int)r->opens + delta;
        now = opens < 0 ? 0 : opens > UINT16_MAX ? UINT16_MAX : (unsigned)opens;
        r->opens = (uint16_t)now;
        if (!now)
            r->flags &= (uint16_t)~INODE_MISCOUNTED;
        index_rec_reclaim(ix, r);
    }
    index_change_end(ix);
    return now;
}

void inodes_ref(struct inodes *ix, uint64_t ino)
{
    index_change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    if (r) {
        index_rec_refresh(ix, r);
        r->nlookup++;
    }
    index_change_end(ix);
}

void inodes_forget(struct inodes *ix, uint64_t ino, uint64_t n)
{
    index_change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    if (r && ino != INODE_ROOT) {
        index_rec_refresh(ix, r);
        r->nlookup -= (uint32_t)(n < r->nlookup ? n : r->nlookup);
        index_rec_reclaim(ix, r);
    }
    index_change_end(ix);
}

static uint32_t child_after(const struct inodes *ix, uint32_t dir, uint64_t cookie)
{
    if (!cookie)
        return ix->recs[dir].kids.first;
    uint32_t seq = (uint32_t)(cookie >> 32);
    const struct rec *at = index_rec(ix, (uint32_t)cookie);
    if (at && at->parent == dir && at->seq == seq && !(at->flags & INODE_UNLINKED))
        return at->next;
    uint32_t i = ix->recs[dir].kids.first; /* it was removed meanwhile */
    while (i && ix->recs[i].seq <= seq)
        i = ix->recs[i].next;
    return i;
}

void inodes_children(
    struct inodes *ix, uint64_t dir, uint64_t cookie, bool ref, inodes_fn fn, void *user)
{
    char name[INODE_NAME_MAX + 1];
    struct inode child;
    if (ref)
        pthread_rwlock_wrlock(&ix->lock);
    else
        pthread_rwlock_rdlock(&ix->lock);
    const struct rec *d = index_rec(ix, dir);
    uint32_t i = d && (d->flags & INODE_DIR) ? child_after(ix, (uint32_t)dir, cookie) : 0;
    for (; i; i = ix->recs[i].next) {
        struct rec *r = &ix->recs[i];
        memcpy(name, index_text(ix, r->name), r->name_len);
        name[r->name_len] = '\0';
        index_rec_view(ix, r, &child);
        int rc = fn(user, name, &child, (uint64_t)r->seq << 32 | i);
        if (rc > 0)
            break;
        if (ref && rc == 0) {
            index_rec_refresh(ix, r);
            r->nlookup++;
        }
    }
    pthread_rwlock_unlock(&ix->lock);
}

int inodes_listed(struct inodes *ix, uint64_t dir, uint64_t asked, uint32_t start_s,
    void (*fn)(void *user, uint64_t dir, const char *name), void *user)
{
    char name[INODE_NAME_MAX + 1];
    int removed = 0;
    index_change_begin(ix, NULL);
    struct rec *d = index_rec(ix, dir);
    if (index_was_moved(ix, dir, asked)) {
        removed = -1;
    } else if (d && (d->flags & INODE_DIR)) {
        struct index_recent recent;
        index_recent_open(&recent, ix, asked);
        for (uint32_t i = d->kids.first, next; i; i = next) {
            struct rec *r = &ix->recs[i];
            next = r->next;
            if (r->synced >= start_s || index_rec_is_precious(ix, r)
                || index_recent_has(&recent, dir, index_text(ix, r->name), r->name_len))
                continue;
            memcpy(name, index_text(ix, r->name), r->name_len);
            name[r->name_len] = '\0';
            bool known = index_rec_current(ix, r) && r->nlookup;
            index_rec_orphan(ix, r);
            removed = 1;
            if (known && fn)
                fn(user, dir, name);
        }
        index_recent_close(&recent);
        d->dir.listed = start_s;
        index_rec_flags(ix, d, INODE_LISTED, 0);
    }
    index_change_end(ix);
    return removed;
}

void inodes_backings(struct inodes *ix, void (*fn)(void *user, const struct inode *n), void *user)
{
    struct inode n;
    pthread_rwlock_rdlock(&ix->lock);
    for (uint32_t i = 1; i < ix->h->nrecs; i++) {
        const struct rec *r = &ix->recs[i];
        if (!(r->flags & INODE_USED) || !index_rec_current(ix, r) || r->backing <= 0)
            continue;
        index_rec_view(ix, r, &n);
        fn(user, &n);
    }
    pthread_rwlock_unlock(&ix->lock);
}

void inodes_unlist(struct inodes *ix, uint64_t dir)
{
    index_change_begin(ix, NULL);
    struct rec *d = index_rec(ix, dir);
    if (d && (d->flags & INODE_DIR))
        index_rec_flags(ix, d, 0, INODE_LISTED);
    index_change_end(ix);
}

int inodes_mount(struct inodes *ix, uint64_t dir, unsigned mount)
{
    index_change_begin(ix, NULL);
    struct rec *d = index_rec(ix, dir);
    if (d) {
        d->mount = ix->to_slot[mount & 255];
        index_rec_flags(ix, d, INODE_MOUNT, 0);
    }
    index_change_end(ix);
    return d ? 0 : -1;
}
