/* SPDX-License-Identifier: Apache-2.0 */
/* stage_sync — brings to the disk what was staged, for many at once: who asks while it is being
 * done for others shares the next round with all who came meanwhile, so that many small files cost
 * the disk little more than one. Threads: any; may take as long as the disk does. */
#ifndef MILLRACE_FUSE_FILE_STAGE_SYNC_H
#define MILLRACE_FUSE_FILE_STAGE_SYNC_H

#include "lib/base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct stage_syncing; /* who waits */

struct stage_sync {
    char *dir; /* of all the files: on one file system */
    pthread_mutex_t mu;
    pthread_cond_t ended;
    struct stage_syncing *waiting; /* mu */
    unsigned nwaiting;             /* mu */
    bool busy;                     /* mu: a round is under way */
    uint64_t rounds;               /* mu: so far */
    /* notes that went, see stage_sync_gone(), and how many of them are off the disk for sure */
    _Atomic uint64_t gone, settled;
};

void stage_sync_init(struct stage_sync *s, const char *dir);
void stage_sync_destroy(struct stage_sync *s);
/* What these files have by now (-1: none), and all names in the directory, is on the disk when it
 * returns. On failure it may be, or not. */
int stage_sync(struct stage_sync *s, int content, int note, struct err *e);
/* A note that was on the disk was removed, as the store has its content. What is removed or
 * renamed after that would come back by it after a power cut: so stage_sync_settle() is called
 * before anybody is told that it is done, and does nothing where there was no such note. */
void stage_sync_gone(struct stage_sync *s);
void stage_sync_settle(struct stage_sync *s);

#endif
