/* SPDX-License-Identifier: Apache-2.0 */
/* status — what the client says of itself: /healthz, /readyz and /status (JSON) over HTTP, and
 * metrics on a port of their own. Threads: any. Locks: status.mu, a leaf. */
#ifndef MILLRACE_FUSE_REPORT_STATUS_H
#define MILLRACE_FUSE_REPORT_STATUS_H

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/conf/conf.h"

#include <sys/types.h>

struct status; /* opaque */
struct cache;
struct peers;
struct inodes;
struct backings;
struct hints;
struct stalls;

struct sign_key;
struct status *status_new(void);
void status_free(struct status *s);
/* Serves it at address (NULL: on port PORT_HTTP of all addresses; "": nowhere), and the metrics, as
 * scrape_start. An address that is taken is logged, not an error. */
void status_listen(struct status *s, const char *address, const char *metrics);
void status_conf(struct status *s, const struct conf *conf); /* borrowed */
struct status_sources {
    struct cache *cache; /* all borrowed */
    struct peers *peers;
    struct inodes *inodes;
    struct hints *hints;
    struct stalls *stalls;
    const char *stage_dir;
};
/* copied; NULL: none any more */
void status_data(struct status *s, const struct status_sources *from);
/* backings: borrowed; NULL: none */
void status_profile(struct status *s, bool sealed, struct backings *backings);
/* what the kernel's FUSE can do */
void status_kernel(struct status *s, bool passthrough, bool resend);
/* the mount died at that time (seconds since the epoch) and was made again */
void status_lost(struct status *s, int64_t at_s, const char *why);
/* as a whole: not ready */
void status_fail(struct status *s, const char *reason, const char *message);
/* reason "": ready */
void status_mount(struct status *s, size_t mount, const char *reason, const char *message);
/* all mounts answered */
void status_ready(struct status *s);
void status_serving(struct status *s, bool serving);
/* Whoever has it is told all at /status, and strangers less. It is borrowed; NULL: all are told
 * all. */
void status_key(struct status *s, const struct sign_key *key);
void status_json(struct status *s, struct buf *out); /* all */
/* The sentence of mount_why.h for the process pid, of which error (NULL: none) is the last of a
 * file. Asks who pid is: blocks. */
void status_why(
    struct status *s, pid_t pid, const char *error, int64_t error_age_ns, struct buf *out);

#endif
