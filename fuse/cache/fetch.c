/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches: single flight of what is missing, for readers and ahead of them.
 *
 * A fetch is named by its object's list while it is queued, running, or until its bytes are in a
 * tier; readers that wait for it or copy from it hold a ref each. */
#include "fuse/cache/priv.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LONG_NS NS_PER_S /* an answer that took so long to fail … */
/* … is given again to those that ask as soon as this: the kernel does, for a page that it could not
 * read ahead */
#define LATELY_NS NS_PER_S

__thread unsigned fetch_origin;

/* Bytes of the budget for blocks of a file: what is in the last one, and not a whole block of a
 * small file. */
static int64_t fetch_weight(const struct object *o, uint32_t first, uint32_t count)
{
    return (int64_t)(count - 1) * CACHE_BLOCK
        + (int64_t)to_pages(block_len(o, first + count - 1)) * PAGE;
}

static bool fetch_covers(const struct fetch *f, uint32_t block)
{
    return block >= f->first && block < f->first + f->count;
}

struct fetch *fetch_of(struct object *o, uint32_t block)
{
    for (struct fetch *f = o->fetches; f; f = f->next)
        if (fetch_covers(f, block))
            return f;
    return NULL;
}

static void fetch_unlist(struct fetch *f)
{
    for (struct fetch **at = &f->o->fetches; *at; at = &(*at)->next)
        if (*at == f) {
            *at = f->next;
            f->listed = false;
            return;
        }
}

static void fetch_put(struct fetch *f)
{
    struct object *o = f->o;
    pthread_mutex_lock(&o->mu);
    bool last = --f->refs == 0;
    pthread_mutex_unlock(&o->mu);
    if (!last)
        return;
    budget_buffer_put(&o->c->budget, f->buf, f->len);
    budget_release(&o->c->budget, f->reserved);
    free(f->err);
    free(f);
    object_put(o);
}

/* A listed fetch with one ref for the list; o->mu is held. The budget is the caller's. */
static struct fetch *fetch_new(struct object *o, uint32_t first, uint32_t count, int64_t reserved)
{
    struct fetch *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->o = o;
    f->first = first;
    f->count = count;
    f->refs = 1;
    f->reserved = reserved;
    f->listed = true;
    f->next = o->fetches;
    o->fetches = f;
    object_ref(o);
    return f;
}

/* -- filling --------------------------------------------------------------------------------- */

void fetch_trim_parked(struct cache *c, int64_t max_bytes, int64_t before_ns)
{
    struct parked *p = &c->parked;
    for (;;) {
        pthread_mutex_lock(&p->mu);
        struct fetch *f = p->first;
        if (!f || (p->bytes <= max_bytes && f->parked_ns > before_ns)) {
            pthread_mutex_unlock(&p->mu);
            return;
        }
        p->first = f->parked_next;
        if (!p->first)
            p->tail = &p->first;
        p->bytes -= (int64_t)f->len;
        pthread_mutex_unlock(&p->mu);
        pthread_mutex_lock(&f->o->mu);
        fetch_unlist(f);
        pthread_mutex_unlock(&f->o->mu);
        fetch_put(f);
    }
}

/* No tier takes it: the buffer serves its readers for a moment. The list's reference is now
 * parked's. */
static void park(struct fetch *f)
{
    struct cache *c = f->o->c;
    struct parked *p = &c->parked;
    pthread_mutex_lock(&p->mu);
    f->parked_next = NULL;
    f->parked_ns = clock_mono_ns();
    *p->tail = f;
    p->tail = &f->parked_next;
    p->bytes += (int64_t)f->len;
    pthread_mutex_unlock(&p->mu);
    fetch_trim_parked(c, MAX(c->budget.limit / 2, INT64_C(8) << 20), 0);
}

/* Takes over one ref. */
static void fetch_fill(void *arg)
{
    struct fetch *f = arg;
    struct object *o = f->o;
    pthread_mutex_lock(&o->mu);
    bool wanted = f->wanted;
    pthread_mutex_unlock(&o->mu);
    bool all = true;
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t block = f->first + i;
        if (fill_block(
                o, block, f->buf + (size_t)i * CACHE_BLOCK, wanted ? FILL_WRITE : FILL_FRESH))
            all = false;
        else if (atomic_load(&f->finished) & (1u << i)) /* while we wrote */
            atomic_fetch_and(&object_seg(o, block)->fresh, ~block_bit(block));
    }
    pthread_mutex_lock(&o->mu);
    bool listed = f->listed;
    f->parked = !all;
    if (all && listed) {
        fetch_unlist(f);
        f->refs--; /* the list's; ours is still there */
    }
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->mu);
    if (!all && listed)
        park(f);
    fetch_put(f);
}

