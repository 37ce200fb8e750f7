/* SPDX-License-Identifier: Apache-2.0 */
/* profile — how the kernel is to treat a dataset. Sealed: it opens, reads again and lists again
 * what it knows without asking, at the speed of a local disk; but each file's bytes come to it
 * through this process the first time. Open: it asks at each open, and reads complete files of the
 * cache by itself. Small files gain by the first, large ones by the second, and what can be written
 * needs the second. */
#ifndef MILLRACE_FUSE_TREE_PROFILE_H
#define MILLRACE_FUSE_TREE_PROFILE_H

#include "fuse/store/store.h"
#include "lib/conf/conf.h"

#include <stdbool.h>

/* Sealed? What the configuration says, or what a page of each store's listing says. read_only: all
 * of it. file: where the choice is kept for a process that takes the mount over (resume): the
 * kernel cannot be told otherwise later. */
bool profile_sealed(const struct conf *conf, struct store *const *stores, bool read_only,
    const char *file, bool resume);

#endif
