/* SPDX-License-Identifier: Apache-2.0 */
/* The session over a socket in place of /dev/fuse: what libfuse does not know of is in its replies,
 * and a session that is taken over begins where the other one was. */
#define FUSE_USE_VERSION 314
#include "tests/lib/unit.h"

#include "fuse/session/session.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"
#include "tests/lib/eventually.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* By the kernel's protocol, whatever the header at hand knows of it. */
#define DIROPS           (1u << 18)
#define EXT              (1u << 30)
#define PASSTHROUGH      (1u << 5) /* of the second word */
#define RESEND           (1u << 7)
#define UNIQUE_RESENT    (UINT64_C(1) << 63)
#define NOTIFY_RESEND    7
#define OPEN_PASSTHROUGH (1u << 7)

struct fx {
    int kernel; /* the other end */
    struct session *session;
    pthread_t thread;
    int rc;
    struct err e;
    _Atomic unsigned saved, serving;
    _Alignas(8) char init[256];
    size_t init_len;
    int32_t backing; /* for op_open to pass through to; 0: not */
    bool resent;     /* what op_getattr saw */
    pid_t asked;
    _Atomic unsigned hang; /* so many requests to come do not end while .hold */
    _Atomic bool hold, gets_on;
    _Atomic unsigned hanging, stuck;
};

static void hang_if_told(struct fx *x)
{
    if (!x->hang)
        return;
    x->hanging++;
    x->hang--;
    while (x->hold) {
        if (x->gets_on)
            progress_mark();
        clock_sleep_ns(NS_PER_MS);
    }
    x->hanging--;
}

static void save_init(void *user, const void *init, size_t len)
{
    struct fx *x = user;
    x->saved++;
    assert_true(len <= sizeof x->init);
    memcpy(x->init, init, len);
    x->init_len = len;
}

static void serving(void *user, const struct session_offer *offer)
{
    assert_non_null(offer);
    ((struct fx *)user)->serving++;
}

static void unmounted(void *user)
{
    (void)user;
    fail_msg("a socket is not unmounted");
}

static void on_stuck(void *user) { ((struct fx *)user)->stuck++; }

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fx *x = fuse_req_userdata(req);
    (void)fi;
    x->resent = session_resent();
    hang_if_told(x);
    struct stat st = {.st_ino = ino, .st_mode = S_IFDIR | 0755};
    fuse_reply_attr(req, &st, 1);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fx *x = fuse_req_userdata(req);
    (void)ino;
    hang_if_told(x);
    session_pass_through(x->backing);
    fuse_reply_open(req, fi);
}

static void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    (void)fi;
    hang_if_told(fuse_req_userdata(req));
    fuse_reply_err(req, 0);
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    (void)datasync;
    op_flush(req, ino, fi);
}

static void op_unlink(fuse_req_t req, fuse_ino_t dir, const char *name)
{
    (void)name;
    op_flush(req, dir, NULL);
}

static void op_rename(fuse_req_t req, fuse_ino_t dir, const char *name, fuse_ino_t newdir,
    const char *newname, unsigned flags)
{
    (void)newdir;
    (void)newname;
    (void)flags;
    op_unlink(req, dir, name);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
    struct fuse_file_info *fi)
{
    (void)data;
    (void)size;
    (void)off;
    op_flush(req, ino, fi);
}

static void op_setattr(
    fuse_req_t req, fuse_ino_t ino, struct stat *to, int fields, struct fuse_file_info *fi)
{
    (void)to;
    (void)fields;
    op_flush(req, ino, fi);
}

static const struct fuse_lowlevel_ops ops = {.getattr = op_getattr,
    .open = op_open,
    .flush = op_flush,
    .fsync = op_fsync,
    .unlink = op_unlink,
    .rename = op_rename,
    .write = op_write,
    .setattr = op_setattr};

static void *run_session(void *arg)
{
    struct fx *x = arg;
    x->rc = session_run(x->session, &x->e);
    return NULL;
}

static int64_t stuck_ns; /* of sessions that are made */

