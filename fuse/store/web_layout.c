/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a web server: whether it has index pages or, where its URL looks like that of a
 * repository, a tree API. */
#include "fuse/store/web.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <string.h>

#define INDEX_MAX (32u << 20)
#define ASK_NS    (8 * NS_PER_S)

int web_index_page(struct web *w, const char *dir, struct retry *r, struct http_resp *resp,
    char **at, struct err *e)
{
    cleanup_free char *url = web_url(w, dir, true);
    char type[64];
    struct web_call c = {
        .method = "GET", .url = url, .max_body = INDEX_MAX, .listing = true, .what = url};
    if (web_do(w, &c, r, resp, at, e))
        return -1;
    if (http_header(resp, "content-type", type, sizeof type)
        && strncmp(type, "text/html", 9) == 0) {
        atomic_store(&w->no_bucket, true);
        return 0;
    }
    return store_err(e, ERR_INVALID, ENOTDIR, REASON_STORE_ERROR, url,
        ": the server shows no index page for it: turn that on there, or give a list (option manifest)");
}

/* UNKNOWN: neither answers as it should. */
static enum web_layout ask_layout(struct web *w, struct retry *r)
{
    struct err e = ERR_INIT, none = ERR_INIT;
    cleanup_free char *cursor = NULL, *at = NULL;
    cleanup_resp struct http_resp page = {0};
    if (web_repo_list(w, "", false, &cursor, r, NULL, NULL, &e) == 0)
        return WEB_REPO;
    bool no_api = e.cls == ERR_NOTFOUND || e.cls == ERR_INVALID;
    return no_api && web_index_page(w, "", r, &page, &at, &none) == 0 ? WEB_PAGES : WEB_UNKNOWN;
}

bool web_is_repo(struct web *w, const struct retry *r)
{
    enum web_layout layout = w->hub ? atomic_load(&w->layout) : WEB_PAGES;
    if (layout != WEB_UNKNOWN)
        return layout == WEB_REPO;
    struct retry once = RETRY_INIT(MIN(retry_left_ns(r), ASK_NS), r->cancel);
    once.max_attempts = 1;
    layout = ask_layout(w, &once);
    if (layout != WEB_UNKNOWN)
        atomic_store(&w->layout, layout);
    return layout != WEB_PAGES;
}
