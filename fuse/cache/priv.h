/* SPDX-License-Identifier: Apache-2.0 */
/* priv — what the files of the cache share. Layers, each calls those below it only: cache.c
 * (lifecycle); pin.c, adopt.c; open.c (opens, closes, drops); read.c; readahead.c; fetch.c (single
 * flight); fill.c (a block's way to a tier); evict.c (room, victims, moves, the last reference);
 * move.c, block.c (verify, forget, punch); object.c (an open version); table.c (the table on disk);
 * catalogue.c (what is cached), media.c (files and arenas).
 *
 * Locks. cache.mu: slots, hash, queues, tiers' counters, nodes' refs. node.mu: one open file's
 * fetches and the changes of its valid bits; held over I/O to that file's own data at most.
 * cache.mu is a leaf: it may be taken under node.mu, never the other way round, and is never held
 * across I/O. A hit takes no lock: it counts itself into its segment's `readers`, looks at the
 * `valid` bits, reads, and counts itself out; whoever takes bytes away clears the bits first and
 * gives up if there are readers. */
#ifndef MILLRACE_FUSE_CACHE_PRIV_H
#define MILLRACE_FUSE_CACHE_PRIV_H

#include "fuse/cache/budget.h"
#include "fuse/cache/cache.h"
#include "fuse/cache/meta.h"
#include "fuse/cache/s3fifo.h"
#include "lib/base/pool.h"

#include <pthread.h>
#include <sys/stat.h>

#define SEG_BLOCKS  64u
#define SEG_BYTES   ((uint64_t)SEG_BLOCKS * CACHE_BLOCK)
#define NONE        UINT32_MAX
#define MAX_TIERS   3
#define ARENAS      4
#define PAGE        4096u
#define PART_BLOCKS 8u /* most blocks of one fetch */

/* of the pool's jobs, the most urgent first: writing to a tier what was fetched, fetching ahead,
 * evicting, moving and verifying */
enum cache_lane { LANE_LAND, LANE_FETCH, LANE_IDLE };
#define FILLS_EACH 3u /* short writes: a thread that is at one takes the next ones, too */

enum slot_kind { SLOT_FREE, SLOT_FILE, SLOT_SEG };
enum slot_flag {
    SLOT_PINNED = META_PINNED,
    SLOT_BUSY = 2, /* being moved between tiers */
    SLOT_COMPLETE = 4,
    SLOT_SPLIT = 8, /* partial file of many segments: these are the units in the queue */
    SLOT_DEAD = 16, /* in no hash and no queue: goes with its node */
    SLOT_DROP = 32, /* goes when the last reader closes */
    /* idle: what is there was verified by this process, and `place` says since when nobody wrote */
    SLOT_TRUSTED = 64,
};

/* A cached file, idle or open, or a segment of a partial one. 96 bytes; moves when the array grows:
 * name it by its index. */
struct slot {
    uint64_t path[2], version, size;
    /* disk: mtime_ns for meta_file, 0 = must be verified; memory: offset in the arena */
    int64_t place;
    struct node *node;     /* the open file, or NULL */
    uint32_t valid, pages; /* of a SLOT_SPLIT file: pages are counted in its segments */
    uint32_t crc0;
    uint32_t chain; /* next of the hash bucket, of the free list, of the file's segments */
    uint32_t owner; /* SLOT_SEG: its file; SLOT_FILE: the first of its SLOT_SEGs, or NONE */
    union {
        uint32_t seg;      /* SLOT_SEG */
        uint32_t reserved; /* SLOT_FILE that is pinned: pages that it may take */
    };
    uint32_t born; /* order of first opens: the later of two versions is the newer one */
    struct s3f_unit unit;
    uint8_t kind, tier, flags;
};

