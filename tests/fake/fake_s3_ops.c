/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/fake_s3_ops.h"

#include "fuse/store/s3_sum.h"
#include "fuse/store/sigv4.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/http/http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- objects --------------------------------------------------------------------------------- */

static size_t lower_bound(const struct fake_s3 *f, const char *key)
{
    size_t from = 0, end = f->n;
    while (from < end) {
        size_t mid = from + (end - from) / 2;
        if (strcmp(f->objects[mid].key, key) < 0)
            from = mid + 1;
        else
            end = mid;
    }
    return from;
}

struct object *object_find(struct fake_s3 *f, const char *key)
{
    size_t i = lower_bound(f, key);
    return i < f->n && strcmp(f->objects[i].key, key) == 0 ? &f->objects[i] : NULL;
}

const char *const fake_meta[FAKE_META] = {"x-amz-meta-millrace-upload", "x-amz-meta-mode",
    "x-amz-meta-uid", "x-amz-meta-gid", "x-amz-meta-mtime"};

static void take_meta(const struct request *r, struct object *o)
{
    for (size_t i = 0; i < FAKE_META; i++)
        http_head_value(r->h.headers, fake_meta[i], o->meta[i], sizeof o->meta[i]);
}

struct object *object_put(struct fake_s3 *f, const char *key, const void *data, size_t len)
{
    struct object *o = object_find(f, key);
    if (!o) {
        size_t i = lower_bound(f, key);
        if (f->n == f->room) {
            f->room = MAX(2 * f->room, (size_t)64);
            f->objects = xrealloc(f->objects, f->room * sizeof *f->objects);
        }
        memmove(&f->objects[i + 1], &f->objects[i], (f->n - i) * sizeof *f->objects);
        f->n++;
        o = &f->objects[i];
        *o = (struct object){.key = xstrdup(key)};
    }
    free(o->data);
    memset(o->meta, 0, sizeof o->meta);
    o->data = xmalloc(len + 1);
    if (len)
        memcpy(o->data, data, len);
    o->len = len;
    if (f->google)
        snprintf(o->etag, sizeof o->etag, "\"17%014u\"", ++f->generation);
    else
        snprintf(o->etag, sizeof o->etag, "\"%016" PRIx64 "\"", hash64(o->data, len));
    return o;
}

void object_del(struct fake_s3 *f, struct object *o)
{
    free(o->key);
    free(o->data);
    size_t i = (size_t)(o - f->objects);
    memmove(o, o + 1, (f->n - i - 1) * sizeof *o);
    f->n--;
}

void answer_error(struct answer *a, int status, const char *code, const char *message)
{
    a->status = status;
    buf_clear(&a->body);
    buf_addf(&a->body,
        "<?xml version=\"1.0\"?>\n<Error><Code>%s</Code><Message>%s</Message></Error>", code,
        message);
}

static void add_text(struct buf *out, const char *key) /* as with encoding-type=url */
{
    cleanup_free char *text = http_escape(key, true);
    buf_adds(out, text);
}

static char *query(const struct request *r, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = r->h.query; *p;) {
        size_t len = strcspn(p, "&");
        if (len >= n && strncmp(p, name, n) == 0 && (p[n] == '=' || len == n)) {
            char *value = xstrndup(p + n + (len > n), len - n - (len > n));
            if (http_head_unescape(value, false))
                value[0] = '\0';
            return value;
        }
        p += len + (p[len] == '&');
    }
    return NULL;
}

