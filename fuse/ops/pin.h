/* SPDX-License-Identifier: Apache-2.0 */
/* pin — answers PIN_IOCTL, see lib/base/ioctl.h. */
#ifndef MILLRACE_FUSE_OPS_PIN_H
#define MILLRACE_FUSE_OPS_PIN_H

#include "lib/base/err.h"
#include "lib/base/ioctl.h"

#include <stdbool.h>
#include <stdint.h>

struct fs;

/* Is it one that can be done? dir: it came on a directory. Pure. */
int pin_check(const struct pin_msg *m, bool dir, struct err *e);
/* Does it and fills in the answer. *ino: what it came on; then what it is about. */
int pin_do(struct fs *fs, uint64_t *ino, bool dir, struct pin_msg *m, struct err *e);

#endif
