/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/prefetch/hint.h"

#include "fuse/cache/budget.h"
#include "fuse/file/read.h"
#include "fuse/prefetch/hint_list.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"
#include "lib/base/pool.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS     32
#define MAX_LISTS       64
#define FORGET_AFTER_NS (3600 * NS_PER_S) /* without a reader that follows it */
#define AHEAD_MAX_BYTES (256u << 20)
#define AHEAD_MIN_BYTES (2u << 20)
#define PIECE_BYTES     (8u << 20) /* a file's lock is held for one at a time */
#define ENTRY_BYTES     20         /* of memory, see hint_list.h */
#define ENTRIES_MIN     (1u << 20)

struct list_use { /* a list and its users */
    struct hint_list *list;
    unsigned users;   /* mu: threads that fetch an entry of it */
    bool dropped;     /* mu */
    int64_t used_ns;  /* mu: when a reader last followed it */
    bool logged;      /* mu: its end was logged */
    uint64_t missing; /* mu */
};

struct hints {
    struct files *files; /* borrowed */
    char *dir;
    uint64_t max_ahead, max_entries; /* bytes ahead of a reader; entries of all lists */
    pthread_mutex_t adding;
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool resume, began;                /* began: mu; the lists of the process before are here */
    struct list_use *lists[MAX_LISTS]; /* mu */
    unsigned n, turn;                  /* mu */
    atomic_uint active;                /* n, to be read without mu */
    _Atomic uint64_t last;             /* inode that was read latest */
    struct pool *pool;
    unsigned nthreads; /* mu; of the pool, that fetch or are about to */
    atomic_bool stop;
    struct hints_stats stats; /* mu */
};

static void resume_lists(void *user);

struct hints *hints_new(struct files *files, const char *dir, bool resume, struct err *e)
{
    struct hints *h = calloc(1, sizeof *h);
    if (!h || !(h->pool = pool_new(&(struct pool_conf){"mr-hint", MAX_THREADS, 0, {0}}))) {
        err_sys(e, ENOMEM, "lists of hints");
        free(h);
        return NULL;
    }
    h->files = files;
    h->dir = path_join(dir, "hints");
    struct cache_stats c;
    cache_stats(files_config(files)->cache, &c);
    /* A twentieth of the cache: new files wait in a tenth of it, so nothing that is next is
     * evicted before it was read. */
    h->max_ahead = MIN(
        MAX(MIN(c.capacity_bytes / 20, (uint64_t)AHEAD_MAX_BYTES), (uint64_t)AHEAD_MIN_BYTES),
        MAX(c.capacity_bytes / 4, UINT64_C(1) << 20));
    h->max_entries = MAX(
        (uint64_t)budget_memory_limit("/") / 16 / ENTRY_BYTES, (uint64_t)ENTRIES_MIN);
    pthread_mutex_init(&h->adding, NULL);
    pthread_mutex_init(&h->mu, NULL);
    clock_cond_init(&h->changed);
    h->resume = resume;
    /* a long list takes a while, and readers wait for this process */
    if (pool_add(h->pool, 0, resume_lists, h))
        resume_lists(h);
    return h;
}

static void list_use_free(struct list_use *s)
{
    hint_list_free(s->list);
    free(s);
}

void hints_free(struct hints *h)
{
    if (!h)
        return;
    atomic_store(&h->stop, true);
    pool_free(h->pool);
    for (unsigned i = 0; i < h->n; i++)
        list_use_free(h->lists[i]);
    pthread_mutex_destroy(&h->adding);
    pthread_mutex_destroy(&h->mu);
    pthread_cond_destroy(&h->changed);
    free(h->dir);
    free(h);
}

/* -- fetching ----------------------------------------------------------------------------- */

/* hints.mu is held. */
static void list_use_put(struct list_use *s)
{
    if (--s->users == 0 && s->dropped)
        list_use_free(s);
}

/* Out of the table; freed by its last user. */
static void list_use_drop(struct hints *h, unsigned at)
{
    mutex_assert_held(&h->mu);
    struct list_use *s = h->lists[at];
    h->lists[at] = h->lists[--h->n];
    atomic_store(&h->active, h->n);
    hint_list_remove(s->list);
    s->dropped = true;
    s->users++;
    list_use_put(s);
}

