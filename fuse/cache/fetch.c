/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A fetch is named by its node's list while it is queued, running, or until its bytes have landed;
 * readers that wait for it or copy from it hold a ref each. */

#define LONG_NS NS_PER_S /* who waited so long in vain … */
/* … speaks for those who ask as soon as this: the kernel does, of a page that it could not read
 * ahead */
#define LATELY_NS NS_PER_S

__thread unsigned fetch_origin;

/* Bytes of the budget for blocks of a file: what is in the last one, and not a whole block of a
 * small file. */
static int64_t weight(const struct node *n, uint32_t first, uint32_t count)
{
    return (int64_t)(count - 1) * CACHE_BLOCK
        + (int64_t)to_pages(block_len(n, first + count - 1)) * PAGE;
}

static bool covers(const struct fetch *f, uint32_t block)
{
    return block >= f->first && block < f->first + f->count;
}

struct fetch *fetch_of(struct node *n, uint32_t block)
{
    for (struct fetch *f = n->fetches; f; f = f->next)
        if (covers(f, block))
            return f;
    return NULL;
}

static void unlist(struct fetch *f)
{
    for (struct fetch **at = &f->n->fetches; *at; at = &(*at)->next)
        if (*at == f) {
            *at = f->next;
            f->listed = false;
            return;
        }
}

static void put_locked(struct fetch *f) /* n->mu is held on entry, not on return */
{
    struct node *n = f->n;
    bool last = --f->refs == 0;
    pthread_mutex_unlock(&n->mu);
    if (!last)
        return;
    budget_buffer_put(&n->c->budget, f->buf, f->len);
    budget_release(&n->c->budget, f->reserved);
    free(f->err);
    free(f);
    node_put(n);
}

static void put(struct fetch *f)
{
    pthread_mutex_lock(&f->n->mu);
    put_locked(f);
}

/* A listed fetch with one ref for the list; n->mu is held. The budget is the caller's. */
static struct fetch *make(struct node *n, uint32_t first, uint32_t count, int64_t reserved)
{
    struct fetch *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->n = n;
    f->first = first;
    f->count = count;
    f->refs = 1;
    f->reserved = reserved;
    f->listed = true;
    f->next = n->fetches;
    n->fetches = f;
    node_ref(n);
    return f;
}

/* -- landing --------------------------------------------------------------------------------- */

void fetch_trim_held(struct cache *c, int64_t max_bytes, int64_t before_ns)
{
    for (;;) {
        pthread_mutex_lock(&c->mu);
        struct fetch *f = c->held;
        if (!f || (c->held_bytes <= max_bytes && f->held_ns > before_ns)) {
            pthread_mutex_unlock(&c->mu);
            return;
        }
        c->held = f->held_next;
        if (!c->held)
            c->held_tail = &c->held;
        c->held_bytes -= (int64_t)f->len;
        pthread_mutex_unlock(&c->mu);
        pthread_mutex_lock(&f->n->mu);
        unlist(f);
        put_locked(f);
    }
}

/* No tier takes it: the buffer serves its readers for a moment. The list's ref is now cache.held's.
 */
static void hold(struct fetch *f)
{
    struct cache *c = f->n->c;
    pthread_mutex_lock(&c->mu);
    f->held_next = NULL;
    f->held_ns = clock_mono_ns();
    *c->held_tail = f;
    c->held_tail = &f->held_next;
    c->held_bytes += (int64_t)f->len;
    pthread_mutex_unlock(&c->mu);
    fetch_trim_held(c, MAX(c->budget.limit / 2, INT64_C(8) << 20), 0);
}

/* Takes over one ref. */
static void land(void *arg)
{
    struct fetch *f = arg;
    struct node *n = f->n;
    pthread_mutex_lock(&n->mu);
    bool wanted = f->wanted;
    pthread_mutex_unlock(&n->mu);
    bool all = true;
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t block = f->first + i;
        if (block_land(
                n, block, f->buf + (size_t)i * CACHE_BLOCK, wanted ? LAND_WRITE : LAND_FRESH))
            all = false;
        else if (atomic_load(&f->finished) & (1u << i)) /* while we wrote */
            atomic_fetch_and(&node_seg(n, block)->fresh, ~block_bit(block));
    }
    pthread_mutex_lock(&n->mu);
    bool listed = f->listed;
    f->kept = !all;
    if (all && listed) {
        unlist(f);
        f->refs--; /* the list's; ours is still there */
    }
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->mu);
    if (!all && listed)
        hold(f);
    put(f);
}