void op_list(struct fake_s3 *f, const struct request *r, struct answer *a)
{
    cleanup_free char *prefix = query(r, "prefix"), *delimiter = query(r, "delimiter"),
                      *token = query(r, "continuation-token"), *max = query(r, "max-keys");
    size_t plen = prefix ? strlen(prefix) : 0, limit = max ? strtoul(max, NULL, 10) : 1000, n = 0;
    cleanup_free char *last = NULL;
    bool more = false;
    buf_adds(&a->body,
        "<?xml version=\"1.0\"?><ListBucketResult><Name>data</Name><EncodingType>url</EncodingType>");
    if (synth_list(f, prefix ? prefix : "", token, limit, a))
        return;
    for (size_t i = lower_bound(f, token ? token : prefix ? prefix : ""); i < f->n; i++) {
        const struct object *o = &f->objects[i];
        if (o->key[0] == 1 || strncmp(o->key, prefix ? prefix : "", plen) != 0)
            continue;
        const char *cut = delimiter && *delimiter ? strstr(o->key + plen, delimiter) : NULL;
        cleanup_free char *name = cut ? xstrndup(o->key, (size_t)(cut - o->key) + 1)
                                      : xstrdup(o->key);
        if ((token && strcmp(name, token) <= 0) || (last && strcmp(name, last) == 0))
            continue;
        if (n == limit) {
            more = true;
            break;
        }
        n++;
        buf_addf(&a->body, cut ? "<CommonPrefixes><Prefix>" : "<Contents><Key>");
        add_text(&a->body, name);
        if (cut)
            buf_adds(&a->body, "</Prefix></CommonPrefixes>");
        else
            buf_addf(&a->body,
                "</Key><LastModified>2026-01-02T%s:04:05.678Z</LastModified><ETag>%s</ETag><Size>%zu</Size>",
                f->touched ? "04" : "03",
                f->untagged     ? ""
                    : f->google ? "\"0cc175b9c0f1b6a8\""
                                : o->etag,
                o->len);
        if (!cut && f->google)
            buf_addf(&a->body, "<Generation>%.*s</Generation>", (int)strcspn(o->etag + 1, "\""),
                o->etag + 1);
        if (!cut)
            buf_adds(&a->body, "</Contents>");
        free(last);
        last = xstrdup(name);
    }
    buf_addf(&a->body, "<IsTruncated>%s</IsTruncated>", more ? "true" : "false");
    if (more) {
        buf_adds(&a->body, "<NextContinuationToken>");
        add_text(&a->body, last ? last : "");
        buf_adds(&a->body, "</NextContinuationToken>");
    }
    buf_adds(&a->body, "</ListBucketResult>");
}

void fake_s3_demand(struct fake_s3 *f, const char *line, bool objects)
{
    pthread_mutex_lock(&f->mu);
    if (f->ndemands == ARRAY_LEN(f->demands))
        abort();
    snprintf(f->demands[f->ndemands].line, sizeof f->demands[0].line, "%s\n", line);
    f->demands[f->ndemands++].objects = objects;
    pthread_mutex_unlock(&f->mu);
}

void fake_s3_sums(struct fake_s3 *f, bool told)
{
    pthread_mutex_lock(&f->mu);
    f->sums = told;
    pthread_mutex_unlock(&f->mu);
}

bool lacks_header(const struct fake_s3 *f, const struct request *r, struct answer *a)
{
    for (size_t i = 0; i < f->ndemands; i++)
        if ((*r->key || !f->demands[i].objects) && !strstr(r->h.headers, f->demands[i].line)) {
            answer_error(a, 403, "AccessDenied", f->demands[i].line);
            return true;
        }
    return false;
}

