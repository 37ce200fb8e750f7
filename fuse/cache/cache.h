/* cache — contents of object versions in blocks of 1 MiB on tiers of memory (tmpfs or anonymous memfd) and disk; the same in the client and in the worker.
 * A cached file is a sparse mirror: one file per object version, holes for what is missing, a bitmap of valid blocks with CRC32C
 * beside it. Survives restarts (blocks are verified when first read again), ENOSPC (stops caching, keeps serving) and
 * corruption (detected, refetched, never served). Threads: any. */
#ifndef MILLRACE_FUSE_CACHE_H
#define MILLRACE_FUSE_CACHE_H

#include "fuse/conf.h"
#include "lib/base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CACHE_BLOCK (1u << 20) /* bytes */

struct cache;      /* opaque */
struct cache_file; /* opaque: an open object version, refcounted */

struct cache_key {
    uint32_t mount;      /* index of the mount */
    const char *path;    /* relative to the mount */
    const char *version; /* store_stat.version */
    uint64_t size;
};

/* Where missing bytes come from: workers, store. Fills buf with exactly len bytes at off, or fails. */
struct cache_source {
    int (*fetch)(void *user, const struct cache_key *key, uint64_t off, size_t len, void *buf, const atomic_bool *cancel,
        struct err *e);
    void *user;
};

struct cache_conf {
    const char *dir;             /* for SSD/HDD tiers and for metadata; NULL: memory only */
    const struct conf_tier *tiers;
    size_t ntiers;
    const char *peer_dir;        /* another program's cache directory on this node, read only: complete files there are used as they are; NULL: none */
    int64_t buffer_budget;       /* bytes of read-ahead and fetch buffers; 0: from the cgroup's memory limit */
    unsigned fetch_threads;      /* 0: 16 */
    struct cache_source source;
};
struct cache *cache_new(const struct cache_conf *conf, struct err *e);
void cache_free(struct cache *c); /* all files closed before */

struct cache_file *cache_open(struct cache *c, const struct cache_key *key, struct err *e); /* no I/O to the source */
void cache_close(struct cache_file *f);
/* Up to len bytes at off (fewer only at the end of the object); single flight per block; sequential readers get a growing
 * read-ahead window over parallel fetches. -1: e, with CONFLICT/ESTALE when the version is gone from the store. */
ssize_t cache_read(struct cache_file *f, void *buf, size_t len, uint64_t off, struct err *e);
bool cache_complete(struct cache_file *f);
/* A read-only fd of the complete local copy on a real file system (for passthrough and sendfile), -1 if there is none. Caller closes.
 * The same inode is returned for the same version as long as the file stays open somewhere. */
int cache_complete_fd(struct cache_file *f);
int cache_prefetch(struct cache_file *f, uint64_t off, uint64_t len, struct err *e); /* queues; returns at once */
int cache_wait(struct cache_file *f, struct err *e);       /* until complete */
/* A file just written and uploaded becomes the cached copy of its new version without a download; the fd's content is linked or copied. */
int cache_adopt(struct cache *c, const struct cache_key *key, int fd, struct err *e);
void cache_drop(struct cache *c, const struct cache_key *key); /* `free`: forgets the bytes; open readers refetch */

struct cache_stats {
    uint64_t used_bytes, capacity_bytes, files, complete_files;
    uint64_t hit_bytes, fetched_bytes;         /* served from here; brought in from the source */
    uint64_t evicted_bytes, corrupt_blocks, full; /* full: times a tier had no room or ENOSPC */
};
void cache_stats(struct cache *c, struct cache_stats *out);

#endif
