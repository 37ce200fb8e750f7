/* SPDX-License-Identifier: Apache-2.0 */
/* The table of files: one struct file an inode, freed when it is neither used nor kept ready. */
#include "fuse/file/file.h"

#include "fuse/file/stage_room.h"
#include "fuse/file/stage_sync.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define BUCKETS 1024
/* closed files that are kept ready, however large: a file is closed between two reads, too */
#define IDLE_FEW 16
/* all others, as long as they are one part of so many of the cache: what we hold is not evicted */
#define IDLE_SHARE 8
#define IDLE_TRIES 4

struct files {
    struct files_conf c;
    pthread_rwlock_t rename_lock;
    _Atomic unsigned held; /* uploads in the background */
    struct stage_room room;
    struct stage_sync sync;
    pthread_mutex_t mu;
    struct file *buckets[BUCKETS];        /* mu */
    struct file idle;                     /* mu; head of a ring, least recently used first */
    unsigned nidle;                       /* mu */
    uint64_t idle_bytes, most_idle_bytes; /* mu; fixed */
    struct last_errors *errors;
};

const struct files_conf *files_config(const struct files *fs) { return &fs->c; }

pthread_rwlock_t *files_rename_lock(struct files *fs) { return &fs->rename_lock; }
struct stage_room *files_stage_room(struct files *fs) { return &fs->room; }
struct stage_sync *files_stage_sync(struct files *fs) { return &fs->sync; }

/* In this order: who begins an upload resets .stop first, and then looks whether he is wanted. */
void file_want_state(struct file *f)
{
    atomic_fetch_add(&f->wanted, 1);
    atomic_store(&f->stop, true);
}

void file_got_state(struct file *f) { atomic_fetch_sub(&f->wanted, 1); }

void file_lock_state(struct file *f)
{
    progress_of(f->ino, f->ino);
    if (pthread_mutex_trylock(&f->state_lock) == 0)
        return;
    files_will_block(f->files);
    file_want_state(f);
    pthread_mutex_lock(&f->state_lock);
    file_got_state(f);
}

static struct file **bucket_of(struct files *fs, uint64_t ino)
{
    return &fs->buckets[ino * UINT64_C(0x9E3779B97F4A7C15) >> 54];
}

static void idle_remove(struct file *f)
{
    if (!f->idle)
        return;
    f->idle_prev->idle_next = f->idle_next;
    f->idle_next->idle_prev = f->idle_prev;
    f->idle = false;
    f->files->nidle--;
    f->files->idle_bytes -= f->idle_bytes;
}

static void idle_add(struct file *f)
{
    struct file *head = &f->files->idle;
    f->idle_prev = head->idle_prev;
    f->idle_next = head;
    head->idle_prev->idle_next = f;
    head->idle_prev = f;
    f->idle = true;
    f->idle_bytes = f->cf ? cache_size(f->cf) : 0;
    f->files->nidle++;
    f->files->idle_bytes += f->idle_bytes;
}

/* It has no user and is out of the table. */
static void file_destroy(struct file *f)
{
    if (f->cf)
        cache_close(f->cf);
    if (f->stage_fd >= 0)
        close(f->stage_fd);
    pthread_mutex_destroy(&f->state_lock);
    pthread_mutex_destroy(&f->mark_lock);
    pthread_mutex_destroy(&f->note_lock);
    pthread_rwlock_destroy(&f->data_lock);
    free(f);
}

static struct file *table_remove(struct file *f)
{
    struct file **p = bucket_of(f->files, f->ino);
    while (*p && *p != f)
        p = &(*p)->chain;
    if (*p)
        *p = f->chain;
    idle_remove(f);
    return f;
}

static void destroy_all(struct file *dead)
{
    for (struct file *next; dead; dead = next) {
        next = dead->chain;
        file_destroy(dead);
    }
}

/* The cache wants its room: what is kept ready, by us or by the kernel, is closed, but for what the
 * kernel has open. */
static void close_idle(void *user)
{
    struct files *fs = user;
    struct file *dead = NULL;
    struct inode n;
    pthread_mutex_lock(&fs->mu);
    for (struct file *f = fs->idle.idle_next, *next; f != &fs->idle; f = next) {
        next = f->idle_next;
        if (inodes_get(fs->c.inodes, f->ino, &n) == 0 && n.generation == f->generation && n.opens)
            continue;
        table_remove(f);
        f->chain = dead;
        dead = f;
    }
    pthread_mutex_unlock(&fs->mu);
    destroy_all(dead);
    if (fs->c.backings)
        backings_shrink(fs->c.backings);
}

