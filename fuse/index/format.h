/* SPDX-License-Identifier: Apache-2.0 */
/* format — the index file's format and what the sources of this room call of each other; private to
 * the room. Records are the truth, hash chains and sibling lists can be made again from them. Calls
 * down only: index, open → repair, records → hash, check, version, heap. Under the index's write
 * lock where they change something, but in inodes_open. */
#ifndef MILLRACE_FUSE_INDEX_FORMAT_H
#define MILLRACE_FUSE_INDEX_FORMAT_H

#include "fuse/index/index.h"

#include <pthread.h>
#include <stdatomic.h>

#define INDEX_MAGIC   UINT64_C(0x314449454341524d) /* "MRACEID1" */
#define INDEX_VERSION 2
/* slots and mounts differ: programs that do not know of slots must not use it */
#define INDEX_VERSION_EDITED 3
#define INDEX_SLOTS_MAX      254
#define VERSION_PACKED       20 /* bytes of a packed version */

/* One inode. Zero is no record. */
struct rec {
    union {
        uint64_t size;
        struct {
            uint32_t first, last; /* children, by .next and .prev, in the order of .seq */
        } kids;
    };
    int64_t mtime_ns;
    uint32_t parent;
    uint32_t chain;      /* next in the hash bucket */
    uint32_t next, prev; /* siblings; of a free record: the next free one */
    uint32_t seq;        /* grows along the siblings, never used twice in a directory */
    uint32_t name;       /* heap unit */
    uint32_t uid, gid;
    uint32_t nlookup; /* with .opens and .backing: only good while .epoch is the index's */
    uint32_t synced;
    uint32_t generation;
    int32_t backing;
    union {
        uint8_t version[VERSION_PACKED];
        struct {
            uint32_t next_seq, listed, count;
        } dir;
    };
    uint16_t epoch, flags, mode, opens;
    uint8_t name_len, form, mount, attr; /* attr: those told in the lower four bits */
};
_Static_assert(sizeof(struct rec) == 96, "a record is 96 bytes: at most 100 with its hash bucket");

enum region_id { REGION_RECS, REGION_HEAP, REGION_BUCKETS, REGION_COUNT };

/* First page of the file. */
struct index_head {
    uint64_t magic, identity;
    uint32_t version, rec_size;
    char boot[40];  /* boot id: after a crash of the machine the file may be torn */
    uint32_t clean; /* closed in good order … */
    /* … and then the CRC32C of all that is in use, with these two as 0 */
    uint32_t sum;
    _Atomic uint32_t busy; /* a change of the structure was under way */
    uint32_t undo_ino;     /* record as it was before that change; 0 none */
    struct rec undo;
    uint16_t epoch;              /* one mount, one epoch */
    uint64_t have[REGION_COUNT]; /* bytes with disk blocks behind them */
    uint32_t nrecs;              /* records ever used, with the unused record 0 */
    uint32_t free_rec;
    uint32_t live, unlinked, dirty;
    uint32_t nbuckets;      /* linear hashing: grows by one */
    uint32_t heap_units;    /* used, of 8 bytes */
    uint32_t heap_free[33]; /* by length in units; the first word of a free block is the next */
    uint64_t name_bytes;
    uint64_t life;   /* not in the checksum, as what follows: earlier versions do not count it */
    uint32_t nslots; /* 0: as many as there are mounts, each in its own */
    uint32_t unused;
    uint64_t slots[INDEX_SLOTS_MAX]; /* identity of the mount whose files have that number */
    /* and of its server; 0: by an earlier version, which did not say */
    uint32_t servers[INDEX_SLOTS_MAX];
};
_Static_assert(sizeof(struct index_head) <= 4096, "it is one page");

struct inodes {
    int fd;
    char *base;
    struct index_head *h;
    struct rec *recs;
    char *heap;
    uint32_t *buckets;
    struct inodes_conf conf; /* .path is not kept */
    /* slot and mount, INODE_NO_MOUNT: there is none (any more) */
    uint8_t to_conf[256], to_slot[256];
    pthread_rwlock_t lock;
    struct local_changes *changes; /* lock */
    uint32_t *held;                /* lock; inodes, one as often as it is held */
    size_t nheld, held_room;       /* lock */
    uint64_t again[REGION_COUNT];  /* lock; more is reserved ahead once so much is used */
};

/* How a record keeps an inode's .attr and .untold. */
static inline uint8_t index_attr(unsigned attr, unsigned untold)
{
    return (uint8_t)((attr & 7) | (untold & 7) << 4);
}
static inline uint32_t index_ino(const struct inodes *ix, const struct rec *r)
{
    return (uint32_t)(r - ix->recs);
}
static inline struct rec *index_rec(const struct inodes *ix, uint64_t ino) /* NULL: there is none */
{
    const unsigned want = INODE_USED, flags = want | INODE_DROPPED;
    return ino == 0 || ino >= ix->h->nrecs || (ix->recs[ino].flags & flags) != want
        ? NULL
        : &ix->recs[ino];
}

/* By this process: inodes_hold(). The lock is held. */
static inline bool index_is_held(const struct inodes *ix, uint32_t ino)
{
    for (size_t i = 0; i < ix->nheld; i++)
        if (ix->held[i] == ino)
            return true;
    return false;
}

