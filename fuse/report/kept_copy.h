/* SPDX-License-Identifier: Apache-2.0 */
/* kept_copy — what is kept aside (fuse/file/kept.h), for those who must not wait for the disk that
 * it is on: whoever asks gets what a thread has seen of it just now, or, if that hangs, what was
 * seen before. Threads: any. Locks: kept_copy.mu, held over no look at the disk. */
#ifndef MILLRACE_FUSE_REPORT_KEPT_COPY_H
#define MILLRACE_FUSE_REPORT_KEPT_COPY_H

#include "fuse/file/kept.h"

struct kept_seen {
    struct kept kept;
    char *dir, *node_dir; /* "": none is kept; not in a pod, or not known */
};

struct kept_copy; /* opaque */
struct kept_copy *kept_copy_new(void);
void kept_copy_free(struct kept_copy *k); /* waits for no disk; NULL is fine */
/* stage_dir: NULL: nothing is seen. kept_seen_free() it. Takes two seconds at most. */
void kept_copy_get(struct kept_copy *k, const char *stage_dir, struct kept_seen *out);
void kept_seen_free(struct kept_seen *s);

#endif
