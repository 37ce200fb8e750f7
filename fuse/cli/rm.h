/* SPDX-License-Identifier: Apache-2.0 */
/* rm — a directory and all that is in it. */
#ifndef MILLRACE_FUSE_CLI_RM_H
#define MILLRACE_FUSE_CLI_RM_H

#include "fuse/cli/place.h"
#include "fuse/cli/progress.h"

/* Removes a directory that place_stat() has seen, and all that is in it. What fails is told there,
 * and the rest goes on; -1: it could not be listed. */
int rm_tree(struct cli_place *at, struct progress *progress, struct err *e);

#endif
