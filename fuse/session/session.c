/* SPDX-License-Identifier: Apache-2.0 */
#define FUSE_USE_VERSION 314
#include "fuse/session/session.h"

#include "fuse/session/init.h"
#include "fuse/session/loop.h"
#include "fuse/session/requests.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/handoff/fuse_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define UNIQUE_RESENT (UINT64_C(1) << 63)
#define PAGE_BYTES    4096
/* Of so many threads, a write of any size finds its memory; of more, what is not a large write. */
#define WHOLE_MAX  32u
#define PART_BYTES ((size_t)16 << 10)

struct session {
    struct session_conf c;
    struct fuse_session *se;
    struct loop *loop;
    struct requests *requests;
    _Atomic int broken; /* errno that ended a thread */
    /* main thread, before the loop: the saved INIT is next to be read; its answer stays here */
    bool replay, swallow;
    _Atomic bool answered;      /* INIT */
    struct session_offer offer; /* the kernel's INIT */
    _Atomic bool unmounted;
    _Atomic unsigned whole; /* threads whose buffer is in place as a whole */
};

static struct session *the_session; /* libfuse gives its hooks what the operations get */
static __thread int32_t tl_backing;
static __thread bool tl_resent;
static __thread uint64_t tl_request;
static __thread const void *tl_in_place; /* this thread's buffer */
static __thread bool tl_whole;           /* counted in .whole */

/* The kernel copies a request into the pages of a buffer. Who is killed while one of them does not
 * exist yet makes the request fail with EIO, instead of leaving it to the next process
 * (fs/fuse/dev.c: fuse_dev_do_read() ends what it could not copy). */
static void put_in_place(struct session *s, char *buf, size_t len)
{
    if (tl_in_place == buf)
        return;
    tl_in_place = buf;
    if (s->c.writes && !tl_whole) {
        tl_whole = atomic_fetch_add(&s->whole, 1) < WHOLE_MAX;
        if (!tl_whole)
            atomic_fetch_sub(&s->whole, 1);
    }
    size_t in_place = tl_whole ? len : MIN(len, PART_BYTES);
    for (size_t i = 0; i < in_place; i += PAGE_BYTES)
        ((volatile char *)buf)[i] = 0;
    ((volatile char *)buf)[in_place - 1] = 0; /* it may begin anywhere in a page */
}

static ssize_t hook_read(int fd, void *buf, size_t len, void *user)
{
    struct session *s = the_session;
    (void)fd;
    (void)user;
    if (s->replay) {
        s->replay = false;
        s->swallow = true;
        memcpy(buf, s->c.init, s->c.init_len);
        session_offer_read(&s->offer, buf, s->c.init_len);
        return (ssize_t)s->c.init_len;
    }
    put_in_place(s, buf, len);
    ssize_t n = loop_read(s->loop, buf, len);
    if (n < 0 && errno == ENODEV) {
        atomic_store(&s->unmounted, true);
        s->c.unmounted(s->c.user);
        errno = ENODEV;
    }
    if (n < (ssize_t)sizeof(struct fuse_in_header))
        return n;
    const struct fuse_in_header *h = buf;
    tl_resent = (h->unique & UNIQUE_RESENT) != 0;
    tl_request = h->unique & ~UNIQUE_RESENT;
    tl_backing = 0;
    requests_begin(buf, (size_t)n);
    if (h->opcode == FUSE_INIT && !atomic_load(&s->answered)) {
        session_offer_read(&s->offer, buf, (size_t)n);
        s->c.save_init(s->c.user, buf, (size_t)n);
    }
    return n;
}

#define QUICK_IN_A_ROW 8 /* each takes less time than waking a follower */

static unsigned in_a_row(const void *request, size_t len)
{
    switch (len >= sizeof(struct fuse_in_header) ? ((const struct fuse_in_header *)request)->opcode
                                                 : 0) {
    case FUSE_LOOKUP:
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_GETATTR:
    case FUSE_OPEN:
    case FUSE_RELEASE:
    case FUSE_OPENDIR:
    case FUSE_RELEASEDIR:
    case FUSE_STATFS:
    case FUSE_INTERRUPT:
        return QUICK_IN_A_ROW;
    /* bytes in memory are copied at once, but other requests need not wait for that */
    case FUSE_READ:
        return 1;
    default:
        return 0;
    }
}

static void answer_requests(void *user)
{
    struct session *s = user;
    struct fuse_buf buf = {0};
    int n = -EINTR;
    requests_join(s->requests);
    while (!fuse_session_exited(s->se) && (n > 0 || (n == -EINTR && !loop_dismissed()))) {
        n = fuse_session_receive_buf(s->se, &buf);
        if (n > 0)
            fuse_session_process_buf(s->se, &buf);
    }
    free(buf.mem);
    atomic_fetch_sub(&s->whole, tl_whole);
    requests_leave();
    if (n < 0 && n != -EINTR && !fuse_session_exited(s->se)) {
        atomic_store(&s->broken, -n);
        fuse_session_exit(s->se);
    }
    if (fuse_session_exited(s->se))
        loop_end(s->loop);
}

static size_t total(const struct iovec *iov, int n)
{
    size_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += iov[i].iov_len;
    return sum;
}