struct files *files_new(const struct files_conf *conf, struct err *e)
{
    struct files *fs = calloc(1, sizeof *fs);
    if (!fs) {
        err_sys(e, ENOMEM, "table of files");
        return NULL;
    }
    if (!(fs->errors = last_errors_new(e))) {
        free(fs);
        return NULL;
    }
    fs->c = *conf;
    if (!fs->c.max_idle)
        fs->c.max_idle = 1024;
    struct cache_stats c;
    cache_stats(fs->c.cache, &c);
    fs->most_idle_bytes = c.capacity_bytes / IDLE_SHARE;
    fs->idle.idle_next = fs->idle.idle_prev = &fs->idle;
    pthread_mutex_init(&fs->mu, NULL);
    /* a directory that is to be moved does not wait for uploads that come after it */
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&fs->rename_lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    stage_sync_init(&fs->sync, fs->c.stage_dir);
    stage_sync_gone(&fs->sync); /* a note of the process before us, perhaps */
    pthread_mutex_init(&fs->room.mu, NULL);
    cache_on_short(fs->c.cache, close_idle, fs);
    return fs;
}

void files_free(struct files *fs)
{
    if (!fs)
        return;
    cache_on_short(fs->c.cache, NULL, NULL);
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct file *f = fs->buckets[i], *next; f; f = next) {
            next = f->chain;
            file_destroy(f);
        }
    last_errors_free(fs->errors);
    pthread_mutex_destroy(&fs->mu);
    pthread_rwlock_destroy(&fs->rename_lock);
    pthread_mutex_destroy(&fs->room.mu);
    stage_sync_destroy(&fs->sync);
    free(fs);
}

static struct file *file_make(struct files *fs, const struct inode *n)
{
    struct file *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->files = fs;
    f->ino = n->ino;
    f->generation = n->generation;
    f->stage_fd = -1;
    pthread_mutex_init(&f->state_lock, NULL);
    pthread_mutex_init(&f->mark_lock, NULL);
    pthread_mutex_init(&f->note_lock, NULL);
    pthread_rwlock_init(&f->data_lock, NULL);
    if (n->flags & INODE_DIRTY) { /* of a process before this one */
        atomic_store(&f->written, 1);
        atomic_store(&f->begun, true); /* who knows */
        atomic_store(&f->promised, true);
        atomic_store(&f->dirty_ns, clock_mono_ns());
        atomic_store(&f->write_ns, clock_mono_ns());
    } else if (n->flags & INODE_STAGED) {
        atomic_store(&f->note_old, true);
    }
    return f;
}

struct file *files_get(struct files *fs, uint64_t ino, struct err *e)
{
    struct inode n;
    if (inodes_get(fs->c.inodes, ino, &n)) {
        err_sys(e, ESTALE, "inode %llu", (unsigned long long)ino);
        return NULL;
    }
    if (n.flags & INODE_DIR) {
        err_sys(e, EISDIR, "inode %llu", (unsigned long long)ino);
        return NULL;
    }
    struct file *dead = NULL;
    pthread_mutex_lock(&fs->mu);
    struct file **p = bucket_of(fs, ino);
    while (*p && (*p)->ino != ino)
        p = &(*p)->chain;
    if (*p && (*p)->generation != n.generation) { /* the record is another file's now */
        dead = *p;
        idle_remove(dead);
        *p = dead->chain;
        if (dead->refs) { /* its last user frees it */
            dead->replaced = true;
            dead = NULL;
        }
        p = bucket_of(fs, ino);
        while (*p)
            p = &(*p)->chain;
    }
    struct file *f = *p;
    if (!f && (f = file_make(fs, &n)))
        *p = f;
    if (f) {
        f->refs++;
        idle_remove(f);
    } else {
        err_sys(e, ENOMEM, "open inode %llu", (unsigned long long)ino);
    }
    pthread_mutex_unlock(&fs->mu);
    if (dead)
        file_destroy(dead);
    return f;
}

