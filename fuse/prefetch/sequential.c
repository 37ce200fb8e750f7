/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/prefetch/sequential.h"

#include "fuse/file/cached.h"
#include "fuse/prefetch/small.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"
#include "lib/base/task.h"

#include <errno.h>
#include <stdlib.h>

#define STREAMS        8
#define MAX_SKIP       4   /* files that a reader may pass over and still be in order … */
#define MAX_BEHIND     64  /* … or come late by, from another thread of it */
#define MIN_RUN        2   /* files in order before the next ones are fetched */
#define WINDOW_MIN     8   /* files of a stream's first batch */
#define WINDOW_MAX     128 /* files ahead of a reader */
#define BATCH_FILES    32  /* taken from the index at a time */
#define CACHE_FRACTION 20  /* one part of so many of the cache may be ahead of a reader */
#define MAX_EMPTY_DIRS 2   /* in a row without small files: there is nothing to do here */

/* One reader in one directory. */
struct stream {
    uint64_t dir;         /* 0: none */
    uint32_t seq;         /* of the file read last, in the listing's order */
    unsigned run;         /* files in order so far */
    unsigned window, out; /* how many to have ahead; how many there are */
    uint64_t out_bytes;   /* of them */
    /* where fetching is: a directory, and the cookie of the last one asked for */
    uint64_t at_dir, at;
    uint64_t stamp;
    unsigned empty_dirs; /* in a row, see MAX_EMPTY_DIRS */
    bool wanted;         /* there is something to do */
};

struct sequential_prefetch {
    struct inodes *inodes;
    struct tree *tree;
    struct cache *cache;
    uint64_t max_bytes; /* ahead of one reader, unless it is one file */
    struct task task;   /* waits with mu */
    pthread_mutex_t mu;
    struct stream streams[STREAMS]; /* mu */
    uint64_t clock;                 /* mu */
};

static struct stream *find_stream(struct sequential_prefetch *w, uint64_t dir)
{
    mutex_assert_held(&w->mu);
    struct stream *oldest = &w->streams[0];
    for (int i = 0; i < STREAMS; i++) {
        struct stream *s = &w->streams[i];
        if (s->dir == dir || (s->at_dir == dir && s->run >= MIN_RUN))
            return s;
        if (s->stamp < oldest->stamp)
            oldest = s;
    }
    *oldest = (struct stream){.dir = 0};
    return oldest;
}

/* Follows the reader. w->mu is held. */
static void follow_reader(struct stream *s, const struct inode *n)
{
    uint32_t seq = (uint32_t)(n->cookie >> 32);
    if (s->dir != n->parent) { /* a new one, or it came to where we are already */
        bool followed = s->dir && s->at_dir == n->parent;
        *s = followed ? *s : (struct stream){.window = WINDOW_MIN};
        s->dir = n->parent;
        s->seq = seq;
        s->run = followed ? s->run + 1 : 0;
        return;
    }
    if (seq > s->seq && seq - s->seq <= MAX_SKIP) {
        s->seq = seq;
        s->run++;
    } else if (seq > s->seq || s->seq - seq > MAX_BEHIND) {
        *s = (struct stream){.dir = n->parent, .seq = seq, .window = WINDOW_MIN};
    }
}

static bool has_room_ahead(const struct sequential_prefetch *w, const struct stream *s)
{
    return s->out <= s->window / 2 && s->out_bytes <= w->max_bytes / 2;
}

void sequential_prefetch_observe(struct sequential_prefetch *w, const struct inode *n, bool here)
{
    bool wake = false;
    if (!prefetch_is_small(n))
        return;
    pthread_mutex_lock(&w->mu);
    struct stream *s = find_stream(w, n->parent);
    follow_reader(s, n);
    s->stamp = ++w->clock;
    if (s->out)
        s->out--;
    s->out_bytes = s->out && s->out_bytes > n->size ? s->out_bytes - n->size : 0;
    if (s->run == MIN_RUN && !s->at_dir) {
        s->at_dir = n->parent;
        s->at = n->cookie;
    }
    /* a reader that finds everything in the cache needs no prefetch */
    if (s->run >= MIN_RUN && (!here || s->out) && has_room_ahead(w, s) && !s->wanted)
        wake = s->wanted = true;
    if (wake)
        task_wake(&w->task);
    pthread_mutex_unlock(&w->mu);
}

/* -- fetching -------------------------------------------------------------------------------- */

struct batch {
    struct inode files[BATCH_FILES];
    unsigned n, max;
    uint64_t bytes, max_bytes;
    uint64_t at; /* cookie of the last one looked at */
};

