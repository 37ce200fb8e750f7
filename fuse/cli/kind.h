/* SPDX-License-Identifier: Apache-2.0 */
/* kind — "tfjob/mnist", "mds/imagenet": what a person writes of an object. Pure. */
#ifndef MILLRACE_FUSE_CLI_KIND_H
#define MILLRACE_FUSE_CLI_KIND_H

#include "lib/base/err.h"

/* JOB: whatever has pods */
enum cli_kind { CLI_KIND_ANY, CLI_KIND_POD, CLI_KIND_JOB, CLI_KIND_DATASET, CLI_KIND_DATALOAD };

/* "NAME" (ANY) or "KIND/NAME"; *name points into what. INVALID: the kind is not known. */
int cli_kind_split(const char *what, enum cli_kind *kind, const char **name, struct err *e);

#endif
