/* SPDX-License-Identifier: Apache-2.0 */
/* pool — threads that run jobs from a few queues, the lanes: lane 0 before lane 1 and so on, first
 * in first out within one. Threads start when there is work for them, with 512 KiB of stack.
 * Threads: any. */
#ifndef MILLRACE_LIB_BASE_POOL_H
#define MILLRACE_LIB_BASE_POOL_H

#define POOL_LANES 3

struct pool; /* opaque */

struct pool_conf {
    const char *name;   /* of the threads: at most 15 bytes; borrowed */
    unsigned threads;   /* at most */
    unsigned queue_max; /* so many jobs wait at most, then pool_add does; 0: no limit */
    /* So many jobs of the lane may wait for each thread that is running one of them before another
     * thread is woken: short jobs are done sooner one after the other. 0: one is woken for each. */
    unsigned batch[POOL_LANES];
};

struct pool *pool_new(const struct pool_conf *conf); /* NULL: no memory */
/* Every job runs exactly once, also those that pool_free finds. -1: no memory, or not one thread
 * could be started: the caller does it or drops it. Not from a job of a pool with a queue_max. */
int pool_add(struct pool *p, unsigned lane, void (*run)(void *arg), void *arg);
unsigned pool_queued(struct pool *p, unsigned lane); /* jobs that wait */
/* Runs what is queued, and joins. No thread may add any more; a job that does gets -1. */
void pool_free(struct pool *p);

#endif
