/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads and copies of large objects in parts that go at the same time. */
#include "fuse/store/s3.h"

#include "lib/base/each.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB          (UINT64_C(1) << 20)
#define PARTS_MAX    10000u
#define NS_PER_MIB   NS_PER_S
#define COMPLETE_MAX (4u << 20)
#define S3_SUM_WHOLE "x-amz-checksum-type: FULL_OBJECT"

struct multipart {
    struct s3 *s;
    const char *key, *upload_id, *mark;
    int fd; /* -1: copy */
    const char *copy_from, *copy_etag, *expect;
    uint64_t len, part;
    unsigned nparts;
    char **etags; /* nparts; each written by the thread that sent the part, as is the next */
    uint64_t *sums;
    enum s3_sum sum;  /* of sums and of the object; none for a copy: the server has what it has */
    atomic_bool stop; /* one part has failed: the others need not go on */
    const atomic_bool *cancel; /* the caller's, or NULL */
};

uint64_t s3_part_size(uint64_t len, uint64_t wanted)
{
    uint64_t least = (len + PARTS_MAX - 1) / PARTS_MAX;
    return MAX(wanted, (least + MIB - 1) / MIB * MIB);
}

static int send_part(void *user, size_t index, struct err *e)
{
    struct multipart *j = user;
    uint64_t off = index * j->part, len = MIN(j->part, j->len - off);
    char number[16];
    snprintf(number, sizeof number, "%zu", index + 1);
    const struct sigv4_pair query[] = {{"partNumber", number}, {"uploadId", j->upload_id}};
    cleanup_free char *source = j->fd < 0 ? s3_copy_source(j->s, j->copy_from) : NULL;
    cleanup_free char *range = j->fd < 0
        ? xasprintf("x-amz-copy-source-range: bytes=%" PRIu64 "-%" PRIu64, off, off + len - 1)
        : NULL;
    cleanup_free char *match = j->fd < 0 && *j->copy_etag && *j->copy_etag != '~'
        ? xasprintf("x-amz-copy-source-if-match: \"%s\"", j->copy_etag)
        : NULL;
    const char *headers[] = {source, range, match, NULL};
    struct s3_call call = {
        .method = "PUT", .key = j->key, .query = query, .nquery = 2, .does = S3_CONTENT};
    struct retry r = RETRY_INIT(
        j->s->params.deadline_ns + (int64_t)(len / MIB) * NS_PER_MIB, j->cancel);
    r.also_cancel = &j->stop;
    if (j->fd < 0) {
        call.headers = headers;
        call.body = "";
        call.does |= S3_COPIES;
        call.inside_ns = s3_inside_ns(len);
        r.deadline_ns += s3_inside_ns(len);
    } else {
        call.from_fd = true;
        call.fd = j->fd;
        call.fd_off = off;
        call.fd_len = len;
        call.sums = true;
        call.sum = &j->sums[index];
    }
    struct s3_outcome out = {0};
    for (;;) {
        cleanup_resp struct http_resp resp;
        if (s3_do(j->s, &call, &r, &resp, &out, e))
            return -1;
        char value[256];
        if (j->fd >= 0 && http_header(&resp, "etag", value, sizeof value))
            j->etags[index] = xstrdup(value);
        int bad = j->fd < 0 ? s3_check_body(j->s, &call, &resp, &out, e) : 0;
        if (j->fd < 0 && !bad)
            j->etags[index] = s3_xml_text(resp.body.data, resp.body.len, "CopyPartResult", "ETag");
        if (j->etags[index])
            return 0;
        if (!bad) {
            cleanup_free char *what = s3_name(j->s, j->key);
            store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, what,
                ": the server took part %zu without an ETag", index + 1);
        }
        if (!s3_again(j->s, &r, &out, e))
            return -1;
    }
}

