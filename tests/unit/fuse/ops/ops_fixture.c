/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/fuse/ops/ops_fixture.h"

#include "fuse/report/stall.h"

struct reply reply;

static ssize_t hook_writev(int fd, struct iovec *iov, int n, void *user)
{
    (void)fd;
    (void)user;
    size_t all = 0;
    reply.len = 0;
    memcpy(&reply.h, iov[0].iov_base, sizeof reply.h);
    for (int i = 0; i < n; i++) {
        size_t skip = i ? 0 : sizeof reply.h;
        assert_true(reply.len + iov[i].iov_len - skip <= sizeof reply.body);
        memcpy(reply.body + reply.len, (char *)iov[i].iov_base + skip, iov[i].iov_len - skip);
        reply.len += iov[i].iov_len - skip;
        all += iov[i].iov_len;
    }
    assert_int_equal(reply.h.len, all);
    reply.count++;
    if (reply.interrupted) { /* the caller is gone: the kernel has no use for the answer */
        errno = ENOENT;
        return -1;
    }
    return (ssize_t)all;
}

static ssize_t hook_read(int fd, void *buf, size_t len, void *user)
{
    (void)fd;
    (void)buf;
    (void)len;
    (void)user;
    errno = ENODEV;
    return -1;
}

int ask(struct kernel *k, uint32_t op, uint64_t node, const void *arg, size_t len, const char *name,
    const void *more, size_t more_len)
{
    static uint64_t unique;
    char buf[8192];
    struct fuse_in_header h = {
        .opcode = op, .unique = ++unique, .nodeid = node, .uid = 11, .gid = 22};
    size_t at = sizeof h;
    memcpy(buf + at, arg, len);
    at += len;
    if (name) {
        memcpy(buf + at, name, strlen(name) + 1);
        at += strlen(name) + 1;
    }
    if (more)
        memcpy(buf + at, more, more_len);
    h.len = (uint32_t)(at + more_len);
    memcpy(buf, &h, sizeof h);
    unsigned before = reply.count;
    fuse_session_process_buf(k->se, &(struct fuse_buf){.mem = buf, .size = h.len});
    assert_int_equal(reply.count, before + 1);
    assert_true(reply.h.unique == unique);
    return -reply.h.error;
}

static void nobody(void *user, pid_t pid, char out[CALLER_MAX])
{
    (void)user;
    (void)pid;
    snprintf(out, CALLER_MAX, "test");
}

struct kernel *kernel_new(bool sealed)
{
    struct kernel *k = xcalloc(1, sizeof *k);
    struct err e = ERR_INIT;
    k->x = fx_new(NULL);
    k->fs = (struct fs){.conf = &k->x->conf,
        .inodes = k->x->inodes,
        .tree = k->x->tree,
        .files = k->x->files,
        .timeout = 5,
        .absence = 3,
        .sealed = sealed};
    k->fs.hints = hints_new(k->x->files, k->x->dir, false, &e);
    k->fs.stalls = stalls_new(nobody, NULL);
    assert_non_null(k->fs.hints);
    char *argv[] = {(char *)"test_ops", NULL};
    struct fuse_args args = FUSE_ARGS_INIT(1, argv);
    k->se = fuse_session_new(&args, &fs_ops, sizeof fs_ops, &k->fs);
    fuse_opt_free_args(&args);
    assert_non_null(k->se);
    k->fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const struct fuse_custom_io io = {.writev = hook_writev, .read = hook_read};
    assert_int_equal(fuse_session_custom_io(k->se, &io, k->fd), 0);
    struct fuse_init_in in = {
        .major = 7, .minor = 31, .max_readahead = 1 << 20, .flags = 0x3ffffff};
    assert_int_equal(ASK(k, FUSE_INIT, 0, in), 0);
    return k;
}

void kernel_free(struct kernel *k)
{
    fuse_session_destroy(k->se); /* closes the fd */
    hints_free(k->fs.hints);
    stalls_free(k->fs.stalls);
    fx_free(k->x);
    free(k);
}

uint64_t look_up(struct kernel *k, uint64_t dir, const char *name)
{
    assert_int_equal(ASK_NAME(k, FUSE_LOOKUP, dir, name), 0);
    return ANSWER(struct fuse_entry_out).nodeid;
}

uint64_t root_of(struct kernel *k, const char *mount) { return look_up(k, FUSE_ROOT_ID, mount); }
