/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a mount, for each of many files, to fetch, pin, unpin or free it: several at a time. */
#include "fuse/cli/pin_run.h"

#include "fuse/cli/cli.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define THREADS     16
#define QUEUE_MAX   256 /* files found and not begun: each may hold a directory open */
#define NAMED_MAX   20  /* files that failed, by name */
#define TRIES       3   /* of a file that changes meanwhile */
#define PROGRESS_NS (200 * NS_PER_MS)

/* What a request goes to: a directory that files are in, or a file; shared by its jobs. */
struct pin_place {
    int fd;
    unsigned refs; /* mu */
    char *path;
};

struct pin_job {
    struct pin_run *run;
    struct pin_place *at;
    char name[PIN_NAME]; /* "": the place itself */
};

static void pin_place_put(struct pin_run *r, struct pin_place *at)
{
    pthread_mutex_lock(&r->mu);
    bool last = --at->refs == 0;
    pthread_mutex_unlock(&r->mu);
    if (!last)
        return;
    close(at->fd);
    free(at->path);
    free(at);
}

static struct pin_place *pin_place_new(int fd, char *path_taken)
{
    struct pin_place *at = xcalloc(1, sizeof *at);
    *at = (struct pin_place){fd, 1, path_taken};
    return at;
}

/* -- progress --------------------------------------------------------------------------------- */

/* mu is held. */
static void clear_line(const struct pin_run *r)
{
    if (r->progress && r->shown_ns)
        fputs("\r\033[K", stderr);
}

/* mu is held. */
static void show_progress(struct pin_run *r)
{
    char bytes[HUMAN_BYTES_LEN];
    int64_t now = clock_mono_ns();
    if (!r->progress || now - r->shown_ns < PROGRESS_NS)
        return;
    clear_line(r);
    r->shown_ns = now;
    fprintf(stderr, "%" PRIu64 " files, %s", r->files, human_bytes(r->bytes, bytes));
}

static void pin_failed(struct pin_run *r, const struct err *e, bool stop)
{
    pthread_mutex_lock(&r->mu);
    clear_line(r);
    if (r->failed++ < NAMED_MAX && !r->stop)
        cli_failed(e);
    r->stop |= stop;
    pthread_mutex_unlock(&r->mu);
}

/* Why there was no room: what pins may have, or the disk. */
static void err_no_room(
    const struct pin_run *r, const struct pin_job *j, const char *path, struct err *e)
{
    char most[HUMAN_BYTES_LEN], pinned[HUMAN_BYTES_LEN], size[HUMAN_BYTES_LEN];
    struct pin_msg m = {.op = PIN_ASK, .len = INT64_MAX};
    memcpy(m.name, j->name, sizeof m.name);
    bool known = r->op == PIN_SET && ioctl(j->at->fd, PIN_IOCTL, &m) == 0;
    if (known
        && (m.state & PIN_PINNED ? m.size - m.cached : m.size) > m.most - MIN(m.pinned, m.most))
        err_set(e, ERR_EXHAUSTED,
            "%s (%s) is not pinned: pinned files may have %s, half of the cache, and have %s; unpin something "
            "(millrace unpin), or raise the cache's quota",
            path, human_bytes(m.size, size), human_bytes(m.most, most),
            human_bytes(m.pinned, pinned));
    else
        err_set(e, ERR_EXHAUSTED,
            "%s: the cache has no room for it: raise its quota, make room on its disk, or unpin something",
            path);
}

static void report_errno(struct pin_run *r, const struct pin_job *j, int errnum)
{
    struct err e = ERR_INIT;
    char text[sizeof e.msg] = "";
    cleanup_free char *path = *j->name ? path_join(j->at->path, j->name) : xstrdup(j->at->path);
    const char *why = NULL;
    if (errnum == ENOSPC) {
        err_no_room(r, j, path, &e);
    } else if (errnum == ENOTTY) {
        err_set(&e, ERR_INVALID, PIN_NO_MOUNT, path);
    } else if (errnum == EBUSY) {
        err_set(&e, ERR_CONFLICT, "%s is being written: pin it once it is closed", path);
    } else {
        /* the client's own words, after the time: what the store said */
        if (errnum == EIO && getxattr(path, XATTR_ERROR, text, sizeof text - 1) > 0)
            why = strchr(text, ' ');
        if (why)
            err_set(&e, ERR_RETRY, "%s:%s", path, why);
        else
            err_sys(&e, errnum, "%s", path);
    }
    pin_failed(r, &e, errnum == ENOSPC || errnum == ENOTTY);
}

/* -- one file -------------------------------------------------------------------------------- */

static void count_done(struct pin_run *r, uint64_t files, uint64_t bytes, uint64_t left)
{
    pthread_mutex_lock(&r->mu);
    r->files += files;
    r->bytes += bytes;
    r->left += left;
    show_progress(r);
    pthread_mutex_unlock(&r->mu);
}

/* In pieces. 0, or the errno; *done: bytes that came. */
static int fetch_file(struct pin_run *r, const struct pin_job *j, struct pin_msg *m, uint64_t *done)
{
    *done = 0;
    do {
        *m = (struct pin_msg){.op = r->op, .off = *done, .len = PIN_PIECE};
        memcpy(m->name, j->name, sizeof m->name);
        if (ioctl(j->at->fd, PIN_IOCTL, m))
            return errno;
        if (m->state & PIN_STAGED) /* it was opened for writing in between */
            return r->op == PIN_SET ? EBUSY : 0;
        uint64_t piece = MIN(PIN_PIECE, m->size - MIN(*done, m->size));
        *done += piece;
        count_done(r, 0, piece, 0);
    } while (*done < m->size);
    return 0;
}

