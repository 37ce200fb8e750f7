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
    l->trouble.asking++;
    l->trouble.asked_ns = clock_mono_ns();
    l->trouble.mount = mount;
    pthread_mutex_unlock(&l->mu);
}

void load_answered(struct load *l, bool asked, const struct err *e)
{
    pthread_mutex_lock(&l->mu);
    l->trouble.asking -= asked;
    if (e)
        report_problem_set(&l->trouble.refused, store_reason(e), e->msg);
    else
        l->trouble.refused = (struct report_problem){0};
    pthread_mutex_unlock(&l->mu);
}

bool load_waits_for(const struct load *l, struct report_problem *out)
{
    const struct load_trouble *t = &l->trouble;
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

int load_wait_ready(struct load *l, int64_t wait_ns, struct err *e)
{
    struct server *s = l->s;
    for (int64_t until = clock_mono_ns() + wait_ns;;) {
        if (server_ready(s))
            return 0;
        pthread_mutex_lock(&s->mu);
        struct report_problem t = s->whole;
        for (size_t i = 0; s->conf && !*t.reason && i < s->conf->nmounts; i++)
            t = s->mounts[i];
        pthread_mutex_unlock(&s->mu);
        if (!s->conf)
            return err_set(e, ERR_INVALID, "%s", t.message);
        if (clock_mono_ns() >= until)
            return err_set(e, ERR_RETRY, "the store can't be used: %s: %s", t.reason, t.message);
        if (!load_pause(l, 200 * NS_PER_MS))
            return err_set(e, ERR_RETRY, "stopped before the end");
    }
}
