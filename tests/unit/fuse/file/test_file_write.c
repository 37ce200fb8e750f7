/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are made and written: what is staged, when it is uploaded, what a failing store leaves
 * behind, and what the next process finds. */
#include "tests/unit/fuse/file/file_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

static void test_create(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/new", O_WRONLY, false, &h), 0);
    struct inode n = fx_inode(x, h.ino);
    assert_int_equal(n.flags & (INODE_LOCAL | INODE_STAGED | INODE_DIRTY),
        INODE_LOCAL | INODE_STAGED | INODE_DIRTY);
    assert_int_equal(n.mode, S_IFREG | 0777); /* who may execute it is the caller's to say */
    assert_int_equal(n.uid, 11);
    assert_int_equal(n.gid, 22);
    assert_int_equal(n.opens, 1);
    assert_true(n.mtime_ns > 0 && n.synced_s > 0);
    cleanup_free char *sidecar = fx_sidecar(x, h.ino);
    assert_string_equal(sidecar, "0\n\nnew\n");
    assert_int_equal(fx_staged(x), 2);
    fx_is(x, h.ino, "");
    assert_int_equal(fx_write(x, h.ino, 0, "hello"), 0);
    assert_int_equal(fx_write(x, h.ino, 3, "p!?"), 0);
    fx_is(x, h.ino, "help!?");
    assert_int_equal(fx_inode(x, h.ino).size, 6);
    fx_store_is(x, "main/new", NULL);
    assert_true(fx_is_dirty(x, h.ino));
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/new", "help!?");
    assert_false(fx_is_dirty(x, h.ino));
    n = fx_inode(x, h.ino);
    assert_int_equal(n.flags & (INODE_LOCAL | INODE_STAGED | INODE_DIRTY), 0);
    assert_int_equal(n.opens, 0);
    assert_string_equal(n.version, "v1");
    assert_int_equal(fx_staged(x), 0);
    fx_path_is(x, "main/new", "help!?");
    fx_free(x);
}

static void test_create_where_something_is(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_put(x, "main/a", "hello");
    fake_store_mkdir(x->fake[0], "d");
    fx_expire(x, "main/d");
    fx_ino(x, "main/a");
    fx_ino(x, "main/d");
    assert_int_equal(fx_create(x, "main/a", O_WRONLY | O_EXCL, false, &h), EEXIST);
    assert_int_equal(fx_create(x, "main/d", O_WRONLY, true, &h), EEXIST);
    assert_int_equal(fx_create(x, "ro/new", O_WRONLY, false, &h), EROFS);
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    assert_int_equal(fx_inode(x, h.ino).opens, 1);
    fx_is(x, h.ino, "hello");
    assert_int_equal(fx_close(x, &h), 0);
    assert_int_equal(fx_create(x, "main/a", O_WRONLY | O_TRUNC, false, &h), 0);
    fx_is(x, h.ino, "");
    assert_int_equal(fx_inode(x, h.ino).size, 0);
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", "");
    /* sent again: the process before us has made it */
    assert_int_equal(fx_create(x, "main/b", O_WRONLY | O_EXCL, false, &h), 0);
    assert_int_equal(fx_create(x, "main/b", O_WRONLY | O_EXCL, true, &h), 0);
    assert_int_equal(fx_inode(x, h.ino).opens, 2);
    fx_close(x, &h);
    fx_close(x, &h);
    fx_free(x);
}

static void test_create_without_staging(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_ino(x, "main");
    assert_int_equal(rmdir(x->stage_dir), 0);
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), ENOENT);
    assert_int_equal(fx_lookup(x, "main/a", NULL), ENOENT); /* nothing is left of it */
    assert_int_equal(mkdir(x->stage_dir, 0700), 0);
    fx_make(x, "main/a", "text");
    fx_store_is(x, "main/a", "text");
    fx_free(x);
}

