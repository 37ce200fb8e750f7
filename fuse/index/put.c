/* SPDX-License-Identifier: Apache-2.0 */
/* What a store says about names becomes records. */
#include "fuse/index/format.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static uint16_t new_mode(const struct inodes *ix, const struct store_stat *st)
{
    return (uint16_t)(st->is_dir ? S_IFDIR | ix->conf.dir_mode
            : st->is_link        ? S_IFLNK | 0777
                                 : S_IFREG | ix->conf.file_mode);
}

/* What the store says of attributes, as far as none is waiting here to be told to it. What only
 * this node keeps of a mode stays with it while the rest is the same. */
static void put_attr(const struct inodes *ix, struct rec *r, const struct store_stat *st)
{
    unsigned had = r->attr & 7, untold = r->attr >> 4, has = st->attr.has,
             take = (had | has) & ~untold;
    if (!st->attr_known)
        return;
    uint32_t mode = has & STORE_MODE ? st->attr.mode : new_mode(ix, st);
    if ((take & STORE_MODE) && !S_ISLNK(r->mode) && ((r->mode ^ mode) & STORE_MODE_BITS))
        r->mode = (uint16_t)((r->mode & S_IFMT) | (mode & STORE_MODE_BITS));
    if (take & STORE_OWNER) {
        r->uid = has & STORE_OWNER ? st->attr.uid : ix->conf.uid;
        r->gid = has & STORE_OWNER ? st->attr.gid : ix->conf.gid;
    }
    r->attr = index_attr((had & untold) | (has & ~untold), untold);
}

static struct rec *put_new(struct inodes *ix, uint32_t dir, const char *name,
    const struct store_stat *st, uint32_t now_s, struct err *e)
{
    struct rec *r = index_rec_new(ix, name, e);
    if (!r)
        return NULL;
    r->parent = dir;
    r->uid = ix->conf.uid;
    r->gid = ix->conf.gid;
    r->mode = new_mode(ix, st);
    r->mtime_ns = st->mtime_ns;
    put_attr(ix, r, st);
    r->synced = now_s;
    r->mount = ix->recs[dir].mount;
    if (!st->is_dir) {
        r->size = st->size;
        if (index_version_pack(ix, r, st->version, e)) {
            index_text_free(ix, r->name, r->name_len);
            r->next = ix->h->free_rec;
            ix->h->free_rec = index_ino(ix, r);
            return NULL;
        }
    }
    return index_rec_add(ix, r,
               st->is_dir        ? INODE_DIR
                   : st->unasked ? INODE_UNASKED
                                 : 0,
               e)
        ? NULL
        : r;
}

/* Another record for the name. Who is killed in the middle leaves a directory that has to be asked
 * for it, not one where it is absent. */
static struct rec *put_again(struct inodes *ix, struct rec *r, uint32_t dir, const char *name,
    const struct store_stat *st, uint32_t now_s, struct err *e)
{
    unsigned listed = ix->recs[dir].flags & INODE_LISTED;
    index_rec_flags(ix, &ix->recs[dir], 0, listed);
    atomic_signal_fence(memory_order_seq_cst);
    index_rec_orphan(ix, r);
    if (!(r = put_new(ix, dir, name, st, now_s, e)))
        return NULL;
    atomic_signal_fence(memory_order_seq_cst);
    index_rec_flags(ix, &ix->recs[dir], listed, 0);
    return r;
}

/* Is what we have still what the store says? */
static bool put_same(const struct inodes *ix, const struct rec *r, const struct store_stat *st)
{
    if (!(r->flags & INODE_DIR) != !st->is_dir)
        return false;
    if (st->is_dir)
        return true;
    if (!st->unasked && st->is_link != !!S_ISLNK(r->mode))
        return false;
    char version[STORE_VERSION_MAX];
    index_version_get(ix, r, version);
    return r->size == st->size && strcmp(version, st->version) == 0;
}

