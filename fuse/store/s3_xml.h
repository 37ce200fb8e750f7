/* SPDX-License-Identifier: Apache-2.0 */
/* s3_xml — the XML an S3 server sends: errors, pages of listings, single values. Pure. What comes
 * from the network is not trusted: no document types, bounded depth and text, and whatever does not
 * parse is an error. */
#ifndef MILLRACE_FUSE_STORE_S3_XML_H
#define MILLRACE_FUSE_STORE_S3_XML_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bytes: 1,000 keys of 1,024 bytes, percent-encoded, and room */
#define S3_PAGE_BODY_MAX (8u << 20)

#define S3_REGION_MAX    40 /* NUL included */

struct s3_fault {
    char code[64]; /* "NoSuchKey"; "" if the text was no S3 error */
    char message[200];
    char region[S3_REGION_MAX]; /* of PermanentRedirect, AuthorizationHeaderMalformed */
};
/* True if the text is an <Error> document, by itself or in an <ErrorResponse>, there also in its
 * <Errors>; out is always initialised. */
bool s3_xml_fault(const char *text, size_t len, struct s3_fault *out);

struct s3_item {
    char *key;      /* decoded; NULL if it cannot be (a NUL in it) */
    bool is_prefix; /* of CommonPrefixes: key ends in the delimiter */
    uint64_t size;
    int64_t mtime_ns;
    char *etag;       /* as sent, with its quotes; NULL if absent */
    char *generation; /* Google's; NULL if absent */
};
struct s3_page {
    struct s3_item *items;
    size_t n;
    char *next; /* continuation token; NULL at the end */
};
/* RETRY: malformed, so perhaps cut */
int s3_xml_page(const char *text, size_t len, struct s3_page *out, struct err *e);
void s3_page_free(struct s3_page *page);

/* Credentials in an answer of AWS' Security Token Service; caller frees; token may be NULL. until:
 * their end as sent, "" if absent. False: there are none. */
bool s3_xml_keys(
    const char *text, size_t len, char **id, char **secret, char **token, char until[40]);

/* Text of the first element of that name inside <root>; caller frees; NULL if there is none or it
 * does not parse. */
char *s3_xml_text(const char *text, size_t len, const char *root, const char *element);

#endif
