/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/file.h"

#include "fuse/file/stage.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS 1024
#define NOTES   64
/* closed files that are kept ready, however large: a file is closed between two reads, too */
#define IDLE_FEW 16
/* all others, as long as they are one part of so many of the cache: what we hold is not evicted */
#define IDLE_SHARE 8
#define IDLE_TRIES 4
#define PASS_BYTES CACHE_BLOCK /* smaller files that can be written are not passed through */

struct note {
    uint64_t ino, generation;
    char text[LAST_ERROR_MAX];
};

struct files {
    struct files_conf c;
    pthread_rwlock_t rename_lock;
    pthread_mutex_t mu;
    struct file *buckets[BUCKETS];        /* mu */
    struct file idle;                     /* mu; head of a ring, least recently used first */
    unsigned nidle;                       /* mu */
    uint64_t idle_bytes, most_idle_bytes; /* mu; fixed */
    struct note notes[NOTES];             /* mu */
    unsigned next_note;                   /* mu */
};

const struct files_conf *files_config(const struct files *fs) { return &fs->c; }

pthread_rwlock_t *files_rename_lock(struct files *fs) { return &fs->rename_lock; }

struct files *files_new(const struct files_conf *conf, struct err *e)
{
    struct files *fs = calloc(1, sizeof *fs);
    if (!fs) {
        err_sys(e, ENOMEM, "table of files");
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
    pthread_rwlock_init(&fs->rename_lock, NULL);
    return fs;
}

static struct file **slot(struct files *fs, uint64_t ino)
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

/* Nobody has it any more, it is out of the table. */
static void destroy(struct file *f)
{
    if (f->cf)
        cache_close(f->cf);
    if (f->stage_fd >= 0)
        close(f->stage_fd);
    pthread_mutex_destroy(&f->state_lock);
    pthread_rwlock_destroy(&f->data_lock);
    free(f);
}

void files_free(struct files *fs)
{
    if (!fs)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct file *f = fs->buckets[i], *next; f; f = next) {
            next = f->chain;
            destroy(f);
        }
    pthread_mutex_destroy(&fs->mu);
    pthread_rwlock_destroy(&fs->rename_lock);
    free(fs);
}

static struct file *make(struct files *fs, const struct inode *n)
{
    struct file *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->files = fs;
    f->ino = n->ino;
    f->generation = n->generation;
    f->stage_fd = -1;
    pthread_mutex_init(&f->state_lock, NULL);
    pthread_rwlock_init(&f->data_lock, NULL);
    if (n->flags & INODE_DIRTY) { /* of a process before this one */
        atomic_store(&f->written, 1);
        atomic_store(&f->dirty_ns, clock_mono_ns());
        atomic_store(&f->write_ns, clock_mono_ns());
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
    struct file **p = slot(fs, ino);
    while (*p && (*p)->ino != ino)
        p = &(*p)->chain;
    if (*p && (*p)->generation != n.generation) { /* the record is another file's now */
        dead = *p;
        idle_remove(dead);
        *p = dead->chain;
        if (dead->refs) /* cannot be: an inode that is used keeps its record */
            dead = NULL;
        p = slot(fs, ino);
        while (*p)
            p = &(*p)->chain;
    }
    struct file *f = *p;
    if (!f && (f = make(fs, &n)))
        *p = f;
    if (f) {
        f->refs++;
        idle_remove(f);
    } else {
        err_sys(e, ENOMEM, "open inode %llu", (unsigned long long)ino);
    }
    pthread_mutex_unlock(&fs->mu);
    if (dead)
        destroy(dead);
    return f;
}

static struct file *table_remove(struct file *f)
{
    struct file **p = slot(f->files, f->ino);
    while (*p && *p != f)
        p = &(*p)->chain;
    if (*p)
        *p = f->chain;
    idle_remove(f);
    return f;
}

/* One more than is to be kept ready, out of the table; NULL if there is none. What the kernel has
 * open it reads from the disk by itself: as long as it does, the cache must count it. fs->mu is
 * held. */
static struct file *take_spare(struct files *fs)
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
    /* what is dirty stays until the uploader has uploaded it */
    if (--f->refs == 0 && !file_is_dirty(f) && !atomic_load(&f->pinned))
        idle_add(f);
    for (struct file *spare; (spare = take_spare(fs));) {
        spare->chain = dead;
        dead = spare;
    }
    pthread_mutex_unlock(&fs->mu);
    for (struct file *next; dead; dead = next) {
        next = dead->chain;
        destroy(dead);
    }
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

static int key_of(struct tree *tree, const struct inode *n, char path[INODE_PATH_MAX],
    struct cache_key *key, struct err *e)
{
    struct store *store;
    unsigned mount;
    if (tree_where(tree, n->ino, &store, &mount, path, e))
        return -1;
    *key = (struct cache_key){.mount = mount, .path = path, .version = n->version, .size = n->size};
    return 0;
}

struct cache_file *file_cached(
    struct tree *tree, struct cache *cache, const struct inode *n, struct err *e)
{
    char path[INODE_PATH_MAX];
    struct cache_key key;
    return key_of(tree, n, path, &key, e) ? NULL : cache_open(cache, &key, e);
}

/* Makes sure that there is a place to read from. f->data_lock is held exclusively. */
int file_attach(struct file *f, struct err *e)
{
    struct inode n;
    if (f->cf || f->stage_fd >= 0)
        return 0;
    if (inodes_get(f->files->c.inodes, f->ino, &n) || n.generation != f->generation)
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)f->ino);
    if (n.flags & INODE_STAGED)
        return stage_attach(f, e);
    f->cf = file_cached(f->files->c.tree, f->files->c.cache, &n, e);
    return f->cf ? 0 : -1;
}

