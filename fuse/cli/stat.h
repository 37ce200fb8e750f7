/* SPDX-License-Identifier: Apache-2.0 */
/* stat — of what nobody named: the mounts of this machine. */
#ifndef MILLRACE_FUSE_CLI_STAT_H
#define MILLRACE_FUSE_CLI_STAT_H

#include "fuse/cli/cli.h"

/* stat_mounts.c: every mount of ours that this process sees */
int stat_mounts(bool json, struct err *e);

#endif