static void request_file(struct pin_run *r, const struct pin_job *j)
{
    struct pin_msg m = {.op = r->op, .len = INT64_MAX};
    memcpy(m.name, j->name, sizeof m.name);
    bool moves = r->op == PIN_LOAD || r->op == PIN_SET;
    uint64_t done = 0;
    int errnum = ESTALE;
    for (int i = 0; i < TRIES && errnum == ESTALE; i++) {
        count_done(r, 0, -done, 0); /* another version: from its beginning */
        errnum = moves ? fetch_file(r, j, &m, &done) : ioctl(j->at->fd, PIN_IOCTL, &m) ? errno : 0;
    }
    if (errnum == ENOENT && *j->name)
        return; /* removed since it was listed */
    if (errnum)
        report_errno(r, j, errnum);
    else if (r->op == PIN_ASK)
        count_done(r, 1, 0, m.cached < m.size && !(m.state & PIN_STAGED));
    else if (r->op == PIN_FREE)
        count_done(r, m.cached > 0, m.cached, (m.state & PIN_PINNED) != 0);
    else
        count_done(r, r->op != PIN_CLEAR || m.state & PIN_PINNED, 0, 0);
}

static void pin_job_run(void *arg)
{
    struct pin_job *j = arg;
    struct pin_run *r = j->run;
    pthread_mutex_lock(&r->mu);
    bool stop = r->stop;
    pthread_mutex_unlock(&r->mu);
    if (!stop)
        request_file(r, j);
    pin_place_put(r, j->at);
    free(j);
}

/* -- all files ------------------------------------------------------------------------------- */

/* False: nothing more would succeed. Waits while many files are queued. */
static bool add_job(struct pin_run *r, struct pin_place *at, const char *name)
{
    struct pin_job *j = xcalloc(1, sizeof *j);
    *j = (struct pin_job){.run = r, .at = at};
    snprintf(j->name, sizeof j->name, "%s", name);
    pthread_mutex_lock(&r->mu);
    bool go_on = !r->stop;
    at->refs += go_on;
    pthread_mutex_unlock(&r->mu);
    if (!go_on)
        free(j);
    else if (pool_add(r->pool, 0, pin_job_run, j))
        pin_job_run(j);
    return go_on;
}

static unsigned type_of(int fd, const struct dirent *de)
{
    struct stat st;
    if (de->d_type != DT_UNKNOWN || fstatat(fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW))
        return de->d_type;
    return IFTODT(st.st_mode);
}

static void err_unreadable(struct pin_run *r, const char *path)
{
    struct err e = ERR_INIT;
    err_sys(&e, errno, "%s", path);
    pin_failed(r, &e, false);
}

/* Takes the fd over. */
static bool add_below(struct pin_run *r, int fd, const char *path)
{
    struct pin_place *at = pin_place_new(fd, xstrdup(path));
    /* readdir has one of its own */
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = again < 0 ? NULL : fdopendir(again);
    bool go_on = true;
    errno = d ? 0 : errno;
    for (struct dirent *de; d && go_on && (de = readdir(d)); errno = 0) {
        unsigned type = type_of(fd, de);
        if (type == DT_REG) {
            go_on = add_job(r, at, de->d_name);
        } else if (type == DT_DIR && strcmp(de->d_name, ".") != 0
            && strcmp(de->d_name, "..") != 0) {
            cleanup_free char *sub = path_join(path, de->d_name);
            int sub_fd = openat(fd, de->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (sub_fd >= 0)
                go_on = add_below(r, sub_fd, sub);
            else if (errno != ENOENT)
                err_unreadable(r, sub);
        }
    }
    if (go_on && errno)
        err_unreadable(r, path);
    if (d)
        closedir(d);
    pin_place_put(r, at);
    return go_on;
}

static void add_paths(struct pin_run *r, char **paths, int n)
{
    struct stat st;
    bool go_on = true;
    for (int i = 0; i < n && go_on; i++) {
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st)) {
            err_unreadable(r, paths[i]);
            if (fd >= 0)
                close(fd);
        } else if (S_ISDIR(st.st_mode)) {
            go_on = add_below(r, fd, paths[i]);
        } else {
            struct pin_place *at = pin_place_new(fd, xstrdup(paths[i]));
            go_on = add_job(r, at, "");
            pin_place_put(r, at);
        }
    }
}

int pin_run_paths(struct pin_run *r, char **paths, int n)
{
    pthread_mutex_init(&r->mu, NULL);
    r->pool = pool_new(
        &(struct pool_conf){.name = "pin", .threads = THREADS, .queue_max = QUEUE_MAX});
    struct err e = ERR_INIT;
    if (!r->pool)
        return err_set(&e, ERR_EXHAUSTED, "no memory for threads"), cli_failed(&e);
    add_paths(r, paths, n);
    pool_free(r->pool);
    clear_line(r);
    if (r->failed > NAMED_MAX && !r->stop)
        fprintf(stderr, "millrace: and %" PRIu64 " files more\n", r->failed - NAMED_MAX);
    pthread_mutex_destroy(&r->mu);
    return r->failed ? CLI_FAILED : CLI_DONE;
}
