/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a web server, of a bucket that lists itself as S3's XML does, for anybody who asks:
 * its pages tell sizes, times and ETags, so that no file is asked for by itself. Where the bucket
 * begins is found out: at the URL, at the first component of its path, or at the server. */
#include "fuse/store/web.h"

#include "fuse/store/s3_xml.h"
#include "lib/base/mem.h"
#include "lib/http/head.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_NS (8 * NS_PER_S) /* of one place where a bucket may begin */

struct web_bucket {
    char *root;   /* its URL, "/" at its end */
    char *prefix; /* of the keys below the store's URL: "" or "a/b/" */
};

void web_bucket_free(struct web_bucket *b)
{
    if (!b)
        return;
    free(b->root);
    free(b->prefix);
    free(b);
}

/* what: for errors. INVALID: it is something else. */
static int bucket_page(struct web *w, const struct web_bucket *b, const char *dir, bool tree,
    const char *token, unsigned max, struct retry *r, struct s3_page *page, struct err *e)
{
    cleanup_free char *prefix = xasprintf("%s%s%s", b->prefix, dir, *dir ? "/" : "");
    cleanup_free char *escaped = http_escape(prefix, false),
                      *next = token ? http_escape(token, false) : NULL,
                      *url = xasprintf(
                          "%s?list-type=2&encoding-type=url&prefix=%s%s%s%s&max-keys=%u", b->root,
                          escaped, tree ? "" : "&delimiter=%2F", next ? "&continuation-token=" : "",
                          next ? next : "", max),
                      *what = web_url(w, dir, true), *at = NULL;
    cleanup_resp struct http_resp resp = {0};
    const struct web_call c = {
        .method = "GET", .url = url, .max_body = S3_PAGE_BODY_MAX, .listing = true, .what = what};
    struct err inner = ERR_INIT;
    if (web_do(w, &c, r, &resp, &at, e))
        return -1;
    if (s3_xml_page(buf_str(&resp.body), resp.body.len, page, &inner))
        return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, what,
            ": what the bucket lists is not understood: %s", inner.msg);
    return 0;
}

/* -- where it begins -------------------------------------------------------------------------- */

/* May the bucket begin after so many bytes of the URL? It does if it lists something there. NULL:
 * it does not, or (*silent) nobody has said so. */
static struct web_bucket *bucket_at(struct web *w, size_t root, const struct retry *r, bool *silent)
{
    struct s3_page page;
    struct err e = ERR_INIT;
    struct retry once = RETRY_INIT(MIN(retry_left_ns(r), ASK_NS), r->cancel);
    struct web_bucket *b = xcalloc(1, sizeof *b);
    b->root = xstrndup(w->base, root);
    b->prefix = xstrdup(w->base + root);
    once.max_attempts = 1;
    int rc = http_head_unescape(b->prefix, false)
        ? -1
        : bucket_page(w, b, "", false, NULL, 1, &once, &page, &e);
    *silent |= rc && e.cls == ERR_RETRY;
    bool found = rc == 0 && (page.n || !*b->prefix);
    if (rc == 0)
        s3_page_free(&page);
    if (!found)
        web_bucket_free(b);
    return found ? b : NULL;
}

struct web_bucket *web_bucket_look(struct web *w, const struct retry *r)
{
    struct web_bucket *b = atomic_load(&w->bucket), *none = NULL;
    size_t server = (size_t)(strchr(strstr(w->base, "://") + 3, '/') + 1 - w->base);
    size_t all = strlen(w->base), first = server + strcspn(w->base + server, "/") + 1;
    const size_t roots[] = {all, first, server};
    bool silent = false;
    if (b || w->manifest || w->hub || atomic_load(&w->no_bucket))
        return b;
    for (size_t i = 0; i < ARRAY_LEN(roots) && !b; i++)
        if (roots[i] <= all && (i == 0 || roots[i] < roots[i - 1]))
            b = bucket_at(w, roots[i], r, &silent);
    if (!b)
        atomic_store(&w->no_bucket, !silent);
    if (b && !atomic_compare_exchange_strong(&w->bucket, &none, b)) {
        web_bucket_free(b); /* another thread was quicker */
        b = none;
    }
    return b;
}

struct web_bucket *web_bucket_known(struct web *w) { return atomic_load(&w->bucket); }

/* -- pages ------------------------------------------------------------------------------------ */

/* Non-zero ends it. */
static int tell_item(
    struct web *w, const struct s3_item *item, size_t skip, bool tree, store_list_fn fn, void *user)
{
    size_t n = item->key ? strlen(item->key) : 0;
    if (item->key && n <= skip)
        return 0; /* the directory's own marker */
    cleanup_free char *name = item->key ? xstrdup(item->key + skip) : NULL;
    bool dir = item->is_prefix;
    if (name && name[strlen(name) - 1] == '/') {
        if (tree || !dir)
            return 0;
        name[strlen(name) - 1] = '\0';
    }
    if (!name || !*name || !store_path_ok(name) || strchr(name, '\n')) {
        store_left_out(
            w->params.url, item->key ? item->key : "(a key with a NUL)", NAME_OF_NO_FILE);
        return 0;
    }
    struct store_entry entry = {.name = name, .st = {.is_dir = dir}};
    if (!dir) {
        entry.st.size = item->size;
        entry.st.mtime_ns = item->mtime_ns;
        web_version_of(item->etag, item->mtime_ns, item->size, entry.st.version);
    }
    return fn(user, &entry);
}

int web_bucket_list(struct web *w, const char *dir, bool tree, char **cursor, struct retry *r,
    store_list_fn fn, void *user, struct err *e)
{
    const struct web_bucket *b = web_bucket_known(w);
    struct s3_page page;
    size_t skip = strlen(b->prefix) + strlen(dir) + (*dir != '\0');
    if (bucket_page(w, b, dir, tree, *cursor, 1000, r, &page, e))
        return -1;
    bool absent = !page.n && !page.next && !*cursor && *dir;
    bool ended = false;
    for (size_t i = 0; i < page.n && !ended && fn; i++)
        ended = tell_item(w, &page.items[i], skip, tree, fn, user) != 0;
    free(*cursor);
    *cursor = steal(&page.next);
    s3_page_free(&page);
    cleanup_free char *what = web_url(w, dir, true);
    return absent ? store_err(
               e, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, what, ": the bucket has nothing below it")
                  : 0;
}

int web_bucket_has_dir(struct web *w, const char *path, struct retry *r, struct err *e)
{
    struct s3_page page;
    if (bucket_page(w, web_bucket_known(w), path, false, NULL, 1, r, &page, e))
        return -1;
    int has = page.n > 0;
    s3_page_free(&page);
    return has;
}