static int find_path(struct hints *h, uint64_t dir, char *path, struct inode *n, struct err *e)
{
    char *rest = path, *name;
    n->ino = dir;
    while ((name = strsep(&rest, "/")))
        if (tree_lookup(files_config(h->files)->tree, n->ino, name, n, e))
            return -1;
    return 0;
}

/* By pieces: a writer of the file need not wait for all of it. */
static int fetch_hinted(
    struct hints *h, const struct list_use *s, uint64_t ino, uint64_t len, struct err *e)
{
    struct file *f = files_get(h->files, ino, e);
    int rc = f ? 0 : -1;
    for (uint64_t off = 0; rc == 0 && off < len && !atomic_load(&h->stop); off += PIECE_BYTES) {
        rc = file_fill(f, off, MIN(len - off, (uint64_t)PIECE_BYTES), e);
        pthread_mutex_lock(&h->mu);
        if (rc == 0)
            h->stats.bytes += MIN(len - off, (uint64_t)PIECE_BYTES);
        bool go_on = !s->dropped;
        pthread_mutex_unlock(&h->mu);
        if (!go_on)
            break;
    }
    if (f)
        files_put(f);
    return rc;
}

static void fetch_entries(void *user);

/* So many threads more see whether there is something to fetch. -1: there is none that could. */
static int wake_threads(struct hints *h, unsigned n)
{
    mutex_assert_held(&h->mu);
    for (; n && h->nthreads < MAX_THREADS && !atomic_load(&h->stop); n--) {
        if (pool_add(h->pool, 0, fetch_entries, h))
            return h->nthreads ? 0 : -1;
        h->nthreads++;
    }
    return 0;
}

static void note_missing(struct hints *h, struct list_use *s, const char *path)
{
    h->stats.missing++;
    if (s->missing++ == 0)
        snprintf(h->stats.first_missing, sizeof h->stats.first_missing, "%.255s", path);
}

static void fetch_entry(struct hints *h, struct list_use *s, const struct hint_entry *entry)
{
    char path[INODE_PATH_MAX], parts[INODE_PATH_MAX];
    struct err e = ERR_INIT;
    struct inode n = {0};
    int rc = hint_list_path(s->list, entry, path)
        ? err_set(&e, ERR_FATAL, "a list of hints cannot be read again")
        : 0;
    if (rc == 0) {
        memcpy(parts, path, sizeof parts);
        rc = find_path(h, hint_list_base(s->list), parts, &n, &e);
    }
    bool missing = rc ? err_errno(&e) == ENOENT || err_errno(&e) == ENOTDIR
                      : (n.flags & INODE_DIR) != 0;
    pthread_mutex_lock(&h->mu);
    uint64_t len = hint_list_weigh(s->list, entry->index, missing || rc ? 0 : n.size, h->max_ahead);
    if (missing)
        note_missing(h, s, path);
    wake_threads(h, 1); /* it may be smaller than it counted so far */
    pthread_mutex_unlock(&h->mu);
    if (!missing && rc == 0 && !(n.flags & INODE_STAGED))
        rc = fetch_hinted(h, s, n.ino, len, &e);
    pthread_mutex_lock(&h->mu);
    h->stats.done++;
    if (rc && !missing && err_errno(&e) != ESTALE)
        h->stats.failed++;
    pthread_mutex_unlock(&h->mu);
    if (rc && !missing)
        log_kv(LOG_DEBUG, "a hinted file was not fetched", "path", path, "error", e.msg, NULL);
}

/* Looks at all lists, each in its turn. */
static struct list_use *next_entry(struct hints *h, struct hint_entry *entry)
{
    mutex_assert_held(&h->mu);
    for (unsigned i = 0; i < h->n; i++) {
        struct list_use *s = h->lists[(h->turn + i) % h->n];
        if (!hint_list_next(s->list, h->max_ahead, entry))
            continue;
        h->turn = (h->turn + i + 1) % h->n;
        s->users++;
        return s;
    }
    return NULL;
}

/* A job of the pool: fetches until there is nothing to fetch. */
static void fetch_entries(void *user)
{
    struct hints *h = user;
    struct hint_entry entry;
    struct list_use *s;
    pthread_mutex_lock(&h->mu);
    while (!atomic_load(&h->stop) && (s = next_entry(h, &entry))) {
        pthread_mutex_unlock(&h->mu);
        fetch_entry(h, s, &entry);
        pthread_mutex_lock(&h->mu);
        list_use_put(s);
    }
    h->nthreads--;
    pthread_mutex_unlock(&h->mu);
}

