/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a web server: what a file is, and its bytes, all of one version; also of servers
 * that know no ranges or do not say how long a file is. */
#include "fuse/store/web.h"

#include "fuse/store/s3.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_NS_PER_MIB NS_PER_S

static bool length_of(const struct http_resp *resp, uint64_t *size)
{
    char value[64], *end;
    if (!http_header(resp, "content-length", value, sizeof value) || *value < '0' || *value > '9')
        return false;
    *size = strtoull(value, &end, 10);
    return !*end;
}

static void fill_stat(const struct http_resp *resp, uint64_t size, struct store_stat *st)
{
    char value[64];
    *st = (struct store_stat){.size = size};
    if (http_header(resp, "last-modified", value, sizeof value)
        && clock_parse_http_date(value, &st->mtime_ns))
        st->mtime_ns = 0;
    web_version(resp, size, st->version);
}

static bool is_directory_url(const char *url)
{
    size_t n = strcspn(url, "?#");
    return n && url[n - 1] == '/';
}

struct web_counting {
    uint64_t size;
    struct store_stat *st;
    bool told;
};

static int count_begin(void *user, const struct http_resp *resp)
{
    struct web_counting *c = user;
    uint64_t size;
    if ((c->told = resp->status == 200 && length_of(resp, &size)))
        fill_stat(resp, size, c->st);
    return c->told; /* no more of it is wanted */
}

static int count_bytes(void *user, const void *data, size_t len)
{
    struct web_counting *c = user;
    (void)data;
    c->size += len;
    return 0;
}

/* A server that does not say to HEAD how long it is says so to GET, or the bytes are counted. */
static int stat_counting(struct web *w, const char *url, const char *what, struct retry *r,
    struct store_stat *st, int *status, struct err *e)
{
    struct web_counting count = {.st = st};
    struct web_call c = {.method = "GET",
        .url = url,
        .sink = count_bytes,
        .begin = count_begin,
        .sink_user = &count,
        .what = what};
    for (;;) {
        cleanup_resp struct http_resp resp = {0};
        cleanup_free char *at = NULL;
        int64_t after_ns;
        count.size = 0;
        int rc = web_once(w, &c, r, &resp, &at, &after_ns, e);
        *status = resp.status;
        if (rc == 0)
            fill_stat(&resp, count.size, st);
        if (rc == 0 || count.told)
            return 0;
        if (!retry_again(r, e, after_ns))
            return -1;
    }
}

int web_stat_by(struct web *w, const char *path, struct retry *r, struct store_stat *st,
    int *status, struct err *e)
{
    for (int slash = 0; slash < 2; slash++) {
        cleanup_free char *url = web_url(w, path, slash == 1), *what = web_url(w, path, false);
        cleanup_free char *at = NULL;
        cleanup_resp struct http_resp resp = {0};
        struct web_call c = {.method = "HEAD", .url = url, .what = what};
        uint64_t size;
        int rc = web_do(w, &c, r, &resp, &at, e);
        *status = resp.status;
        if (rc == 0) {
            if (slash || is_directory_url(at)) {
                *st = (struct store_stat){.is_dir = true};
                return 0;
            }
            if (!length_of(&resp, &size))
                return stat_counting(w, url, what, r, st, status, e);
            fill_stat(&resp, size, st);
            return 0;
        }
        if (resp.status == 405 || resp.status == 501)
            return stat_counting(w, url, what, r, st, status, e);
        if (e->cls != ERR_NOTFOUND)
            return -1;
    }
    return -1;
}

/* What is no file may be a directory of a bucket, which is there because something is in it. */
static int stat_in_bucket(
    struct web *w, const char *path, struct retry *r, struct store_stat *st, struct err *e)
{
    struct err inner = ERR_INIT;
    bool absent = e->cls == ERR_NOTFOUND || e->cls == ERR_DENIED;
    if (!absent || !web_bucket_look(w, r))
        return -1;
    int has = web_bucket_has_dir(w, path, r, &inner);
    if (has < 0)
        *e = inner;
    *st = (struct store_stat){.is_dir = true};
    return has > 0 ? 0 : -1;
}

int web_stat(void *impl, const char *path, struct store_stat *st, struct err *e)
{
    struct web *w = impl;
    struct retry r = RETRY_INIT(w->params.deadline_ns, NULL);
    int status;
    if (*path && web_is_repo(w, &r))
        return web_repo_stat(w, path, &r, st, &status, e);
    if (*path)
        return web_stat_by(w, path, &r, st, &status, e) ? stat_in_bucket(w, path, &r, st, e) : 0;
    *st = (struct store_stat){.is_dir = true};
    return 0;
}

/* -- bytes
 * ----------------------------------------------------------------------------------------- */

struct web_reading {
    const char *what;
    sink_fn sink;
    void *user;
    uint64_t off;
    size_t len, got; /* got: bytes that the sink has */
    char version[STORE_VERSION_MAX];
    bool hub; /* of a repository, whose server tells the version */
    /* of this attempt */
    struct web_linked linked;
    uint64_t skip; /* bytes that come before those that are wanted */
    bool checked, stopped, measured;
    struct err refusal;
};