static struct fx *fx_new(unsigned stack_depth, const void *init, size_t init_len)
{
    struct fx *x = xcalloc(1, sizeof *x);
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    struct timeval limit = {20, 0};
    assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    x->kernel = pair[0];
    struct session_conf sc = {.fd = pair[1],
        .init = init,
        .init_len = init_len,
        .stack_depth = stack_depth,
        .stuck_ns = stuck_ns,
        .stuck = on_stuck,
        .threads = 2,
        .save_init = save_init,
        .serving = serving,
        .unmounted = unmounted,
        .user = x};
    x->session = session_new(&sc, &ops, x, &x->e);
    assert_non_null(x->session);
    assert_int_equal(pthread_create(&x->thread, NULL, run_session, x), 0);
    return x;
}

static void fx_free(struct fx *x)
{
    session_exit(x->session);
    pthread_join(x->thread, NULL);
    assert_int_equal(x->rc, 0);
    assert_false(session_unmounted(x->session));
    session_free(x->session); /* libfuse closes the descriptor */
    close(x->kernel);
    free(x);
}

static void send_request(
    struct fx *x, uint32_t opcode, uint64_t unique, const void *body, size_t len)
{
    char request[256];
    struct fuse_in_header h = {
        .len = (uint32_t)(sizeof h + len), .opcode = opcode, .unique = unique, .nodeid = 1};
    memcpy(request, &h, sizeof h);
    if (len)
        memcpy(request + sizeof h, body, len);
    assert_int_equal(send(x->kernel, request, sizeof h + len, 0), sizeof h + len);
}

static void send_init(struct fx *x, uint32_t flags, uint32_t flags2)
{
    struct fuse_init_in in = {.major = 7, .minor = 40, .flags = flags, .flags2 = flags2};
    send_request(x, FUSE_INIT, 11, &in, sizeof in);
}

/* The next reply, its body; its length. */
static size_t receive(struct fx *x, struct fuse_out_header *h, void *body, size_t size)
{
    char reply[512];
    ssize_t n = recv(x->kernel, reply, sizeof reply, 0);
    assert_true(n >= (ssize_t)sizeof *h);
    memcpy(h, reply, sizeof *h);
    assert_int_equal(h->len, n);
    size_t len = (size_t)n - sizeof *h;
    memset(body, 0, size);
    memcpy(body, reply + sizeof *h, MIN(len, size));
    return len;
}

static void test_init(void **state)
{
    (void)state;
    for (unsigned depth = 0; depth < 2; depth++) {
        struct fx *x = fx_new(depth, NULL, 0);
        struct fuse_out_header h;
        struct fuse_init_out out;
        send_init(x, DIROPS | EXT, PASSTHROUGH | RESEND);
        assert_true(receive(x, &h, &out, sizeof out) >= 64);
        assert_true(h.unique == 11 && h.error == 0);
        assert_true(out.flags & DIROPS);
        assert_true(out.flags2 & RESEND);
        assert_int_equal(!!(out.flags2 & PASSTHROUGH), depth);
        assert_int_equal(((uint32_t *)&out)[9], depth); /* max_stack_depth */
        struct fuse_attr_out attr;
        send_request(
            x, FUSE_GETATTR, 12, &(struct fuse_getattr_in){0}, sizeof(struct fuse_getattr_in));
        receive(x, &h, &attr, sizeof attr);
        assert_true(h.unique == 12 && h.error == 0 && attr.attr.ino == 1);
        assert_int_equal(x->saved, 1);
        eventually(x->serving == 1); /* the kernel may have its answer before */
        assert_int_equal(((struct fuse_in_header *)x->init)->opcode, FUSE_INIT);
        assert_int_equal(x->init_len, sizeof(struct fuse_in_header) + sizeof(struct fuse_init_in));
        fx_free(x);
    }
}

/* Only what the kernel has offered is agreed to. */
static void test_old_kernel(void **state)
{
    (void)state;
    struct fx *x = fx_new(1, NULL, 0);
    struct fuse_out_header h;
    struct fuse_init_out out;
    send_init(x, EXT, 0);
    receive(x, &h, &out, sizeof out);
    assert_false(out.flags & DIROPS);
    assert_false(out.flags2 & (RESEND | PASSTHROUGH));
    fx_free(x);
}

