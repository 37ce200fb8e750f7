/* SPDX-License-Identifier: Apache-2.0 */
/* The S3 store, looking: listings, stat, and streams of bytes that are all of one version. */
#include "fuse/store/s3.h"

#include "fuse/store/gs.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_NS        (8 * NS_PER_S)
#define READ_NS_PER_MIB NS_PER_S    /* a call's deadline grows with what it moves */
#define WHOLE_MAX       (32u << 20) /* bytes that are held until their checksum is known */
#define WHOLE_TRIES     3

/* -- pages of keys --------------------------------------------------------------------------- */

int s3_page(struct s3 *s, const char *prefix, bool delimiter, const char *token, unsigned max,
    struct retry *r, struct s3_page *page, struct err *e)
{
    struct sigv4_pair query[6];
    size_t n = 0;
    char number[16];
    query[n++] = (struct sigv4_pair){"list-type", "2"};
    query[n++] = (struct sigv4_pair){"encoding-type", "url"};
    query[n++] = (struct sigv4_pair){"prefix", prefix};
    if (delimiter)
        query[n++] = (struct sigv4_pair){"delimiter", "/"};
    if (token)
        query[n++] = (struct sigv4_pair){"continuation-token", token};
    if (max) {
        snprintf(number, sizeof number, "%u", max);
        query[n++] = (struct sigv4_pair){"max-keys", number};
    }
    cleanup_free char *what = s3_name(s, prefix);
    struct s3_call call = {
        .method = "GET", .query = query, .nquery = n, .max_body = S3_PAGE_BODY_MAX, .what = what};
    struct s3_outcome out = {0};
    for (;;) {
        cleanup_resp struct http_resp resp;
        if (s3_do(s, &call, r, &resp, &out, e))
            return -1;
        struct err inner = ERR_INIT;
        if (s3_xml_page(resp.body.data, resp.body.len, page, &inner) == 0) {
            for (size_t i = 0; i < page->n && s->google; i++) {
                free(page->items[i].etag);
                page->items[i].etag = steal(&page->items[i].generation);
            }
            return 0;
        }
        store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, what, ": %s; is the endpoint %s?",
            inner.msg, s->google ? "one of Cloud Storage" : "an S3 server");
        if (!s3_again(s, r, &out, e))
            return -1;
    }
}

/* Is the prefix without its slash an object with something in it? Empty ones are marks of
 * directories that some tools make. */
static bool is_object(struct s3 *s, struct retry *r)
{
    struct s3_page page;
    struct err ignored = ERR_INIT;
    cleanup_free char *key = xstrndup(s->prefix, strlen(s->prefix) - 1);
    if (s3_page(s, key, false, NULL, 1, r, &page, &ignored))
        return false;
    bool is = page.n == 1 && page.items[0].key && strcmp(page.items[0].key, key) == 0
        && page.items[0].size > 0;
    s3_page_free(&page);
    return is;
}

int s3_check(void *impl, struct err *e)
{
    struct s3 *s = impl;
    struct retry r = RETRY_INIT(MIN(s->params.deadline_ns, CHECK_NS), NULL);
    r.max_attempts = 2; /* the caller wants to know how it is now, not to wait until it is better */
    struct s3_page page;
    if (s3_page(s, s->prefix, false, NULL, 1, &r, &page, e))
        return -1;
    bool empty = page.n == 0 && *s->prefix;
    s3_page_free(&page);
    if (empty && is_object(s, &r))
        return store_err(e, ERR_INVALID, ENOTDIR, REASON_INVALID_URL, s->params.url,
            ": it is one object, no directory: name the directory that it is in; pods find the object below it");
    if (empty && s->params.mount->read_only)
        return store_err(e, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, s->params.url,
            ": bucket %s has no object below %s: correct the prefix in mountPoint", s->bucket,
            s->prefix);
    return 0;
}

static void item_stat(const struct s3_item *item, struct store_stat *st)
{
    st->is_dir = item->is_prefix;
    st->size = item->is_prefix ? 0 : item->size;
    st->mtime_ns = item->is_prefix ? 0 : item->mtime_ns;
    st->version[0] = '\0';
    if (!item->is_prefix)
        s3_version(item->etag, item->size, item->mtime_ns, st->version);
}

/* Whether a small one is a link is not told, but where nobody makes such. */
static void leave_unasked(struct store_stat *st, bool links)
{
    st->unasked = links && !st->is_dir && s3_may_be_link(st->size);
}

/* A listing that begins at the key tells more than HEAD: whether there is also a directory of that
 * name (it wins), the time with all its digits, and, if it is refused, why. */
