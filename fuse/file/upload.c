/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/upload.h"

#include "fuse/file/attr.h"
#include "fuse/file/commit.h"
#include "fuse/file/content.h"
#include "fuse/file/dir_move.h"
#include "fuse/file/kept.h"
#include "fuse/file/stage.h"
#include "fuse/file/stage_sync.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RETRY_FIRST_NS (5 * NS_PER_S)
#define RETRY_LAST_NS  (60 * NS_PER_S)
/* what is retried each minute is not read each minute: it may be large */
#define CHECK_AGAIN_NS (600 * NS_PER_S)
/* who has given way that often is not told to any more: it would never come there */
#define STOPS_MOST 5
#define PUT_OFF_NS NS_PER_S

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

struct upload {
    struct inode n;
    struct store *store;
    char path[INODE_PATH_MAX];
    uint64_t counted, size;
    bool behind; /* nobody waits for it */
    bool begun;  /* f->begun, before it was sent */
};

/* What a caller asked to save is on the disk, with a note that says so; where more was asked for
 * since, that stays. begun: as of stage_mark(). */
static int upload_mark(struct file *f, uint64_t counted, uint64_t size, bool begun, struct err *e)
{
    cleanup_fd int note = -1;
    mutex_assert_held(&f->mark_lock);
    if (atomic_load(&f->marked) >= counted)
        return 0;
    if (stage_mark(f, f->stage_fd, size, begun, &note, e)
        || stage_sync(files_stage_sync(f->files), f->stage_fd, note, e))
        return -1;
    atomic_store(&f->marked, counted);
    atomic_store(&f->marked_ok_ns, 0);
    return 0;
}

/* It is tried again. What a caller asked to save is on this disk before the caller is told that it
 * failed.
 */
static void upload_failed(struct file *f, const struct upload *u, struct err *e)
{
    struct err unmarked = ERR_INIT;
    atomic_fetch_add(&stats.failed, 1);
    int64_t wait = RETRY_FIRST_NS << MIN(f->failures, 4u);
    f->failures++;
    f->stopped = 0;
    atomic_store(&f->retry_ns, clock_mono_ns() + MIN(wait, RETRY_LAST_NS));
    files_note_error(f->files, f->ino, e);
    log_kv(LOG_ERROR, "upload failed; the file is kept and tried again", "path", u->path, "error",
        e->msg, NULL);
    pthread_mutex_lock(&f->mark_lock);
    int rc = upload_mark(f, u->counted, u->size, u->begun, &unmarked);
    pthread_mutex_unlock(&f->mark_lock);
    if (rc)
        log_kv(LOG_ERROR, "a file that could not be uploaded would not survive a power cut", "path",
            u->path, "error", unmarked.msg, NULL);
}

/* The store has the first `counted` changes. In one step, as far as writers see: who is killed
 * after it leaves an index that knows of all others. */
static void upload_done(
    struct file *f, const struct inode *n, uint64_t counted, const struct store_stat *st)
{
    struct inode set = {
        .mtime_ns = st->mtime_ns, .synced_s = (uint32_t)(clock_real_ns() / NS_PER_S)};
    snprintf(set.version, sizeof set.version, "%s", st->version);
    pthread_mutex_lock(&f->mark_lock); /* a note of what was saved since stays */
    pthread_rwlock_wrlock(&f->data_lock);
    bool all = atomic_load(&f->written) == counted, told = st->attr.has & STORE_MTIME,
         keep_time = !all || ((n->flags & INODE_ATTR) && !told) || !st->mtime_ns;
    inodes_set(file_conf(f)->inodes, f->ino,
        INODES_VERSION | INODES_SYNCED | (keep_time ? 0 : INODES_MTIME), &set, 0,
        INODE_LOCAL | (all ? INODE_DIRTY | (told ? INODE_ATTR : 0) : 0));
    attr_told(file_conf(f)->inodes, f->ino, st);
    atomic_store(&f->saved, counted);
    bool over = all || MAX(atomic_load(&f->marked), atomic_load(&f->safe)) <= counted;
    stage_saved(f, all, over);
    if (all && atomic_exchange(&f->promised, false))
        stage_sync_gone(files_stage_sync(f->files));
    atomic_store(&f->begun, false);
    pthread_rwlock_unlock(&f->data_lock);
    pthread_mutex_unlock(&f->mark_lock);
    if (!all)
        atomic_store(&f->dirty_ns, clock_mono_ns());
    else
        atomic_store(&f->due_ns, 0);
    atomic_store(&f->retry_ns, 0);
    f->failures = f->stopped = 0;
    atomic_fetch_add(&stats.bytes, st->size);
    atomic_fetch_add(&stats.files, 1);
}

