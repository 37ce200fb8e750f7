/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/stage.h"

#include "fuse/file/cached.h"
#include "fuse/file/stage_name.h"
#include "fuse/file/stage_room.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)1 << 20)
/* readers of a removed file wait while it is copied */
#define PRESERVE_MOST (UINT64_C(256) << 20)

/* So many bytes more, of any file. */
static int stage_take_room(struct file *f, uint64_t bytes, struct err *e)
{
    return stage_room_take(f->files, bytes, e) ? stage_refuse(e) : 0;
}

void stage_remove_files(struct file *f)
{
    cleanup_free char *name = stage_path(f, "");
    unlink(name);
    stage_remove_sidecar(f);
}

/* The process that made the inode ended before it could make its staging file. */
static bool stage_never_begun(const struct file *f)
{
    struct inode n;
    return file_inode(f, &n, NULL) == 0 && (n.flags & INODE_LOCAL) && n.size == 0;
}

int stage_attach(struct file *f, struct err *e)
{
    cleanup_free char *name = stage_path(f, "");
    f->stage_fd = open(name, O_RDWR | O_CLOEXEC);
    if (f->stage_fd < 0 && errno == ENOENT && stage_never_begun(f)) {
        if (stage_write_sidecar(f, e))
            return -1;
        f->stage_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    }
    return f->stage_fd < 0 ? err_sys(e, errno == ENOENT ? EIO : errno, "open a staged file") : 0;
}

/* Content without a note is not looked for after a crash. What has no name needs none. */
static int stage_need_note(struct file *f, struct err *e)
{
    struct err failed = ERR_INIT;
    struct inode n;
    if (!atomic_load(&f->note_old) || stage_write_sidecar(f, &failed) == 0
        || (file_inode(f, &n, NULL) == 0 && (n.flags & INODE_UNLINKED)))
        return 0;
    *e = failed;
    return -1;
}

/* Before a change, with f->data_lock held until it is made, and the index is told again: another
 * writer may have counted the first one and not have set the flag yet. On failure, nothing may be
 * changed. */
static int stage_set_dirty(struct file *f, struct err *e)
{
    int64_t now = clock_mono_ns();
    if (stage_need_note(f, e))
        return -1;
    atomic_store(&f->write_ns, now);
    if (atomic_fetch_add(&f->written, 1) == atomic_load(&f->saved)) {
        atomic_store(&f->dirty_ns, now);
        inodes_set(file_conf(f)->inodes, f->ino, 0, NULL, INODE_DIRTY, 0);
    }
    return 0;
}

/* Copies the first `size` bytes of the cached version into the staging file. Not all who do so are
 * writers: a disk that is too full for it is theirs to tell of. */
static int stage_copy(struct file *f, int fd, uint64_t size, struct err *e)
{
    cleanup_free char *buf = malloc(MIN(size, (uint64_t)COPY_BYTES) + 1);
    if (!buf)
        return err_sys(e, ENOMEM, "copy a file to staging");
    for (uint64_t off = 0; off < size;) {
        ssize_t n = cache_read(f->cf, buf, (size_t)MIN(size - off, (uint64_t)COPY_BYTES), off, e);
        if (n < 0 && e && e->cls == ERR_NOTFOUND) /* for a writer: it is another file's name now */
            e->sys = ESTALE;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        if (stage_room_take(f->files, (uint64_t)n, e))
            return -1;
        if (io_pwrite(fd, buf, (size_t)n, off))
            return stage_tell(e, errno, "copy a file to staging");
        off += (uint64_t)n;
        progress_mark();
    }
    return ftruncate(fd, (off_t)size) ? stage_tell(e, errno, "copy a file to staging") : 0;
}

/* The store has something else under its name by now, or nothing: what is written to it would go
 * nowhere. */
static int stage_refuse_lost(struct file *f, struct inode *n, struct err *e)
{
    return file_inode(f, n, e) || (n->flags & INODE_ORPHANED ? file_lost(f, e) : 0) ? -1 : 0;
}

/* From the cached version to a staging file that begins with `keep` bytes of it. f->data_lock is
 * held exclusively. */
