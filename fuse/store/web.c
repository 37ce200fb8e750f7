/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a web server: its options, requests with their redirects, and its tables of
 * functions. Credentials go to the server of the URL and to no other. */
#include "fuse/store/web.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REDIRECTS_MAX     5
#define STALL_NS          (15 * NS_PER_S)
#define ANSWER_MAX        (64u << 10)
#define RETRY_AFTER_MAX_S 300

static const struct store_option web_options[] = {
    {"manifest", STORE_OPTION_STRING, {0}, {0},
        .help =
            "for servers that list nothing: path of a list below the URL, one file a line, with its size behind it if it is known"},
    {"user", STORE_OPTION_STRING, {0}, {"username"}, .help = "name for basic authentication"},
    {"password", STORE_OPTION_SECRET, {0}, {0}, .help = "password of user"},
    {"bearer-token", STORE_OPTION_SECRET, {0}, {"token"},
        .help = "sent as Authorization: Bearer, to the server of the URL alone"},
    {"ca-cert", STORE_OPTION_CERTS, {0}, {0},
        .help = "certificates to trust instead of the system's, as PEM text"},
    {"tls-verify", STORE_OPTION_BOOL, {0}, {0},
        .help =
            "false: do not check the server's certificate, and send credentials to http:// servers; default true"},
    {0},
};

/* -- names ---------------------------------------------------------------------------------------
 */

char *web_url(const struct web *w, const char *path, bool directory)
{
    cleanup_free char *escaped = http_escape(path, true);
    return xasprintf("%s%s%s", w->base, escaped, directory && *path ? "/" : "");
}

void web_version(const struct http_resp *resp, uint64_t size, char out[STORE_VERSION_MAX])
{
    char value[256];
    int64_t when = 0;
    size_t n = http_header(resp, "etag", value, sizeof value) ? strlen(value) : 0;
    if (n > 2 && n - 2 < STORE_VERSION_MAX && value[0] == '"' && value[n - 1] == '"'
        && value[1] != '~' && http_is_word(value + 1, n - 2)) {
        snprintf(out, STORE_VERSION_MAX, "%.*s", (int)(n - 2), value + 1);
        return;
    }
    if (http_header(resp, "last-modified", value, sizeof value))
        clock_parse_http_date(value, &when);
    /* never sent as If-Match: no ETag has this form */
    snprintf(out, STORE_VERSION_MAX, "~%llu-%lld", (unsigned long long)size,
        (long long)(when / NS_PER_S));
}

/* -- one request
 * ----------------------------------------------------------------------------------- */

/* Where an answer leads; NULL: nowhere that is followed. Caller frees. */
static char *led_to(const char *url, const char *location)
{
    const char *host = strstr(url, "://") + 3;
    if (strncmp(location, "https://", 8) == 0
        || (strncmp(location, "http://", 7) == 0 && strncmp(url, "https:", 6) != 0))
        return xstrdup(location);
    if (strstr(location, "://") || strncmp(location, "//", 2) == 0)
        return NULL;
    size_t origin = (size_t)(host - url) + strcspn(host, "/");
    if (location[0] == '/')
        return xasprintf("%.*s%s", (int)origin, url, location);
    const char *slash = strrchr(host, '/');
    return slash ? xasprintf("%.*s%s", (int)(slash + 1 - url), url, location) : NULL;
}

static int64_t wait_after(const struct http_resp *resp)
{
    char value[64], *end;
    if (!http_header(resp, "retry-after", value, sizeof value))
        return -1;
    long seconds = strtol(value, &end, 10);
    return end != value && !*end && seconds >= 0 ? MIN(seconds, RETRY_AFTER_MAX_S) * NS_PER_S : -1;
}

static int web_fail(const struct web *w, const struct web_call *c, int status, struct err *e)
{
    enum err_class cls = http_class_of_status(status);
    if (status == 404 || status == 410)
        return store_err(e, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, c->what,
            " (%d): the server has no such file", status);
    if (status == 401 || status == 403)
        return store_err(e, ERR_DENIED, EACCES, REASON_ACCESS_DENIED, c->what, " (%d): %s", status,
            w->authorization
                ? "check the user and password, or the token, and what they may read"
                : "no credentials were given: set options user and password, or bearer-token, from a Secret");
    if (status == 412)
        return store_err(
            e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, c->what, ": the file has changed");
    return store_err(e, cls, cls == ERR_INVALID ? EINVAL : EIO, REASON_STORE_ERROR, c->what,
        ": the server answers %d", status);
}

static int web_fail_network(
    const struct web *w, const struct web_call *c, const struct err *inner, struct err *e)
{
    if (inner->sys == ECANCELED)
        return store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, c->what, ": cancelled");
    if (inner->cls == ERR_DENIED)
        return store_err(e, ERR_DENIED, EIO, REASON_TLS_FAILED, w->params.url,
            ": %s; name the authority's certificates in caBundle (or option ca-cert)", inner->msg);
    if (inner->cls == ERR_EXHAUSTED || inner->cls == ERR_INVALID)
        return store_err(
            e, inner->cls, inner->sys, REASON_STORE_ERROR, c->what, ": %s", inner->msg);
    return store_err(e, ERR_RETRY, EIO,
        inner->sys == EADDRNOTAVAIL ? REASON_NAME_NOT_RESOLVED : REASON_UNREACHABLE, c->what,
        ": %s", inner->msg);
}

