/* SPDX-License-Identifier: Apache-2.0 */
/* What requests are answered, op by op. */
#include "tests/unit/fuse/ops/ops_fixture.h"

#include "lib/base/progress.h"

#include <stddef.h>

/* -- the table -------------------------------------------------------------------------------- */

static void test_init(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    struct fuse_init_out out = ANSWER(struct fuse_init_out);
    assert_int_equal(out.major, 7);
    assert_int_equal(out.max_write, 1 << 20);
    assert_int_equal(out.max_background, 256);
    assert_true(out.flags & FUSE_EXPLICIT_INVAL_DATA);
    assert_true(out.flags & FUSE_DO_READDIRPLUS);
    assert_true(out.flags & FUSE_ATOMIC_O_TRUNC);
    /* another version is another inode; close(2) returns the store's error */
    assert_false(out.flags & (FUSE_AUTO_INVAL_DATA | FUSE_WRITEBACK_CACHE));
    assert_false(out.flags & (FUSE_FLOCK_LOCKS | FUSE_POSIX_LOCKS)); /* the kernel's do */
    kernel_free(k);
}

static void test_what_the_kernel_does_itself(void **state)
{
    (void)state;
    assert_null(fs_ops.flock);
    assert_null(fs_ops.getlk);
    assert_null(fs_ops.setlk);
    assert_null(fs_ops.access);
    assert_null(fs_ops.copy_file_range);
    struct kernel *k = kernel_new(false);
    struct fuse_access_in in = {.mask = 4};
    assert_int_equal(ASK(k, FUSE_ACCESS, FUSE_ROOT_ID, in), ENOSYS);
    kernel_free(k);
}

/* What a store does not know is refused in words that programs understand. */
static void test_what_stores_do_not_know(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    uint64_t dir = root_of(k, "main");
    struct fuse_link_in link = {.oldnodeid = dir};
    assert_int_equal(ask(k, FUSE_LINK, dir, &link, sizeof link, "a", NULL, 0), EOPNOTSUPP);
    struct fuse_mknod_in fifo = {.mode = S_IFIFO | 0600};
    assert_int_equal(ask(k, FUSE_MKNOD, dir, &fifo, sizeof fifo, "a", NULL, 0), EOPNOTSUPP);
    assert_int_equal(ASK_NAME(k, FUSE_READLINK, dir, ""), EINVAL);
    assert_int_equal(ASK_NAME(k, FUSE_REMOVEXATTR, dir, "user.x"), ENODATA);
    struct fuse_rename2_in swap = {.newdir = dir, .flags = 2};
    assert_int_equal(ask(k, FUSE_RENAME2, dir, &swap, sizeof swap, "a", "b", 2), EINVAL);
    kernel_free(k);
}

/* -- names and attributes --------------------------------------------------------------------- */

static void test_lookup(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    fx_put(k->x, "main/a", "hello");
    uint64_t dir = root_of(k, "main"), ino = look_up(k, dir, "a");
    struct fuse_entry_out e = ANSWER(struct fuse_entry_out);
    struct inode n = fx_inode(k->x, ino);
    assert_int_equal(e.generation, n.generation);
    assert_int_equal(e.attr.size, 5);
    assert_int_equal(e.attr.blocks, 1);
    assert_int_equal(e.attr.mode, S_IFREG | 0666);
    assert_int_equal(e.attr.nlink, 1);
    assert_true(e.entry_valid <= 5 && e.attr_valid <= 5);
    /* an absent name is an answer: it is believed for a while */
    assert_int_equal(ASK_NAME(k, FUSE_LOOKUP, dir, "none"), 0);
    e = ANSWER(struct fuse_entry_out);
    assert_int_equal(e.nodeid, 0);
    assert_true(e.entry_valid <= 3);
    k->fs.absence = 0;
    assert_int_equal(ASK_NAME(k, FUSE_LOOKUP, dir, "none"), ENOENT);
    /* of a file server, which knows numbers only */
    assert_int_equal(look_up(k, dir, "."), dir);
    assert_int_equal(look_up(k, dir, ".."), FUSE_ROOT_ID);
    assert_int_equal(ASK_NAME(k, FUSE_LOOKUP, 12345, "."), ESTALE);
    struct fuse_getattr_in in = {0};
    assert_int_equal(ASK(k, FUSE_GETATTR, ino, in), 0);
    assert_int_equal(ANSWER(struct fuse_attr_out).attr.ino, ino);
    assert_int_equal(ASK(k, FUSE_GETATTR, 12345, in), ESTALE);
    kernel_free(k);
}