int s3_stat(void *impl, const char *path, struct store_stat *st, struct err *e)
{
    struct s3 *s = impl;
    if (!*path) {
        st->is_dir = true;
        return 0;
    }
    struct retry r = RETRY_INIT(s->params.deadline_ns, NULL);
    cleanup_free char *key = s3_key(s, path), *dir = xasprintf("%s/", key);
    struct s3_page page;
    if (s3_page(s, key, true, NULL, 16, &r, &page, e))
        return -1;
    bool file = false, is_dir = false, past = page.next == NULL;
    for (size_t i = 0; i < page.n; i++) {
        const struct s3_item *item = &page.items[i];
        if (!item->key)
            continue;
        if (!item->is_prefix && strcmp(item->key, key) == 0) {
            file = true;
            item_stat(item, st);
            leave_unasked(st, true);
        }
        is_dir |= strcmp(item->key, dir) == 0;
        past |= strcmp(item->key, dir) > 0;
    }
    s3_page_free(&page);
    if (!is_dir && !past) { /* "key!", "key-1" … sort before "key/" */
        if (s3_page(s, dir, false, NULL, 1, &r, &page, e))
            return -1;
        is_dir = page.n > 0;
        s3_page_free(&page);
    }
    if (is_dir)
        *st = (struct store_stat){.is_dir = true};
    if (is_dir || file)
        return 0;
    cleanup_free char *what = s3_name(s, key);
    return store_err(e, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, what, ": there is no such object");
}

/* Can a file system show this name, relative to the listed directory? */
static bool can_be_shown(char *name, bool tree)
{
    return tree ? *name && store_path_ok(name) : store_name_ok(name, strlen(name));
}

/* Has this page the note of the directory whose keys begin with prefix? */
static bool is_noted(const struct s3_page *page, const char *prefix)
{
    size_t skip = strlen(prefix);
    for (size_t i = 0; i < page->n; i++) {
        const char *key = page->items[i].key;
        if (key && strncmp(key, prefix, skip) == 0 && s3_note_hides(key + skip))
            return true;
    }
    return false;
}

/* Between two pages the cursor says whether the note has come, and where the next one begins. */
#define CURSOR_NOTED 'n'
#define CURSOR_PLAIN '-'

static int s3_list_page(struct s3 *s, const char *dir, bool tree, char **cursor, store_list_fn fn,
    void *user, struct err *e)
{
    cleanup_free char *prefix = *dir ? xasprintf("%s%s/", s->prefix, dir) : xstrdup(s->prefix);
    size_t skip = strlen(prefix);
    struct retry r = RETRY_INIT(s->params.deadline_ns, NULL);
    struct s3_page page;
    bool links = s->s3fs || (*cursor && **cursor == CURSOR_NOTED);
    if (s3_page(s, prefix, !tree, *cursor ? *cursor + 1 : NULL, 0, &r, &page, e))
        return -1;
    links |= is_noted(&page, prefix);
    free(*cursor);
    *cursor = page.next ? xasprintf("%c%s", links ? CURSOR_NOTED : CURSOR_PLAIN, page.next) : NULL;
    for (size_t i = 0; i < page.n; i++) {
        struct s3_item *item = &page.items[i];
        if (!item->key || strncmp(item->key, prefix, skip) != 0)
            continue;
        char *name = item->key + skip;
        size_t n = strlen(name);
        if (n && name[n - 1] == '/') {
            if (!item->is_prefix)
                continue; /* the marker of a directory: this one, or with a tree one further down */
            name[n - 1] = '\0';
        }
        const char *slash = strrchr(name, '/');
        if (s3_note_hides(slash ? slash + 1 : name))
            continue;
        if (!can_be_shown(name, tree)) {
            if (n)
                store_left_out(s->params.url, item->key, NAME_OF_NO_FILE);
            continue;
        }
        struct store_entry entry = {.name = name};
        item_stat(item, &entry.st);
        leave_unasked(&entry.st, links);
        if (fn(user, &entry))
            break;
    }
    s3_page_free(&page);
    return 0;
}

int s3_list(void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return s3_list_page(impl, dir, false, cursor, fn, user, e);
}

int s3_list_tree(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    return s3_list_page(impl, dir, true, cursor, fn, user, e);
}

/* -- bytes ----------------------------------------------------------------------------------- */

struct s3_reading {
    const struct s3 *s;
    const char *what;
    sink_fn sink;
    void *user;
    uint64_t off;
    size_t len, got;                 /* got: bytes that the sink has, over all attempts */
    char version[STORE_VERSION_MAX]; /* ""; that of the first answer from then on */
    /* of this attempt: its headers were looked at; there were more bytes than asked for */
    bool checked, overflow;
    struct err refusal; /* what they say against it */
    /* it is all of the object, which is asked for without a range: then servers tell the checksum;
     * what is left of it once an answer has broken off is asked for with one */
    bool whole;
    /* of the whole, as they told it, of CRC32C and CRC64NVME; "": they did not */
    char sum[2][S3_SUM_TEXT + 1];
};

