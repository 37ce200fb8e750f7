/* SPDX-License-Identifier: Apache-2.0 */
/* What a test does to the calls of a store in memory: they fail, wait and are counted. */
#include "tests/fake/store_inside.h"

void fake_store_fail(struct fake_store *f, enum fake_call call, enum err_class cls, int sys,
    unsigned skip, unsigned times)
{
    pthread_mutex_lock(&f->mu);
    f->on[call].cls = cls;
    f->on[call].sys = sys;
    f->on[call].skip = skip;
    f->on[call].fail = times;
    pthread_mutex_unlock(&f->mu);
}

void fake_store_lose_answer(struct fake_store *f)
{
    pthread_mutex_lock(&f->mu);
    f->lose_answer = true;
    pthread_mutex_unlock(&f->mu);
}

void fake_store_heed_cancel(struct fake_store *f)
{
    pthread_mutex_lock(&f->mu);
    f->heed_cancel = true;
    pthread_mutex_unlock(&f->mu);
}

void fake_store_leave_unasked(struct fake_store *f)
{
    pthread_mutex_lock(&f->mu);
    f->unasked = true;
    pthread_mutex_unlock(&f->mu);
}

void fake_store_hold(struct fake_store *f, enum fake_call call)
{
    pthread_mutex_lock(&f->mu);
    f->on[call].held = true;
    pthread_mutex_unlock(&f->mu);
}

void fake_store_hold_answer(struct fake_store *f, enum fake_call call)
{
    pthread_mutex_lock(&f->mu);
    f->on[call].late = true;
    pthread_mutex_unlock(&f->mu);
}

void fake_store_wait_held(struct fake_store *f)
{
    pthread_mutex_lock(&f->mu);
    while (!f->waiting)
        pthread_cond_wait(&f->changed, &f->mu);
    pthread_mutex_unlock(&f->mu);
}

void fake_store_go_on(struct fake_store *f, enum fake_call call)
{
    pthread_mutex_lock(&f->mu);
    f->on[call].held = false;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mu);
}

void fake_store_go(struct fake_store *f)
{
    pthread_mutex_lock(&f->mu);
    for (int i = 0; i < FAKE_CALLS; i++)
        f->on[i].held = f->on[i].late = f->on[i].kept = false;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mu);
}

unsigned fake_store_calls(struct fake_store *f, enum fake_call call)
{
    pthread_mutex_lock(&f->mu);
    unsigned n = f->on[call].calls;
    pthread_mutex_unlock(&f->mu);
    return n;
}

void fake_store_set_mtime(struct fake_store *f, int64_t mtime_ns)
{
    pthread_mutex_lock(&f->mu);
    f->mtime_ns = mtime_ns;
    pthread_mutex_unlock(&f->mu);
}

void fake_store_set_page(struct fake_store *f, size_t entries)
{
    pthread_mutex_lock(&f->mu);
    f->page = entries;
    pthread_mutex_unlock(&f->mu);
}
