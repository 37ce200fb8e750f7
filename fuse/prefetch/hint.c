/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/prefetch/hint.h"

#include "fuse/cache/budget.h"
#include "fuse/file/read.h"
#include "fuse/ops/fs.h"
#include "fuse/prefetch/hint_list.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS     32
#define LISTS       64
#define IDLE_NS     (3600 * NS_PER_S)
#define AHEAD_MAX   (256u << 20)
#define AHEAD_MIN   (2u << 20)
#define PIECE       (8u << 20) /* a file's lock is held that long */
#define ENTRY_COST  20         /* bytes of memory, see hint_list.h */
#define ENTRIES_MIN (1u << 20)

struct slot { /* a list and who uses it */
    struct hint_list *list;
    unsigned users;   /* mu: threads that bring an entry in */
    bool dropped;     /* mu */
    int64_t used_ns;  /* mu: when it last came on */
    bool told;        /* mu: its end was logged */
    uint64_t missing; /* mu */
};

struct hints {
    struct fs *fs;
    char *dir;
    uint64_t most, room_all; /* bytes ahead of a reader; entries of all lists */
    pthread_mutex_t adding;
    pthread_mutex_t mu;
    pthread_cond_t work;
    struct slot *slots[LISTS]; /* mu */
    unsigned n, turn;          /* mu */
    atomic_uint active;        /* n, for those who only want to know whether there are any */
    _Atomic uint64_t last;     /* inode that was seen latest */
    pthread_t threads[THREADS];
    unsigned nthreads; /* adding */
    atomic_bool stop;
    struct hints_stats stats; /* mu */
};

struct hints *hints_new(struct fs *fs, const char *dir)
{
    struct hints *h = xcalloc(1, sizeof *h);
    h->fs = fs;
    h->dir = xstrdup(dir);
    struct cache_stats c;
    cache_stats(files_config(fs->files)->cache, &c);
    /* A twentieth of the cache: new files wait in a tenth of it, so nothing that is next goes
     * before it was read. */
    h->most = MIN(MAX(MIN(c.capacity_bytes / 20, (uint64_t)AHEAD_MAX), (uint64_t)AHEAD_MIN),
        MAX(c.capacity_bytes / 4, UINT64_C(1) << 20));
    h->room_all = MAX((uint64_t)budget_memory_limit("/") / 16 / ENTRY_COST, (uint64_t)ENTRIES_MIN);
    pthread_mutex_init(&h->adding, NULL);
    pthread_mutex_init(&h->mu, NULL);
    pthread_cond_init(&h->work, NULL);
    return h;
}

static void slot_free(struct slot *s)
{
    hint_list_free(s->list);
    free(s);
}

void hints_free(struct hints *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->mu);
    atomic_store(&h->stop, true);
    pthread_cond_broadcast(&h->work);
    pthread_mutex_unlock(&h->mu);
    for (unsigned i = 0; i < h->nthreads; i++)
        pthread_join(h->threads[i], NULL);
    for (unsigned i = 0; i < h->n; i++)
        slot_free(h->slots[i]);
    pthread_mutex_destroy(&h->adding);
    pthread_mutex_destroy(&h->mu);
    pthread_cond_destroy(&h->work);
    free(h->dir);
    free(h);
}

/* -- bringing in ----------------------------------------------------------------------------- */

/* mu is held. */
static void put_slot(struct slot *s)
{
    if (--s->users == 0 && s->dropped)
        slot_free(s);
}

/* Out of the table; freed by its last user. mu is held. */
static void drop(struct hints *h, unsigned at)
{
    struct slot *s = h->slots[at];
    h->slots[at] = h->slots[--h->n];
    atomic_store(&h->active, h->n);
    s->dropped = true;
    s->users++;
    put_slot(s);
}

static int look_up(struct hints *h, uint64_t dir, char *path, struct inode *n, struct err *e)
{
    char *rest = path, *name;
    n->ino = dir;
    while ((name = strsep(&rest, "/")))
        if (tree_lookup(h->fs->tree, n->ino, name, n, e))
            return -1;
    return 0;
}

