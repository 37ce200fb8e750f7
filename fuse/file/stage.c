/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/stage.h"

#include "fuse/file/sidecar.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES     ((size_t)1 << 20)
#define RETRY_FIRST_NS (5 * NS_PER_S)
#define RETRY_LAST_NS  (60 * NS_PER_S)

static struct {
    _Atomic uint64_t bytes, files, failed, pending;
    _Atomic bool disk_full;
} stats;

void upload_stats(struct upload_stats *out)
{
    out->bytes = atomic_load(&stats.bytes);
    out->files = atomic_load(&stats.files);
    out->failed = atomic_load(&stats.failed);
    out->pending = atomic_load(&stats.pending);
    out->disk_full = atomic_load(&stats.disk_full);
}

static const struct files_conf *conf_of(const struct file *f) { return files_config(f->files); }

bool file_is_dirty(const struct file *f)
{
    return atomic_load(&f->written) != atomic_load(&f->saved);
}

static int stage_error(struct err *e, int errnum, const char *what)
{
    if (errnum == ENOSPC || errnum == EDQUOT)
        atomic_store(&stats.disk_full, true);
    return err_sys(e, errnum, "%s", what);
}

static char *stage_path(const struct file *f, const char *suffix)
{
    return xasprintf(
        "%s/%" PRIu64 "-%" PRIu64 "%s", conf_of(f)->stage_dir, f->ino, f->generation, suffix);
}

/* Where the content belongs, for a successor without this index. */
static int write_sidecar(struct file *f, struct err *e)
{
    struct sidecar where;
    struct store *store;
    struct inode n;
    if (inodes_get(conf_of(f)->inodes, f->ino, &n)
        || tree_where(conf_of(f)->tree, f->ino, &store, &where.mount, where.path, e))
        return -1;
    memcpy(where.version, n.version, sizeof where.version);
    cleanup_free char *name = stage_path(f, ".path");
    static _Atomic unsigned count; /* a rename of a directory above may be writing the same one */
    char suffix[24];
    snprintf(suffix, sizeof suffix, ".%u.new", atomic_fetch_add(&count, 1));
    cleanup_free char *tmp = stage_path(f, suffix);
    cleanup_free char *text = sidecar_format(&where);
    cleanup_fd int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || rename(tmp, name)) {
        int errnum = errno ? errno : ENOSPC;
        unlink(tmp);
        return stage_error(e, errnum, "write beside a staged file");
    }
    return 0;
}

static void unstage_files(struct file *f)
{
    cleanup_free char *name = stage_path(f, "");
    cleanup_free char *sidecar = stage_path(f, ".path");
    unlink(name);
    unlink(sidecar);
}

/* The process that made the inode ended before it could make its staging file. */
static bool was_never_begun(const struct file *f)
{
    struct inode n;
    return inodes_get(conf_of(f)->inodes, f->ino, &n) == 0 && n.generation == f->generation
        && (n.flags & INODE_LOCAL) && n.size == 0;
}

int stage_attach(struct file *f, struct err *e)
{
    cleanup_free char *name = stage_path(f, "");
    f->stage_fd = open(name, O_RDWR | O_CLOEXEC);
    if (f->stage_fd < 0 && errno == ENOENT && was_never_begun(f)) {
        if (write_sidecar(f, e))
            return -1;
        f->stage_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    }
    return f->stage_fd < 0 ? err_sys(e, errno == ENOENT ? EIO : errno, "open a staged file") : 0;
}

static void set_dirty(struct file *f)
{
    int64_t now = clock_mono_ns();
    if (atomic_load(&f->written) == atomic_load(&f->saved)) {
        atomic_store(&f->dirty_ns, now);
        inodes_set(conf_of(f)->inodes, f->ino, 0, NULL, INODE_DIRTY, 0);
    }
    atomic_store(&f->write_ns, now);
    atomic_fetch_add(&f->written, 1);
}

/* Copies the first `size` bytes of the cached version into the staging file. */
static int copy_in(struct file *f, int fd, uint64_t size, struct err *e)
{
    cleanup_free char *buf = malloc(MIN(size, (uint64_t)COPY_BYTES) + 1);
    if (!buf)
        return err_sys(e, ENOMEM, "copy a file to staging");
    for (uint64_t off = 0; off < size;) {
        ssize_t n = cache_read(f->cf, buf, (size_t)MIN(size - off, (uint64_t)COPY_BYTES), off, e);
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        for (ssize_t done = 0, w; done < n; done += w)
            if ((w = pwrite(fd, buf + done, (size_t)(n - done), (off_t)off + done)) < 0)
                return stage_error(e, errno, "copy a file to staging");
        off += (uint64_t)n;
    }
    return ftruncate(fd, (off_t)size) ? stage_error(e, errno, "copy a file to staging") : 0;
}

/* From the cached version to a staging file that begins with `keep` bytes of it. f->data_lock is
 * held exclusively. */
