/* SPDX-License-Identifier: Apache-2.0 */
/* Names in listings that no file can have: left out, and never silently. */
#include "fuse/store/impl.h"

#include "lib/base/log.h"
#include "lib/http/metric.h"

#include <inttypes.h>
#include <pthread.h>

#define WARN_EVERY_NS (10 * NS_PER_S)

METRIC_COUNTER(left_out, "millrace_store_left_out_total", "",
    "Entries of listings that were left out: no file can be called so, or the store fails for them alone.");

static struct {
    atomic_uint_fast64_t n;
    atomic_int_fast64_t warned_ns; /* 0: never */
    struct metric *metric;
} left;

static void left_out_register(void) { left.metric = metric_of(&left_out); }

void store_left_out(const char *url, const char *name, const char *why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, left_out_register);
    uint64_t n = atomic_fetch_add(&left.n, 1) + 1;
    metric_add(left.metric, 1);
    int64_t now = clock_mono_ns(), last = atomic_load(&left.warned_ns);
    if (!last || now - last >= WARN_EVERY_NS) {
        if (atomic_compare_exchange_strong(&left.warned_ns, &last, now))
            log_warn("%s: '%.300s' is left out of the listing: %s (%" PRIu64 " so far)", url, name,
                why, n);
    }
}

uint64_t store_left_out_count(void) { return atomic_load(&left.n); }
