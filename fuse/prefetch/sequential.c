/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/prefetch/sequential.h"

#include "fuse/file/cached.h"
#include "fuse/prefetch/small.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define STREAMS 8
/* so many files may be passed over, or come a little late from other threads … */
#define NEAR  4
#define LATE  64  /* … and this many, at most, are no news */
#define SURE  2   /* files in order before the next ones are fetched */
#define FIRST 8   /* of a stream's first batch */
#define MOST  128 /* files ahead of a reader */
#define BATCH 32  /* taken from the index at a time */
#define SHARE 20  /* of the cache: what may be ahead of a reader */
/* directories in a row without small files: there is nothing to do here */
#define BARREN 2

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
    unsigned barren; /* directories without anything to fetch since the last that had it */
    bool wanted;     /* there is something to do */
};

struct walk {
    struct inodes *inodes;
    struct tree *tree;
    struct cache *cache;
    uint64_t most_bytes; /* ahead of one reader, unless it is one file */
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t wake;
    struct stream streams[STREAMS]; /* mu */
    uint64_t clock;                 /* mu */
    bool stop;                      /* mu */
};

/* w->mu is held. */
static struct stream *find(struct walk *w, uint64_t dir)
{
    struct stream *oldest = &w->streams[0];
    for (int i = 0; i < STREAMS; i++) {
        struct stream *s = &w->streams[i];
        if (s->dir == dir || (s->at_dir == dir && s->run >= SURE))
            return s;
        if (s->stamp < oldest->stamp)
            oldest = s;
    }
    *oldest = (struct stream){.dir = 0};
    return oldest;
}

/* Follows the reader. w->mu is held. */
static void advance(struct stream *s, const struct inode *n)
{
    uint32_t seq = (uint32_t)(n->cookie >> 32);
    if (s->dir != n->parent) { /* a new one, or it came to where we are already */
        bool followed = s->dir && s->at_dir == n->parent;
        *s = followed ? *s : (struct stream){.window = FIRST};
        s->dir = n->parent;
        s->seq = seq;
        s->run = followed ? s->run + 1 : 0;
        return;
    }
    if (seq > s->seq && seq - s->seq <= NEAR) {
        s->seq = seq;
        s->run++;
    } else if (seq > s->seq || s->seq - seq > LATE) {
        *s = (struct stream){.dir = n->parent, .seq = seq, .window = FIRST};
    }
}

static bool has_room(const struct walk *w, const struct stream *s)
{
    return s->out <= s->window / 2 && s->out_bytes <= w->most_bytes / 2;
}

void walk_note(struct walk *w, const struct inode *n, bool here)
{
    bool wake = false;
    if (!prefetch_is_small(n))
        return;
    pthread_mutex_lock(&w->mu);
    struct stream *s = find(w, n->parent);
    advance(s, n);
    s->stamp = ++w->clock;
    if (s->out)
        s->out--;
    s->out_bytes = s->out && s->out_bytes > n->size ? s->out_bytes - n->size : 0;
    if (s->run == SURE && !s->at_dir) {
        s->at_dir = n->parent;
        s->at = n->cookie;
    }
    /* a reader who finds everything needs nobody to fetch it */
    if (s->run >= SURE && (!here || s->out) && has_room(w, s) && !s->wanted)
        wake = s->wanted = true;
    pthread_mutex_unlock(&w->mu);
    if (wake)
        pthread_cond_signal(&w->wake);
}

/* -- fetching -------------------------------------------------------------------------------- */

struct batch {
    struct inode files[BATCH];
    unsigned n, most;
    uint64_t bytes, most_bytes;
    uint64_t at; /* cookie of the last one looked at */
};

static int take(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    struct batch *b = user;
    (void)name;
    bool small = prefetch_is_small(child);
    if (b->n == b->most || (small && b->n && b->bytes + child->size > b->most_bytes))
        return 1;
    b->at = cookie;
    if (small) {
        b->files[b->n++] = *child;
        b->bytes += child->size;
    }
    return 0;
}

