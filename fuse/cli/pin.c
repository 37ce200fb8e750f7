/* SPDX-License-Identifier: Apache-2.0 */
/* load, pin, unpin and free: asks a mount to bring files into the node's cache, to keep them there,
 * or to let them go. */
#include "fuse/cli/cli.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/human.h"
#include "lib/base/ioctl.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
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
#define NO_MOUNT    "%s is not on a mount of millrace, or on one of an older version"

/* What a request goes to: a directory that files are in, or a file; shared by its files. */
struct place {
    int fd;
    unsigned refs; /* mu */
    char *path;
};

struct job {
    struct job *next;
    struct place *at;
    char name[PIN_NAME]; /* "": the place itself */
};

struct run {
    enum pin_op op;
    bool progress;
    pthread_mutex_t mu;
    pthread_cond_t changed;
    struct job *head, **tail; /* mu */
    unsigned queued;          /* mu */
    bool walked, stop;        /* mu; nothing more comes; nothing more would succeed */
    /* mu; left: pinned ones that were not freed; PIN_ASK: that are not complete */
    uint64_t files, bytes, left, failed;
    int64_t told_ns; /* mu */
};

static void place_put(struct run *r, struct place *at)
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

static struct place *place_new(int fd, char *path_taken)
{
    struct place *at = xcalloc(1, sizeof *at);
    *at = (struct place){fd, 1, path_taken};
    return at;
}

/* -- telling --------------------------------------------------------------------------------- */

/* mu is held. */
static void clear_line(const struct run *r)
{
    if (r->progress && r->told_ns)
        fputs("\r\033[K", stderr);
}

/* mu is held. */
static void tell(struct run *r)
{
    char bytes[HUMAN_BYTES_LEN];
    int64_t now = clock_mono_ns();
    if (!r->progress || now - r->told_ns < PROGRESS_NS)
        return;
    clear_line(r);
    r->told_ns = now;
    fprintf(stderr, "%" PRIu64 " files, %s", r->files, human_bytes(r->bytes, bytes));
}

static void failed(struct run *r, const struct err *e, bool stop)
{
    pthread_mutex_lock(&r->mu);
    clear_line(r);
    if (r->failed++ < NAMED_MAX && !r->stop)
        say_failed(e);
    r->stop |= stop;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mu);
}