static void test_setattr(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    fx_put(k->x, "main/a", "hello");
    fx_put(k->x, "ro/a", "sealed");
    uint64_t ino = look_up(k, root_of(k, "main"), "a"), ro = look_up(k, root_of(k, "ro"), "a");
    struct fuse_setattr_in in = {
        .valid = FATTR_MODE | FATTR_UID | FATTR_MTIME, .mode = 0600, .uid = 7, .mtime = 99};
    assert_int_equal(ASK(k, FUSE_SETATTR, ro, in), EROFS);
    assert_int_equal(ASK(k, FUSE_SETATTR, ino, in), 0);
    struct fuse_attr at = ANSWER(struct fuse_attr_out).attr;
    assert_int_equal(at.mode & 07777, 0600);
    assert_int_equal(at.uid, 7);
    assert_int_equal(at.gid, 0);
    assert_int_equal(at.mtime, 99);
    assert_int_equal(at.size, 5);
    in = (struct fuse_setattr_in){
        .valid = FATTR_GID, .uid = 3, .gid = 8}; /* one without the other */
    assert_int_equal(ASK(k, FUSE_SETATTR, ino, in), 0);
    at = ANSWER(struct fuse_attr_out).attr;
    assert_int_equal(at.uid, 7);
    assert_int_equal(at.gid, 8);
    in = (struct fuse_setattr_in){.valid = FATTR_SIZE, .size = 2};
    assert_int_equal(ASK(k, FUSE_SETATTR, ino, in), 0);
    assert_int_equal(ANSWER(struct fuse_attr_out).attr.size, 2);
    fx_store_is(k->x, "main/a", "he");
    kernel_free(k);
}

/* -- files ------------------------------------------------------------------------------------ */

static void test_file(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    uint64_t dir = root_of(k, "main");
    struct fuse_create_in make = {.flags = O_RDWR | O_CREAT, .mode = S_IFREG | 0644};
    assert_int_equal(ask(k, FUSE_CREATE, dir, &make, sizeof make, "a", NULL, 0), 0);
    struct fuse_entry_out made = ANSWER(struct fuse_entry_out);
    struct fuse_open_out open;
    memcpy(&open, reply.body + sizeof made, sizeof open);
    assert_int_equal(made.attr.uid, 11);
    assert_int_equal(made.attr.gid, 22);
    assert_int_equal(open.fh, 1);
    struct fuse_write_in w = {.fh = 1, .size = 5};
    assert_int_equal(ask(k, FUSE_WRITE, made.nodeid, &w, sizeof w, NULL, "hello", 5), 0);
    assert_int_equal(ANSWER(struct fuse_write_out).size, 5);
    struct fuse_read_in r = {.fh = 1, .size = 64, .offset = 1};
    assert_int_equal(ASK(k, FUSE_READ, made.nodeid, r), 0);
    assert_int_equal(reply.len, 4);
    assert_memory_equal(reply.body, "ello", 4);
    fx_store_is(k->x, "main/a", NULL);
    fake_store_fail(k->x->fake[0], FAKE_PUT, ERR_DENIED, EACCES, 0, 1);
    struct fuse_flush_in flush = {.fh = 1};
    assert_int_equal(ASK(k, FUSE_FLUSH, made.nodeid, flush), EACCES); /* close(2) tells */
    struct fuse_fsync_in sync = {.fh = 1};
    assert_int_equal(ASK(k, FUSE_FSYNC, made.nodeid, sync), 0);
    fx_store_is(k->x, "main/a", "hello");
    w.offset = 5;
    assert_int_equal(ask(k, FUSE_WRITE, made.nodeid, &w, sizeof w, NULL, ", you", 5), 0);
    sync.fh = 0; /* of a descriptor that is for reading only: it saves what others wrote */
    assert_int_equal(ASK(k, FUSE_FSYNC, made.nodeid, sync), 0);
    fx_store_is(k->x, "main/a", "hello, you");
    struct fuse_release_in release = {.fh = 1};
    assert_int_equal(ASK(k, FUSE_RELEASE, made.nodeid, release), 0);
    assert_int_equal(fx_inode(k->x, made.nodeid).opens, 0);
    /* what failed is told by the xattr */
    struct fuse_getxattr_in x = {.size = 1000};
    assert_int_equal(
        ask(k, FUSE_GETXATTR, made.nodeid, &x, sizeof x, "user.millrace.error", NULL, 0), 0);
    assert_non_null(memmem(reply.body, reply.len, "on purpose", 10));
    uint32_t all = reply.len;
    x.size = all - 1; /* a byte too few */
    assert_int_equal(
        ask(k, FUSE_GETXATTR, made.nodeid, &x, sizeof x, "user.millrace.error", NULL, 0), ERANGE);
    x.size = all;
    assert_int_equal(
        ask(k, FUSE_GETXATTR, made.nodeid, &x, sizeof x, "user.millrace.error", NULL, 0), 0);
    assert_int_equal(ask(k, FUSE_GETXATTR, dir, &x, sizeof x, "user.other", NULL, 0), ENODATA);
    kernel_free(k);
}

