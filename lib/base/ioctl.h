/* SPDX-License-Identifier: Apache-2.0 */
/* ioctl — what a user may ask of a mount by ioctl(2), which needs nothing but the mount and works
 * where that is read-only: the numbers and messages that the client answers and the CLI sends.
 * Messages are in native byte order. */
#ifndef MILLRACE_LIB_BASE_IOCTL_H
#define MILLRACE_LIB_BASE_IOCTL_H

#include <stdint.h>
#include <sys/ioctl.h>

/* -- hints ----------------------------------------------------------------------------------- */

/* A job says in which order it will read. HINT_IOCTL comes on a directory, the paths of the list
 * are relative to it, one a line. Lists are known by their sender's number: what comes with the
 * same number is appended. EINVAL: malformed; ENOTDIR. */
#define HINT_TEXT 16360
struct hint_msg {
    uint64_t list;   /* number that the sender chose, not likely to be another's */
    uint32_t len;    /* bytes of text */
    uint32_t unused; /* 0 */
    /* a piece of the list: lines may be cut between pieces, the last one ends in a newline */
    char text[HINT_TEXT];
};
#define HINT_IOCTL _IOW('m', 0x48, struct hint_msg)

/* -- pins ------------------------------------------------------------------------------------ */

/* What a user may ask for about a file's bytes in the cache of the node: fetch them, keep them
 * there, drop them. PIN_IOCTL comes on a file, or on a directory with a name in it, which opens
 * nothing and so does not count as reading. It tells nothing of what is in a file.
 *
 * One request moves at most PIN_PIECE bytes, so that it ends within the deadline of the store:
 * large files come in pieces. A pin is of the version of the file that is cached.
 *
 * Errors: ENOTTY unknown operation; EINVAL malformed; EISDIR a directory; EBUSY being written;
 * ESTALE removed; ENOSPC no room, or pins have what they may have (PIN_ASK tells); else what
 * reading it gives. */
#define PIN_PIECE (UINT64_C(16) << 20) /* bytes */
#define PIN_NAME  256

enum pin_op {
    PIN_ASK = 1, /* nothing but the answer */
    PIN_LOAD,    /* the range comes into the cache */
    PIN_SET,     /* the same, and the file is pinned: what is here of it, and what comes */
    PIN_CLEAR,   /* the file is not pinned, in whatever version; the answer is as it was before */
    /* its cached bytes go, if it is not pinned; what the store does not have yet stays */
    PIN_FREE,
    /* no file of the mount is pinned any more, removed ones included; on anything of the mount,
       without a name */
    PIN_CLEAR_ALL,
};
enum pin_state {
    PIN_PINNED = 1,
    PIN_STAGED = 2, /* written here, and open still: none of it is in the cache */
    PIN_UNSAVED = 4 /* the store does not have what was written last */
};

struct pin_msg {
    uint32_t op;       /* enum pin_op */
    uint32_t flags;    /* 0 */
    uint64_t off, len; /* bytes; PIN_LOAD and PIN_SET: at most PIN_PIECE of them */
    /* the answer */
    uint64_t size; /* of the file; PIN_CLEAR_ALL: no bytes, but how many files were pinned */
    /* bytes of the range that are in the cache now; PIN_FREE: of the file, that were and went */
    uint64_t cached;
    uint64_t pinned, most; /* bytes that all pins of this cache have, and may have at most */
    uint32_t state;        /* enum pin_state */
    uint32_t unused;       /* 0 */
    char name[PIN_NAME];   /* in the directory, with its NUL; "": the file itself */
};
#define PIN_IOCTL _IOWR('m', 0x49, struct pin_msg)

#endif
