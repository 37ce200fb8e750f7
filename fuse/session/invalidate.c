/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/session/invalidate.h"

#include "lib/base/log.h"
#include "lib/base/mutex.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPE_BYTES (1 << 20) /* if the kernel allows them */

struct invalidation { /* of one size: a helper that is killed leaves no part of one to the next */
    uint64_t dir;
    char name[NAME_MAX + 1];
};
_Static_assert(
    sizeof(struct invalidation) <= PIPE_BUF, "a record is written at once or not at all");

struct invalidator {
    pthread_mutex_t mu;
    int in, out;  /* of the pipe: the helper's end, kept for the next one; ours */
    int fuse_fd;  /* mu; -1 before invalidator_start */
    pid_t helper; /* mu; 0: none */
};

/* -- the helper: no locks and no memory of the process that it was copied from --------------- */

static void notify_entry(int fuse_fd, const struct invalidation *r, size_t len)
{
    struct {
        struct fuse_out_header h;
        struct fuse_notify_inval_entry_out o;
        char name[sizeof r->name];
    } m = {.o = {.parent = r->dir, .namelen = (uint32_t)len}};
    size_t size = sizeof m.h + sizeof m.o + len + 1;
    m.h = (struct fuse_out_header){.len = (uint32_t)size, .error = FUSE_NOTIFY_INVAL_ENTRY};
    memcpy(m.name, r->name, len);
    if (write(fuse_fd, &m, size) < 0)
        return; /* no matter, see invalidate.h */
}

static void notify_dir(int fuse_fd, uint64_t dir)
{
    struct {
        struct fuse_out_header h;
        struct fuse_notify_inval_inode_out o;
    } m = {{.len = sizeof m, .error = FUSE_NOTIFY_INVAL_INODE}, {.ino = dir}};
    if (write(fuse_fd, &m, sizeof m) < 0)
        return;
}

/* Has the files that it needs and no others: what the serving process has locked is free when that
 * ends. */
static _Noreturn void helper_main(int in, int fuse_fd)
{
    struct invalidation r;
    prctl(PR_SET_NAME, "millrace-inval");
    if (dup2(in, STDIN_FILENO) < 0 || dup2(fuse_fd, STDOUT_FILENO) < 0)
        _exit(1);
    if (close_range(STDERR_FILENO, ~0u, 0))
        for (int fd = (int)sysconf(_SC_OPEN_MAX); fd >= STDERR_FILENO; fd--)
            close(fd);
    while (read(STDIN_FILENO, &r, sizeof r) == (ssize_t)sizeof r) {
        size_t len = strnlen(r.name, sizeof r.name - 1);
        if (len)
            notify_entry(STDOUT_FILENO, &r, len);
        else
            notify_dir(STDOUT_FILENO, r.dir);
    }
    _exit(0);
}

/* -- the serving process --------------------------------------------------------------------- */

static int start_helper(struct invalidator *v)
{
    mutex_assert_held(&v->mu);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        helper_main(v->in, v->fuse_fd);
    int saved = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    v->helper = pid > 0 ? pid : 0;
    errno = saved;
    return pid > 0 ? 0 : -1;
}

/* If the helper was killed, the pipe has no reader. */
static void restart_helper(struct invalidator *v)
{
    mutex_assert_held(&v->mu);
    if (v->fuse_fd < 0 || (v->helper && waitpid(v->helper, NULL, WNOHANG) == 0))
        return;
    if (start_helper(v))
        log_kv(LOG_WARN, "what changed in the store is seen later: no process to tell the kernel",
            "error", strerror(errno), NULL);
}

void invalidator_add(void *invalidator, uint64_t dir, const char *name)
{
    struct invalidator *v = invalidator;
    struct invalidation r = {.dir = dir};
    size_t len = strlen(name);
    if (len >= sizeof r.name)
        return; /* no name of ours */
    memcpy(r.name, name, len);
    pthread_mutex_lock(&v->mu);
    restart_helper(v);
    ssize_t n = write(v->out, &r, sizeof r);
    pthread_mutex_unlock(&v->mu);
    if (n < 0 && errno != EAGAIN)
        log_kv(LOG_WARN, "the kernel could not be told of a changed name", "name", name, "error",
            strerror(errno), NULL);
}

struct invalidator *invalidator_new(struct err *e)
{
    int p[2];
    struct invalidator *v = calloc(1, sizeof *v);
    if (!v || pipe2(p, O_CLOEXEC)) {
        err_sys(e, v ? errno : ENOMEM, "queue of invalidations");
        free(v);
        return NULL;
    }
    *v = (struct invalidator){.in = p[0], .out = p[1], .fuse_fd = -1};
    pthread_mutex_init(&v->mu, NULL);
    if (fcntl(v->out, F_SETPIPE_SZ, PIPE_BYTES) < 0)
        log_kv(LOG_DEBUG, "a small queue of invalidations", "error", strerror(errno), NULL);
    int flags = fcntl(v->out, F_GETFL);
    if (flags < 0 || fcntl(v->out, F_SETFL, flags | O_NONBLOCK)) {
        err_sys(e, errno, "queue of invalidations");
        invalidator_stop(v);
        return NULL;
    }
    return v;
}

int invalidator_start(struct invalidator *v, int fuse_fd, struct err *e)
{
    pthread_mutex_lock(&v->mu);
    v->fuse_fd = fuse_fd;
    int rc = start_helper(v)
        ? err_sys(e, errno, "start the process that tells the kernel of changes")
        : 0;
    pthread_mutex_unlock(&v->mu);
    return rc;
}

void invalidator_stop(struct invalidator *v)
{
    if (!v)
        return;
    close(v->out);
    close(v->in);
    pthread_mutex_destroy(&v->mu);
    free(v);
}