static void test_open(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    fx_put(k->x, "main/a", "hello");
    fx_put(k->x, "ro/a", "sealed");
    uint64_t ino = look_up(k, root_of(k, "main"), "a"), ro = look_up(k, root_of(k, "ro"), "a");
    struct fuse_open_in in = {.flags = O_WRONLY};
    assert_int_equal(ASK(k, FUSE_OPEN, ro, in), EROFS);
    assert_int_equal(ASK(k, FUSE_OPEN, ino, in), 0);
    assert_int_equal(ANSWER(struct fuse_open_out).fh, 1);
    assert_false(ANSWER(struct fuse_open_out).open_flags & FOPEN_NOFLUSH);
    in.flags = O_RDONLY;
    assert_int_equal(ASK(k, FUSE_OPEN, ino, in), 0);
    assert_int_equal(ANSWER(struct fuse_open_out).fh, 0);
    assert_true(ANSWER(struct fuse_open_out).open_flags & FOPEN_KEEP_CACHE);
    assert_int_equal(fx_inode(k->x, ino).opens, 2);
    struct fuse_release_in release = {.fh = 1};
    assert_int_equal(ASK(k, FUSE_RELEASE, ino, release), 0);
    release.fh = 0;
    assert_int_equal(ASK(k, FUSE_RELEASE, ino, release), 0);
    assert_int_equal(fx_inode(k->x, ino).opens, 0);
    kernel_free(k);
}

static bool is_known(struct kernel *k, uint64_t ino)
{
    struct inode n;
    return inodes_get(k->fs.inodes, ino, &n) == 0;
}

/* No answer reaches the kernel: it will neither close what was opened nor forget what it was told.
 */
/* Room, holes, and what df(1) says. */
static void test_room(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    fx_put(k->x, "main/a", "hello");
    uint64_t dir = root_of(k, "main"), ro = root_of(k, "ro"), ino = look_up(k, dir, "a");
    struct fuse_open_in open = {.flags = O_RDWR};
    assert_int_equal(ASK(k, FUSE_OPEN, ino, open), 0);
    struct fuse_fallocate_in in = {.fh = 1, .offset = 1, .length = 2, .mode = 3 /* a hole */};
    assert_int_equal(ASK(k, FUSE_FALLOCATE, ino, in), 0);
    struct fuse_read_in r = {.fh = 1, .size = 64};
    assert_int_equal(ASK(k, FUSE_READ, ino, r), 0);
    assert_int_equal(reply.len, 5);
    assert_memory_equal(reply.body, "h\0\0lo", 5);
    in.mode = 8; /* FALLOC_FL_COLLAPSE_RANGE */
    assert_int_equal(ASK(k, FUSE_FALLOCATE, ino, in), EOPNOTSUPP);
    struct fuse_lseek_in seek = {.fh = 1, .offset = 1, .whence = SEEK_HOLE};
    assert_int_equal(ASK(k, FUSE_LSEEK, ino, seek), 0);
    assert_int_equal(ANSWER(struct fuse_lseek_out).offset, 5);
    seek.offset = 6;
    assert_int_equal(ASK(k, FUSE_LSEEK, ino, seek), ENXIO);
    assert_int_equal(ASK_NAME(k, FUSE_STATFS, dir, ""), 0);
    struct fuse_kstatfs st = ANSWER(struct fuse_statfs_out).st;
    assert_true(st.bavail > 0 && st.bavail * st.frsize < UINT64_C(1) << 50);
    assert_int_equal(st.blocks, st.bavail);
    assert_int_equal(ASK_NAME(k, FUSE_STATFS, ro, ""), 0); /* has all, and takes nothing */
    st = ANSWER(struct fuse_statfs_out).st;
    assert_int_equal(st.blocks * st.frsize, UINT64_C(1) << 60);
    assert_int_equal(st.bavail, st.blocks);
    struct fuse_release_in release = {.fh = 1};
    assert_int_equal(ASK(k, FUSE_RELEASE, ino, release), 0);
    kernel_free(k);
}

