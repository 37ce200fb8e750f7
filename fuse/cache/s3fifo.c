/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/s3fifo.h"

#include "lib/base/hash.h"

#include <stdlib.h>
#include <string.h>

#define FREQ_MAX       3
#define GHOST_WAYS     4u
#define GHOST_SETS_MIN 256u
#define GHOST_SETS_MAX (1u << 18)

void s3f_init(struct s3f *p, uint64_t capacity, const struct s3f_ops *ops)
{
    memset(p, 0, sizeof *p);
    p->ops = *ops;
    p->capacity = capacity;
    for (int q = 0; q < 3; q++)
        p->lists[q].head = p->lists[q].tail = S3F_NONE;
}

void s3f_fini(struct s3f *p)
{
    free(p->ghost);
    p->ghost = NULL;
}

static struct s3f_unit *at(const struct s3f *p, uint32_t id) { return p->ops.at(p->ops.user, id); }

/* How many victims are remembered. The paper says as many as the main queue has units; a quarter of
 * it keeps what an epoch in random order finds in the main queue from being replaced (half of the
 * data cached: 35 % hits instead of 21 %, LRU 15 %). */
static uint32_t ghost_span(const struct s3f *p)
{
    uint32_t n = p->lists[S3F_MAIN].count / 4;
    return n < 64 ? 64 : n;
}

static void ghost_grow(struct s3f *p)
{
    uint32_t sets = p->ghost_sets ? p->ghost_sets : GHOST_SETS_MIN;
    while (sets < GHOST_SETS_MAX && sets * GHOST_WAYS / 2 < ghost_span(p))
        sets *= 2;
    if (sets == p->ghost_sets)
        return;
    struct s3f_ghost *bigger = calloc((size_t)sets * GHOST_WAYS, sizeof *bigger);
    if (!bigger)
        return;
    free(p->ghost); /* forgetting the past once per doubling is cheaper than carrying it over */
    p->ghost = bigger;
    p->ghost_sets = sets;
}

static struct s3f_ghost *ghost_set(const struct s3f *p, uint64_t key, uint32_t *print)
{
    uint64_t h = hash64_mix(key, 0x67686f7374);
    *print = (uint32_t)(h >> 32) | 1; /* 0 means empty */
    return p->ghost + (size_t)(h & (p->ghost_sets - 1)) * GHOST_WAYS;
}

void s3f_remember(struct s3f *p, uint64_t key)
{
    ghost_grow(p);
    if (!p->ghost)
        return;
    uint32_t print;
    struct s3f_ghost *set = ghost_set(p, key, &print), *oldest = set;
    for (unsigned i = 0; i < GHOST_WAYS; i++) {
        if (!set[i].print || set[i].print == print) {
            oldest = &set[i];
            break;
        }
        if (p->ghost_clock - set[i].born > p->ghost_clock - oldest->born)
            oldest = &set[i];
    }
    *oldest = (struct s3f_ghost){print, p->ghost_clock++};
}

static bool ghost_take(struct s3f *p, uint64_t key)
{
    if (!p->ghost)
        return false;
    uint32_t print;
    struct s3f_ghost *set = ghost_set(p, key, &print);
    for (unsigned i = 0; i < GHOST_WAYS; i++)
        if (set[i].print == print) {
            bool recent = p->ghost_clock - set[i].born <= ghost_span(p);
            set[i].print = 0;
            return recent;
        }
    return false;
}

static void link_head(struct s3f *p, uint32_t id, enum s3f_queue q)
{
    struct s3f_list *l = &p->lists[q];
    struct s3f_unit *u = at(p, id);
    u->queue = (uint8_t)q;
    u->prev = S3F_NONE;
    u->next = l->head;
    if (l->head != S3F_NONE)
        at(p, l->head)->prev = id;
    else
        l->tail = id;
    l->head = id;
    l->weight += u->weight;
    l->count++;
}

static void unlink_unit(struct s3f *p, uint32_t id)
{
    struct s3f_unit *u = at(p, id);
    struct s3f_list *l = &p->lists[u->queue];
    if (u->prev != S3F_NONE)
        at(p, u->prev)->next = u->next;
    else
        l->head = u->next;
    if (u->next != S3F_NONE)
        at(p, u->next)->prev = u->prev;
    else
        l->tail = u->prev;
    l->weight -= u->weight;
    l->count--;
    u->queue = S3F_OUT;
}

void s3f_insert(struct s3f *p, uint32_t id, uint32_t weight, uint64_t key)
{
    struct s3f_unit *u = at(p, id);
    u->weight = weight;
    u->freq = 0;
    link_head(p, id, ghost_take(p, key) ? S3F_MAIN : S3F_SMALL);
}

void s3f_remove(struct s3f *p, uint32_t id)
{
    if (at(p, id)->queue != S3F_OUT)
        unlink_unit(p, id);
}

void s3f_weigh(struct s3f *p, uint32_t id, uint32_t weight)
{
    struct s3f_unit *u = at(p, id);
    if (u->queue != S3F_OUT)
        p->lists[u->queue].weight += (uint64_t)weight - u->weight;
    u->weight = weight;
}

uint64_t s3f_weight(const struct s3f *p)
{
    return p->lists[S3F_SMALL].weight + p->lists[S3F_MAIN].weight;
}

void s3f_touch(struct s3f *p, uint32_t id, unsigned hits)
{
    struct s3f_unit *u = at(p, id);
    u->freq = (uint8_t)(u->freq + hits > FREQ_MAX ? FREQ_MAX : u->freq + hits);
}

uint32_t s3f_victim(struct s3f *p)
{
    struct s3f_list *small = &p->lists[S3F_SMALL], *main_q = &p->lists[S3F_MAIN];
    /* every step but the last lowers a freq or moves a unit from small to main, so this ends; the
     * bound is for units that are touched faster than we look at them */
    uint64_t bound = (uint64_t)(FREQ_MAX + 1) * (small->count + main_q->count) + 1;
    for (; bound; bound--) {
        bool from_small = small->count && (small->weight * 10 > p->capacity || !main_q->count);
        uint32_t id = from_small ? small->tail : main_q->tail;
        if (id == S3F_NONE)
            return S3F_NONE;
        if (p->ops.touched)
            s3f_touch(p, id, p->ops.touched(p->ops.user, id));
        struct s3f_unit *u = at(p, id);
        if (u->freq == 0)
            return id;
        unlink_unit(p, id);
        if (from_small)
            u->freq = 0;
        else
            u->freq--;
        link_head(p, id, S3F_MAIN);
    }
    return main_q->tail != S3F_NONE ? main_q->tail : small->tail;
}

void s3f_evicted(struct s3f *p, uint32_t id, uint64_t key)
{
    bool was_small = at(p, id)->queue == S3F_SMALL;
    s3f_remove(p, id);
    if (was_small)
        s3f_remember(p, key);
}

void s3f_skip(struct s3f *p, uint32_t id)
{
    if (at(p, id)->queue == S3F_OUT)
        return;
    unlink_unit(p, id);
    link_head(p, id, S3F_MAIN);
}

bool s3f_any(const struct s3f *p, bool (*fn)(void *user, uint32_t id), void *user)
{
    for (int q = S3F_SMALL; q <= S3F_MAIN; q++)
        for (uint32_t id = p->lists[q].tail; id != S3F_NONE; id = at(p, id)->prev)
            if (fn(user, id))
                return true;
    return false;
}
