/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a web server, of a repository of the Hugging Face Hub: pages of its tree API, which
 * tell sizes and versions, so that no file is asked for by itself. */
#include "fuse/store/web.h"

#include "fuse/store/web_lead.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_MAX (32u << 20)
#define LINK_MAX 4096u

/* Where the next page is, in *cursor. */
static int turn_page(
    const struct web *w, const struct http_resp *resp, char **cursor, struct err *e)
{
    char link[LINK_MAX];
    char *next = http_header(resp, "link", link, sizeof link) ? web_next_page(link) : NULL;
    if (next && !web_same_origin(next, w->base)) {
        cleanup_free char *shown = web_shown_lead(next);
        free(next);
        return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, w->params.url,
            ": the next page of the listing is at another server: %s", shown);
    }
    free(*cursor);
    *cursor = next;
    return 0;
}

static int stop_page(void *user, const struct store_entry *entry)
{
    (void)user;
    (void)entry;
    return 1;
}

int web_repo_list(struct web *w, const char *dir, bool tree, char **cursor, struct retry *r,
    store_list_fn fn, void *user, struct err *e)
{
    cleanup_free char *url = *cursor ? xstrdup(*cursor) : web_hub_url(w->hub, dir, tree);
    cleanup_free char *what = web_url(w, dir, true), *at = NULL;
    cleanup_resp struct http_resp resp = {0};
    struct web_call c = {
        .method = "GET", .url = url, .max_body = PAGE_MAX, .listing = true, .what = what};
    struct err inner = ERR_INIT;
    if (web_do(w, &c, r, &resp, &at, e))
        return -1;
    if (web_hub_page(
            buf_str(&resp.body), resp.body.len, w->hub, dir, fn ? fn : stop_page, user, &inner))
        return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, what,
            ": what the server lists is not understood: %s", inner.msg);
    return turn_page(w, &resp, cursor, e);
}

int web_repo_stat(struct web *w, const char *path, struct retry *r, struct store_stat *st,
    int *status, struct err *e)
{
    cleanup_free char *url = web_url(w, path, false), *at = NULL, *cursor = NULL;
    cleanup_resp struct http_resp resp = {0};
    struct web_linked linked = {0};
    struct web_call c = {.method = "HEAD", .url = url, .linked = &linked, .what = url};
    int rc = web_do(w, &c, r, &resp, &at, e);
    *status = resp.status;
    *st = (struct store_stat){.size = linked.size};
    memcpy(st->version, linked.version, sizeof linked.version);
    if (rc == 0 && !(*linked.version && linked.sized))
        return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, url,
            ": the server does not say its version and size");
    if (rc == 0 || e->cls != ERR_NOTFOUND)
        return rc;
    struct err none = ERR_INIT;
    if (web_repo_list(w, path, false, &cursor, r, NULL, NULL, &none)) {
        if (none.cls != ERR_NOTFOUND) /* it may be a directory, for all that is known */
            *e = none;
        return -1;
    }
    *st = (struct store_stat){.is_dir = true};
    return 0;
}
