/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/mount.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mountinfo.h"
#include "lib/base/mutex.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define STACKED_MAX 64 /* mounts on one another at one path */

/* One call in its own thread. Owners: those who wait for it and the thread; the last one frees. */
struct guarded {
    struct guarded *next; /* guarded_mu */
    dev_t dev;            /* of a question that others may share; 0: none */
    pthread_mutex_t mu;
    pthread_cond_t changed;
    int owners; /* mu */
    bool done;  /* mu */
    int error;  /* mu: errno of the call */
    struct statfs fs;
    char *path;
    int (*call)(struct guarded *g); /* returns an errno */
};

/* Questions that have no answer yet. Before guarded.mu. */
static pthread_mutex_t guarded_mu = PTHREAD_MUTEX_INITIALIZER;
static struct guarded *guarded_open; /* guarded_mu */

/* Unlocks mu, and frees if it is the last owner. */
static void guarded_drop(struct guarded *g)
{
    mutex_assert_held(&g->mu);
    bool last = --g->owners == 0;
    pthread_mutex_unlock(&g->mu);
    if (!last)
        return;
    pthread_mutex_destroy(&g->mu);
    pthread_cond_destroy(&g->changed);
    free(g->path);
    free(g);
}

static void *guarded_run(void *arg)
{
    struct guarded *g = arg;
    int error = g->call(g);
    pthread_mutex_lock(&guarded_mu);
    struct guarded **at = &guarded_open;
    while (*at && *at != g)
        at = &(*at)->next;
    if (*at)
        *at = g->next;
    pthread_mutex_unlock(&guarded_mu);
    pthread_mutex_lock(&g->mu);
    g->done = true;
    g->error = error;
    pthread_cond_broadcast(&g->changed);
    guarded_drop(g);
    return NULL;
}

/* Starts the call, for its thread and one who waits. NULL: with the errno in *rc. */
static struct guarded *guarded_start(
    const char *path, int (*call)(struct guarded *), dev_t dev, int *rc)
{
    struct guarded *g = xcalloc(1, sizeof *g);
    pthread_mutex_init(&g->mu, NULL);
    clock_cond_init(&g->changed);
    g->owners = 2;
    g->path = xstrdup(path);
    g->call = call;
    g->dev = dev;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    *rc = pthread_create(&thread, &small, guarded_run, g);
    pthread_attr_destroy(&small);
    if (*rc == 0)
        return g;
    pthread_mutex_lock(&g->mu);
    g->owners = 1;
    guarded_drop(g);
    return NULL;
}

/* The question about dev that is under way, or one of our own. */
static struct guarded *guarded_join(
    const char *path, int (*call)(struct guarded *), dev_t dev, int *rc)
{
    pthread_mutex_lock(&guarded_mu);
    struct guarded *g = dev ? guarded_open : NULL;
    while (g && (g->dev != dev || g->call != call))
        g = g->next;
    if (g) {
        pthread_mutex_lock(&g->mu);
        g->owners++;
        pthread_mutex_unlock(&g->mu);
    } else if ((g = guarded_start(path, call, dev, rc)) && dev) {
        g->next = guarded_open;
        guarded_open = g;
    }
    pthread_mutex_unlock(&guarded_mu);
    return g;
}

/* 0, the call's errno, or ETIMEDOUT. */
static int guarded(const char *path, int (*call)(struct guarded *), dev_t dev, int64_t deadline_ns,
    struct statfs *fs)
{
    int rc = 0;
    struct guarded *g = guarded_join(path, call, dev, &rc);
    if (!g)
        return rc;
    pthread_mutex_lock(&g->mu);
    while (!g->done && rc == 0)
        rc = clock_cond_wait(&g->changed, &g->mu, deadline_ns);
    int error = g->done ? g->error : ETIMEDOUT;
    if (fs && error == 0)
        *fs = g->fs;
    guarded_drop(g);
    return error;
}

static int call_statfs(struct guarded *g) { return statfs(g->path, &g->fs) ? errno : 0; }

static int call_sync(struct guarded *g)
{
    cleanup_fd int fd = open(g->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || syncfs(fd) ? errno : 0;
}

/* mountinfo holds resolved paths, and the last component must not be touched: resolve its
 * directory. */
static char *resolved(const char *path)
{
    cleanup_free char *copy = xstrdup(path), *copy2 = xstrdup(path);
    char *dir = realpath(dirname(copy), NULL);
    if (!dir)
        return xstrdup(path);
    char *out = path_join(dir, basename(copy2));
    free(dir);
    return out;
}

int mount_at(const char *path, dev_t *dev, bool *fuse, bool *read_only, struct err *e)
{
    cleanup_mountinfo struct mountinfo all;
    if (mountinfo_read(&all, e))
        return -1;
    cleanup_free char *real = resolved(path);
    const struct mount_entry *m = mountinfo_find(&all, real);
    if (!m)
        return 0;
    if (dev)
        *dev = makedev(m->major, m->minor);
    if (fuse)
        *fuse = strcmp(m->type, MOUNT_TYPE) == 0;
    if (read_only)
        *read_only = m->read_only;
    return 1;
}

bool mount_seen_by(pid_t pid, dev_t dev)
{
    cleanup_mountinfo struct mountinfo all = {NULL, 0};
    struct err e = ERR_INIT;
    if (mountinfo_read_of(pid, &all, &e))
        return false;
    for (size_t i = 0; i < all.n; i++)
        if (all.entries[i].major == major(dev) && all.entries[i].minor == minor(dev))
            return true;
    return false;
}

int mount_fuse(const char *path, bool read_only, int *fuse_fd, dev_t *dev, struct err *e)
{
    cleanup_fd int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "open /dev/fuse (is the kernel module fuse loaded on this node?)");
    cleanup_free char *options = xasprintf(
        "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions", fd);
    if (mount("millrace", path, MOUNT_TYPE, MS_NOSUID | MS_NODEV | (read_only ? MS_RDONLY : 0),
            options))
        return err_sys(e, errno, "mount FUSE at %s", path);
    if (mount_at(path, dev, NULL, NULL, e) != 1) {
        umount2(path, UMOUNT_NOFOLLOW | MNT_FORCE | MNT_DETACH);
        return err_set(e, ERR_FATAL, "the FUSE mount at %s is not in mountinfo", path);
    }
    *fuse_fd = fd;
    fd = -1;
    return 0;
}