static int64_t mtime_of(struct kernel *k, uint64_t ino) { return fx_inode(k->x, ino).mtime_ns; }

/* A directory's mtime is that of the latest name that was made, removed or renamed there. */
static void test_mtime_of_directories(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    struct fx *x = k->x;
    struct fx_handle h;
    assert_int_equal(fx_mkdir(x, "main/a", false), 0);
    assert_int_equal(fx_mkdir(x, "main/b", false), 0);
    uint64_t a = fx_ino(x, "main/a"), b = fx_ino(x, "main/b");
    int64_t was = mtime_of(k, a);
    assert_int_equal(fx_create(x, "main/a/file", O_WRONLY, false, &h), 0);
    assert_int_equal(fx_close(x, &h), 0);
    assert_true(mtime_of(k, a) > was);
    was = mtime_of(k, a);
    assert_int_equal(fx_create(x, "main/a/claimed", O_WRONLY | O_EXCL, false, &h), 0);
    assert_int_equal(fx_close(x, &h), 0);
    assert_true(mtime_of(k, a) > was);
    was = mtime_of(k, a);
    assert_int_equal(fx_mkdir(x, "main/a/dir", false), 0);
    assert_true(mtime_of(k, a) > was);
    was = mtime_of(k, a);
    assert_int_equal(fx_rmdir(x, "main/a/dir", false), 0);
    assert_true(mtime_of(k, a) > was);
    was = mtime_of(k, a);
    assert_int_equal(fx_unlink(x, "main/a/claimed", false), 0);
    assert_true(mtime_of(k, a) > was);
    was = mtime_of(k, a);
    int64_t other = mtime_of(k, b);
    assert_int_equal(fx_rename(x, "main/a/file", "main/b/file", 0, false), 0);
    assert_true(mtime_of(k, a) > was && mtime_of(k, b) > other);
    was = mtime_of(k, a);
    assert_int_equal(fx_unlink(x, "main/a/none", false), ENOENT);
    assert_true(mtime_of(k, a) == was);
    kernel_free(k);
}

static void test_interrupted(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    fx_put(k->x, "main/a", "hello");
    uint64_t dir = root_of(k, "main"), a = look_up(k, dir, "a");
    struct fuse_open_in in = {.flags = O_RDONLY};
    struct fuse_create_in make = {.flags = O_RDWR | O_CREAT, .mode = S_IFREG | 0644};
    reply.interrupted = true;
    assert_int_equal(ASK(k, FUSE_OPEN, a, in), 0);
    assert_int_equal(fx_inode(k->x, a).opens, 0);
    assert_int_equal(ASK_NAME(k, FUSE_LOOKUP, dir, "a"), 0);
    assert_int_equal(ask(k, FUSE_CREATE, dir, &make, sizeof make, "b", NULL, 0), 0);
    uint64_t b = ANSWER(struct fuse_entry_out).nodeid;
    reply.interrupted = false;
    assert_int_equal(fx_inode(k->x, b).opens, 0);
    assert_int_equal(ASK_NAME(k, FUSE_UNLINK, dir, "a"), 0);
    assert_int_equal(ASK_NAME(k, FUSE_UNLINK, dir, "b"), 0);
    assert_false(is_known(k, b));
    assert_true(is_known(k, a)); /* looked up once */
    inodes_forget(k->fs.inodes, a, 1);
    assert_false(is_known(k, a));
    kernel_free(k);
}

