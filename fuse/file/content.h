/* SPDX-License-Identifier: Apache-2.0 */
/* content — what a staged file holds, in a number: its note tells a successor by it whether a power
 * cut left all of it, and whether what the store has is an earlier state of it. */
#ifndef MILLRACE_FUSE_FILE_CONTENT_H
#define MILLRACE_FUSE_FILE_CONTENT_H

#include "fuse/store/store.h"

/* CRC32C of the first `size` bytes; a shorter file is an error. */
int content_crc(int fd, uint64_t size, uint32_t *crc, struct err *e);
/* The same of a file in a store: the version that st is of. */
int content_crc_stored(
    struct store *s, const char *path, const struct store_stat *st, uint32_t *crc, struct err *e);

#endif
