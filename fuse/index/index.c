/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/index/index.h"

#include "fuse/index/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Counts of another mount mean nothing. */
static void rec_refresh(const struct inodes *ix, struct rec *r)
{
    if (r->epoch == ix->h->epoch)
        return;
    r->epoch = ix->h->epoch;
    r->nlookup = 0;
    r->opens = 0;
    r->backing = 0;
    r->flags &= (uint16_t)~INODE_PASSTHROUGH;
}

static bool rec_current(const struct inodes *ix, const struct rec *r)
{
    return r->epoch == ix->h->epoch;
}

static void view(const struct inodes *ix, const struct rec *r, struct inode *out)
{
    bool dir = r->flags & INODE_DIR, current = rec_current(ix, r);
    out->ino = index_ino(ix, r);
    out->generation = r->generation;
    out->parent = r->parent;
    out->cookie = (uint64_t)r->seq << 32 | out->ino;
    out->size = dir ? 0 : r->size;
    out->mtime_ns = r->mtime_ns;
    out->mode = r->mode;
    out->uid = r->uid;
    out->gid = r->gid;
    out->flags = current ? r->flags : r->flags & ~(unsigned)INODE_PASSTHROUGH;
    out->mount = r->mount;
    out->opens = current ? r->opens : 0;
    out->backing = current ? r->backing : 0;
    out->synced_s = r->synced;
    out->listed_s = dir && (r->flags & INODE_LISTED) ? r->dir.listed : 0;
    out->nchildren = dir ? r->dir.count : 0;
    out->version[0] = '\0';
    if (!dir)
        index_version_get(ix, r, out->version);
}

/* Marks the index as being changed and keeps what a record was, for index_rebuild(). */
static void change_begin(struct inodes *ix, const struct rec *old)
{
    pthread_rwlock_wrlock(&ix->lock);
    if (old)
        ix->h->undo = *old;
    atomic_signal_fence(memory_order_seq_cst);
    ix->h->undo_ino = old ? index_ino(ix, old) : 0;
    atomic_store(&ix->h->busy, 1);
}

static void change_undoable(struct inodes *ix, const struct rec *old)
{
    ix->h->undo_ino = 0;
    atomic_signal_fence(memory_order_seq_cst);
    ix->h->undo = *old;
    atomic_signal_fence(memory_order_seq_cst);
    ix->h->undo_ino = index_ino(ix, old);
}

static void change_end(struct inodes *ix)
{
    ix->h->undo_ino = 0;
    atomic_store(&ix->h->busy, 0);
    pthread_rwlock_unlock(&ix->lock);
}

static void flags_set(struct inodes *ix, struct rec *r, unsigned set, unsigned clear)
{
    unsigned now = (r->flags | set) & ~clear;
    ix->h->dirty += (now & INODE_DIRTY ? 1u : 0u) - (r->flags & INODE_DIRTY ? 1u : 0u);
    r->flags = (uint16_t)now;
}

static void rec_free(struct inodes *ix, struct rec *r)
{
    rec_refresh(ix, r);
    if (!(r->flags & INODE_GONE) || r->nlookup || r->opens)
        return;
    flags_set(ix, r, 0, INODE_DIRTY);
    index_text_free(ix, r->name, r->name_len);
    if (!(r->flags & INODE_DIR))
        index_version_clear(ix, r);
    r->flags = 0;
    r->generation++;
    r->next = ix->h->free_rec;
    ix->h->free_rec = index_ino(ix, r);
    ix->h->gone--;
    ix->h->live--;
}

/* A record with a name, not linked yet; its directory and all but the name are the caller's to
 * fill. NULL: e. */
