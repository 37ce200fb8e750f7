/* SPDX-License-Identifier: Apache-2.0 */
/* file — regular files that are open, or were a moment ago: where their bytes come from. A file
 * has either a cached object version (cf) or, once somebody wrote to it, a staging file, never
 * both. Everything here can be found again from the index and the staging directory, so a serving
 * process that was killed loses nothing: files come into being when they are asked for.
 *
 * Threads: any. Locks, in this order: file.state_lock (one at a time: open decisions, upload,
 * rename, removal), files.rename_lock (shared: an upload is under way; exclusive: a directory is
 * being moved, so paths change), file.data_lock (shared: reading and writing data; exclusive:
 * changing where it is), files.mu (table and idle list; the index's may be taken under it). None is
 * held while a request is answered. */
#ifndef MILLRACE_FUSE_FILE_FILE_H
#define MILLRACE_FUSE_FILE_FILE_H

#include "fuse/cache/cache.h"
#include "fuse/file/passthrough.h"
#include "fuse/index/index.h"
#include "fuse/tree/tree.h"
#include "lib/base/clock.h"

#include <pthread.h>
#include <stdatomic.h>

struct file {
    struct file *chain, *idle_prev, *idle_next; /* files.mu */
    struct files *files;
    uint64_t ino, generation;
    unsigned refs;       /* files.mu */
    bool idle;           /* files.mu: in the idle list */
    uint64_t idle_bytes; /* files.mu: of the cache that it holds there */
    /* removed while it is open: what is cached of it cannot be found again, it stays until closed
     */
    _Atomic bool pinned;
    pthread_mutex_t state_lock;
    pthread_rwlock_t data_lock;
    struct cache_file *cf;    /* io */
    int stage_fd;             /* io; -1 none */
    _Atomic uint64_t written; /* counts changes of the staged content … */
    _Atomic uint64_t saved;   /* … and how many of them the store has */
    /* monotonic: of the first change that is not saved, and of the latest */
    _Atomic int64_t dirty_ns, write_ns;
    /* monotonic: after a failure, when to try again by ourselves; 0 none failed */
    _Atomic int64_t retry_ns;
    unsigned failures; /* up */
    bool no_backing;   /* up: passthrough was tried and refused */
};

struct files_conf {
    struct inodes *inodes; /* all borrowed */
    struct tree *tree;
    struct cache *cache;
    const struct conf *conf;
    const char *stage_dir;
    struct backings *backings; /* NULL: no passthrough */
    unsigned max_idle;         /* closed files kept ready; 0: 1024 */
    /* A reader begins with this file: the prefetchers want to know. Called with the file's lock
     * held: must not block. NULL: not wanted. */
    void (*on_first_read)(void *user, const struct inode *n, struct cache_file *cf);
    void *user;
};

struct files; /* opaque */
struct files *files_new(const struct files_conf *conf, struct err *e);
void files_free(struct files *fs);
const struct files_conf *files_config(const struct files *fs);
pthread_rwlock_t *files_rename_lock(struct files *fs);

/* files_put() it; ESTALE, EISDIR, ENOMEM */
struct file *files_get(struct files *fs, uint64_t ino, struct err *e);
void files_put(struct file *f);
/* Calls fn for every file in the table, with a reference held and no lock. */
void files_each(struct files *fs, void (*fn)(void *user, struct file *f), void *user);

/* The short way for files that the kernel reads by itself: opens one again and returns its backing
 * id, 0 if it has none; and counts a close of one, false if it is none. */
int32_t files_reopen(struct files *fs, uint64_t ino);
bool files_reclosed(struct files *fs, uint64_t ino);
/* Decides how this open is served. *backing: passthrough id or 0. ESTALE: the inode is gone, or for
 * its readers only: look the name up again. Counts the open; file_closed() counts it off again. */
int file_open(struct file *f, bool write, bool truncate, int32_t *backing, struct err *e);
void file_closed(struct file *f);
/* Up to len bytes at off; fewer only at the end. */
ssize_t file_pread(struct file *f, void *buf, size_t len, uint64_t off, struct err *e);
/* Brings that range in before somebody reads it. */
int file_fill(struct file *f, uint64_t off, uint64_t len, struct err *e);
/* The same, and pins the file first (cache_keep). EBUSY: it is staged; ESTALE: it was removed. */
int file_pin(struct file *f, uint64_t off, uint64_t len, struct err *e);
/* Forgets what is cached of it, *freed bytes; nothing, if it is pinned or staged. ESTALE: it was
 * removed, and must be readable still. */
int file_drop(struct file *f, uint64_t *freed, struct err *e);
struct file_cache_state {
    uint64_t cached; /* bytes of the range; 0 if it is staged */
    bool pinned, staged;
};
int file_cache_state(
    struct file *f, uint64_t off, uint64_t len, struct file_cache_state *out, struct err *e);
/* The cached version that the index names, opened; cache_close() it. */
struct cache_file *file_cached(
    struct tree *tree, struct cache *cache, const struct inode *n, struct err *e);
/* finds where its bytes are; f->data_lock is held exclusively */
int file_attach(struct file *f, struct err *e);
/* before a rename: so that file_renamed() has what to move */
void file_attach_for_rename(struct file *f);
/* Before a removal: whoever has it open, but for `own` opens, must be able to go on reading. f->up
 * is held. */
int file_preserve(struct file *f, unsigned own, struct err *e);
/* The inode's path or version changed: what is cached under the old one is cached under the new one
 * now. */
void file_renamed(struct file *f);

/* What to tell users about an inode that failed, for the xattr: when it last did and why. */
#define LAST_ERROR_MAX (sizeof((struct err *)0)->msg + CLOCK_RFC3339_LEN)
void files_note_error(struct files *fs, uint64_t ino, const struct err *e);
bool files_last_error(struct files *fs, uint64_t ino, char text[LAST_ERROR_MAX]);

#endif
