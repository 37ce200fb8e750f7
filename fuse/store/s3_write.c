/* SPDX-License-Identifier: Apache-2.0 */
/* The S3 store, changing: put, remove, directories (which are markers), rename (which is a copy).
 */
#include "fuse/store/s3.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MIB NS_PER_S

/* Stats the object that was just written. If another one is there already, tells what is known of
 * ours. */
static void stat_written(
    struct s3 *s, const char *path, const char *etag, uint64_t len, struct store_stat *st)
{
    struct err ignored = ERR_INIT;
    char version[STORE_VERSION_MAX];
    s3_version(etag, len, 0, version);
    if (s3_stat(s, path, st, &ignored) == 0 && !st->is_dir && st->size == len
        && (!etag || strcmp(st->version, version) == 0))
        return;
    *st = (struct store_stat){.size = len, .mtime_ns = clock_real_ns()};
    memcpy(st->version, version, sizeof version);
}

static int put_single(
    struct s3 *s, const char *key, int fd, uint64_t len, char **etag, struct err *e)
{
    struct s3_call call = {.method = "PUT", .key = key, .from_fd = true, .fd = fd, .fd_len = len};
    struct retry r = RETRY_INIT(s->params.deadline_ns + (int64_t)(len >> 20) * NS_PER_MIB, NULL);
    struct s3_outcome out = {0};
    cleanup_resp struct http_resp resp;
    if (s3_do(s, &call, &r, &resp, &out, e))
        return -1;
    char value[256];
    *etag = xstrdup(http_header(&resp, "etag", value, sizeof value));
    return 0;
}

int s3_put(void *impl, const char *path, int fd, uint64_t len, struct store_stat *st, struct err *e)
{
    struct s3 *s = impl;
    cleanup_free char *key = s3_key(s, path), *etag = NULL;
    int rc = len > s->single_put_max ? s3_multipart(s, key, fd, NULL, NULL, len, &etag, e)
                                     : put_single(s, key, fd, len, &etag, e);
    if (rc == 0)
        stat_written(s, path, etag, len, st);
    return rc;
}

static int delete_key(struct s3 *s, const char *key, struct err *e)
{
    struct s3_call call = {.method = "DELETE", .key = key};
    struct retry r = RETRY_INIT(s->params.deadline_ns, NULL);
    struct s3_outcome out = {0};
    cleanup_resp struct http_resp resp;
    return s3_do(s, &call, &r, &resp, &out, e);
}

int s3_remove(void *impl, const char *path, struct err *e)
{
    cleanup_free char *key = s3_key(impl, path);
    return delete_key(impl, key, e);
}

/* -- directories: prefixes, and an empty object "dir/" that keeps an empty one alive --------- */

int s3_mkdir(void *impl, const char *path, struct err *e)
{
    struct s3 *s = impl;
    cleanup_free char *key = xasprintf("%s%s/", s->prefix, path);
    struct s3_call call = {.method = "PUT", .key = key, .body = "", .body_len = 0};
    struct retry r = RETRY_INIT(s->params.deadline_ns, NULL);
    struct s3_outcome out = {0};
    cleanup_resp struct http_resp resp;
    return s3_do(s, &call, &r, &resp, &out, e);
}

int s3_rmdir(void *impl, const char *path, struct err *e)
{
    struct s3 *s = impl;
    cleanup_free char *key = xasprintf("%s%s/", s->prefix, path);
    struct retry r = RETRY_INIT(s->params.deadline_ns, NULL);
    struct s3_page page;
    if (s3_page(s, key, false, NULL, 2, &r, &page, e))
        return -1;
    bool marker = false, other = false;
    for (size_t i = 0; i < page.n; i++) {
        bool is_marker = page.items[i].key && strcmp(page.items[i].key, key) == 0;
        marker |= is_marker;
        other |= !is_marker;
    }
    s3_page_free(&page);
    if (other) {
        cleanup_free char *what = s3_name(s, key);
        return store_err(
            e, ERR_EXISTS, ENOTEMPTY, REASON_STORE_ERROR, what, ": the directory is not empty");
    }
    return marker ? delete_key(s, key, e) : 0;
}

/* -- rename: copy, then delete --------------------------------------------------------------- */

static int copy_single(struct s3 *s, const char *from, const char *to, const char *version,
    uint64_t size, char **etag, struct err *e)
{
    int64_t inside = s3_inside_ns(size);
    cleanup_free char *source = s3_copy_source(s, from);
    cleanup_free char *match = *version && *version != '~'
        ? xasprintf("x-amz-copy-source-if-match: \"%s\"", version)
        : NULL;
    const char *headers[] = {source, match, NULL};
    struct s3_call call = {
        .method = "PUT", .key = to, .headers = headers, .body = "", .inside_ns = inside};
    struct retry r = RETRY_INIT(s->params.deadline_ns + inside, NULL);
    struct s3_outcome out = {0};
    for (;;) {
        cleanup_resp struct http_resp resp;
        if (s3_do(s, &call, &r, &resp, &out, e))
            return -1;
        if (s3_check_body(s, &call, &resp, &out, e) == 0) {
            *etag = s3_xml_text(resp.body.data, resp.body.len, "CopyObjectResult", "ETag");
            return 0;
        }
        if (!s3_again(s, &r, &out, e))
            return -1;
    }
}

int s3_rename(void *impl, const char *from, const char *to, struct store_stat *st, struct err *e)
{
    struct s3 *s = impl;
    struct store_stat source;
    if (s3_stat(s, from, &source, e))
        return -1;
    cleanup_free char *from_key = s3_key(s, from), *to_key = s3_key(s, to), *etag = NULL;
    if (source.is_dir) {
        cleanup_free char *what = s3_name(s, from_key);
        return store_err(e, ERR_INVALID, EISDIR, REASON_STORE_ERROR, what,
            ": it is a directory, and S3 renames objects only");
    }
    int rc = source.size > s->single_copy_max
        ? s3_multipart(s, to_key, -1, from_key, source.version, source.size, &etag, e)
        : copy_single(s, from_key, to_key, source.version, source.size, &etag, e);
    if (rc)
        return -1;
    struct err inner = ERR_INIT;
    if (delete_key(s, from_key, &inner)) {
        *e = inner;
        return err_wrap(e, "%s was copied to %s, but not removed", from_key, to_key);
    }
    stat_written(s, to, etag, source.size, st);
    return 0;
}
