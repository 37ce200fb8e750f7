/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a web server: URLs, versions, and one request with its redirects. Credentials go to
 * the server of the URL and to no other. */
#include "fuse/store/web.h"

#include "fuse/store/web_lead.h"
#include "fuse/store/web_words.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REDIRECTS_MAX 5
#define STALL_NS      (15 * NS_PER_S)
#define ANSWER_MAX    (64u << 10)
#define LOCATION_MAX  16384u

/* -- names ---------------------------------------------------------------------------------------
 */

char *web_url(const struct web *w, const char *path, bool directory)
{
    cleanup_free char *escaped = http_escape(path, true);
    return xasprintf("%s%s%s", w->base, escaped, directory && *path ? "/" : "");
}

void web_version_of(const char *etag, int64_t mtime_ns, uint64_t size, char out[STORE_VERSION_MAX])
{
    size_t n = etag ? strlen(etag) : 0;
    if (n > 2 && n - 2 < STORE_VERSION_MAX && etag[0] == '"' && etag[n - 1] == '"' && etag[1] != '~'
        && http_is_word(etag + 1, n - 2))
        snprintf(out, STORE_VERSION_MAX, "%.*s", (int)(n - 2), etag + 1);
    else /* never sent as If-Match: no ETag has this form */
        snprintf(out, STORE_VERSION_MAX, "~%llu-%lld", (unsigned long long)size,
            (long long)(mtime_ns / NS_PER_S));
}

void web_version(const struct http_resp *resp, uint64_t size, char out[STORE_VERSION_MAX])
{
    char etag[256], value[256];
    int64_t when = 0;
    bool tagged = http_header(resp, "etag", etag, sizeof etag);
    if (http_header(resp, "last-modified", value, sizeof value))
        clock_parse_http_date(value, &when);
    web_version_of(tagged ? etag : NULL, when, size, out);
}

/* -- one request
 * ----------------------------------------------------------------------------------- */

/* known: credentials were sent */
static int web_fail(const struct web *w, const struct web_call *c, const struct http_resp *resp,
    bool known, struct err *e)
{
    char code[64];
    int status = resp->status;
    enum err_class cls = http_class_of_status(status);
    struct web_refusal refusal = {.status = status,
        .code = http_header(resp, "x-error-code", code, sizeof code) ? code : "",
        .listing = c->listing,
        .repo = w->hub && atomic_load(&w->layout) != WEB_PAGES,
        .known = known};
    const char *words = web_refusal_words(&refusal);
    if (status == 404 || status == 410)
        return store_err(e, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, c->what, " (%d): %s", status,
            words            ? words
                : c->listing ? "the server has no such directory"
                             : "the server has no such file");
    bool page;
    cleanup_free char *bucket = web_bucket_of(w->params.url, &page);
    if (status == 401 || status == 403)
        return store_err(e, ERR_DENIED, EACCES, REASON_ACCESS_DENIED, c->what, " (%d): %s%s%s",
            status, bucket ? "the bucket is not public; with keys it is mounted as " : words,
            bucket ? bucket : "", bucket ? " and secretRef" : "");
    if (status == 412)
        return store_err(
            e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, c->what, ": the file has changed");
    return store_err(e, cls, cls == ERR_INVALID ? EINVAL : EIO, REASON_STORE_ERROR, c->what,
        ": the server answers %d", status);
}

/* Where a redirect leads, in *url; -1: it is not followed. */
static int follow_redirect(const struct web *w, const struct web_call *c,
    const struct http_resp *resp, int hops, char **url, struct err *e)
{
    const struct conf_mount *m = w->params.mount;
    cleanup_free char *location = xcalloc(1, LOCATION_MAX);
    cleanup_free char *next = http_header(resp, "location", location, LOCATION_MAX)
        ? web_led_to(*url, location)
        : NULL;
    cleanup_free char *shown = web_shown_lead(next ? next : location);
    if (!next || hops == REDIRECTS_MAX)
        return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, c->what,
            ": the server leads %s: %s", next ? "on and on" : "to where is not followed", shown);
    if (!web_same_origin(next, w->base) && !web_may_lead(next, m->endpoints, m->nendpoints))
        return store_err(e, ERR_DENIED, EACCES, REASON_ACCESS_DENIED, c->what,
            ": the server leads to %.*s, which this cluster does not allow: mount another URL, or ask whoever installed Millrace (value limits.endpoints)",
            (int)(strcspn(shown + MIN(strlen(shown), (size_t)8), "/") + 8), shown);
    free(*url);
    *url = steal(&next);
    return 0;
}

static bool is_redirect(const struct http_resp *resp)
{
    cleanup_free char *location = xmalloc(LOCATION_MAX);
    return resp->status / 100 == 3 && resp->status != 304
        && http_header(resp, "location", location, LOCATION_MAX);
}

static int web_ask(struct web *w, const struct web_call *c, const struct web_lines *lines,
    const struct retry *r, struct http_resp *resp, char **at, int64_t *after_ns, struct err *e)
{
    cleanup_free char *url = xstrdup(c->url);
    for (int hops = 0;; hops++) {
        bool ours = web_same_origin(url, w->base);
        const char *all[] = {
            ours ? lines->authorization : NULL, ours ? lines->header : NULL, c->range, c->match};
        const char *headers[ARRAY_LEN(all) + 1] = {0};
        for (size_t i = 0, n = 0; i < ARRAY_LEN(all); i++)
            if (all[i])
                headers[n++] = all[i];
        struct http_req req = {.method = c->method,
            .url = url,
            .headers = headers,
            .sink = c->sink,
            .begin = c->begin,
            .sink_user = c->sink_user,
            .max_body = c->max_body ? c->max_body : ANSWER_MAX,
            .timeout_ns = retry_left_ns(r),
            .stall_ns = STALL_NS,
            .cancel = r->cancel};
        struct err inner = ERR_INIT;
        if (http_do(w->http, &req, resp, &inner))
            return store_err_network(w->params.url, c->what, &inner, e);
        if (c->linked && ours)
            web_hub_note(resp, c->linked);
        bool told = c->linked && *c->linked->version && strcmp(c->method, "HEAD") == 0
            && resp->status / 100 <= 3;
        if (told || resp->status / 100 == 2 || (c->may_be_same && resp->status == 304)) {
            *at = steal(&url);
            return 0;
        }
        if (!is_redirect(resp)) {
            *after_ns = retry_after_ns(resp);
            return web_fail(w, c, resp, lines->authorization || lines->header, e);
        }
        if (follow_redirect(w, c, resp, hops, &url, e))
            return -1;
        http_resp_free(resp);
    }
}

int web_once(struct web *w, const struct web_call *c, const struct retry *r, struct http_resp *resp,
    char **at, int64_t *after_ns, struct err *e)
{
    cleanup_lines struct web_lines lines;
    *after_ns = -1;
    *at = NULL;
    if (web_auth_get(w->auth, &lines, e))
        return -1;
    while (web_ask(w, c, &lines, r, resp, at, after_ns, e)) {
        if ((resp->status != 401 && resp->status != 403) || !web_auth_renew(w->auth, &lines))
            return -1;
        http_resp_free(resp);
    }
    return 0;
}

int web_do(struct web *w, const struct web_call *c, struct retry *r, struct http_resp *resp,
    char **at, struct err *e)
{
    int64_t after_ns;
    while (web_once(w, c, r, resp, at, &after_ns, e)) {
        if (!retry_again(r, e, after_ns))
            return -1;
        http_resp_free(resp);
    }
    return 0;
}
