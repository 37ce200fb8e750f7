/* SPDX-License-Identifier: Apache-2.0 */
/* catalogue — what the cache holds and where: an entry for each object version that is open or has
 * bytes here, their hash by path, the tiers' counters and eviction queues, and the quota of pins. A
 * partial file of more than one segment has an entry for each segment with bytes as well, a unit:
 * then these are in the queue, not the file. It knows names, numbers and states only: it does no
 * I/O, waits for nothing and calls nothing back. Entries are named by ids; an object is a pointer
 * that it keeps and hands out. An id stays the same entry's while the caller holds a reference, or
 * until catalogue_recycle() after it was removed. Threads: any. Locks: each function takes the
 * catalogue's own mutex, a leaf, and holds none on return. */
#ifndef MILLRACE_FUSE_CACHE_CATALOGUE_H
#define MILLRACE_FUSE_CACHE_CATALOGUE_H

#include "fuse/cache/meta.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CATALOGUE_NONE      UINT32_MAX
#define CATALOGUE_TIERS     3
#define CATALOGUE_SEG_PAGES (64u * 256u) /* of a segment: 64 blocks of 1 MiB */

struct catalogue; /* opaque */

struct catalogue_tier {
    uint64_t quota;  /* pages of 4 KiB */
    uint8_t medium;  /* enum conf_medium, for the records */
    bool is_lasting; /* its bytes outlive the process */
};
/* The tiers, fastest first; with none, entries are of a tier 0 without room. NULL: no memory. */
struct catalogue *catalogue_new(const struct catalogue_tier *tiers, size_t ntiers);
void catalogue_free(struct catalogue *cat); /* no object is attached */
/* Detaches the next object of an entry from *from on; NULL: there are no more. */
void *catalogue_detach(struct catalogue *cat, uint32_t *from);

/* -- opening and closing ---------------------------------------------------------------------- */

struct catalogue_info {
    /* hashes, size, valid blocks, flags; mtime_ns: on disk of the data file when it was complete or
     * trusted, 0 if it must be verified; in memory the offset in its arena */
    struct meta_file meta;
    int tier;
    /* all of the data file was verified at mtime_ns */
    bool is_trusted;
    bool is_pinned, is_loaded;
    /* one counter a segment; readers add to them without a lock, eviction takes what they counted;
     * NULL: the entry has no reference */
    atomic_uint *hits;
    void *object; /* what is attached, or NULL */
};
/* The entry of that version, new if need be, with one more reference, which a handle counts as one
 * of its own, and *info. NONE: no memory. */
uint32_t catalogue_open(struct catalogue *cat, const uint64_t path[2], uint64_t version,
    uint64_t size, bool handle, struct catalogue_info *info);
/* Attaches the object unless another thread was faster; returns the one that is attached. */
void *catalogue_attach(struct catalogue *cat, uint32_t id, void *object);
struct catalogue_info catalogue_info(struct catalogue *cat, uint32_t id);
void catalogue_ref(struct catalogue *cat, uint32_t id);
bool catalogue_close_handle(struct catalogue *cat, uint32_t id); /* true: it was the last one */

/* What became of an entry. Whoever gets one that is removed frees the object, has the table's
 * record cleared, deletes the data and then calls catalogue_recycle(). */
struct catalogue_gone {
    uint32_t id;
    bool is_removed;       /* it is in no hash and no queue any more */
    bool is_complete;      /* before that */
    bool is_loaded;        /* before that: see catalogue_mark_loaded */
    int tier;              /* of its bytes */
    struct meta_file meta; /* before that; .valid: it had bytes */
    void *object;          /* the caller's now, if it is removed; may be NULL */
};
void catalogue_recycle(struct catalogue *cat, uint32_t id); /* its room and its id are free */

/* What the holder of the last reference found of the data file. */
struct catalogue_closing {
    bool may_move;                  /* up or down a tier */
    bool is_checked;                /* the rest is set */
    bool is_trusted, is_distrusted; /* all bytes are verified; or not, and the file was open */
    int64_t mtime_ns;               /* of the data file, if is_trusted */
};
struct catalogue_move { /* a file that had better be on another tier */
    uint32_t id;
    uint64_t path; /* its hash: says whether the id still means that file */
    int from, to;
};
struct catalogue_left {
    struct catalogue_gone gone; /* .object: to be freed, or NULL; .is_removed: see there */
    bool moves;
    struct catalogue_move move; /* if it moves: see catalogue_move_begin */
};
enum catalogue_end {
    CATALOGUE_IN_USE, /* there are other references */
    CATALOGUE_CHECK,  /* not given back: see whether its bytes are trusted, and call again */
    CATALOGUE_LEFT,   /* it was the last one, and *left is set */
};
/* Gives back a reference. */
enum catalogue_end catalogue_close(struct catalogue *cat, uint32_t id,
    const struct catalogue_closing *closing, struct catalogue_left *left);