/* -- getting the bytes ----------------------------------------------------------------------- */

static size_t bytes_of(const struct fetch *f)
{
    return (size_t)(f->count - 1) * CACHE_BLOCK + block_len(f->n, f->first + f->count - 1);
}

static int ask_source(struct fetch *f, struct cache_sink *sink, struct err *e)
{
    struct node *n = f->n;
    struct cache *c = n->c;
    struct cache_key key = {n->mount, n->path, n->version, n->id.size};
    f->len = bytes_of(f);
    return c->source.fetch(
        c->source.user, &key, (uint64_t)f->first * CACHE_BLOCK, f->len, sink, &c->cancel, e);
}

/* Into the buffer, for a reader who waits, or as no tier takes it. */
static int get_bytes(struct fetch *f, struct err *e)
{
    struct node *n = f->n;
    struct cache *c = n->c;
    size_t len = bytes_of(f);
    f->buf = budget_buffer(&c->budget, len);
    if (!f->buf)
        return err_sys(e, ENOMEM, "read %s", n->path);
    struct sink_memory memory = {f->buf, len};
    struct cache_sink sink = {.take = sink_to_memory, .user = &memory};
    if (ask_source(f, &sink, e))
        return -1;
    pthread_mutex_lock(&n->mu);
    f->origin = sink.origin & 1;
    pthread_mutex_unlock(&n->mu);
    atomic_fetch_add(&c->fetched_bytes, len);
    return 0;
}

/* Straight to a tier, in the pieces that the source gives: they are in the processor's cache then,
 * and need no memory of ours. */
struct streaming {
    struct fetch *f;
    struct cache_sink sink;
    struct landing at; /* of the block that is being written */
    bool open;         /* there is one */
    bool refused;      /* no tier took it */
    uint32_t landed;   /* blocks */
};

static int land_block(struct streaming *st)
{
    struct fetch *f = st->f;
    pthread_mutex_lock(&f->n->mu);
    f->origin = st->sink.origin & 1;
    bool wanted = f->wanted;
    pthread_mutex_unlock(&f->n->mu);
    uint32_t len = st->at.len;
    st->open = false;
    if (landing_end(&st->at, !wanted))
        return -1;
    st->landed++;
    atomic_fetch_add(&f->n->c->fetched_bytes, len);
    return 0;
}

static int take_piece(void *user, const void *data, size_t len)
{
    struct streaming *st = user;
    for (const char *p = data; len;) {
        st->refused = !st->open
            && (st->landed == st->f->count
                || landing_begin(&st->at, st->f->n, st->f->first + st->landed));
        if (st->refused)
            return -1;
        st->open = true;
        size_t piece = MIN(len, (size_t)(st->at.len - st->at.done));
        int rc = landing_write(&st->at, p, piece);
        p += piece;
        len -= piece;
        st->refused = (rc || st->at.done == st->at.len) && land_block(st);
        if (st->refused)
            return -1;
    }
    return 0;
}

/* 0: all of it is in the cache; 1: what is left of it, if no tier takes more; -1: e. */
static int stream(struct fetch *f, struct err *e)
{
    struct node *n = f->n;
    struct streaming st = {.f = f, .sink = {.take = take_piece, .user = &st}};
    if (landing_begin(&st.at, n, f->first))
        return 1;
    st.open = true;
    int rc = ask_source(f, &st.sink, e);
    if (st.open)
        landing_end(&st.at, false);
    if (!st.refused)
        return rc;
    pthread_mutex_lock(&n->mu);
    f->first += st.landed;
    f->count -= st.landed;
    pthread_mutex_unlock(&n->mu);
    *e = (struct err)ERR_INIT;
    return 1;
}

/* Runs a fetch whose state is FETCH_RUNNING; the caller has a ref of its own. -1: e, and those who
 * wait know. */