void fetch_fill_parked(struct object *o, uint32_t block)
{
    pthread_mutex_lock(&o->mu);
    struct fetch *f = fetch_of(o, block);
    bool is_parked = f && f->parked && f->state == FETCH_READY;
    if (is_parked)
        f->refs++;
    pthread_mutex_unlock(&o->mu);
    if (!is_parked)
        return;
    fill_block(o, block, f->buf + (size_t)(block - f->first) * CACHE_BLOCK, FILL_WRITE);
    fetch_put(f);
}

/* -- running a fetch ------------------------------------------------------------------------- */

/* Runs a fetch whose state is FETCH_RUNNING; the caller has a ref of its own. -1: e, and
 * the readers that wait know. */
static int fetch_run(struct fetch *f, struct err *e)
{
    struct object *o = f->o;
    struct cache *c = o->c;
    struct err why = ERR_INIT;
    int64_t began = clock_mono_ns();
    int rc = f->demand ? 1 : fetch_to_tier(f, &why);
    bool filled = rc == 0;
    if (rc == 1)
        rc = fetch_to_buffer(f, &why);
    int64_t now = clock_mono_ns();
    pthread_mutex_lock(&o->mu);
    f->state = rc ? FETCH_FAILED : filled ? FETCH_FILLED : FETCH_READY;
    if (rc && why.cls == ERR_RETRY && now - began >= LONG_NS
        && (o->failed || (o->failed = malloc(sizeof why)))) {
        *o->failed = why;
        o->failed_ns = now;
    }
    if (rc && (f->err = malloc(sizeof why)))
        *f->err = why;
    if (rc || filled) {
        fetch_unlist(f);
        f->refs--;
    } else {
        f->refs++; /* for the filling */
    }
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->mu);
    if (rc) {
        if (e)
            *e = why;
        return -1;
    }
    if (filled)
        return 0;
    /* the reader goes on while another thread writes, unless those are behind */
    if (!f->demand || pool_queued(c->pool, LANE_FILL) > c->threads
        || pool_add(c->pool, LANE_FILL, fetch_fill, f))
        fetch_fill(f);
    return 0;
}

static void fetch_job(void *arg) /* takes over one ref */
{
    struct fetch *f = arg;
    struct object *o = f->o;
    pthread_mutex_lock(&o->mu);
    if (f->state != FETCH_QUEUED || !f->listed || atomic_load(&o->c->cancel)) {
        if (f->listed && f->state == FETCH_QUEUED) {
            fetch_unlist(f);
            f->refs--;
            pthread_cond_broadcast(&o->changed);
        }
        pthread_mutex_unlock(&o->mu);
        fetch_put(f);
        return;
    }
    f->state = FETCH_RUNNING;
    pthread_mutex_unlock(&o->mu);
    struct err e = ERR_INIT;
    if (fetch_run(f, &e))
        log_debug("cache: reading ahead: %s", e.msg);
    fetch_put(f);
}

/* -- readers --------------------------------------------------------------------------------- */

static void fetch_copy_out(struct fetch *f, uint32_t block, char *dst, uint32_t in, uint32_t len)
{
    fetch_origin = f->origin;
    if (!dst)
        return;
    memcpy(dst, f->buf + (size_t)(block - f->first) * CACHE_BLOCK + in, len);
    if (in + len < block_len(f->o, block))
        return;
    atomic_fetch_or(&f->finished, 1u << (block - f->first));
    struct seg *s = object_seg(f->o, block); /* it may be in a tier by now */
    if (s)
        atomic_fetch_and(&s->fresh, ~block_bit(block));
}

/* The queued fetch covers a block that a reader wants now: the reader takes that block, what is
 * before it stays queued. o->mu is held. */
static void cut_queued(struct fetch *f, uint32_t block)
{
    uint32_t keep = block - f->first;
    if (keep == 0) { /* the front is wanted: the rest stays queued */
        f->first++;
        f->count--;
    } else {
        f->count = keep;
    }
    int64_t give = f->reserved - (f->count ? fetch_weight(f->o, f->first, f->count) : 0);
    f->reserved -= give;
    budget_release(&f->o->c->budget, give);
    /* fetch_of() never sees it again; fetch_job or cancel takes it off the list */
    if (f->count == 0) {
        f->state = FETCH_FAILED;
        fetch_unlist(f);
        f->refs--; /* the pool has one as well */
    }
    pthread_cond_broadcast(&f->o->changed);
}

/* Waits for a block of a fetch that runs. 0: it is in the buffer (a ref is held), 1: look again,
 * -1: e. o->mu is held. */