struct tier {
    enum conf_medium medium;
    char *dir;            /* disk: files are in <dir>/<2 hex digits>/; NULL: memory */
    uint64_t quota, used; /* pages; used: cache.mu */
    struct s3f queue;     /* cache.mu */
    int64_t blocked_ns;   /* cache.mu: no new bytes before that time (ENOSPC) */
    bool evicting;        /* cache.mu: a background eviction is queued or running */
    int arenas[ARENAS];   /* memory: memfds that hold many files, -1 until used */
    _Atomic uint64_t arena_next[ARENAS]; /* offsets are never used twice: a hole costs nothing */
};

struct seg {
    _Atomic uint64_t valid, trusted; /* bits of blocks: here; and known to be as their CRC says */
    /* fetched for a reader who has not come to their end: what he reads of them is no hit */
    _Atomic uint64_t fresh;
    atomic_uint readers;
    atomic_uint touched; /* hits that the queue has not seen yet */
    unsigned landing;    /* node.mu: blocks being written */
    uint32_t unit;       /* cache.mu: its SLOT_SEG, or NONE */
    uint32_t crc[];      /* node.mu to write; readable for valid blocks */
};

struct node {
    struct cache *c;
    uint32_t slot;
    unsigned refs;    /* cache.mu */
    unsigned handles; /* cache.mu: cache_file's among the refs */
    bool was_trusted; /* SLOT_TRUSTED when it was opened */
    bool cold;        /* its file had to be looked for on the disk */
    /* cache.mu: stays without refs (its fd or segments exist nowhere else) */
    bool resident;
    /* fixed once loaded */
    uint32_t mount;
    char *path, *version; /* NULL if opened for eviction alone; cache.mu to set */
    struct meta_file id;  /* hashes and size */
    uint32_t nblocks, nsegs;
    pthread_mutex_t mu;
    pthread_cond_t changed; /* a fetch ended, a block landed */
    bool loaded;            /* mu */
    bool verifying;         /* mu: a job verifies all of it */
    int tier;               /* mu; -1 until the first byte lands */
    atomic_int fd;          /* -1 until the first byte lands */
    int side_fd;            /* mu: sidecar, -1 */
    bool own_fd;            /* fd is ours to close (not an arena) */
    uint64_t base;          /* offset of the file in fd; written before fd */
    struct fetch *fetches;  /* mu */
    /* mu; why the source last did not answer in time; NULL: it never did */
    struct err *failed;
    int64_t failed_ns;  /* mu; monotonic: when that was */
    uint32_t landing;   /* mu: blocks being written */
    atomic_uint nvalid; /* changed under mu */
    _Atomic(struct seg *) segs[];
};

struct place { /* where a file's bytes are */
    int fd, side_fd, tier;
    bool own_fd;
    uint64_t base;
};

enum fetch_state {
    FETCH_QUEUED,
    FETCH_RUNNING,
    FETCH_READY /* in buf */,
    FETCH_LANDED /* in the cache */,
    FETCH_FAILED
};
struct fetch {
    struct fetch *next;      /* node.mu: node.fetches */
    struct fetch *held_next; /* cache.mu: cache.held */
    struct node *n;          /* holds a ref */
    uint32_t first, count;   /* blocks; node.mu to change, and while FETCH_QUEUED to read */
    enum fetch_state state;  /* node.mu */
    unsigned refs;           /* node.mu */
    /* a reader waits for it; somebody asked for it by name (prefetch, fill) */
    bool demand, wanted;
    bool kept;            /* node.mu: no tier took all of it: the buffer is what we have */
    bool listed;          /* node.mu */
    atomic_uint finished; /* bits: blocks whose reader came to their end in the buffer already */
    char *buf;
    size_t len;
    unsigned origin;  /* node.mu: what the source says of its bytes */
    int64_t reserved; /* bytes of the budget */
    int64_t held_ns;
    struct err *err; /* FETCH_FAILED; may be NULL without memory */
};

