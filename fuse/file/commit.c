/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/commit.h"

#include "fuse/file/stage.h"
#include "fuse/file/stage_sync.h"
#include "fuse/file/upload.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is closed is often closed again, renamed or removed in a moment … */
#define QUIET_NS (2 * NS_PER_S)
/* … but not for ever. */
#define LATEST_NS (10 * NS_PER_S)
#define TRIES     8

/* `counted` changes are in the first *size bytes of *fd. */
static int commit_begin(struct file *f, uint64_t *counted, uint64_t *size, int *fd, struct err *e)
{
    struct stat content;
    pthread_rwlock_wrlock(&f->data_lock);
    int rc = f->stage_fd >= 0 ? 0 : stage_attach(f, e);
    *counted = atomic_load(&f->written);
    if (rc == 0
        && ((*fd = fcntl(f->stage_fd, F_DUPFD_CLOEXEC, 0)) < 0 || fstat(f->stage_fd, &content)))
        rc = stage_error(e, errno, "keep a staged file");
    pthread_rwlock_unlock(&f->data_lock);
    *size = rc ? 0 : (uint64_t)content.st_size;
    return rc;
}

static int commit_mark(
    struct file *f, int fd, uint64_t counted, uint64_t size, int *note, struct err *e)
{
    mutex_assert_held(&f->mark_lock);
    if (atomic_load(&f->marked) == counted) /* another caller waits for the disk */
        return (*note = stage_open_note(f, e)) < 0 ? -1 : 0;
    if (stage_mark(f, fd, size, atomic_load(&f->begun), note, e))
        return -1;
    atomic_store(&f->marked, counted);
    atomic_store(&f->marked_ok_ns, 0);
    return 0;
}

static void commit_done(struct file *f, uint64_t counted)
{
    int64_t now = clock_mono_ns(), latest = atomic_load(&f->dirty_ns) + LATEST_NS;
    pthread_mutex_lock(&f->mark_lock);
    if (atomic_load(&f->safe) < counted)
        atomic_store(&f->safe, counted);
    pthread_mutex_unlock(&f->mark_lock);
    atomic_store(&f->due_ns, MAX(MIN(now + QUIET_NS, latest), now));
}

/* What has no name any more is lost with its last close. */
static bool commit_is_needed(const struct file *f)
{
    struct inode n;
    return file_is_dirty(f) && !(file_inode(f, &n, NULL) == 0 && (n.flags & INODE_UNLINKED));
}

static int file_commit(struct file *f, struct err *e)
{
    uint64_t counted = 0, size = 0;
    cleanup_fd int fd = -1, note = -1;
    pthread_mutex_lock(&f->mark_lock);
    bool saved = !commit_is_needed(f);
    int rc = 0;
    for (int i = 0; !saved && i < TRIES; i++) {
        if (fd >= 0)
            close(fd);
        fd = -1;
        rc = commit_begin(f, &counted, &size, &fd, e);
        saved = rc == 0 && atomic_load(&f->safe) == counted;
        if (rc == 0 && !saved)
            rc = commit_mark(f, fd, counted, size, &note, e);
        if (rc == 0 || atomic_load(&f->written) == counted) /* else another may have cut it off */
            break;
    }
    if (rc && !commit_is_needed(f)) { /* it was removed meanwhile */
        rc = 0;
        saved = true;
    }
    pthread_mutex_unlock(&f->mark_lock);
    if (rc || saved)
        return rc;
    if (stage_sync(files_stage_sync(f->files), fd, note, e)) {
        pthread_mutex_lock(&f->mark_lock);
        if (atomic_load(&f->marked) == counted)
            atomic_store(&f->marked, 0); /* who knows what is on the disk */
        pthread_mutex_unlock(&f->mark_lock);
        return stage_error(e, err_errno(e), "keep a staged file");
    }
    commit_done(f, counted);
    return 0;
}

int file_save_locked(struct file *f, struct err *e)
{
    mutex_assert_held(&f->state_lock);
    return commit_may_wait(f) ? file_commit(f, e) : file_upload_locked(f, e);
}

int file_save(struct file *f, struct err *e)
{
    if (!commit_may_wait(f))
        return file_upload(f, e);
    int rc = file_commit(f, e);
    if (rc)
        files_note_error(f->files, f->ino, e);
    return rc;
}

int files_save(struct files *fs, uint64_t ino, bool wrote, struct err *e)
{
    struct inode n;
    bool known = inodes_get(files_config(fs)->inodes, ino, &n) == 0;
    if (!wrote && known && !(n.flags & INODE_DIRTY))
        return 0;
    if (known && (n.flags & INODE_DIRTY))
        files_will_block(fs);
    struct file *f = files_get(fs, ino, e);
    int rc = f ? file_save(f, e) : -1;
    if (f)
        files_put(f);
    return rc;
}

bool commit_is_due(const struct file *f, int64_t now_ns)
{
    int64_t due = atomic_load(&f->due_ns);
    return due && now_ns >= due && atomic_load(&f->safe) == atomic_load(&f->written);
}