static void test_mknod(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct err e = ERR_INIT;
    struct inode n;
    struct new_name w = {.name = "a", .mode = 0600};
    w.dir = fx_ino(x, "main");
    assert_int_equal(files_mknod(x->files, &w, &n, &e), 0);
    assert_int_equal(n.ino, fx_ino(x, "main/a"));
    fx_store_is(x, "main/a", "");
    assert_int_equal(fx_inode(x, n.ino).opens, 0);
    assert_int_equal(fx_staged(x), 0);
    assert_int_equal(files_mknod(x->files, &w, &n, &e), -1);
    assert_int_equal(err_errno(&e), EEXIST);
    assert_int_equal(n.ino, w.dir);
    w.resent = true;
    assert_int_equal(files_mknod(x->files, &w, &n, &e), 0);
    assert_int_equal(n.ino, fx_ino(x, "main/a"));
    w = (struct new_name){.dir = w.dir, .name = "b"};
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_DENIED, EACCES, 0, 1);
    assert_int_equal(files_mknod(x->files, &w, &n, &e), -1);
    assert_int_equal(err_errno(&e), EACCES);
    assert_int_equal(fx_lookup(x, "main/b", NULL), ENOENT);
    assert_int_equal(fx_staged(x), 0);
    fx_free(x);
}

/* What is made exclusively is made in the store, where others make it, too. */
static void test_create_excludes_other_nodes(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h, again;
    struct inode n;
    struct err e = ERR_INIT;
    assert_int_equal(fx_lookup(x, "main/lock", NULL), ENOENT); /* so the index takes it for free */
    fake_store_write(x->fake[0], "lock", "B");
    assert_int_equal(fx_create(x, "main/lock", O_WRONLY | O_EXCL, false, &h), EEXIST);
    fx_store_is(x, "main/lock", "B");
    struct new_name w = {.dir = fx_ino(x, "main"), .name = "node", .mode = 0600};
    fake_store_write(x->fake[0], "node", "B");
    assert_int_equal(files_mknod(x->files, &w, &n, &e), -1);
    assert_int_equal(err_errno(&e), EEXIST);
    fake_store_mkdir(x->fake[0], "dir");
    assert_int_equal(fx_mkdir(x, "main/dir", false), EEXIST);
    assert_int_equal(fx_create(x, "main/mine", O_RDWR | O_EXCL, false, &h), 0);
    fx_store_is(x, "main/mine", ""); /* at once */
    assert_int_equal(fx_inode(x, h.ino).opens, 1);
    assert_int_equal(fx_write(x, h.ino, 0, "A"), 0);
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/mine", "A");
    assert_int_equal(fx_inode(x, h.ino).opens, 0);
    /* the process before us had come as far as the store, its answer was lost */
    fx_ino(x, "main");
    assert_int_equal(fx_create(x, "main/sent", O_WRONLY | O_EXCL, false, &h), 0);
    assert_int_equal(fx_close(x, &h), 0);
    inodes_remove(x->inodes, fx_ino(x, "main/sent"));
    assert_int_equal(fx_create(x, "main/sent", O_WRONLY | O_EXCL, true, &h), 0);
    assert_int_equal(fx_close(x, &h), 0);
    /* and had told the index */
    assert_int_equal(fx_create(x, "main/sent", O_WRONLY | O_EXCL, true, &h), 0);
    assert_int_equal(fx_close(x, &h), 0);
    assert_int_equal(fx_create(x, "main/sent", O_WRONLY | O_EXCL, false, &again), EEXIST);
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_create(x, "main/none", O_WRONLY | O_EXCL, false, &h), EIO);
    assert_int_equal(fx_lookup(x, "main/none", NULL), ENOENT);
    fx_free(x);
}

/* Sent again, and another node was quicker: its empty file is not ours, whether it is known here or
 * not. */
