/* SPDX-License-Identifier: Apache-2.0 */
/* timed_call — calls that may never return, made on threads of their own. A file system whose
 * server is gone (NFS, SMB, FUSE, …) keeps whoever calls it in the kernel for as long as it likes.
 * Here that is a helper thread: the caller gets an error at the deadline, and the helper is left
 * alone until its call returns, cleans up and ends. Everything a call needs is in its job, which
 * belongs to one of the two at any time. While nothing returns, only a few callers at a time wait
 * for their deadline, to find out whether the file system is back; all others fail at once, and so
 * do all callers while too many helpers are stuck. The first call that returns, however late, ends
 * that. A change that was given up may still happen; it must not undo a later one, so no other
 * change is begun before it has returned. Threads: any. Locks: timed_calls.mu, a leaf, held neither
 * across run nor across drop.
 */
#ifndef MILLRACE_FUSE_STORE_TIMED_CALL_H
#define MILLRACE_FUSE_STORE_TIMED_CALL_H

#include "lib/base/err.h"
#include "lib/base/progress.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct timed_calls; /* opaque */

struct timed_conf {
    /* copied; for messages: "the file system of <name> has not answered since …" */
    const char *name;
    unsigned max_stuck;  /* helpers in calls that were given up; 0: 64 */
    unsigned max_trying; /* callers that wait though nothing returns; 0: 4 */
};
struct timed_calls *timed_calls_new(const struct timed_conf *conf);
/* No call may be under way. Waits for no helper that is stuck: the last of them frees what is left.
 */
void timed_calls_free(struct timed_calls *g);

/* The first member of what the call works on; zeroed but for what is said here. */
struct timed_job {
    /* on a helper, all signals blocked; touches nothing but the job */
    void (*run)(struct timed_job *job);
    void (*drop)(struct timed_job *job); /* frees the job and closes what is open in it */
    const char *what;                    /* for messages; the job's own */
    bool change;                         /* of what others see in the file system */
    bool goes_on;                        /* the rest of something that is open: never refused */
    /* the deadline is so short that to miss it says nothing about the file system */
    bool brief;
    /* set for run, which should look at it between its steps and then do no more of them */
    atomic_bool given_up;
    bool done; /* timed_call's own, as all below; timed_calls.mu */
    pthread_cond_t finished;
    struct progress_things progress; /* the caller's */
};

/* Runs a job. 0: run has returned, and the job is the caller's again. -1: it has not by until_ns
 * (monotonic), *cancel was set meanwhile (it may be NULL), or it was refused: drop is called once
 * it is certain that run does not use the job any more, perhaps never. e as that of other stores:
 * RETRY, sys EIO, Unreachable at the deadline; RETRY, sys ECANCELED; RETRY, sys EIO without a
 * thread. */
int timed_call(struct timed_calls *g, struct timed_job *job, int64_t until_ns,
    const atomic_bool *cancel, struct err *e);

struct timed_stats {
    unsigned threads, stuck; /* helpers, and those of them in calls that were given up */
    bool silent;             /* nothing has returned for a whole deadline */
};
void timed_calls_stats(struct timed_calls *g, struct timed_stats *out);

#endif