static const enum s3_sum read_sums[] = {S3_SUM_CRC32C, S3_SUM_CRC64NVME};

/* Those of several parts that are no sums of the whole ("…-3") say nothing here. */
static void note_sums(struct s3_reading *rd, const struct http_resp *resp)
{
    char value[64];
    if (rd->s->google) {
        gs_crc32c(resp->headers, rd->sum[0]);
        return;
    }
    bool parts = http_header(resp, "x-amz-checksum-type", value, sizeof value)
        && strcmp(value, "FULL_OBJECT") != 0;
    for (size_t i = 0; i < ARRAY_LEN(read_sums); i++) {
        cleanup_free char *name = s3_sum_header(read_sums[i], NULL);
        rd->sum[i][0] = '\0';
        if (!parts && http_header(resp, name, value, sizeof value) && strlen(value) < S3_SUM_TEXT
            && !strchr(value, '-'))
            memcpy(rd->sum[i], value, strlen(value) + 1);
    }
}

static int reading_take(void *user, const void *data, size_t len)
{
    struct s3_reading *r = user;
    r->overflow = len > r->len - r->got;
    if (r->overflow || r->sink(r->user, data, len))
        return 1;
    r->got += len;
    return 0;
}

/* Digits up to `end`, without the signs and blanks that strtoull would take. NULL: no number. */
static const char *take_number(const char *p, char end, uint64_t *out)
{
    *out = 0;
    const char *first = p;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(*out, 10, out)
            || __builtin_add_overflow(*out, (uint64_t)(*p - '0'), out))
            return NULL;
    return p > first && *p == end ? p + (end != '\0') : NULL;
}

bool s3_content_range(const char *text, uint64_t *first, uint64_t *last, uint64_t *total)
{
    const char *p = strncmp(text, "bytes ", 6) == 0 ? text + 6 : NULL;
    return p && (p = take_number(p, '-', first)) && (p = take_number(p, '/', last))
        && take_number(p, '\0', total) && *first <= *last && *last < *total;
}

/* The version that an answer is of, as listings name it; "": it does not tell. total: bytes of the
 * whole object, 0 unknown. */
static void version_of(const struct s3 *s, const struct http_resp *resp, const char *wanted,
    uint64_t total, char now[STORE_VERSION_MAX])
{
    char value[256];
    struct tm tm = {0};
    now[0] = '\0';
    if (s3_tag(s, resp, value, sizeof value))
        s3_version(value, 0, 0, now);
    else if (total && *wanted == '~' && strchr(wanted, '-')
        && http_header(resp, "last-modified", value, sizeof value)
        && strptime(value, "%a, %d %b %Y %H:%M:%S GMT", &tm))
        s3_version("", total, (int64_t)timegm(&tm) * NS_PER_S, now);
}

/* Is this answer the range we asked for, of the version we want? Asked before the first of its
 * bytes is taken. */
static int reading_check(void *user, const struct http_resp *resp)
{
    struct s3_reading *rd = user;
    char text[128], now[STORE_VERSION_MAX];
    uint64_t from = rd->off + rd->got, first = 0, last, total = 0;
    bool partial = resp->status == 206 && http_header(resp, "content-range", text, sizeof text)
        && s3_content_range(text, &first, &last, &total);
    rd->checked = true;
    if (resp->status == 200
        && (!http_header(resp, "content-length", text, sizeof text)
            || !take_number(text, '\0', &total)))
        total = 0;
    version_of(rd->s, resp, rd->version, partial || resp->status == 200 ? total : 0, now);
    if (*rd->version && *now && strcmp(rd->version, now) != 0)
        return store_err(&rd->refusal, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, rd->what,
            ": the object has changed (version %s, was %s)", now, rd->version);
    if (resp->status == 200 ? from > 0 : !partial || first != from)
        return store_err(&rd->refusal, ERR_RETRY, EIO, REASON_STORE_ERROR, rd->what,
            ": the server sent other bytes than those asked for (status %d)", resp->status);
    if (rd->whole && (resp->status != 200 || total != rd->len))
        return store_err(&rd->refusal, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, rd->what,
            ": the object has changed (it has %" PRIu64 " bytes, had %zu)", total, rd->len);
    if (rd->whole)
        note_sums(rd, resp);
    if (partial && total < rd->off + rd->len)
        return store_err(&rd->refusal, ERR_INVALID, EINVAL, REASON_STORE_ERROR, rd->what,
            ": read up to %" PRIu64 ", but the object ends at %" PRIu64, rd->off + rd->len, total);
    if (!*rd->version)
        memcpy(rd->version, now, sizeof now); /* the rest must be of the same one */
    return 0;
}