static void test_resent_create_is_not_anothers(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct inode n;
    struct err e = ERR_INIT;
    struct new_name w = {.dir = fx_ino(x, "main"), .name = "node", .request = 1, .resent = true};
    assert_int_equal(fx_lookup(x, "main/lock", NULL), ENOENT);
    fake_store_write(x->fake[0], "lock", "");
    assert_int_equal(fx_create(x, "main/lock", O_WRONLY | O_EXCL, true, &h), EEXIST);
    fx_expire(x, "main/lock");
    fx_ino(x, "main/lock");
    assert_int_equal(fx_create(x, "main/lock", O_WRONLY | O_EXCL, true, &h), EEXIST);
    fake_store_write(x->fake[0], "node", "");
    assert_int_equal(files_mknod(x->files, &w, &n, &e), -1);
    assert_int_equal(err_errno(&e), EEXIST);
    fx_expire(x, "main/node");
    fx_ino(x, "main/node");
    assert_int_equal(files_mknod(x->files, &w, &n, &e), -1);
    /* what this node has made without O_EXCL, and has not saved, neither */
    struct fx_handle open;
    assert_int_equal(fx_create(x, "main/local", O_WRONLY, false, &open), 0);
    assert_int_equal(fx_create(x, "main/local", O_WRONLY | O_EXCL, true, &h), EEXIST);
    fx_store_is(x, "main/local", NULL);
    assert_int_equal(fx_close(x, &open), 0);
    /* ours, but another node has written to it since */
    assert_int_equal(fx_create(x, "main/ours", O_WRONLY | O_EXCL, false, &h), 0);
    assert_int_equal(fx_close(x, &h), 0);
    fx_put(x, "main/ours", "B");
    assert_int_equal(fx_create(x, "main/ours", O_WRONLY | O_EXCL, true, &h), EEXIST);
    fx_store_is(x, "main/ours", "B");
    fx_free(x);
}

static void test_mkdir(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct inode n;
    assert_int_equal(fx_mkdir(x, "main/d", false), 0);
    assert_true(fake_store_has(x->fake[0], "d"));
    assert_int_equal(fx_lookup(x, "main/d", &n), 0);
    assert_int_equal(n.mode, S_IFDIR | 0777);
    assert_int_equal(n.uid, 11);
    assert_int_equal(fx_mkdir(x, "main/d", false), EEXIST);
    assert_int_equal(fx_mkdir(x, "ro/d", false), EROFS);
    fake_store_fail(x->fake[0], FAKE_MKDIR, ERR_DENIED, EACCES, 0, 1);
    assert_int_equal(fx_mkdir(x, "main/no", false), EACCES);
    assert_int_equal(fx_lookup(x, "main/no", NULL), ENOENT);
    /* the store has it, which we do not know */
    fx_ino(x, "main");
    fake_store_mkdir(x->fake[0], "e");
    assert_int_equal(fx_mkdir(x, "main/e", false), EEXIST);
    fx_make(x, "main/d/a", "text");
    fx_store_is(x, "main/d/a", "text");
    fx_free(x);
}

/* Sent again: what the process before us made is ours, whether it came as far as the index or not;
 * another node's directory is not, nor a file. */
static void test_resent_mkdir_is_not_anothers(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    assert_int_equal(fx_mkdir(x, "main/mine", false), 0);
    uint64_t ino = fx_ino(x, "main/mine");
    assert_int_equal(fx_mkdir(x, "main/mine", true), 0);
    assert_int_equal(fx_ino(x, "main/mine"), ino);
    inodes_remove(x->inodes, ino);
    assert_int_equal(fx_mkdir(x, "main/mine", true), 0);
    assert_int_equal(fx_lookup(x, "main/mine", NULL), 0);
    assert_int_equal(fx_lookup(x, "main/lock", NULL), ENOENT);
    fake_store_mkdir(x->fake[0], "lock");
    assert_int_equal(fx_mkdir(x, "main/lock", true), EEXIST);
    fx_expire(x, "main/lock");
    fx_ino(x, "main/lock"); /* known by now */
    assert_int_equal(fx_mkdir(x, "main/lock", true), EEXIST);
    fx_make(x, "main/file", "text");
    assert_int_equal(fx_mkdir(x, "main/file", true), EEXIST);
    /* ours was removed, and another node was quicker to make it again */
    fake_store_delete(x->fake[0], "mine");
    fake_store_mkdir(x->fake[0], "mine");
    assert_int_equal(fx_mkdir(x, "main/mine", true), EEXIST);
    fx_free(x);
}

static void test_write_to_what_the_store_has(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h, r;
    fx_put(x, "main/a", "hello");
    assert_int_equal(fx_open(x, "main/a", O_RDWR, &h), 0);
    assert_int_equal(x->blocked, 1);
    assert_int_equal(fx_staged(x), 0); /* not before it is written to */
    assert_int_equal(fx_write(x, h.ino, 5, " world"), 0);
    cleanup_free char *sidecar = fx_sidecar(x, h.ino);
    assert_string_equal(sidecar, "0\nv1\na\n");
    fx_is(x, h.ino, "hello world");
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &r), 0);
    assert_int_equal(r.ino, h.ino); /* a change made here keeps the inode */
    fx_is(x, r.ino, "hello world");
    fx_store_is(x, "main/a", "hello");
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", "hello world");
    assert_int_equal(fx_staged(x), 1); /* open still, without a note */
    fx_is(x, r.ino, "hello world");
    assert_int_equal(fx_close(x, &r), 0);
    assert_int_equal(fx_staged(x), 0);
    fx_path_is(x, "main/a", "hello world");
    fx_free(x);
}

