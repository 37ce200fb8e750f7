/* SPDX-License-Identifier: Apache-2.0 */
/* rm — a directory and all that is in it. */
#ifndef MILLRACE_FUSE_CLI_RM_H
#define MILLRACE_FUSE_CLI_RM_H

#include "fuse/cli/place.h"
#include "fuse/cli/progress.h"

#include "lib/base/map.h"

/* Removes a directory that place_stat() has seen, and all that is in it. What fails is told there,
 * and the rest goes on; -1: it could not be listed. only: names with their versions (char *);
 * another file or version stays and counts as failed; NULL: all. */
int rm_tree(struct cli_place *at, const struct map *only, struct progress *progress, struct err *e);

#endif
