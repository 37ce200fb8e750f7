/* SPDX-License-Identifier: Apache-2.0 */
/* disk — a directory as a disk that forgets. The program is linked with --wrap for the system calls
 * that change files: each counts, and the process may be ended at the n-th of them (a kill). After
 * that, or at any time, the power may be cut: of every page that was written and not flushed either
 * what was there before or the new one is left, of sizes and times likewise, and names are as they
 * were at some moment since the last flush, as with a journal that orders them. An fsync of a file
 * flushes it and all changes of names before it, as ext4 and XFS do.
 *
 * The files are real ones of a tmpfs; what would be on the disk is beside them. Processes of one
 * disk follow each other; what they share is in struct disk, in shared memory. */
#ifndef MILLRACE_TESTS_SIM_DISK_H
#define MILLRACE_TESTS_SIM_DISK_H

#include <stdbool.h>
#include <stdint.h>

#define DISK_PATH  192
#define DISK_NAMES 512
#define DISK_LOG   4096

enum disk_op { DISK_CREATE, DISK_LINK, DISK_RENAME, DISK_UNLINK, DISK_MKDIR };

struct disk_name {
    char path[DISK_PATH]; /* below the disk's directory */
    uint64_t ino;         /* 0: a directory */
};

struct disk {
    char root[DISK_PATH], shadow[DISK_PATH];
    /* of this life of the process */
    uint64_t ops, die_at; /* 0: never */
    bool torn;            /* half of the write that it dies at is done */
    /* names: as they were flushed at first, and what was done since */
    struct disk_name names[DISK_NAMES];
    unsigned nnames;
    struct {
        enum disk_op op;
        uint64_t ino;
        char a[DISK_PATH], b[DISK_PATH];
    } log[DISK_LOG];
    unsigned nlog, flushed; /* the first `flushed` are on the disk for sure */
};

#define DISK_KILLED 77 /* exit status of a process that died at die_at */

/* Makes root and shadow, unless they are there; d is in shared memory. */
void disk_init(struct disk *d, const char *dir);
/* What is there is on the disk, all of it. */
void disk_settle(struct disk *d);
/* Nothing is there, but for the directories below `keep`. */
void disk_clear(struct disk *d, const char *keep);
/* This process works on it; it dies at the n-th change. NULL: changes are nobody's business. */
void disk_use(struct disk *d);
/* The power goes; what comes back is in the same place. Called by nobody who uses it. */
void disk_cut(struct disk *d, uint64_t seed);
void disk_remove(struct disk *d);

uint64_t sim_random(uint64_t *state);

#endif
