/* SPDX-License-Identifier: Apache-2.0 */
/* ofile — regular files that are open, or were a moment ago: where their bytes come from. A file
 * has either a cached object version (cf) or, once somebody wrote to it, a staging file, never
 * both. Everything here can be found again from the index and the staging directory, so a serving
 * process that was killed loses nothing: files come into being when they are asked for.
 *
 * Threads: any. Locks, in this order: ofile.up (one at a time: open decisions, upload, rename,
 * removal), ofiles.moving (shared: an upload is under way; exclusive: a directory is being moved,
 * so paths change), ofile.io (shared: reading and writing data; exclusive: changing where it is),
 * ofiles.mu (table and idle list; the index's may be taken under it). None is held while a request
 * is answered. */
#ifndef MILLRACE_FUSE_FILE_FILE_H
#define MILLRACE_FUSE_FILE_FILE_H

#include "fuse/cache/cache.h"
#include "fuse/file/passthrough.h"
#include "fuse/index/index.h"
#include "fuse/tree/tree.h"
#include "lib/base/clock.h"

#include <pthread.h>
#include <stdatomic.h>

struct ofile {
    struct ofile *chain, *idle_prev, *idle_next; /* ofiles.mu */
    struct ofiles *files;
    uint64_t ino, generation;
    unsigned refs;       /* ofiles.mu */
    bool idle;           /* ofiles.mu: in the idle list */
    uint64_t idle_bytes; /* ofiles.mu: of the cache that it holds there */
    /* removed while it is open: what is cached of it cannot be found again, it stays until closed
     */
    _Atomic bool pinned;
    pthread_mutex_t up;
    pthread_rwlock_t io;
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

struct ofiles_conf {
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

struct ofiles; /* opaque */
struct ofiles *ofiles_new(const struct ofiles_conf *conf, struct err *e);
void ofiles_free(struct ofiles *fs);
const struct ofiles_conf *ofiles_config(const struct ofiles *fs);
pthread_rwlock_t *ofiles_moving(struct ofiles *fs);

/* ofiles_put() it; ESTALE, EISDIR, ENOMEM */
struct ofile *ofiles_get(struct ofiles *fs, uint64_t ino, struct err *e);
void ofiles_put(struct ofile *f);
/* Calls fn for every file in the table, with a reference held and no lock. */
void ofiles_each(struct ofiles *fs, void (*fn)(void *user, struct ofile *f), void *user);

/* The short way for files that the kernel reads by itself: opens one again and returns its backing
 * id, 0 if it has none; and counts a close of one, false if it is none. */
int32_t ofiles_reopen(struct ofiles *fs, uint64_t ino);
bool ofiles_reclosed(struct ofiles *fs, uint64_t ino);
/* Decides how this open is served. *backing: passthrough id or 0. ESTALE: the inode is gone, or for
 * its readers only: look the name up again. Counts the open; ofile_closed() counts it off again. */
int ofile_open(struct ofile *f, bool write, bool truncate, int32_t *backing, struct err *e);
void ofile_closed(struct ofile *f);
/* Up to len bytes at off; fewer only at the end. */
ssize_t ofile_read(struct ofile *f, void *buf, size_t len, uint64_t off, struct err *e);
/* Brings that range in before somebody reads it. */
int ofile_warm(struct ofile *f, uint64_t off, uint64_t len, struct err *e);
/* The same, and pins the file first (cache_keep). EBUSY: it is staged; ESTALE: it was removed. */
int ofile_keep(struct ofile *f, uint64_t off, uint64_t len, struct err *e);
/* Forgets what is cached of it, *freed bytes; nothing, if it is pinned or staged. ESTALE: it was
 * removed, and must be readable still. */
int ofile_drop(struct ofile *f, uint64_t *freed, struct err *e);
struct ofile_share {
    uint64_t cached; /* bytes of the range; 0 if it is staged */
    bool pinned, staged;
};
int ofile_look(struct ofile *f, uint64_t off, uint64_t len, struct ofile_share *out, struct err *e);
/* The cached version that the index names, opened; cache_close() it. */
struct cache_file *ofile_cached(
    struct tree *tree, struct cache *cache, const struct inode *n, struct err *e);
/* finds where its bytes are; f->io is held exclusively */
int ofile_attach(struct ofile *f, struct err *e);
/* before a rename: so that ofile_moved() has what to move */
void ofile_attach_for_move(struct ofile *f);
/* Before a removal: whoever has it open, but for `own` opens, must be able to go on reading. f->up
 * is held. */
int ofile_pin(struct ofile *f, unsigned own, struct err *e);
/* The inode's path or version changed: what is cached under the old one is cached under the new one
 * now. */
void ofile_moved(struct ofile *f);

/* What to tell users about an inode that failed, for the xattr: when it last did and why. */
#define OFILES_NOTE_MAX (sizeof((struct err *)0)->msg + CLOCK_RFC3339_LEN)
void ofiles_note(struct ofiles *fs, uint64_t ino, const struct err *e);
bool ofiles_noted(struct ofiles *fs, uint64_t ino, char text[OFILES_NOTE_MAX]);

#endif