static char *multipart_begin(
    struct s3 *s, const char *key, const char *mark, enum s3_sum sum, struct err *e)
{
    const struct sigv4_pair query[] = {{"uploads", ""}};
    cleanup_free char *line = xasprintf(S3_MARK_HEADER ": %s", mark);
    cleanup_free char *algorithm = xasprintf("x-amz-checksum-algorithm: %s", s3_sum_name(sum));
    const char *headers[] = {line, sum ? algorithm : NULL, S3_SUM_WHOLE, NULL};
    struct s3_call call = {.method = "POST",
        .key = key,
        .query = query,
        .nquery = 1,
        .headers = headers,
        .body = "",
        .does = S3_MAKES | S3_CONTENT};
    struct retry r = RETRY_INIT(s->params.deadline_ns, NULL);
    struct s3_outcome out = {0};
    cleanup_resp struct http_resp resp;
    if (s3_do(s, &call, &r, &resp, &out, e))
        return NULL;
    char *id = s3_xml_text(
        resp.body.data, resp.body.len, "InitiateMultipartUploadResult", "UploadId");
    if (id && *id)
        return id;
    free(id);
    cleanup_free char *what = s3_name(s, key);
    store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, what,
        ": the server began a multipart upload without an id");
    return NULL;
}

static void abort_upload(struct s3 *s, const char *key, const char *upload_id)
{
    const struct sigv4_pair query[] = {{"uploadId", upload_id}};
    struct s3_call call = {.method = "DELETE", .key = key, .query = query, .nquery = 1};
    struct retry r = RETRY_INIT(s->params.deadline_ns, NULL);
    struct s3_outcome out = {0};
    struct err e = ERR_INIT;
    cleanup_resp struct http_resp resp;
    if (s3_do(s, &call, &r, &resp, &out, &e) && e.cls != ERR_NOTFOUND)
        log_warn(
            "an unfinished upload could not be removed and takes room in the bucket: %s", e.msg);
}