/* -- heap.c: the regions of the file, and texts in one of them -- */
struct index_region {
    uint64_t off, max; /* bytes in the file */
    uint64_t chunk;    /* reserved at a time, at least */
    uint64_t ahead;    /* reserved beyond what is used, where the disk has room */
    const char *what;
};
extern const struct index_region index_regions[REGION_COUNT];
/* Disk blocks for a part of the file that is not in use; -1: errno. */
int index_blocks(int fd, uint64_t off, uint64_t len);
int index_reserve(struct inodes *ix, enum region_id region, uint64_t bytes, struct err *e);
/* a heap unit, 0: no room */
uint32_t index_text_new(struct inodes *ix, const void *text, size_t len, struct err *e);
void index_text_free(struct inodes *ix, uint32_t unit, size_t len);
static inline char *index_text(const struct inodes *ix, uint32_t unit)
{
    return ix->heap + (uint64_t)unit * 8;
}
static inline size_t index_units(size_t len) { return (len + 7 + !len) / 8; }

/* -- version.c -- */
/* Into a record that is not in the index yet, or a copy for index_rec_replace(): what it had before
 * is not given back. */
int index_version_pack(struct inodes *ix, struct rec *r, const char *text, struct err *e);
void index_version_get(const struct inodes *ix, const struct rec *r, char text[STORE_VERSION_MAX]);
void index_version_clear(struct inodes *ix, struct rec *r);
bool index_version_ok(const struct rec *r); /* it is one, and short enough */
/* its text in the heap, .version[4] bytes of it; 0: it is not there */
uint32_t index_version_unit(const struct rec *r);

/* -- slots.c: the numbers that records have for mounts -- */
bool index_slots_ok(const struct inodes *ix);
unsigned index_nslots(const struct inodes *ix);
/* Gives each mount of now its slot. EXHAUSTED: there is none left. */
int index_slots_open(struct inodes *ix, bool fresh, struct err *e);

/* -- hash.c: chains and siblings -- */
uint32_t index_find(const struct inodes *ix, uint32_t dir, const char *name, size_t len);
/* by its .parent and .name; gives it a .seq */
int index_link(struct inodes *ix, uint32_t ino, struct err *e);
void index_relink(struct inodes *ix, uint32_t ino); /* with the .seq that it has; never grows */
void index_unlink(struct inodes *ix, uint32_t ino);
/* Can it be found by its name, and is it the only one? Goes along no more than `limit` links. */
bool index_is_found(const struct inodes *ix, uint32_t ino, uint32_t limit);
/* every name can be found, and nothing else is there; texts are sound */
bool index_chains_ok(const struct inodes *ix, uint32_t named);

/* -- recent.c: what was changed here while a store was asked -- */
struct local_changes *local_changes_new(void); /* NULL: no memory */
void local_changes_free(struct local_changes *c);
/* It has another name, or its name another version: after the change, or before it is no more. */
void index_changed(struct inodes *ix, const struct rec *r);
void index_moved(struct inodes *ix, uint32_t dir);
/* Is the path of the directory another one than when it was asked for, or about to be? */
bool index_was_moved(const struct inodes *ix, uint64_t dir, uint64_t asked);
enum inodes_change index_evaluate(
    const struct inodes *ix, uint64_t dir, const char *name, size_t len, uint64_t asked);
/* The names that were changed since, or are being changed, sorted: to ask for many. all: too many
 * to know them. Borrows nothing; the index is locked as long as it is to be true. */
struct index_recent {
    uint64_t *hashes;
    size_t n;
    bool all;
};
void index_recent_open(struct index_recent *r, const struct inodes *ix, uint64_t asked);
void index_recent_close(struct index_recent *r);
bool index_recent_has(const struct index_recent *r, uint64_t dir, const char *name, size_t len);

/* -- check.c -- */
/* one that is used, without its links to others */
bool index_rec_ok(const struct inodes *ix, uint32_t ino);
/* everything but the head's first part and the regions' sizes */
bool index_check(const struct inodes *ix);

/* -- repair.c: after a process died in the middle of a change, or where index_check() says no,
 * links everything again from parents and names, and drops what is damaged. Freed heap blocks are
 * lost. --
 */
int index_rebuild(struct inodes *ix, struct err *e);

/* -- records.c: the life of a record -- */
/* Takes the write lock and marks the index as being changed; keeps what a record was (NULL: none),
 * for index_rebuild(). */
void index_change_begin(struct inodes *ix, const struct rec *old);
void index_change_undoable(
    struct inodes *ix, const struct rec *old); /* … of a change that has begun */
void index_change_end(struct inodes *ix);
/* Ends what is known of an earlier mount: its counts mean nothing in this one. */
void index_rec_refresh(const struct inodes *ix, struct rec *r);
bool index_rec_current(
    const struct inodes *ix, const struct rec *r); /* its counts are this mount's */
void index_rec_view(const struct inodes *ix, const struct rec *r, struct inode *out);
void index_rec_flags(struct inodes *ix, struct rec *r, unsigned set, unsigned clear);
/* A file's record becomes `now`, all at once for whoever comes after a process that is killed; of
 * its links and its name nothing may differ. */
void index_rec_replace(struct inodes *ix, struct rec *r, const struct rec *now);
/* A record with a name, not linked yet; its directory and all but the name are the caller's to
 * fill. NULL: e. */
struct rec *index_rec_new(struct inodes *ix, const char *name, struct err *e);
/* Links a filled record; frees it on failure. */
int index_rec_add(struct inodes *ix, struct rec *r, unsigned flags, struct err *e);
/* Frees a record that has no name any more, once the kernel neither knows it nor has it open. */
void index_rec_reclaim(struct inodes *ix, struct rec *r);
/* Takes its name and those of everything below it, leaves first, without recursion: paths may be
 * deep. */
void index_rec_detach(struct inodes *ix, struct rec *top);
/* The same, but because of the store: no user of the mount asked for it. */
void index_rec_orphan(struct inodes *ix, struct rec *top);
/* Is there anything below (or here) that the store does not have, or that must stay? */
bool index_rec_is_precious(const struct inodes *ix, const struct rec *top);

#endif
