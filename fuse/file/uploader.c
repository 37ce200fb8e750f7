/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/uploader.h"

#include "fuse/file/commit.h"
#include "fuse/file/dir_move.h"
#include "fuse/file/recover.h"
#include "fuse/file/stage_sync.h"
#include "fuse/file/upload.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/pool.h"
#include "lib/base/progress.h"
#include "lib/base/task.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define TICK_NS NS_PER_S
/* a file that is held open is uploaded when it was dirty that long … */
#define LIVE_NS         (30 * NS_PER_S)
#define QUIET_NS        (2 * NS_PER_S) /* … and not written to for a moment, */
#define LIVE_BUSY_BYTES (64 << 20)     /* or is not large */
#define RESUME_NS       (10 * NS_PER_S)
#define AT_ONCE         32 /* uploads in the background, of a mount */

/* One thread a mount, so that a store that is dead holds up nobody else's files. */
struct lane {
    struct uploader *of;
    struct task task;
    struct pool *pool;                    /* of what nobody waits for */
    atomic_uint_fast64_t pending, flying; /* the latter: in the pool */
    unsigned mount;
    /* of the thread */
    uint64_t npending;
    bool gave_up; /* its store does not answer: in this round, the other files wait */
    bool last;    /* about to stop */
};

struct uploader {
    struct files *fs;
    atomic_bool leaves;
    struct task moves; /* directory renames that were interrupted */
    unsigned nlanes;
    struct lane lanes[];
};

static bool upload_is_due(const struct file *f, bool last)
{
    int64_t now = clock_mono_ns(), retry = atomic_load(&f->retry_ns);
    if (last)
        return true;
    if (retry)
        return now >= retry;
    if (commit_is_due(f, now))
        return true;
    struct inode n;
    if (inodes_get(files_config(f->files)->inodes, f->ino, &n))
        return false;
    bool quiet = now - atomic_load(&f->write_ns) >= QUIET_NS;
    if (n.opens == 0) /* a shared mapping outlived its file, or the process that closed it */
        return quiet;
    return now - atomic_load(&f->dirty_ns) >= LIVE_NS && (quiet || n.size <= LIVE_BUSY_BYTES);
}

struct behind {
    struct lane *lane;
    struct file *f;
};

/* Closed while it was being uploaded: nobody else does the rest. */
static void behind_finish(struct file *f)
{
    struct inode n;
    if (file_inode(f, &n, NULL) || n.opens || !(n.flags & INODE_STAGED) || file_is_dirty(f))
        return;
    file_lock_state(f);
    file_finish(f);
    pthread_mutex_unlock(&f->state_lock);
}

/* While its store does not answer, one finds out whether it does again. */
static bool lane_waits(struct lane *l, uint64_t flying)
{
    struct store *store = tree_store(files_config(l->of->fs)->tree, l->mount);
    return store && atomic_load(&l->flying) > flying && store_is_silent(store);
}

static void behind_job(void *arg)
{
    struct behind *b = arg;
    struct file *f = b->f;
    struct err e = ERR_INIT;
    progress_of(f->ino, f->ino);
    if (!lane_waits(b->lane, 1)) {
        pthread_mutex_lock(&f->state_lock);
        if (file_upload_behind(f, &e) == 0)
            file_finish(f);
        pthread_mutex_unlock(&f->state_lock);
        behind_finish(f);
    }
    progress_of(0, 0);
    atomic_store(&f->queued, false);
    atomic_fetch_sub(&b->lane->flying, 1);
    files_put(f);
    free(b);
}

static void upload_behind(struct lane *l, struct file *f)
{
    struct err e = ERR_INIT;
    if (lane_waits(l, 0) || atomic_exchange(&f->queued, true))
        return;
    struct behind *b = malloc(sizeof *b);
    struct file *own = b ? files_get(f->files, f->ino, &e) : NULL;
    if (own == f) {
        *b = (struct behind){l, f};
        atomic_fetch_add(&l->flying, 1);
        if (pool_add(l->pool, 0, behind_job, b) == 0)
            return;
        atomic_fetch_sub(&l->flying, 1);
    }
    if (own)
        files_put(own);
    free(b);
    atomic_store(&f->queued, false);
}