/* The first bytes of a version came: the older versions of its path go, or the version itself where
 * a later one has bytes. Removes one, or hides it if it is open: then it goes with its last
 * reference, and its record must be cleared. False: there is none left. */
bool catalogue_supersede(struct catalogue *cat, uint32_t id, struct catalogue_gone *gone);
/* Drops a version of the path (NULL: any) but `but`. An idle one is removed. Of an open one the pin
 * ends, and if it is complete it goes with its last reference; the caller gets a reference to drop
 * what else is there. False: there is none. */
bool catalogue_drop(struct catalogue *cat, const uint64_t path[2], const uint64_t *version,
    uint32_t but, struct catalogue_gone *gone);

/* The next file from *from on that has bytes and is at rest, with one more reference, which is
 * given back as another one is, and *info. in_use: of such as have a reference already. NONE: none
 * of those that were looked at; there are no more if *from is NONE, too. */
uint32_t catalogue_visit(
    struct catalogue *cat, uint32_t *from, bool in_use, struct catalogue_info *info);

/* -- bytes come and go; the object's lock orders the calls for one entry --------------------- */

/* Where its first bytes will be. resident: the object stays attached without references, as its
 * bytes are nowhere else. */
void catalogue_place(struct catalogue *cat, uint32_t id, int tier, int64_t location, bool resident);
/* So many blocks and pages of a segment came (or went, if negative). crc: of a file's only block,
 * if it came. The tier's room is catalogue_reserve's. */
void catalogue_account(
    struct catalogue *cat, uint32_t id, uint32_t seg, int32_t blocks, int64_t pages, uint32_t crc);
void catalogue_finish(struct catalogue *cat, uint32_t id, int64_t mtime_ns); /* all are here */
/* One went: so many pages of a segment of what was complete. After catalogue_account. */
void catalogue_unfinish(struct catalogue *cat, uint32_t id, uint32_t seg, uint64_t pages);
/* What was found when the files were opened is what counts: valid blocks, and pages a segment. */
void catalogue_reconcile(struct catalogue *cat, uint32_t id, uint32_t valid, const uint32_t *pages);
void catalogue_forget(struct catalogue *cat, uint32_t id); /* nothing was found */

/* -- room -------------------------------------------------------------------------------------- */

enum catalogue_room {
    CATALOGUE_ROOM,     /* reserved */
    CATALOGUE_ROOM_LOW, /* reserved, and the tier is above its high mark: evict in the background */
    CATALOGUE_NO_ROOM,  /* evict, and ask again */
    CATALOGUE_REFUSED,  /* no eviction helps: too much for the tier, or it is blocked */
};
/* A tier for the first bytes of a file: the fastest with free room for all of it, else the slowest;
 * -1: none takes bytes now. */
int catalogue_choose(struct catalogue *cat, uint32_t id, int64_t now_ns);
enum catalogue_room catalogue_reserve(
    struct catalogue *cat, int tier, uint64_t pages, int64_t now_ns);
void catalogue_release(struct catalogue *cat, int tier, uint64_t pages);
/* The tier takes no bytes until then; false: it was blocked already. */
bool catalogue_block(struct catalogue *cat, int tier, int64_t now_ns, int64_t until_ns);
bool catalogue_is_low(struct catalogue *cat, int tier); /* above its low mark: evict more */
/* What the tier may hold beside its quota, as its disk has so many pages to give; negative: so many
 * more than it may have now. */
void catalogue_limit(struct catalogue *cat, int tier, int64_t room);
uint64_t catalogue_room(struct catalogue *cat, int tier); /* pages of its quota that are not used */
uint64_t catalogue_gives(struct catalogue *cat, int tier); /* pages that are there and may leave */
/* Can it have so many more pages now, if all leaves that may? Not for what is pinned, or open and
 * complete. */
bool catalogue_can_have(struct catalogue *cat, int tier, uint64_t pages);

