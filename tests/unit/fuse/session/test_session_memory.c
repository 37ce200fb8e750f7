/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever is killed while the kernel copies a request into a page that does not exist yet takes the
 * request with him: its caller gets EIO, though the next process would answer it. So threads have
 * their buffers before they read. A socket in place of /dev/fuse. */
#define FUSE_USE_VERSION 314
#include "tests/lib/unit.h"

#include "fuse/session/loop.h"
#include "fuse/session/session.h"
#include "lib/base/clock.h"
#include "tests/lib/eventually.h"

#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define THREADS 48 /* more than have all of a buffer */

ssize_t __real_loop_read(struct loop *l, void *buf, size_t len);
ssize_t __wrap_loop_read(struct loop *l, void *buf, size_t len);

static atomic_uint reads, whole, small, bad; /* reads; of them into a buffer that is there */
static atomic_uint hanging;
static atomic_bool hold;

ssize_t __wrap_loop_read(struct loop *l, void *buf, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)buf & ~(page - 1),
           n = ((uintptr_t)buf + len - begin + page - 1) / page, there = 0;
    unsigned char in_memory[2048];
    if (n > sizeof in_memory || mincore((void *)begin, n * page, in_memory))
        n = 0;
    while (there < n && (in_memory[there] & 1))
        there++;
    reads++;
    whole += n > 0 && there == n;
    small += there < n && there * page >= 16 << 10;
    bad += there * page < 16 << 10;
    return __real_loop_read(l, buf, len);
}

static void save_init(void *user, const void *init, size_t len)
{
    (void)user;
    (void)init;
    (void)len;
}
static void serving(void *user, const struct session_offer *offer)
{
    (void)user;
    (void)offer;
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct stat st = {.st_ino = ino, .st_mode = S_IFDIR | 0755};
    (void)fi;
    loop_will_block(); /* so that another thread comes */
    hanging++;
    while (hold)
        clock_sleep_ns(NS_PER_MS);
    hanging--;
    fuse_reply_attr(req, &st, 1);
}

static void *run_session(void *session)
{
    struct err e = ERR_INIT;
    session_run(session, &e);
    return NULL;
}

static void send_request(int kernel, uint32_t opcode, uint64_t unique, const void *body, size_t len)
{
    char request[256];
    struct fuse_in_header h = {
        .len = (uint32_t)(sizeof h + len), .opcode = opcode, .unique = unique, .nodeid = 1};
    memcpy(request, &h, sizeof h);
    memcpy(request + sizeof h, body, len);
    assert_int_equal(send(kernel, request, sizeof h + len, 0), sizeof h + len);
}

static void test_buffers_are_there(void **state)
{
    static const struct fuse_lowlevel_ops ops = {.getattr = op_getattr};
    const struct fuse_init_in init = {.major = 7, .minor = 40};
    const struct fuse_getattr_in getattr = {0};
    struct err e = ERR_INIT;
    char reply[512];
    int pair[2];
    pthread_t thread;
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    struct session_conf sc = {.fd = pair[1],
        .threads = THREADS,
        .writes = true,
        .save_init = save_init,
        .serving = serving};
    struct session *s = session_new(&sc, &ops, NULL, &e);
    assert_non_null(s);
    assert_int_equal(pthread_create(&thread, NULL, run_session, s), 0);
    send_request(pair[0], FUSE_INIT, 11, &init, sizeof init);
    assert_true(recv(pair[0], reply, sizeof reply, 0) > 0);
    hold = true;
    for (unsigned i = 0; i < THREADS; i++)
        send_request(pair[0], FUSE_GETATTR, 20 + i, &getattr, sizeof getattr);
    eventually(hanging == THREADS);
    hold = false;
    for (unsigned i = 0; i < THREADS; i++)
        assert_true(recv(pair[0], reply, sizeof reply, 0) > 0);
    session_exit(s);
    pthread_join(thread, NULL);
    session_free(s);
    close(pair[0]);
    print_message("# %u reads: into %u whole buffers, %u in part\n", reads, whole, small);
    assert_int_equal(bad, 0);
    assert_true(whole >= 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_buffers_are_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