/* Takes one file out of the table if more are kept ready than may be; NULL: none. A file that the
 * kernel has open stays: the kernel reads it from the disk by itself, and meanwhile the cache must
 * count it. fs->mu is held. */
static struct file *take_idle(struct files *fs)
{
    struct inode n;
    if (fs->nidle > fs->c.max_idle)
        return table_remove(fs->idle.idle_next);
    for (int i = 0; i < IDLE_TRIES && fs->nidle > IDLE_FEW && fs->idle_bytes > fs->most_idle_bytes;
         i++) {
        struct file *f = fs->idle.idle_next;
        if (inodes_get(fs->c.inodes, f->ino, &n) || n.generation != f->generation || n.opens == 0)
            return table_remove(f);
        idle_remove(f);
        idle_add(f);
    }
    return NULL;
}

void files_put(struct file *f)
{
    struct files *fs = f->files;
    struct file *dead = NULL;
    pthread_mutex_lock(&fs->mu);
    if (--f->refs == 0 && f->replaced)
        dead = f;
    /* what is dirty stays until the uploader has uploaded it */
    else if (f->refs == 0 && !file_is_dirty(f) && !atomic_load(&f->preserved))
        idle_add(f);
    for (struct file *spare; (spare = take_idle(fs));) {
        spare->chain = dead;
        dead = spare;
    }
    pthread_mutex_unlock(&fs->mu);
    destroy_all(dead);
}

void files_each(struct files *fs, void (*fn)(void *user, struct file *f), void *user)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        struct file *batch[64];
        uint64_t after = 0;
        size_t n;
        do { /* a bucket may be long: by batches, in the order of inode numbers */
            n = 0;
            pthread_mutex_lock(&fs->mu);
            for (struct file *f = fs->buckets[i]; f; f = f->chain) {
                if (f->ino <= after)
                    continue;
                size_t at = n < ARRAY_LEN(batch) ? n++ : ARRAY_LEN(batch);
                for (; at > 0 && batch[at - 1]->ino > f->ino; at--)
                    if (at < ARRAY_LEN(batch))
                        batch[at] = batch[at - 1];
                if (at < ARRAY_LEN(batch))
                    batch[at] = f;
            }
            for (size_t k = 0; k < n; k++) {
                batch[k]->refs++;
                idle_remove(batch[k]);
            }
            pthread_mutex_unlock(&fs->mu);
            if (n)
                after = batch[n - 1]->ino;
            for (size_t k = 0; k < n; k++) {
                fn(user, batch[k]);
                files_put(batch[k]);
            }
        } while (n == ARRAY_LEN(batch));
    }
}

int file_inode(const struct file *f, struct inode *n, struct err *e)
{
    if (inodes_get(f->files->c.inodes, f->ino, n) || n->generation != f->generation)
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)f->ino);
    return 0;
}

int file_lost(const struct file *f, struct err *e)
{
    return err_sys(e, ESTALE,
        "inode %llu: the file was replaced or removed in the store by another writer while it was open; open it again",
        (unsigned long long)f->ino);
}

void files_dir_changed(struct files *fs, uint64_t dir)
{
    struct inode now = {.mtime_ns = clock_real_ns()};
    inodes_set(files_config(fs)->inodes, dir, INODES_MTIME, &now, 0, 0);
}

void files_note_error(struct files *fs, uint64_t ino, const struct err *e)
{
    struct inode n;
    if (inodes_get(fs->c.inodes, ino, &n) == 0)
        last_errors_set(fs->errors, ino, n.generation, e);
}

bool files_last_error(struct files *fs, uint64_t ino, char text[LAST_ERROR_MAX])
{
    struct inode n;
    return inodes_get(fs->c.inodes, ino, &n) == 0
        && last_errors_get(fs->errors, ino, n.generation, text);
}

int64_t files_latest_error(struct files *fs, char text[LAST_ERROR_MAX])
{
    return last_errors_latest(fs->errors, text);
}

static void stop_upload(void *user, struct file *f)
{
    (void)user;
    atomic_store(&f->stop, true);
}

void files_hold_uploads(struct files *fs)
{
    atomic_fetch_add(&fs->held, 1);
    files_each(fs, stop_upload, NULL);
}

void files_let_uploads(struct files *fs) { atomic_fetch_sub(&fs->held, 1); }

bool files_uploads_held(struct files *fs) { return atomic_load(&fs->held); }