/* noted: its note goes, too. Who is about to write that down waits, or finds nothing to save. */
static void forget_changes(struct file *f, bool noted)
{
    pthread_mutex_lock(&f->mark_lock);
    pthread_rwlock_wrlock(&f->data_lock);
    atomic_store(&f->saved, atomic_load(&f->written));
    atomic_store(&f->retry_ns, 0);
    atomic_store(&f->due_ns, 0);
    inodes_set(file_conf(f)->inodes, f->ino, 0, NULL, 0, INODE_DIRTY);
    pthread_rwlock_unlock(&f->data_lock);
    if (noted)
        stage_remove_sidecar(f);
    pthread_mutex_unlock(&f->mark_lock);
}

/* By which it is told to give way; NULL: by nothing. */
static const atomic_bool *upload_stop(const struct file *f, const struct upload *u)
{
    return u->behind && f->stopped < STOPS_MOST ? &f->stop : NULL;
}

static int upload_gives_way(const struct file *f, const struct upload *u, struct err *e)
{
    const atomic_bool *stop = upload_stop(f, u);
    return stop && atomic_load(stop) ? err_sys(e, ECANCELED, "an upload gives way") : 0;
}

/* What there is to upload: the staging file is open, u->counted changes are in its first u->size
 * bytes.
 */
static int upload_look(struct file *f, struct upload *u, bool send, struct err *e)
{
    struct stat content;
    pthread_rwlock_wrlock(&f->data_lock);
    int rc = f->stage_fd >= 0 ? 0 : stage_attach(f, e);
    u->counted = atomic_load(&f->written);
    if (rc == 0 && fstat(f->stage_fd, &content))
        rc = err_sys(e, errno, "look at a staged file");
    u->size = rc ? 0 : (uint64_t)content.st_size;
    if (u->behind && send)
        atomic_store(&f->sending, u->size);
    pthread_rwlock_unlock(&f->data_lock);
    return rc;
}

/* What was to be saved and could not be has a checksum on the disk. -1: nobody knows, or the store
 * does not answer, for which nothing needs to be read; *damaged: it is not that any more, though
 * nobody has written to it. */
static int upload_check(struct file *f, const struct upload *u, bool *damaged, struct err *e)
{
    struct err none = ERR_INIT;
    struct store_stat st;
    struct sidecar note;
    uint32_t crc;
    *damaged = false;
    int64_t ok_ns = atomic_load(&f->marked_ok_ns);
    if (atomic_load(&f->marked) != u->counted || (ok_ns && clock_mono_ns() - ok_ns < CHECK_AGAIN_NS)
        || stage_read_note(f, &note, &none) || !note.asked)
        return 0;
    /* only where it has failed before: the first time, this would be one more question for nothing
     */
    if (f->failures && store_stat_path(u->store, u->path, &st, &none) && none.cls == ERR_RETRY) {
        *e = none;
        return -1;
    }
    if (note.asked_len == u->size && content_crc(f->stage_fd, u->size, &crc, e))
        return -1;
    bool same = note.asked_len == u->size && note.asked_crc == crc;
    /* else it was read while it was written */
    *damaged = !same && atomic_load(&f->written) == u->counted;
    if (same)
        atomic_store(&f->marked_ok_ns, clock_mono_ns());
    return 0;
}

static void upload_damaged(struct file *f, const struct upload *u, struct err *e)
{
    char kept[STAGE_NAME_MAX];
    if (stage_keep(f, KEPT_DAMAGED, kept, e)) { /* it stays staged, and is looked at again */
        upload_failed(f, u, e);
        return;
    }
    tree_detach(file_conf(f)->tree, f->ino);
    forget_changes(f, false);
    err_sys(e, EIO,
        "%s: what was written has changed by itself on the disk of this node, and is not saved: it is kept as stage/kept/%s, see millrace stat",
        u->path, kept);
    files_note_error(f->files, f->ino, e);
    log_kv(LOG_ERROR,
        "a written file has changed by itself on the disk: it is not saved, but kept aside", "path",
        u->path, "kept", kept, NULL);
}

/* It is not in the store, and will not be: what was written here is kept aside, and the name goes
 * to what the store has. */
static void upload_abort(struct file *f, const struct upload *u, struct err *e)
{
    char kept[STAGE_NAME_MAX];
    struct err why = *e;
    const char *path = u->path;
    if (stage_keep(f, KEPT_CONFLICT, kept, e)) { /* nothing is lost: it stays staged */
        upload_failed(f, u, e);
        return;
    }
    tree_detach(file_conf(f)->tree, f->ino);
    forget_changes(f, false);
    err_sys(e, ESTALE,
        "%s: another writer has changed it in the store since; what was written here is kept on this node as stage/kept/%s, see millrace stat",
        path, kept);
    files_note_error(f->files, f->ino, e);
    log_kv(LOG_ERROR, "another writer has changed a written file: our content is kept aside",
        "path", path, "kept", kept, "error", why.msg, NULL);
}

