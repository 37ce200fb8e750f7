/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/read.h"

#include "fuse/file/cached.h"
#include "fuse/file/stage.h"
#include "lib/base/io.h"

#include <errno.h>
#include <unistd.h>

/* Makes sure that there is a place to read from. f->data_lock is held exclusively. */
int file_attach(struct file *f, struct err *e)
{
    struct inode n;
    if (f->cf || f->stage_fd >= 0)
        return 0;
    if (file_inode(f, &n, e))
        return -1;
    if (n.flags & INODE_STAGED)
        return stage_attach(f, e);
    f->cf = file_cached(file_conf(f)->tree, file_conf(f)->cache, &n, e);
    return f->cf ? 0 : -1;
}

static void note_first_read(struct file *f)
{
    const struct files_conf *c = file_conf(f);
    struct inode n;
    if (c->on_first_read && f->cf && inodes_get(c->inodes, f->ino, &n) == 0)
        c->on_first_read(c->user, &n, f->cf);
}

/* reads: for a reader, not ahead of one. f->data_lock is held shared on success. */
int file_lock_attached(struct file *f, bool reads, struct err *e)
{
    for (;;) {
        pthread_rwlock_rdlock(&f->data_lock);
        if (f->cf || f->stage_fd >= 0)
            return 0;
        pthread_rwlock_unlock(&f->data_lock);
        pthread_rwlock_wrlock(&f->data_lock);
        bool first = !f->cf && f->stage_fd < 0;
        int rc = file_attach(f, e);
        if (rc == 0 && first && reads)
            note_first_read(f);
        pthread_rwlock_unlock(&f->data_lock);
        if (rc)
            return -1;
    }
}

ssize_t file_pread(struct file *f, void *buf, size_t len, uint64_t off, struct err *e)
{
    if (file_lock_attached(f, true, e))
        return -1;
    ssize_t n;
    if (f->stage_fd < 0) {
        n = cache_read(f->cf, buf, len, off, e);
        if (n < 0 && (e->cls == ERR_CONFLICT || e->cls == ERR_NOTFOUND))
            tree_doubt(file_conf(f)->tree, f->ino);
    } else {
        n = io_pread(f->stage_fd, buf, len, off);
        if (n < 0)
            err_sys(e, errno, "read a staged file");
    }
    pthread_rwlock_unlock(&f->data_lock);
    return n;
}

int file_fill(struct file *f, uint64_t off, uint64_t len, struct err *e)
{
    if (file_lock_attached(f, false, e))
        return -1;
    int rc = f->cf ? cache_fill(f->cf, off, len, e) : 0;
    if (f->cf && rc == 0)
        cache_warm(f->cf, off, len);
    pthread_rwlock_unlock(&f->data_lock);
    return rc;
}

int file_cache_state(
    struct file *f, uint64_t off, uint64_t len, struct file_cache_state *out, struct err *e)
{
    if (file_lock_attached(f, false, e))
        return -1;
    out->staged = !f->cf;
    out->cached = f->cf ? cache_cached(f->cf, off, len) : 0;
    out->pinned = f->cf && cache_is_pinned(f->cf);
    pthread_rwlock_unlock(&f->data_lock);
    return 0;
}

/* Closes the cached copy before it is made anew or dropped; the kernel's backing file, too, if the
 * file has no open. f->data_lock is held exclusively; key->path is in path. */
static int detach_cached(struct file *f, char path[INODE_PATH_MAX], struct inode *n,
    struct cache_key *key, struct err *e)
{
    const struct files_conf *c = file_conf(f);
    if (inodes_get(c->inodes, f->ino, n) || n->generation != f->generation
        || (n->flags & INODE_UNLINKED) || atomic_load(&f->preserved))
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)f->ino);
    if ((n->flags & INODE_STAGED) || f->stage_fd >= 0)
        return err_sys(e, EBUSY, "%llu is being written", (unsigned long long)f->ino);
    if (file_key(c->tree, n, path, key, e))
        return -1;
    cache_close(f->cf);
    f->cf = NULL;
    if (c->backings)
        backings_drop(c->backings, f->ino);
    return 0;
}

int file_pin(struct file *f, uint64_t off, uint64_t len, struct err *e)
{
    char path[INODE_PATH_MAX];
    struct cache_key key;
    struct inode n;
    pthread_rwlock_wrlock(&f->data_lock);
    int rc = 0;
    if (!f->cf || !cache_is_pinned(f->cf)) {
        rc = detach_cached(f, path, &n, &key, e);
        if (rc == 0 && !(f->cf = cache_pin(file_conf(f)->cache, &key, 0, n.size, e)))
            rc = -1;
    }
    pthread_rwlock_unlock(&f->data_lock);
    return rc ? -1 : file_fill(f, off, len, e);
}

int file_drop(struct file *f, uint64_t *freed, struct err *e)
{
    char path[INODE_PATH_MAX];
    struct cache_key key;
    struct inode n;
    pthread_rwlock_wrlock(&f->data_lock);
    int rc = file_attach(f, e);
    if (rc == 0 && f->cf && !cache_is_pinned(f->cf)) {
        *freed = cache_cached(f->cf, 0, UINT64_MAX);
        rc = detach_cached(f, path, &n, &key, e);
        if (rc == 0)
            cache_drop(file_conf(f)->cache, &key);
    }
    pthread_rwlock_unlock(&f->data_lock);
    return rc;
}

int files_unpin(struct files *fs, uint64_t ino, struct err *e)
{
    char path[INODE_PATH_MAX];
    struct store *store;
    unsigned mount;
    if (tree_where(files_config(fs)->tree, ino, &store, &mount, path, e))
        return -1;
    cached_unpin(files_config(fs)->cache, mount, path);
    return 0;
}
