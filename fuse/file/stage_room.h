/* SPDX-License-Identifier: Apache-2.0 */
/* stage_room — the free space that writers leave on the disk of the staging directory: half of what
 * the cache leaves there. Before they are refused, the cache gives back what it has. */
#ifndef MILLRACE_FUSE_FILE_STAGE_ROOM_H
#define MILLRACE_FUSE_FILE_STAGE_ROOM_H

#include "fuse/file/file.h"

/* Of all files of a mount; zero is one that has not looked yet. */
struct stage_room {
    pthread_mutex_t mu;       /* who has it looks, or waits for room */
    _Atomic int64_t left;     /* bytes that may be written before the next look */
    _Atomic int64_t until_ns; /* monotonic: when the next look is due */
    _Atomic bool refused;     /* there was none in the end: nobody waits until there is some */
};

/* So many bytes are to be written: may wait a few seconds for the cache to make room for them.
 * ENOSPC, in words: it could not. */
int stage_room_take(struct files *fs, uint64_t bytes, struct err *e);
/* What could be written now, in bytes: what the disk has free, and what the cache would give. */
uint64_t stage_room_left(struct files *fs);

#endif
