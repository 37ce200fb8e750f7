/* SPDX-License-Identifier: Apache-2.0 */
/* Names in S3: of a bucket and its prefix in a URL, of keys, of versions. Pure. */
#include "fuse/store/s3.h"

#include "lib/base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "bucket/prefix/" → bucket, prefix with one slash at its end. */
int s3_url_parse(const char *rest, char **bucket, char **prefix, const char **problem)
{
    size_t n = strcspn(rest, "/");
    *bucket = *prefix = NULL;
    *problem = NULL;
    if (n == 0)
        *problem = "the bucket is missing";
    else if (n < 3 || n > 255)
        *problem = "a bucket's name has 3 to 63 characters";
    for (size_t i = 0; i < n && !*problem; i++)
        if (!isalnum((unsigned char)rest[i]) && !strchr("-._", rest[i]))
            *problem = "a bucket's name has only letters, digits, '-', '.' and '_'";
    const char *p = rest + n;
    while (*p == '/')
        p++;
    size_t len = strlen(p);
    while (len && p[len - 1] == '/')
        len--;
    char *clean = len ? xasprintf("%.*s/", (int)len, p) : xstrdup("");
    if (len) {
        clean[len] = '\0';
        if (!*problem && (len > 900 || !store_path_ok(clean)))
            *problem = "the prefix is not a path of names with single slashes between";
        clean[len] = '/';
    }
    if (*problem) {
        free(clean);
        return -1;
    }
    *bucket = xstrndup(rest, n);
    *prefix = clean;
    return 0;
}

char *s3_key(const struct s3 *s, const char *path) { return xasprintf("%s%s", s->prefix, path); }

char *s3_name(const struct s3 *s, const char *key)
{
    return xasprintf("%s://%s/%s", s->params.kind->scheme, s->bucket, key);
}

char *s3_copy_source(const struct s3 *s, const char *key)
{
    cleanup_free char *escaped = http_escape(key, true);
    return xasprintf("x-amz-copy-source: /%s/%s", s->bucket, escaped);
}

void s3_version(const char *etag, uint64_t size, int64_t mtime_ns, char out[STORE_VERSION_MAX])
{
    size_t n = etag ? strlen(etag) : 0;
    if (n >= 2 && etag[0] == '"' && etag[n - 1] == '"') {
        etag++;
        n -= 2;
    }
    /* a server without ETags; never sent as If-Match, as no ETag has this form. Answers tell whole
     * seconds. */
    if (n == 0)
        snprintf(out, STORE_VERSION_MAX, "~%llu-%lld", (unsigned long long)size,
            (long long)(mtime_ns / NS_PER_S));
    else if (n < STORE_VERSION_MAX && etag[0] != 'W' && etag[0] != '~' && http_is_word(etag, n))
        snprintf(out, STORE_VERSION_MAX, "%.*s", (int)n, etag);
    else { /* too long, weak or odd: its digest tells versions apart as well */
        char hex[SIGV4_HEX_LEN];
        sigv4_sha256(etag, n, hex);
        snprintf(out, STORE_VERSION_MAX, "~%s", hex);
    }
}

bool s3_note_hides(const char *name) { return strcmp(name, S3_LINKS_NOTE) == 0; }

bool s3_may_be_link(uint64_t size) { return size > 0 && size <= STORE_LINK_MAX; }