enum catalogue_what {
    CATALOGUE_NOTHING, /* may go */
    CATALOGUE_WAIT,    /* it is in use: ask again */
    CATALOGUE_REMOVED, /* .gone */
    /* .move, .pages and .object; the caller has a reference, and ends the move */
    CATALOGUE_MOVE,
    /* .move.id and .object: a partial file that was not opened since the start; the caller has a
     * reference, and loads it, so that its segments become units */
    CATALOGUE_SPLIT,
    /* .move.id, .seg and .object: the caller has a reference, evicts that segment, and calls
     * catalogue_evicted() */
    CATALOGUE_SEGMENT,
};
struct catalogue_victim {
    enum catalogue_what what;
    struct catalogue_move move;
    uint32_t unit, seg;
    uint64_t pages, key;
    bool was_small; /* in the queue of new ones */
    void *object;
    struct catalogue_gone gone;
};
/* The next one to leave a tier. *skips: how many may be passed over; counts down. */
void catalogue_victim(
    struct catalogue *cat, int tier, unsigned *skips, struct catalogue_victim *victim);
void catalogue_evicted(struct catalogue *cat, const struct catalogue_victim *victim, bool done);
/* A victim that could not be moved, and is idle still, is removed. */
bool catalogue_remove(
    struct catalogue *cat, const struct catalogue_victim *victim, struct catalogue_gone *gone);

/* Ends by catalogue_move_end or _fail. False: the file is in use, or is not there any more. */
bool catalogue_move_begin(
    struct catalogue *cat, const struct catalogue_move *move, struct catalogue_victim *out);
/* Ends a move; the bytes are copied, the pages reserved. The object's lock is held, so that an
 * opener meanwhile does not see where it was. False: it was opened, and stays. */
bool catalogue_move_end(
    struct catalogue *cat, const struct catalogue_victim *moved, int64_t location, bool resident);
void catalogue_move_fail(struct catalogue *cat, const struct catalogue_victim *moved);

/* -- pins -------------------------------------------------------------------------------------- */

enum catalogue_pinning { CATALOGUE_PINNED, CATALOGUE_PIN_GONE, CATALOGUE_PIN_FULL };
/* The file may take so many pages, and is in no queue. GONE: another version took its place. FULL:
 * that would be more than pins may take together. */
enum catalogue_pinning catalogue_pin(struct catalogue *cat, uint32_t id, uint64_t pages);
/* May it have so many pages? True for what is not pinned. */
bool catalogue_pin_grow(struct catalogue *cat, uint32_t id, uint64_t pages);
uint32_t catalogue_unpin(struct catalogue *cat, const uint64_t path[2]); /* NONE: none is pinned */
uint32_t catalogue_unpin_next(struct catalogue *cat, uint32_t from);     /* by id */
/* A file in memory that is to be pinned with so many pages goes to a lasting tier first (MOVE), or
 * away if it is incomplete or large (REMOVED). */
void catalogue_settle(struct catalogue *cat, const uint64_t path[2], uint64_t version,
    uint64_t pages, struct catalogue_victim *out);

/* -- loads ------------------------------------------------------------------------------------- */

/* A load asked for the file; mark: not 0. Not kept over restarts. */
void catalogue_mark_loaded(struct catalogue *cat, uint32_t id, uint8_t mark);
void catalogue_forget_loaded(struct catalogue *cat, uint8_t but); /* all other marks end */

/* -- the table and the outside ------------------------------------------------------------------
 */

/* The entry's record, made in that boot: zeroes if it is not to be found after a restart. */
void catalogue_record(
    struct catalogue *cat, uint32_t id, uint32_t boot, unsigned char record[META_RECORD]);
/* At start-up, once for each record, in order: ids are the records' numbers. NULL: a free one.
 * -1: no memory; 1: there is no room for its pin any more. */
int catalogue_load(struct catalogue *cat, const struct meta_file *f, bool same_boot);
void catalogue_loaded(struct catalogue *cat);
/* Is there such a file on that tier, or on its way from or to it? */
bool catalogue_has_file(
    struct catalogue *cat, int tier, uint32_t id, uint64_t hash, uint32_t version);
struct catalogue_stats {
    uint64_t used, quota, files, complete_files; /* pages */
    uint64_t pinned, pinned_most, pinned_files;  /* pages */
    int64_t blocked_ns; /* until then a lasting tier takes, or took, no bytes; 0: never */
};
struct catalogue_stats catalogue_stats(struct catalogue *cat);

#endif
