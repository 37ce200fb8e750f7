/* SPDX-License-Identifier: Apache-2.0 */
/* location — where the bytes of a file are, as the attribute XATTR_LOCATION says it. */
#ifndef MILLRACE_FUSE_OPS_LOCATION_H
#define MILLRACE_FUSE_OPS_LOCATION_H

#include "lib/base/buf.h"
#include "lib/base/err.h"

#include <stdint.h>

struct fs;

/* Asks cache workers, for some seconds at most. EISDIR; ESTALE: it is gone. */
int location_json(struct fs *fs, uint64_t ino, struct buf *out, struct err *e);

#endif
