/* SPDX-License-Identifier: Apache-2.0 */
/* store_watch — looks at the stores of a mount that a person made, each on a thread of its own,
 * until it has answered: one of several that cannot be reached is told in the status, and the
 * others serve. */
#ifndef MILLRACE_FUSE_PROCESS_STORE_WATCH_H
#define MILLRACE_FUSE_PROCESS_STORE_WATCH_H

#include "lib/base/err.h"
#include "lib/conf/conf.h"

#include <signal.h>

struct store_watch; /* opaque */
struct status;

/* Returns when each store has answered or failed; where one has failed, conf says of those that may
 * change or not that they may: nobody has seen what is in them. All is borrowed until
 * store_watch_stop. NULL: all have failed, and e is why the first has, or *stopping was set. */
struct store_watch *store_watch_start(struct conf *conf, const char *secrets_dir,
    struct status *status, const volatile sig_atomic_t *stopping, struct err *e);
/* NULL is fine. Waits for a look that is under way. */
void store_watch_stop(struct store_watch *w);

#endif