static int reading_try(struct s3 *s, const char *key, struct s3_reading *rd, const struct retry *r,
    struct s3_outcome *out, struct err *e)
{
    uint64_t from = rd->off + rd->got, to = rd->off + rd->len - 1;
    cleanup_free char *range = xasprintf("range: bytes=%" PRIu64 "-%" PRIu64, from, to);
    cleanup_free char *match = *rd->version && *rd->version != '~'
        ? xasprintf("if-match: \"%s\"", rd->version)
        : NULL;
    const char *headers[] = {rd->whole ? "x-amz-checksum-mode: ENABLED" : range, match, NULL};
    struct s3_call call = {.method = "GET",
        .key = key,
        .headers = headers,
        .does = S3_CONTENT,
        .sink = reading_take,
        .begin = reading_check,
        .sink_user = rd,
        .what = rd->what};
    rd->checked = rd->overflow = false;
    rd->refusal = (struct err)ERR_INIT;
    cleanup_resp struct http_resp resp;
    int rc = s3_once(s, &call, r, &resp, out, e);
    if (rc && out->status == 412)
        return store_err(e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, rd->what,
            ": the object has changed (it was version %s)", rd->version);
    if (rc && out->status == 416)
        return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, rd->what,
            ": read at %" PRIu64 ", past the end of the object", from);
    if (rc && out->status / 100 != 2)
        return -1;
    if (!rd->checked)
        reading_check(rd, &resp); /* there was no body */
    if (rd->refusal.cls != ERR_NONE) {
        *e = rd->refusal;
        return -1;
    }
    if (rd->overflow)
        return store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, rd->what,
            ": the server sent more bytes than were asked for");
    if (rc)
        return -1;
    if (rd->got < rd->len && resp.status == 200)
        return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, rd->what,
            ": read up to %" PRIu64 ", but the object ends at %" PRIu64, rd->off + rd->len,
            rd->off + rd->got);
    if (rd->got < rd->len)
        return store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, rd->what,
            ": the server sent fewer bytes than were asked for");
    return 0;
}

static int reading_run(
    struct s3 *s, const char *key, struct s3_reading *rd, const atomic_bool *cancel, struct err *e)
{
    struct retry r = RETRY_INIT(
        s->params.deadline_ns + (int64_t)(rd->len >> 20) * READ_NS_PER_MIB, cancel);
    struct s3_outcome out = {0};
    for (size_t begun; begun = rd->got, reading_try(s, key, rd, &r, &out, e);) {
        if (!s3_again(s, &r, &out, e))
            return -1;
        if (rd->got > begun)
            r.attempt = 0; /* it moves */
        rd->whole &= rd->got == 0;
    }
    return 0;
}

int s3_read(void *impl, const char *path, const char *version, uint64_t off, size_t len,
    sink_fn sink, void *user, const atomic_bool *cancel, struct err *e)
{
    struct s3 *s = impl;
    cleanup_free char *key = s3_key(s, path), *what = s3_name(s, key);
    struct s3_reading rd = {
        .s = s, .what = what, .sink = sink, .user = user, .off = off, .len = len};
    snprintf(rd.version, sizeof rd.version, "%s", version);
    return reading_run(s, key, &rd, cancel, e);
}

/* Are they the bytes of which the server told the sums? */
static bool sums_hold(const struct s3_reading *rd, const void *data)
{
    for (size_t i = 0; i < ARRAY_LEN(read_sums); i++) {
        char text[S3_SUM_TEXT];
        if (!*rd->sum[i])
            continue;
        s3_sum_text(read_sums[i], s3_sum_add(read_sums[i], 0, data, rd->len), text);
        if (strcmp(text, rd->sum[i]) != 0)
            return false;
    }
    return true;
}

/* Into memory first: what was given to the sink cannot be taken back. */
int s3_read_whole(void *impl, const char *path, const char *version, size_t len, sink_fn sink,
    void *user, const atomic_bool *cancel, struct err *e)
{
    struct s3 *s = impl;
    cleanup_free char *data = s->terms.sum && len <= WHOLE_MAX ? malloc(len) : NULL;
    if (!data)
        return s3_read(impl, path, version, 0, len, sink, user, cancel, e);
    cleanup_free char *key = s3_key(s, path), *what = s3_name(s, key);
    for (int tries = 0; tries < WHOLE_TRIES; tries++) {
        struct sink_memory memory = {data, len};
        struct s3_reading rd = {.s = s,
            .what = what,
            .sink = sink_to_memory,
            .user = &memory,
            .len = len,
            .whole = true};
        snprintf(rd.version, sizeof rd.version, "%s", version);
        if (reading_run(s, key, &rd, cancel, e))
            return -1;
        if (!sums_hold(&rd, data))
            continue;
        return sink(user, data, len)
            ? store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, what, ": cancelled")
            : 0;
    }
    return store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, what,
        ": the bytes that came are not those that were written, by the checksum beside the object, %d times: it is damaged in the store or on the way",
        WHOLE_TRIES);
}
