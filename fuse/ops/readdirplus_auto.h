/* SPDX-License-Identifier: Apache-2.0 */
/* readdirplus_auto — shall listings come with attributes? Yes if programs look at the files of a
 * directory one by one after listing it, as `ls -l` does. A program that wants names only gets them
 * in a third of the time without, and the kernel keeps no inode (1.2 KB) for each. Look-ups in
 * directories that were listed a moment ago tell; listings with attributes cause none, so now and
 * then one goes without. Threads: any, without locks: a count that is lost does no harm. */
#ifndef MILLRACE_FUSE_OPS_READDIRPLUS_AUTO_H
#define MILLRACE_FUSE_OPS_READDIRPLUS_AUTO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define READDIRPLUS_AUTO_RECENT   16 /* directories that were listed a moment ago */
#define READDIRPLUS_AUTO_LOOKS    8  /* so many look-ups of files in them: yes */
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
