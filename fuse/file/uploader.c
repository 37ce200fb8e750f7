/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/uploader.h"

#include "fuse/file/sidecar.h"
#include "fuse/file/upload.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TICK_NS NS_PER_S
/* a file that is held open is uploaded when it was dirty that long … */
#define LIVE_NS         (30 * NS_PER_S)
#define QUIET_NS        (2 * NS_PER_S) /* … and not written to for a moment, */
#define LIVE_BUSY_BYTES (64 << 20)     /* or is not large */

struct uploader {
    struct files *fs;
    struct store **stores;
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t wake;
    bool stop;        /* mu */
    bool leftovers;   /* of the thread: content without an inode may be there */
    uint64_t pending; /* of the thread */
    bool last;        /* of the thread: about to stop */
};

static bool is_due(const struct file *f, bool last)
{
    int64_t now = clock_mono_ns(), retry = atomic_load(&f->retry_ns);
    if (last)
        return true;
    if (retry)
        return now >= retry;
    struct inode n;
    if (inodes_get(files_config(f->files)->inodes, f->ino, &n))
        return false;
    bool quiet = now - atomic_load(&f->write_ns) >= QUIET_NS;
    if (n.opens == 0) /* a shared mapping outlived its file, or the process that closed it */
        return quiet;
    return now - atomic_load(&f->dirty_ns) >= LIVE_NS && (quiet || n.size <= LIVE_BUSY_BYTES);
}

static void visit(void *user, struct file *f)
{
    struct uploader *w = user;
    struct err e = ERR_INIT;
    if (!file_is_dirty(f))
        return;
    w->pending++;
    if (!is_due(f, w->last))
        return;
    pthread_mutex_lock(&f->state_lock);
    if (file_upload_locked(f, &e) == 0) {
        w->pending--;
        file_finish(f);
    }
    pthread_mutex_unlock(&f->state_lock);
}

static char *sidecar_path(const char *dir, const char *name)
{
    return xasprintf("%s/%s.path", dir, name);
}

static int read_sidecar(const char *file, size_t nmounts, struct sidecar *out, struct err *e)
{
    size_t len;
    cleanup_free char *text = file_read(file, SIDECAR_MAX, &len, e);
    return text ? sidecar_parse(text, len, nmounts, file, out, e) : -1;
}

/* Content of a mount that is no more. Uploaded where it belongs, unless somebody else changed that
 * file since; then it is kept. */
static int recover(struct uploader *w, const char *name, struct err *e)
{
    const struct files_conf *c = files_config(w->fs);
    cleanup_free char *file = path_join(c->stage_dir, name);
    cleanup_free char *sidecar = sidecar_path(c->stage_dir, name);
    struct sidecar where;
    struct store_stat st = {0};
    struct stat content;
    if (read_sidecar(sidecar, c->conf->nmounts, &where, e))
        return -1;
    struct store *store = w->stores[where.mount];
    cleanup_fd int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &content))
        return err_sys(e, errno, "open %s", file);
    if (!store)
        return err_set(e, ERR_RETRY, "the store of mount %u cannot be used", where.mount);
    if (store_stat_path(store, where.path, &st, e) && e->cls != ERR_NOTFOUND)
        return -1;
    if (strcmp(st.version, where.version) != 0) {
        cleanup_free char *kept = xasprintf("%s/lost/%s", c->stage_dir, name);
        cleanup_free char *kept_sidecar = xasprintf("%s.path", kept);
        cleanup_free char *dir = xasprintf("%s/lost", c->stage_dir);
        if (file_mkdirs(dir, 0700, e) || rename(file, kept) || rename(sidecar, kept_sidecar))
            return err_sys(e, errno, "keep %s", file);
        log_kv(LOG_ERROR,
            "a file that was written before a crash was changed by somebody else since: our content is kept aside",
            "path", where.path, "kept", kept, NULL);
        return 0;
    }
    if (store_put(store, where.path, fd, (uint64_t)content.st_size, &st, e))
        return -1;
    unlink(file);
    unlink(sidecar);
    log_kv(LOG_INFO, "a file that was written before a crash is in the store now", "path",
        where.path, NULL);
    return 0;
}

