/* SPDX-License-Identifier: Apache-2.0 */
/* priv — what the files of the cache share. Layers, each calls those below it only: cache.c
 * (lifecycle); floor.c (what disks keep free); range.c (whole ranges, spans, complete files);
 * scrub.c (what is here, read again); read.c, pin.c, adopt.c; open.c (opens, closes, drops),
 * readahead.c; fetch.c (single flight); fetch_source.c; fill.c (a block's way to a tier); evict.c
 * (room, victims, moves, the last reference); block.c (verify, forget, punch), move.c (copies);
 * object.c (an open version); media.c (files and arenas), table.c (the table on disk); catalogue.h
 * (what is cached).
 *
 * Locks. The catalogue has its own, a leaf. object.mu: one open file's fetches and the changes of
 * its valid bits; held over I/O to that file's own data at most; the catalogue's and parked.mu may
 * be taken under it, never the other way round. A hit takes no lock: it counts itself into its
 * segment's `readers`, looks at the `valid` bits, reads, and counts itself out; whoever takes bytes
 * away clears the bits first and gives up if there are readers. */
#ifndef MILLRACE_FUSE_CACHE_PRIV_H
#define MILLRACE_FUSE_CACHE_PRIV_H

#include "fuse/cache/budget.h"
#include "fuse/cache/cache.h"
#include "fuse/cache/catalogue.h"
#include "fuse/cache/meta.h"
#include "lib/base/mutex.h"
#include "lib/base/pool.h"
#include "lib/base/task.h"

#include <pthread.h>
#include <sys/stat.h>

#define SEG_BLOCKS      64u
#define SEG_BYTES       ((uint64_t)SEG_BLOCKS * CACHE_BLOCK)
#define NO_ENTRY        CATALOGUE_NONE
#define MAX_TIERS       CATALOGUE_TIERS
#define ARENAS          4
#define CACHE_LATELY_NS (50 * NS_PER_S) /* longer than from one question to the next */
#define PAGE            4096u
#define BUSY_TRIES      8 /* for a block that is evicted again before it could be read */

/* of the pool's jobs, the most urgent first: writing to a tier what was fetched, fetching ahead,
 * evicting, moving and verifying */
enum cache_lane { LANE_FILL, LANE_FETCH, LANE_IDLE };
#define FILLS_EACH 3u /* short writes: a thread that is at one takes the next ones, too */

struct media { /* a tier's place in memory or on disk */
    enum conf_medium medium;
    uint64_t quota;     /* bytes */
    char *dir;          /* disk: files are in <dir>/<2 hex digits>/; NULL: memory */
    int arenas[ARENAS]; /* memory: memfds that hold many files, -1 until used */
    _Atomic uint64_t arena_next[ARENAS]; /* offsets are never used twice: a hole costs nothing */
    atomic_bool evicting;                /* a background eviction is queued or running */
};

struct seg {
    _Atomic uint64_t valid, trusted; /* bits of blocks: here; and known to be as their CRC says */
    /* fetched for a reader that has not come to their end: what it reads of them is no hit */
    _Atomic uint64_t fresh;
    atomic_uint readers;
    unsigned filling; /* object.mu: blocks being written */
    uint32_t crc[];   /* object.mu to write; readable for valid blocks */
};

struct location { /* where a file's bytes are */
    int fd, sidecar_fd, tier;
    bool own_fd;
    uint64_t base;
};

/* An object version that is open, or whose bytes are in memory of its own. */
struct object {
    struct cache *c;
    uint32_t entry;    /* of the catalogue, which counts the references */
    atomic_uint *hits; /* the catalogue's: of each segment, that eviction has not seen yet */
    bool was_trusted;  /* the entry, when it was opened */
    bool cold;         /* its file had to be looked for on the disk */
    /* a reader may read its file without asking: no hole is punched into it */
    atomic_bool handed_out;
    atomic_bool adopting; /* nor is any of it evicted: a file is becoming this one */
    /* fixed once loaded */
    uint32_t mount;
    char *path, *version; /* NULL if opened for eviction alone; mu to set */
    struct meta_file id;  /* hashes and size */
    uint32_t nblocks, nsegs;
    uint32_t part; /* most blocks of one fetch, a power of two */
    pthread_mutex_t mu;
    pthread_cond_t changed; /* a fetch ended, a block was filled */
    bool loaded;            /* mu */
    bool verifying;         /* mu: a job verifies all of it */
    int tier;               /* mu; -1 until the first byte comes */
    atomic_int fd;          /* -1 until the first byte comes */
    int sidecar_fd;         /* mu: sidecar, -1 */
    bool own_fd;            /* fd is ours to close (not an arena) */
    uint64_t base;          /* offset of the file in fd; written before fd */
    struct fetch *fetches;  /* mu */
    /* mu; why the source last did not answer in time; NULL: it never did */
    struct err *failed;
    int64_t failed_ns;  /* mu; monotonic: when that was */
    uint32_t filling;   /* mu: blocks being written */
    atomic_uint nvalid; /* changed under mu */
    _Atomic(struct seg *) segs[];
};