/* By pieces: who wants to write to the file need not wait for all of it. */
static int make_ready(
    struct hints *h, const struct slot *s, uint64_t ino, uint64_t len, struct err *e)
{
    struct file *f = files_get(h->fs->files, ino, e);
    int rc = f ? 0 : -1;
    for (uint64_t off = 0; rc == 0 && off < len && !atomic_load(&h->stop); off += PIECE) {
        rc = file_fill(f, off, MIN(len - off, (uint64_t)PIECE), e);
        pthread_mutex_lock(&h->mu);
        if (rc == 0)
            h->stats.bytes += MIN(len - off, (uint64_t)PIECE);
        bool go_on = !s->dropped;
        pthread_mutex_unlock(&h->mu);
        if (!go_on)
            break;
    }
    if (f)
        files_put(f);
    return rc;
}

static void note_missing(struct hints *h, struct slot *s, const char *path)
{
    h->stats.missing++;
    if (s->missing++ == 0)
        snprintf(h->stats.first_missing, sizeof h->stats.first_missing, "%.255s", path);
}

static void bring_in(struct hints *h, struct slot *s, const struct hint_entry *entry)
{
    char path[INODE_PATH_MAX], parts[INODE_PATH_MAX];
    struct err e = ERR_INIT;
    struct inode n = {0};
    int rc = hint_list_path(s->list, entry, path)
        ? err_set(&e, ERR_FATAL, "a list of hints cannot be read again")
        : 0;
    if (rc == 0) {
        memcpy(parts, path, sizeof parts);
        rc = look_up(h, hint_list_base(s->list), parts, &n, &e);
    }
    bool missing = rc ? err_errno(&e) == ENOENT || err_errno(&e) == ENOTDIR
                      : (n.flags & INODE_DIR) != 0;
    pthread_mutex_lock(&h->mu);
    uint64_t len = hint_list_weigh(s->list, entry->index, missing || rc ? 0 : n.size, h->most);
    if (missing)
        note_missing(h, s, path);
    pthread_cond_signal(&h->work); /* it may be smaller than it counted so far */
    pthread_mutex_unlock(&h->mu);
    if (!missing && rc == 0 && !(n.flags & INODE_STAGED))
        rc = make_ready(h, s, n.ino, len, &e);
    pthread_mutex_lock(&h->mu);
    h->stats.done++;
    if (rc && !missing && err_errno(&e) != ESTALE)
        h->stats.failed++;
    pthread_mutex_unlock(&h->mu);
    if (rc && !missing)
        log_kv(LOG_DEBUG, "a hinted file was not brought in", "path", path, "error", e.msg, NULL);
}

/* Looks at all lists, each in its turn. mu is held. */
static struct slot *next_entry(struct hints *h, struct hint_entry *entry)
{
    for (unsigned i = 0; i < h->n; i++) {
        struct slot *s = h->slots[(h->turn + i) % h->n];
        if (!hint_list_next(s->list, h->most, entry))
            continue;
        h->turn = (h->turn + i + 1) % h->n;
        s->users++;
        return s;
    }
    return NULL;
}

static void *run(void *arg)
{
    struct hints *h = arg;
    struct hint_entry entry;
    pthread_mutex_lock(&h->mu);
    while (!atomic_load(&h->stop)) {
        struct slot *s = next_entry(h, &entry);
        if (!s) {
            pthread_cond_wait(&h->work, &h->mu);
            continue;
        }
        pthread_mutex_unlock(&h->mu);
        bring_in(h, s, &entry);
        pthread_mutex_lock(&h->mu);
        put_slot(s);
    }
    pthread_mutex_unlock(&h->mu);
    return NULL;
}

/* -- lists ----------------------------------------------------------------------------------- */

/* Lists that were read to their end, or that nobody follows. mu is held. */
static void forget_old(struct hints *h)
{
    int64_t now = clock_mono_ns();
    unsigned oldest = 0;
    for (unsigned i = h->n; i-- > 0;) {
        struct hint_list_stats ls;
        hint_list_stats(h->slots[i]->list, &ls);
        if ((ls.passed >= ls.entries && h->slots[i]->told) || now - h->slots[i]->used_ns > IDLE_NS)
            drop(h, i);
    }
    for (unsigned i = 1; i < h->n; i++)
        if (h->slots[i]->used_ns < h->slots[oldest]->used_ns)
            oldest = i;
    if (h->n == LISTS)
        drop(h, oldest);
}