static int stage(struct file *f, uint64_t keep, struct err *e)
{
    struct inode n;
    if (f->stage_fd >= 0)
        return 0;
    if (inodes_get(conf_of(f)->inodes, f->ino, &n) || n.generation != f->generation)
        return err_sys(e, ESTALE, "inode %" PRIu64, f->ino);
    if (n.flags & INODE_STAGED)
        return stage_attach(f, e);
    /* a sealed mount's kernel may have opened it without asking */
    if (!tree_writable(conf_of(f)->tree, n.mount))
        return err_sys(e, EROFS, "write");
    keep = MIN(keep, n.size);
    if (keep && file_attach(f, e))
        return -1;
    cleanup_free char *name = stage_path(f, "");
    cleanup_fd int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return stage_error(e, errno, "make a staging file");
    if ((keep && copy_in(f, fd, keep, e)) || (!(n.flags & INODE_UNLINKED) && write_sidecar(f, e))) {
        unstage_files(f);
        return -1;
    }
    if (f->cf)
        cache_close(f->cf);
    f->cf = NULL;
    f->stage_fd = fd;
    fd = -1;
    inodes_set(conf_of(f)->inodes, f->ino, 0, NULL, INODE_STAGED, 0);
    return 0;
}

int stage_create(struct file *f, struct err *e)
{
    pthread_rwlock_wrlock(&f->data_lock);
    cleanup_free char *name = stage_path(f, "");
    int rc = 0, fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        rc = stage_error(e, errno, "make a staging file");
    } else if (write_sidecar(f, e)) {
        close(fd);
        unlink(name);
        rc = -1;
    } else {
        if (f->stage_fd >= 0)
            close(f->stage_fd);
        f->stage_fd = fd;
        set_dirty(f);
    }
    pthread_rwlock_unlock(&f->data_lock);
    return rc;
}

/* f->data_lock is held shared on success. */
static int lock_staged(struct file *f, struct err *e)
{
    for (;;) {
        pthread_rwlock_rdlock(&f->data_lock);
        if (f->stage_fd >= 0)
            return 0;
        pthread_rwlock_unlock(&f->data_lock);
        pthread_rwlock_wrlock(&f->data_lock);
        int rc = stage(f, UINT64_MAX, e);
        pthread_rwlock_unlock(&f->data_lock);
        if (rc)
            return -1;
    }
}

ssize_t file_pwrite(struct file *f, const void *buf, size_t len, uint64_t off, struct err *e)
{
    if (lock_staged(f, e))
        return -1;
    set_dirty(f);
    size_t done = 0;
    int errnum = 0;
    while (done < len && !errnum) {
        ssize_t n = pwrite(f->stage_fd, (const char *)buf + done, len - done, (off_t)(off + done));
        if (n < 0 && errno != EINTR)
            errnum = errno;
        done += n > 0 ? (size_t)n : 0;
    }
    if (done) {
        struct inode grown = {.size = off + done, .mtime_ns = clock_real_ns()};
        inodes_set(conf_of(f)->inodes, f->ino, INODES_GROW | INODES_MTIME, &grown, 0, INODE_ATTR);
        atomic_fetch_add(&f->written, 1); /* an upload that began in between has not all of it */
    }
    pthread_rwlock_unlock(&f->data_lock);
    if (errnum && !done)
        return stage_error(e, errnum, "write to staging");
    if (!errnum)
        atomic_store(&stats.disk_full, false);
    return (ssize_t)done;
}

int stage_truncate(struct file *f, uint64_t size, struct err *e)
{
    struct inode set = {.size = size, .mtime_ns = clock_real_ns()};
    pthread_rwlock_wrlock(&f->data_lock);
    int rc = stage(f, size, e);
    if (rc == 0) {
        set_dirty(f);
        if (ftruncate(f->stage_fd, (off_t)size))
            rc = stage_error(e, errno, "truncate a staged file");
        else
            inodes_set(conf_of(f)->inodes, f->ino, INODES_SIZE | INODES_MTIME, &set, 0, INODE_ATTR);
        atomic_fetch_add(&f->written, 1);
    }
    pthread_rwlock_unlock(&f->data_lock);
    return rc;
}

static void upload_failed(struct file *f, const char *path, struct err *e)
{
    atomic_fetch_add(&stats.failed, 1);
    int64_t wait = RETRY_FIRST_NS << MIN(f->failures, 4u);
    f->failures++;
    atomic_store(&f->retry_ns, clock_mono_ns() + MIN(wait, RETRY_LAST_NS));
    files_note_error(f->files, f->ino, e);
    log_kv(LOG_ERROR, "upload failed; the file is kept and tried again", "path", path, "error",
        e->msg, NULL);
}