/* The store has something else than what we began from: is it what an earlier attempt put there,
 * whose answer was lost? Or nothing, where we have nothing? As upload_was_sent(). */
static int upload_was_ours(
    struct file *f, const struct upload *u, struct store_stat *st, struct err *e)
{
    struct err failed = ERR_INIT;
    if (store_stat_path(u->store, u->path, st, &failed)) {
        if (failed.cls != ERR_RETRY)
            return 0;
        *e = failed;
        return -1;
    }
    if (!st->is_dir && u->size == 0 && st->size == 0)
        return 1;
    return upload_was_sent(f, u->store, u->path, st, e);
}

/* The store has that of us, or what we began from, and nothing else. */
static int upload_know(struct file *f, struct upload *u, const struct store_stat *st, struct err *e)
{
    if (st) {
        memcpy(u->n.version, st->version, sizeof u->n.version);
        u->n.flags &= ~(unsigned)INODE_LOCAL;
        inodes_set(file_conf(f)->inodes, f->ino, INODES_VERSION, &u->n, 0, INODE_LOCAL);
    }
    pthread_mutex_lock(&f->mark_lock);
    int rc = stage_know_sent(f, e);
    if (rc == 0)
        atomic_store(&f->begun, u->begun = false);
    pthread_mutex_unlock(&f->mark_lock);
    return rc;
}

/* Which of them does the store have? A note has room for one that it may have, so that nothing more
 * is sent before this is known. */
static int upload_ask(struct file *f, struct upload *u, struct err *e)
{
    struct store_stat st;
    bool none = (u->n.flags & INODE_LOCAL) || !*u->n.version;
    if (store_stat_path(u->store, u->path, &st, e))
        return e->cls != ERR_NOTFOUND ? -1 : none ? upload_know(f, u, NULL, e) : 0;
    if (!none && !st.is_dir && strcmp(st.version, u->n.version) == 0)
        return upload_know(f, u, NULL, e);
    int ours = upload_was_sent(f, u->store, u->path, &st, e);
    return ours > 0 ? upload_know(f, u, &st, e) : ours;
}

/* A note from before the latest answer would tell after a power cut of what was sent then, and have
 * no room for what is sent now. */
static void upload_note_now(struct file *f)
{
    struct err e = ERR_INIT;
    if (atomic_exchange(&f->note_late, false) && stage_sync(files_stage_sync(f->files), -1, -1, &e))
        atomic_store(&f->note_late, true);
}

/* Before it is sent: its note says so, as what is saved while it is under way, or when its answer
 * was lost, is told from it by that. Who is told of nothing before the store has it, needs that
 * only once something went wrong. */
static int upload_promise(struct file *f, struct upload *u, struct err *e)
{
    const bool promised = commit_may_wait(f);
    for (bool asked = false;; asked = true) {
        struct err none = ERR_INIT;
        struct sidecar note;
        pthread_mutex_lock(&f->mark_lock);
        int rc = upload_look(f, u, true, e);
        u->begun = atomic_load(&f->begun);
        /* where the disk has no room for that, it gets some by the upload */
        if (rc == 0 && (promised || u->begun))
            upload_mark(f, u->counted, u->size, u->begun, &none);
        bool sent = rc == 0 && (u->begun || atomic_load(&f->marked)) && !atomic_load(&f->note_old)
            && stage_read_note(f, &note, &none) == 0 && note.sent;
        if (sent && !u->begun) /* that was given up */
            stage_know_sent(f, &none);
        bool ask = sent && u->begun && !asked;
        if (rc == 0 && !ask) {
            upload_note_now(f);
            atomic_store(&f->begun, true);
        }
        pthread_mutex_unlock(&f->mark_lock);
        if (rc || !ask)
            return rc;
        atomic_store(&f->sending, 0);
        if (upload_ask(f, u, e) || upload_gives_way(f, u, e))
            return -1;
    }
}

static int upload_put(struct file *f, struct upload *u, struct store_stat *st, struct err *e)
{
    if (upload_promise(f, u, e))
        return -1;
    struct store_attr attr;
    attr_of_inode(&u->n, &attr);
    bool known = (u->n.flags & INODE_LOCAL) || *u->n.version;
    int rc = store_put(u->store, u->path,
        &(struct store_put){.fd = f->stage_fd,
            .len = u->size,
            .expect = known ? u->n.version : NULL,
            .attr = &attr,
            .cancel = upload_stop(f, u),
            .certain = true},
        st, e);
    atomic_store(&f->sending, 0);
    return rc;
}

/* A caller wants the file: nothing of it has come to the store. */
static void upload_put_off(struct file *f, const struct upload *u)
{
    atomic_store(&f->begun, u->begun);
    f->stopped++;
    if (!atomic_load(&f->retry_ns))
        atomic_store(&f->due_ns, clock_mono_ns() + PUT_OFF_NS);
}