static int put_stat(struct inodes *ix, uint32_t dir, const char *name, const struct store_stat *st,
    uint32_t now_s, struct inode *out, enum inodes_change *change, struct err *e)
{
    uint32_t i = index_find(ix, dir, name, strlen(name));
    struct rec *r = i ? &ix->recs[i] : NULL;
    *change = INODES_SAME;
    if (r
        && (r->flags
            & (INODE_MOUNT | INODE_MOUNTPOINT_DIR | INODE_LOCAL | INODE_DIRTY | INODE_STAGED))) {
        r->synced = now_s;
    } else if (r && put_same(ix, r, st)) {
        r->synced = now_s;
        if (!(r->flags & INODE_ATTR) && st->mtime_ns
            && (st->attr_known || !(r->attr & STORE_MTIME)))
            r->mtime_ns = st->mtime_ns;
        put_attr(ix, r, st);
        if (!st->unasked)
            index_rec_flags(ix, r, 0, INODE_UNASKED);
    } else if (r && !(r->flags & INODE_DIR) && !st->is_dir
        && (!index_rec_current(ix, r) || (!r->nlookup && !r->opens)) && !index_is_held(ix, i)) {
        struct rec now = *r;
        if (index_version_pack(ix, &now, st->version, e))
            return -1;
        /* what is left of the old version must not be taken for the new one's */
        now.generation++;
        now.backing = 0;
        now.flags &= (uint16_t) ~(INODE_PASSTHROUGH | INODE_MISCOUNTED | INODE_UNASKED);
        if (st->unasked)
            now.flags |= INODE_UNASKED;
        if (S_ISLNK(r->mode) != st->is_link)
            now.mode = new_mode(ix, st);
        now.size = st->size;
        now.mtime_ns = st->mtime_ns;
        now.attr &= (uint8_t)~index_attr(STORE_MTIME, STORE_MTIME);
        put_attr(ix, &now, st);
        now.synced = now_s;
        index_rec_replace(ix, r, &now);
        *change = INODES_UPDATED;
    } else {
        /* a directory with unsaved files became a file elsewhere: ours first */
        if (r && index_rec_is_precious(ix, r)) {
            r->synced = now_s;
        } else {
            *change = r ? INODES_REPLACED : INODES_NEW;
            r = r ? put_again(ix, r, dir, name, st, now_s, e)
                  : put_new(ix, dir, name, st, now_s, e);
            if (!r)
                return -1;
        }
    }
    index_rec_view(ix, r, out);
    return 0;
}

int inodes_put(struct inodes *ix, uint64_t dir, const char *name, const struct store_stat *st,
    uint64_t asked, uint32_t now_s, struct inode *out, enum inodes_change *change, struct err *e)
{
    index_change_begin(ix, NULL);
    const struct rec *d = index_rec(ix, dir);
    int rc = -1;
    if (!d || !(d->flags & INODE_DIR) || (d->flags & INODE_UNLINKED)) {
        err_sys(e, ESTALE, "the directory of \"%s\" is gone", name);
    } else if ((*change = index_evaluate(ix, dir, name, strlen(name), asked)) != INODES_SAME) {
        uint32_t i = index_find(ix, (uint32_t)dir, name, strlen(name));
        out->ino = 0;
        if (i)
            index_rec_view(ix, &ix->recs[i], out);
        rc = 0;
    } else {
        rc = put_stat(ix, (uint32_t)dir, name, st, now_s, out, change, e);
    }
    index_change_end(ix);
    return rc;
}

int inodes_renew(struct inodes *ix, uint64_t ino, struct err *e)
{
    char name[INODE_NAME_MAX + 1];
    struct store_stat st = {0};
    int rc = -1;
    index_change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    if (!r || (r->flags & (INODE_UNLINKED | INODE_DIR)) || index_rec_is_precious(ix, r)) {
        err_sys(e, ESTALE, "inode %llu", (unsigned long long)ino);
    } else {
        struct rec old = *r;
        memcpy(name, index_text(ix, old.name), old.name_len);
        name[old.name_len] = '\0';
        st.size = old.size;
        st.mtime_ns = old.mtime_ns;
        index_version_get(ix, r, st.version);
        if ((r = put_again(ix, r, old.parent, name, &st, old.synced, e))) {
            r->mode = old.mode;
            r->uid = old.uid;
            r->gid = old.gid;
            r->mount = old.mount;
            r->attr = old.attr;
            index_rec_flags(ix, r, old.flags & INODE_ATTR, 0);
            rc = 0;
        }
    }
    index_change_end(ix);
    return rc;
}