static void test_passthrough(void **state)
{
    (void)state;
    struct fx *x = fx_new(1, NULL, 0);
    struct fuse_out_header h;
    struct fuse_init_out out;
    struct {
        uint64_t fh;
        uint32_t flags;
        int32_t backing_id;
    } o;
    send_init(x, EXT, PASSTHROUGH);
    receive(x, &h, &out, sizeof out);
    for (unsigned i = 0; i < 4; i++) {
        x->backing = i % 2 ? 7 : 0; /* an open does not leave its id to the next */
        send_request(x, FUSE_OPEN, 20 + i, &(struct fuse_open_in){0}, sizeof(struct fuse_open_in));
        assert_int_equal(receive(x, &h, &o, sizeof o), sizeof o);
        assert_true(h.unique == 20 + i && h.error == 0);
        assert_int_equal(!!(o.flags & OPEN_PASSTHROUGH), i % 2);
        assert_int_equal(o.backing_id, i % 2 ? 7 : 0);
    }
    fx_free(x);
}

static void test_resent(void **state)
{
    (void)state;
    struct fx *x = fx_new(0, NULL, 0);
    struct fuse_out_header h;
    struct fuse_init_out out;
    struct fuse_attr_out attr;
    send_init(x, EXT, RESEND);
    receive(x, &h, &out, sizeof out);
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t unique = (30 + i) | (i % 2 ? UNIQUE_RESENT : 0);
        send_request(
            x, FUSE_GETATTR, unique, &(struct fuse_getattr_in){0}, sizeof(struct fuse_getattr_in));
        receive(x, &h, &attr, sizeof attr);
        assert_true(h.unique == unique && h.error == 0);
        assert_int_equal(x->resent, i % 2);
    }
    fx_free(x);
}

/* The INIT of long ago is replayed to libfuse alone; the kernel is asked for what it had not been
 * answered. */
static void test_taken_over(void **state)
{
    (void)state;
    struct fx *x = fx_new(1, NULL, 0);
    struct fuse_out_header h;
    struct fuse_init_out out;
    struct fuse_attr_out attr;
    char init[256];
    for (int resend = 0; resend < 2; resend++) {
        send_init(x, DIROPS | EXT, resend ? RESEND : 0);
        receive(x, &h, &out, sizeof out);
        size_t len = x->init_len;
        memcpy(init, x->init, len);
        fx_free(x);
        x = fx_new(1, init, len);
        if (resend) {
            assert_int_equal(receive(x, &h, &attr, sizeof attr), 0);
            assert_true(h.unique == 0 && h.error == NOTIFY_RESEND);
        }
        send_request(
            x, FUSE_GETATTR, 12, &(struct fuse_getattr_in){0}, sizeof(struct fuse_getattr_in));
        receive(x, &h, &attr, sizeof attr);
        assert_true(h.unique == 12 && h.error == 0);
        assert_true(x->saved == 0 && x->serving == 1);
        fx_free(x);
        x = fx_new(1, NULL, 0);
    }
    fx_free(x);
}

static void test_init_not_understood(void **state)
{
    (void)state;
    struct fuse_in_header junk = {.len = sizeof junk, .opcode = FUSE_GETATTR, .unique = 5};
    struct fx x = {0};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    struct session_conf sc = {.fd = pair[1],
        .init = &junk,
        .init_len = 20, /* less than a header */
        .save_init = save_init,
        .serving = serving,
        .unmounted = unmounted,
        .user = &x};
    x.session = session_new(&sc, &ops, &x, &x.e);
    assert_non_null(x.session);
    assert_int_equal(session_run(x.session, &x.e), -1);
    assert_int_equal(x.e.cls, ERR_FATAL);
    assert_int_equal(x.serving, 0);
    session_free(x.session);
    close(pair[0]);
}

static void ask_attr(struct fx *x, uint64_t unique)
{
    send_request(
        x, FUSE_GETATTR, unique, &(struct fuse_getattr_in){0}, sizeof(struct fuse_getattr_in));
}

