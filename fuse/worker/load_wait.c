/* SPDX-License-Identifier: Apache-2.0 */
/* What loading waits for: a store that does not answer, or says no and is asked again. */
#include "fuse/worker/load_pass.h"

#include "lib/base/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define SLOW_NS (10 * NS_PER_S)

void load_asks(struct load *l, size_t mount)
{
    pthread_mutex_lock(&l->mu);
    l->waits.asking++;
    l->waits.asked_ns = clock_mono_ns();
    l->waits.mount = mount;
    pthread_mutex_unlock(&l->mu);
}

void load_answered(struct load *l, bool asked, const struct err *e)
{
    pthread_mutex_lock(&l->mu);
    l->waits.asking -= asked;
    if (e)
        report_problem_set(&l->waits.refused, store_reason(e), e->msg);
    else
        l->waits.refused = (struct report_problem){0};
    pthread_mutex_unlock(&l->mu);
}

bool load_waits_for(const struct load *l, struct report_problem *out)
{
    const struct load_waits *t = &l->waits;
    int64_t slow = t->slow_ns ? t->slow_ns : SLOW_NS, waited = clock_mono_ns() - t->asked_ns;
    if (*t->refused.reason) {
        *out = t->refused;
        return true;
    }
    if (!t->asking || waited < slow)
        return false;
    char text[sizeof out->message];
    snprintf(text, sizeof text,
        "%.200s has not answered a listing for %" PRId64
        " s or more: look at the store, and at the network to it; %" PRIu64
        " files are listed so far",
        l->s->conf->mounts[t->mount].mount_point, slow / NS_PER_S, l->n.files);
    report_problem_set(out, "StoreSlow", text);
    return true;
}