static void complete_body(const struct multipart *j, struct buf *body)
{
    buf_adds(body, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (unsigned i = 0; i < j->nparts; i++) {
        buf_addf(body, "<Part><PartNumber>%u</PartNumber><ETag>", i + 1);
        for (const char *p = j->etags[i]; *p; p++) {
            if (*p == '<' || *p == '>' || *p == '&')
                buf_addf(body, "&#%d;", *p);
            else
                buf_addc(body, *p);
        }
        buf_adds(body, "</ETag>");
        if (j->sum && !j->s->google) {
            char text[S3_SUM_TEXT];
            s3_sum_text(j->sum, j->sums[i], text);
            buf_addf(body, "<Checksum%s>%s</Checksum%s>", s3_sum_name(j->sum), text,
                s3_sum_name(j->sum));
        }
        buf_adds(body, "</Part>");
    }
    buf_adds(body, "</CompleteMultipartUpload>");
}

/* "x-amz-checksum-crc32c: …" of all parts together; NULL: none. Caller frees. */
static char *whole_sum(const struct multipart *j)
{
    uint64_t sum = 0;
    char text[S3_SUM_TEXT];
    if (!j->sum || j->s->google)
        return NULL;
    for (unsigned i = 0; i < j->nparts; i++)
        sum = s3_sum_join(j->sum, sum, j->sums[i], MIN(j->part, j->len - i * j->part));
    s3_sum_text(j->sum, sum, text);
    return s3_sum_header(j->sum, text);
}

static int multipart_complete(struct multipart *j, char **etag, struct err *e)
{
    cleanup_buf struct buf body = BUF_INIT(COMPLETE_MAX);
    complete_body(j, &body);
    const struct sigv4_pair query[] = {{"uploadId", j->upload_id}};
    /* Google's does not know any, and need not refuse it */
    cleanup_free char *condition = j->s->google ? NULL : s3_condition(j->s, j->expect);
    cleanup_free char *sum = whole_sum(j);
    const char *headers[5] = {"content-type: application/xml"};
    size_t nheaders = 1;
    if (sum) {
        headers[nheaders++] = sum;
        headers[nheaders++] = S3_SUM_WHOLE;
    }
    headers[nheaders] = condition;
    struct s3_call call = {.method = "POST",
        .key = j->key,
        .query = query,
        .nquery = 1,
        .headers = headers,
        .body = body.data,
        .body_len = body.len,
        .inside_ns = s3_inside_ns(j->len),
        .does = S3_CONTENT};
    struct retry r = RETRY_INIT(j->s->params.deadline_ns + s3_inside_ns(j->len), NULL);
    struct s3_outcome out = {0};
    for (;;) {
        cleanup_resp struct http_resp resp = {0};
        /* some servers do not look at the condition of this request */
        if (s3_look(j->s, j->key, j->expect, e))
            return s3_is_marked(j->s, j->key, j->mark, etag) ? 0 : -1;
        int rc = s3_do(j->s, &call, &r, &resp, &out, e);
        if (rc && headers[nheaders] && s3_no_conditions(j->s, &out)) {
            headers[nheaders] = NULL;
            continue;
        }
        /* The server forgets an upload once it is complete: if that answer got lost (and libcurl
         * by itself sends a request again when a kept connection turns out to be closed), the next
         * one is "NoSuchUpload". */
        if (rc
            && (strcmp(out.fault.code, "NoSuchUpload") == 0
                || s3_conflict(j->s, j->key, j->expect, &out, e)))
            return s3_is_marked(j->s, j->key, j->mark, etag) ? 0 : -1;
        if (rc)
            return -1;
        if (s3_check_body(j->s, &call, &resp, &out, e) == 0) {
            char value[256];
            *etag = s3_xml_text(
                resp.body.data, resp.body.len, "CompleteMultipartUploadResult", "ETag");
            bool told = *etag && **etag;
            if (told && j->s->google) {
                free(*etag);
                *etag = xstrdup(s3_tag(j->s, &resp, value, sizeof value));
            }
            if (!told)
                free(steal(etag));
            if (told || s3_is_marked(j->s, j->key, j->mark, etag))
                return 0;
            cleanup_free char *what = s3_name(j->s, j->key);
            return store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, what,
                ": the server does not say that it has put its parts together");
        }
        if (s3_conflict(j->s, j->key, j->expect, &out, e) || !s3_again(j->s, &r, &out, e))
            return -1;
    }
}

int s3_multipart(struct s3 *s, const struct s3_large *what, char **etag, struct err *e)
{
    char mark[S3_MARK_LEN];
    if (s3_mark(0, mark, e))
        return -1;
    enum s3_sum sum = what->fd < 0 ? S3_SUM_NONE : s->terms.sum;
    cleanup_free char *id = multipart_begin(s, what->key, mark, sum, e);
    if (!id)
        return -1;
    struct multipart j = {.s = s,
        .key = what->key,
        .upload_id = id,
        .mark = mark,
        .fd = what->fd,
        .copy_from = what->copy_from,
        .copy_etag = what->copy_etag,
        .expect = what->expect,
        .cancel = what->cancel,
        .len = what->len,
        .sum = sum};
    j.part = s3_part_size(j.len, j.fd < 0 ? s->copy_part_size : s->part_size);
    j.nparts = (unsigned)((j.len + j.part - 1) / j.part);
    j.etags = xcalloc(j.nparts, sizeof *j.etags);
    cleanup_free uint64_t *sums = xcalloc(j.nparts, sizeof *sums);
    j.sums = sums;
    int rc = each("s3-parts", j.nparts, s->parallel_parts, send_part, &j, &j.stop, e)
        ? -1
        : multipart_complete(&j, etag, e);
    if (rc)
        abort_upload(s, j.key, id);
    for (unsigned i = 0; i < j.nparts; i++)
        free(j.etags[i]);
    free(j.etags);
    return rc;
}