static int web_take(void *user, const void *data, size_t len)
{
    struct web_reading *rd = user;
    size_t skip = (size_t)MIN(rd->skip, (uint64_t)len), n = MIN(len - skip, rd->len - rd->got);
    rd->skip -= skip;
    if (n && rd->sink(rd->user, (const char *)data + skip, n)) {
        rd->stopped = true;
        return 1;
    }
    rd->got += n;
    return n < len - skip ? 1 : 0; /* of a server without ranges: enough */
}

/* A version of size and time, without the size, which not every answer tells. */
static bool same_version(const char *now, const char *was, bool sized)
{
    if (sized || *now != '~' || *was != '~')
        return strcmp(now, was) == 0;
    const char *a = strchr(now, '-'), *b = strchr(was, '-');
    return a && b && strcmp(a, b) == 0;
}

static int web_begin(void *user, const struct http_resp *resp)
{
    struct web_reading *rd = user;
    char text[128], now[STORE_VERSION_MAX];
    uint64_t from = rd->off + rd->got, first = 0, last, total = 0;
    bool partial = resp->status == 206 && http_header(resp, "content-range", text, sizeof text)
        && s3_content_range(text, &first, &last, &total);
    rd->checked = true;
    rd->measured = partial || (resp->status == 200 && length_of(resp, &total));
    rd->skip = partial ? 0 : from;
    if (rd->hub && !*rd->linked.version)
        web_hub_note(resp, &rd->linked);
    if (rd->hub)
        memcpy(now, rd->linked.version, sizeof now);
    else
        web_version(resp, total, now);
    if (*rd->version && !same_version(now, rd->version, rd->measured))
        return store_err(&rd->refusal, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, rd->what,
            ": the file has changed (version %s, was %s)", now, rd->version);
    if (resp->status != 200 && (!partial || first != from))
        return store_err(&rd->refusal, ERR_RETRY, EIO, REASON_STORE_ERROR, rd->what,
            ": the server sent other bytes than those asked for (status %d)", resp->status);
    if (rd->measured && total < rd->off + rd->len)
        return store_err(&rd->refusal, ERR_INVALID, EINVAL, REASON_STORE_ERROR, rd->what,
            ": read up to %" PRIu64 ", but the file ends at %" PRIu64, rd->off + rd->len, total);
    if (!*rd->version && rd->measured)
        memcpy(rd->version, now, sizeof now); /* the rest must be of the same one */
    return 0;
}

static int web_read_once(struct web *w, const char *url, struct web_reading *rd,
    const struct retry *r, int64_t *after_ns, struct err *e)
{
    uint64_t from = rd->off + rd->got;
    cleanup_free char *range = xasprintf(
        "Range: bytes=%" PRIu64 "-%" PRIu64, from, rd->off + rd->len - 1);
    /* the server that has the bytes of a repository has other ETags */
    cleanup_free char *match = !rd->hub && *rd->version && *rd->version != '~'
        ? xasprintf("If-Match: \"%s\"", rd->version)
        : NULL;
    cleanup_free char *at = NULL;
    cleanup_resp struct http_resp resp = {0};
    struct web_call c = {.method = "GET",
        .url = url,
        .range = range,
        .match = match,
        .sink = web_take,
        .begin = web_begin,
        .sink_user = rd,
        .linked = rd->hub ? &rd->linked : NULL,
        .what = rd->what};
    rd->checked = rd->stopped = false;
    rd->linked = (struct web_linked){0};
    rd->refusal = (struct err)ERR_INIT;
    int rc = web_once(w, &c, r, &resp, &at, after_ns, e);
    if (rc && resp.status == 416)
        return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, rd->what,
            ": read at %" PRIu64 ", past the end of the file", from);
    if (rc && resp.status / 100 != 2)
        return -1;
    if (!rd->checked)
        web_begin(rd, &resp); /* there was no body */
    if (rd->refusal.cls != ERR_NONE) {
        *e = rd->refusal;
        return -1;
    }
    if (rd->stopped)
        return store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, rd->what, ": cancelled");
    if (rd->got == rd->len)
        return 0;
    if (rc)
        return -1;
    return rd->measured ? store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, rd->what,
               ": the server sent fewer bytes than were asked for")
                        : store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, rd->what,
                            ": read up to %" PRIu64 ", but the file ends at %" PRIu64,
                            rd->off + rd->len, rd->off + rd->got);
}

int web_read(void *impl, const char *path, const char *version, uint64_t off, size_t len,
    sink_fn sink, void *user, const atomic_bool *cancel, struct err *e)
{
    struct web *w = impl;
    cleanup_free char *url = web_url(w, path, false);
    struct retry r = RETRY_INIT(
        w->params.deadline_ns + (int64_t)(len >> 20) * READ_NS_PER_MIB, cancel);
    struct web_reading rd = {
        .what = url, .sink = sink, .user = user, .off = off, .len = len, .hub = web_is_repo(w, &r)};
    snprintf(rd.version, sizeof rd.version, "%s", version);
    int64_t after_ns;
    for (size_t begun; begun = rd.got, web_read_once(w, url, &rd, &r, &after_ns, e);) {
        if (!retry_again(&r, e, after_ns))
            return -1;
        if (rd.got > begun)
            r.attempt = 0; /* it moves */
    }
    return 0;
}