static int run(struct fetch *f, struct err *e)
{
    struct node *n = f->n;
    struct cache *c = n->c;
    struct err why = ERR_INIT;
    int64_t began = clock_mono_ns();
    int rc = f->demand ? 1 : stream(f, &why);
    bool landed = rc == 0;
    if (rc == 1)
        rc = get_bytes(f, &why);
    int64_t now = clock_mono_ns();
    pthread_mutex_lock(&n->mu);
    f->state = rc ? FETCH_FAILED : landed ? FETCH_LANDED : FETCH_READY;
    if (rc && why.cls == ERR_RETRY && now - began >= LONG_NS
        && (n->failed || (n->failed = malloc(sizeof why)))) {
        *n->failed = why;
        n->failed_ns = now;
    }
    if (rc && (f->err = malloc(sizeof why)))
        *f->err = why;
    if (rc || landed) {
        unlist(f);
        f->refs--;
    } else {
        f->refs++; /* for the landing */
    }
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->mu);
    if (rc) {
        if (e)
            *e = why;
        return -1;
    }
    if (landed)
        return 0;
    /* the reader goes on while another thread writes, unless those are behind */
    if (!f->demand || pool_queued(c->pool, LANE_LAND) > c->threads
        || pool_add(c->pool, LANE_LAND, land, f))
        land(f);
    return 0;
}

static void run_queued(void *arg) /* takes over one ref */
{
    struct fetch *f = arg;
    struct node *n = f->n;
    pthread_mutex_lock(&n->mu);
    if (f->state != FETCH_QUEUED || !f->listed || atomic_load(&n->c->cancel)) {
        if (f->listed && f->state == FETCH_QUEUED) {
            unlist(f);
            f->refs--;
            pthread_cond_broadcast(&n->changed);
        }
        put_locked(f);
        return;
    }
    f->state = FETCH_RUNNING;
    pthread_mutex_unlock(&n->mu);
    struct err e = ERR_INIT;
    if (run(f, &e))
        log_debug("cache: reading ahead: %s", e.msg);
    put(f);
}

/* -- readers --------------------------------------------------------------------------------- */

static void copy_out(struct fetch *f, uint32_t block, char *dst, uint32_t in, uint32_t len)
{
    fetch_origin = f->origin;
    if (!dst)
        return;
    memcpy(dst, f->buf + (size_t)(block - f->first) * CACHE_BLOCK + in, len);
    if (in + len < block_len(f->n, block))
        return;
    atomic_fetch_or(&f->finished, 1u << (block - f->first));
    struct seg *s = node_seg(f->n, block); /* it may have landed meanwhile */
    if (s)
        atomic_fetch_and(&s->fresh, ~block_bit(block));
}

/* The queued fetch covers a block that a reader wants now: the reader takes that block, what is
 * before it stays queued. n->mu is held. */
static void cut_queued(struct fetch *f, uint32_t block)
{
    uint32_t keep = block - f->first;
    if (keep == 0) { /* the front is wanted: the rest stays queued */
        f->first++;
        f->count--;
    } else {
        f->count = keep;
    }
    int64_t give = f->reserved - (f->count ? weight(f->n, f->first, f->count) : 0);
    f->reserved -= give;
    budget_release(&f->n->c->budget, give);
    /* fetch_of() never sees it again; run_queued or cancel takes it off the list */
    if (f->count == 0) {
        f->state = FETCH_FAILED;
        unlist(f);
        f->refs--; /* the pool has one as well */
    }
    pthread_cond_broadcast(&f->n->changed);
}

/* Waits for a block of a fetch that runs. 0: it is in the buffer (a ref is held), 1: look again,
 * -1: e. n->mu is held. */
static int wait_for(struct node *n, struct fetch *f, uint32_t block, bool *asked, struct err *e)
{
    f->refs++;
    while (f->state == FETCH_RUNNING && !node_has(n, block))
        pthread_cond_wait(&n->changed, &n->mu);
    if (f->state == FETCH_READY && covers(f, block))
        return 0;
    fetch_origin = f->origin;
    /* reading ahead failed for nobody: ask once more in our own name */
    bool failed = f->state == FETCH_FAILED && !node_has(n, block),
         again = !failed || (!f->demand && !*asked);
    *asked |= failed;
    if (!again && f->err && e)
        *e = *f->err;
    else if (!again)
        err_sys(e, ENOMEM, "read %s", n->path);
    put_locked(f);
    pthread_mutex_lock(&n->mu);
    return again ? 1 : -1;
}

