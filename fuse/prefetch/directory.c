/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/prefetch/directory.h"

#include "fuse/cache/budget.h"
#include "fuse/file/cached.h"
#include "fuse/prefetch/small.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"
#include "lib/base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define MAX_THREADS     16
#define MIN_FILES_READ  8     /* fewer say nothing */
#define READ_FRACTION   8     /* one of so many files was read */
#define FREE_FRACTION   8     /* one part of so many of the cache stays free */
#define WATCHED_DIRS    4096u /* at once, a power of two */
#define PROBES          8u
#define MAX_QUEUED_DIRS 1024u
#define BATCH_FILES     32
#define NICE            10    /* readers come first, where processors are short */
#define PAGE_BYTES      4096u /* what the cache counts in */

struct watched_dir {
    uint64_t dir;   /* 0: none */
    unsigned files; /* read that were not here, or cold */
};

struct fetch_plan {
    bool fetch; /* into the cache */
    bool warm;  /* from its disk into memory */
};

struct directory_prefetch {
    struct inodes *inodes;
    struct tree *tree;
    struct cache *cache;
    uint64_t memory; /* bytes that we may use */
    pthread_mutex_t mu;
    struct watched_dir *watched;     /* mu; WATCHED_DIRS, by hash */
    uint64_t queue[MAX_QUEUED_DIRS]; /* mu; directories, a ring; the first is the one under way */
    unsigned first, n;               /* mu; of queue */
    uint64_t at; /* mu; cookie of the last file taken from the first directory */
    struct inode batch[BATCH_FILES]; /* mu; taken */
    unsigned nbatch, next;           /* mu; how many, and which is the next one */
    struct fetch_plan plan;          /* mu; for this batch */
    uint64_t coming_bytes;           /* mu; that are being fetched */
    struct pool *pool;
    unsigned nthreads; /* mu; of the pool, that fetch or are about to */
    bool stop;         /* mu */
};

struct directory_prefetch *directory_prefetch_new(
    struct inodes *inodes, struct tree *tree, struct cache *cache, struct err *e)
{
    struct directory_prefetch *s = calloc(1, sizeof *s);
    struct watched_dir *watched = calloc(WATCHED_DIRS, sizeof *watched);
    struct pool *pool = pool_new(&(struct pool_conf){"mr-directory", MAX_THREADS, 0, {0}});
    if (!s || !watched || !pool) {
        err_sys(e, ENOMEM, "prefetch of directories");
        if (pool)
            pool_free(pool);
        free(s);
        free(watched);
        return NULL;
    }
    *s = (struct directory_prefetch){.inodes = inodes,
        .tree = tree,
        .cache = cache,
        .watched = watched,
        .pool = pool,
        .memory = (uint64_t)budget_memory_limit("/")};
    pthread_mutex_init(&s->mu, NULL);
    return s;
}

void directory_prefetch_free(struct directory_prefetch *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->mu);
    s->stop = true;
    pthread_mutex_unlock(&s->mu);
    pool_free(s->pool);
    pthread_mutex_destroy(&s->mu);
    free(s->watched);
    free(s);
}

/* -- fetching -------------------------------------------------------------------------------- */

static int batch_add(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    struct directory_prefetch *s = user;
    (void)name;
    if (s->nbatch == BATCH_FILES)
        return 1;
    s->at = cookie;
    if (prefetch_is_small(child))
        s->batch[s->nbatch++] = *child;
    return 0;
}

static void drop_queue(struct directory_prefetch *s) { s->n = s->nbatch = s->next = 0; }