static void test_truncate(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    fx_put(x, "main/a", "hello");
    /* what goes is not fetched before */
    assert_int_equal(fx_open(x, "main/a", O_WRONLY | O_TRUNC, &h), 0);
    assert_int_equal(fx_inode(x, h.ino).size, 0);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_READ), 0);
    fx_write(x, h.ino, 0, "wide world");
    assert_int_equal(fx_truncate(x, h.ino, 4, true), 0);
    fx_is(x, h.ino, "wide");
    assert_int_equal(fx_inode(x, h.ino).size, 4);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 0); /* the close will do that */
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", "wide");
    /* by its path: in the store when the call returns */
    uint64_t ino = fx_ino(x, "main/a");
    assert_int_equal(fx_truncate(x, ino, 2, false), 0);
    fx_store_is(x, "main/a", "wi");
    assert_int_equal(fx_inode(x, ino).opens, 0);
    assert_int_equal(fx_staged(x), 0);
    assert_int_equal(fx_truncate(x, ino, 3, false), 0);
    fx_is(x, ino, "wi"); /* and a zero */
    assert_int_equal(fx_inode(x, ino).size, 3);
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_truncate(x, ino, 1, false), EIO);
    assert_true(fx_is_dirty(x, ino));
    fx_put(x, "ro/a", "hello");
    assert_int_equal(fx_truncate(x, fx_ino(x, "ro/a"), 0, false), EROFS);
    assert_int_equal(fx_truncate(x, 12345, 0, false), ESTALE);
    fx_free(x);
}

static void test_setattr(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct err e = ERR_INIT;
    fx_put(x, "main/a", "hello");
    struct inode n, to = {.mode = S_IFREG | 0600, .uid = 7, .gid = SETATTR_KEEP, .mtime_ns = 99};
    uint64_t ino = fx_ino(x, "main/a");
    assert_int_equal(files_setattr(x->files, ino, INODES_MODE, &to, false, &n, &e), 0);
    assert_int_equal(n.mode, S_IFREG | 0600);
    assert_int_equal(n.uid, 0);
    assert_int_equal(
        files_setattr(x->files, ino, INODES_OWNER | INODES_MTIME, &to, false, &n, &e), 0);
    assert_int_equal(n.uid, 7);
    assert_int_equal(n.gid, 0);
    assert_int_equal(n.mtime_ns, 99);
    to.uid = SETATTR_KEEP;
    to.gid = 8;
    assert_int_equal(files_setattr(x->files, ino, INODES_OWNER, &to, false, &n, &e), 0);
    assert_int_equal(n.uid, 7);
    assert_int_equal(n.gid, 8);
    assert_true(n.flags & INODE_ATTR); /* the store's do not replace it */
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 0);
    fx_free(x);
}

/* CacheThrough keeps what was written, Through does not. */
static void test_what_stays_in_the_cache(void **state)
{
    (void)state;
    static const struct {
        enum conf_write write;
        unsigned reads;
    } cases[] = {{CONF_CACHE_THROUGH, 0}, {CONF_THROUGH, 1}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fx *x = fx_new(&(struct fx_conf){.write = cases[i].write});
        fx_make(x, "main/a", "text");
        fx_path_is(x, "main/a", "text");
        assert_int_equal(fake_store_calls(x->fake[0], FAKE_READ), cases[i].reads);
        fx_free(x);
    }
}

