/* SPDX-License-Identifier: Apache-2.0 */
/* each — the same for many things, several at a time: questions to a store, whose answers take
 * longer than they are worth waiting for one by one. */
#ifndef MILLRACE_LIB_BASE_EACH_H
#define MILLRACE_LIB_BASE_EACH_H

#include "lib/base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Calls fn once for each index below n, on at most `threads` threads, of which this is one (with
 * fewer, if no more can be had); they work on what this one works on (progress.h). After a failure
 * no other is begun. -1: e is the first failure's. name: of the threads, at most 15 bytes. failed:
 * false before; true once one has failed and e is known, so that those that are under way can end;
 * NULL: nobody looks. */
int each(const char *name, size_t n, unsigned threads,
    int (*fn)(void *user, size_t i, struct err *e), void *user, atomic_bool *failed, struct err *e);

#endif
