/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/progress.h"

#include "lib/base/clock.h"

#include <stddef.h>

#define COUNTERS_BITS 10
#define HAND_ON_NS    NS_PER_S /* how often one that waits looks at what it waits for */

static _Atomic uint64_t counters[1u << COUNTERS_BITS];
static _Atomic uint64_t all_steps, steps_for_all;
static __thread struct progress_things tl_own;
static __thread struct progress_things *tl_here;

static struct progress_things *here(void) { return tl_here ? tl_here : &tl_own; }

static _Atomic uint64_t *counter_of(uint64_t thing)
{
    return &counters[thing * UINT64_C(0x9E3779B97F4A7C15) >> (64 - COUNTERS_BITS)];
}

static uint64_t steps_of(uint64_t thing)
{
    return atomic_load_explicit(
        thing == PROGRESS_ANY ? &all_steps : counter_of(thing), memory_order_relaxed);
}

static void step(uint64_t thing)
{
    if (thing)
        atomic_fetch_add_explicit(
            thing == PROGRESS_ANY ? &steps_for_all : counter_of(thing), 1, memory_order_relaxed);
}

void progress_here(struct progress_things *p) { tl_here = p; }

void progress_of(uint64_t a, uint64_t b)
{
    struct progress_things *p = here();
    atomic_store_explicit(&p->a, a, memory_order_relaxed);
    atomic_store_explicit(&p->b, b, memory_order_relaxed);
    atomic_store_explicit(&p->also, 0, memory_order_relaxed);
}

void progress_also(uint64_t thing)
{
    atomic_store_explicit(&here()->also, thing, memory_order_relaxed);
}

struct progress_things progress_mine(void)
{
    struct progress_things *p = here(), mine;
    atomic_init(&mine.a, atomic_load_explicit(&p->a, memory_order_relaxed));
    atomic_init(&mine.b, atomic_load_explicit(&p->b, memory_order_relaxed));
    atomic_init(&mine.also, atomic_load_explicit(&p->also, memory_order_relaxed));
    return mine;
}

void progress_as(const struct progress_things *other)
{
    progress_of(atomic_load_explicit(&other->a, memory_order_relaxed),
        atomic_load_explicit(&other->b, memory_order_relaxed));
    progress_also(atomic_load_explicit(&other->also, memory_order_relaxed));
}

void progress_mark(void)
{
    struct progress_things mine = progress_mine();
    uint64_t a = atomic_load(&mine.a), b = atomic_load(&mine.b);
    step(a);
    if (b != a)
        step(b);
    step(atomic_load(&mine.also));
    atomic_fetch_add_explicit(&all_steps, 1, memory_order_relaxed);
}

/* Not a step of its own, and not of what it waits for: those that wait would keep each other going.
 */
static void hand_on(uint64_t thing, uint64_t *seen)
{
    uint64_t now = steps_of(thing);
    struct progress_things mine = progress_mine();
    uint64_t a = atomic_load(&mine.a), b = atomic_load(&mine.b);
    if (now != *seen && a != thing)
        step(a);
    if (now != *seen && b != thing && b != a)
        step(b);
    *seen = now;
}

void progress_lock(pthread_mutex_t *mu, uint64_t thing)
{
    uint64_t seen = steps_of(thing);
    if (pthread_mutex_trylock(mu) == 0)
        return;
    while (clock_mutex_lock(mu, clock_mono_ns() + HAND_ON_NS))
        hand_on(thing, &seen);
}

void progress_rdlock(pthread_rwlock_t *lock, uint64_t thing)
{
    uint64_t seen = steps_of(thing);
    if (pthread_rwlock_tryrdlock(lock) == 0)
        return;
    while (clock_rwlock_rdlock(lock, clock_mono_ns() + HAND_ON_NS))
        hand_on(thing, &seen);
}

uint64_t progress_count(const struct progress_things *p)
{
    uint64_t a = atomic_load_explicit(&p->a, memory_order_relaxed),
             b = atomic_load_explicit(&p->b, memory_order_relaxed);
    return steps_of(a) + (a == b ? 0 : steps_of(b))
        + atomic_load_explicit(&steps_for_all, memory_order_relaxed);
}
