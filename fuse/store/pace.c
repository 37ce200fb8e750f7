/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/pace.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

#define SLICE_NS (50 * NS_PER_MS) /* how soon a cancelled call notices */

void pace_init(struct pace *p, unsigned most)
{
    *p = (struct pace){.most = most, .window = most};
    pthread_mutex_init(&p->mu, NULL);
    clock_cond_init(&p->left);
}

void pace_fini(struct pace *p)
{
    pthread_mutex_destroy(&p->mu);
    pthread_cond_destroy(&p->left);
}

int64_t pace_enter(struct pace *p, int64_t until_ns, const atomic_bool *cancel)
{
    int64_t now = clock_mono_ns();
    pthread_mutex_lock(&p->mu);
    while (p->inside >= p->window && now < until_ns && !(cancel && atomic_load(cancel))) {
        clock_cond_wait(&p->left, &p->mu, MIN(until_ns, now + SLICE_NS));
        now = clock_mono_ns();
    }
    p->inside++;
    pthread_mutex_unlock(&p->mu);
    return now;
}

void pace_leave(struct pace *p, int64_t began_ns, bool is_throttled)
{
    pthread_mutex_lock(&p->mu);
    unsigned had = MIN(p->inside, p->window);
    if (is_throttled && began_ns > p->cut_ns) { /* those before it are of the crowd that was cut */
        p->window = MAX(1u, had / 2);
        p->grown = 0;
        p->cut_ns = clock_mono_ns();
    } else if (!is_throttled && p->window < p->most && ++p->grown >= p->window) {
        p->window++;
        p->grown = 0;
    }
    p->inside--;
    pthread_cond_signal(&p->left);
    pthread_mutex_unlock(&p->mu);
}
