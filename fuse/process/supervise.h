/* SPDX-License-Identifier: Apache-2.0 */
/* supervise — process 1 of the client: keeps the mount, starts the serving process, and starts
 * another one within milliseconds when a signal killed it. It does nothing else, so there is
 * nothing in it that could fail. */
#ifndef MILLRACE_FUSE_PROCESS_SUPERVISE_H
#define MILLRACE_FUSE_PROCESS_SUPERVISE_H

#include "fuse/process/client.h"

#include <stdbool.h>

int supervise_run(const struct client_options *o, bool daemonize); /* exit status */

#endif
