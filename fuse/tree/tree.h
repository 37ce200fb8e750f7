/* SPDX-License-Identifier: Apache-2.0 */
/* tree — the dataset as one tree: its mounts composed by path, names fetched from the stores
 * when they are needed, page by page, and looked at again when what we know is older than the
 * metadata sync interval; of a mount that is immutable, never again. While a store cannot be
 * reached, what was known goes on being served.
 *
 * Threads: any. Locks: tree.mu (a leaf: the table of listings); a listing's own mutex is held
 * across calls to its store. */
#ifndef MILLRACE_FUSE_TREE_TREE_H
#define MILLRACE_FUSE_TREE_TREE_H

#include "fuse/index/index.h"
#include "fuse/store/store.h"
#include "lib/conf/conf.h"

struct tree; /* opaque */

struct tree_conf {
    const struct conf *conf; /* borrowed until tree_free */
    struct inodes *inodes;   /* borrowed */
    struct store **stores;   /* one for each mount; borrowed; NULL: cannot be used */
    int64_t sync_ns;         /* metadata sync interval */
    bool resume;             /* the kernel knows ids that an earlier process gave it */
    uint32_t since_s; /* when it was mounted: what is known from before may be of another time */
    /* A name now means something else, or nothing; or (name "") a directory that was listed has
     * other names: tell the kernel. Called with locks held: must only queue. */
    void (*changed)(void *user, uint64_t dir, const char *name);
    void *user; /* of changed */
    /* What follows may wait for a store; NULL: no matter. */
    void (*will_block)(void);
};
/* puts the mounts' roots into the index */
struct tree *tree_new(const struct tree_conf *conf, struct err *e);
void tree_free(struct tree *t);

/* NOTFOUND (ENOENT) if there is no such name. */
int tree_lookup(struct tree *t, uint64_t dir, const char *name, struct inode *out, struct err *e);
/* What is known, checked with the store if it is too old. ESTALE: another inode has the name now,
 * or none. */
int tree_refresh(struct tree *t, uint64_t ino, struct inode *out, struct err *e);
/* The same, however young what is known is: before a file is written to, which begins from a
 * version that another node may have replaced a moment ago. One question to the store; while that
 * does not answer, what is known has to do. */
int tree_revalidate(struct tree *t, uint64_t ino, struct inode *out, struct err *e);
/* Another user of the store has its name now, or removed it: the inode is INODE_ORPHANED, with
 * nothing of its own any more, and the name is looked up anew. */
void tree_detach(struct tree *t, uint64_t ino);
/* The store has another version of it than we know: whoever looks it up next asks, however long
 * what is known was to be believed. */
void tree_doubt(struct tree *t, uint64_t ino);
/* Makes sure that there is something to read after `cookie`, or that the directory is complete: one
 * page of its listing at a time. */
int tree_fill(struct tree *t, uint64_t dir, uint64_t cookie, struct err *e);
/* its listing is older than may be shown */
bool tree_is_old(struct tree *t, const struct inode *dir);
/* How long the kernel may believe what is known of n without asking again, in seconds, at most
 * `most` (an hour where the mount is immutable): until it, or its listing, is too old. 0: not at
 * all. */
double tree_valid_for(const struct tree *t, const struct inode *n, double most);
/* … that dir has no such name */
double tree_absence_valid_for(const struct tree *t, uint64_t dir, double most);
/* complete and fresh: before rmdir, rename over */
int tree_fill_all(struct tree *t, uint64_t dir, struct err *e);

/* Where an inode is: its store and the path there. EROFS/ENOENT for the directories above the
 * mounts. */
int tree_where(struct tree *t, uint64_t ino, struct store **store, unsigned *mount,
    char path[INODE_PATH_MAX], struct err *e);
/* The same for a name in a directory, which need not exist. */
int tree_where_child(struct tree *t, uint64_t dir, const char *name, struct store **store,
    unsigned *mount, char path[INODE_PATH_MAX], struct err *e);
/* What was made, removed or renamed in a directory survives a power cut of its store. */
int tree_sync_dir(struct tree *t, uint64_t dir, struct err *e);
/* NULL: it cannot be used. */
struct store *tree_store(const struct tree *t, unsigned mount);
bool tree_writable(const struct tree *t, unsigned mount);

#endif
