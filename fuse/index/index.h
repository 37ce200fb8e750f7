/* SPDX-License-Identifier: Apache-2.0 */
/* index — the inodes of a mount: every name of the dataset that is known on this node, as
 * fixed-size records in a file that is mapped into memory. A FUSE node id is the number of a
 * record, so the file is also the recovery state: a serving process that was killed is followed by
 * one that maps the same file and goes on with the same ids. It is a cache of the store and is
 * thrown away whenever it cannot be trusted (other dataset, other version of the format, wrong
 * checksum, machine went down), or does not hold together. While the kernel knows ids of it, it is
 * mended instead: what cannot be believed is dropped, and those ids are no inode's until the mount
 * ends.
 *
 * Cost: 96 bytes a record and 3 for its hash bucket, plus the name (rounded up to 8 bytes). A
 * version of a file (an ETag) is packed into the record; only odd ones need more room.
 *
 * A new version from outside is a new inode: readers that hold the old one open keep it, and the
 * kernel's page cache can never mix two versions. A change made through this mount keeps the inode,
 * but where the kernel reads its cached copy by itself: inodes_renew.
 *
 * Threads: any. Locks: one rwlock inside, a leaf (never held across I/O to a store or a reply).
 * Views are copies. */
#ifndef MILLRACE_FUSE_INDEX_INDEX_H
#define MILLRACE_FUSE_INDEX_INDEX_H

#include "fuse/store/store.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define INODE_ROOT     1
#define INODE_NAME_MAX 255
#define INODE_PATH_MAX 4096
#define INODE_NO_MOUNT 255 /* a directory above the mounts: not in any store */

enum inode_flag {
    INODE_USED = 1,
    INODE_DIR = 2,
    INODE_LISTED = 4,        /* directory: all children are here, as of .listed_s */
    INODE_LOCAL = 8,         /* not in the store yet */
    INODE_STAGED = 16,       /* content is in the staging file of this inode */
    INODE_DIRTY = 32,        /* staged content that is not in the store yet */
    INODE_MOUNT = 64,        /* the root of a mount (and the root): paths begin here */
    INODE_UNLINKED = 128,    /* has no name any more; lives until forgotten and closed */
    INODE_PASSTHROUGH = 256, /* its opens go to the backing file .backing */
    /* mode, owner or times were set by a user, or by writing: the store's do not replace them */
    INODE_ATTR = 512,
    INODE_MOUNTPOINT_DIR = 1024, /* above a mount: it is there whatever the store says */
    /* unlinked, but by no user of this mount: a writer opens the inode that has its name now */
    INODE_ORPHANED = 2048,
    /* inside the index only: an id that the kernel may know and that is nothing any more, as its
     * record was damaged */
    INODE_DROPPED = 4096,
    /* An open or a close was sent again by the kernel, to a process that cannot know whether the
     * one before it had counted it: fewer may be open than .opens. */
    INODE_MISCOUNTED = 8192,
    /* A file that may be a link, see store_ask(): the kernel is not told of it before that is
     * known. */
    INODE_UNASKED = 16384,
};

/* A copy of a record. */
struct inode {
    uint64_t ino, generation, parent;
    uint64_t cookie; /* its place among its siblings, see inodes_children */
    uint64_t size;   /* bytes */
    int64_t mtime_ns;
    uint32_t mode, uid, gid; /* mode with the type: S_IFDIR, S_IFREG or S_IFLNK */
    /* enum store_attr_field: those that users have set, here or elsewhere, and which of them the
     * store has not been told */
    uint8_t attr, untold;
    unsigned flags;     /* enum inode_flag */
    unsigned mount;     /* index of the mount it belongs to, INODE_NO_MOUNT */
    unsigned opens;     /* open file handles in the kernel */
    int32_t backing;    /* passthrough id, 0 none */
    uint32_t synced_s;  /* when the store last confirmed it, seconds since the epoch */
    uint32_t listed_s;  /* directories: when the listing that is here was begun; 0 never */
    uint32_t nchildren; /* directories */
    char version[STORE_VERSION_MAX];
};

struct inodes; /* opaque */