/* The kernel opens by itself, and asks once only. */
static void test_sealed(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(true);
    fx_put(k->x, "ro/a", "sealed");
    uint64_t dir = root_of(k, "ro"), ino = look_up(k, dir, "a");
    struct fuse_open_in in = {.flags = O_RDONLY};
    assert_int_equal(ASK(k, FUSE_OPEN, ino, in), ENOSYS);
    assert_int_equal(ASK(k, FUSE_OPENDIR, dir, in), ENOSYS);
    struct fuse_flush_in flush = {0};
    assert_int_equal(ASK(k, FUSE_FLUSH, ino, flush), ENOSYS);
    struct fuse_read_in r = {.size = 64};
    assert_int_equal(ASK(k, FUSE_READ, ino, r), 0);
    assert_memory_equal(reply.body, "sealed", 6);
    in.flags = O_WRONLY;
    assert_int_equal(ASK(k, FUSE_OPEN, ino, in), EROFS);
    kernel_free(k);
}

/* -- names that change ------------------------------------------------------------------------ */

static void test_names(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    uint64_t dir = root_of(k, "main");
    struct fuse_mkdir_in mk = {.mode = 0755};
    assert_int_equal(ask(k, FUSE_MKDIR, dir, &mk, sizeof mk, "d", NULL, 0), 0);
    uint64_t d = ANSWER(struct fuse_entry_out).nodeid;
    assert_int_equal(ask(k, FUSE_MKDIR, dir, &mk, sizeof mk, "d", NULL, 0), EEXIST);
    struct fuse_mknod_in nod = {.mode = S_IFREG | 0600};
    assert_int_equal(ask(k, FUSE_MKNOD, d, &nod, sizeof nod, "a", NULL, 0), 0);
    fx_store_is(k->x, "main/d/a", "");
    assert_int_equal(ASK_NAME(k, FUSE_RMDIR, dir, "d"), ENOTEMPTY);
    assert_int_equal(ASK_NAME(k, FUSE_UNLINK, dir, "d"), EISDIR);
    struct fuse_rename2_in re = {.newdir = dir};
    assert_int_equal(ask(k, FUSE_RENAME2, d, &re, sizeof re, "a", "b", 2), 0);
    fx_store_is(k->x, "main/b", "");
    fx_store_is(k->x, "main/d/a", NULL);
    assert_int_equal(ASK_NAME(k, FUSE_RMDIR, dir, "d"), 0);
    assert_int_equal(ASK_NAME(k, FUSE_UNLINK, dir, "b"), 0);
    assert_int_equal(ASK_NAME(k, FUSE_UNLINK, dir, "b"), ENOENT);
    fake_store_fail(k->x->fake[0], FAKE_MKDIR, ERR_RETRY, 0, 0, 1);
    assert_int_equal(ask(k, FUSE_MKDIR, dir, &mk, sizeof mk, "e", NULL, 0), EIO);
    kernel_free(k);
}

/* The kernel forgets each entry that it was given, and no name that came without one. */
static void test_readdirplus(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    fx_put(k->x, "main/d/a", "1");
    fx_put(k->x, "main/d/b", "2");
    uint64_t d = look_up(k, root_of(k, "main"), "d"), found[2];
    struct fuse_read_in r = {.size = 4096};
    unsigned n = 0, entries = 0;
    for (int round = 0; round < 2; round++) { /* the first time without attributes of files */
        r.offset = 0;
        assert_int_equal(ASK(k, FUSE_READDIRPLUS, d, r), 0);
        n = 0;
        for (size_t at = 0; at < reply.len;) {
            struct fuse_direntplus p;
            memcpy(&p, reply.body + at, offsetof(struct fuse_direntplus, dirent.name));
            if (reply.body[at + offsetof(struct fuse_direntplus, dirent.name)] != '.') {
                assert_true(n < 2);
                found[n++] = p.dirent.ino;
            }
            if (p.entry_out.nodeid)
                inodes_forget(k->fs.inodes, p.entry_out.nodeid, 1);
            entries += p.entry_out.nodeid != 0;
            at += FUSE_DIRENTPLUS_SIZE(&p);
        }
        assert_int_equal(n, 2);
    }
    assert_true(entries < 4);
    assert_int_equal(ASK_NAME(k, FUSE_UNLINK, d, "a"), 0);
    assert_int_equal(ASK_NAME(k, FUSE_UNLINK, d, "b"), 0);
    assert_false(is_known(k, found[0]));
    assert_false(is_known(k, found[1]));
    kernel_free(k);
}

