/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/allocate.h"

#include "fuse/file/read.h"
#include "fuse/file/stage.h"
#include "fuse/file/stage_room.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)

static bool mode_is_known(int mode)
{
    return mode == PUNCH || !(mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_ZERO_RANGE));
}

static int allocate_on_disk(int fd, int mode, uint64_t off, uint64_t len)
{
    int rc;
    do
        rc = fallocate(fd, mode, (off_t)off, (off_t)len);
    while (rc && errno == EINTR);
    return rc;
}

/* tmpfs and others know no FALLOC_FL_ZERO_RANGE: a hole that is filled again is the same. */
static int zero_on_disk(int fd, uint64_t off, uint64_t len)
{
    int rc = allocate_on_disk(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, off, len);
    if (rc == 0 || errno != EOPNOTSUPP)
        return rc;
    return allocate_on_disk(fd, PUNCH, off, len)
            || allocate_on_disk(fd, FALLOC_FL_KEEP_SIZE, off, len)
        ? -1
        : 0;
}

static int grow_on_disk(int fd, uint64_t end)
{
    struct stat now;
    if (fstat(fd, &now))
        return -1;
    return (uint64_t)now.st_size < end ? ftruncate(fd, (off_t)end) : 0;
}

/* The room comes first, and the size apart from it: a disk that has no more may have made the file
 * longer before it says so. *zeroed: content may have changed, whatever is returned. */
static int allocate_staged(int fd, int mode, uint64_t off, uint64_t len, bool *zeroed)
{
    *zeroed = false;
    if (mode != PUNCH && allocate_on_disk(fd, FALLOC_FL_KEEP_SIZE, off, len))
        return -1;
    if (mode == PUNCH || mode & FALLOC_FL_ZERO_RANGE) {
        int rc = mode == PUNCH ? allocate_on_disk(fd, PUNCH, off, len) : zero_on_disk(fd, off, len);
        *zeroed = rc == 0 || errno != EOPNOTSUPP;
        if (rc)
            return rc;
    }
    return mode & FALLOC_FL_KEEP_SIZE ? 0 : grow_on_disk(fd, off + len);
}

/* The disk would give what is to be left free on it. */
static int need_room(struct file *f, uint64_t len, struct err *e)
{
    return len > stage_room_left(f->files)
        ? err_sys(e, ENOSPC, "the disk of the cache directory has no room for so much")
        : 0;
}

int file_allocate(struct file *f, int mode, uint64_t off, uint64_t len, struct err *e)
{
    uint64_t more = mode == PUNCH ? 0 : len;
    if (!mode_is_known(mode))
        return err_sys(e, EOPNOTSUPP, "fallocate with mode %#x", (unsigned)mode);
    bool zeroed;
    if (need_room(f, more, e) || stage_change_alone(f, more, e))
        return -1;
    int rc = allocate_staged(f->stage_fd, mode, off, len, &zeroed), errnum = errno;
    if (rc && !zeroed)
        stage_unchanged(f);
    else
        stage_changed(f, rc == 0 && !(mode & FALLOC_FL_KEEP_SIZE) ? off + len : 0);
    return rc ? stage_error(e, errnum, "allocate room for a staged file") : 0;
}

int64_t file_seek(struct file *f, uint64_t off, int whence, struct err *e)
{
    struct inode n;
    if (file_lock_attached(f, false, e))
        return -1;
    /* The offset of the descriptor is nobody's: all others say theirs. */
    int64_t at = f->stage_fd >= 0 ? lseek(f->stage_fd, (off_t)off, whence) : -1;
    int errnum = errno;
    bool staged = f->stage_fd >= 0;
    pthread_rwlock_unlock(&f->data_lock);
    if (file_inode(f, &n, e))
        return -1;
    if (!staged && off < n.size)
        return (int64_t)(whence == SEEK_DATA ? off : n.size);
    if (!staged)
        errnum = ENXIO;
    return at >= 0 ? at : err_sys(e, errnum, "seek");
}
