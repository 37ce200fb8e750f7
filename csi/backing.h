/* SPDX-License-Identifier: Apache-2.0 */
/* backing — the backing files of one FUSE connection: which id the kernel gave to which file. An id
 * outlives the client that asked for it, and this process: one inode takes one id at a time, so the
 * next client must get the same one again. Hence a log in the state directory, replayed after a
 * restart. It needs no fsync: ids die with the kernel. An id is the kernel's until it was closed as
 * often as it was given out: two inodes may be served from one file, and a close may be overtaken
 * by the next open. The log is as long as what it holds, some times over: what a client does often
 * does not fill the node's disk, nor the memory of the next plugin. Not locked: only the thread of
 * its mount (handoff.h) uses it. */
#ifndef MILLRACE_CSI_BACKING_H
#define MILLRACE_CSI_BACKING_H

#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct backing; /* opaque */
/* path: the log. max: ids at a time. */
struct backing *backing_new(const char *path, size_t max);
int backing_load(struct backing *b, struct err *e); /* after a restart: the same connection */
/* Loads a log from there, line by line. */
int backing_replay(struct backing *b, FILE *log, struct err *e);
void backing_reset(struct backing *b); /* a new connection: no ids; removes the log */
void backing_free(struct backing *b);  /* keeps the log; NULL is fine */

/* The id (> 0) of the file behind fd on the connection fuse_fd, or -errno: EPERM for a file that
 * this client may not register, ENFILE for too many, EMFILE for one that was given out too often.
 * Only regular, readable files of `owner` on the file system `dev` (that of its cache directory):
 * the kernel opens the file again with the rights of whoever registers it, so this is what keeps a
 * client to its own files. */
int64_t backing_open(struct backing *b, int fuse_fd, int fd, dev_t dev, uid_t owner);
/* ids that are not in the table are ignored */
void backing_close(struct backing *b, int fuse_fd, int64_t id);
/* A client tells which ids it holds, as often as it got each: backing_claim_none(), one
 * backing_claim() each, then backing_claimed(): closes all others. */
void backing_claim_none(struct backing *b);
void backing_claim(struct backing *b, int64_t id);
void backing_claimed(struct backing *b, int fuse_fd);
size_t backing_count(const struct backing *b);

#endif
