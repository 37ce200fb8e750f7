/* SPDX-License-Identifier: Apache-2.0 */
/* When a failed call is made again: until its deadline, after pauses that grow, with jitter. */
#include "fuse/store/impl.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define PAUSE_FIRST_NS (50 * NS_PER_MS)
#define PAUSE_MAX_NS   (5 * NS_PER_S)
#define LAST_NS        (100 * NS_PER_MS) /* an attempt gets at least as much of the budget */
#define SLICE_NS       (50 * NS_PER_MS)  /* how soon a cancelled call notices */

int64_t retry_left_ns(const struct retry *r)
{
    return MAX(r->deadline_ns - clock_mono_ns(), NS_PER_MS);
}

int64_t retry_pause_ns(unsigned attempt, uint64_t random)
{
    int64_t full = attempt < 7 ? PAUSE_FIRST_NS << attempt : PAUSE_MAX_NS;
    full = MIN(full, PAUSE_MAX_NS);
    return full / 2 + (int64_t)(random % (uint64_t)(full / 2 + 1));
}

static bool retry_cancelled(const struct retry *r)
{
    return r->cancel && atomic_load_explicit(r->cancel, memory_order_relaxed);
}

bool retry_again(struct retry *r, const struct err *e, int64_t after_ns)
{
    if (e->cls != ERR_RETRY || e->sys == ECANCELED)
        return false;
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
        random = (uint64_t)clock_mono_ns();
    int64_t pause = retry_pause_ns(r->attempt, random);
    if (after_ns > pause) /* and some more, so that not all come back in the same moment */
        pause = after_ns + pause / 4;
    r->attempt++;
    int64_t left = r->deadline_ns - clock_mono_ns() - LAST_NS;
    if ((r->max_attempts && r->attempt >= r->max_attempts) || left <= 0)
        return false;
    if (pause > left) /* who asks for more time than there is may be well again in less */
        pause = left / 2 + (int64_t)(random % (uint64_t)(left / 2 + 1));
    while (pause > 0 && !retry_cancelled(r)) {
        clock_sleep_ns(MIN(pause, SLICE_NS));
        pause -= SLICE_NS;
    }
    return !retry_cancelled(r);
}
