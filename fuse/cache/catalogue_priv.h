/* SPDX-License-Identifier: Apache-2.0 */
/* catalogue_priv — the entries, for the catalogue's own files: catalogue.c (open, close, records),
 * catalogue_count.c, catalogue_evict.c and catalogue_pin.c, over catalogue_entry.c, whose functions
 * are all called with the catalogue's mutex held. */
#ifndef MILLRACE_FUSE_CACHE_CATALOGUE_PRIV_H
#define MILLRACE_FUSE_CACHE_CATALOGUE_PRIV_H

#include "fuse/cache/catalogue.h"
#include "fuse/cache/s3fifo.h"

#include <pthread.h>

#define NONE        CATALOGUE_NONE
#define ENTRY_CHUNK 1024u

enum cat_kind { ENTRY_FREE, ENTRY_FILE, ENTRY_UNIT };
enum cat_flag {
    ENTRY_PINNED = META_PINNED,
    ENTRY_BUSY = 2, /* being moved between tiers */
    ENTRY_COMPLETE = 4,
    ENTRY_SPLIT = 8, /* partial file of many segments: its units are in the queue */
    ENTRY_DEAD = 16, /* in no hash and no queue: goes with its last reference */
    ENTRY_DROP = 32, /* goes with its last reference */
    /* idle: what is there was verified by this process, and `location` is the data file's mtime
     * then */
    ENTRY_TRUSTED = 64,
};

/* What a file that is referenced, or has an object, has more. */
struct cat_use {
    void *object;
    atomic_uint *hits;      /* of its segments: after the units */
    unsigned refs, handles; /* handles: cache_file's among the refs */
    bool is_resident;       /* stays without refs */
    uint32_t nsegs;
    uint32_t units[]; /* of its segments, or NONE */
};

/* 96 bytes */
struct cat_entry {
    uint64_t path[2], version, size;
    /* lasting: mtime_ns for meta_file, 0 = must be verified; memory: offset in the arena */
    int64_t location;
    struct cat_use *use;
    uint32_t valid, pages; /* of a file that is split: pages are counted in its units */
    uint32_t crc0;
    uint32_t chain; /* next of the hash bucket, of the free list, of the file's units */
    uint32_t owner; /* unit: its file; file: the first of its units, or NONE */
    union {
        uint32_t seg;      /* unit */
        uint32_t reserved; /* file that is pinned: pages that it may take */
    };
    uint32_t born; /* order of first opens: the later of two versions is the newer one */
    struct s3f_unit unit;
    uint8_t kind, tier, flags;
    uint8_t loaded; /* file: the mark of the last load that asked for it; 0: none did */
};

struct cat_tier {
    struct catalogue_tier conf;
    uint64_t used;  /* pages: of entries, and reserved for what is on its way */
    uint64_t limit; /* pages: the quota, or less where the disk has no more to give */
    struct s3f queue;
    int64_t blocked_ns; /* no new bytes before that time */
};

struct catalogue {
    pthread_mutex_t mu;        /* a leaf; of all below */
    struct cat_entry **chunks; /* of ENTRY_CHUNK entries each: an entry never moves */
    uint32_t nentries, nchunks, free_entries;
    uint32_t *buckets, nbuckets, nfiles;
    uint64_t ncomplete, nwith_data;
    uint64_t pin_pages, npinned; /* pages that pins have reserved; files */
    uint32_t births;
    struct cat_tier tiers[CATALOGUE_TIERS];
    size_t ntiers;
};

static inline struct cat_entry *entry_at(const struct catalogue *cat, uint32_t id)
{
    return &cat->chunks[id / ENTRY_CHUNK][id % ENTRY_CHUNK];
}

/* catalogue_entry.c: mu is held */
int entry_rehash(struct catalogue *cat);                       /* -1: no memory */
uint32_t entry_new(struct catalogue *cat, enum cat_kind kind); /* NONE: no memory */
void entry_free(struct catalogue *cat, uint32_t id);
void entry_hash(struct catalogue *cat, uint32_t id);
void entry_unhash(struct catalogue *cat, uint32_t id);
/* A file of that path but `but`; version NULL: any. NONE if absent. */
uint32_t entry_find(
    const struct catalogue *cat, const uint64_t path[2], const uint64_t *version, uint32_t but);
uint64_t entry_key(const struct catalogue *cat, uint32_t id); /* for the queue's ghost */
struct meta_file entry_meta(const struct catalogue *cat, uint32_t id);
struct s3f *entry_queue(struct catalogue *cat, uint32_t id);
void entry_queue_init(struct catalogue *cat, struct cat_tier *t);
/* of its tier, by its pages; what is pinned is in no queue */
void entry_enqueue(struct catalogue *cat, uint32_t id);
uint32_t entry_nsegs(const struct cat_entry *s);
/* One more reference; false: no memory. */
bool entry_ref(struct catalogue *cat, uint32_t id);
bool entry_is_open(const struct cat_entry *s);
void entry_unuse(struct cat_entry *s); /* frees its use */
/* A unit for a segment of a file, of so many pages; NONE: no memory. `used` is the caller's. */
uint32_t entry_unit_new(struct catalogue *cat, uint32_t file, uint32_t seg, uint32_t pages);
void entry_unit_free(struct catalogue *cat, uint32_t id);
/* The units of a file become one again, put into no queue yet. */
void entry_join(struct catalogue *cat, uint32_t id);
/* false: that would be more than pins may take */
bool entry_pin(struct catalogue *cat, uint32_t id, uint64_t pages);
void entry_unpin(struct catalogue *cat, uint32_t id); /* no-op if it is not pinned */
uint64_t entry_pin_most(const struct catalogue *cat); /* pages that pins may take together */
int entry_lasting_tier(const struct catalogue *cat);  /* the fastest; -1: there is none */
/* Out of everything but the array and the tier's room; the caller's to recycle. */
void entry_remove(struct catalogue *cat, uint32_t id, struct catalogue_gone *gone);
/* The tier where an idle file had better be; -1: where it is. */
int entry_better_tier(const struct catalogue *cat, const struct cat_entry *s);

#endif