struct cache {
    pthread_mutex_t mu;
    struct slot *slots;                     /* mu */
    uint32_t nslots, cap_slots, free_slots; /* mu */
    uint32_t *buckets, nbuckets, nfiles;    /* mu */
    uint64_t ncomplete, nwith_data;         /* mu */
    uint64_t pin_pages, npinned;            /* mu: pages that pins have reserved; files */
    uint32_t births;                        /* mu */
    struct fetch *held, **held_tail;        /* mu: oldest first, of fetches with `kept` */
    int64_t held_bytes;                     /* mu */
    struct tier tiers[MAX_TIERS];
    size_t ntiers;
    char *dir;
    int table_fd, lock_fd; /* -1 without a directory */
    /* taken before mu: who writes a record last has the latest of it */
    pthread_mutex_t table_mu;
    char **mounts;
    size_t nmounts;
    struct cache_source source;
    bool drop_behind;
    void (*will_block)(void);
    struct budget budget;
    struct pool *pool;
    unsigned threads;
    atomic_uint landing;        /* blocks that have room and are on their way there */
    atomic_bool cancel;         /* cache_free */
    pthread_t keeper;           /* trims, sweeps */
    pthread_cond_t keeper_wake; /* with mu */
    bool stopping, has_keeper;  /* mu */
    _Atomic uint64_t hit_bytes, fetched_bytes, evicted_bytes, corrupt_blocks, full, moved_bytes;
};

struct stream {
    uint64_t pos, ahead; /* where the reader is; up to where is fetched or asked for */
    /* bytes read in sequence, or fewer where there was no memory for what is ahead */
    uint64_t run;
    uint64_t stamp;
};
#define STREAMS 4
struct cache_file {
    struct node *n;
    pthread_mutex_t mu; /* a leaf */
    struct stream streams[STREAMS];
    uint64_t clock;
    atomic_uint last_seg; /* for counting hits once per visit */
};

static inline uint64_t to_pages(uint64_t bytes) { return (bytes + PAGE - 1) / PAGE; }
static inline uint32_t block_len(const struct node *n, uint32_t block)
{
    uint64_t off = (uint64_t)block * CACHE_BLOCK;
    return (uint32_t)(n->id.size - off < CACHE_BLOCK ? n->id.size - off : CACHE_BLOCK);
}
static inline uint64_t block_bit(uint32_t block) { return UINT64_C(1) << (block % SEG_BLOCKS); }
static inline struct seg *node_seg(struct node *n, uint32_t block)
{
    return atomic_load(&n->segs[block / SEG_BLOCKS]);
}
static inline bool node_has(struct node *n, uint32_t block)
{
    struct seg *s = node_seg(n, block);
    return s && (atomic_load(&s->valid) & block_bit(block));
}
static inline bool node_complete(struct node *n) { return atomic_load(&n->nvalid) == n->nblocks; }

/* slot.c — cache.mu is held in all of these, but for the two that say so */
/* NULL: any; NONE if absent */
uint32_t slot_find(const struct cache *c, const uint64_t path[2], const uint64_t *version);
uint32_t slot_find_but(
    const struct cache *c, const uint64_t path[2], const uint64_t *version, uint32_t but);
uint32_t slot_new(struct cache *c, enum slot_kind kind); /* NONE: no memory */
void slot_rehash(struct cache *c);
void tier_queue_init(struct cache *c, struct tier *t);
uint64_t tier_high_mark(const struct tier *t);
void catalogue_split(struct cache *c, struct node *n);
void catalogue_find_units(struct cache *c, struct node *n);
int64_t object_mtime(const struct stat *st);
/* Bytes that are here of segments [first, end). */
uint64_t object_bytes(struct node *n, uint32_t first, uint32_t end);
struct node *cache_open_object(
    struct cache *c, const struct cache_key *key, bool handle, struct err *e);
