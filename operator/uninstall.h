/* SPDX-License-Identifier: Apache-2.0 */
/* uninstall — who would be left without an operator. */
#ifndef MILLRACE_OPERATOR_UNINSTALL_H
#define MILLRACE_OPERATOR_UNINSTALL_H

#include "lib/base/buf.h"
#include "lib/kube/kube.h"

#include <stdbool.h>

struct uninstall_scope {
    const char *ns;   /* NULL: all namespaces; of others Datasets with our finalizer count */
    bool tfjobs;      /* ours, too */
    const char *keep; /* the command that keeps the release; "": it is not known */
};

/* Appends to out, in words, whose Datasets there are, and whose DataLoads and TFJobs have not
 * ended; nothing where there are none. -1: it cannot be known. */
int uninstall_check(
    struct kube *k, const struct uninstall_scope *scope, struct buf *out, struct err *e);

#endif