static void uploader_visit(void *user, struct file *f)
{
    struct lane *l = user;
    struct inode n;
    struct err e = ERR_INIT;
    if (!file_is_dirty(f))
        return;
    unsigned mount = inodes_get(files_config(f->files)->inodes, f->ino, &n) ? 0 : n.mount;
    if ((mount < l->of->nlanes ? mount : 0) != l->mount)
        return;
    l->npending++;
    if (l->gave_up || !upload_is_due(f, l->last))
        return;
    if (commit_may_wait(f)) {
        if (!atomic_load(&l->of->leaves))
            upload_behind(l, f);
        return;
    }
    progress_of(f->ino, f->ino);
    pthread_mutex_lock(&f->state_lock);
    if (file_upload_locked(f, &e) == 0) {
        l->npending--;
        file_finish(f);
    } else {
        struct store *store = tree_store(files_config(f->files)->tree, mount);
        l->gave_up = store && store_is_silent(store);
    }
    pthread_mutex_unlock(&f->state_lock);
}

static void uploader_count(struct lane *l)
{
    uint64_t pending = 0;
    l->npending = 0;
    files_each(l->of->fs, uploader_visit, l);
    atomic_store(&l->pending, l->npending);
    for (unsigned i = 0; i < l->of->nlanes; i++)
        pending += atomic_load(&l->of->lanes[i].pending);
    upload_count_pending(pending);
}

static void uploader_visit_all(struct lane *l)
{
    l->gave_up = false;
    uploader_count(l);
}

static void uploader_thread(void *user)
{
    struct lane *l = user;
    do {
        uploader_visit_all(l);
        stage_sync_settle(files_stage_sync(l->of->fs));
    } while (!task_wait(&l->task, clock_mono_ns() + TICK_NS));
    l->last = true;
    uploader_visit_all(l);
    pool_free(l->pool);
    l->gave_up = true; /* what is left is counted */
    l->pool = NULL;
    uploader_count(l);
}

static void moves_thread(void *user)
{
    struct uploader *w = user;
    do
        dir_move_resume(w->fs);
    while (!task_wait(&w->moves, clock_mono_ns() + RESUME_NS));
}

struct uploader *uploader_start(struct files *fs, struct err *e)
{
    unsigned nlanes = MAX(1u, (unsigned)files_config(fs)->conf->nmounts);
    struct uploader *w = calloc(1, sizeof *w + nlanes * sizeof *w->lanes);
    if (!w) {
        err_sys(e, ENOMEM, "start uploading");
        return NULL;
    }
    w->fs = fs;
    w->nlanes = nlanes;
    recover_begin(fs);
    int rc = task_start(&w->moves, "renames", moves_thread, w, e);
    for (unsigned i = 0; i < nlanes && rc == 0; i++) {
        struct lane *l = &w->lanes[i];
        l->of = w;
        l->mount = i;
        l->pool = pool_new(&(struct pool_conf){.name = "uploads", .threads = AT_ONCE});
        rc = l->pool ? task_start(&l->task, "uploader", uploader_thread, l, e)
                     : err_sys(e, ENOMEM, "start uploading");
    }
    if (rc == 0)
        return w;
    uploader_stop(w);
    return NULL;
}

void uploader_leave(struct uploader *w)
{
    atomic_store(&w->leaves, true);
    files_hold_uploads(w->fs); /* for good */
}

void uploader_stop(struct uploader *w)
{
    if (!w)
        return;
    for (unsigned i = 0; i < w->nlanes; i++)
        task_cancel(&w->lanes[i].task);
    task_stop(&w->moves);
    for (unsigned i = 0; i < w->nlanes; i++) {
        task_stop(&w->lanes[i].task);
        if (w->lanes[i].pool) /* its thread was not started */
            pool_free(w->lanes[i].pool);
    }
    free(w);
}
