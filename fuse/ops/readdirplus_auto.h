/* SPDX-License-Identifier: Apache-2.0 */
/* readdirplus_auto — do those who list directories look at the files next, one by one, as `ls -l`
 * does? Then listings come with attributes. Who wants names only has them in a third of the time
 * without, and the kernel keeps no inode (1.2 KB) for each. It is seen from look-ups in what was
 * listed a moment ago; with attributes there are none, so now and then a listing goes without, to
 * see. Threads: any, without locks: a count that is lost now and then does no harm. */
#ifndef MILLRACE_FUSE_OPS_READDIRPLUS_AUTO_H
#define MILLRACE_FUSE_OPS_READDIRPLUS_AUTO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define READDIRPLUS_AUTO_RECENT   16 /* directories that were listed a moment ago */
#define READDIRPLUS_AUTO_LOOKS    8  /* look-ups of files in them: somebody does it */
#define READDIRPLUS_AUTO_LISTINGS 64 /* come with attributes then */

struct readdirplus_auto {                             /* zero: nothing is known */
    _Atomic uint64_t recent[READDIRPLUS_AUTO_RECENT]; /* 0: none */
    _Atomic unsigned next, looks;
    _Atomic int left; /* listings to come with attributes */
};

/* A directory is listed from its beginning: with the attributes of its files? */
bool readdirplus_auto_listed(struct readdirplus_auto *h, uint64_t dir);
void readdirplus_auto_looked_up(
    struct readdirplus_auto *h, uint64_t dir); /* a file of it was looked up */

#endif
