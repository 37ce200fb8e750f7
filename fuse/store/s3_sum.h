/* SPDX-License-Identifier: Apache-2.0 */
/* s3_sum — the checksums that S3 keeps beside an object (x-amz-checksum-…) and that can be put
 * together from those of its parts. Pure, but for s3_sum_fd. */
#ifndef MILLRACE_FUSE_STORE_S3_SUM_H
#define MILLRACE_FUSE_STORE_S3_SUM_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum s3_sum { S3_SUM_NONE, S3_SUM_CRC32C, S3_SUM_CRC64NVME };

#define S3_SUM_TEXT 16 /* base64 of 8 bytes and NUL, and room */

/* "CRC32C", as headers and elements name it; "" for none */
const char *s3_sum_name(enum s3_sum kind);
bool s3_sum_kind(const char *name, enum s3_sum *kind); /* in any case of letters; false: unknown */
/* of what was summed up to now (0 at first) and the data behind it */
uint64_t s3_sum_add(enum s3_sum kind, uint64_t sum, const void *data, size_t len);
/* of two pieces one behind the other; len: of the second */
uint64_t s3_sum_join(enum s3_sum kind, uint64_t first, uint64_t second, uint64_t len);
void s3_sum_text(enum s3_sum kind, uint64_t sum, char text[S3_SUM_TEXT]);
/* "x-amz-checksum-crc32c: <value>"; value NULL: the name alone; caller frees */
char *s3_sum_header(enum s3_sum kind, const char *value);
/* by pread; -1: it cannot be read, or ends before */
int s3_sum_fd(enum s3_sum kind, int fd, uint64_t off, uint64_t len, uint64_t *sum, struct err *e);

#endif
