/* SPDX-License-Identifier: Apache-2.0 */
/* pool — worker threads of one cache: they fetch ahead, write what was fetched, evict and move.
 * Threads start when there is work. */
#ifndef MILLRACE_LIB_BASE_POOL_H
#define MILLRACE_LIB_BASE_POOL_H

#include <stdbool.h>

struct pool; /* opaque */

enum pool_prio { POOL_LAND, POOL_FETCH, POOL_IDLE }; /* most urgent first */

struct pool *pool_new(unsigned max_threads); /* NULL: no memory */
/* Every job runs exactly once, also those that pool_free finds. -1: no memory, or stopping: the
 * caller does it or drops it. */
int pool_add(struct pool *p, enum pool_prio prio, void (*run)(void *arg), void *arg);
unsigned pool_queued(struct pool *p, enum pool_prio prio);
void pool_free(struct pool *p); /* runs what is queued, joins */

#endif
