/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/create.h"

#include "fuse/file/attr.h"
#include "fuse/file/dir_move.h"
#include "fuse/file/open.h"
#include "fuse/file/stage.h"
#include "fuse/file/upload.h"
#include "lib/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The directory that is to get a name. */
static int parent_of(
    struct files *fs, const struct new_name *w, const char *what, struct inode *d, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    if (inodes_get(c->inodes, w->dir, d))
        return err_sys(e, ESTALE, "%s %s", what, w->name);
    if (!tree_writable(c->tree, d->mount))
        return err_sys(e, EROFS, "%s %s", what, w->name);
    return 0;
}

static struct inode new_inode(struct files *fs, const struct new_name *w, unsigned mount)
{
    const struct files_conf *c = files_config(fs);
    int64_t now = clock_real_ns();
    uint8_t attr = w->uid != c->uid || w->gid != c->gid ? STORE_OWNER : 0;
    return (struct inode){.uid = w->uid,
        .attr = attr,
        .untold = attr,
        .gid = w->gid,
        .mount = mount,
        .mtime_ns = now,
        .synced_s = (uint32_t)(now / NS_PER_S)};
}

/* Its mode is the mount's, so that all who may write to the mount may write to it, where its maker
 * asks for no other than a usual umask leaves; else what the maker asks for. */
static void mode_of_new(
    const struct new_name *w, uint32_t type, uint32_t of_mount, struct inode *like)
{
    uint32_t wanted = w->mode & 0777, sticky = w->mode & S_ISVTX;
    bool usual = !(w->umask & ~022u)
        && (wanted == (0666 & ~w->umask) || wanted == (0777 & ~w->umask));
    uint32_t mode = (usual ? of_mount | (wanted & 0111) : wanted) | sticky;
    like->mode = type | mode;
    if (mode != of_mount)
        like->attr = like->untold = like->attr | STORE_MODE;
}

static void new_file(struct files *fs, const struct new_name *w, struct inode *like)
{
    mode_of_new(w, S_IFREG, files_config(fs)->file_mode, like);
}

/* O_EXCL holds for all who use the store: the empty object is made there first, by one of them. The
 * process before us may have come that far (resent): the store knows it by its mark. */
static int create_claim(struct files *fs, const struct new_name *w, const struct inode *like,
    struct store_stat *st, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    struct store_attr attr;
    const struct store_put nothing = {
        .fd = -1, .expect = "", .mark = inodes_unique(c->inodes, w->request), .attr = &attr};
    attr_of_inode(like, &attr);
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    if (tree_where_child(c->tree, w->dir, w->name, &store, &mount, path, e))
        return -1;
    if (store_put(store, path, &nothing, st, e) == 0)
        return 0;
    if (e->cls != ERR_CONFLICT)
        return -1;
    inodes_unlist(c->inodes, w->dir); /* it has a name that the index does not know */
    return err_sys(e, EEXIST, "create %s", w->name);
}

static int claim_name(struct files *fs, const struct new_name *w, struct inode *n, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    struct store_stat st;
    struct inode d;
    enum inodes_change change;
    if (parent_of(fs, w, "create", &d, e))
        return -1;
    bool known = inodes_find(c->inodes, w->dir, w->name, n);
    if (known && (!w->resent || (n->flags & (INODE_DIR | INODE_LOCAL))))
        return err_sys(e, EEXIST, "create %s", w->name);
    struct inode like = new_inode(fs, w, d.mount);
    new_file(fs, w, &like);
    if (create_claim(fs, w, &like, &st, e))
        return -1;
    if (known) /* made by the process before us, or gone since: the store says */
        return inodes_put(
            c->inodes, w->dir, w->name, &st, INODES_NOW, (uint32_t)like.synced_s, n, &change, e);
    if (st.attr_known)
        like.untold &= (uint8_t)~st.attr.has;
    snprintf(like.version, sizeof like.version, "%s", st.version);
    if (inodes_create(c->inodes, w->dir, w->name, &like, n, e))
        return -1;
    inodes_set(c->inodes, n->ino, INODES_VERSION, &like, 0, 0);
    files_dir_changed(fs, w->dir);
    return 0;
}