static int add_to_batch(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    struct batch *b = user;
    (void)name;
    bool small = prefetch_is_small(child);
    if (b->n == b->max || (small && b->n && b->bytes + child->size > b->max_bytes))
        return 1;
    b->at = cookie;
    if (small) {
        b->files[b->n++] = *child;
        b->bytes += child->size;
    }
    return 0;
}

static int stop_at_dir(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    (void)name;
    (void)cookie;
    if (!(child->flags & INODE_DIR))
        return 0;
    *(uint64_t *)user = child->ino;
    return 1;
}

/* The directory after this one, with its names known; 0: none. */
static uint64_t next_dir(struct sequential_prefetch *w, uint64_t dir)
{
    struct inode d;
    struct err e = ERR_INIT;
    uint64_t next = 0;
    if (dir == INODE_ROOT || inodes_get(w->inodes, dir, &d))
        return 0;
    inodes_children(w->inodes, d.parent, d.cookie, false, stop_at_dir, &next);
    if (next && tree_fill_all(w->tree, next, &e)) {
        log_kv(LOG_DEBUG, "the next directory cannot be listed ahead", "error", e.msg, NULL);
        return 0;
    }
    return next;
}

/* True if it has to come from elsewhere. */
static bool prefetch_file(struct sequential_prefetch *w, const struct inode *n)
{
    struct err e = ERR_INIT;
    struct cache_file *f = file_cached(w->tree, w->cache, n, &e);
    if (!f)
        return false;
    bool missing = !cache_complete(f);
    if (missing)
        cache_prefetch(f, 0, n->size, &e);
    cache_close(f);
    return missing;
}

/* Up to a batch for this stream. w->mu is held on entry and on return, not in between. */
static void fetch_batch(struct sequential_prefetch *w, struct stream *s)
{
    mutex_assert_held(&w->mu);
    struct stream was = *s;
    struct batch b = {
        .max = MIN(was.window > was.out ? was.window - was.out : 0, (unsigned)BATCH_FILES),
        .at = was.at,
        .max_bytes = w->max_bytes - MIN(was.out_bytes, w->max_bytes)};
    unsigned missing = 0;
    pthread_mutex_unlock(&w->mu);
    inodes_children(w->inodes, was.at_dir, was.at, false, add_to_batch, &b);
    for (unsigned i = 0; i < b.n; i++)
        missing += prefetch_file(w, &b.files[i]);
    uint64_t dir = b.n ? was.at_dir : next_dir(w, was.at_dir);
    pthread_mutex_lock(&w->mu);
    if (s->at_dir != was.at_dir || s->at != was.at)
        return; /* another stream has taken its place */
    s->at = dir == was.at_dir ? b.at : 0;
    s->at_dir = dir;
    s->out += b.n;
    s->out_bytes += b.bytes;
    s->window = MIN(s->window * 2, (unsigned)WINDOW_MAX);
    s->wanted = dir && has_room_ahead(w, s);
    s->empty_dirs = b.n ? 0 : s->empty_dirs + 1;
    /* at the end of all, or all of it is here already */
    if (!dir || s->empty_dirs > MAX_EMPTY_DIRS || (b.n >= WINDOW_MIN / 2 && missing == 0))
        *s = (struct stream){.dir = s->dir, .seq = s->seq, .window = WINDOW_MIN, .stamp = s->stamp};
    else if (dir != was.at_dir)
        s->wanted = true;
}

static void sequential_thread(void *user)
{
    struct sequential_prefetch *w = user;
    pthread_mutex_lock(&w->mu);
    for (int i = 0; !atomic_load(&w->task.stop);) {
        if (i == STREAMS) {
            task_wait(&w->task, TASK_FOREVER);
            i = 0;
        } else if (w->streams[i].wanted) {
            fetch_batch(w, &w->streams[i]);
            i = 0;
        } else {
            i++;
        }
    }
    pthread_mutex_unlock(&w->mu);
}

struct sequential_prefetch *sequential_prefetch_start(
    struct inodes *inodes, struct tree *tree, struct cache *cache, struct err *e)
{
    struct sequential_prefetch *w = calloc(1, sizeof *w);
    if (!w) {
        err_sys(e, ENOMEM, "prefetch of directories");
        return NULL;
    }
    struct cache_stats c;
    cache_stats(cache, &c);
    w->max_bytes = c.capacity_bytes / CACHE_FRACTION;
    w->inodes = inodes;
    w->tree = tree;
    w->cache = cache;
    pthread_mutex_init(&w->mu, NULL);
    if (task_start_with(&w->task, &w->mu, "mr-sequential", sequential_thread, w, e)) {
        pthread_mutex_destroy(&w->mu);
        free(w);
        return NULL;
    }
    return w;
}

void sequential_prefetch_stop(struct sequential_prefetch *w)
{
    if (!w)
        return;
    task_stop(&w->task);
    pthread_mutex_destroy(&w->mu);
    free(w);
}
