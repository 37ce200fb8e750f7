/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of prefetching share: directories of files in a store in memory, an index, a tree
 * and a cache above it, and a record of which files were fetched. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_PREFETCH_FIXTURE_H
#define MILLRACE_TESTS_UNIT_FUSE_PREFETCH_FIXTURE_H

#include "tests/lib/unit.h"

#include "fuse/cache/cache.h"
#include "fuse/tree/tree.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "tests/fake/store.h"
#include "tests/lib/eventually.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FX_FETCHES 4096

struct fx {
    char dir[64];
    struct fake_store *fake;
    struct store *store;
    struct conf_mount mount;
    struct conf_tier tier;
    struct conf conf;
    struct cache *cache;
    struct inodes *inodes;
    struct tree *tree;
    pthread_mutex_t mu;
    pthread_cond_t changed;
    char *fetched[FX_FETCHES]; /* mu; paths, in the order in which they came */
    unsigned nfetched;         /* mu */
    char fails[64];            /* mu; paths that begin so do, with … */
    enum err_class fail_cls;   /* mu */
    bool held;                 /* mu; what is fetched waits */
};

/* quota: of the cache, bytes. */
struct fx *fx_new(int64_t quota);
void fx_free(struct fx *x);

/* Makes files DIR/f000 … of that size, and lists the directory. */
void fx_files(struct fx *x, const char *dir, unsigned n, size_t size);
struct inode fx_inode(struct fx *x, const char *path);
struct inode fx_file(struct fx *x, const char *dir, unsigned i);
bool fx_is_cached(struct fx *x, const char *dir, unsigned i);
unsigned fx_fetched(struct fx *x); /* so many, so far */
bool fx_was_fetched(struct fx *x, const char *path);
void fx_hold(struct fx *x, bool held);
/* Nothing has been fetched for a while. */
void fx_settle(struct fx *x);

#endif
