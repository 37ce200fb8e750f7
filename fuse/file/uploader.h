/* SPDX-License-Identifier: Apache-2.0 */
/* uploader — the thread that uploads by itself: what failed before, what is held open and written
 * for long (an event log), and what a crash left behind. */
#ifndef MILLRACE_FUSE_FILE_UPLOADER_H
#define MILLRACE_FUSE_FILE_UPLOADER_H

#include "fuse/file/file.h"

struct uploader; /* opaque */
/* At the start, before the mount is served: recover.h. fs is borrowed. */
struct uploader *uploader_start(struct files *fs, struct err *e);
/* Before it is stopped: another process takes over, and what may wait (commit.h) is left to it. */
void uploader_leave(struct uploader *w);
void uploader_stop(struct uploader *w); /* tries once more what is dirty; NULL is fine */

#endif