void readahead_note(struct cache_file *f, uint64_t off, size_t len);
int move_copy(struct node *n, const struct place *to);
/* pread and pwrite of all of it; -1: errno (EIO where the file ends early). */
int media_write(int fd, const void *data, size_t len, uint64_t off);
int media_read(int fd, void *data, size_t len, uint64_t off);
int block_write_side(struct node *n, uint32_t block, const unsigned char record[META_SIDE_RECORD]);
void slot_hash(struct cache *c, uint32_t id);
void slot_unhash(struct cache *c, uint32_t id);
void slot_free(struct cache *c, uint32_t id);
/* of its tier, by its pages; what is pinned is in no queue */
void slot_enqueue(struct cache *c, uint32_t id);
uint64_t slot_key(const struct cache *c, uint32_t id); /* for the queue's ghost */
struct meta_file slot_meta(const struct cache *c, uint32_t id);
/* A unit of the queue for a segment of a file, of so many pages; NONE: no memory. The tier's `used`
 * is the caller's. */
uint32_t slot_seg_new(struct cache *c, uint32_t file, uint32_t seg, uint32_t pages);
void slot_seg_free(struct cache *c, uint32_t id);
void slot_persist(struct cache *c, uint32_t id); /* not held */
/* not held: at start-up; reads the table */
int slot_load(struct cache *c, struct err *e);

/* tier.c */
static inline void cache_will_block(const struct cache *c)
{
    if (c->will_block)
        c->will_block();
}

int tier_init(struct cache *c, struct tier *t, const struct conf_tier *conf, struct err *e);
void tier_fini(struct tier *t);
int tier_of_medium(const struct cache *c, unsigned medium); /* -1: none */
/* the fastest on disk; -1: there is none */
int tier_lasting(const struct cache *c);
/* for its first bytes; takes cache.mu; -1: none takes bytes now */
int tier_choose(struct cache *c, uint32_t slot);
/* takes cache.mu, may evict; -1: no room */
int tier_reserve(struct cache *c, int tier, uint64_t pages);
void tier_release(struct cache *c, int tier, uint64_t pages); /* takes cache.mu */
void tier_full(struct cache *c, int tier);                    /* ENOSPC: stop for a while */
/* caller frees */
char *tier_path(const struct tier *t, const struct meta_file *f, uint32_t slot, const char *suffix);
int tier_arena(struct tier *t, uint64_t hash, uint64_t size, uint64_t *off); /* the fd, or -1 */
/* the data of an idle file */
void tier_remove(const struct tier *t, const struct meta_file *f, uint32_t slot, int64_t place);
void tier_sweep(struct cache *c); /* removes files that no slot names */

/* keep.c */
uint64_t keep_most(const struct cache *c); /* pages that pins may take together */
/* The file may take so many pages and stays in no queue; false: that would be more than pins may
 * take. cache.mu is held. */
bool keep_pin(struct cache *c, uint32_t id, uint64_t pages);
/* cache.mu is held; no-op if it is not pinned */
void keep_unpin(struct cache *c, uint32_t id);
/* may one block more land? node.mu is held; takes cache.mu */
bool keep_grow(struct node *n);
/* takes cache.mu; EXHAUSTED, ENOSPC: what to do; -1 */
int keep_refuse(struct cache *c, const char *path, struct err *e);

/* cache.c */
void cache_hash_key(const struct cache *c, const struct cache_key *key, uint64_t path[2]);
uint64_t cache_sized_version(const struct cache_key *key);
/* The first bytes of a version came: older versions of the path are forgotten. A version that only
 * somebody names, and that the store does not have, forgets nothing. No locks held. */
void cache_supersede(struct cache *c, uint32_t id);

