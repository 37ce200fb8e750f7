/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a web server: its options and its tables of functions. */
#include "fuse/store/web.h"

#include "fuse/store/web_words.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

static const struct store_option web_options[] = {
    {"manifest", STORE_OPTION_STRING, {0}, {0},
        .help =
            "for servers that list nothing: path of a list below the URL, one file a line: its path or URL, and its size behind it if it is known"},
    {"header", STORE_OPTION_SECRET, {0}, {0},
        .help =
            "one more header line with a secret in it, like X-Api-Key: 1234, to the server of the URL alone"},
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

/* -- opening
 * --------------------------------------------------------------------------------------- */

static int web_configure(struct web *w, struct err *e)
{
    const struct store_params *p = &w->params;
    cleanup_free char *manifest = NULL;
    if (option_get(p, "manifest", &manifest, e))
        return -1;
    if (manifest && !store_path_ok(manifest))
        return option_err(
            p, "manifest", manifest, "write a path below the URL, like lists/files.txt", e);
    if (manifest)
        w->manifest = web_manifest_new(web_url(w, manifest, false));
    else
        w->hub = web_hub_new(w->base);
    w->http = option_http(p, NULL, e);
    return w->http ? 0 : -1;
}

static void web_close(void *impl)
{
    struct web *w = impl;
    http_free(w->http);
    web_auth_free(w->auth);
    web_manifest_free(w->manifest);
    web_hub_free(w->hub);
    web_bucket_free(atomic_load(&w->bucket));
    free(w->base);
    free(w);
}

static void *web_open(const struct store_params *p, struct err *e)
{
    bool page;
    cleanup_free char *bucket = web_bucket_of(p->url, &page);
    if (page) {
        store_err(e, ERR_INVALID, 0, REASON_INVALID_URL, p->url,
            ": this is a page of a console, for people; the bucket is %s", bucket);
        return NULL;
    }
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
    w->auth = web_auth_new(&w->params);
    if (web_configure(w, e)) {
        web_close(w);
        return NULL;
    }
    return w;
}

static void web_contact(void *impl, char **server, char **who)
{
    const struct web *w = impl;
    size_t scheme = (size_t)(w->params.rest - w->params.url);
    *server = xstrndup(w->params.url, scheme + strcspn(w->params.rest, "/"));
    *who = NULL;
}

#define WEB_KIND(scheme_name)                                                                  \
    {                                                                                          \
        .kind = {scheme_name, scheme_name "://server/directory", web_options, 0, NULL, 0,      \
            "username and password, or bearer-token, or header", 0},                           \
        .open = web_open, .close = web_close, .check = web_check, .contact = web_contact,      \
        .stat_path = web_stat, .list = web_list, .list_tree = web_list_tree, .read = web_read, \
    }
const struct store_ops store_http = WEB_KIND("http");
const struct store_ops store_https = WEB_KIND("https");
