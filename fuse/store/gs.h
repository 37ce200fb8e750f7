/* SPDX-License-Identifier: Apache-2.0 */
/* gs — Google Cloud Storage by its XML API: what S3 stores speak there (s3.google), in other words:
 * x-goog-… instead of x-amz-…, the generation of an object instead of its ETag, a token that is
 * lent instead of a signature. */
#ifndef MILLRACE_FUSE_STORE_GS_H
#define MILLRACE_FUSE_STORE_GS_H

#include "fuse/store/s3_identity.h"
#include "fuse/store/s3_sum.h"

/* -- words (gs_words.c), pure ------------------------------------------------------------------ */

#define GS_MARK_HEADER "x-goog-meta-millrace-upload"
#define GS_MODE_HEADER "x-goog-meta-mode"

/* A header line of S3's as Google has it; caller frees; NULL: it has none such. */
char *gs_line(const char *line);
/* Of "name: value\n" lines: the CRC32C of the whole object in base64, "" if it is not told. */
void gs_crc32c(const char *headers, char text[S3_SUM_TEXT + 1]);

/* -- as whom (gs_identity.c) ------------------------------------------------------------------- */

/* As s3_identity_get(), from what Google's tools and clusters have. S3_DOCUMENT, S3_WEB_IDENTITY
 * (web.arn: the audience of the provider), S3_INSTANCE or S3_NOBODY. */
int gs_identity_get(const struct store_params *p, struct s3_identity *out, struct err *e);

#endif