enum fetch_state {
    FETCH_QUEUED,
    FETCH_RUNNING,
    FETCH_READY /* in buf */,
    FETCH_FILLED /* in the cache */,
    FETCH_FAILED
};
struct fetch {
    struct fetch *next;        /* object.mu: object.fetches */
    struct fetch *parked_next; /* parked.mu */
    struct object *o;          /* holds a reference */
    uint32_t first, count;     /* blocks; object.mu to change, and while FETCH_QUEUED to read */
    enum fetch_state state;    /* object.mu */
    unsigned refs;             /* object.mu */
    /* a reader waits for it; asked for by name (prefetch, fill) */
    bool demand, wanted;
    bool parked;          /* object.mu: no tier took all of it: the buffer is what we have */
    bool listed;          /* object.mu */
    atomic_uint finished; /* bits: blocks whose reader came to their end in the buffer already */
    char *buf;
    size_t len;
    unsigned origin;  /* object.mu: what the source says of its bytes */
    int64_t reserved; /* bytes of the budget */
    int64_t parked_ns;
    struct err *err; /* FETCH_FAILED; may be NULL without memory */
};

/* Buffers that no tier took: they serve their readers for a moment. */
struct parked {
    pthread_mutex_t mu;          /* a leaf */
    struct fetch *first, **tail; /* mu: oldest first */
    int64_t bytes;               /* mu */
};

struct cache {
    struct catalogue *catalogue;
    struct media media[MAX_TIERS];
    size_t ntiers;
    char *dir;
    int table_fd, lock_fd; /* -1 without a directory */
    uint32_t boot;         /* hash of this boot, for the table's records; 0: unknown */
    /* held while a record is taken from the catalogue and written: the last write is the latest */
    pthread_mutex_t table_mu;
    char **mounts;
    size_t nmounts;
    struct cache_source source;
    bool drop_behind;
    void (*will_block)(void);
    struct budget budget;
    struct parked parked;
    struct pool *pool;
    unsigned threads;
    atomic_uint filling;     /* blocks that have room and are on their way there */
    atomic_bool cancel;      /* cache_free */
    struct task maintenance; /* removes orphans, gives back buffers */
    struct task scrub;
    int64_t scrub_ns;
    unsigned keep_free;       /* percent */
    _Atomic int64_t short_ns; /* when a disk last had no more than that; 0: never */
    pthread_mutex_t short_mu; /* held while on_short is called, which takes the files' locks */
    void (*on_short)(void *); /* short_mu */
    void *on_short_user;      /* short_mu */
    _Atomic uint64_t hit_bytes, fetched_bytes, evicted_bytes, corrupt_blocks, full, moved_bytes;
    _Atomic uint64_t evicted_loaded_bytes;
    _Atomic uint64_t scrubbed_bytes, rotten_blocks;
};

struct read_stream {
    uint64_t pos, ahead; /* where the reader is; up to where is fetched or asked for */
    /* bytes read in sequence, or fewer where there was no memory for what is ahead */
    uint64_t run;
    uint64_t stamp;
};
#define STREAMS 4
struct cache_file {
    struct object *o;
    pthread_mutex_t mu; /* a leaf */
    struct read_stream streams[STREAMS];
    uint64_t clock;
    atomic_uint last_seg; /* for counting hits once per visit */
};