static void test_upload_fails(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    struct err e = ERR_INIT;
    char text[LAST_ERROR_MAX];
    struct upload_stats before, after;
    upload_stats(&before);
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_DENIED, EACCES, 0, 1);
    assert_int_equal(fx_close(x, &h), EACCES);
    /* kept, readable, and tried again */
    assert_true(fx_is_dirty(x, h.ino));
    assert_int_equal(fx_staged(x), 2);
    fx_path_is(x, "main/a", "text");
    assert_true(files_last_error(x->files, h.ino, text));
    assert_non_null(strstr(text, "fails on purpose"));
    struct file *f = files_get(x->files, h.ino, &e);
    int64_t wait = atomic_load(&f->retry_ns) - clock_mono_ns();
    assert_in_range(wait, 4 * NS_PER_S, 5 * NS_PER_S);
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_DENIED, EACCES, 0, 1);
    assert_int_equal(file_upload(f, &e), -1);
    wait = atomic_load(&f->retry_ns) - clock_mono_ns();
    assert_in_range(wait, 9 * NS_PER_S, 10 * NS_PER_S);
    assert_int_equal(file_upload(f, &e), 0);
    assert_int_equal(atomic_load(&f->retry_ns), 0);
    unsigned puts = fake_store_calls(x->fake[0], FAKE_PUT);
    assert_int_equal(file_upload(f, &e), 0); /* there is nothing to do */
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), puts);
    files_put(f);
    fx_store_is(x, "main/a", "text");
    assert_false(fx_is_dirty(x, h.ino));
    upload_stats(&after);
    assert_int_equal(after.failed - before.failed, 2);
    assert_int_equal(after.files - before.files, 1);
    assert_int_equal(after.bytes - before.bytes, 4);
    fx_free(x);
}

/* A release does not try what the close of the same handle was told of a moment ago. */
static void test_release_uploads_once(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 5);
    fx_close(x, &h);
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_PUT), 1);
    /* written by a mapping, after the close: the release is the last chance */
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_NONE, 0, 0, 0);
    assert_int_equal(fx_create(x, "main/b", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    files_close(x->files, h.ino, true, false);
    fx_store_is(x, "main/b", "text");
    fx_free(x);
}

/* The process is killed: the next one has the same inodes, and their content. */
static void test_next_process(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h, w;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    fx_put(x, "main/b", "hello");
    assert_int_equal(fx_open(x, "main/b", O_WRONLY, &w), 0);
    fx_write(x, w.ino, 0, "J");
    fx_restart(x, true);
    assert_true(fx_is_dirty(x, h.ino));
    fx_is(x, h.ino, "text");
    fx_is(x, w.ino, "Jello");
    fx_write(x, h.ino, 4, " more");
    assert_int_equal(fx_close(x, &h), 0);
    assert_int_equal(fx_close(x, &w), 0);
    fx_store_is(x, "main/a", "text more");
    fx_store_is(x, "main/b", "Jello");
    assert_int_equal(fx_staged(x), 0);
    fx_free(x);
}

/* It was killed between the inode and its staging file. */
static void test_next_process_without_staging_file(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &h), 0);
    cleanup_free char *name = fx_staging_file(x, h.ino);
    fx_restart(x, true);
    assert_int_equal(unlink(name), 0);
    fx_is(x, h.ino, "");
    fx_write(x, h.ino, 0, "text");
    assert_int_equal(fx_close(x, &h), 0);
    fx_store_is(x, "main/a", "text");
    /* one that had content is lost, and says so */
    assert_int_equal(fx_create(x, "main/b", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    cleanup_free char *lost = fx_staging_file(x, h.ino);
    fx_restart(x, true);
    assert_int_equal(unlink(lost), 0);
    int errnum = 0;
    assert_null(fx_read(x, h.ino, &errnum));
    assert_int_equal(errnum, EIO);
    assert_int_equal(fx_close(x, &h), EIO);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_create_where_something_is),
        cmocka_unit_test(test_create_without_staging),
        cmocka_unit_test(test_mknod),
        cmocka_unit_test(test_create_excludes_other_nodes),
        cmocka_unit_test(test_resent_create_is_not_anothers),
        cmocka_unit_test(test_mkdir),
        cmocka_unit_test(test_resent_mkdir_is_not_anothers),
        cmocka_unit_test(test_write_to_what_the_store_has),
        cmocka_unit_test(test_truncate),
        cmocka_unit_test(test_setattr),
        cmocka_unit_test(test_what_stays_in_the_cache),
        cmocka_unit_test(test_upload_fails),
        cmocka_unit_test(test_release_uploads_once),
        cmocka_unit_test(test_next_process),
        cmocka_unit_test(test_next_process_without_staging_file),
    };
    return cmocka_run_group_tests_name("file_write", tests, NULL, NULL);
}
