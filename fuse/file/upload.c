/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/upload.h"

#include "fuse/file/stage.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RETRY_FIRST_NS (5 * NS_PER_S)
#define RETRY_LAST_NS  (60 * NS_PER_S)

static struct {
    _Atomic uint64_t bytes, files, failed, pending;
} stats;

void upload_stats(struct upload_stats *out)
{
    out->bytes = atomic_load(&stats.bytes);
    out->files = atomic_load(&stats.files);
    out->failed = atomic_load(&stats.failed);
    out->pending = atomic_load(&stats.pending);
    out->disk_full = stage_disk_full();
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

/* The store has the first `counted` changes. In one step, as far as writers see: who is killed
 * after it leaves an index that knows of all others. */
static void upload_done(
    struct file *f, const struct inode *n, uint64_t counted, const struct store_stat *st)
{
    struct inode set = {
        .mtime_ns = st->mtime_ns, .synced_s = (uint32_t)(clock_real_ns() / NS_PER_S)};
    snprintf(set.version, sizeof set.version, "%s", st->version);
    pthread_rwlock_wrlock(&f->data_lock);
    bool all = atomic_load(&f->written) == counted,
         keep_time = !all || (n->flags & INODE_ATTR) || !st->mtime_ns;
    inodes_set(file_conf(f)->inodes, f->ino,
        INODES_VERSION | INODES_SYNCED | (keep_time ? 0 : INODES_MTIME), &set, 0,
        INODE_LOCAL | (all ? INODE_DIRTY : 0));
    atomic_store(&f->saved, counted);
    pthread_rwlock_unlock(&f->data_lock);
    if (!all)
        atomic_store(&f->dirty_ns, clock_mono_ns());
    atomic_store(&f->retry_ns, 0);
    f->failures = 0;
    atomic_fetch_add(&stats.bytes, st->size);
    atomic_fetch_add(&stats.files, 1);
}

static void forget_changes(struct file *f)
{
    pthread_rwlock_wrlock(&f->data_lock);
    atomic_store(&f->saved, atomic_load(&f->written));
    atomic_store(&f->retry_ns, 0);
    inodes_set(file_conf(f)->inodes, f->ino, 0, NULL, 0, INODE_DIRTY);
    pthread_rwlock_unlock(&f->data_lock);
}

/* What there is to upload: the staging file is open, `counted` changes are in its first *size
 * bytes.
 */
static int upload_begin(struct file *f, uint64_t *counted, uint64_t *size, struct err *e)
{
    struct stat content;
    pthread_rwlock_wrlock(&f->data_lock);
    int rc = f->stage_fd >= 0 ? 0 : stage_attach(f, e);
    *counted = atomic_load(&f->written);
    if (rc == 0 && fstat(f->stage_fd, &content))
        rc = err_sys(e, errno, "look at a staged file");
    pthread_rwlock_unlock(&f->data_lock);
    *size = rc ? 0 : (uint64_t)content.st_size;
    return rc;
}

static int upload(struct file *f, struct err *e)
{
    struct inode n;
    char path[INODE_PATH_MAX];
    struct store *store;
    struct store_stat st = {0};
    unsigned mount;
    uint64_t counted, size;
    if (file_inode(f, &n, NULL) || (n.flags & INODE_UNLINKED)) {
        forget_changes(f); /* no name leads to them any more */
        return 0;
    }
    if (upload_begin(f, &counted, &size, e)
        || tree_where(file_conf(f)->tree, f->ino, &store, &mount, path, e))
        return -1;
    f->begun = true;
    if (store_put(store, path, &(struct store_put){.fd = f->stage_fd, .len = size}, &st, e)) {
        upload_failed(f, path, e);
        return -1;
    }
    upload_done(f, &n, counted, &st);
    return 0;
}

int file_upload_locked(struct file *f, struct err *e)
{
    struct inode n;
    mutex_assert_held(&f->state_lock);
    if (file_inode(f, &n, NULL) == 0 && (n.flags & INODE_ORPHANED)) {
        forget_changes(f);
        return file_lost(f, e);
    }
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

int files_upload(struct files *fs, uint64_t ino, bool wrote, struct err *e)
{
    struct inode n;
    if (!wrote && inodes_get(files_config(fs)->inodes, ino, &n) == 0 && !(n.flags & INODE_DIRTY))
        return 0;
    struct file *f = files_get(fs, ino, e);
    int rc = f ? file_upload(f, e) : -1;
    if (f)
        files_put(f);
    return rc;
}

/* path is within the mount's store */
static bool stays_cached(const struct conf *conf, unsigned mount, const char *path)
{
    const char *at = conf->mounts[mount].path;
    cleanup_free char *full = xasprintf("%s/%s", strcmp(at, "/") == 0 ? "" : at, path);
    return conf_write_of(conf, full) == CONF_CACHE_THROUGH;
}

void file_finish(struct file *f)
{
    const struct files_conf *c = file_conf(f);
    struct inode n;
    struct err e = ERR_INIT;
    char path[INODE_PATH_MAX];
    struct store *store;
    unsigned mount;
    mutex_assert_held(&f->state_lock);
    /* removed, and this was its last use */
    if (file_inode(f, &n, NULL)) {
        atomic_store(&f->saved, atomic_load(&f->written));
        stage_remove_files(f);
        return;
    }
    if (!(n.flags & INODE_STAGED) || n.opens)
        return;
    pthread_rwlock_wrlock(&f->data_lock);
    if (file_is_dirty(f) && !(n.flags & INODE_UNLINKED)) {
        pthread_rwlock_unlock(&f->data_lock);
        return;
    }
    atomic_store(&f->saved, atomic_load(&f->written));
    struct stat content;
    if (f->stage_fd >= 0 && !(n.flags & INODE_UNLINKED) && fstat(f->stage_fd, &content) == 0
        && (uint64_t)content.st_size == n.size
        && tree_where(c->tree, f->ino, &store, &mount, path, &e) == 0
        && stays_cached(c->conf, mount, path)) {
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
    stage_remove_files(f);
    pthread_rwlock_unlock(&f->data_lock);
}

void file_discard(struct file *f)
{
    forget_changes(f);
    stage_remove_sidecar(f);
    file_finish(f);
}

void upload_count_pending(uint64_t n) { atomic_store(&stats.pending, n); }