/* Why there was no room: what pins may have, or the disk. */
static void no_room(const struct run *r, const struct job *j, const char *path, struct err *e)
{
    char most[HUMAN_BYTES_LEN], pinned[HUMAN_BYTES_LEN], size[HUMAN_BYTES_LEN];
    struct pin_msg m = {.op = PIN_ASK, .len = INT64_MAX};
    memcpy(m.name, j->name, sizeof m.name);
    bool told = r->op == PIN_SET && ioctl(j->at->fd, PIN_IOCTL, &m) == 0;
    if (told
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

static void explain(struct run *r, const struct job *j, int errnum)
{
    struct err e = ERR_INIT;
    char text[sizeof e.msg] = "";
    cleanup_free char *path = *j->name ? path_join(j->at->path, j->name) : xstrdup(j->at->path);
    const char *why = NULL;
    if (errnum == ENOSPC) {
        no_room(r, j, path, &e);
    } else if (errnum == ENOTTY) {
        err_set(&e, ERR_INVALID, NO_MOUNT, path);
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
    failed(r, &e, errnum == ENOSPC || errnum == ENOTTY);
}

/* -- one file -------------------------------------------------------------------------------- */

static void count(struct run *r, uint64_t files, uint64_t bytes, uint64_t left)
{
    pthread_mutex_lock(&r->mu);
    r->files += files;
    r->bytes += bytes;
    r->left += left;
    tell(r);
    pthread_mutex_unlock(&r->mu);
}

/* In pieces. 0, or the errno; *done: bytes that came. */
static int bring(struct run *r, const struct job *j, struct pin_msg *m, uint64_t *done)
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
        count(r, 0, piece, 0);
    } while (*done < m->size);
    return 0;
}

static void do_file(struct run *r, const struct job *j)
{
    struct pin_msg m = {.op = r->op, .len = INT64_MAX};
    memcpy(m.name, j->name, sizeof m.name);
    bool moves = r->op == PIN_LOAD || r->op == PIN_SET;
    uint64_t done = 0;
    int errnum = ESTALE;
    for (int i = 0; i < TRIES && errnum == ESTALE; i++) {
        count(r, 0, -done, 0); /* another version: from its beginning */
        errnum = moves ? bring(r, j, &m, &done) : ioctl(j->at->fd, PIN_IOCTL, &m) ? errno : 0;
    }
    if (errnum == ENOENT && *j->name)
        return; /* removed since it was listed */
    if (errnum)
        explain(r, j, errnum);
    else if (r->op == PIN_ASK)
        count(r, 1, 0, m.cached < m.size && !(m.state & PIN_STAGED));
    else if (r->op == PIN_FREE)
        count(r, m.cached > 0, m.cached, (m.state & PIN_PINNED) != 0);
    else
        count(r, r->op != PIN_CLEAR || m.state & PIN_PINNED, 0, 0);
}

static void *work(void *arg)
{
    struct run *r = arg;
    pthread_mutex_lock(&r->mu);
    while (r->head || !r->walked) {
        struct job *j = r->head;
        if (!j) {
            pthread_cond_wait(&r->changed, &r->mu);
            continue;
        }
        r->head = j->next;
        if (!r->head)
            r->tail = &r->head;
        r->queued--;
        pthread_cond_broadcast(&r->changed);
        bool stop = r->stop;
        pthread_mutex_unlock(&r->mu);
        if (!stop)
            do_file(r, j);
        place_put(r, j->at);
        free(j);
        pthread_mutex_lock(&r->mu);
    }
    pthread_mutex_unlock(&r->mu);
    return NULL;
}

/* -- finding them ---------------------------------------------------------------------------- */

/* false: stop looking. */
static bool add(struct run *r, struct place *at, const char *name)
{
    struct job *j = xcalloc(1, sizeof *j);
    j->at = at;
    snprintf(j->name, sizeof j->name, "%s", name);
    pthread_mutex_lock(&r->mu);
    while (r->queued >= QUEUE_MAX && !r->stop)
        pthread_cond_wait(&r->changed, &r->mu);
    bool go_on = !r->stop;
    if (go_on) {
        at->refs++;
        *r->tail = j;
        r->tail = &j->next;
        r->queued++;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->mu);
    if (!go_on)
        free(j);
    return go_on;
}

static unsigned type_of(int fd, const struct dirent *de)
{
    struct stat st;
    if (de->d_type != DT_UNKNOWN || fstatat(fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW))
        return de->d_type;
    return IFTODT(st.st_mode);
}

static void cannot_read(struct run *r, const char *path)
{
    struct err e = ERR_INIT;
    err_sys(&e, errno, "%s", path);
    failed(r, &e, false);
}

/* Takes the fd over. */
static bool walk(struct run *r, int fd, const char *path)
{
    struct place *at = place_new(fd, xstrdup(path));
    /* readdir has one of its own */
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = again < 0 ? NULL : fdopendir(again);
    bool go_on = true;
    errno = d ? 0 : errno;
    for (struct dirent *de; d && go_on && (de = readdir(d)); errno = 0) {
        unsigned type = type_of(fd, de);
        if (type == DT_REG) {
            go_on = add(r, at, de->d_name);
        } else if (type == DT_DIR && strcmp(de->d_name, ".") != 0
            && strcmp(de->d_name, "..") != 0) {
            cleanup_free char *sub = path_join(path, de->d_name);
            int sub_fd = openat(fd, de->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (sub_fd >= 0)
                go_on = walk(r, sub_fd, sub);
            else if (errno != ENOENT)
                cannot_read(r, sub);
        }
    }
    if (go_on && errno)
        cannot_read(r, path);
    if (d)
        closedir(d);
    place_put(r, at);
    return go_on;
}

static void find(struct run *r, char **paths, int n)
{
    struct stat st;
    bool go_on = true;
    for (int i = 0; i < n && go_on; i++) {
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st)) {
            cannot_read(r, paths[i]);
            if (fd >= 0)
                close(fd);
        } else if (S_ISDIR(st.st_mode)) {
            go_on = walk(r, fd, paths[i]);
        } else {
            struct place *at = place_new(fd, xstrdup(paths[i]));
            go_on = add(r, at, "");
            place_put(r, at);
        }
    }
}