void op_get(struct fake_s3 *f, const struct request *r, const char *fault, struct answer *a)
{
    struct object made = {0};
    const struct object *o = synth_object(f, r->key, &made) ? &made : object_find(f, r->key);
    cleanup_free char *made_data = made.data;
    char value[256], etag[40];
    unsigned long long first = 0, last = 0;
    if (!o) {
        answer_error(a, 404, "NoSuchKey", "The specified key does not exist.");
        return;
    }
    snprintf(etag, sizeof etag, "%s", o->etag);
    if (http_head_value(r->h.headers, "if-match", value, sizeof value)
        && strcmp(value, o->etag) != 0) {
        answer_error(a, 412, "PreconditionFailed",
            "At least one of the preconditions you specified did not hold.");
        return;
    }
    bool ranged = http_head_value(r->h.headers, "range", value, sizeof value)
        && sscanf(value, "bytes=%llu-%llu", &first, &last) == 2 && strcmp(fault, "norange") != 0;
    if (ranged && first >= o->len) {
        answer_error(a, 416, "InvalidRange", "The requested range is not satisfiable");
        return;
    }
    if (!ranged)
        first = 0;
    if (!ranged || last >= o->len)
        last = o->len ? o->len - 1 : 0;
    size_t len = o->len ? (size_t)(last - first + 1) : 0, whole = len;
    if (strcmp(fault, "otherrange") == 0) {
        first = first ? first - 1 : 1;
        len = MIN(len, o->len - (size_t)first);
    } else if (strcmp(fault, "short") == 0) {
        len -= len / 3;
    }
    static const char *const others[] = {"norange", "otherrange", "long", "etag"};
    a->spoiled = len != whole;
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        a->spoiled |= strcmp(fault, others[i]) == 0;
    a->status = ranged ? 206 : 200;
    buf_add(&a->body, o->data + first, len);
    if (strcmp(fault, "long") == 0)
        buf_add(&a->body, "XXXXXXXXXXXXXXXX", 16);
    if (strcmp(fault, "etag") == 0) {
        snprintf(etag, sizeof etag, "\"0123456789abcdef\"");
        for (size_t i = 0; i < a->body.len; i++)
            a->body.data[i] ^= 0x55;
    }
    if (strcmp(fault, "damaged") == 0 && a->body.len) {
        a->body.data[a->body.len / 2] ^= 1;
        a->spoiled = true;
    }
    if (f->sums && !ranged
        && http_head_value(r->h.headers, "x-amz-checksum-mode", value, sizeof value)) {
        char text[S3_SUM_TEXT];
        s3_sum_text(S3_SUM_CRC64NVME, s3_sum_add(S3_SUM_CRC64NVME, 0, o->data, o->len), text);
        buf_addf(&a->headers, "x-amz-checksum-crc64nvme: %s\r\n", text);
    }
    a->stall = strcmp(fault, "stall") == 0;
    if (a->stall || strcmp(fault, "truncated") == 0)
        a->cut = a->body.len / 2;
    a->spoiled |= a->cut > 0;
    if (!f->untagged)
        buf_addf(&a->headers, "ETag: %s\r\n", etag);
    buf_addf(
        &a->headers, "Last-Modified: Fri, 02 Jan 2026 %s:04:05 GMT\r\n", f->touched ? "04" : "03");
    for (size_t i = 0; i < FAKE_META; i++)
        if (*o->meta[i])
            buf_addf(&a->headers, "%s: %s\r\n", fake_meta[i], o->meta[i]);
    if (ranged)
        buf_addf(&a->headers, "Content-Range: bytes %llu-%llu/%zu\r\n", first,
            first + (len ? len - 1 : 0), o->len);
}

static void part_key(char out[128], const char *id, const char *number)
{
    snprintf(out, 128, "\001%s/%05lu", id, strtoul(number, NULL, 10));
}

/* The conditions of a write; false: one does not hold, and the answer says so. */
static bool may_write(const struct fake_s3 *f, const struct request *r, struct answer *a)
{
    char match[64], none[64];
    bool if_match = http_head_value(r->h.headers, "if-match", match, sizeof match),
         if_none = http_head_value(r->h.headers, "if-none-match", none, sizeof none);
    const struct object *o = object_find((struct fake_s3 *)f, r->key);
    if ((if_match || if_none) && f->unconditional)
        answer_error(a, 501, "NotImplemented", "This server does not know a header that you sent");
    else if (if_match && !o && !f->google)
        answer_error(a, 404, "NoSuchKey", "The specified key does not exist.");
    else if ((if_match && (!o || strcmp(match, o->etag) != 0)) || (if_none && o))
        answer_error(a, 412, "PreconditionFailed",
            "At least one of the pre-conditions you specified did not hold");
    else
        return true;
    return false;
}

/* Is the body what was signed? */
static bool is_whole(const struct request *r, struct answer *a)
{
    char want[SIGV4_HEX_LEN + 64], hex[SIGV4_HEX_LEN];
    if (!http_head_value(r->h.headers, "x-amz-content-sha256", want, sizeof want))
        return true;
    sigv4_sha256(r->body, r->body_len, hex);
    if (strcmp(hex, want) == 0)
        return true;
    answer_error(a, 400, "XAmzContentSHA256Mismatch",
        "The provided 'x-amz-content-sha256' header does not match what was computed.");
    return false;
}