/* As many blocks from `block` on as are neither here nor on their way. n->mu is held. */
static uint32_t missing_run(struct node *n, uint32_t block, uint32_t most)
{
    uint32_t k = 0;
    while (k < most && block + k < n->nblocks && !node_has(n, block + k) && !fetch_of(n, block + k))
        k++;
    return k;
}

int fetch_block(struct node *n, uint32_t block, uint32_t more, char *dst, uint32_t in, uint32_t len,
    struct err *e)
{
    bool asked = false;
    pthread_mutex_lock(&n->mu);
    for (;;) {
        struct fetch *f = fetch_of(n, block);
        /* bytes in a buffer come first: they are as good and need no system call */
        if (!(f && f->state == FETCH_READY) && node_has(n, block)) {
            pthread_mutex_unlock(&n->mu);
            return 1;
        }
        if (f && f->state == FETCH_QUEUED) {
            cut_queued(f, block);
            continue;
        }
        if (f) {
            int rc = wait_for(n, f, block, &asked, e);
            if (rc == 1)
                continue;
            pthread_mutex_unlock(&n->mu);
            if (rc < 0)
                return -1;
            copy_out(f, block, dst, in, len);
            put(f);
            return 0;
        }
        if (n->failed && clock_mono_ns() - n->failed_ns < LATELY_NS) {
            if (e)
                *e = *n->failed;
            pthread_mutex_unlock(&n->mu);
            return -1;
        }
        uint32_t count = missing_run(n, block, MAX(1u, MIN(more, PART_BLOCKS)));
        int64_t reserved = weight(n, block, count);
        f = make(n, block, count, reserved);
        if (!f) {
            pthread_mutex_unlock(&n->mu);
            return err_sys(e, ENOMEM, "read %s", n->path);
        }
        f->demand = dst != NULL; /* else for cache_fill, which waits until it has landed */
        f->wanted = !dst;
        f->state = FETCH_RUNNING;
        f->refs++;
        budget_force(&n->c->budget, reserved);
        pthread_mutex_unlock(&n->mu);
        int rc = run(f, e);
        if (rc == 0)
            copy_out(f, block, dst, in, len);
        put(f);
        return rc;
    }
}

uint32_t fetch_ahead(struct node *n, uint32_t first, uint32_t count, uint32_t part, bool wanted)
{
    struct cache *c = n->c;
    uint32_t end = count > n->nblocks - first ? n->nblocks : first + count, b = first;
    while (b < end && !atomic_load(&c->cancel)) {
        /* parts end at multiples of their size, so that a later window continues where this one
         * ends */
        uint32_t most = MIN(part - b % part, end - b);
        pthread_mutex_lock(&n->mu);
        uint32_t k = missing_run(n, b, most);
        if (k == 0) {
            struct fetch *f = fetch_of(n, b);
            if (f && wanted)
                f->wanted = true;
            pthread_mutex_unlock(&n->mu);
            b++;
            continue;
        }
        int64_t reserved = weight(n, b, k);
        struct fetch *f = NULL;
        if (budget_try(&c->budget, reserved) && !(f = make(n, b, k, reserved)))
            budget_release(&c->budget, reserved);
        if (f) {
            f->wanted = wanted;
            f->refs++; /* the pool's */
        }
        pthread_mutex_unlock(&n->mu);
        if (!f)
            break;
        if (pool_add(c->pool, LANE_FETCH, run_queued, f)) {
            pthread_mutex_lock(&n->mu);
            if (f->listed) {
                unlist(f);
                f->refs--;
            }
            pthread_cond_broadcast(&n->changed);
            put_locked(f);
            break;
        }
        b += k;
    }
    return b;
}

void fetch_cancel_queued(struct node *n)
{
    pthread_mutex_lock(&n->mu);
    for (struct fetch *f = n->fetches, *next; f; f = next) {
        next = f->next;
        if (f->state == FETCH_QUEUED && !f->wanted) {
            f->state = FETCH_FAILED;
            unlist(f);
            f->refs--; /* run_queued holds the other one */
        }
    }
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->mu);
}
