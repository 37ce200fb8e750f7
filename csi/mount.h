/* SPDX-License-Identifier: Apache-2.0 */
/* mount — the system calls on mounts. A call that may have to wait for a FUSE client (statfs, sync)
 * runs in a thread of its own and is given up after a deadline: the caller never hangs, and the
 * thread ends when the client answers or the mount is aborted. Deadlines are CLOCK_MONOTONIC ns.
 * Paths are absolute. */
#ifndef MILLRACE_CSI_MOUNT_H
#define MILLRACE_CSI_MOUNT_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/vfs.h>

#define MOUNT_TYPE "fuse.millrace"

/* Opens /dev/fuse and mounts it; *fuse_fd is the caller's. *dev: the mount's device number. */
int mount_fuse(const char *path, bool read_only, int *fuse_fd, dev_t *dev, struct err *e);
/* Mounts `from` at `to` as well, nosuid and nodev, with further MOUNT_ATTR_ at once if asked. */
int mount_bind(const char *from, const char *to, uint64_t attr, struct err *e);
/* Takes away everything that is mounted at path; lazily if it is busy. Nothing mounted there: fine.
 */
int mount_detach(const char *path, struct err *e);
/* Ends a FUSE mount: writes back what is dirty while the client still answers, until the deadline;
 * then whoever waits for the client gets an error, and the mount is taken away. flush false: at
 * once. */
int mount_end_fuse(const char *path, bool flush, int64_t deadline_ns, struct err *e);

/* Aborts the FUSE connection of that mount: whoever waits for it gets an error, also where a client
 * keeps the fuse fd. The dead mount stays. */
int mount_abort(const char *path, dev_t dev, struct err *e);

/* Is there a mount at path, and which? 1, 0, or -1 with *e. Asks the kernel's list, never the file
 * system. */
int mount_at(const char *path, dev_t *dev, bool *fuse, bool *read_only, struct err *e);
/* has that process a mount of this file system in sight? */
bool mount_seen_by(pid_t pid, dev_t dev);
/* RETRY/ETIMEDOUT: no answer in time. ENOTCONN in e->sys: a FUSE mount whose client is gone for
 * good. A file system is asked once at a time: who asks meanwhile waits for that answer. */
int mount_statfs(const char *path, int64_t deadline_ns, struct statfs *out, struct err *e);
int mount_read_ahead(dev_t dev, int64_t kib, struct err *e); /* only ever raises it */

#endif
