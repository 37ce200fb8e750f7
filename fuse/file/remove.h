/* SPDX-License-Identifier: Apache-2.0 */
/* remove — names that go, while their files may be open. */
#ifndef MILLRACE_FUSE_FILE_REMOVE_H
#define MILLRACE_FUSE_FILE_REMOVE_H

#include "fuse/file/file.h"

/* Before a removal: fetches all of it, so that those who have it open, but for `own` opens, can go
 * on reading. f->state_lock is held. */
int file_preserve(struct file *f, unsigned own, struct err *e);

#endif