struct inodes_conf {
    const char *path; /* of the index file */
    /* hash of what the dataset is made of: another one makes another index, unless it goes on */
    uint64_t identity;
    /* Of each mount, wherever it is in the list: one that goes on finds its files by it. Used by
     * inodes_open only; NULL: they never change. */
    const uint64_t *mounts;
    const uint32_t *servers; /* likewise: which server has it, not 0; NULL: nobody says */
    bool resume;             /* the kernel still knows ids of ours: fail rather than begin anew */
    uint32_t uid, gid;       /* of the root and of what comes from the store */
    uint32_t dir_mode, file_mode; /* permission bits of what comes from the store */
    unsigned nmounts;
};
/* *fresh tells whether it begins empty (root only). */
struct inodes *inodes_open(const struct inodes_conf *conf, bool *fresh, struct err *e);
/* clean: nothing of it is in the kernel any more, it may be used again */
void inodes_close(struct inodes *ix, bool clean);

/* A random number, drawn when the index was made: with it an inode and its generation are unique
 * for ever, though their numbers begin anew in the next index. */
uint64_t inodes_epoch(const struct inodes *ix);
/* Of a number that is unique while a mount lasts, one that is so for ever; not 0. */
uint64_t inodes_unique(const struct inodes *ix, uint64_t number);

int inodes_get(struct inodes *ix, uint64_t ino, struct inode *out); /* -1: no such inode */
bool inodes_find(struct inodes *ix, uint64_t dir, const char *name, struct inode *out);
/* Name of an inode and the path below its mount's root ("" for the root itself); NOTFOUND/ESTALE if
 * it has no name any more. */
int inodes_path(
    struct inodes *ix, uint64_t ino, char path[INODE_PATH_MAX], unsigned *mount, struct err *e);
/* The path below any directory above it; false: it is not below that, or has no name any more. */
bool inodes_path_below(struct inodes *ix, uint64_t ino, uint64_t dir, char path[INODE_PATH_MAX]);
/* is it somewhere in that directory? */
bool inodes_below(struct inodes *ix, uint64_t ino, uint64_t dir);
int inodes_name(struct inodes *ix, uint64_t ino, char name[INODE_NAME_MAX + 1], uint64_t *dir);

enum inodes_change {
    INODES_SAME,
    INODES_NEW,
    INODES_UPDATED,
    INODES_REPLACED, /* by another inode: tell the kernel */
    /* What the store said is of before a change that was made here, so nothing was done with it:
     * the name was changed since the store was asked (what is known is right), or is just being
     * changed, or the directory's path is another one now. */
    INODES_OUTDATED,
    INODES_BUSY,
    INODES_ASK_AGAIN
};
/* To be called before a store is asked; what it says goes with this number to the functions below,
 * which thereby know what was changed here meanwhile. */
uint64_t inodes_asked(struct inodes *ix);
#define INODES_NOW UINT64_MAX /* it was not asked: what is told of a name is so now */
/* INODES_SAME, or what is wrong with an answer about that name; "": about the directory. */
enum inodes_change inodes_evaluate(
    struct inodes *ix, uint64_t dir, const char *name, uint64_t asked);
/* The store is about to change a name (of a directory: "", its path), and the index after it:
 * meanwhile nothing that a store says of it counts. */
void inodes_change(struct inodes *ix, uint64_t dir, const char *name);
void inodes_change_end(struct inodes *ix, uint64_t dir, const char *name);
/* What a store says about a name; what it leaves unasked is no change where the version is known.
 * Never touches what is dirty, local or a mount. What is outdated,
 * too, fills *out with what is known; .ino 0: nothing. */
int inodes_put(struct inodes *ix, uint64_t dir, const char *name, const struct store_stat *st,
    uint64_t asked, uint32_t now_s, struct inode *out, enum inodes_change *change, struct err *e);
/* A file's name, with all that is known of it but an id of the kernel, goes to a new inode;
 * those that have the old one keep it. */
int inodes_renew(struct inodes *ix, uint64_t ino, struct err *e);
/* A new name made here: flags and mode of `like` (INODE_DIR, INODE_LOCAL, …), its uid, gid, mount,
 * mtime, size. EXISTS. */