static int stage_begin(struct file *f, uint64_t keep, struct err *e)
{
    struct inode n;
    if (stage_refuse_lost(f, &n, e))
        return -1;
    if (f->stage_fd >= 0)
        return 0;
    if (n.flags & INODE_STAGED)
        return stage_attach(f, e);
    /* a sealed mount's kernel may have opened it without asking */
    if (!tree_writable(file_conf(f)->tree, n.mount))
        return err_sys(e, EROFS, "write");
    keep = MIN(keep, n.size);
    if (keep && !f->cf && !(f->cf = file_cached(file_conf(f)->tree, file_conf(f)->cache, &n, e)))
        return -1;
    cleanup_free char *name = stage_path(f, "");
    cleanup_fd int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return stage_error(e, errno, "make a staging file");
    if ((keep && stage_copy(f, fd, keep, e))
        || (!(n.flags & INODE_UNLINKED) && stage_write_sidecar(f, e))) {
        stage_remove_files(f);
        return stage_refuse(e);
    }
    if (f->cf)
        cache_close(f->cf);
    f->cf = NULL;
    f->stage_fd = fd;
    fd = -1;
    inodes_set(file_conf(f)->inodes, f->ino, 0, NULL, INODE_STAGED, 0);
    return 0;
}

/* The cached file itself becomes the staging file, where it is one, and is on the same disk. -1: it
 * is to be copied. */
static int stage_link(struct file *f, const char *name)
{
    char from[64];
    struct stat st;
    cleanup_fd int fd = cache_complete_fd(f->cf);
    /* another name is that of another cached file: who writes to ours must not write to that */
    if (fd < 0 || fstat(fd, &st) || st.st_nlink != 1)
        return -1;
    snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    unlink(name);
    if (linkat(AT_FDCWD, from, AT_FDCWD, name, AT_SYMLINK_FOLLOW))
        return -1;
    int linked = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (linked < 0)
        unlink(name); /* a copy would be written into the cached file */
    return linked;
}

int stage_preserve(struct file *f, struct err *e)
{
    const struct files_conf *c = file_conf(f);
    char path[INODE_PATH_MAX];
    struct cache_key key;
    struct inode n;
    if (f->stage_fd >= 0 || !f->cf)
        return 0;
    if (file_inode(f, &n, e) || file_key(c->tree, &n, path, &key, e))
        return -1;
    cleanup_free char *name = stage_path(f, "");
    cleanup_fd int fd = stage_link(f, name);
    if (fd < 0) {
        if (n.size > PRESERVE_MOST)
            return err_sys(e, EFBIG, "copy a removed file");
        fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0)
            return stage_tell(e, errno, "make a staging file");
        if (stage_copy(f, fd, n.size, e)) {
            unlink(name);
            return -1;
        }
    }
    cache_close(f->cf);
    f->cf = NULL;
    cache_drop(c->cache, &key); /* what is linked may be written to from here on */
    f->stage_fd = fd;
    fd = -1;
    atomic_store(&f->note_old, true);
    inodes_set(c->inodes, f->ino, 0, NULL, INODE_STAGED, 0);
    return 0;
}

int stage_create(struct file *f, struct err *e)
{
    if (stage_take_room(f, 0, e))
        return -1;
    pthread_rwlock_wrlock(&f->data_lock);
    cleanup_free char *name = stage_path(f, "");
    int rc = 0, fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        rc = stage_error(e, errno, "make a staging file");
    } else if (stage_write_sidecar(f, e)) {
        close(fd);
        unlink(name);
        rc = -1;
    } else {
        if (f->stage_fd >= 0)
            close(f->stage_fd);
        f->stage_fd = fd;
        atomic_store(&f->begun, false); /* no other has the file yet */
        rc = stage_set_dirty(f, e);
    }
    pthread_rwlock_unlock(&f->data_lock);
    return rc;
}

/* What is being uploaded in the background stays as it is until that has ended, as it soon does. */
static void stage_await_sent(struct file *f)
{
    file_lock_state(f);
    pthread_mutex_unlock(&f->state_lock);
}