static void note_reader(struct file *f)
{
    const struct files_conf *c = &f->files->c;
    struct inode n;
    if (c->on_first_read && f->cf && inodes_get(c->inodes, f->ino, &n) == 0)
        c->on_first_read(c->user, &n, f->cf);
}

/* reads: for a reader, not ahead of one. f->data_lock is held shared on success. */
static int lock_attached(struct file *f, bool reads, struct err *e)
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
            note_reader(f);
        pthread_rwlock_unlock(&f->data_lock);
        if (rc)
            return -1;
    }
}

ssize_t file_pread(struct file *f, void *buf, size_t len, uint64_t off, struct err *e)
{
    if (lock_attached(f, true, e))
        return -1;
    ssize_t n;
    if (f->stage_fd < 0) {
        n = cache_read(f->cf, buf, len, off, e);
    } else {
        size_t have = 0;
        do {
            n = pread(f->stage_fd, (char *)buf + have, len - have, (off_t)(off + have));
            have += n > 0 ? (size_t)n : 0;
        } while ((n > 0 && have < len) || (n < 0 && errno == EINTR));
        if (n < 0)
            err_sys(e, errno, "read a staged file");
        else
            n = (ssize_t)have;
    }
    pthread_rwlock_unlock(&f->data_lock);
    return n;
}

int file_fill(struct file *f, uint64_t off, uint64_t len, struct err *e)
{
    if (lock_attached(f, false, e))
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
    if (lock_attached(f, false, e))
        return -1;
    out->staged = !f->cf;
    out->cached = f->cf ? cache_cached(f->cf, off, len) : 0;
    out->pinned = f->cf && cache_is_kept(f->cf);
    pthread_rwlock_unlock(&f->data_lock);
    return 0;
}

/* Before its cached copy is made anew or goes: nobody reads it, and the kernel has it no more if
 * nobody has it open. f->data_lock is held exclusively; key->path is in path. */
static int part_with(struct file *f, char path[INODE_PATH_MAX], struct inode *n,
    struct cache_key *key, struct err *e)
{
    struct files_conf *c = &f->files->c;
    if (inodes_get(c->inodes, f->ino, n) || n->generation != f->generation
        || (n->flags & INODE_UNLINKED) || atomic_load(&f->pinned))
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)f->ino);
    if ((n->flags & INODE_STAGED) || f->stage_fd >= 0)
        return err_sys(e, EBUSY, "%llu is being written", (unsigned long long)f->ino);
    if (key_of(c->tree, n, path, key, e))
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
    if (!f->cf || !cache_is_kept(f->cf)) {
        rc = part_with(f, path, &n, &key, e);
        if (rc == 0 && !(f->cf = cache_keep(f->files->c.cache, &key, 0, n.size, e)))
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
    if (rc == 0 && f->cf && !cache_is_kept(f->cf)) {
        *freed = cache_cached(f->cf, 0, UINT64_MAX);
        rc = part_with(f, path, &n, &key, e);
        if (rc == 0)
            cache_drop(f->files->c.cache, &key);
    }
    pthread_rwlock_unlock(&f->data_lock);
    return rc;
}

