/* SPDX-License-Identifier: Apache-2.0 */
/* small — which files are fetched whole, before a reader asks for their bytes. */
#ifndef MILLRACE_FUSE_PREFETCH_SMALL_H
#define MILLRACE_FUSE_PREFETCH_SMALL_H

#include "fuse/index/index.h"

bool prefetch_is_small(const struct inode *n);

#endif
