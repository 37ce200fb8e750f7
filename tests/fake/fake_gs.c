/* SPDX-License-Identifier: Apache-2.0 */
/* fake_s3 as Google Cloud Storage's XML API: what it documents of tokens, generations and headers,
 * and nothing of S3's words. No real Google has judged it. */
#include "tests/fake/fake_s3_ops.h"

#include "fuse/store/s3_sum.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fake_s3_google(struct fake_s3 *f, const char *token)
{
    pthread_mutex_lock(&f->mu);
    f->google = true;
    snprintf(f->token, sizeof f->token, "%s", token);
    pthread_mutex_unlock(&f->mu);
}

/* "name: value" of S3's with that value; the generation takes the place of the ETag. */
static void add_line(struct buf *out, const char *name, const char *value, size_t n)
{
    static const char conditional[] = "x-goog-if-generation-match";
    if (strcmp(name, conditional) == 0 && n == 1 && *value == '0')
        buf_adds(out, "if-none-match: *\n");
    else if (strcmp(name, conditional) == 0)
        buf_addf(out, "if-match: \"%.*s\"\n", (int)n, value);
    else if (strcmp(name, "x-goog-copy-source-if-generation-match") == 0)
        buf_addf(out, "x-amz-copy-source-if-match: \"%.*s\"\n", (int)n, value);
    else if (strncmp(name, "x-goog-", 7) == 0)
        buf_addf(out, "x-amz-%s: %.*s\n", name + 7, (int)n, value);
    else
        buf_addf(out, "%s: %.*s\n", name, (int)n, value);
}

static bool is_token(const struct fake_s3 *f, const char *headers)
{
    char value[300];
    if (!*f->token)
        return true;
    return http_head_value(headers, "authorization", value, sizeof value)
        && strncmp(value, "Bearer ", 7) == 0 && strcmp(value + 7, f->token) == 0;
}

/* What the body must be, if it is told. */
static bool sum_holds(const struct request *r)
{
    char want[64], text[S3_SUM_TEXT];
    if (!http_head_value(r->h.headers, "x-goog-hash", want, sizeof want))
        return true;
    s3_sum_text(S3_SUM_CRC32C, s3_sum_add(S3_SUM_CRC32C, 0, r->body, r->body_len), text);
    return strncmp(want, "crc32c=", 7) == 0 && strcmp(want + 7, text) == 0;
}

bool google_hear(struct fake_s3 *f, struct request *r, struct answer *a)
{
    char value[64];
    const char *h = r->h.headers;
    bool writes = strcmp(r->h.method, "GET") != 0 && strcmp(r->h.method, "HEAD") != 0;
    bool gzip = http_head_value(h, "accept-encoding", value, sizeof value)
        && strcmp(value, "gzip") == 0;
    if (!is_token(f, h)) {
        answer_error(a, 401, "AuthenticationRequired", "Authentication required.");
    } else if (strstr(h, "x-amz-") || strstr(h, "AWS4-HMAC")) {
        answer_error(a, 400, "InvalidArgument", "words of S3 beside a token");
    } else if (writes && (strstr(h, "\nif-match:") || strstr(h, "\nif-none-match:"))) {
        answer_error(a, 400, "InvalidArgument", "ETags are conditions of reads only");
    } else if (strcmp(r->h.method, "POST") == 0 && strstr(h, "x-goog-if-")) {
        answer_error(a, 400, "InvalidArgument", "multipart uploads have no conditions");
    } else if (strstr(h, "x-goog-copy-source-range")) {
        answer_error(a, 501, "NotImplemented", "parts are not copied");
    } else if (strcmp(r->h.method, "GET") == 0 && *r->key && !gzip) {
        answer_error(a, 400, "InvalidArgument", "would come decompressed");
    } else if (!sum_holds(r)) {
        answer_error(a, 400, "BadDigest", "The CRC32C you specified did not match.");
    } else {
        struct buf lines = BUF_INIT(64u << 10);
        for (const char *line = h, *end; *line; line = end + (*end == '\n')) {
            end = strchrnul(line, '\n');
            const char *colon = memchr(line, ':', (size_t)(end - line));
            if (!colon)
                continue;
            cleanup_free char *name = xstrndup(line, (size_t)(colon - line));
            colon += 1 + (colon[1] == ' ');
            add_line(&lines, name, colon, (size_t)(end - colon));
        }
        free(f->heard);
        r->h.headers = f->heard = xstrdup(buf_str(&lines));
        buf_free(&lines);
        return false;
    }
    return true;
}

/* Parts keep their ETags: who puts them together names them. */
void google_say(struct fake_s3 *f, const struct request *r, struct answer *a)
{
    struct buf said = BUF_INIT(64u << 10);
    const struct object *o = *r->key ? object_find(f, r->key) : NULL;
    bool part = strstr(r->h.query, "partNumber=") != NULL;
    for (const char *line = buf_str(&a->headers), *end; *line; line = end + (*end == '\n')) {
        end = strchrnul(line, '\n');
        int n = (int)(end - line);
        if (!part && n > 7 && strncmp(line, "ETag: \"", 7) == 0)
            buf_addf(&said, "x-goog-generation: %.*s\r\nETag: \"0cc175b9c0f1b6a8\"\r\n",
                (int)strcspn(line + 7, "\""), line + 7);
        else if (strncmp(line, "x-amz-", 6) == 0)
            buf_addf(&said, "x-goog-%.*s\n", n - 6, line + 6);
        else
            buf_addf(&said, "%.*s\n", n, line);
    }
    if (o && strcmp(r->h.method, "GET") == 0 && a->status / 100 == 2) {
        char text[S3_SUM_TEXT];
        s3_sum_text(S3_SUM_CRC32C, s3_sum_add(S3_SUM_CRC32C, 0, o->data, o->len), text);
        buf_addf(
            &said, "x-goog-hash: crc32c=%s\r\nx-goog-hash: md5=1B2M2Y8AsgTpgAmY7PhCfg==\r\n", text);
    }
    buf_clear(&a->headers);
    buf_adds(&a->headers, buf_str(&said));
    buf_free(&said);
}
