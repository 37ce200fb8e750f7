/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about names that are looked up, attributes and the file system. */
#include "fuse/ops/ops.h"

#include "fuse/file/link.h"
#include "fuse/file/setattr.h"
#include "fuse/file/stage_room.h"
#include "fuse/session/loop.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define ROOM_MOST (UINT64_C(1) << 60)

/* A sealed mount's kernel lists a directory from what it has read: from time to time it must come
 * and ask us. It is told once for each listing that has become old: what it then knows of the
 * directory is void, and telling it with each answer would keep it so. */
static void invalidate_old_listing(struct fs *fs, const struct inode *n)
{
    static _Atomic uint64_t told[64];
    uint64_t listing = n->ino << 32 | n->listed_s;
    if (fs->sealed && tree_is_old(fs->tree, n)
        && atomic_exchange(&told[n->ino % 64], listing) != listing) {
        loop_will_block();
        session_invalidate_dir(fs->session, n->ino);
    }
}

/* "." and "..": a file server asks for an inode that it has only the id of. */
static void lookup_dots(fuse_req_t req, uint64_t dir, bool up)
{
    struct inodes *ix = ops_fs(req)->inodes;
    struct inode d, n;
    if (inodes_get(ix, dir, &d) || inodes_get(ix, up ? d.parent : dir, &n))
        fuse_reply_err(req, ESTALE);
    else
        ops_entry(req, &n);
}

/* That a name is absent is an answer, which the kernel may believe for a while. */
static void lookup_failed(fuse_req_t req, uint64_t dir, const struct err *e)
{
    struct fs *fs = ops_fs(req);
    struct fuse_entry_param p = {0};
    if (err_errno(e) != ENOENT || fs->absence <= 0) {
        ops_fail(req, dir, "lookup", e);
        return;
    }
    p.entry_timeout = tree_absence_valid_for(fs->tree, dir, fs->absence);
    fuse_reply_entry(req, &p);
}

void op_lookup(fuse_req_t req, fuse_ino_t dir, const char *name)
{
    struct fs *fs = ops_fs(req);
    struct inode n;
    struct err e = ERR_INIT;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        lookup_dots(req, dir, name[1]);
    } else if (tree_lookup(fs->tree, dir, name, &n, &e)) {
        lookup_failed(req, dir, &e);
    } else {
        invalidate_old_listing(fs, &n);
        if (!(n.flags & INODE_DIR))
            readdirplus_auto_looked_up(&fs->readdirplus_auto, dir);
        ops_entry(req, &n);
    }
}

void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
    inodes_forget(ops_fs(req)->inodes, ino, n);
    fuse_reply_none(req);
}

void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        inodes_forget(ops_fs(req)->inodes, forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(req);
}

void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)fi;
    struct fs *fs = ops_fs(req);
    struct inode n;
    struct stat st;
    struct err e = ERR_INIT;
    /* An open file keeps its attributes, whatever became of its name. */
    if (tree_refresh(fs->tree, ino, &n, &e) && inodes_get(fs->inodes, ino, &n)) {
        ops_fail(req, ino, "getattr", &e);
        return;
    }
    invalidate_old_listing(fs, &n);
    ops_attr(fs, &n, &st);
    fuse_reply_attr(
        req, &st, n.flags & INODE_UNLINKED ? 0 : tree_valid_for(fs->tree, &n, fs->timeout));
}

/* Which attributes a request sets, and to what. */
static unsigned wanted_attr(const struct stat *attr, int to_set, struct inode *to)
{
    *to = (struct inode){.size = (uint64_t)attr->st_size,
        .mode = attr->st_mode,
        .uid = to_set & FUSE_SET_ATTR_UID ? attr->st_uid : SETATTR_KEEP,
        .gid = to_set & FUSE_SET_ATTR_GID ? attr->st_gid : SETATTR_KEEP,
        .mtime_ns = to_set & FUSE_SET_ATTR_MTIME_NOW ? clock_real_ns()
                                                     : clock_of_timespec(attr->st_mtim)};
    return (to_set & FUSE_SET_ATTR_SIZE ? INODES_SIZE : 0)
        | (to_set & FUSE_SET_ATTR_MODE ? INODES_MODE : 0)
        | (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID) ? INODES_OWNER : 0)
        | (to_set & FUSE_SET_ATTR_MTIME ? INODES_MTIME : 0);
}

void op_setattr(
    fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
    struct fs *fs = ops_fs(req);
    struct inode n, to;
    struct stat st;
    struct err e = ERR_INIT;
    unsigned fields = wanted_attr(attr, to_set, &to);
    if (files_setattr(fs->files, ino, fields, &to, fi != NULL, &n, &e)) {
        ops_fail(req, ino, "setattr", &e);
        return;
    }
    ops_attr(fs, &n, &st);
    fuse_reply_attr(req, &st, tree_valid_for(fs->tree, &n, fs->timeout));
}

void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
    char target[STORE_LINK_MAX + 1];
    struct err e = ERR_INIT;
    loop_will_block();
    if (files_readlink(ops_fs(req)->files, ino, target, &e))
        ops_fail(req, ino, "readlink", &e);
    else
        fuse_reply_readlink(req, target);
}

void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct fs *fs = ops_fs(req);
    struct statvfs st = {.f_bsize = 4096, .f_frsize = 4096, .f_namemax = INODE_NAME_MAX};
    struct inodes_stats s;
    struct inode n;
    inodes_stats(fs->inodes, &s);
    /* A store has no end that we could tell: an exbibyte. What can be written now is what the
     * node's disk takes. All of either is free, so that no monitoring takes a mount for full, and
     * df(1) leaves out what has no blocks. */
    uint64_t room = ROOM_MOST;
    if (inodes_get(fs->inodes, ino, &n) == 0 && tree_writable(fs->tree, n.mount))
        room = MIN(room, stage_room_left(fs->files));
    st.f_bfree = st.f_bavail = room / st.f_frsize;
    st.f_blocks = MAX(st.f_bfree, 1);
    st.f_files = UINT32_MAX;
    st.f_ffree = st.f_favail = UINT32_MAX - s.inodes;
    fuse_reply_statfs(req, &st);
}
