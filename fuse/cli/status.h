/* SPDX-License-Identifier: Apache-2.0 */
/* status — a Dataset with all that belongs to it, as a document and as text. Pure. */
#ifndef MILLRACE_FUSE_CLI_STATUS_H
#define MILLRACE_FUSE_CLI_STATUS_H

#include "fuse/cli/facts.h"
#include "lib/base/buf.h"

/* One Dataset: its stores, numbers, pods, problems, and which of pods (of its namespace) wait.
 * Caller owns. */
json_t *status_document(const json_t *dataset, const struct facts *f, const json_t *pods);
/* The same for people, in lines of at most 100 columns. */
void status_print(const json_t *document, struct buf *out);

#endif
