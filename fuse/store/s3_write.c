/* SPDX-License-Identifier: Apache-2.0 */
/* The S3 store, changing: put, remove, directories (which are markers), rename (which is a copy).
 */
#include "fuse/store/s3.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- files ----------------------------------------------------------------------------------- */

int s3_put(
    void *impl, const char *path, const struct store_put *put, struct store_stat *st, struct err *e)
{
    struct s3 *s = impl;
    cleanup_free char *key = s3_key(s, path), *etag = NULL;
    const struct s3_large large = {
        .key = key, .fd = put->fd, .len = put->len, .expect = put->expect, .cancel = put->cancel};
    int rc = put->len > s->single_put_max ? s3_multipart(s, &large, &etag, e)
                                          : s3_put_single(s, key, put, NULL, &etag, e);
    if (rc == 0)
        s3_stat_written(s, path, etag, put->len, st);
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

/* A server that knows no conditional DELETE takes no notice of the header, or refuses it: there,
 * the version was looked at just before. */
int s3_remove_version(void *impl, const char *path, const char *expect, struct err *e)
{
    struct s3 *s = impl;
    cleanup_free char *key = s3_key(s, path), *condition = s3_condition(s, expect);
    if (s3_look(s, key, expect, e))
        return -1;
    if (!condition)
        return delete_key(s, key, e);
    const char *headers[] = {condition, NULL};
    struct s3_call call = {.method = "DELETE", .key = key, .headers = headers};
    struct retry r = RETRY_INIT(s->params.deadline_ns, NULL);
    struct s3_outcome out = {0};
    struct err failed = ERR_INIT;
    cleanup_resp struct http_resp resp;
    if (s3_do(s, &call, &r, &resp, &out, &failed) == 0)
        return 0;
    if (s3_knows_no_condition(&out))
        return delete_key(s, key, e);
    if (!s3_conflict(s, key, expect, &out, e))
        *e = failed;
    return -1;
}

/* -- directories: prefixes, and an empty object "dir/" that keeps an empty one alive --------- */

int s3_mkdir(void *impl, const char *path, uint64_t mark, struct err *e)
{
    struct s3 *s = impl;
    cleanup_free char *key = xasprintf("%s%s/", s->prefix, path), *etag = NULL;
    const struct store_put marker = {.fd = -1, .expect = "", .mark = mark};
    if (s3_put_single(s, key, &marker, NULL, &etag, e) == 0)
        return 0;
    if (e->cls != ERR_CONFLICT)
        return -1;
    cleanup_free char *what = s3_name(s, key);
    return store_err(e, ERR_EXISTS, EEXIST, REASON_STORE_ERROR, what, ": the directory exists");
}

int s3_rmdir(void *impl, const char *path, struct err *e)
{
    struct s3 *s = impl;
    cleanup_free char *key = xasprintf("%s%s/", s->prefix, path);
    struct retry r = RETRY_INIT(s->params.deadline_ns, NULL);
    struct s3_page page;
    if (s3_page(s, key, false, NULL, 3, &r, &page, e))
        return -1;
    cleanup_free char *note = xasprintf("%s" S3_LINKS_NOTE, key);
    bool marker = false, noted = false, other = false;
    for (size_t i = 0; i < page.n; i++) {
        bool is_marker = page.items[i].key && strcmp(page.items[i].key, key) == 0,
             is_note = page.items[i].key && strcmp(page.items[i].key, note) == 0;
        marker |= is_marker;
        noted |= is_note;
        other |= !is_marker && !is_note;
    }
    s3_page_free(&page);
    if (other) {
        cleanup_free char *what = s3_name(s, key);
        return store_err(
            e, ERR_EXISTS, ENOTEMPTY, REASON_STORE_ERROR, what, ": the directory is not empty");
    }
    if (noted && delete_key(s, note, e))
        return -1;
    s3_note_forget(s, note);
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
    struct s3_call call = {.method = "PUT",
        .key = to,
        .headers = headers,
        .body = "",
        .inside_ns = inside,
        .does = S3_MAKES | S3_CONTENT | S3_COPIES};
    struct retry r = RETRY_INIT(s->params.deadline_ns + inside, NULL);
    struct s3_outcome out = {0};
    for (;;) {
        cleanup_resp struct http_resp resp;
        if (s3_do(s, &call, &r, &resp, &out, e))
            return -1;
        if (s3_check_body(s, &call, &resp, &out, e) == 0) {
            char value[256];
            *etag = s3_xml_text(resp.body.data, resp.body.len, "CopyObjectResult", "ETag");
            if (!*etag || !**etag) { /* as of a server that takes it for an upload of nothing */
                cleanup_free char *what = s3_name(s, to);
                return store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, what,
                    ": the server does not say that it has copied it");
            }
            if (s->google) {
                free(*etag);
                *etag = xstrdup(s3_tag(s, &resp, value, sizeof value));
            }
            return 0;
        }
        if (!s3_again(s, &r, &out, e))
            return -1;
    }
}

/* source: what was copied. */
static int copy_object(struct s3 *s, const char *from, const char *to, const char *expect,
    struct store_stat *source, struct store_stat *st, struct err *e)
{
    if (s3_stat(s, from, source, e))
        return -1;
    cleanup_free char *from_key = s3_key(s, from), *to_key = s3_key(s, to), *etag = NULL;
    if (source->is_dir) {
        cleanup_free char *what = s3_name(s, from_key);
        return store_err(e, ERR_INVALID, EISDIR, REASON_STORE_ERROR, what,
            ": it is a directory, and only objects are renamed here");
    }
    if (expect && strcmp(expect, source->version) != 0)
        return s3_fail_expected(s, from_key, expect, e);
    if (s3_note_copied(s, from_key, to_key, source->size, e))
        return -1;
    int rc = source->size > s->single_copy_max
        ? s3_multipart(s,
            &(struct s3_large){.key = to_key,
                .fd = -1,
                .copy_from = from_key,
                .copy_etag = source->version,
                .len = source->size},
            &etag, e)
        : copy_single(s, from_key, to_key, source->version, source->size, &etag, e);
    if (rc)
        return -1;
    s3_stat_written(s, to, etag, source->size, st);
    return 0;
}

int s3_copy(void *impl, const char *from, const char *to, const char *expect, struct store_stat *st,
    struct err *e)
{
    struct store_stat source;
    return copy_object(impl, from, to, expect, &source, st, e);
}

int s3_rename(void *impl, const char *from, const char *to, const char *expect,
    struct store_stat *st, struct err *e)
{
    struct s3 *s = impl;
    struct err inner = ERR_INIT;
    struct store_stat source;
    if (copy_object(s, from, to, expect, &source, st, e))
        return -1;
    /* a large copy takes minutes: what another node has put there meanwhile stays */
    if (s3_remove_version(s, from, source.version, &inner) == 0 || inner.cls == ERR_NOTFOUND
        || inner.cls == ERR_CONFLICT)
        return 0;
    cleanup_free char *from_key = s3_key(s, from), *to_key = s3_key(s, to);
    *e = inner;
    return err_wrap(e, "%s was copied to %s, but not removed", from_key, to_key);
}