/* A request that hangs: its caller gets an error, once; others do not notice. */
static void test_stuck(void **state)
{
    (void)state;
    stuck_ns = 2 * NS_PER_S;
    struct fx *x = fx_new(0, NULL, 0);
    stuck_ns = 0;
    struct fuse_out_header h;
    struct fuse_init_out out;
    struct fuse_attr_out attr;
    send_init(x, EXT, 0);
    receive(x, &h, &out, sizeof out);
    for (int i = 0; i < 2; i++) { /* another one of the same thread, too */
        uint64_t unique = 40 + 10 * (uint64_t)i;
        x->hold = true;
        x->hang = 1;
        ask_attr(x, unique);
        eventually(x->hang == 0);
        ask_attr(x, unique + 1);
        receive(x, &h, &attr, sizeof attr);
        assert_true(h.unique == unique + 1 && h.error == 0 && attr.attr.ino == 1);
        assert_int_equal(receive(x, &h, &attr, sizeof attr), 0);
        assert_true(h.unique == unique && h.error == -EIO);
        eventually(x->stuck == (unsigned)i + 1);
        x->hold = false;
        eventually(x->hanging == 0);
        for (uint64_t k = 2; k < 6; k++) {
            ask_attr(x, unique + k);
            receive(x, &h, &attr, sizeof attr);
            assert_true(h.unique == unique + k && h.error == 0); /* and no late answer */
        }
    }
    fx_free(x);
}

/* One that may take long is waited for while it gets on, and while another thread does that works
 * on the same inode; not longer. */
static void test_stuck_long(void **state)
{
    (void)state;
    static const struct {
        struct fuse_rename_in rename;
        char names[8];
    } two = {.rename = {.newdir = 1}, .names = "a\0b"};
    static const struct fuse_open_in open = {.flags = O_WRONLY};
    static const struct fuse_flush_in flush;
    static const struct fuse_fsync_in sync;
    static const struct fuse_setattr_in attr;
    static const struct fuse_write_in write; /* of nothing */
    static const struct {
        uint32_t opcode;
        const void *body;
        size_t len;
    } cases[] = {{FUSE_OPEN, &open, sizeof open}, {FUSE_FLUSH, &flush, sizeof flush},
        {FUSE_FSYNC, &sync, sizeof sync}, {FUSE_UNLINK, "a", 2},
        {FUSE_RENAME, &two, sizeof(struct fuse_rename_in) + 4}, {FUSE_SETATTR, &attr, sizeof attr},
        {FUSE_WRITE, &write, sizeof write}};
    stuck_ns = NS_PER_S;
    struct fx *x = fx_new(0, NULL, 0);
    stuck_ns = 0;
    struct fuse_out_header h;
    char body[256];
    send_init(x, EXT, 0);
    receive(x, &h, body, sizeof body);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t unique = 70 + i;
        x->hold = x->gets_on = true;
        x->hang = 1;
        send_request(x, cases[i].opcode, unique, cases[i].body, cases[i].len);
        eventually(x->hang == 0);
        clock_sleep_ns(3 * NS_PER_S / 2);
        x->gets_on = false;
        progress_of(1, 1);
        for (int64_t until = clock_mono_ns() + 3 * NS_PER_S / 2; clock_mono_ns() < until;) {
            progress_mark();
            clock_sleep_ns(NS_PER_MS);
        }
        assert_int_equal(x->stuck, i);
        receive(x, &h, body, sizeof body);
        assert_true(h.unique == unique && h.error == -EIO);
        eventually(x->stuck == (unsigned)i + 1);
        x->hold = false;
        eventually(x->hanging == 0);
    }
    fx_free(x);
}

/* An error of the connection ends the session, and is told. */
static void test_broken(void **state)
{
    (void)state;
    struct fx x = {0};
    int dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct session_conf sc = {
        .fd = dir, .save_init = save_init, .serving = serving, .unmounted = unmounted, .user = &x};
    x.session = session_new(&sc, &ops, &x, &x.e);
    assert_non_null(x.session);
    assert_int_equal(session_run(x.session, &x.e), -1);
    assert_int_equal(err_errno(&x.e), EISDIR);
    session_free(x.session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_old_kernel),
        cmocka_unit_test(test_passthrough),
        cmocka_unit_test(test_resent),
        cmocka_unit_test(test_taken_over),
        cmocka_unit_test(test_init_not_understood),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_stuck_long),
        cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
