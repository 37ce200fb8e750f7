/* SPDX-License-Identifier: Apache-2.0 */
/* digest — a sum over bytes as they come, as people compare files by it. */
#ifndef MILLRACE_FUSE_STORE_DIGEST_H
#define MILLRACE_FUSE_STORE_DIGEST_H

#include <stddef.h>

#define DIGEST_KINDS "sha256|md5|crc32c|crc64nvme"
#define DIGEST_TEXT  65 /* hexadecimal, of CRCs base64 as S3 shows them; with its NUL */

struct digest; /* opaque */

struct digest *digest_new(const char *kind);                 /* NULL: none of DIGEST_KINDS */
int digest_sink(void *digest, const void *data, size_t len); /* a sink_fn */
void digest_end(struct digest *d, char text[DIGEST_TEXT]);   /* and frees it */

#endif
