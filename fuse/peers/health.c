/* SPDX-License-Identifier: Apache-2.0 */
/* Which workers are up: one that fails is left alone for a pause that grows. */
#include "fuse/peers/priv.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"

#define BACKOFF_MIN_NS (1 * NS_PER_S)
#define BACKOFF_MAX_NS (30 * NS_PER_S)
/* hedges lost without a byte from the worker before it counts as down */
#define SILENT_MAX 3

bool peer_may_be_asked(struct peer *w, bool *probe)
{
    int64_t now = clock_mono_ns();
    pthread_mutex_lock(&w->mu);
    bool yes = now >= w->down_until_ns;
    *probe = yes && w->down_until_ns;
    if (*probe)
        w->down_until_ns = now + MAX(w->backoff_ns, BACKOFF_MIN_NS);
    pthread_mutex_unlock(&w->mu);
    return yes;
}

void peer_begin_anew(struct peer *w)
{
    pthread_mutex_lock(&w->mu);
    w->down_until_ns = w->backoff_ns = 0;
    w->silent = 0;
    pthread_mutex_unlock(&w->mu);
}

void peer_answered(struct peer *w)
{
    pthread_mutex_lock(&w->mu);
    bool was_down = w->down_until_ns != 0;
    w->down_until_ns = w->backoff_ns = 0;
    w->silent = 0;
    pthread_mutex_unlock(&w->mu);
    if (was_down)
        log_kv(LOG_INFO, "cache worker is back", "worker", w->url, NULL);
}

void peer_failed(struct peer *w, const char *why)
{
    pthread_mutex_lock(&w->mu);
    bool first = w->down_until_ns == 0;
    w->backoff_ns = w->backoff_ns ? MIN(w->backoff_ns * 2, BACKOFF_MAX_NS) : BACKOFF_MIN_NS;
    w->down_until_ns = clock_mono_ns() + w->backoff_ns;
    w->silent = 0;
    pthread_mutex_unlock(&w->mu);
    if (first)
        log_kv(LOG_WARN, "cache worker does not answer: reading from the store", "worker", w->url,
            "error", why, NULL);
}

void peer_silent(struct peer *w, bool probe)
{
    pthread_mutex_lock(&w->mu);
    bool too_long = ++w->silent >= SILENT_MAX || probe;
    pthread_mutex_unlock(&w->mu);
    if (too_long)
        peer_failed(w, "no byte came from the worker in time, several times");
}
