/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/recent.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define WAYS 4 /* places that an object may be in */

/* The folded one is held, so that no other comes to be at its address. */
struct recent_pair {
    struct obj *folded, *whole;
};

struct recent {
    pthread_mutex_t mu;
    struct recent_pair *v; /* mu: nsets × WAYS */
    unsigned char *next;   /* mu: which one of a set goes next */
    size_t nsets;          /* fixed */
};

struct recent *recent_new(size_t n)
{
    if (!n)
        return NULL;
    struct recent *r = xcalloc(1, sizeof *r);
    r->nsets = (n + WAYS - 1) / WAYS;
    r->v = xcalloc(r->nsets * WAYS, sizeof *r->v);
    r->next = xcalloc(r->nsets, 1);
    pthread_mutex_init(&r->mu, NULL);
    return r;
}

void recent_free(struct recent *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->nsets * WAYS; i++) {
        obj_unref(r->v[i].folded);
        obj_unref(r->v[i].whole);
    }
    free(r->v);
    free(r->next);
    pthread_mutex_destroy(&r->mu);
    free(r);
}

/* Allocators give addresses in rows. */
static size_t set_of(const struct recent *r, const struct obj *o)
{
    return (size_t)(hash64_mix((uintptr_t)o, 0) % r->nsets);
}

static struct obj *recent_find(struct recent *r, size_t set, const struct obj *folded)
{
    struct obj *found = NULL;
    pthread_mutex_lock(&r->mu);
    for (size_t i = set * WAYS; i < (set + 1) * WAYS && !found; i++)
        if (r->v[i].folded == folded)
            found = obj_ref(r->v[i].whole);
    pthread_mutex_unlock(&r->mu);
    return found;
}

static void recent_put(struct recent *r, size_t set, struct recent_pair pair)
{
    pthread_mutex_lock(&r->mu);
    struct recent_pair *at = &r->v[set * WAYS + r->next[set]], was = *at;
    *at = pair;
    r->next[set] = (unsigned char)((r->next[set] + 1) % WAYS);
    pthread_mutex_unlock(&r->mu);
    obj_unref(was.folded);
    obj_unref(was.whole);
}

struct obj *recent_whole(struct recent *r, struct obj *o_take)
{
    if (!r || !o_take || obj_json(o_take))
        return obj_unfold(o_take);
    size_t set = set_of(r, o_take);
    struct obj *whole = recent_find(r, set, o_take);
    if (whole) {
        obj_unref(o_take);
        return whole;
    }
    whole = obj_unfold(obj_ref(o_take));
    recent_put(r, set, (struct recent_pair){o_take, obj_ref(whole)});
    return whole;
}