/* -- ioctls ----------------------------------------------------------------------------------- */

static void test_ioctl(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    fx_put(k->x, "main/a", "hello");
    uint64_t dir = root_of(k, "main"), ino = look_up(k, dir, "a");
    struct pin_msg m = {.op = PIN_SET, .len = 5};
    struct fuse_ioctl_in in = {.cmd = PIN_IOCTL, .in_size = sizeof m, .out_size = sizeof m};
    assert_int_equal(ask(k, FUSE_IOCTL, ino, &in, sizeof in, NULL, &m, sizeof m), 0);
    memcpy(&m, reply.body + sizeof(struct fuse_ioctl_out), sizeof m);
    assert_int_equal(m.cached, 5);
    assert_int_equal(m.size, 5);
    assert_int_equal(m.state, PIN_PINNED);
    assert_int_equal(fx_pinned(k->x), 1);
    m = (struct pin_msg){.op = PIN_CLEAR, .name = "a"};
    in.flags = FUSE_IOCTL_DIR;
    assert_int_equal(ask(k, FUSE_IOCTL, dir, &in, sizeof in, NULL, &m, sizeof m), 0);
    assert_int_equal(fx_pinned(k->x), 0);
    for (int pinned = 1; pinned >= 0; pinned--) {
        m = (struct pin_msg){.op = PIN_SET, .len = 5, .name = "a"};
        if (pinned)
            assert_int_equal(ask(k, FUSE_IOCTL, dir, &in, sizeof in, NULL, &m, sizeof m), 0);
        m = (struct pin_msg){.op = PIN_CLEAR_ALL};
        assert_int_equal(ask(k, FUSE_IOCTL, dir, &in, sizeof in, NULL, &m, sizeof m), 0);
        memcpy(&m, reply.body + sizeof(struct fuse_ioctl_out), sizeof m);
        assert_int_equal(m.size, pinned);
        assert_int_equal(fx_pinned(k->x), 0);
    }
    in.cmd = 0x1234;
    assert_int_equal(ask(k, FUSE_IOCTL, dir, &in, sizeof in, NULL, &m, sizeof m), ENOTTY);
    in.cmd = PIN_IOCTL;
    in.in_size = 8;
    assert_int_equal(ask(k, FUSE_IOCTL, dir, &in, sizeof in, NULL, &m, 8), ENOTTY);
    kernel_free(k);
}

/* Of a name in a directory: it gets on while anybody fetches the file. */
static void test_ioctl_gets_on(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    fx_put(k->x, "main/a", "hello");
    uint64_t dir = root_of(k, "main"), ino = look_up(k, dir, "a");
    struct pin_msg m = {.op = PIN_LOAD, .len = 5, .name = "a"};
    struct fuse_ioctl_in in = {
        .cmd = PIN_IOCTL, .flags = FUSE_IOCTL_DIR, .in_size = sizeof m, .out_size = sizeof m};
    struct progress_things request = {0};
    progress_here(&request);
    progress_of(dir, dir); /* as it is when the request comes */
    assert_int_equal(ask(k, FUSE_IOCTL, dir, &in, sizeof in, NULL, &m, sizeof m), 0);
    uint64_t count = progress_count(&request);
    progress_here(NULL);
    progress_of(ino, ino);
    progress_mark();
    assert_int_equal(progress_count(&request), count + 1);
    kernel_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_what_the_kernel_does_itself),
        cmocka_unit_test(test_what_stores_do_not_know),
        cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_setattr),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_mtime_of_directories),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_readdirplus),
        cmocka_unit_test(test_ioctl),
        cmocka_unit_test(test_ioctl_gets_on),
    };
    return cmocka_run_group_tests_name("ops", tests, NULL, NULL);
}
