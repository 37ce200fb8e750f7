/* SPDX-License-Identifier: Apache-2.0 */
/* file — regular files that are open, or were a moment ago: where their bytes come from. A file
 * has either a cached object version (cf) or, after the first write to it, a staging file, never
 * both. Everything here can be found again from the index and the staging directory, so a serving
 * process that was killed loses nothing: files come into being when they are asked for.
 *
 * Threads: any. Locks, in this order: file.state_lock (one at a time: open decisions, upload,
 * rename, removal), files.rename_lock (shared: an upload is under way; exclusive: a directory is
 * being moved, so paths change), file.mark_lock (what the note says was asked for), file.data_lock
 * (shared: reading and writing data; exclusive: changing where it is), file.note_lock (from reading
 * the note to writing it), files.mu (table and idle list; the index's may be taken under it). None
 * is held while a request is answered. */
#ifndef MILLRACE_FUSE_FILE_FILE_H
#define MILLRACE_FUSE_FILE_FILE_H

#include "fuse/cache/cache.h"
#include "fuse/file/last_error.h"
#include "fuse/file/passthrough.h"
#include "fuse/index/index.h"
#include "fuse/tree/tree.h"
#include "lib/base/mutex.h"

#include <pthread.h>
#include <stdatomic.h>

struct file {
    struct file *chain, *idle_prev, *idle_next; /* files.mu */
    struct files *files;
    uint64_t ino, generation;
    unsigned refs;       /* files.mu */
    bool idle;           /* files.mu: in the idle list */
    bool replaced;       /* files.mu: out of the table, as its inode is another file's now */
    uint64_t idle_bytes; /* files.mu: of the cache that it holds there */
    /* Removed while it is open, and there was no room to stage it: what is cached of it cannot be
     * found again, it stays until closed. */
    _Atomic bool preserved;
    pthread_mutex_t state_lock;
    pthread_rwlock_t data_lock;
    struct cache_file *cf; /* data_lock */
    int stage_fd;          /* data_lock; -1 none */
    /* Counts changes of the staged content, with data_lock shared from before the count until the
     * change is made: who holds it exclusively sees none that is half made. */
    _Atomic uint64_t written;
    _Atomic uint64_t saved; /* how many of them the store has; data_lock exclusively */
    pthread_mutex_t note_lock;
    _Atomic bool note_old; /* there is no note, or it is of before the latest upload */
    /* monotonic: of the first change that is not saved, and of the latest */
    _Atomic int64_t dirty_ns, write_ns;
    /* monotonic: after a failure, when to try again by ourselves; 0 none failed */
    _Atomic int64_t retry_ns;
    unsigned failures; /* state_lock */
    pthread_mutex_t mark_lock;
    _Atomic uint64_t marked; /* mark_lock: so many changes are in the note's mark, stage_mark() */
    _Atomic bool promised;   /* the disk may have a note that says what was asked for, */
    _Atomic bool note_late;  /* and that may be the one before the note that is there now */
    _Atomic uint64_t safe;   /* mark_lock: and so many on the disk, with their note: commit.h */
    /* monotonic: when they last were what the mark says; 0 never */
    _Atomic int64_t marked_ok_ns;
    _Atomic bool begun; /* an upload was begun, and the store may have it without our knowing */
    bool no_backing;    /* state_lock: passthrough was tried and refused */
    /* Of what is uploaded in the background, commit.h. */
    _Atomic int64_t due_ns;   /* monotonic: when it is to begin; 0: nothing waits for it */
    _Atomic uint64_t sending; /* so many bytes are being read: they stay until it has ended */
    _Atomic unsigned wanted;  /* so many wait for state_lock: it gives way to them, */
    atomic_bool stop;         /* told by this, */
    unsigned stopped;         /* state_lock; and so many times running it did */
    atomic_bool queued;       /* by the uploader */
};

struct files_conf {
    struct inodes *inodes; /* all borrowed */
    struct tree *tree;
    struct cache *cache;
    const struct conf *conf;
    const char *stage_dir;
    struct backings *backings;    /* NULL: no passthrough */
    unsigned max_idle;            /* closed files kept ready; 0: 1024 */
    uint32_t file_mode, dir_mode; /* permission bits of what is made here */
    uint32_t uid, gid;            /* whose it is what the store has, where that does not tell */
    /* Called before what may take long. NULL: not wanted. */
    void (*will_block)(void);
    /* A reader begins with this file: the prefetchers want to know. Called with the file's lock
     * held: must not block. NULL: not wanted. */
    void (*on_first_read)(void *user, const struct inode *n, struct cache_file *cf);
    void *user;
};

struct files; /* opaque */
struct stage_room;
struct stage_sync;
/* f->state_lock. Who has it may wait for a store: so do we, then, and say so. An upload in the
 * background gives way. */
void file_lock_state(struct file *f);
/* Around another way to lock it: it gives way in the same manner. */
void file_want_state(struct file *f);
void file_got_state(struct file *f);
struct files *files_new(const struct files_conf *conf, struct err *e);
void files_free(struct files *fs);
const struct files_conf *files_config(const struct files *fs);
pthread_rwlock_t *files_rename_lock(struct files *fs);
struct stage_room *files_stage_room(struct files *fs);
struct stage_sync *files_stage_sync(struct files *fs);
/* No upload in the background begins, and those that are under way end soon, until as many calls of
 * the other: before the rename lock is taken exclusively. */
void files_hold_uploads(struct files *fs);
void files_let_uploads(struct files *fs);
bool files_uploads_held(struct files *fs);

/* files_put() it; ESTALE, EISDIR, ENOMEM */
struct file *files_get(struct files *fs, uint64_t ino, struct err *e);
void files_put(struct file *f);
/* Calls fn for every file in the table, with a reference held and no lock. */
void files_each(struct files *fs, void (*fn)(void *user, struct file *f), void *user);

/* The file's inode. ESTALE: it is another file's now, or none. */
int file_inode(const struct file *f, struct inode *n, struct err *e);
/* ESTALE, in words: INODE_ORPHANED. */
int file_lost(const struct file *f, struct err *e);
/* The calling thread may wait for a store from here on. */
static inline void files_will_block(const struct files *fs)
{
    if (files_config(fs)->will_block)
        files_config(fs)->will_block();
}
static inline const struct files_conf *file_conf(const struct file *f)
{
    return files_config(f->files);
}
/* Some of its content is not in the store. */
static inline bool file_is_dirty(const struct file *f)
{
    return atomic_load(&f->written) != atomic_load(&f->saved);
}

/* A name was made or removed there by us: the directory has a new mtime. */
void files_dir_changed(struct files *fs, uint64_t dir);

/* The error that users are told about an inode, see last_error.h. */
void files_note_error(struct files *fs, uint64_t ino, const struct err *e);
bool files_last_error(struct files *fs, uint64_t ino, char text[LAST_ERROR_MAX]);
/* Of all inodes: how long ago, ns; -1: there is none. */
int64_t files_latest_error(struct files *fs, char text[LAST_ERROR_MAX]);

#endif
