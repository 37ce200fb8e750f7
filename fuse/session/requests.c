/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/session/requests.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"
#include "lib/base/task.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define WATCHED_MAX 1024 /* threads; those above are not watched */
#define LOOK_MIN_NS (10 * NS_PER_MS)
#define LOOK_MAX_NS NS_PER_S
#define LATE_LOOKS  3 /* so much passes between two looks of a process that runs */
#define GIVEN_UP    UINT64_MAX

/* A thread's request. */
struct request_slot {
    atomic_bool taken;       /* by a thread */
    _Atomic uint64_t unique; /* 0: none that is watched */
    _Atomic int64_t began_ns;
    _Atomic uint32_t opcode;
    atomic_bool is_long;             /* it may take any time, as long as it gets on */
    struct progress_things progress; /* of the thread */
    /* of the watching thread: what it saw of a request that may take long, and when that changed */
    uint64_t seen, seen_count;
    int64_t moved_ns;
};

struct requests {
    struct task task;
    int fd;
    int64_t after_ns;
    _Atomic int64_t ran_ns; /* as the watching thread last saw: reading it costs no call */
    void (*stuck)(void *user);
    void *user;
    struct request_slot slots[WATCHED_MAX];
};

static __thread struct requests *tl_requests;
static __thread struct request_slot *tl_slot;

static const char *soon_name(uint32_t opcode)
{
    switch (opcode) {
    case FUSE_LOOKUP:
        return "lookup";
    case FUSE_GETATTR:
        return "getattr";
    case FUSE_MKNOD:
        return "mknod";
    case FUSE_MKDIR:
        return "mkdir";
    case FUSE_RMDIR:
        return "rmdir";
    case FUSE_READ:
        return "read";
    case FUSE_STATFS:
        return "statfs";
    case FUSE_GETXATTR:
        return "getxattr";
    case FUSE_LISTXATTR:
        return "listxattr";
    case FUSE_OPENDIR:
        return "opendir";
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
        return "readdir";
    default:
        return NULL;
    }
}

/* The name of one that has to end soon by itself, or (*is_long) to get on; NULL: it has not. */
static const char *watched_name(const struct fuse_in_header *h, size_t len, bool *is_long)
{
    *is_long = false;
    switch (h->opcode) {
    case FUSE_OPEN: /* a writer may wait for an upload */
        *is_long = len >= sizeof *h + sizeof(struct fuse_open_in)
            && (((const struct fuse_open_in *)(h + 1))->flags & O_ACCMODE) != O_RDONLY;
        return "open";
    case FUSE_CREATE:
        *is_long = true;
        return "create";
    case FUSE_SETATTR:
        *is_long = true;
        return "setattr";
    case FUSE_UNLINK:
        *is_long = true;
        return "unlink";
    case FUSE_RENAME:
    case FUSE_RENAME2:
        *is_long = true;
        return "rename";
    case FUSE_WRITE:
        *is_long = true;
        return "write";
    case FUSE_FALLOCATE: /* of a file that is copied to be written */
        *is_long = true;
        return "fallocate";
    case FUSE_FLUSH:
        *is_long = true;
        return "close";
    case FUSE_FSYNC:
        *is_long = true;
        return "fsync";
    case FUSE_RELEASE: /* nobody waits for it, but its thread is lost all the same */
        *is_long = true;
        return "release";
    case FUSE_IOCTL: /* a pin fetches what it keeps */
        *is_long = true;
        return "ioctl";
    default:
        return soon_name(h->opcode);
    }
}

static const char *slot_name(uint32_t opcode)
{
    const struct {
        struct fuse_in_header h;
        struct fuse_open_in open;
    } any = {.h = {.opcode = opcode}};
    bool is_long;
    const char *name = watched_name(&any.h, sizeof any, &is_long);
    return name ? name : "unknown";
}

static void abort_request(struct requests *r, struct request_slot *slot, uint64_t unique)
{
    struct fuse_out_header h = {.len = sizeof h, .error = -EIO, .unique = unique};
    uint32_t opcode = atomic_load(&slot->opcode);
    if (!atomic_compare_exchange_strong(&slot->unique, &unique, GIVEN_UP))
        return; /* it is answered */
    if (write(r->fd, &h, sizeof h) != (ssize_t)sizeof h)
        return; /* its caller was killed */
    cleanup_free char *seconds = xasprintf("%lld", (long long)(r->after_ns / NS_PER_S));
    r->stuck(r->user);
    log_kv(LOG_ERROR,
        "a request does not end or get on: its caller gets an I/O error, and the thread that hangs in it is left alone",
        "op", slot_name(opcode), "afterSeconds", seconds, "flag", "--stuck-after", NULL);
}