static uint64_t cache_room_of(const struct inode *n)
{
    return (n->size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* What is there room for? Memory: where all that is cached fits twice, nothing is evicted
 * from it before it was read. */
static struct fetch_plan plan_batch(const struct directory_prefetch *s)
{
    struct cache_stats c;
    uint64_t bytes = s->coming_bytes;
    cache_stats(s->cache, &c);
    for (unsigned i = 0; i < s->nbatch; i++)
        bytes += cache_room_of(&s->batch[i]);
    return (struct fetch_plan){.fetch = !c.disk_full
            && c.used_bytes + bytes <= c.capacity_bytes - c.capacity_bytes / FREE_FRACTION,
        .warm = c.used_bytes <= s->memory / 2};
}

/* False: there is nothing to do. */
static bool next_file(struct directory_prefetch *s, struct inode *out, struct fetch_plan *plan)
{
    mutex_assert_held(&s->mu);
    while (s->next == s->nbatch && s->n) {
        s->next = s->nbatch = 0;
        inodes_children(s->inodes, s->queue[s->first], s->at, false, batch_add, s);
        s->plan = plan_batch(s);
        if (!s->plan.fetch && !s->plan.warm) {
            drop_queue(s);
        } else if (!s->nbatch) {
            s->first = (s->first + 1) % MAX_QUEUED_DIRS;
            s->n--;
            s->at = 0;
        }
    }
    if (s->next == s->nbatch)
        return false;
    *out = s->batch[s->next++];
    *plan = s->plan;
    return true;
}

static int fetch_small(
    struct directory_prefetch *s, const struct inode *n, struct fetch_plan plan, struct err *e)
{
    int rc = 0;
    struct cache_file *f = file_cached(s->tree, s->cache, n, e);
    if (!f)
        return -1;
    if (!cache_complete(f))
        rc = plan.fetch ? cache_fill(f, 0, n->size, e) : 0;
    else if (plan.warm)
        cache_warm(f, 0, n->size);
    cache_close(f);
    return rc;
}

/* A job of the pool: fetches until there is nothing to fetch. */
static void fetch_queued(void *user)
{
    struct directory_prefetch *s = user;
    struct inode n;
    struct fetch_plan plan;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    pthread_mutex_lock(&s->mu);
    while (!s->stop && next_file(s, &n, &plan)) {
        s->coming_bytes += cache_room_of(&n);
        pthread_mutex_unlock(&s->mu);
        struct err e = ERR_INIT;
        int rc = fetch_small(s, &n, plan, &e);
        pthread_mutex_lock(&s->mu);
        s->coming_bytes -= cache_room_of(&n);
        /* that file is gone, or another one by now */
        if (rc == 0 || e.cls == ERR_NOTFOUND || e.cls == ERR_CONFLICT)
            continue;
        log_kv(LOG_DEBUG, "the rest of a directory was not fetched", "error", e.msg, NULL);
        drop_queue(s);
    }
    s->nthreads--;
    pthread_mutex_unlock(&s->mu);
}

/* -- readers --------------------------------------------------------------------------------- */

/* The directory's entry, in place of the one that was read least if it has none. */
static struct watched_dir *find_watched(struct directory_prefetch *s, uint64_t dir)
{
    mutex_assert_held(&s->mu);
    struct watched_dir *least = NULL;
    for (unsigned i = 0; i < PROBES; i++) {
        struct watched_dir *at = &s->watched[(hash64_mix(dir, 0) + i) % WATCHED_DIRS];
        if (at->dir == dir)
            return at;
        if (!least || at->files < least->files)
            least = at;
    }
    *least = (struct watched_dir){.dir = dir};
    return least;
}

static bool is_dir_queued(const struct directory_prefetch *s, uint64_t dir)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->queue[(s->first + i) % MAX_QUEUED_DIRS] == dir)
            return true;
    return false;
}

static void enqueue_dir(struct directory_prefetch *s, uint64_t dir)
{
    mutex_assert_held(&s->mu);
    if (s->n == MAX_QUEUED_DIRS || is_dir_queued(s, dir))
        return;
    if (s->n == 0)
        s->at = 0;
    s->queue[(s->first + s->n++) % MAX_QUEUED_DIRS] = dir;
    while (s->nthreads < MAX_THREADS && pool_add(s->pool, 0, fetch_queued, s) == 0)
        s->nthreads++;
}

void directory_prefetch_observe(struct directory_prefetch *s, const struct inode *n)
{
    struct inode d;
    if (!prefetch_is_small(n))
        return;
    pthread_mutex_lock(&s->mu);
    struct watched_dir *watched = find_watched(s, n->parent);
    if (++watched->files >= MIN_FILES_READ && inodes_get(s->inodes, n->parent, &d) == 0
        && (d.flags & INODE_LISTED) && (uint64_t)watched->files * READ_FRACTION >= d.nchildren) {
        watched->files = 0;
        enqueue_dir(s, d.ino);
    }
    pthread_mutex_unlock(&s->mu);
}
