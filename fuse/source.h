/* source — where the bytes come from that are not in this node's cache: the store of their mount. */
#ifndef MILLRACE_FUSE_SOURCE_H
#define MILLRACE_FUSE_SOURCE_H

#include "fuse/cache/cache.h"
#include "fuse/store/store.h"

struct source {
    struct store **stores;      /* one for each mount; borrowed */
    size_t nstores;
    _Atomic uint64_t store_bytes, worker_bytes;
};

int source_fetch(void *source, const struct cache_key *key, uint64_t off, size_t len, void *buf, const atomic_bool *cancel,
    struct err *e); /* a cache_source's .fetch */

#endif
