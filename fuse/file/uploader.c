/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/uploader.h"

#include "fuse/file/dir_move.h"
#include "fuse/file/recover.h"
#include "fuse/file/upload.h"
#include "lib/base/clock.h"
#include "lib/base/task.h"

#include <errno.h>
#include <stdlib.h>

#define TICK_NS NS_PER_S
/* a file that is held open is uploaded when it was dirty that long … */
#define LIVE_NS         (30 * NS_PER_S)
#define QUIET_NS        (2 * NS_PER_S) /* … and not written to for a moment, */
#define LIVE_BUSY_BYTES (64 << 20)     /* or is not large */
#define RESUME_NS       (10 * NS_PER_S)

struct uploader {
    struct files *fs;
    struct task task;
    /* of the thread */
    uint64_t pending;
    bool last; /* about to stop */
};

static bool upload_is_due(const struct file *f, bool last)
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

static void uploader_visit(void *user, struct file *f)
{
    struct uploader *w = user;
    struct err e = ERR_INIT;
    if (!file_is_dirty(f))
        return;
    w->pending++;
    if (!upload_is_due(f, w->last))
        return;
    pthread_mutex_lock(&f->state_lock);
    if (file_upload_locked(f, &e) == 0) {
        w->pending--;
        file_finish(f);
    }
    pthread_mutex_unlock(&f->state_lock);
}

static void uploader_visit_all(struct uploader *w)
{
    w->pending = 0;
    files_each(w->fs, uploader_visit, w);
    upload_count_pending(w->pending);
}

static void uploader_thread(void *user)
{
    struct uploader *w = user;
    int64_t resume_ns = 0;
    do {
        if (clock_mono_ns() >= resume_ns) {
            dir_move_resume(w->fs);
            resume_ns = clock_mono_ns() + RESUME_NS;
        }
        uploader_visit_all(w);
    } while (!task_wait(&w->task, clock_mono_ns() + TICK_NS));
    w->last = true;
    uploader_visit_all(w);
}

struct uploader *uploader_start(struct files *fs, struct err *e)
{
    struct uploader *w = calloc(1, sizeof *w);
    if (!w) {
        err_sys(e, ENOMEM, "start uploading");
        return NULL;
    }
    w->fs = fs;
    recover_begin(fs);
    if (task_start(&w->task, "uploader", uploader_thread, w, e)) {
        free(w);
        return NULL;
    }
    return w;
}

void uploader_stop(struct uploader *w)
{
    if (!w)
        return;
    task_stop(&w->task);
    free(w);
}