/* What a rename left at that path goes first: then there is no version that is replaced. */
static int upload_settle(struct file *f, struct upload *u, unsigned mount, struct err *e)
{
    struct store_stat st;
    struct err none = ERR_INIT;
    bool found;
    if (dir_move_settle_locked(f->files, mount, u->path, &found, e))
        return -1;
    if (found && store_stat_path(u->store, u->path, &st, &none) && none.cls == ERR_NOTFOUND) {
        *u->n.version = '\0';
        u->n.flags |= INODE_LOCAL;
        inodes_set(file_conf(f)->inodes, f->ino, INODES_VERSION, &u->n, INODE_LOCAL, 0);
    }
    return 0;
}

static int upload(struct file *f, bool behind, struct err *e)
{
    struct upload u = {.behind = behind, .begun = atomic_load(&f->begun)};
    struct store_stat st = {0};
    unsigned mount;
    bool damaged;
    if (file_inode(f, &u.n, NULL) || (u.n.flags & INODE_UNLINKED)) {
        forget_changes(f, false); /* no name leads to them any more */
        return 0;
    }
    if (upload_look(f, &u, false, e)
        || tree_where(file_conf(f)->tree, f->ino, &u.store, &mount, u.path, e))
        return -1;
    if (u.counted == atomic_load(&f->saved)) /* a change was counted, and was none */
        return 0;
    int rc = upload_check(f, &u, &damaged, e);
    if (damaged) {
        upload_damaged(f, &u, e);
        return -1;
    }
    if (rc == 0 && upload_gives_way(f, &u, e) == 0 && upload_settle(f, &u, mount, e) == 0
        && upload_gives_way(f, &u, e) == 0)
        rc = upload_put(f, &u, &st, e);
    else
        rc = -1;
    /* where the store does not answer that, it is asked again */
    if (rc && e->cls == ERR_CONFLICT && upload_was_ours(f, &u, &st, e) > 0)
        rc = upload_know(f, &u, &st, e) ? -1 : upload_put(f, &u, &st, e);
    if (rc == 0)
        upload_done(f, &u.n, u.counted, &st);
    else if (behind && e->sys == ECANCELED)
        upload_put_off(f, &u);
    else if (e->cls == ERR_CONFLICT)
        upload_abort(f, &u, e);
    else
        upload_failed(f, &u, e);
    return rc;
}

/* It was written to in the moment in which its name went to another file. */
static int upload_lost(struct file *f, struct err *e)
{
    char kept[STAGE_NAME_MAX];
    struct err none = ERR_INIT;
    if (file_is_dirty(f) && stage_keep(f, KEPT_CONFLICT, kept, &none))
        log_kv(LOG_ERROR, "a written file is not kept", "error", none.msg, NULL);
    forget_changes(f, false);
    return file_lost(f, e);
}

/* Is there anything to upload? *rc: what is to be returned where not. */
static bool upload_is_needed(struct file *f, int *rc, struct err *e)
{
    struct inode n;
    mutex_assert_held(&f->state_lock);
    *rc = 0;
    if (file_inode(f, &n, NULL) == 0 && (n.flags & INODE_ORPHANED)) {
        *rc = upload_lost(f, e);
        return false;
    }
    return file_is_dirty(f);
}

int file_upload_locked(struct file *f, struct err *e)
{
    int rc;
    if (!upload_is_needed(f, &rc, e))
        return rc;
    progress_rdlock(files_rename_lock(f->files), PROGRESS_ANY);
    rc = upload(f, false, e);
    pthread_rwlock_unlock(files_rename_lock(f->files));
    return rc;
}

int file_upload_behind(struct file *f, struct err *e)
{
    int rc;
    if (!upload_is_needed(f, &rc, e))
        return rc;
    atomic_store(&f->stop, false);
    bool wanted = atomic_load(&f->wanted);
    if (wanted || pthread_rwlock_tryrdlock(files_rename_lock(f->files)))
        return err_sys(e, ECANCELED, "an upload gives way");
    rc = files_uploads_held(f->files) ? err_sys(e, ECANCELED, "an upload gives way")
                                      : upload(f, true, e);
    atomic_store(&f->sending, 0);
    pthread_rwlock_unlock(files_rename_lock(f->files));
    return rc;
}

int file_upload(struct file *f, struct err *e)
{
    file_lock_state(f);
    int rc = file_upload_locked(f, e);
    pthread_mutex_unlock(&f->state_lock);
    return rc;
}

void file_discard(struct file *f)
{
    forget_changes(f, true);
    if (atomic_exchange(&f->promised, false))
        stage_sync_gone(files_stage_sync(f->files));
    file_finish(f);
}

void upload_count_pending(uint64_t n) { atomic_store(&stats.pending, n); }