/* node.c */
/* The node of a slot with one more ref; creates it. cache.mu is held. NULL: no memory. */
struct node *node_get(struct cache *c, uint32_t slot);
/* after node_get, without locks: opens what is cached */
int node_load(struct node *n, struct err *e);
void node_put(struct node *n);  /* may delete; no locks held */
void node_free(struct node *n); /* no refs, no slot */
void node_ref(struct node *n);
/* an empty data file (and sidecar); -1: errno */
int node_create(struct node *n, int tier, struct place *out);
/* makes it the node's. cache.mu is held, no reader yet */
void node_place(struct node *n, const struct place *p);
void node_close_place(struct cache *c, const struct place *p);
/* node.mu is held: creates the data file; -1: errno */
int node_open_data(struct node *n, int tier);
struct seg *node_seg_make(struct node *n, uint32_t block); /* node.mu is held; NULL: no memory */
/* Bytes came (pages > 0) or went: slot, queue and tier know. Takes cache.mu. */
void node_account(struct node *n, uint32_t seg, int32_t blocks, int64_t pages);
/* The segments of a file become one unit again (put into no queue yet). cache.mu is held. */
void node_join_units(struct cache *c, struct node *n);
void node_finished(struct node *n); /* all blocks are here */

void node_unfinished(struct node *n); /* one went */

/* block.c */
enum land {
    LAND_WRITE,
    LAND_FRESH /* the same, for a reader */,
    LAND_STORED /* it is in the data file already */
};
/* One block on its way to a tier, piece by piece. */
struct landing {
    struct node *n;
    struct seg *s;             /* NULL: there is nothing to end */
    uint32_t block, len, done; /* bytes of it */
    uint32_t crc;              /* of those that are done */
    int tier, failed;          /* failed: errno */
    bool here;                 /* it is in the cache already */
    bool stored;               /* in the data file, too: only counted and checksummed */
};
/* -1: no tier takes it; nothing to end */
int landing_begin(struct landing *l, struct node *n, uint32_t block);
/* the next bytes, at most len - done; -1: to be ended */
int landing_write(struct landing *l, const void *data, size_t len);
/* 0: here; -1: not, as bytes are missing or could not be written. fresh: as LAND_FRESH */
int landing_end(struct landing *l, bool fresh);
/* All of it at once. 0: here (also if it was before), -1: no tier took it. */
int block_land(struct node *n, uint32_t block, const char *data, enum land how);
/* 0: trusted now; -1: it was corrupt or unreadable, and is gone */
int block_verify(struct node *n, uint32_t block);
/* Forgets and counts a bad block; false: it is gone already, or (if_untrusted) was replaced by a
 * good one. */
bool block_invalidate(struct node *n, uint32_t block, bool if_untrusted);
/* takes away a segment's blocks: hole punched. -1: in use or pinned */
int block_evict_seg(struct node *n, uint32_t seg);

/* fetch.c */
/* that brings it; NULL: none. n->mu is held */
struct fetch *fetch_of(struct node *n, uint32_t block);
extern __thread unsigned fetch_origin; /* of the bytes that this thread's fetch_block waited for */
/* The block is wanted now. 0: copied len bytes from `in` of the block to dst (dst NULL: nothing
 * copied); 1: it is in the cache (or just came): read it there; -1: e. more: how many blocks from
 * here on the reader wants. */
int fetch_block(struct node *n, uint32_t block, uint32_t more, char *dst, uint32_t in, uint32_t len,
    struct err *e);
/* Queues what is missing of [first, first + count); returns the block up to which it got. wanted:
 * not dropped on close. */
uint32_t fetch_ahead(struct node *n, uint32_t first, uint32_t count, uint32_t part, bool wanted);
void fetch_cancel_queued(struct node *n); /* the last reader closed */
void fetch_trim_held(struct cache *c, int64_t max_bytes, int64_t before_ns);

/* evict.c */
bool evict_one(struct cache *c, int tier); /* takes cache.mu; false: nothing may go */
/* cache.mu is held: queues an eviction down to the low watermark */
void evict_background(struct cache *c, int tier);
/* cache.mu is held on entry, not on return; an idle file */
void evict_slot(struct cache *c, uint32_t id);
/* cache.mu is held; an idle file: queues a move to where it better is */
void evict_promote(struct cache *c, uint32_t id);
/* An idle file in memory is to last: it goes to disk, or away if it is incomplete or large.
 * cache.mu is held on entry, not on return. */
void evict_settle(struct cache *c, uint32_t id);

#endif
