/* SPDX-License-Identifier: Apache-2.0 */
/* hint — a job says in which order it will read, and finds the files here when it comes to them:
 * each list of paths is fetched just ahead of its reader, as far as cache and memory allow,
 * whatever profile the mount has.
 *
 * A list comes by ioctl(2) on a directory of the mount, HINT_IOCTL with a struct hint_msg: that
 * needs nothing but the mount, and works where it is read-only. Its paths are relative to that
 * directory, one a line. Lists are known by their sender's number: what comes with the same number
 * is appended. A list is forgotten once it was read to its end, when no reader followed it for
 * an hour, and with the mount: the job goes on without it. A process that takes the mount over goes
 * on with its lists.
 *
 * Threads: any. Locks: hints.adding (one text at a time), then hints.mu, under which inodes' lock
 * may be taken; never across I/O. */
#ifndef MILLRACE_FUSE_PREFETCH_HINT_H
#define MILLRACE_FUSE_PREFETCH_HINT_H

#include "lib/base/err.h"
#include "lib/base/ioctl.h"

#include <stdbool.h>
#include <stdint.h>

struct hints; /* opaque */
struct files;

struct hints_stats {
    uint64_t lists, entries; /* now; that came so far */
    uint64_t done, bytes;    /* entries looked after; bytes of them that were made ready */
    /* no such file; no path at all; the store or the cache failed */
    uint64_t missing, refused, failed;
    uint64_t followed; /* files that readers came to where a list said it */
    /* path of the latest list's first missing file, perhaps cut; "" none */
    char first_missing[256];
};

/* files: borrowed. dir: of the cache, for the lists' text. resume: with the lists that the process
 * before had; else they are removed. */
struct hints *hints_new(struct files *files, const char *dir, bool resume, struct err *e);
void hints_free(struct hints *h); /* ends its threads */
/* INVALID: a malformed message; NOTFOUND: no such directory; EXHAUSTED: no memory or disk for more.
 */
int hints_add(struct hints *h, uint64_t dir, const struct hint_msg *msg, struct err *e);
/* a reader begins with it; costs nothing without lists */
void hints_seen(struct hints *h, uint64_t ino);
void hints_stats(struct hints *h, struct hints_stats *out);

#endif