int web_once(struct web *w, const struct web_call *c, const struct retry *r, struct http_resp *resp,
    char **at, int64_t *after_ns, struct err *e)
{
    cleanup_free char *url = xstrdup(c->url);
    *after_ns = -1;
    *at = NULL;
    for (int hops = 0;; hops++) {
        const char *headers[4] = {0};
        size_t n = 0;
        bool ours = strncmp(url, w->base, w->origin) == 0 && strchr("/?#", url[w->origin]);
        if (ours && w->authorization)
            headers[n++] = w->authorization;
        if (c->range)
            headers[n++] = c->range;
        if (c->match)
            headers[n++] = c->match;
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
            return web_fail_network(w, c, &inner, e);
        if (resp->status / 100 == 2) {
            *at = steal(&url);
            return 0;
        }
        char location[2048];
        bool leads = resp->status / 100 == 3 && resp->status != 304
            && http_header(resp, "location", location, sizeof location);
        char *next = leads ? led_to(url, location) : NULL;
        if (leads && (!next || hops == REDIRECTS_MAX)) {
            free(next);
            return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, c->what,
                ": the server leads %s: %.200s",
                hops == REDIRECTS_MAX ? "on and on" : "to where is not followed", location);
        }
        if (!next) {
            *after_ns = wait_after(resp);
            return web_fail(w, c, resp->status, e);
        }
        free(url);
        url = next;
        http_resp_free(resp);
    }
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

/* -- opening
 * --------------------------------------------------------------------------------------- */

static int take_authorization(struct web *w, struct err *e)
{
    const struct store_params *p = &w->params;
    cleanup_free char *user = NULL, *password = NULL, *token = NULL, *verify = NULL;
    if (option_get(p, "user", &user, e) || option_get(p, "password", &password, e)
        || option_get(p, "bearer-token", &token, e) || option_get(p, "tls-verify", &verify, e))
        return -1;
    if (!user && !password && !token)
        return 0;
    if ((user != NULL) != (password != NULL) || (user && token))
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": give options user and password, or bearer-token alone");
    if (strncmp(w->base, "https:", 6) != 0 && !(verify && strcmp(verify, "false") == 0))
        return store_err(e, ERR_DENIED, 0, REASON_INVALID_OPTION, p->url,
            ": credentials are not sent by http://, where anybody on the way sees them: use https://, or set option tls-verify to \"false\"");
    if (token) {
        w->authorization = xasprintf("Authorization: Bearer %s", token);
    } else {
        cleanup_free char *pair = xasprintf("%s:%s", user, password);
        cleanup_free char *text = xmalloc(strlen(pair) * 2 + 8);
        EVP_EncodeBlock((unsigned char *)text, (unsigned char *)pair, (int)strlen(pair));
        w->authorization = xasprintf("Authorization: Basic %s", text);
        explicit_bzero(pair, strlen(pair));
        explicit_bzero(text, strlen(text));
    }
    return 0;
}

static int web_configure(struct web *w, struct err *e)
{
    const struct store_params *p = &w->params;
    cleanup_free char *manifest = NULL;
    if (option_get(p, "manifest", &manifest, e))
        return -1;
    if (manifest && !store_path_ok(manifest))
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": option manifest is '%s'; write a path below the URL, like lists/files.txt",
            manifest);
    if (manifest)
        w->manifest = web_url(w, manifest, false);
    w->http = option_http(p, NULL, e);
    return w->http ? take_authorization(w, e) : -1;
}

static void web_close(void *impl)
{
    struct web *w = impl;
    http_free(w->http);
    if (w->authorization)
        explicit_bzero(w->authorization, strlen(w->authorization));
    free(w->authorization);
    free(w->base);
    free(w->manifest);
    free(w);
}

static void *web_open(const struct store_params *p, struct err *e)
{
    size_t host = strcspn(p->rest, "/?#");
    if (!host || memchr(p->rest, '@', host) || strpbrk(p->rest, "?#")
        || strpbrk(p->rest, " \t\r\n")) {
        store_err(e, ERR_INVALID, 0, REASON_INVALID_URL, p->url,
            ": write %s, without user, '?', '#' and blanks", p->kind->url_help);
        return NULL;
    }
    struct web *w = xcalloc(1, sizeof *w);
    w->params = *p;
    bool slash = p->url[strlen(p->url) - 1] == '/';
    w->base = xasprintf("%s%s", p->url, slash ? "" : "/");
    w->origin = (size_t)(p->rest - p->url) + host;
    if (web_configure(w, e)) {
        web_close(w);
        return NULL;
    }
    return w;
}

#define WEB_KIND(scheme_name)                                                              \
    {                                                                                      \
        .kind = {scheme_name, scheme_name "://server/directory", web_options, 0, NULL, 0}, \
        .open = web_open, .close = web_close, .check = web_check, .stat_path = web_stat,   \
        .list = web_list, .list_tree = web_list_tree, .read = web_read,                    \
    }
const struct store_ops store_http = WEB_KIND("http");
const struct store_ops store_https = WEB_KIND("https");