/* The store has the first `counted` changes. */
static void upload_done(
    struct file *f, const struct inode *n, uint64_t counted, const struct store_stat *st)
{
    struct inode set = {
        .mtime_ns = st->mtime_ns, .synced_s = (uint32_t)(clock_real_ns() / NS_PER_S)};
    snprintf(set.version, sizeof set.version, "%s", st->version);
    atomic_store(&f->saved, counted);
    bool all = atomic_load(&f->written) == counted,
         keep_time = !all || (n->flags & INODE_ATTR) || !st->mtime_ns;
    inodes_set(conf_of(f)->inodes, f->ino,
        INODES_VERSION | INODES_SYNCED | (keep_time ? 0 : INODES_MTIME), &set, 0,
        INODE_LOCAL | (all ? INODE_DIRTY : 0));
    if (atomic_load(&f->written) != counted) {
        inodes_set(conf_of(f)->inodes, f->ino, 0, NULL, INODE_DIRTY, 0);
        atomic_store(&f->dirty_ns, clock_mono_ns());
    }
    atomic_store(&f->retry_ns, 0);
    f->failures = 0;
    atomic_fetch_add(&stats.bytes, st->size);
    atomic_fetch_add(&stats.files, 1);
}

static void forget_changes(struct file *f)
{
    atomic_store(&f->saved, atomic_load(&f->written));
    atomic_store(&f->retry_ns, 0);
    inodes_set(conf_of(f)->inodes, f->ino, 0, NULL, 0, INODE_DIRTY);
}

static int upload(struct file *f, struct err *e)
{
    struct inode n;
    char path[INODE_PATH_MAX];
    struct store *store;
    struct store_stat st = {0};
    unsigned mount;
    struct stat content;
    if (inodes_get(conf_of(f)->inodes, f->ino, &n) || n.generation != f->generation
        || (n.flags & INODE_UNLINKED)) {
        forget_changes(f); /* nobody can ever read them by name */
        return 0;
    }
    pthread_rwlock_wrlock(&f->data_lock);
    int rc = f->stage_fd >= 0 ? 0 : stage_attach(f, e);
    pthread_rwlock_unlock(&f->data_lock);
    if (rc || tree_where(conf_of(f)->tree, f->ino, &store, &mount, path, e))
        return -1;
    uint64_t counted = atomic_load(&f->written);
    if (fstat(f->stage_fd, &content))
        return err_sys(e, errno, "look at a staged file");
    if (store_put(store, path, f->stage_fd, (uint64_t)content.st_size, &st, e)) {
        upload_failed(f, path, e);
        return -1;
    }
    upload_done(f, &n, counted, &st);
    return 0;
}

int file_upload_locked(struct file *f, struct err *e)
{
    if (!file_is_dirty(f))
        return 0;
    pthread_rwlock_rdlock(files_rename_lock(f->files));
    int rc = upload(f, e);
    pthread_rwlock_unlock(files_rename_lock(f->files));
    return rc;
}

int file_upload(struct file *f, struct err *e)
{
    pthread_mutex_lock(&f->state_lock);
    int rc = file_upload_locked(f, e);
    pthread_mutex_unlock(&f->state_lock);
    return rc;
}

void upload_finish(struct file *f)
{
    const struct files_conf *c = conf_of(f);
    struct inode n;
    struct err e = ERR_INIT;
    char path[INODE_PATH_MAX];
    struct store *store;
    unsigned mount;
    /* removed, and this was its last use */
    if (inodes_get(c->inodes, f->ino, &n) || n.generation != f->generation) {
        atomic_store(&f->saved, atomic_load(&f->written));
        unstage_files(f);
        return;
    }
    if (!(n.flags & INODE_STAGED) || n.opens || (file_is_dirty(f) && !(n.flags & INODE_UNLINKED)))
        return;
    atomic_store(&f->saved, atomic_load(&f->written));
    pthread_rwlock_wrlock(&f->data_lock);
    struct stat content;
    if (f->stage_fd >= 0 && !(n.flags & INODE_UNLINKED) && c->conf->write == CONF_CACHE_THROUGH
        && fstat(f->stage_fd, &content) == 0 && (uint64_t)content.st_size == n.size
        && tree_where(c->tree, f->ino, &store, &mount, path, &e) == 0) {
        struct cache_key key = {mount, path, n.version, n.size};
        if (cache_adopt(c->cache, &key, f->stage_fd, &e))
            log_kv(LOG_DEBUG, "a written file does not stay in the cache", "path", path, "error",
                e.msg, NULL);
    }
    inodes_set(c->inodes, f->ino, 0, NULL, 0, INODE_STAGED);
    if (f->stage_fd >= 0)
        close(f->stage_fd);
    f->stage_fd = -1;
    f->no_backing = false;
    unstage_files(f);
    pthread_rwlock_unlock(&f->data_lock);
}

void stage_repath(struct file *f)
{
    struct inode n;
    struct err e = ERR_INIT;
    if (inodes_get(conf_of(f)->inodes, f->ino, &n) == 0 && (n.flags & INODE_STAGED)
        && !(n.flags & INODE_UNLINKED) && write_sidecar(f, &e))
        log_kv(LOG_WARN, "the new path of a staged file is not on disk", "error", e.msg, NULL);
}

void upload_discard(struct file *f)
{
    forget_changes(f);
    cleanup_free char *sidecar = stage_path(f, ".path");
    unlink(sidecar);
    upload_finish(f);
}

void upload_count_pending(uint64_t n) { atomic_store(&stats.pending, n); }
