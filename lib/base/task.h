/* SPDX-License-Identifier: Apache-2.0 */
/* task — one thread with a name that waits: it is woken, or its time comes, and it returns when it
 * is told to stop. A zeroed task is one that was never started. task_start and task_stop are called
 * by one thread at a time; between them, everything else by any. */
#ifndef MILLRACE_LIB_BASE_TASK_H
#define MILLRACE_LIB_BASE_TASK_H

#include "lib/base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TASK_FOREVER INT64_MAX

struct task {
    atomic_bool stop; /* read it, or borrow its address as a cancel flag; written by task.c only */
    bool started;     /* of task_start and task_stop */
    bool woken;       /* *mu */
    pthread_mutex_t own, *mu;
    pthread_cond_t wake;
    pthread_t thread;
    const char *name;
    void (*fn)(void *user);
    void *user;
};

/* Runs fn(user) on a thread of its own. name: in gdb, perf and top; at most 15 bytes; borrowed. */
int task_start(struct task *t, const char *name, void (*fn)(void *user), void *user, struct err *e);
/* The same for a thread that waits for state of the caller's: mu guards that state, and is held
 * around task_wait and task_wake, not around the others. */
int task_start_with(struct task *t, pthread_mutex_t *mu, const char *name, void (*fn)(void *user),
    void *user, struct err *e);

/* In the task: returns at task_wake (also an earlier one that no wait has seen), at until_mono_ns
 * (0: at once; TASK_FOREVER) or when it shall stop. true: stop. */
bool task_wait(struct task *t, int64_t until_mono_ns);
void task_wake(struct task *t);
/* The same as task_stop, but does not wait for the thread. */
void task_cancel(struct task *t);
/* Makes the waits return true, and joins. A task that was not started is fine. It can be started
 * again. */
void task_stop(struct task *t);

#endif