int inodes_create(struct inodes *ix, uint64_t dir, const char *name, const struct inode *like,
    struct inode *out, struct err *e);
void inodes_remove(struct inodes *ix, uint64_t ino); /* takes the name away */
/* The same because of the store: it, and all that was below it, is INODE_ORPHANED. False: it stays,
 * as the store does not have all of it, or was asked too early. */
bool inodes_orphan(struct inodes *ix, uint64_t ino, uint64_t asked);
/* Moves the name; an inode that has the target name loses it. */
int inodes_rename(struct inodes *ix, uint64_t ino, uint64_t dir, const char *name, struct err *e);

enum inodes_field { /* what inodes_set takes from its argument */
    INODES_SIZE = 1,
    INODES_GROW = 128 /* the larger size */,
    INODES_MTIME = 2,
    INODES_MODE = 4,
    INODES_OWNER = 8,
    INODES_VERSION = 16,
    INODES_SYNCED = 32,
    INODES_BACKING = 64,
    INODES_ATTR = 256, /* .attr and .untold */
};
/* Changes fields, then sets and clears flags. */
void inodes_set(struct inodes *ix, uint64_t ino, unsigned fields, const struct inode *from,
    unsigned set, unsigned clear);
/* returns how many opens there are now */
unsigned inodes_opened(struct inodes *ix, uint64_t ino, int delta);
/* The record stays as if it was open, for as long as this process lives or until it is released:
 * unlike an open, nobody counts it after a crash. inodes_release returns how many opens there are.
 */
void inodes_hold(struct inodes *ix, uint64_t ino);
unsigned inodes_release(struct inodes *ix, uint64_t ino);
/* Gives back the records without a name that nobody has open and the kernel has forgotten: of a
 * process that was killed while it held them. Before the mount is served. */
void inodes_reclaim(struct inodes *ix);
/* the kernel was told the id once more */
void inodes_ref(struct inodes *ix, uint64_t ino);
void inodes_forget(struct inodes *ix, uint64_t ino, uint64_t n);

/* Children of dir after `cookie` (0: from the first) in the order they became known, until fn
 * returns more than 0. The lock is held meanwhile: fn only copies. Each has a cookie that stays
 * good while others come and go. ref: each child for which fn returned 0, not less, is counted like
 * inodes_ref() does. */
typedef int (*inodes_fn)(void *user, const char *name, const struct inode *child, uint64_t cookie);
void inodes_children(
    struct inodes *ix, uint64_t dir, uint64_t cookie, bool ref, inodes_fn fn, void *user);
/* End of a listing begun at start_s: children it did not show are removed, and the directory is
 * complete. 1: some were; fn tells those that the kernel knows. -1: its path is another one than at
 * the begin: nothing was done. */
int inodes_listed(struct inodes *ix, uint64_t dir, uint64_t asked, uint32_t start_s,
    void (*fn)(void *user, uint64_t dir, const char *name), void *user);
/* dir is the root of that mount from now on */
int inodes_mount(struct inodes *ix, uint64_t dir, unsigned mount);
/* The roots of mounts that the dataset does not have any more; the caller frees *out. */
size_t inodes_gone_mounts(struct inodes *ix, uint64_t **out);
/* dir is the root of no mount any more, but a directory above others, in that mount or none */
void inodes_unmount(struct inodes *ix, uint64_t dir, unsigned mount);
/* Its mount is gone: it and all that is below lose their names, and what was not in the store is
 * nobody's any more. */
void inodes_abandon(struct inodes *ix, uint64_t ino);
/* Every inode that has a backing id, with the lock held: fn only copies.
 * Looks at the whole index. */
void inodes_backings(struct inodes *ix, void (*fn)(void *user, const struct inode *n), void *user);
/* the listing cannot be trusted any more */
void inodes_unlist(struct inodes *ix, uint64_t dir);

struct inodes_stats {
    /* known; ever made; of names; of the index on disk */
    uint64_t inodes, records, name_bytes, file_bytes;
};
void inodes_stats(struct inodes *ix, struct inodes_stats *out);
#endif