void op_put(struct fake_s3 *f, const struct request *r, struct answer *a)
{
    char source[1200], name[128];
    cleanup_free char *id = query(r, "uploadId"), *number = query(r, "partNumber");
    const char *key = r->key;
    if (id && number) {
        part_key(name, id, number);
        key = name;
    } else if (!may_write(f, r, a)) {
        return;
    }
    if (!is_whole(r, a))
        return;
    if (!http_head_value(r->h.headers, "x-amz-copy-source", source, sizeof source)) {
        struct object *o = object_put(f, key, r->body, r->body_len);
        take_meta(r, o);
        buf_addf(&a->headers, "ETag: %s\r\n", o->etag);
        return;
    }
    const struct object *from = http_head_unescape(source, false)
            || strncmp(source, "/data/", 6) != 0
        ? NULL
        : object_find(f, source + 6);
    if (!from) {
        answer_error(a, 404, "NoSuchKey", "The specified key does not exist.");
        return;
    }
    char match[64];
    if (http_head_value(r->h.headers, "x-amz-copy-source-if-match", match, sizeof match)
        && strcmp(match, from->etag) != 0) {
        answer_error(a, 412, "PreconditionFailed",
            "At least one of the pre-conditions you specified did not hold");
        return;
    }
    unsigned long long first = 0, last = from->len - 1;
    char range[64];
    if (http_head_value(r->h.headers, "x-amz-copy-source-range", range, sizeof range))
        sscanf(range, "bytes=%llu-%llu", &first, &last);
    char meta[FAKE_META][64];
    memcpy(meta, from->meta, sizeof meta);
    cleanup_free char *copy = xmalloc((size_t)(last - first + 2));
    memcpy(copy, from->data + first, (size_t)(last - first + 1));
    struct object *o = object_put(f, key, copy, (size_t)(last - first + 1));
    if (!id)
        memcpy(o->meta, meta, sizeof meta);
    const char *root = id ? "CopyPartResult" : "CopyObjectResult";
    buf_addf(&a->body, "<%s><ETag>%s</ETag></%s>", root, o->etag, root);
}

static void drop_parts(struct fake_s3 *f, const char *id)
{
    char first[128];
    part_key(first, id, "0");
    size_t n = strlen(id) + 2;
    for (;;) {
        size_t i = lower_bound(f, first);
        if (i == f->n || strncmp(f->objects[i].key, first, n) != 0)
            return;
        object_del(f, &f->objects[i]);
    }
}

static struct object *find_upload(struct fake_s3 *f, const char *id)
{
    char key[128];
    snprintf(key, sizeof key, "\001%s", id);
    return object_find(f, key);
}

static void end_upload(struct fake_s3 *f, const char *id)
{
    drop_parts(f, id);
    object_del(f, find_upload(f, id));
    f->uploads--;
}

void op_post(struct fake_s3 *f, const struct request *r, struct answer *a)
{
    cleanup_free char *id = query(r, "uploadId");
    if (!id) {
        char name[128];
        snprintf(name, sizeof name, "\001up%u", ++f->serial);
        struct object *up = object_put(f, name, "", 0);
        take_meta(r, up);
        f->uploads++;
        buf_addf(&a->body,
            "<InitiateMultipartUploadResult><UploadId>up%u</UploadId></InitiateMultipartUploadResult>",
            f->serial);
        return;
    }
    const struct object *up = find_upload(f, id);
    if (!up) {
        answer_error(a, 404, "NoSuchUpload", "The specified upload does not exist.");
        return;
    }
    if (!may_write(f, r, a))
        return;
    cleanup_buf struct buf whole = BUF_INIT(BODY_MAX);
    unsigned parts = 0;
    for (;; parts++) {
        char name[128], number[16];
        snprintf(number, sizeof number, "%u", parts + 1);
        part_key(name, id, number);
        const struct object *o = object_find(f, name);
        if (!o)
            break;
        if (!strstr(r->body, o->etag)) {
            answer_error(
                a, 400, "InvalidPart", "One or more of the specified parts could not be found.");
            return;
        }
        buf_add(&whole, o->data, o->len);
    }
    char meta[FAKE_META][64];
    memcpy(meta, up->meta, sizeof meta);
    end_upload(f, id);
    struct object *o = object_put(f, r->key, buf_str(&whole), whole.len);
    memcpy(o->meta, meta, sizeof meta);
    if (!f->google) {
        o->etag[strlen(o->etag) - 1] = '\0';
        snprintf(o->etag + strlen(o->etag), 16, "-%u\"", parts);
    }
    buf_addf(&a->body,
        "<CompleteMultipartUploadResult><ETag>%s</ETag></CompleteMultipartUploadResult>", o->etag);
}

void op_delete(struct fake_s3 *f, const struct request *r, struct answer *a)
{
    cleanup_free char *id = query(r, "uploadId");
    a->status = 204;
    if (id && find_upload(f, id)) {
        end_upload(f, id);
    } else if (id) {
        answer_error(a, 404, "NoSuchUpload", "The specified upload does not exist.");
    } else if (may_write(f, r, a)) {
        struct object *o = object_find(f, r->key);
        if (o)
            object_del(f, o);
    }
}
