/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/task.h"

#include "lib/base/clock.h"

#include <errno.h>

static void *task_thread(void *arg)
{
    struct task *t = arg;
    pthread_setname_np(pthread_self(), t->name);
    t->fn(t->user);
    return NULL;
}

int task_start_with(struct task *t, pthread_mutex_t *mu, const char *name, void (*fn)(void *user),
    void *user, struct err *e)
{
    *t = (struct task){
        .started = true, .mu = mu ? mu : &t->own, .name = name, .fn = fn, .user = user};
    pthread_mutex_init(&t->own, NULL);
    clock_cond_init(&t->wake);
    int rc = pthread_create(&t->thread, NULL, task_thread, t);
    if (rc == 0)
        return 0;
    t->started = false;
    pthread_mutex_destroy(&t->own);
    pthread_cond_destroy(&t->wake);
    return err_sys(e, rc, "start thread %s", name);
}

int task_start(struct task *t, const char *name, void (*fn)(void *user), void *user, struct err *e)
{
    return task_start_with(t, NULL, name, fn, user, e);
}

/* A borrowed mutex is the caller's to lock. */
static void own_lock(struct task *t)
{
    if (t->mu == &t->own)
        pthread_mutex_lock(&t->own);
}

static void own_unlock(struct task *t)
{
    if (t->mu == &t->own)
        pthread_mutex_unlock(&t->own);
}

bool task_wait(struct task *t, int64_t until_mono_ns)
{
    own_lock(t);
    int rc = until_mono_ns ? 0 : ETIMEDOUT;
    while (!atomic_load(&t->stop) && !t->woken && rc == 0)
        rc = clock_cond_wait(&t->wake, t->mu, until_mono_ns);
    t->woken = false;
    own_unlock(t);
    return atomic_load(&t->stop);
}

void task_wake(struct task *t)
{
    own_lock(t);
    t->woken = true;
    pthread_cond_signal(&t->wake);
    own_unlock(t);
}

void task_cancel(struct task *t)
{
    if (!t->started)
        return;
    pthread_mutex_lock(t->mu);
    atomic_store(&t->stop, true);
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(t->mu);
}

void task_stop(struct task *t)
{
    if (!t->started)
        return;
    task_cancel(t);
    pthread_join(t->thread, NULL);
    pthread_mutex_destroy(&t->own);
    pthread_cond_destroy(&t->wake);
    t->started = false;
}