/* For a change from there on. f->data_lock is held shared on success. */
static int stage_lock(struct file *f, uint64_t off, struct err *e)
{
    struct inode n;
    for (;;) {
        pthread_rwlock_rdlock(&f->data_lock);
        bool staged = f->stage_fd >= 0;
        if (off < atomic_load(&f->sending)) {
            pthread_rwlock_unlock(&f->data_lock);
            stage_await_sent(f);
            continue;
        }
        if (staged && stage_refuse_lost(f, &n, e) == 0)
            return 0;
        pthread_rwlock_unlock(&f->data_lock);
        if (staged)
            return -1;
        pthread_rwlock_wrlock(&f->data_lock);
        int rc = stage_begin(f, UINT64_MAX, e);
        pthread_rwlock_unlock(&f->data_lock);
        if (rc)
            return -1;
    }
}

int stage_change(struct file *f, uint64_t off, uint64_t bytes, struct err *e)
{
    if (stage_take_room(f, bytes, e) || stage_lock(f, off, e))
        return -1;
    if (stage_set_dirty(f, e) == 0)
        return 0;
    pthread_rwlock_unlock(&f->data_lock);
    return -1;
}

void stage_changed(struct file *f, uint64_t end)
{
    struct inode grown = {.size = end, .mtime_ns = clock_real_ns()};
    inodes_set(
        file_conf(f)->inodes, f->ino, INODES_GROW | INODES_MTIME, &grown, INODE_DIRTY, INODE_ATTR);
    pthread_rwlock_unlock(&f->data_lock);
}

/* f->data_lock is held exclusively on success. */
static int stage_lock_alone(struct file *f, uint64_t keep, struct err *e)
{
    for (;;) {
        pthread_rwlock_wrlock(&f->data_lock);
        if (!atomic_load(&f->sending)) /* never with state_lock */
            break;
        pthread_rwlock_unlock(&f->data_lock);
        stage_await_sent(f);
    }
    if (stage_begin(f, keep, e) == 0 && stage_set_dirty(f, e) == 0)
        return 0;
    pthread_rwlock_unlock(&f->data_lock);
    return -1;
}

int stage_change_alone(struct file *f, uint64_t bytes, struct err *e)
{
    return stage_take_room(f, bytes, e) || stage_lock_alone(f, UINT64_MAX, e) ? -1 : 0;
}

void stage_unchanged(struct file *f)
{
    /* nobody has counted one since, and no upload has begun */
    if (atomic_fetch_sub(&f->written, 1) - 1 == atomic_load(&f->saved)) {
        inodes_set(file_conf(f)->inodes, f->ino, 0, NULL, 0, INODE_DIRTY);
        stage_saved(f, true, true);
    }
    pthread_rwlock_unlock(&f->data_lock);
}

ssize_t file_pwrite(struct file *f, const void *buf, size_t len, uint64_t off, struct err *e)
{
    if (stage_change(f, off, len, e))
        return -1;
    size_t done = 0;
    int errnum = 0;
    while (done < len && !errnum) {
        ssize_t n = pwrite(f->stage_fd, (const char *)buf + done, len - done, (off_t)(off + done));
        if (n < 0 && errno != EINTR)
            errnum = errno;
        done += n > 0 ? (size_t)n : 0;
    }
    if (done)
        stage_changed(f, off + done);
    else
        pthread_rwlock_unlock(&f->data_lock);
    if (errnum && !done)
        return stage_error(e, errnum, "write to staging");
    if (!errnum)
        stage_has_room();
    return (ssize_t)done;
}

int stage_truncate(struct file *f, uint64_t size, struct err *e)
{
    struct inode set = {.size = size, .mtime_ns = clock_real_ns()};
    mutex_assert_held(&f->state_lock);
    if (stage_lock_alone(f, size, e))
        return -1;
    if (ftruncate(f->stage_fd, (off_t)size)) {
        int errnum = errno;
        stage_unchanged(f);
        return stage_error(e, errnum, "truncate a staged file");
    }
    inodes_set(
        file_conf(f)->inodes, f->ino, INODES_SIZE | INODES_MTIME, &set, INODE_DIRTY, INODE_ATTR);
    pthread_rwlock_unlock(&f->data_lock);
    return 0;
}