static inline uint64_t to_pages(uint64_t bytes) { return (bytes + PAGE - 1) / PAGE; }
static inline uint32_t block_len(const struct object *o, uint32_t block)
{
    uint64_t off = (uint64_t)block * CACHE_BLOCK;
    return (uint32_t)(o->id.size - off < CACHE_BLOCK ? o->id.size - off : CACHE_BLOCK);
}
static inline uint64_t block_bit(uint32_t block) { return UINT64_C(1) << (block % SEG_BLOCKS); }
static inline struct seg *object_seg(struct object *o, uint32_t block)
{
    return atomic_load(&o->segs[block / SEG_BLOCKS]);
}
static inline bool object_has(struct object *o, uint32_t block)
{
    struct seg *s = object_seg(o, block);
    return s && (atomic_load(&s->valid) & block_bit(block));
}
static inline bool object_is_complete(struct object *o)
{
    return atomic_load(&o->nvalid) == o->nblocks;
}
static inline void object_ref(struct object *o) { catalogue_ref(o->c->catalogue, o->entry); }
static inline bool object_is_on_disk(const struct object *o) { return o->c->media[o->tier].dir; }
static inline void cache_will_block(const struct cache *c)
{
    if (c->will_block)
        c->will_block();
}

/* media.c */
int media_init(struct cache *c, const struct conf_tier *conf, struct err *e); /* one tier more */
void media_fini(struct media *m);
int media_of(const struct cache *c, enum conf_medium medium); /* its tier; -1: none */
/* caller frees */
char *media_path(
    const struct media *m, const struct meta_file *f, uint32_t entry, const char *suffix);
int media_arena(struct media *m, uint64_t hash, uint64_t size, uint64_t *off); /* the fd, or -1 */
/* Deletes the data of an idle file; location: its offset in an arena. */
void media_remove(
    const struct media *m, const struct meta_file *f, uint32_t entry, int64_t location);
void media_remove_orphans(struct cache *c); /* files that no entry names */

/* table.c */
void table_persist(struct cache *c, uint32_t entry);
int table_load(struct cache *c, struct err *e); /* at start-up */

/* object.c */
/* The object of an entry on which the caller has a reference; `object`: what is attached, or NULL;
 * info: of the entry since then, or NULL. NULL: no memory. */
struct object *object_get(
    struct cache *c, uint32_t entry, struct object *object, const struct catalogue_info *info);
int object_load(struct object *o, struct err *e); /* after object_get: opens what is cached */
void object_free(struct object *o);               /* no references, detached */
/* an empty data file (and sidecar); -1: errno */
int object_create(struct object *o, int tier, struct location *out);
/* They are the object's now. mu is held, no reader yet. */
void object_locate(struct object *o, const struct location *at);
void object_place(struct object *o, const struct location *at); /* and the catalogue knows */
struct location object_location(const struct object *o);
bool location_is_resident(const struct object *o, const struct location *at);
int64_t location_mtime(int fd); /* of a data file; 0: unknown */
int64_t location_key(const struct cache *c, const struct location *at); /* for the catalogue */
void location_close(struct cache *c, const struct location *at);
/* mu is held: creates the data file; -1: errno */
int object_open_data(struct object *o, int tier);
struct seg *object_seg_make(struct object *o, uint32_t block); /* mu is held; NULL: no memory */
/* the pages that so many of its blocks take at most */
uint64_t object_pages(const struct object *o, uint64_t blocks);
/* mu is held */
int object_write_sidecar(
    struct object *o, uint32_t block, const unsigned char record[META_SIDECAR_RECORD]);

/* block.c */
/* 0: trusted now; -1: it was corrupt or unreadable, and is gone */
int block_verify(struct object *o, uint32_t block);
/* Forgets and counts a bad block; false: it is gone already, or (if_untrusted) was replaced by a
 * good one. */
bool block_invalidate(struct object *o, uint32_t block, bool if_untrusted);
/* takes away a segment's blocks: hole punched. -1: in use or pinned */
int block_evict_seg(struct object *o, uint32_t seg);
void block_count_evicted(struct cache *c, uint64_t bytes, bool is_loaded); /* they are gone */

/* scrub.c */
void scrub_run(void *user); /* a task of struct cache */

/* floor.c */
void floor_look(struct cache *c); /* what the disks of the tiers may give now */

/* move.c */
int move_copy(struct object *o, const struct location *to); /* all blocks; -1: not */

/* evict.c */
/* Gives back a reference; the last one may remove the entry, or queue its move to another tier. No
 * locks held. */