/* The name of an empty object that is in the store. */
static int create_claimed(
    struct files *fs, const struct new_name *w, struct inode *n, struct err *e)
{
    struct inodes *ix = files_config(fs)->inodes;
    files_will_block(fs);
    inodes_change(ix, w->dir, w->name);
    int rc = claim_name(fs, w, n, e);
    inodes_change_end(ix, w->dir, w->name);
    return rc;
}

/* The name, and its file open for writing. */
static int create_file(struct files *fs, const struct new_name *w, struct inode *n, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    struct inode d;
    if (parent_of(fs, w, "create", &d, e))
        return -1;
    struct inode like = new_inode(fs, w, d.mount);
    like.flags = INODE_LOCAL | INODE_STAGED | INODE_DIRTY;
    new_file(fs, w, &like);
    if (inodes_create(c->inodes, w->dir, w->name, &like, n, e))
        return -1;
    inodes_opened(c->inodes, n->ino, 1);
    struct file *f = files_get(fs, n->ino, e);
    int rc = f ? stage_create(f, e) : -1;
    if (rc) {
        inodes_remove(c->inodes, n->ino);
        if (f) {
            pthread_mutex_lock(&f->state_lock);
            file_discard(f);
            pthread_mutex_unlock(&f->state_lock);
        }
        inodes_opened(c->inodes, n->ino, -1);
    }
    if (f)
        files_put(f);
    if (rc == 0)
        files_dir_changed(fs, w->dir);
    return rc;
}

/* A file that was just made in the store: nothing to look at again. */
static int create_opened(struct files *fs, uint64_t ino, int flags, struct err *e)
{
    int32_t backing;
    struct file *f = files_get(fs, ino, e);
    int rc = f ? file_open(f, open_writes(flags), false, &backing, e) : -1;
    if (f)
        files_put(f);
    return rc;
}

int files_create(
    struct files *fs, const struct new_name *w, int flags, struct inode *n, struct err *e)
{
    struct inodes *ix = files_config(fs)->inodes;
    int32_t backing;
    bool exclusive = flags & O_EXCL;
    int rc = exclusive ? create_claimed(fs, w, n, e) : create_file(fs, w, n, e);
    if (rc == 0 && exclusive) {
        if (w->resent)
            files_open_resent(fs, n->ino);
        rc = create_opened(fs, n->ino, flags, e);
    } else if (rc && err_errno(e) == EEXIST && !exclusive && inodes_find(ix, w->dir, w->name, n)
        && S_ISREG(n->mode)) {
        if (w->resent)
            files_open_resent(fs, n->ino);
        rc = files_open(fs, n->ino, flags, &backing, e);
    }
    if (rc == 0)
        inodes_get(ix, n->ino, n);
    return rc;
}

int files_mknod(struct files *fs, const struct new_name *w, struct inode *n, struct err *e)
{
    if (create_claimed(fs, w, n, e) == 0)
        return 0;
    *n = (struct inode){.ino = w->dir};
    return -1;
}

/* Is the name a link to that target in the store? -1: it cannot be told. */
static int is_link_to(
    struct store *store, const char *path, const char *target, struct store_stat *st, struct err *e)
{
    char now[STORE_LINK_MAX];
    size_t len = strlen(target);
    if (store_stat_path(store, path, st, e) || store_ask(store, path, st, e))
        return -1;
    if (!st->is_link || st->size != len || len > sizeof now)
        return 0;
    return store_read(store, path, st->version, 0, len, now, NULL, e)
        ? -1
        : memcmp(now, target, len) == 0;
}

