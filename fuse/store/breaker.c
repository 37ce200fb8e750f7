/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/breaker.h"

#include "lib/base/clock.h"

#include <errno.h>

void breaker_init(struct breaker *b)
{
    *b = (struct breaker){0};
    pthread_mutex_init(&b->mu, NULL);
}

void breaker_fini(struct breaker *b) { pthread_mutex_destroy(&b->mu); }

int breaker_enter(struct breaker *b, int64_t *began_ns, struct err *e)
{
    *began_ns = clock_mono_ns();
    unsigned before = atomic_fetch_add(&b->inside, 1);
    if (before < BREAKER_TRYING_MAX || !breaker_is_silent(b))
        return 0;
    atomic_fetch_sub(&b->inside, 1);
    pthread_mutex_lock(&b->mu);
    *e = b->why;
    pthread_mutex_unlock(&b->mu);
    return err_wrap(e, "as others found a moment ago");
}

static void breaker_answered(struct breaker *b)
{
    atomic_store(&b->answered_ns, clock_mono_ns());
    if (!breaker_is_silent(b))
        return;
    pthread_mutex_lock(&b->mu);
    atomic_store(&b->is_silent, false);
    pthread_mutex_unlock(&b->mu);
}

static void breaker_failed(struct breaker *b, int64_t began_ns, const struct err *why)
{
    pthread_mutex_lock(&b->mu);
    if (atomic_load(&b->answered_ns) < began_ns) {
        b->why = *why;
        atomic_store(&b->is_silent, true);
    }
    pthread_mutex_unlock(&b->mu);
}

int breaker_leave(struct breaker *b, int64_t began_ns, int rc, const struct err *e)
{
    if (!rc || e->cls != ERR_RETRY)
        breaker_answered(b);
    else if (e->sys != ECANCELED && e->sys != EAGAIN)
        breaker_failed(b, began_ns, e);
    atomic_fetch_sub(&b->inside, 1);
    return rc;
}

bool breaker_is_silent(const struct breaker *b) { return atomic_load(&b->is_silent); }
