/* SPDX-License-Identifier: Apache-2.0 */
/* Reading directories. A position is the cookie of the last entry given: it needs no state here, so
 * it outlives the process. */
#include "fuse/ops/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COOKIE_DOT    1
#define COOKIE_DOTDOT 2 /* children's cookies are far larger */

struct dir_reply {
    fuse_req_t req;
    struct fs *fs;
    bool plus;  /* there is room for attributes */
    bool files; /* … and those of files are wanted */
    char *buf;
    size_t size, used;
    uint64_t cookie; /* of the last entry in buf */
    bool full;
};

/* 0: of what type it is has to be asked for (DT_UNKNOWN). */
static mode_t told_mode(const struct inode *n) { return n->flags & INODE_UNASKED ? 0 : n->mode; }

static int dir_add(
    struct dir_reply *r, const char *name, const struct inode *n, uint64_t cookie, bool entry)
{
    size_t need;
    if (r->plus) {
        struct fuse_entry_param p;
        ops_fill_entry(r->fs, n, &p);
        p.attr.st_mode = told_mode(n);
        if (!entry)
            p.ino = 0; /* a name and its type, not counted as known */
        need = fuse_add_direntry_plus(
            r->req, r->buf + r->used, r->size - r->used, name, &p, (off_t)cookie);
    } else {
        struct stat st;
        ops_attr(r->fs, n, &st);
        st.st_mode = told_mode(n);
        need = fuse_add_direntry(
            r->req, r->buf + r->used, r->size - r->used, name, &st, (off_t)cookie);
    }
    if (need > r->size - r->used) {
        r->full = true;
        return 1;
    }
    r->used += need;
    r->cookie = cookie;
    return 0;
}

static int dir_add_child(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    struct dir_reply *r = user;
    /* programs that go through a tree open each directory */
    bool entry = r->plus && (r->files || (child->flags & INODE_DIR))
        && !(child->flags & INODE_UNASKED);
    int rc = dir_add(r, name, child, cookie, entry);
    return rc ? rc : entry ? 0 : -1;
}

static void dir_add_dots(struct dir_reply *r, const struct inode *dir)
{
    struct inode up;
    if (r->cookie < COOKIE_DOT)
        dir_add(r, ".", dir, COOKIE_DOT, false);
    if (r->cookie < COOKIE_DOTDOT && !r->full)
        dir_add(
            r, "..", inodes_get(r->fs->inodes, dir->parent, &up) ? dir : &up, COOKIE_DOTDOT, false);
}

static int dir_fill(struct dir_reply *r, uint64_t dir, struct err *e)
{
    struct inode d;
    if (inodes_get(r->fs->inodes, dir, &d))
        return err_sys(e, ESTALE, "directory %llu", (unsigned long long)dir);
    if (d.flags & INODE_UNLINKED)
        return 0;                            /* removed while it is open: empty */
    bool begins = r->cookie < COOKIE_DOTDOT; /* else it was listed for this reader */
    dir_add_dots(r, &d);
    while (!r->full) {
        uint64_t from = r->cookie <= COOKIE_DOTDOT ? 0 : r->cookie, before = r->cookie;
        if (tree_fill(r->fs->tree, dir, begins ? from : r->cookie, e))
            /* what there is first; the error comes with the next request */
            return r->used ? 0 : -1;
        inodes_children(r->fs->inodes, dir, from, r->plus, dir_add_child, r);
        if (r->cookie == before || r->used)
            break;
    }
    return 0;
}

static void dir_reply(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
    struct fs *fs = ops_fs(req);
    struct err e = ERR_INIT;
    struct dir_reply r = {
        .req = req, .fs = fs, .plus = plus, .size = size, .cookie = (uint64_t)off};
    /* in the middle of a directory the kernel asks for attributes where its files are looked at */
    if (plus)
        r.files = off || readdirplus_auto_listed(&fs->readdirplus_auto, ino);
    r.buf = malloc(size);
    if (!r.buf)
        err_sys(&e, ENOMEM, "read a directory");
    if (!r.buf || dir_fill(&r, ino, &e))
        ops_fail(req, ino, "readdir", &e);
    else
        fuse_reply_buf(req, r.buf, r.used);
    free(r.buf);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    (void)fi;
    dir_reply(req, ino, size, off, false);
}

void op_readdirplus(
    fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    (void)fi;
    dir_reply(req, ino, size, off, true);
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    struct fs *fs = ops_fs(req);
    if (fs->sealed) {
        fuse_reply_err(req, ENOSYS);
        return;
    }
    fuse_reply_open(req, fi);
}

void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    (void)datasync;
    (void)fi;
    struct err e = ERR_INIT;
    ops_done(req, ino, "fsync", tree_sync_dir(ops_fs(req)->tree, ino, &e), &e);
}