/* A link has no mark: that the process before us made it shows by its target. */
static int make_link(
    struct files *fs, const struct new_name *w, const char *target, struct inode *n, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    struct inode d;
    struct store *store;
    struct store_stat st;
    unsigned mount;
    char path[INODE_PATH_MAX];
    if (parent_of(fs, w, "symlink", &d, e))
        return -1;
    bool known = inodes_find(c->inodes, w->dir, w->name, n);
    if (known && (!w->resent || !S_ISLNK(n->mode)))
        return err_sys(e, EEXIST, "symlink %s", w->name);
    if (tree_where_child(c->tree, w->dir, w->name, &store, &mount, path, e)
        || store_check_hidden(store, path, e) || dir_move_settle(fs, mount, path, e))
        return -1;
    int same = w->resent ? is_link_to(store, path, target, &st, e) : 0;
    if (same < 0 && e->cls != ERR_NOTFOUND)
        return -1;
    if (same <= 0 && store_symlink(store, path, target, &st, e)) {
        if (e->cls != ERR_CONFLICT)
            return -1;
        if (!known) /* it has a name that the index does not know */
            inodes_unlist(c->inodes, w->dir);
        return err_sys(e, EEXIST, "symlink %s", w->name);
    }
    if (known) /* made by the process before us */
        return 0;
    struct inode like = new_inode(fs, w, mount);
    like.mode = S_IFLNK | 0777;
    like.size = strlen(target);
    like.mtime_ns = st.mtime_ns ? st.mtime_ns : like.mtime_ns;
    memcpy(like.version, st.version, sizeof like.version);
    if (inodes_create(c->inodes, w->dir, w->name, &like, n, e))
        return -1;
    inodes_set(c->inodes, n->ino, INODES_VERSION, &like, 0, 0);
    inodes_get(c->inodes, n->ino, n);
    files_dir_changed(fs, w->dir);
    return 0;
}

int files_symlink(
    struct files *fs, const struct new_name *w, const char *target, struct inode *n, struct err *e)
{
    struct inodes *ix = files_config(fs)->inodes;
    files_will_block(fs);
    inodes_change(ix, w->dir, w->name);
    int rc = make_link(fs, w, target, n, e);
    inodes_change_end(ix, w->dir, w->name);
    return rc;
}

static int make_dir(struct files *fs, const struct new_name *w, struct inode *n, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    struct inode d;
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    if (parent_of(fs, w, "mkdir", &d, e))
        return -1;
    bool known = inodes_find(c->inodes, w->dir, w->name, n);
    if (known && (!w->resent || !(n->flags & INODE_DIR)))
        return err_sys(e, EEXIST, "mkdir %s", w->name);
    if (tree_where_child(c->tree, w->dir, w->name, &store, &mount, path, e))
        return -1;
    if (dir_move_settle(fs, mount, path, e))
        return -1;
    if (store_mkdir(store, path, inodes_unique(c->inodes, w->request), e)) {
        if (e->cls == ERR_EXISTS && !known) /* it has a name that the index does not know */
            inodes_unlist(c->inodes, w->dir);
        return -1;
    }
    if (known) /* made by the process before us */
        return 0;
    struct inode like = new_inode(fs, w, mount);
    like.flags = INODE_DIR | INODE_LISTED;
    mode_of_new(w, S_IFDIR, c->dir_mode, &like);
    if (inodes_create(c->inodes, w->dir, w->name, &like, n, e))
        return -1;
    if (like.untold && (store_caps(store) & STORE_CAP_DIRS))
        attr_tell(fs, n);
    files_dir_changed(fs, w->dir);
    return 0;
}

/* A directory excludes others as O_EXCL does, and the store knows what the process before us made
 * in the same way. */
int files_mkdir(struct files *fs, const struct new_name *w, struct inode *n, struct err *e)
{
    struct inodes *ix = files_config(fs)->inodes;
    files_will_block(fs);
    inodes_change(ix, w->dir, w->name);
    int rc = make_dir(fs, w, n, e);
    inodes_change_end(ix, w->dir, w->name);
    return rc;
}
