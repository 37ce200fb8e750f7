/* SPDX-License-Identifier: Apache-2.0 */
/* cached — what a mount says of a file: how much of it this node has, and whether the store has it.
 */
#ifndef MILLRACE_FUSE_CLI_CACHED_H
#define MILLRACE_FUSE_CLI_CACHED_H

#include <stdbool.h>
#include <stdint.h>

struct cached {
    bool known;             /* else it is on no mount of ours, or its client did not say */
    int errnum;             /* of what is not known: why */
    uint64_t size, bytes;   /* of the file; of those, what is in the cache of this node */
    bool pinned, persisted; /* persisted: the store has all that was written */
};

/* Asks of many files of a tree; not from two threads. Opens nothing but directories. */
struct cached_ask {
    char *dir; /* that fd is open for */
    int fd;
};
#define CACHED_ASK_INIT \
    {                   \
        NULL, -1        \
    }
void cached_ask(struct cached_ask *a, const char *path, struct cached *out);
void cached_ask_end(struct cached_ask *a);
#define cleanup_cached_ask __attribute__((cleanup(cached_ask_end)))

/* "100%" of an empty file, 99 at most of one that is not all there. */
unsigned cached_percent(const struct cached *c);

#endif