static struct rec *rec_new(struct inodes *ix, const char *name, struct err *e)
{
    struct head *h = ix->h;
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

/* Links a filled record; gives it back on failure. */
static int rec_add(struct inodes *ix, struct rec *r, unsigned flags, struct err *e)
{
    uint32_t ino = index_ino(ix, r);
    if (index_link(ix, ino, e)) {
        index_text_free(ix, r->name, r->name_len);
        r->flags = 0;
        r->next = ix->h->free_rec;
        ix->h->free_rec = ino;
        return -1;
    }
    ix->h->live++;
    flags_set(ix, r, flags | INODE_USED, 0);
    return 0;
}

static void rec_detach(struct inodes *ix, struct rec *r)
{
    if (r->flags & INODE_GONE)
        return;
    index_unlink(ix, index_ino(ix, r));
    r->flags |= INODE_GONE;
    r->parent = 0;
    ix->h->gone++;
    rec_free(ix, r);
}

/* With everything below it, leaves first, without recursion: paths may be deep. */
static void rec_detach_tree(struct inodes *ix, struct rec *top)
{
    struct rec *r = top;
    for (;;) {
        while ((r->flags & INODE_DIR) && r->kids.first)
            r = &ix->recs[r->kids.first];
        struct rec *up = r == top ? NULL : &ix->recs[r->parent];
        rec_detach(ix, r);
        if (!up)
            return;
        r = up;
    }
}

/* Not because a user of the mount said so. */
static void rec_lose(struct inodes *ix, struct rec *r)
{
    r->flags |= INODE_LOST;
    rec_detach_tree(ix, r);
}

/* Is there anything below (or here) that the store does not have, or that must stay? */
static bool rec_precious(const struct inodes *ix, const struct rec *top)
{
    const unsigned keep = INODE_LOCAL | INODE_DIRTY | INODE_STAGED | INODE_MOUNT | INODE_FIXED;
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

int inodes_get(struct inodes *ix, uint64_t ino, struct inode *out)
{
    pthread_rwlock_rdlock(&ix->lock);
    const struct rec *r = index_rec(ix, ino);
    if (r)
        view(ix, r, out);
    pthread_rwlock_unlock(&ix->lock);
    return r ? 0 : -1;
}

bool inodes_find(struct inodes *ix, uint64_t dir, const char *name, struct inode *out)
{
    pthread_rwlock_rdlock(&ix->lock);
    uint32_t i = dir < UINT32_MAX ? index_find(ix, (uint32_t)dir, name, strlen(name)) : 0;
    if (i)
        view(ix, &ix->recs[i], out);
    pthread_rwlock_unlock(&ix->lock);
    return i != 0;
}

static struct rec *put_new(struct inodes *ix, uint32_t dir, const char *name,
    const struct store_stat *st, uint32_t now_s, struct err *e)
{
    struct rec *r = rec_new(ix, name, e);
    if (!r)
        return NULL;
    r->parent = dir;
    r->uid = ix->conf.uid;
    r->gid = ix->conf.gid;
    r->mode = (uint16_t)(st->is_dir ? S_IFDIR | ix->conf.dir_mode : S_IFREG | ix->conf.file_mode);
    r->mtime_ns = st->mtime_ns;
    r->synced = now_s;
    r->mount = ix->recs[dir].mount;
    if (!st->is_dir) {
        r->size = st->size;
        if (index_version_set(ix, r, st->version, e)) {
            index_text_free(ix, r->name, r->name_len);
            r->next = ix->h->free_rec;
            ix->h->free_rec = index_ino(ix, r);
            return NULL;
        }
    }
    return rec_add(ix, r, st->is_dir ? INODE_DIR : 0, e) ? NULL : r;
}

/* Another record for the name. Who is killed in the middle leaves a directory that has to be asked
 * for it, not one where it is absent. */
static struct rec *put_again(struct inodes *ix, struct rec *r, uint32_t dir, const char *name,
    const struct store_stat *st, uint32_t now_s, struct err *e)
{
    unsigned listed = ix->recs[dir].flags & INODE_LISTED;
    flags_set(ix, &ix->recs[dir], 0, listed);
    atomic_signal_fence(memory_order_seq_cst);
    rec_lose(ix, r);
    if (!(r = put_new(ix, dir, name, st, now_s, e)))
        return NULL;
    atomic_signal_fence(memory_order_seq_cst);
    flags_set(ix, &ix->recs[dir], listed, 0);
    return r;
}

/* Is what we have still what the store says? */
static bool put_same(const struct inodes *ix, const struct rec *r, const struct store_stat *st)
{
    if (!(r->flags & INODE_DIR) != !st->is_dir)
        return false;
    if (st->is_dir)
        return true;
    char version[STORE_VERSION_MAX];
    index_version_get(ix, r, version);
    return r->size == st->size && strcmp(version, st->version) == 0;
}

static int put_locked(struct inodes *ix, uint32_t dir, const char *name,
    const struct store_stat *st, uint32_t now_s, struct inode *out, enum inodes_change *change,
    struct err *e)
{
    uint32_t i = index_find(ix, dir, name, strlen(name));
    struct rec *r = i ? &ix->recs[i] : NULL;
    *change = INODES_SAME;
    if (r && (r->flags & (INODE_MOUNT | INODE_FIXED | INODE_LOCAL | INODE_DIRTY | INODE_STAGED))) {
        r->synced = now_s;
    } else if (r && put_same(ix, r, st)) {
        r->synced = now_s;
        if (!(r->flags & INODE_ATTR) && st->mtime_ns)
            r->mtime_ns = st->mtime_ns;
    } else if (r && !(r->flags & INODE_DIR) && !st->is_dir
        && (!rec_current(ix, r) || (!r->nlookup && !r->opens))) {
        /* whoever has something of the old version must not take it for the new one's */
        r->generation++;
        r->backing = 0;
        r->flags &= (uint16_t)~INODE_PASSTHROUGH;
        if (index_version_set(ix, r, st->version, e))
            return -1;
        r->size = st->size;
        r->mtime_ns = st->mtime_ns;
        r->synced = now_s;
        *change = INODES_UPDATED;
    } else {
        /* a directory with unsaved files became a file elsewhere: ours first */
        if (r && rec_precious(ix, r)) {
            r->synced = now_s;
        } else {
            *change = r ? INODES_REPLACED : INODES_NEW;
            r = r ? put_again(ix, r, dir, name, st, now_s, e)
                  : put_new(ix, dir, name, st, now_s, e);
            if (!r)
                return -1;
        }
    }
    view(ix, r, out);
    return 0;
}

int inodes_put(struct inodes *ix, uint64_t dir, const char *name, const struct store_stat *st,
    uint32_t now_s, struct inode *out, enum inodes_change *change, struct err *e)
{
    change_begin(ix, NULL);
    const struct rec *d = index_rec(ix, dir);
    int rc = -1;
    if (!d || !(d->flags & INODE_DIR) || (d->flags & INODE_GONE))
        err_sys(e, ESTALE, "the directory of \"%s\" is gone", name);
    else
        rc = put_locked(ix, (uint32_t)dir, name, st, now_s, out, change, e);
    change_end(ix);
    return rc;
}

int inodes_renew(struct inodes *ix, uint64_t ino, struct err *e)
{
    char name[INODE_NAME_MAX + 1];
    struct store_stat st = {0};
    int rc = -1;
    change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    if (!r || (r->flags & (INODE_GONE | INODE_DIR)) || rec_precious(ix, r)) {
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
            flags_set(ix, r, old.flags & INODE_ATTR, 0);
            rc = 0;
        }
    }
    change_end(ix);
    return rc;
}

int inodes_create(struct inodes *ix, uint64_t dir, const char *name, const struct inode *like,
    struct inode *out, struct err *e)
{
    int rc = -1;
    change_begin(ix, NULL);
    const struct rec *d = index_rec(ix, dir);
    struct rec *r;
    if (!d || !(d->flags & INODE_DIR) || (d->flags & INODE_GONE)) {
        err_sys(e, ENOENT, "the directory of \"%s\" is gone", name);
    } else if (index_find(ix, (uint32_t)dir, name, strlen(name))) {
        err_sys(e, EEXIST, "create \"%s\"", name);
    } else if ((r = rec_new(ix, name, e))) {
        bool is_dir = like->flags & INODE_DIR;
        r->parent = (uint32_t)dir;
        r->mode = (uint16_t)like->mode;
        r->uid = like->uid;
        r->gid = like->gid;
        r->mtime_ns = like->mtime_ns;
        r->synced = like->synced_s;
        r->mount = (uint8_t)like->mount;
        if (is_dir)
            r->dir.listed = like->synced_s;
        else
            r->size = like->size;
        rc = rec_add(ix, r, like->flags, e);
        if (rc == 0)
            view(ix, r, out);
    }
    change_end(ix);
    return rc;
}

void inodes_remove(struct inodes *ix, uint64_t ino)
{
    change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    if (r && ino != INODE_ROOT)
        rec_detach_tree(ix, r);
    change_end(ix);
}

int inodes_rename(struct inodes *ix, uint64_t ino, uint64_t dir, const char *name, struct err *e)
{
    int rc = -1;
    size_t len = strlen(name);
    change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    const struct rec *d = index_rec(ix, dir);
    uint32_t target, unit;
    if (!r || (r->flags & INODE_GONE) || !d || !(d->flags & INODE_DIR) || (d->flags & INODE_GONE)) {
        err_sys(e, ESTALE, "rename to \"%s\"", name);
    } else if (len == 0 || len > INODE_NAME_MAX) {
        err_sys(e, ENAMETOOLONG, "rename to \"%.40s\"", name);
    } else if ((unit = index_text_new(ix, name, len, e))) {
        rc = 0;
        target = index_find(ix, (uint32_t)dir, name, len);
        if (target && target != ino)
            rec_detach_tree(ix, &ix->recs[target]);
        if (target != ino) {
            uint32_t old = r->name, old_len = r->name_len;
            change_undoable(ix, r);
            index_unlink(ix, (uint32_t)ino);
            r->parent = (uint32_t)dir;
            r->name = unit;
            r->name_len = (uint8_t)len;
            /* it was counted already: no bucket more is due, so this link cannot fail */
            ix->h->live--;
            rc = index_link(ix, (uint32_t)ino, e);
            ix->h->live++;
            /* the old name is not to be had back once its room is given away */
            ix->h->undo_ino = 0;
            atomic_signal_fence(memory_order_seq_cst);
            index_text_free(ix, old, old_len);
        } else {
            index_text_free(ix, unit, len);
        }
    }
    change_end(ix);
    return rc;
}

void inodes_set(struct inodes *ix, uint64_t ino, unsigned fields, const struct inode *from,
    unsigned set, unsigned clear)
{
    change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    if (r) {
        rec_refresh(ix, r);
        if ((fields & INODES_SIZE) && !(r->flags & INODE_DIR))
            r->size = from->size;
        if ((fields & INODES_GROW) && !(r->flags & INODE_DIR) && from->size > r->size)
            r->size = from->size;
        if (fields & INODES_MTIME)
            r->mtime_ns = from->mtime_ns;
        if (fields & INODES_MODE)
            r->mode = (uint16_t)((r->mode & S_IFMT) | (from->mode & 07777));
        if (fields & INODES_OWNER) {
            r->uid = from->uid;
            r->gid = from->gid;
        }
        if ((fields & INODES_VERSION) && !(r->flags & INODE_DIR))
            index_version_set(ix, r, from->version, NULL);
        if (fields & INODES_SYNCED)
            r->synced = from->synced_s;
        if (fields & INODES_BACKING)
            r->backing = from->backing;
        flags_set(ix, r, set, clear);
    }
    change_end(ix);
}

unsigned inodes_opened(struct inodes *ix, uint64_t ino, int delta)
{
    unsigned now = 0;
    change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    if (r) {
        rec_refresh(ix, r);
        int opens = (int)r->opens + delta;
        now = opens < 0 ? 0 : opens > UINT16_MAX ? UINT16_MAX : (unsigned)opens;
        r->opens = (uint16_t)now;
        rec_free(ix, r);
    }
    change_end(ix);
    return now;
}

void inodes_ref(struct inodes *ix, uint64_t ino)
{
    change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    if (r) {
        rec_refresh(ix, r);
        r->nlookup++;
    }
    change_end(ix);
}

void inodes_forget(struct inodes *ix, uint64_t ino, uint64_t n)
{
    change_begin(ix, NULL);
    struct rec *r = index_rec(ix, ino);
    if (r && ino != INODE_ROOT) {
        rec_refresh(ix, r);
        r->nlookup -= (uint32_t)(n < r->nlookup ? n : r->nlookup);
        rec_free(ix, r);
    }
    change_end(ix);
}

static uint32_t child_after(const struct inodes *ix, uint32_t dir, uint64_t cookie)
{
    if (!cookie)
        return ix->recs[dir].kids.first;
    uint32_t seq = (uint32_t)(cookie >> 32);
    const struct rec *at = index_rec(ix, (uint32_t)cookie);
    if (at && at->parent == dir && at->seq == seq && !(at->flags & INODE_GONE))
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
        view(ix, r, &child);
        int rc = fn(user, name, &child, (uint64_t)r->seq << 32 | i);
        if (rc > 0)
            break;
        if (ref && rc == 0) {
            rec_refresh(ix, r);
            r->nlookup++;
        }
    }
    pthread_rwlock_unlock(&ix->lock);
}