/* -- lists ----------------------------------------------------------------------------------- */

/* Drops lists that were read to their end, or that no reader follows. */
static void forget_old_lists(struct hints *h)
{
    mutex_assert_held(&h->mu);
    int64_t now = clock_mono_ns();
    unsigned oldest = 0;
    for (unsigned i = h->n; i-- > 0;) {
        struct hint_list_stats ls;
        hint_list_stats(h->lists[i]->list, &ls);
        if ((ls.passed >= ls.entries && h->lists[i]->logged)
            || now - h->lists[i]->used_ns > FORGET_AFTER_NS)
            list_use_drop(h, i);
    }
    for (unsigned i = 1; i < h->n; i++)
        if (h->lists[i]->used_ns < h->lists[oldest]->used_ns)
            oldest = i;
    if (h->n == MAX_LISTS)
        list_use_drop(h, oldest);
}

static uint64_t entries_left(struct hints *h);

static struct list_use *list_use_add(struct hints *h, struct hint_list *l, struct err *e)
{
    struct list_use *s = calloc(1, sizeof *s);
    if (!s) {
        err_sys(e, ENOMEM, "a list of hints");
        hint_list_free(l);
        return NULL;
    }
    s->list = l;
    pthread_mutex_lock(&h->mu);
    h->lists[h->n++] = s;
    atomic_store(&h->active, h->n);
    pthread_mutex_unlock(&h->mu);
    return s;
}

/* A job goes on reading when the process that served it is replaced; its lists go on, too. Numbers
 * of directories are those of the index: without resume they mean nothing. */
static void resume_lists(void *user)
{
    struct hints *h = user;
    struct inodes *ix = files_config(h->files)->inodes;
    DIR *d = opendir(h->dir);
    for (struct dirent *de; d && !atomic_load(&h->stop) && (de = readdir(d));) {
        uint64_t id, base;
        int end = 0;
        struct inode dir;
        struct err e = ERR_INIT;
        if (sscanf(de->d_name, "%16" SCNx64 "-%16" SCNx64 "%n", &id, &base, &end) != 2
            || de->d_name[end])
            continue;
        struct hint_list *l = h->resume && h->n < MAX_LISTS && !inodes_get(ix, base, &dir)
                && (dir.flags & INODE_DIR)
            ? hint_list_resume(id, base, h->dir, entries_left(h), &e)
            : NULL;
        struct list_use *s = l ? list_use_add(h, l, &e) : NULL;
        if (!s) {
            unlinkat(dirfd(d), de->d_name, 0);
            continue;
        }
        struct hint_list_stats ls;
        pthread_mutex_lock(&h->mu);
        hint_list_stats(l, &ls);
        h->stats.entries += ls.entries;
        s->used_ns = clock_mono_ns();
        pthread_mutex_unlock(&h->mu);
    }
    if (d)
        closedir(d);
    pthread_mutex_lock(&h->mu);
    h->began = true;
    pthread_cond_broadcast(&h->changed);
    if (h->n && wake_threads(h, MAX_THREADS))
        log_warn("there are no threads for lists of hints");
    pthread_mutex_unlock(&h->mu);
}

/* The list with that number, a new one if there is none. adding is held, so it stays. */
static struct list_use *list_use_get(struct hints *h, uint64_t id, uint64_t dir, struct err *e)
{
    pthread_mutex_lock(&h->mu);
    struct list_use *s = NULL;
    for (unsigned i = 0; i < h->n && !s; i++)
        if (hint_list_id(h->lists[i]->list) == id && hint_list_base(h->lists[i]->list) == dir)
            s = h->lists[i];
    if (!s)
        forget_old_lists(h);
    if (s)
        s->users++;
    pthread_mutex_unlock(&h->mu);
    if (s)
        return s;
    struct hint_list *l = file_mkdirs(h->dir, 0700, e) ? NULL : hint_list_new(id, dir, h->dir, e);
    if (!l || !(s = list_use_add(h, l, e)))
        return NULL;
    pthread_mutex_lock(&h->mu);
    s->users++;
    pthread_mutex_unlock(&h->mu);
    return s;
}

