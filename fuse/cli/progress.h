/* SPDX-License-Identifier: Apache-2.0 */
/* progress — a line on a terminal for what takes longer than a second: how much is done, how fast,
 * what is left. Nothing where stderr is no terminal. Threads: any. */
#ifndef MILLRACE_FUSE_CLI_PROGRESS_H
#define MILLRACE_FUSE_CLI_PROGRESS_H

#include "lib/base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define PROGRESS_NAMED 20 /* failures that are told in full */

struct progress {
    const char *doing; /* "copied" */
    pthread_mutex_t mu;
    int64_t began_ns, shown_ns;    /* mu; 0: nothing is shown */
    uint64_t files, bytes;         /* mu; done */
    uint64_t all_files, all_bytes; /* mu; of those found so far */
    bool found_all;                /* mu */
    uint64_t failed;               /* mu */
    bool terminal;
};

void progress_start(struct progress *p, const char *doing);
void progress_found(struct progress *p, uint64_t files, uint64_t bytes);
void progress_found_all(struct progress *p);
void progress_add(struct progress *p, uint64_t files, uint64_t bytes);
/* Says it at once, above the line; the first PROGRESS_NAMED of them. */
void progress_failed(struct progress *p, const struct err *e);
/* Something of a text of the caller's is about to be printed. */
void progress_hide(struct progress *p);
/* Takes the line away; how many failures there were. */
uint64_t progress_end(struct progress *p);
/* "1.50GiB of 3.00GiB (50 %), 120.00MiB/s, 12 s left"; caller frees. Pure. */
char *progress_line(const struct progress *p, int64_t now_ns);

#endif