/* Since when nothing has come of it. */
static int64_t still_since_ns(struct request_slot *slot, uint64_t unique, int64_t ran)
{
    uint64_t count = progress_count(&slot->progress);
    int64_t began = atomic_load(&slot->began_ns);
    if (!atomic_load(&slot->is_long))
        return began;
    if (slot->seen != unique || slot->seen_count != count) {
        slot->moved_ns = slot->seen == unique ? ran : began;
        slot->seen = unique;
        slot->seen_count = count;
    }
    return slot->moved_ns;
}

static void requests_thread(void *user)
{
    struct requests *r = user;
    int64_t look = MIN(MAX(r->after_ns / 8, LOOK_MIN_NS), LOOK_MAX_NS), before = clock_mono_ns();
    while (!task_wait(&r->task, before + look)) {
        int64_t now = clock_mono_ns(), ran = atomic_load(&r->ran_ns);
        ran += MIN(now - before, LATE_LOOKS * look);
        before = now;
        atomic_store(&r->ran_ns, ran);
        for (size_t i = 0; i < WATCHED_MAX; i++) {
            struct request_slot *slot = &r->slots[i];
            uint64_t unique = atomic_load(&slot->unique);
            if (unique && unique != GIVEN_UP
                && ran - still_since_ns(slot, unique, ran) >= r->after_ns)
                abort_request(r, slot, unique);
        }
    }
}

struct requests *requests_start(
    int fd, int64_t after_ns, void (*stuck)(void *user), void *user, struct err *e)
{
    struct requests *r = xcalloc(1, sizeof *r);
    r->fd = fd;
    r->after_ns = after_ns;
    r->stuck = stuck;
    r->user = user;
    if (after_ns <= 0 || task_start(&r->task, "mr-requests", requests_thread, r, e) == 0)
        return r;
    free(r);
    return NULL;
}

void requests_stop(struct requests *r)
{
    if (!r)
        return;
    task_stop(&r->task);
    free(r);
}

void requests_join(struct requests *r)
{
    tl_requests = r;
    for (size_t i = 0; i < WATCHED_MAX && !tl_slot; i++)
        if (!atomic_exchange(&r->slots[i].taken, true))
            tl_slot = &r->slots[i];
    progress_here(tl_slot ? &tl_slot->progress : NULL);
}

void requests_leave(void)
{
    progress_here(NULL);
    if (tl_slot) {
        atomic_store(&tl_slot->unique, 0);
        atomic_store(&tl_slot->taken, false);
    }
    tl_slot = NULL;
}

void requests_begin(const void *request, size_t len)
{
    const struct fuse_in_header *h = request;
    struct request_slot *slot = tl_slot;
    bool is_long;
    progress_of(h->nodeid, h->nodeid);
    if (!slot)
        return;
    atomic_store_explicit(&slot->unique, 0, memory_order_relaxed); /* it asked for no answer */
    if (!watched_name(h, len, &is_long))
        return;
    atomic_store_explicit(&slot->is_long, is_long, memory_order_relaxed);
    int64_t now = atomic_load_explicit(&tl_requests->ran_ns, memory_order_relaxed);
    atomic_store_explicit(&slot->began_ns, now, memory_order_relaxed);
    atomic_store_explicit(&slot->opcode, h->opcode, memory_order_relaxed);
    atomic_store_explicit(&slot->unique, h->unique, memory_order_release);
}

bool requests_end(uint64_t unique)
{
    if (!tl_slot)
        return true;
    uint64_t was = atomic_load_explicit(&tl_slot->unique, memory_order_relaxed);
    if (was == unique) /* unless it is given up just now */
        was = atomic_exchange(&tl_slot->unique, 0);
    else if (was != GIVEN_UP)
        return true; /* of one that is not watched */
    atomic_store_explicit(&tl_slot->unique, 0, memory_order_relaxed);
    return was != GIVEN_UP;
}