static uint64_t entries_left(struct hints *h)
{
    uint64_t used = 0;
    pthread_mutex_lock(&h->mu);
    for (unsigned i = 0; i < h->n; i++) {
        struct hint_list_stats ls;
        hint_list_stats(h->lists[i]->list, &ls);
        used += ls.entries;
    }
    pthread_mutex_unlock(&h->mu);
    return used < h->max_entries ? h->max_entries - used : 0;
}

static int publish_text(struct hints *h, struct list_use *s, struct err *e)
{
    struct hint_list_stats before, after;
    pthread_mutex_lock(&h->mu);
    hint_list_stats(s->list, &before);
    int rc = hint_list_publish(s->list, e);
    hint_list_stats(s->list, &after);
    h->stats.entries += after.entries - before.entries;
    h->stats.refused += after.bad - before.bad;
    s->used_ns = clock_mono_ns();
    s->logged = false;
    list_use_put(s);
    if (wake_threads(h, MAX_THREADS) && rc == 0)
        rc = err_sys(e, EAGAIN, "start a thread for hints");
    pthread_mutex_unlock(&h->mu);
    return rc;
}

int hints_add(struct hints *h, uint64_t dir, const struct hint_msg *msg, struct err *e)
{
    struct inode d;
    if (msg->len > sizeof msg->text || msg->unused)
        return err_sys(e, EINVAL, "a list of hints");
    if (inodes_get(files_config(h->files)->inodes, dir, &d) || !(d.flags & INODE_DIR))
        return err_sys(e, ENOTDIR, "a list of hints");
    pthread_mutex_lock(&h->mu);
    while (!h->began)
        pthread_cond_wait(&h->changed, &h->mu);
    pthread_mutex_unlock(&h->mu);
    pthread_mutex_lock(&h->adding);
    struct list_use *s = list_use_get(h, msg->list, dir, e);
    int rc = s ? hint_list_write(s->list, msg->text, msg->len, entries_left(h), e) : -1;
    if (s && publish_text(h, s, rc ? NULL : e))
        rc = -1;
    pthread_mutex_unlock(&h->adding);
    return rc;
}

/* -- readers --------------------------------------------------------------------------------- */

static void list_followed(struct hints *h, struct list_use *s)
{
    mutex_assert_held(&h->mu);
    struct hint_list_stats ls;
    s->used_ns = clock_mono_ns();
    h->stats.followed++;
    wake_threads(h, 1);
    hint_list_stats(s->list, &ls);
    if (ls.passed < ls.entries || s->logged)
        return;
    char entries[24], missing[24], bad[24];
    snprintf(entries, sizeof entries, "%llu", (unsigned long long)ls.entries);
    snprintf(missing, sizeof missing, "%llu", (unsigned long long)s->missing);
    snprintf(bad, sizeof bad, "%llu", (unsigned long long)ls.bad);
    s->logged = true;
    log_kv(ls.bad + s->missing ? LOG_WARN : LOG_INFO, "a hinted list was read to its end",
        "entries", entries, "missing", missing, "no paths", bad, NULL);
}

void hints_seen(struct hints *h, uint64_t ino)
{
    if (!atomic_load_explicit(&h->active, memory_order_relaxed)
        || atomic_exchange(&h->last, ino) == ino)
        return;
    char path[INODE_PATH_MAX];
    bool expected = false;
    pthread_mutex_lock(&h->mu);
    /* The list that expected the file has it; if none did, each of them may learn where its reader
     * is. */
    for (int far = 0; far < 2 && !expected; far++) {
        uint64_t base = 0;
        bool below = false;
        for (unsigned i = 0; i < h->n && !expected; i++) {
            struct list_use *s = h->lists[i];
            if (hint_list_base(s->list) != base) {
                base = hint_list_base(s->list);
                below = inodes_path_below(files_config(h->files)->inodes, ino, base, path);
            }
            if (below && hint_list_seen(s->list, path, !far) == HINT_NEAR) {
                list_followed(h, s);
                expected = true;
            }
        }
    }
    if (!expected && h->n)
        wake_threads(h, 1);
    pthread_mutex_unlock(&h->mu);
}

void hints_stats(struct hints *h, struct hints_stats *out)
{
    pthread_mutex_lock(&h->mu);
    *out = h->stats;
    out->lists = h->n;
    pthread_mutex_unlock(&h->mu);
}