bool inodes_listed(struct inodes *ix, uint64_t dir, uint32_t start_s,
    void (*fn)(void *user, uint64_t dir, const char *name), void *user)
{
    char name[INODE_NAME_MAX + 1];
    bool removed = false;
    change_begin(ix, NULL);
    struct rec *d = index_rec(ix, dir);
    if (d && (d->flags & INODE_DIR)) {
        for (uint32_t i = d->kids.first, next; i; i = next) {
            struct rec *r = &ix->recs[i];
            next = r->next;
            if (r->synced >= start_s || rec_precious(ix, r))
                continue;
            memcpy(name, index_text(ix, r->name), r->name_len);
            name[r->name_len] = '\0';
            bool known = rec_current(ix, r) && r->nlookup;
            rec_lose(ix, r);
            removed = true;
            if (known && fn)
                fn(user, dir, name);
        }
        d->dir.listed = start_s;
        flags_set(ix, d, INODE_LISTED, 0);
    }
    change_end(ix);
    return removed;
}

void inodes_idle_backings(
    struct inodes *ix, void (*fn)(void *user, const struct inode *n), void *user)
{
    struct inode n;
    pthread_rwlock_rdlock(&ix->lock);
    for (uint32_t i = 1; i < ix->h->nrecs; i++) {
        const struct rec *r = &ix->recs[i];
        if (!(r->flags & INODE_USED) || !rec_current(ix, r) || r->backing <= 0 || r->opens)
            continue;
        view(ix, r, &n);
        fn(user, &n);
    }
    pthread_rwlock_unlock(&ix->lock);
}

void inodes_unlist(struct inodes *ix, uint64_t dir)
{
    change_begin(ix, NULL);
    struct rec *d = index_rec(ix, dir);
    if (d && (d->flags & INODE_DIR))
        flags_set(ix, d, 0, INODE_LISTED);
    change_end(ix);
}

int inodes_mount(struct inodes *ix, uint64_t dir, unsigned mount)
{
    change_begin(ix, NULL);
    struct rec *d = index_rec(ix, dir);
    if (d) {
        d->mount = (uint8_t)mount;
        flags_set(ix, d, INODE_MOUNT, 0);
    }
    change_end(ix);
    return d ? 0 : -1;
}