void evict_put(struct cache *c, uint32_t entry, struct object *object);
static inline void object_put(struct object *o) { evict_put(o->c, o->entry, o); }
void evict_gone(struct cache *c, const struct catalogue_gone *gone); /* ends what was removed */
int evict_reserve(struct cache *c, int tier, uint64_t pages);        /* may evict; -1: no room */
void evict_background(struct cache *c, int tier); /* down to the low mark, unless there is one */
void evict_disk_full(struct cache *c, int tier);  /* ENOSPC: stop for a while */
/* The first bytes of a version came: older versions of the path are forgotten. A version that is
 * only named, and that the store does not have, forgets nothing. */
void evict_supersede(struct cache *c, uint32_t entry);
/* What of a file in memory is to be pinned goes to disk; false: it is in use, try again. */
bool evict_settle(struct cache *c, const uint64_t path[2], uint64_t version, uint64_t pages);

/* fill.c: one block on its way to a tier, piece by piece. */
enum fill_how {
    FILL_WRITE,
    FILL_FRESH /* the same, for a reader */,
    FILL_STORED /* it is in the data file already */
};
struct fill {
    struct object *o;
    struct seg *s;             /* NULL: there is nothing to end */
    uint32_t block, len, done; /* bytes of it */
    uint32_t crc;              /* of those that are done */
    int tier, failed;          /* failed: errno */
    bool here;                 /* it is in the cache already */
    bool stored;               /* in the data file, too: only counted and checksummed */
};
/* -1: no tier takes it; nothing to end */
int fill_begin(struct fill *l, struct object *o, uint32_t block);
/* the next bytes, at most len - done; -1: to be ended */
int fill_write(struct fill *l, const void *data, size_t len);
/* 0: here; -1: not, as bytes are missing or could not be written. fresh: as FILL_FRESH */
int fill_end(struct fill *l, bool fresh);
/* All of it at once. 0: here (also if it was before), -1: no tier took it. */
int fill_block(struct object *o, uint32_t block, const char *data, enum fill_how how);
/* May one block more come, if it is pinned? mu is held. */
bool fill_may_grow(struct object *o);

/* fetch_source.c */
int fetch_to_buffer(
    struct fetch *f, struct err *e); /* for a reader that waits, or as no tier takes it */
/* 0: all of it is in the cache; 1: what is left of it, if no tier takes more; -1: e */
int fetch_to_tier(struct fetch *f, struct err *e);

/* fetch.c */
/* that fetches it; NULL: none. o->mu is held */
struct fetch *fetch_of(struct object *o, uint32_t block);
extern __thread unsigned fetch_origin; /* of the bytes that this thread's fetch_block waited for */
/* The block is wanted now. 0: copied len bytes from `in` of the block to dst (dst NULL: nothing
 * copied); 1: it is in the cache (or just came): read it there; -1: e. more: how many blocks from
 * here on the reader wants. */
int fetch_block(struct object *o, uint32_t block, uint32_t more, char *dst, uint32_t in,
    uint32_t len, struct err *e);
/* Queues what is missing of [first, first + count); returns the block up to which it got. wanted:
 * not dropped on close. */
uint32_t fetch_ahead(struct object *o, uint32_t first, uint32_t count, uint32_t part, bool wanted);
void fetch_cancel_queued(struct object *o); /* the last reader closed */
/* Tries once more to bring a block whose bytes are parked into a tier. */
void fetch_fill_parked(struct object *o, uint32_t block);
void fetch_trim_parked(struct cache *c, int64_t max_bytes, int64_t before_ns);

/* readahead.c */
void readahead_note(struct cache_file *f, uint64_t off, size_t len); /* a read begins */

/* read.c */
enum hit { HIT, MISS, UNTRUSTED, BROKEN };
/* Holds the segment against eviction if its blocks of `bits` are here and trusted. */
enum hit read_grab(struct seg *s, uint64_t bits);

/* open.c */
void cache_hash_key(const struct cache *c, const struct cache_key *key, uint64_t path[2]);
uint64_t cache_sized_version(const struct cache_key *key);
struct object *cache_open_object(
    struct cache *c, const struct cache_key *key, bool handle, struct err *e);

/* Path and version of what was opened for its bytes alone, from beside them; -1: not known. */
int open_find_names(struct object *o);

/* pin.c */
/* EXHAUSTED, ENOSPC: what to do; -1 */
int pin_refuse(struct cache *c, const char *path, struct err *e);

#endif
