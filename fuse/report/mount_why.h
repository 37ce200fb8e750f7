/* SPDX-License-Identifier: Apache-2.0 */
/* mount_why — the extended attribute user.millrace.why: one sentence that says why reads of this
 * mount are slow, for a person without our programs at hand. Pure. */
#ifndef MILLRACE_FUSE_REPORT_MOUNT_WHY_H
#define MILLRACE_FUSE_REPORT_MOUNT_WHY_H

#include "fuse/cache/cache.h"
#include "fuse/peers/peers.h"
#include "fuse/report/stall.h"
#include "lib/base/buf.h"

struct mount_facts {
    bool ready;
    const char *reason, *message; /* what is wrong with the mount as a whole; "" if nothing is */
    const char *error;            /* the last one of a file; NULL: none lately */
    int64_t error_age_ns;
    int64_t window_ns;         /* what `recent` is of */
    struct stall_times recent; /* of the caller, or of the one that waited longest */
    bool own;                  /* of the caller */
    struct cache_stats cache;  /* since the mount began, as the next two */
    struct peers_stats reads;
    uint64_t pending_files; /* that the store does not have yet */
};
void mount_why(const struct mount_facts *f, struct buf *out);

#endif
