/* SPDX-License-Identifier: Apache-2.0 */
/* When a failed call is made again: until its deadline, after pauses that grow, with jitter. */
#include "fuse/store/impl.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define PAUSE_FIRST_NS (50 * NS_PER_MS)
#define PAUSE_MAX_NS   (5 * NS_PER_S)
#define LAST_NS        (100 * NS_PER_MS) /* an attempt gets at least as much of the budget */
#define AFTER_MAX_S    300
#define SLICE_NS       (50 * NS_PER_MS) /* how soon a cancelled call notices */
#define BRIEF_NS       (5 * NS_PER_S) /* what the deadline cuts sooner says nothing of the store */

int64_t retry_left_ns(const struct retry *r)
{
    return MAX(r->deadline_ns - clock_mono_ns(), NS_PER_MS);
}

int64_t retry_after_ns(const struct http_resp *resp)
{
    char value[64], *end;
    int64_t when;
    if (!http_header(resp, "retry-after", value, sizeof value))
        return -1;
    long seconds = strtol(value, &end, 10);
    if (end != value && !*end && seconds >= 0)
        return MIN(seconds, AFTER_MAX_S) * NS_PER_S;
    if (clock_parse_http_date(value, &when) == 0)
        return MIN(MAX(when - clock_real_ns(), 0), AFTER_MAX_S * NS_PER_S);
    return -1;
}

int64_t retry_pause_ns(unsigned attempt, uint64_t random)
{
    int64_t full = attempt < 7 ? PAUSE_FIRST_NS << attempt : PAUSE_MAX_NS;
    full = MIN(full, PAUSE_MAX_NS);
    return full / 2 + (int64_t)(random % (uint64_t)(full / 2 + 1));
}

static bool retry_cancelled(const struct retry *r)
{
    return (r->cancel && atomic_load_explicit(r->cancel, memory_order_relaxed))
        || (r->also_cancel && atomic_load_explicit(r->also_cancel, memory_order_relaxed));
}

/* Of an attempt that failed at the end of the time: what the ones before it failed of is why the
 * call fails, where it had hardly begun. */
static void keep_cause(const struct retry *r, int64_t now_ns, struct err *e)
{
    if (r->cause.cls != ERR_NONE && now_ns - r->begun_ns < BRIEF_NS)
        *e = r->cause;
}

bool retry_again(struct retry *r, struct err *e, int64_t after_ns)
{
    if (e->cls != ERR_RETRY || e->sys == ECANCELED)
        return false;
    progress_mark(); /* its attempts have a deadline */
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
        random = (uint64_t)clock_mono_ns();
    int64_t pause = retry_pause_ns(r->attempt, random);
    if (after_ns > pause) /* and some more, so that not all come back in the same moment */
        pause = after_ns + pause / 4;
    r->attempt++;
    int64_t now = clock_mono_ns(), left = r->deadline_ns - now - LAST_NS;
    if (left <= 0)
        keep_cause(r, now, e);
    if ((r->max_attempts && r->attempt >= r->max_attempts) || left <= 0)
        return false;
    r->cause = *e;
    if (pause > left) /* who asks for more time than there is may be well again in less */
        pause = left / 2 + (int64_t)(random % (uint64_t)(left / 2 + 1));
    while (pause > 0 && !retry_cancelled(r)) {
        clock_sleep_ns(MIN(pause, SLICE_NS));
        pause -= SLICE_NS;
    }
    r->begun_ns = clock_mono_ns();
    return !retry_cancelled(r);
}
