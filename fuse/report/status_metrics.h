/* SPDX-License-Identifier: Apache-2.0 */
/* status_metrics — the metrics of a client. Threads: any. */
#ifndef MILLRACE_FUSE_REPORT_STATUS_METRICS_H
#define MILLRACE_FUSE_REPORT_STATUS_METRICS_H

#include "fuse/report/status.h"

#include <stdbool.h>

/* Sets what is kept; appends what is not: callers come and go. */
void status_metrics_collect(
    const struct status_sources *from, bool ready, bool serving, struct buf *out);
/* Written content that went to no store: before status_metrics_collect(). */
void status_metrics_kept(uint64_t files, uint64_t bytes);

#endif