static int take_dir(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    (void)name;
    (void)cookie;
    if (!(child->flags & INODE_DIR))
        return 0;
    *(uint64_t *)user = child->ino;
    return 1;
}

/* The directory after this one, with its names known; 0: none. */
static uint64_t next_dir(struct walk *w, uint64_t dir)
{
    struct inode d;
    struct err e = ERR_INIT;
    uint64_t next = 0;
    if (dir == INODE_ROOT || inodes_get(w->inodes, dir, &d))
        return 0;
    inodes_children(w->inodes, d.parent, d.cookie, false, take_dir, &next);
    if (next && tree_fill_all(w->tree, next, &e)) {
        log_kv(LOG_DEBUG, "the next directory cannot be listed ahead", "error", e.msg, NULL);
        return 0;
    }
    return next;
}

/* True if it has to come from elsewhere. */
static bool fetch(struct walk *w, const struct inode *n)
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
static void work(struct walk *w, struct stream *s)
{
    struct stream was = *s;
    struct batch b = {.most = MIN(was.window > was.out ? was.window - was.out : 0, (unsigned)BATCH),
        .at = was.at,
        .most_bytes = w->most_bytes - MIN(was.out_bytes, w->most_bytes)};
    unsigned missing = 0;
    pthread_mutex_unlock(&w->mu);
    inodes_children(w->inodes, was.at_dir, was.at, false, take, &b);
    for (unsigned i = 0; i < b.n; i++)
        missing += fetch(w, &b.files[i]);
    uint64_t dir = b.n ? was.at_dir : next_dir(w, was.at_dir);
    pthread_mutex_lock(&w->mu);
    if (s->at_dir != was.at_dir || s->at != was.at)
        return; /* another stream has taken its place */
    s->at = dir == was.at_dir ? b.at : 0;
    s->at_dir = dir;
    s->out += b.n;
    s->out_bytes += b.bytes;
    s->window = MIN(s->window * 2, (unsigned)MOST);
    s->wanted = dir && has_room(w, s);
    s->barren = b.n ? 0 : s->barren + 1;
    /* at the end of all, or all of it is here already */
    if (!dir || s->barren > BARREN || (b.n >= FIRST / 2 && missing == 0))
        *s = (struct stream){.dir = s->dir, .seq = s->seq, .window = FIRST, .stamp = s->stamp};
    else if (dir != was.at_dir)
        s->wanted = true;
}

static void *run(void *arg)
{
    struct walk *w = arg;
    pthread_mutex_lock(&w->mu);
    while (!w->stop) {
        struct stream *s = NULL;
        for (int i = 0; i < STREAMS && !s; i++)
            s = w->streams[i].wanted ? &w->streams[i] : NULL;
        if (s)
            work(w, s);
        else
            pthread_cond_wait(&w->wake, &w->mu);
    }
    pthread_mutex_unlock(&w->mu);
    return NULL;
}

struct walk *walk_start(
    struct inodes *inodes, struct tree *tree, struct cache *cache, struct err *e)
{
    struct walk *w = calloc(1, sizeof *w);
    if (!w) {
        err_sys(e, ENOMEM, "prefetch of directories");
        return NULL;
    }
    struct cache_stats c;
    cache_stats(cache, &c);
    w->most_bytes = c.capacity_bytes / SHARE;
    w->inodes = inodes;
    w->tree = tree;
    w->cache = cache;
    pthread_mutex_init(&w->mu, NULL);
    pthread_cond_init(&w->wake, NULL);
    int rc = pthread_create(&w->thread, NULL, run, w);
    if (rc == 0)
        return w;
    err_sys(e, rc, "start a thread");
    free(w);
    return NULL;
}

void walk_stop(struct walk *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->mu);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mu);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->mu);
    free(w);
}