/* The list with that number, a new one if there is none. adding is held, so it stays. */
static struct slot *get_slot(struct hints *h, uint64_t id, uint64_t dir, struct err *e)
{
    pthread_mutex_lock(&h->mu);
    struct slot *s = NULL;
    for (unsigned i = 0; i < h->n && !s; i++)
        if (hint_list_id(h->slots[i]->list) == id && hint_list_base(h->slots[i]->list) == dir)
            s = h->slots[i];
    if (!s)
        forget_old(h);
    if (s)
        s->users++;
    pthread_mutex_unlock(&h->mu);
    if (s)
        return s;
    struct hint_list *l = hint_list_new(id, dir, h->dir, e);
    s = l ? calloc(1, sizeof *s) : NULL;
    if (!s) {
        if (l)
            err_sys(e, ENOMEM, "a list of hints");
        hint_list_free(l);
        return NULL;
    }
    s->list = l;
    s->users = 1;
    pthread_mutex_lock(&h->mu);
    h->slots[h->n++] = s;
    atomic_store(&h->active, h->n);
    pthread_mutex_unlock(&h->mu);
    return s;
}

static uint64_t room_left(struct hints *h)
{
    uint64_t used = 0;
    pthread_mutex_lock(&h->mu);
    for (unsigned i = 0; i < h->n; i++) {
        struct hint_list_stats ls;
        hint_list_stats(h->slots[i]->list, &ls);
        used += ls.entries;
    }
    pthread_mutex_unlock(&h->mu);
    return used < h->room_all ? h->room_all - used : 0;
}

static int publish(struct hints *h, struct slot *s, struct err *e)
{
    struct hint_list_stats before, after;
    pthread_mutex_lock(&h->mu);
    hint_list_stats(s->list, &before);
    int rc = hint_list_publish(s->list, e);
    hint_list_stats(s->list, &after);
    h->stats.entries += after.entries - before.entries;
    h->stats.refused += after.bad - before.bad;
    s->used_ns = clock_mono_ns();
    s->told = false;
    put_slot(s);
    pthread_cond_broadcast(&h->work);
    pthread_mutex_unlock(&h->mu);
    return rc;
}

int hints_add(struct hints *h, uint64_t dir, const struct hint_msg *msg, struct err *e)
{
    struct inode d;
    if (msg->len > sizeof msg->text || msg->unused)
        return err_sys(e, EINVAL, "a list of hints");
    if (inodes_get(h->fs->inodes, dir, &d) || !(d.flags & INODE_DIR))
        return err_sys(e, ENOTDIR, "a list of hints");
    pthread_mutex_lock(&h->adding);
    struct slot *s = get_slot(h, msg->list, dir, e);
    int rc = s ? hint_list_write(s->list, msg->text, msg->len, room_left(h), e) : -1;
    if (s && publish(h, s, rc ? NULL : e))
        rc = -1;
    while (rc == 0 && h->nthreads < THREADS
        && pthread_create(&h->threads[h->nthreads], NULL, run, h) == 0)
        h->nthreads++;
    if (rc == 0 && h->nthreads == 0)
        rc = err_sys(e, EAGAIN, "start a thread for hints");
    pthread_mutex_unlock(&h->adding);
    return rc;
}

/* -- readers --------------------------------------------------------------------------------- */

/* mu is held. */
static void came_on(struct hints *h, struct slot *s)
{
    struct hint_list_stats ls;
    s->used_ns = clock_mono_ns();
    h->stats.followed++;
    pthread_cond_signal(&h->work);
    hint_list_stats(s->list, &ls);
    if (ls.passed < ls.entries || s->told)
        return;
    char entries[24], missing[24], bad[24];
    snprintf(entries, sizeof entries, "%llu", (unsigned long long)ls.entries);
    snprintf(missing, sizeof missing, "%llu", (unsigned long long)s->missing);
    snprintf(bad, sizeof bad, "%llu", (unsigned long long)ls.bad);
    s->told = true;
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
    /* Whose turn it was takes it for himself; else it may tell all of them where their readers are.
     */
    for (int far = 0; far < 2 && !expected; far++) {
        uint64_t base = 0;
        bool below = false;
        for (unsigned i = 0; i < h->n && !expected; i++) {
            struct slot *s = h->slots[i];
            if (hint_list_base(s->list) != base) {
                base = hint_list_base(s->list);
                below = inodes_path_below(h->fs->inodes, ino, base, path);
            }
            if (below && hint_list_seen(s->list, path, !far) == HINT_NEAR) {
                came_on(h, s);
                expected = true;
            }
        }
    }
    if (!expected && h->n)
        pthread_cond_signal(&h->work);
    pthread_mutex_unlock(&h->mu);
}

void hints_stats(struct hints *h, struct hints_stats *out)
{
    pthread_mutex_lock(&h->mu);
    *out = h->stats;
    out->lists = h->n;
    pthread_mutex_unlock(&h->mu);
}
