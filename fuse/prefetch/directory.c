/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/prefetch/directory.h"

#include "fuse/cache/budget.h"
#include "fuse/file/cached.h"
#include "fuse/prefetch/small.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define THREADS 16
#define LEAST   8     /* files read: fewer say nothing */
#define SHARE   8     /* one of so many files was read */
#define SPARE   8     /* one part of so many of the cache stays free */
#define DIRS    4096u /* that are watched at once, a power of two */
#define PROBES  8u
#define QUEUE   1024u
#define BATCH   32
#define NICE    10    /* readers come first, where processors are short */
#define PAGE    4096u /* what the cache counts in */

struct seen {
    uint64_t dir;   /* 0: none */
    unsigned files; /* read that were not here, or cold */
};

struct may {
    bool fetch; /* into the cache */
    bool warm;  /* from its disk into memory */
};

struct sweep {
    struct inodes *inodes;
    struct tree *tree;
    struct cache *cache;
    uint64_t memory; /* bytes that we may use */
    pthread_mutex_t mu;
    pthread_cond_t work;
    struct seen *seen;         /* mu; DIRS, by hash */
    uint64_t queue[QUEUE];     /* mu; directories, a ring; the first is the one under way */
    unsigned first, n;         /* mu; of queue */
    uint64_t at;               /* mu; cookie of the last file taken from the first directory */
    struct inode batch[BATCH]; /* mu; taken */
    unsigned nbatch, next;     /* mu; how many, and which is the next one */
    struct may may;            /* mu; for this batch */
    uint64_t coming;           /* mu; bytes that are being brought in */
    pthread_t threads[THREADS];
    unsigned nthreads; /* mu */
    bool stop;         /* mu */
};

struct sweep *sweep_new(
    struct inodes *inodes, struct tree *tree, struct cache *cache, struct err *e)
{
    struct sweep *s = calloc(1, sizeof *s);
    struct seen *seen = calloc(DIRS, sizeof *seen);
    if (!s || !seen) {
        err_sys(e, ENOMEM, "prefetch of directories");
        free(s);
        free(seen);
        return NULL;
    }
    *s = (struct sweep){.inodes = inodes,
        .tree = tree,
        .cache = cache,
        .seen = seen,
        .memory = (uint64_t)budget_memory_limit("/")};
    pthread_mutex_init(&s->mu, NULL);
    pthread_cond_init(&s->work, NULL);
    return s;
}

void sweep_free(struct sweep *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->mu);
    s->stop = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->mu);
    for (unsigned i = 0; i < s->nthreads; i++)
        pthread_join(s->threads[i], NULL);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->mu);
    free(s->seen);
    free(s);
}

/* -- fetching -------------------------------------------------------------------------------- */

static int take(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    struct sweep *s = user;
    (void)name;
    if (s->nbatch == BATCH)
        return 1;
    s->at = cookie;
    if (prefetch_is_small(child))
        s->batch[s->nbatch++] = *child;
    return 0;
}

static void give_up(struct sweep *s) { s->n = s->nbatch = s->next = 0; }

static uint64_t room_of(const struct inode *n) { return (n->size + PAGE - 1) / PAGE * PAGE; }

/* What is there room for? Memory: where all that is cached fits twice, nothing goes out of it
 * before it was read. */
static struct may look_around(const struct sweep *s)
{
    struct cache_stats c;
    uint64_t bytes = s->coming;
    cache_stats(s->cache, &c);
    for (unsigned i = 0; i < s->nbatch; i++)
        bytes += room_of(&s->batch[i]);
    return (struct may){.fetch = !c.disk_full
            && c.used_bytes + bytes <= c.capacity_bytes - c.capacity_bytes / SPARE,
        .warm = c.used_bytes <= s->memory / 2};
}

/* False: there is nothing to do. mu is held. */
static bool next_file(struct sweep *s, struct inode *out, struct may *may)
{
    while (s->next == s->nbatch && s->n) {
        s->next = s->nbatch = 0;
        inodes_children(s->inodes, s->queue[s->first], s->at, false, take, s);
        s->may = look_around(s);
        if (!s->may.fetch && !s->may.warm) {
            give_up(s);
        } else if (!s->nbatch) {
            s->first = (s->first + 1) % QUEUE;
            s->n--;
            s->at = 0;
        }
    }
    if (s->next == s->nbatch)
        return false;
    *out = s->batch[s->next++];
    *may = s->may;
    return true;
}

static int bring(struct sweep *s, const struct inode *n, struct may may, struct err *e)
{
    int rc = 0;
    struct cache_file *f = file_cached(s->tree, s->cache, n, e);
    if (!f)
        return -1;
    if (!cache_complete(f))
        rc = may.fetch ? cache_fill(f, 0, n->size, e) : 0;
    else if (may.warm)
        cache_warm(f, 0, n->size);
    cache_close(f);
    return rc;
}

static void *run(void *arg)
{
    struct sweep *s = arg;
    struct inode n;
    struct may may;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    pthread_mutex_lock(&s->mu);
    while (!s->stop) {
        if (!next_file(s, &n, &may)) {
            pthread_cond_wait(&s->work, &s->mu);
            continue;
        }
        s->coming += room_of(&n);
        pthread_mutex_unlock(&s->mu);
        struct err e = ERR_INIT;
        int rc = bring(s, &n, may, &e);
        pthread_mutex_lock(&s->mu);
        s->coming -= room_of(&n);
        /* that file is gone, or another one by now */
        if (rc == 0 || e.cls == ERR_NOTFOUND || e.cls == ERR_CONFLICT)
            continue;
        log_kv(LOG_DEBUG, "the rest of a directory was not fetched", "error", e.msg, NULL);
        give_up(s);
    }
    pthread_mutex_unlock(&s->mu);
    return NULL;
}

/* -- readers --------------------------------------------------------------------------------- */

/* The directory's place; if there is none, that of the one that was read least. mu is held. */
static struct seen *find(struct sweep *s, uint64_t dir)
{
    struct seen *least = NULL;
    for (unsigned i = 0; i < PROBES; i++) {
        struct seen *at = &s->seen[(hash64_mix(dir, 0) + i) % DIRS];
        if (at->dir == dir)
            return at;
        if (!least || at->files < least->files)
            least = at;
    }
    *least = (struct seen){.dir = dir};
    return least;
}

static bool is_queued(const struct sweep *s, uint64_t dir)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->queue[(s->first + i) % QUEUE] == dir)
            return true;
    return false;
}

/* mu is held. */
static void enqueue(struct sweep *s, uint64_t dir)
{
    if (s->n == QUEUE || is_queued(s, dir))
        return;
    if (s->n == 0)
        s->at = 0;
    s->queue[(s->first + s->n++) % QUEUE] = dir;
    while (s->nthreads < THREADS && pthread_create(&s->threads[s->nthreads], NULL, run, s) == 0)
        s->nthreads++;
    pthread_cond_broadcast(&s->work);
}

void sweep_note(struct sweep *s, const struct inode *n)
{
    struct inode d;
    if (!prefetch_is_small(n))
        return;
    pthread_mutex_lock(&s->mu);
    struct seen *seen = find(s, n->parent);
    if (++seen->files >= LEAST && inodes_get(s->inodes, n->parent, &d) == 0
        && (d.flags & INODE_LISTED) && (uint64_t)seen->files * SHARE >= d.nchildren) {
        seen->files = 0;
        enqueue(s, d.ino);
    }
    pthread_mutex_unlock(&s->mu);
}