/* Could those who read it meanwhile ask for what is written to it? Most files that grow while they
 * are read are small, or were made here. */
static bool may_be_shared(const struct tree *t, const struct inode *n)
{
    return tree_writable(t, n->mount) && (n->size < PASS_BYTES || (n->flags & INODE_ATTR));
}

/* Opens a complete cached file for the kernel to read by itself, and counts that: its backing id,
 * one for an inode as long as it has any open; or 0. f->state_lock is held. */
static int32_t open_backing(struct file *f, const struct inode *n)
{
    struct files_conf *c = &f->files->c;
    struct err e = ERR_INIT;
    if (!c->backings || f->no_backing || (n->flags & INODE_STAGED) || may_be_shared(c->tree, n))
        return 0;
    if (lock_attached(f, true, &e))
        return 0;
    cleanup_fd int fd = f->cf ? cache_complete_fd(f->cf) : -1;
    pthread_rwlock_unlock(&f->data_lock);
    if (fd < 0)
        return 0;
    int32_t id = backings_register(c->backings, f->ino, fd, &e);
    if (!id && e.cls) {
        log_kv(LOG_DEBUG, "no passthrough for a file", "error", e.msg, NULL);
        f->no_backing = e.cls != ERR_RETRY;
    }
    return id;
}

int32_t files_reopen(struct files *fs, uint64_t ino)
{
    return fs->c.backings ? backings_reopen(fs->c.backings, ino) : 0;
}

bool files_reclosed(struct files *fs, uint64_t ino)
{
    struct inode n;
    if (!fs->c.backings || inodes_get(fs->c.inodes, ino, &n) || !(n.flags & INODE_PASSTHROUGH)
        || n.opens == 0 || n.backing <= 0)
        return false;
    if (inodes_opened(fs->c.inodes, ino, -1) == 0)
        backings_idle(fs->c.backings, &n);
    return true;
}

/* The kernel takes all opens of an inode in one way: through the backing file, or through us.
 * Readers of the backing file keep the version that they opened; who is going to write gets an
 * inode of his own, when the kernel looks the name up again, as it does after ESTALE. */
static int leave_to_readers(struct file *f, struct err *e)
{
    if (inodes_renew(f->files->c.inodes, f->ino, e))
        return -1; /* ESTALE, too, where another one has the name already */
    return err_sys(e, ESTALE, "inode %llu is for its readers only", (unsigned long long)f->ino);
}

static bool has_content(struct file *f)
{
    pthread_rwlock_rdlock(&f->data_lock);
    bool has = f->cf || f->stage_fd >= 0;
    pthread_rwlock_unlock(&f->data_lock);
    return has;
}

/* f->state_lock is held. */
static int open_locked(struct file *f, bool write, bool truncate, int32_t *backing, struct err *e)
{
    struct inodes *ix = f->files->c.inodes;
    struct inode n;
    if (!write && (*backing = files_reopen(f->files, f->ino)))
        return 0;
    if (write && f->files->c.backings && !backings_drop(f->files->c.backings, f->ino))
        return leave_to_readers(f, e);
    if (inodes_get(ix, f->ino, &n) || n.generation != f->generation)
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)f->ino);
    if (!write && n.opens == 0 && (*backing = open_backing(f, &n)))
        return 0;
    if ((n.flags & INODE_ORPHANED) && (write || !has_content(f)))
        return err_sys(e, ESTALE, "inode %llu has no name any more", (unsigned long long)f->ino);
    if (truncate && stage_truncate(f, 0, e))
        return -1;
    inodes_set(ix, f->ino, 0, NULL, 0, INODE_PASSTHROUGH);
    inodes_opened(ix, f->ino, 1);
    return 0;
}