static int run_all(struct run *r, char **paths, int n)
{
    pthread_t threads[THREADS];
    int started = 0;
    pthread_mutex_init(&r->mu, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->tail = &r->head;
    while (started < THREADS && pthread_create(&threads[started], NULL, work, r) == 0)
        started++;
    struct err e = ERR_INIT;
    if (!started)
        return err_set(&e, ERR_EXHAUSTED, "no thread could be started"), say_failed(&e);
    find(r, paths, n);
    pthread_mutex_lock(&r->mu);
    r->walked = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mu);
    while (started)
        pthread_join(threads[--started], NULL);
    clear_line(r);
    if (r->failed > NAMED_MAX && !r->stop)
        fprintf(stderr, "millrace: and %" PRIu64 " files more\n", r->failed - NAMED_MAX);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mu);
    return r->failed ? CLI_FAILED : CLI_DONE;
}

/* -- verbs ----------------------------------------------------------------------------------- */

static int start(const struct args *a, struct run *r)
{
    for (int i = 0; i < a->npos; i++)
        if (is_url(a->pos[i]))
            return say_misuse(
                "%s: give the path of a file or directory in a mount, not a URL", a->pos[i]);
    r->progress = isatty(STDERR_FILENO) && (r->op == PIN_LOAD || r->op == PIN_SET);
    return run_all(r, a->pos, a->npos);
}

static void print_sum(const char *what, const struct run *r)
{
    char bytes[HUMAN_BYTES_LEN];
    printf("%s %" PRIu64 " files, %s\n", what, r->files, human_bytes(r->bytes, bytes));
}

int verb_load(const struct verb *v, int argc, char **argv)
{
    cleanup_args struct args a;
    int rc = args_parse(&a, v, NULL, 0, argc, argv);
    if (rc >= 0)
        return rc;
    struct run r = {.op = PIN_LOAD}, now = {.op = PIN_ASK};
    if ((rc = start(&a, &r)) == CLI_MISUSE)
        return rc;
    print_sum("loaded", &r);
    fflush(stdout);
    if (rc == CLI_DONE && (rc = start(&a, &now)) == CLI_DONE && now.left) {
        struct err e = ERR_INIT;
        err_set(&e, ERR_EXHAUSTED,
            "%" PRIu64
            " of these files are not in the cache any more: it has no room for all of them at once; pin them, or "
            "raise its quota",
            now.left);
        rc = say_failed(&e);
    }
    return rc;
}

int verb_pin(const struct verb *v, int argc, char **argv)
{
    cleanup_args struct args a;
    int rc = args_parse(&a, v, NULL, 0, argc, argv);
    if (rc >= 0)
        return rc;
    struct run r = {.op = PIN_SET};
    if ((rc = start(&a, &r)) != CLI_MISUSE)
        print_sum("pinned", &r);
    return rc;
}

static int unpin_all(const char *path)
{
    struct err e = ERR_INIT;
    struct pin_msg m = {.op = PIN_CLEAR_ALL};
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        err_sys(&e, errno, "%s", path);
    else if (ioctl(fd, PIN_IOCTL, &m) == 0)
        return CLI_DONE;
    else if (errno == ENOTTY)
        err_set(&e, ERR_INVALID, NO_MOUNT, path);
    else
        err_sys(&e, errno, "%s", path);
    return say_failed(&e);
}

int verb_unpin(const struct verb *v, int argc, char **argv)
{
    bool all = false;
    const struct opt table[] = {
        {"all", OPT_BOOL, &all, NULL,
            "all pinned files of the mount that PATH is on, also such that the store has no more"},
    };
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    for (int i = 0; i < a.npos && all; i++)
        if (unpin_all(a.pos[i]))
            return CLI_FAILED;
    struct run r = {.op = PIN_CLEAR};
    if (!all && (rc = start(&a, &r)) != CLI_MISUSE)
        printf("unpinned %" PRIu64 " files\n", r.files);
    return all ? CLI_DONE : rc;
}

int verb_free(const struct verb *v, int argc, char **argv)
{
    cleanup_args struct args a;
    int rc = args_parse(&a, v, NULL, 0, argc, argv);
    if (rc >= 0)
        return rc;
    struct run r = {.op = PIN_FREE};
    if ((rc = start(&a, &r)) == CLI_MISUSE)
        return rc;
    print_sum("freed", &r);
    if (r.left)
        printf("%" PRIu64 " pinned files were left: millrace unpin lets them go\n", r.left);
    return rc;
}