int mount_bind(const char *from, const char *to, uint64_t more, struct err *e)
{
    cleanup_fd int tree = open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return err_sys(e, errno, "bind %s", from);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | more};
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr))
        return err_sys(e, errno, "set the flags of the bind mount of %s", from);
    if (move_mount(tree, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH))
        return err_sys(e, errno, "bind %s at %s", from, to);
    return 0;
}

int mount_detach(const char *path, struct err *e)
{
    for (int i = 0; i < STACKED_MAX; i++) {
        int rc = mount_at(path, NULL, NULL, NULL, e);
        if (rc <= 0)
            return rc;
        if (umount2(path, UMOUNT_NOFOLLOW) == 0)
            continue;
        if (errno != EBUSY)
            return err_sys(e, errno, "unmount %s", path);
        log_kv(LOG_WARN, "a mount is busy: it goes when its last user does", "path", path, NULL);
        if (umount2(path, UMOUNT_NOFOLLOW | MNT_DETACH))
            return err_sys(e, errno, "unmount %s", path);
    }
    return err_set(e, ERR_FATAL, "%s has more than %d mounts on one another", path, STACKED_MAX);
}

int mount_end_fuse(const char *path, bool flush, int64_t deadline_ns, struct err *e)
{
    bool fuse = false;
    int rc = mount_at(path, NULL, &fuse, NULL, e);
    if (rc <= 0)
        return rc;
    if (!fuse)
        return mount_detach(path, e);
    int error = flush ? guarded(path, call_sync, 0, deadline_ns, NULL) : 0;
    if (error)
        log_kv(LOG_WARN, "the client did not write back what was dirty: aborting its mount", "path",
            path, "error", strerror(error), NULL);
    /* MNT_FORCE aborts the connection: everyone who waits for the client gets an error, nobody
     * waits for ever. */
    if (error || !flush)
        umount2(path, UMOUNT_NOFOLLOW | MNT_FORCE);
    rc = mount_at(path, NULL, NULL, NULL, e);
    if (rc <= 0)
        return rc;
    if (umount2(path, UMOUNT_NOFOLLOW | MNT_DETACH))
        return err_sys(e, errno, "unmount %s", path);
    return 0;
}

/* By a mount of fusectl that nobody sees: whether /sys has one does not matter. */
static int abort_by_fusectl(dev_t dev)
{
    cleanup_fd int context = fsopen("fusectl", FSOPEN_CLOEXEC);
    if (context < 0 || fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
        return -1;
    cleanup_fd int root = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    cleanup_free char *name = xasprintf("%u/abort", minor(dev));
    cleanup_fd int file = root < 0 ? -1 : openat(root, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    return file >= 0 && write(file, "1", 1) == 1 ? 0 : -1;
}

int mount_abort(const char *path, dev_t dev, struct err *e)
{
    dev_t now;
    int there = mount_at(path, &now, NULL, NULL, e);
    if (there <= 0)
        return there;
    if (now != dev)
        return err_set(e, ERR_CONFLICT, "another file system is mounted at %s", path);
    /* MNT_FORCE also unmounts what is not busy; nobody uses it then */
    if (abort_by_fusectl(dev) == 0 || umount2(path, UMOUNT_NOFOLLOW | MNT_FORCE) == 0
        || errno == EBUSY)
        return 0;
    return err_sys(e, errno, "abort the FUSE mount at %s", path);
}

int mount_statfs(const char *path, int64_t deadline_ns, struct statfs *out, struct err *e)
{
    dev_t dev = 0;
    if (mount_at(path, &dev, NULL, NULL, e) < 0)
        return -1;
    int error = guarded(path, call_statfs, dev, deadline_ns, out);
    if (error == ETIMEDOUT) {
        err_set(e, ERR_RETRY, "the file system at %s does not answer", path);
        e->sys = ETIMEDOUT;
        return -1;
    }
    return error ? err_sys(e, error, "statfs %s", path) : 0;
}

/* A pod's sysfs is its network namespace's own, and read-only if the first container to mount it
 * was not privileged: its pause. */
static int open_sys_write(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 || errno != EROFS
        || mount(NULL, "/sys", NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
        return fd;
    return open(path, O_WRONLY | O_CLOEXEC);
}

int mount_read_ahead(dev_t dev, int64_t kib, struct err *e)
{
    cleanup_free char *path = xasprintf(
        "/sys/class/bdi/%u:%u/read_ahead_kb", major(dev), minor(dev));
    cleanup_free char *now = file_read(path, 64, NULL, e);
    if (!now)
        return -1;
    if (strtoll(now, NULL, 10) >= kib)
        return 0;
    char text[24];
    int n = snprintf(text, sizeof text, "%" PRId64, kib);
    cleanup_fd int fd = open_sys_write(path);
    if (fd < 0 || write(fd, text, (size_t)n) != n)
        return err_sys(e, errno, "write %s", path);
    return 0;
}