int file_open(struct file *f, bool write, bool truncate, int32_t *backing, struct err *e)
{
    *backing = 0;
    pthread_mutex_lock(&f->state_lock);
    int rc = open_locked(f, write, truncate, backing, e);
    pthread_mutex_unlock(&f->state_lock);
    return rc;
}

void file_closed(struct file *f)
{
    struct inode was = {0};
    struct backings *b = f->files->c.backings;
    pthread_mutex_lock(&f->state_lock);
    if (b)
        inodes_get(f->files->c.inodes, f->ino, &was);
    if (inodes_opened(f->files->c.inodes, f->ino, -1) == 0) {
        if (b)
            backings_idle(b, &was);
        atomic_store(&f->pinned, false);
        upload_finish(f);
    }
    pthread_mutex_unlock(&f->state_lock);
}

void file_attach_for_rename(struct file *f)
{
    struct err e = ERR_INIT;
    pthread_rwlock_wrlock(&f->data_lock);
    if (file_attach(f, &e))
        log_kv(LOG_DEBUG, "a file that is to be renamed cannot be opened", "error", e.msg, NULL);
    pthread_rwlock_unlock(&f->data_lock);
}

/* All of it, before the store has it no more. */
int file_preserve(struct file *f, unsigned own, struct err *e)
{
    struct inode n;
    if (inodes_get(f->files->c.inodes, f->ino, &n) || n.opens <= own || (n.flags & INODE_STAGED))
        return 0;
    if (lock_attached(f, false, e))
        return -1;
    int rc = f->cf && !cache_complete(f->cf)
            && (cache_prefetch(f->cf, 0, n.size, e) || cache_wait(f->cf, e))
        ? -1
        : 0;
    pthread_rwlock_unlock(&f->data_lock);
    if (rc == 0)
        atomic_store(&f->pinned, true);
    return rc;
}

void file_renamed(struct file *f)
{
    struct err e = ERR_INIT;
    struct inode n;
    if (inodes_get(f->files->c.inodes, f->ino, &n))
        return;
    pthread_rwlock_wrlock(&f->data_lock);
    if (f->cf) {
        struct cache_file *old = f->cf;
        f->cf = NULL;
        cleanup_fd int fd = cache_complete_fd(old);
        char path[INODE_PATH_MAX];
        struct store *store;
        unsigned mount;
        if (fd >= 0 && tree_where(f->files->c.tree, f->ino, &store, &mount, path, &e) == 0) {
            struct cache_key key = {mount, path, n.version, n.size};
            if (cache_adopt(f->files->c.cache, &key, fd, &e))
                log_kv(LOG_DEBUG, "a renamed file leaves the cache", "path", path, "error", e.msg,
                    NULL);
        }
        cache_close(old);
    }
    pthread_rwlock_unlock(&f->data_lock);
}

void files_note_error(struct files *fs, uint64_t ino, const struct err *e)
{
    struct inode n;
    char when[CLOCK_RFC3339_LEN];
    if (inodes_get(fs->c.inodes, ino, &n))
        return;
    clock_rfc3339(clock_real_ns(), when);
    pthread_mutex_lock(&fs->mu);
    struct note *at = NULL;
    for (size_t i = 0; i < NOTES && !at; i++)
        at = fs->notes[i].ino == ino ? &fs->notes[i] : NULL;
    if (!at)
        at = &fs->notes[fs->next_note++ % NOTES];
    at->ino = ino;
    at->generation = n.generation;
    snprintf(at->text, sizeof at->text, "%s %s", when, e->msg);
    pthread_mutex_unlock(&fs->mu);
}

bool files_last_error(struct files *fs, uint64_t ino, char text[LAST_ERROR_MAX])
{
    struct inode n;
    bool found = false;
    if (inodes_get(fs->c.inodes, ino, &n))
        return false;
    pthread_mutex_lock(&fs->mu);
    for (size_t i = 0; i < NOTES && !found; i++)
        if (fs->notes[i].ino == ino && fs->notes[i].generation == n.generation) {
            memcpy(text, fs->notes[i].text, LAST_ERROR_MAX);
            found = true;
        }
    pthread_mutex_unlock(&fs->mu);
    return found;
}
