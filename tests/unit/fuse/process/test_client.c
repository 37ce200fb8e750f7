/* SPDX-License-Identifier: Apache-2.0 */
/* The serving process over a directory as its store, with a socket in place of /dev/fuse: all rooms
 * wired, a look-up and a read through them, and what it leaves to the process after it. */
#include "tests/lib/unit.h"

#include "fuse/process/client.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct fx {
    char dir[64];
    char *store, *cache, *config;
    struct client_shared *shared;
    struct client_options o;
    int kernel; /* the other end */
    int ready;
    pid_t pid;
    uint64_t unique;
};

static void write_config(struct fx *x, const char *text)
{
    struct err e = ERR_INIT;
    assert_int_equal(file_write_atomic(x->config, text, strlen(text), 0600, &e), 0);
}

static struct fx *fx_new(bool read_only)
{
    struct fx *x = xcalloc(1, sizeof *x);
    struct err e = ERR_INIT;
    snprintf(x->dir, sizeof x->dir, "/tmp/millrace-client.XXXXXX");
    assert_non_null(mkdtemp(x->dir));
    x->store = path_join(x->dir, "store");
    x->cache = path_join(x->dir, "cache");
    x->config = path_join(x->dir, "config");
    assert_int_equal(file_mkdirs(x->store, 0700, &e), 0);
    cleanup_free char *file = path_join(x->store, "file");
    assert_int_equal(file_write_atomic(file, "0123456789", 10, 0600, &e), 0);
    cleanup_free char *text = xasprintf(
        "{\"namespace\":\"n\",\"name\":\"d\",\"uid\":\"u\",\"readOnly\":%s,\"mounts\":[{\"mountPoint\":\"file://%s\",\"path\":\"/\"}]}",
        read_only ? "true" : "false", x->store);
    write_config(x, text);
    x->shared = mmap(
        NULL, sizeof *x->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    x->o = (struct client_options){.mountpoint = x->dir,
        .cache_dir = x->cache,
        .config = x->config,
        .http = "",
        .uid = -1,
        .gid = -1};
    x->kernel = x->ready = -1;
    return x;
}

static void fx_free(struct fx *x)
{
    file_remove_tree(x->dir, NULL);
    munmap(x->shared, sizeof *x->shared);
    free(x->store);
    free(x->cache);
    free(x->config);
    free(x);
}

static void start(struct fx *x)
{
    int pair[2], ready[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(pipe(ready), 0);
    fflush(NULL);
    x->pid = fork();
    assert_true(x->pid >= 0);
    if (x->pid == 0) {
        log_init("client", LOG_ERROR);
        close(pair[0]);
        close(ready[0]);
        _exit(client_run(&x->o, x->shared, pair[1], ready[1]));
    }
    close(pair[1]);
    close(ready[1]);
    struct timeval limit = {60, 0};
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    x->kernel = pair[0];
    x->ready = ready[0];
}

static int stop(struct fx *x, int sig)
{
    int status;
    if (sig)
        kill(x->pid, sig);
    assert_int_equal(waitpid(x->pid, &status, 0), x->pid);
    close(x->kernel);
    close(x->ready);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Sends a request and takes its answer: 0 or errno. */
static int ask(struct fx *x, uint32_t opcode, uint64_t ino, const void *body, size_t len, void *out,
    size_t size)
{
    char buf[1024];
    struct fuse_in_header h = {.len = (uint32_t)(sizeof h + len),
        .opcode = opcode,
        .unique = x->unique += 2,
        .nodeid = ino,
        .uid = getuid(),
        .gid = getgid()};
    struct fuse_out_header o;
    memcpy(buf, &h, sizeof h);
    memcpy(buf + sizeof h, body, len);
    assert_int_equal(send(x->kernel, buf, sizeof h + len, 0), sizeof h + len);
    ssize_t n;
    do { /* notifications come in between */
        n = recv(x->kernel, buf, sizeof buf, 0);
        assert_true(n >= (ssize_t)sizeof o);
        memcpy(&o, buf, sizeof o);
    } while (o.unique == 0);
    assert_true(o.unique == h.unique && o.len == n);
    memset(out, 0, size);
    memcpy(out, buf + sizeof o, MIN((size_t)n - sizeof o, size));
    return -o.error;
}

static void init(struct fx *x)
{
    struct fuse_init_in in = {.major = 7, .minor = 38};
    struct fuse_init_out out;
    char c = 0;
    assert_int_equal(ask(x, FUSE_INIT, 0, &in, sizeof in, &out, sizeof out), 0);
    assert_int_equal(out.major, 7);
    assert_int_equal(read(x->ready, &c, 1), 1); /* it is said that requests are answered */
    assert_true(x->shared->init_len > 0);
}

static uint64_t look_up(struct fx *x, const char *name, struct fuse_entry_out *out)
{
    assert_int_equal(ask(x, FUSE_LOOKUP, 1, name, strlen(name) + 1, out, sizeof *out), 0);
    return out->nodeid;
}

static void read_all(struct fx *x, uint64_t ino, const char *want)
{
    struct fuse_open_in oi = {0};
    struct fuse_open_out oo;
    char text[64];
    assert_int_equal(ask(x, FUSE_OPEN, ino, &oi, sizeof oi, &oo, sizeof oo), 0);
    struct fuse_read_in ri = {.fh = oo.fh, .size = 4096};
    assert_int_equal(ask(x, FUSE_READ, ino, &ri, sizeof ri, text, sizeof text), 0);
    assert_string_equal(text, want);
}

static void test_serves(void **state)
{
    (void)state;
    for (int read_only = 0; read_only < 2; read_only++) {
        struct fx *x = fx_new(read_only);
        struct fuse_entry_out entry;
        char none[8];
        assert_int_equal(client_is_read_only(&x->o), read_only);
        start(x);
        init(x);
        uint64_t file = look_up(x, "file", &entry);
        assert_int_equal(entry.attr.size, 10);
        assert_int_equal(entry.attr.mode & 07777, read_only ? 0444 : 0644);
        assert_int_equal(entry.attr.uid, getuid());
        if (read_only)
            assert_in_range(entry.entry_valid, 590, 600);
        else
            assert_int_equal(entry.entry_valid, 1);
        read_all(x, file, "0123456789");
        assert_int_equal(ask(x, FUSE_MKDIR, 1, "\0\0\0\0\0\0\0\0new", 12, none, sizeof none),
            read_only ? EROFS : 0);
        assert_int_equal(stop(x, SIGTERM), CLIENT_DONE);
        fx_free(x);
    }
}

/* The next process has the ids of the one that was killed, and needs no store for what is cached.
 */
static void test_taken_over(void **state)
{
    (void)state;
    struct fx *x = fx_new(true);
    struct fuse_entry_out entry;
    struct fuse_attr_out attr;
    start(x);
    init(x);
    uint64_t file = look_up(x, "file", &entry);
    read_all(x, file, "0123456789");
    assert_int_equal(stop(x, SIGKILL), -SIGKILL);
    cleanup_free char *away = path_join(x->dir, "away");
    assert_int_equal(rename(x->store, away), 0);
    start(x); /* without an INIT: shared has it */
    struct fuse_getattr_in gi = {0};
    assert_int_equal(ask(x, FUSE_GETATTR, file, &gi, sizeof gi, &attr, sizeof attr), 0);
    assert_int_equal(attr.attr.size, 10);
    assert_int_equal(look_up(x, "file", &entry), file);
    assert_int_equal(stop(x, SIGINT), CLIENT_DONE);
    fx_free(x);
}

/* What time will not mend ends it, with a status that tells whose fault it is. */
static void test_cannot_serve(void **state)
{
    (void)state;
    struct fx *x = fx_new(true);
    static const char *const bad[] = {"{", "{\"mounts\":[]}",
        "{\"namespace\":\"n\",\"name\":\"d\",\"uid\":\"u\",\"mounts\":[{\"mountPoint\":\"gopher://x\",\"path\":\"/\"}]}"};
    cleanup_free char *good = file_read(x->config, 4096, NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        write_config(x, bad[i]);
        start(x);
        assert_int_equal(stop(x, 0), CLIENT_MISUSE);
    }
    unlink(x->config);
    assert_false(client_is_read_only(&x->o));
    start(x);
    assert_int_equal(stop(x, 0), CLIENT_MISUSE);
    write_config(x, good);
    cleanup_free char *away = path_join(x->dir, "away");
    assert_int_equal(rename(x->store, away), 0); /* no store */
    start(x);
    assert_int_equal(stop(x, 0), CLIENT_BROKEN);
    assert_int_equal(rename(away, x->store), 0);
    start(x);
    init(x);
    assert_int_equal(stop(x, SIGTERM), CLIENT_DONE);
    fx_free(x);
}

/* One process at a time has a cache directory; a second one waits for a moment. */
static void test_directory_is_used(void **state)
{
    (void)state;
    struct fx *x = fx_new(true), other;
    start(x);
    init(x);
    other = *x;
    int64_t began = clock_mono_ns();
    start(&other);
    assert_int_equal(stop(&other, 0), CLIENT_BROKEN);
    assert_true(clock_mono_ns() - began >= NS_PER_S);
    assert_int_equal(stop(x, SIGHUP), CLIENT_DONE);
    fx_free(x);
}

/* A process of another version has it: all of them lock the same file. Nothing of its is touched.
 */
static void test_directory_is_used_by_other_version(void **state)
{
    (void)state;
    struct fx *x = fx_new(true);
    struct err e = ERR_INIT;
    cleanup_free char *stage = path_join(x->cache, "stage"), *lock = path_join(x->cache, "lock"),
                      *staged = path_join(stage, "7-1"), *sidecar = path_join(stage, "7-1.path");
    assert_int_equal(file_mkdirs(stage, 0700, &e), 0);
    assert_int_equal(file_write_atomic(staged, "1", 1, 0600, &e), 0);
    assert_int_equal(file_write_atomic(sidecar, "0\n\nnew\n", 7, 0600, &e), 0);
    int held = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(held, LOCK_EX | LOCK_NB), 0);
    start(x);
    alarm(60); /* one that serves would do so forever */
    assert_int_equal(stop(x, 0), CLIENT_BROKEN);
    alarm(0);
    assert_int_equal(access(staged, F_OK), 0);
    assert_int_equal(access(sidecar, F_OK), 0);
    close(held);
    fx_free(x);
}

/* Another dataset in the same directory: nothing of the old one's names is left. */
static void test_other_dataset(void **state)
{
    (void)state;
    struct fx *x = fx_new(true);
    struct fuse_entry_out entry;
    struct err e = ERR_INIT;
    start(x);
    init(x);
    look_up(x, "file", &entry);
    assert_int_equal(stop(x, SIGTERM), CLIENT_DONE);
    cleanup_free char *other = path_join(x->dir, "other"),
                      *file = path_join(x->dir, "other/another");
    assert_int_equal(file_mkdirs(other, 0700, &e), 0);
    assert_int_equal(file_write_atomic(file, "1", 1, 0600, &e), 0);
    cleanup_free char *text = xasprintf(
        "{\"namespace\":\"n\",\"name\":\"d\",\"uid\":\"u\",\"readOnly\":true,\"mounts\":[{\"mountPoint\":\"file://%s\",\"path\":\"/\"}]}",
        other);
    write_config(x, text);
    x->shared->init_len = 0;
    start(x);
    init(x);
    assert_int_equal(ask(x, FUSE_LOOKUP, 1, "file", 5, &entry, sizeof entry), 0);
    assert_int_equal(entry.nodeid, 0); /* a look-up that says that there is none */
    look_up(x, "another", &entry);
    assert_int_equal(stop(x, SIGTERM), CLIENT_DONE);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serves),
        cmocka_unit_test(test_taken_over),
        cmocka_unit_test(test_cannot_serve),
        cmocka_unit_test(test_directory_is_used),
        cmocka_unit_test(test_directory_is_used_by_other_version),
        cmocka_unit_test(test_other_dataset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