static int fetch_wait(struct object *o, struct fetch *f, uint32_t block, bool *asked, struct err *e)
{
    f->refs++;
    while (f->state == FETCH_RUNNING && !object_has(o, block))
        pthread_cond_wait(&o->changed, &o->mu);
    if (f->state == FETCH_READY && fetch_covers(f, block))
        return 0;
    fetch_origin = f->origin;
    /* reading ahead failed without a reader: ask once more for this one */
    bool failed = f->state == FETCH_FAILED && !object_has(o, block),
         again = !failed || (!f->demand && !*asked);
    *asked |= failed;
    if (!again && f->err && e)
        *e = *f->err;
    else if (!again)
        err_sys(e, ENOMEM, "read %s", o->path);
    pthread_mutex_unlock(&o->mu);
    fetch_put(f);
    pthread_mutex_lock(&o->mu);
    return again ? 1 : -1;
}

/* As many blocks from `block` on as are neither here nor on their way. o->mu is held. */
static uint32_t missing_run(struct object *o, uint32_t block, uint32_t most)
{
    uint32_t k = 0;
    while (
        k < most && block + k < o->nblocks && !object_has(o, block + k) && !fetch_of(o, block + k))
        k++;
    return k;
}

int fetch_block(struct object *o, uint32_t block, uint32_t more, char *dst, uint32_t in,
    uint32_t len, struct err *e)
{
    bool asked = false;
    pthread_mutex_lock(&o->mu);
    for (;;) {
        struct fetch *f = fetch_of(o, block);
        /* bytes in a buffer come first: they are as good and need no system call */
        if (!(f && f->state == FETCH_READY) && object_has(o, block)) {
            pthread_mutex_unlock(&o->mu);
            return 1;
        }
        if (f && f->state == FETCH_QUEUED) {
            cut_queued(f, block);
            continue;
        }
        if (f) {
            int rc = fetch_wait(o, f, block, &asked, e);
            if (rc == 1)
                continue;
            pthread_mutex_unlock(&o->mu);
            if (rc < 0)
                return -1;
            fetch_copy_out(f, block, dst, in, len);
            fetch_put(f);
            return 0;
        }
        if (o->failed && clock_mono_ns() - o->failed_ns < LATELY_NS) {
            if (e)
                *e = *o->failed;
            pthread_mutex_unlock(&o->mu);
            return -1;
        }
        uint32_t count = missing_run(o, block, MAX(1u, MIN(more, o->part)));
        int64_t reserved = fetch_weight(o, block, count);
        f = fetch_new(o, block, count, reserved);
        if (!f) {
            pthread_mutex_unlock(&o->mu);
            return err_sys(e, ENOMEM, "read %s", o->path);
        }
        f->demand = dst != NULL; /* else for cache_fill, which waits until it is in a tier */
        f->wanted = !dst;
        f->state = FETCH_RUNNING;
        f->refs++;
        budget_force(&o->c->budget, reserved);
        pthread_mutex_unlock(&o->mu);
        int rc = fetch_run(f, e);
        if (rc == 0)
            fetch_copy_out(f, block, dst, in, len);
        fetch_put(f);
        return rc;
    }
}

uint32_t fetch_ahead(struct object *o, uint32_t first, uint32_t count, uint32_t part, bool wanted)
{
    struct cache *c = o->c;
    uint32_t end = count > o->nblocks - first ? o->nblocks : first + count, b = first;
    while (b < end && !atomic_load(&c->cancel)) {
        /* parts end at multiples of their size, so that a later window continues where this one
         * ends */
        uint32_t most = MIN(part - b % part, end - b);
        pthread_mutex_lock(&o->mu);
        uint32_t k = missing_run(o, b, most);
        if (k == 0) {
            struct fetch *f = fetch_of(o, b);
            if (f && wanted)
                f->wanted = true;
            pthread_mutex_unlock(&o->mu);
            b++;
            continue;
        }
        int64_t reserved = fetch_weight(o, b, k);
        struct fetch *f = NULL;
        if (budget_try(&c->budget, reserved) && !(f = fetch_new(o, b, k, reserved)))
            budget_release(&c->budget, reserved);
        if (f) {
            f->wanted = wanted;
            f->refs++; /* the pool's */
        }
        pthread_mutex_unlock(&o->mu);
        if (!f)
            break;
        if (pool_add(c->pool, LANE_FETCH, fetch_job, f)) {
            pthread_mutex_lock(&o->mu);
            if (f->listed) {
                fetch_unlist(f);
                f->refs--;
            }
            pthread_cond_broadcast(&o->changed);
            pthread_mutex_unlock(&o->mu);
            fetch_put(f);
            break;
        }
        b += k;
    }
    return b;
}

void fetch_cancel_queued(struct object *o)
{
    pthread_mutex_lock(&o->mu);
    for (struct fetch *f = o->fetches, *next; f; f = next) {
        next = f->next;
        if (f->state == FETCH_QUEUED && !f->wanted) {
            f->state = FETCH_FAILED;
            fetch_unlist(f);
            f->refs--; /* fetch_job holds the other one */
        }
    }
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->mu);
}
