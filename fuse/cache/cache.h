/* SPDX-License-Identifier: Apache-2.0 */
/* cache — contents of object versions in blocks of 1 MiB on tiers of memory (tmpfs or anonymous
 * memfd) and disk; the same in the client and in the worker. A cached file is a sparse mirror: one
 * file per object version, holes for what is missing, a bitmap of valid blocks with CRC32C beside
 * it. Survives restarts (blocks are verified when first read again), ENOSPC (stops caching, keeps
 * serving) and corruption (detected, refetched, not served): after a crash, by another program, and
 * by a bad disk where cache_read gives a whole block. A reader of the file itself, like the kernel,
 * sees what such a disk makes of it until it is scrubbed. Threads: any. */
#ifndef MILLRACE_FUSE_CACHE_CACHE_H
#define MILLRACE_FUSE_CACHE_CACHE_H

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/sink.h"
#include "lib/conf/conf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CACHE_BLOCK    (1u << 20) /* bytes */
#define CACHE_PART     ((size_t)8 << 20)
#define CACHE_PART_MAX ((size_t)32 << 20)
#define CACHE_SCRUB_NS (25 * NS_PER_S)

struct cache;      /* opaque */
struct cache_file; /* opaque: an open object version, refcounted */

struct cache_key {
    /* index of the mount, passed on to the source; cache_conf.mounts names the store */
    uint32_t mount;
    const char *path;    /* relative to the mount */
    const char *version; /* store_stat.version */
    uint64_t size;
};

struct cache_sink {
    sink_fn take;
    void *user;
    /* the source says where the bytes come from that it is about to give: 0 or 1, see cache_stall
     */
    unsigned origin;
    bool is_ahead; /* nobody waits for it: a source that does not answer is to be spared */
};
/* Where missing bytes come from: workers, store. Gives exactly len bytes at off to the sink, in
 * order, each once and from one thread at a time, or fails; what it gave before stays good. RETRY
 * (sys ECANCELED): the sink takes no more. */
struct cache_source {
    int (*fetch)(void *user, const struct cache_key *key, uint64_t off, size_t len,
        struct cache_sink *sink, const atomic_bool *cancel, struct err *e);
    void *user;
    /* Bytes that one request for a file of that mount should have where many are wanted, up to
     * CACHE_PART_MAX; 0, or NULL: CACHE_PART. Asked when a file is opened. */
    size_t (*part)(void *user, uint32_t mount);
};

struct cache_conf {
    const char *dir; /* for SSD/HDD tiers and for metadata; NULL: memory only */
    const struct conf_tier *tiers;
    size_t ntiers; /* at most one of each medium, fastest first */
    /* which store each mount is, so that kept bytes are not taken for another store's after the
     * mounts changed; read by cache_new only; NULL: the index alone */
    const struct conf_mount *mounts;
    size_t nmounts;
    /* bytes of read-ahead and fetch buffers; 0: from the cgroup's memory limit */
    int64_t buffer_budget;
    unsigned fetch_threads; /* 0: 16 */
    /* readers have a page cache of their own (FUSE without passthrough): what was read to its end
     * from a disk tier, and was written a while ago, does not stay in ours as well */
    bool drop_behind;
    struct cache_source source;
    /* so often what is in use on disk tiers is read again and compared with its checksums, by at
     * most 2 % of a processor and 32 MiB/s of disk; all else once an hour at most; 0: never */
    int64_t scrub_ns;
    /* percent of the disk of a tier that is left to others: the cache stops growing there, and
     * shrinks for what they write; 0: none */
    unsigned keep_free;
    /* called by opens and reads before they wait for a disk or the source */
    void (*will_block)(void);
};
/* Called once a second, by a thread of the cache's, while a disk has less free space than it is to
 * keep: files that are open without being read had better be closed, what is open is not evicted.
 * NULL: no more; returns when no call is under way. */
void cache_on_short(struct cache *c, void (*fn)(void *user), void *user);
/* Bytes that may be written to the disk of a directory until so many thousandths of it are left
 * (and half of that of its inodes); negative: so many are missing. INT64_MAX: it does not tell. */
int64_t cache_disk_room(const char *dir, unsigned permille);
/* Bytes that it gives back to writers as they come to need them, on the disk of that directory. */
uint64_t cache_gives(struct cache *c, const char *dir);
/* A writer waits for room on a disk of the cache: looks at it now, and gives back what it can. */
void cache_want_room(struct cache *c);
/* A directory is used by one program at a time: CONFLICT if another holds it. */
struct cache *cache_new(const struct cache_conf *conf, struct err *e);
/* From now on fetches fail soon: those that run, and those of what is not here; so that threads
 * that wait for them can be joined. */
void cache_cancel(struct cache *c);
void cache_free(struct cache *c); /* all files closed before; waits for what is being fetched */

/* No I/O to the source. As soon as bytes of this version came, other versions of the same path are
 * dropped (their open readers keep what they have). */
struct cache_file *cache_open(struct cache *c, const struct cache_key *key, struct err *e);
void cache_close(struct cache_file *f);
/* Up to len bytes at off (fewer only at the end of the object); single flight per block; sequential
 * readers get a growing read-ahead window over parallel fetches. -1: e, with CONFLICT/ESTALE when
 * the version is gone from the store. */
