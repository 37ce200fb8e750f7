/* SPDX-License-Identifier: Apache-2.0 */
/* orphan — ends a mount of which all servers were killed at once. Whoever has the fuse fd open
 * keeps the connection, and the process that tells the kernel of changed names (session/invalidate)
 * may wait there, beyond the reach of any signal, for a directory that is locked by a caller who
 * waits for an answer: both for ever. A process of its own, without that fd, sees that the others
 * are gone, and aborts the connection. */
#ifndef MILLRACE_FUSE_PROCESS_ORPHAN_H
#define MILLRACE_FUSE_PROCESS_ORPHAN_H

/* For the FUSE file system at `point`, an absolute path without links. Returns a descriptor that
 * nothing is written to: once no process has it any more, the mount is aborted. -1: there is no
 * such mount, or no process could be made. */
int orphan_watch(const char *point);

#endif
