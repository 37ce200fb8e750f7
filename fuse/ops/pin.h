/* SPDX-License-Identifier: Apache-2.0 */
/* pin — what a user may ask for about a file's bytes in the cache of his node: bring them in, keep
 * them there, let them go. It comes by ioctl(2), PIN_IOCTL with a struct pin_msg, which needs
 * nothing but the mount and works where that is read-only: on a file, or on a directory with a name
 * in it, which opens nothing and so is nobody's reading. It tells nobody what is in a file.
 *
 * One request moves at most PIN_PIECE bytes, so that it ends within the deadline of the store:
 * large files come in pieces. A pin is of the version of the file that is cached.
 *
 * Errors: ENOTTY unknown operation; EINVAL malformed; EISDIR a directory; EBUSY being written;
 * ESTALE removed; ENOSPC no room, or pins have what they may have (PIN_ASK tells); else what
 * reading it gives. */
#ifndef MILLRACE_FUSE_OPS_PIN_H
#define MILLRACE_FUSE_OPS_PIN_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define PIN_PIECE (UINT64_C(16) << 20) /* bytes */
#define PIN_NAME  256

enum pin_op {
    PIN_ASK = 1, /* nothing but the answer */
    PIN_LOAD,    /* the range comes into the cache */
    PIN_SET,     /* the same, and the file is pinned: what is here of it, and what comes */
    PIN_CLEAR,   /* the file is not pinned, in whatever version; the answer is as it was before */
    /* its cached bytes go, if it is not pinned; what the store does not have yet stays */
    PIN_FREE,
    /* no file of the mount is pinned, also such that are gone; on anything of the mount, without a
       name */
    PIN_CLEAR_ALL,
};
enum pin_state {
    PIN_PINNED = 1,
    PIN_STAGED = 2 /* written here, and open still: none of it is in the cache */
};

struct pin_msg {       /* native byte order */
    uint32_t op;       /* enum pin_op */
    uint32_t flags;    /* 0 */
    uint64_t off, len; /* bytes; PIN_LOAD and PIN_SET: at most PIN_PIECE of them */
    /* the answer */
    uint64_t size; /* of the file */
    /* bytes of the range that are in the cache now; PIN_FREE: of the file, that were and went */
    uint64_t cached;
    uint64_t pinned, most; /* bytes that all pins of this cache have, and may have at most */
    uint32_t state;        /* enum pin_state */
    uint32_t unused;       /* 0 */
    char name[PIN_NAME];   /* in the directory, with its NUL; "": the file itself */
};
#define PIN_IOCTL _IOWR('m', 0x49, struct pin_msg)

struct fs;

/* Is it one that can be done? dir: it came on a directory. Pure. */
int pin_check(const struct pin_msg *m, bool dir, struct err *e);
/* Does it and fills in the answer. *ino: what it came on; then what it is about. */
int pin_do(struct fs *fs, uint64_t *ino, bool dir, struct pin_msg *m, struct err *e);

#endif