/* Is this the staging file of an inode that the index knows? */
static bool belongs(struct files *fs, const char *name)
{
    uint64_t ino, generation;
    struct inode n;
    struct err e = ERR_INIT;
    if (sscanf(name, "%" SCNu64 "-%" SCNu64, &ino, &generation) != 2
        || inodes_get(files_config(fs)->inodes, ino, &n) || n.generation != generation
        || !(n.flags & INODE_STAGED))
        return false;
    struct file *f = files_get(fs, ino, &e);
    if (f)
        files_put(f);
    return f != NULL;
}

/* A file beside content that is not there, or one that was never finished. */
static void tidy(const char *dir, const char *name)
{
    size_t len = strlen(name), end = strlen(".path");
    cleanup_free char *file = path_join(dir, name);
    cleanup_free char *content = xstrndup(file, strlen(file) - MIN(end, len));
    if (len > end && strcmp(name + len - end, ".path") == 0 && access(content, F_OK) == 0)
        return;
    unlink(file);
}

/* Goes through the staging directory once. Returns how many files without an inode are still there.
 */
static size_t sweep(struct uploader *w, bool adopt_only)
{
    const struct files_conf *c = files_config(w->fs);
    size_t left = 0;
    DIR *d = opendir(c->stage_dir);
    for (struct dirent *de; d && (de = readdir(d));) {
        struct err e = ERR_INIT;
        if (de->d_name[0] < '0' || de->d_name[0] > '9')
            continue;
        if (strchr(de->d_name, '.')) {
            if (adopt_only) /* at the start: nobody is making one now */
                tidy(c->stage_dir, de->d_name);
            continue;
        }
        if (belongs(w->fs, de->d_name))
            continue;
        if (adopt_only) {
            left++;
            continue;
        }
        if (recover(w, de->d_name, &e) == 0)
            continue;
        cleanup_free char *sidecar = sidecar_path(c->stage_dir, de->d_name);
        if (access(sidecar, F_OK)) { /* removed before the crash: nobody wants it */
            cleanup_free char *file = path_join(c->stage_dir, de->d_name);
            unlink(file);
            continue;
        }
        left++;
        log_kv(LOG_WARN, "a file that was written before a crash is not in the store yet", "file",
            de->d_name, "error", e.msg, NULL);
    }
    if (d)
        closedir(d);
    return left;
}

static void *run(void *arg)
{
    struct uploader *w = arg;
    int64_t next_sweep = 0;
    for (bool stop = false; !stop;) {
        if (w->leftovers && clock_mono_ns() >= next_sweep) {
            w->leftovers = sweep(w, false) > 0;
            next_sweep = clock_mono_ns() + 30 * NS_PER_S;
        }
        w->pending = 0;
        files_each(w->fs, visit, w);
        upload_count_pending(w->pending);
        pthread_mutex_lock(&w->mu);
        if (!w->stop)
            clock_cond_wait(&w->wake, &w->mu, clock_mono_ns() + TICK_NS);
        stop = w->stop;
        pthread_mutex_unlock(&w->mu);
    }
    w->last = true;
    w->pending = 0;
    files_each(w->fs, visit, w);
    upload_count_pending(w->pending);
    return NULL;
}

struct uploader *uploader_start(struct files *fs, struct store **stores, bool resume, struct err *e)
{
    struct uploader *w = calloc(1, sizeof *w);
    if (!w) {
        err_sys(e, ENOMEM, "start uploading");
        return NULL;
    }
    w->fs = fs;
    w->stores = stores;
    pthread_mutex_init(&w->mu, NULL);
    clock_cond_init(&w->wake);
    w->leftovers = sweep(w, true) > 0;
    if (resume && w->leftovers)
        log_kv(LOG_INFO, "staged files without an inode are looked after", NULL);
    int rc = pthread_create(&w->thread, NULL, run, w);
    if (rc) {
        err_sys(e, rc, "start a thread");
        free(w);
        return NULL;
    }
    return w;
}

void uploader_stop(struct uploader *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->mu);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mu);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->mu);
    pthread_cond_destroy(&w->wake);
    free(w);
}