static ssize_t hook_writev(int fd, struct iovec *iov, int n, void *user)
{
    struct session *s = the_session;
    (void)user;
    struct fuse_out_header *h = iov[0].iov_base;
    if (s->swallow) {
        s->swallow = false;
        atomic_store(&s->answered, true);
        return (ssize_t)total(iov, n);
    }
    bool init = !atomic_load(&s->answered) && h->unique == s->offer.unique;
    if (init && n > 1 && !h->error)
        session_init_patch(&s->offer, s->c.stack_depth, iov[1].iov_base, iov[1].iov_len);
    if (tl_backing && h->unique && !h->error && n > 1)
        session_open_patch(tl_backing, iov[1].iov_base, iov[1].iov_len);
    if (h->unique)
        tl_backing = 0;
    if (h->unique && !requests_end(h->unique)) {
        errno = ENOENT; /* as if he had been killed */
        return -1;
    }
    ssize_t w = writev(fd, iov, n);
    if (init && w > 0) {
        atomic_store(&s->answered, true);
        s->c.serving(s->c.user, &s->offer);
    }
    return w;
}

void session_pass_through(int32_t backing_id) { tl_backing = backing_id; }

bool session_resent(void) { return tl_resent; }
uint64_t session_request(void) { return tl_request; }

bool session_unmounted(const struct session *s) { return atomic_load(&s->unmounted); }

struct session *session_new(
    const struct session_conf *conf, const struct fuse_lowlevel_ops *ops, void *fs, struct err *e)
{
    static const struct fuse_custom_io io = {.writev = hook_writev, .read = hook_read};
    char name[] = "millrace";
    char *argv[] = {name, NULL};
    struct fuse_args args = FUSE_ARGS_INIT(1, argv);
    struct session *s = calloc(1, sizeof *s);
    if (!s) {
        err_sys(e, ENOMEM, "make a FUSE session");
        return NULL;
    }
    s->c = *conf;
    s->loop = loop_new(&(struct loop_conf){conf->fd, conf->threads ? conf->threads : 64,
                           answer_requests, in_a_row, s},
        e);
    if (!s->loop
        || !(s->requests = requests_start(conf->fd, conf->stuck_ns, conf->stuck, conf->user, e))) {
        loop_free(s->loop);
        free(s);
        return NULL;
    }
    the_session = s;
    s->se = fuse_session_new(&args, ops, sizeof *ops, fs);
    fuse_opt_free_args(&args);
    if (!s->se || fuse_session_custom_io(s->se, &io, conf->fd)) {
        err_set(e, ERR_FATAL, "libfuse refuses to make a session");
        session_free(s);
        return NULL;
    }
    return s;
}

/* Takes a session over: libfuse gets the INIT that was answered long ago, the kernel sends again
 * what was not answered. */
static int replay_init(struct session *s, struct err *e)
{
    struct fuse_buf buf = {0};
    s->replay = true;
    int n = fuse_session_receive_buf(s->se, &buf);
    if (n > 0)
        fuse_session_process_buf(s->se, &buf);
    free(buf.mem);
    if (n <= 0 || !atomic_load(&s->answered))
        return err_set(e, ERR_FATAL, "cannot take the session over: its INIT was not understood");
    struct fuse_out_header h = {.len = sizeof h, .error = FUSE_KERNEL_NOTIFY_RESEND, .unique = 0};
    if (session_offer_resend(&s->offer) && write(s->c.fd, &h, sizeof h) != (ssize_t)sizeof h)
        log_kv(LOG_WARN, "the kernel does not send requests again; those under way may hang",
            "error", strerror(errno), NULL);
    s->c.serving(s->c.user, &s->offer);
    return 0;
}

int session_run(struct session *s, struct err *e)
{
    if (s->c.init_len && replay_init(s, e))
        return -1;
    int flags = fcntl(s->c.fd, F_GETFL); /* threads sleep in poll() */
    if (flags < 0 || fcntl(s->c.fd, F_SETFL, flags | O_NONBLOCK))
        return err_sys(e, errno, "serve");
    if (loop_run(s->loop, e))
        return -1;
    int rc = atomic_load(&s->broken);
    return rc ? err_sys(e, rc, "read requests from the kernel") : 0;
}

void session_exit(struct session *s)
{
    fuse_session_exit(s->se);
    loop_end(s->loop);
}

bool session_serves(struct session *s, uint64_t *seen) { return loop_serves(s->loop, seen); }

void session_free(struct session *s)
{
    if (!s)
        return;
    requests_stop(s->requests); /* before libfuse closes the fd */
    if (s->se)
        fuse_session_destroy(s->se);
    loop_free(s->loop);
    the_session = NULL;
    free(s);
}

void session_invalidate_dir(struct session *s, uint64_t dir)
{
    int rc = fuse_lowlevel_notify_inval_inode(s->se, dir, 0, 0);
    if (rc && rc != -ENOENT && rc != -ENOTCONN)
        log_kv(LOG_WARN, "the kernel could not be told of a changed directory", "error",
            strerror(-rc), NULL);
}

int session_backing_open(struct session *s, int fd, int32_t *id, struct err *e)
{
    struct fuse_kernel_backing map = {.fd = fd};
    int rc = ioctl(s->c.fd, FUSE_KERNEL_BACKING_OPEN, &map);
    if (rc <= 0)
        return err_sys(e, rc < 0 ? errno : EIO, "register a backing file");
    *id = rc;
    return 0;
}

void session_backing_close(struct session *s, int32_t id)
{
    uint32_t value = (uint32_t)id;
    if (ioctl(s->c.fd, FUSE_KERNEL_BACKING_CLOSE, &value))
        log_kv(LOG_DEBUG, "a backing file could not be released", "error", strerror(errno), NULL);
}