ssize_t cache_read(struct cache_file *f, void *buf, size_t len, uint64_t off, struct err *e);
/* How long this thread's reads waited since it asked last: for the data files of disk tiers, and
 * for the source. */
struct cache_stall {
    int64_t disk_ns, source_ns[2]; /* by cache_sink.origin */
};
void cache_stall(struct cache_stall *out);
bool cache_complete(struct cache_file *f);
uint64_t cache_size(const struct cache_file *f); /* of the object, bytes */
/* when it was opened, the kernel had to look for it on the disk */
bool cache_is_cold(struct cache_file *f);
/* bytes of that range that are here */
uint64_t cache_cached(struct cache_file *f, uint64_t off, uint64_t len);
/* An fd of the complete local copy, to read from (passthrough, sendfile); -1 if there is none, or
 * none yet: what a restart left is verified first. Caller closes. The same inode is returned for
 * the same version as long as the file stays open somewhere; a complete copy is never changed in
 * place but by bytes that are the same, so the fd stays right for ever. */
int cache_complete_fd(struct cache_file *f);
/* Is it in a memory tier, and not in a file of the cache's directory? It may move at any time. */
bool cache_in_memory(struct cache_file *f);
/* Part of a file as a range of a local file, for sendfile and splice: fetched if missing, verified,
 * and safe from eviction until cache_release_span. Nothing is read ahead. */
struct cache_span {
    int fd;       /* borrowed until cache_release_span */
    uint64_t off; /* in fd */
    size_t len;   /* at least 1, at most what was asked for (less at a 64 MiB boundary) */
    /* as they are stored, of the block (CACHE_BLOCK) that has the first byte, and of those behind
     */
    const uint32_t *crcs;
    void *seg, *object; /* the cache's */
};
/* 1: span is filled. 0: the bytes can't be kept here (no room): use cache_read. -1: e, as
 * cache_read. */
int cache_hold_span(
    struct cache_file *f, uint64_t off, size_t len, struct cache_span *span, struct err *e);
/* before cache_close of its file or after: either is fine */
void cache_release_span(struct cache_span *span);
/* queues; returns at once */
int cache_prefetch(struct cache_file *f, uint64_t off, uint64_t len, struct err *e);
/* Fetches that range and returns when it is here; EXHAUSTED if the tiers can't hold it. */
int cache_fill(struct cache_file *f, uint64_t off, uint64_t len, struct err *e);
/* Reads what of that range is on a disk tier into the page cache, in the background. */
void cache_warm(struct cache_file *f, uint64_t off, uint64_t len);
/* A file just written and uploaded becomes the cached copy of its new version without a download;
 * the fd's content is linked or copied, and must not change afterwards. */
int cache_adopt(struct cache *c, const struct cache_key *key, int fd, struct err *e);
/* Forgets the bytes, pinned or not, of any version if key->version is NULL. A complete copy that is
 * open goes when its last reader closes. */
void cache_drop(struct cache *c, const struct cache_key *key);
/* Pins: what is here of a file, and what comes of it later, is spared by eviction, whatever else is
 * read, also after a restart (where the bytes are in memory, and there is no disk, they end with
 * the process). A pin is of a version: it goes with it, as soon as bytes of another one come. */
/* Opens the file and pins it; nothing is fetched. To be filled through that handle, as a pin
 * without any bytes ends with its last handle. What is in memory goes to disk first, or is
 * forgotten if it is incomplete or large: the caller should have no other handle of it. EXHAUSTED
 * (ENOSPC): with all of that range, pins would take more than half of the cache. */
struct cache_file *cache_pin(
    struct cache *c, const struct cache_key *key, uint64_t off, uint64_t len, struct err *e);
bool cache_is_pinned(struct cache_file *f);
void cache_unpin(struct cache *c, const struct cache_key *key); /* any version of the path */
uint64_t cache_unpin_all(struct cache *c);                      /* how many were pinned */
/* Marks: evicted bytes of files that have one are counted apart. It ends with the process, and when
 * nothing is left of the file. */
void cache_mark_loaded(struct cache_file *f, uint8_t mark); /* not 0 */
void cache_forget_loaded(struct cache *c, uint8_t but);     /* all other marks end */

struct cache_stats {
    uint64_t used_bytes, capacity_bytes, files, complete_files;
    /* room that pinned files have, and may have together at most */
    uint64_t pinned_bytes, pinned_most, pinned_files;
    /* served without being fetched for that reader; fetched from the source */
    uint64_t hit_bytes, fetched_bytes;
    uint64_t evicted_bytes, evicted_loaded_bytes; /* of all; of files with a mark */
    uint64_t corrupt_blocks, full;                /* full: times a tier had no room or ENOSPC */
    uint64_t moved_bytes;                         /* between tiers, up or down */
    uint64_t scrubbed_bytes, rotten_blocks;       /* rotten: found so, and corrupt, too */
    /* set aside for fetches now, and at most so far; what goes straight to a tier needs less */
    uint64_t buffer_bytes, buffer_peak;
    /* lately: a tier on disk had no room although its quota is not used up */
    bool disk_full;
};
void cache_stats(struct cache *c, struct cache_stats *out);
/* For people, while .disk_full. */
#define CACHE_FULL_MESSAGE                                                  \
    "the disk of the cache directory is full, or has only the space left "  \
    "that is kept free: what is read is not cached, or replaces what was; " \
    "make room on the node or lower spec.cache.tiers[].quota"

#endif
