/* SPDX-License-Identifier: Apache-2.0 */
/* Lists, page by page. A page that cannot be read is asked for again in smaller pieces, so that at
 * last it is one object that cannot. */
#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/client.h"
#include "lib/kube/wire_scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_DEFAULT 200
#define PAGE_SMALL   20

struct listing {
    struct client_call call;
    const struct kube_select *sel;
    const struct kube_lister *to;
    unsigned whole, limit; /* items of a page: as wished, and of the next one */
    unsigned suspect;      /* items ahead of which one keeps a larger page from being read */
    char *next;            /* owned: the continue token; "" at the beginning and the end */
    char *version;         /* owned: of the last page */
};

/* Hands every item of a page over, so that it holds no reference to the page. */
static int hand_over(
    const struct kube_res *res, json_t *page, kube_item item, void *user, struct err *e)
{
    json_t *items = json_object_get(page, "items");
    cleanup_free char *version = kube_res_api_version(res);
    if (!json_is_array(items) && !json_is_null(items))
        return err_set(e, ERR_FATAL, "the answer has no items");
    for (size_t i = 0; i < json_array_size(items); i++) {
        json_t *it = json_incref(json_array_get(items, i));
        json_array_set_new(items, i, json_null());
        json_object_set_new(it, "apiVersion", json_string(version));
        json_object_set_new(it, "kind", json_string(res->kind));
        if (item(user, it)) {
            err_set(e, ERR_RETRY, "cancelled: the caller takes no more");
            if (e)
                e->sys = ECANCELED;
            return -1;
        }
    }
    return 0;
}

static void go_on_at(struct listing *l, const char *version, const char *next)
{
    free(l->version);
    l->version = xstrdup(version);
    free(l->next);
    l->next = xstrdup(next);
}

static int take_page(struct listing *l, json_t *page, size_t size, struct err *e)
{
    if (hand_over(l->call.res, page, l->to->item, l->to->user, e))
        return client_say(&l->call, e);
    const char *at = jget_str(page, "metadata.resourceVersion", "");
    if (!*at) {
        err_set(e, ERR_FATAL, "the answer has no resourceVersion");
        return client_say(&l->call, e);
    }
    go_on_at(l, at, jget_str(page, "metadata.continue", ""));
    l->suspect -= MIN(l->suspect, l->limit);
    /* larger again, where objects of that size would fit well */
    unsigned more = MIN(l->limit < PAGE_SMALL ? PAGE_SMALL : PAGE_DEFAULT, l->whole);
    if (!l->suspect && more > l->limit && size / l->limit * more < KUBE_PAGE_MAX / 4)
        l->limit = more;
    return 0;
}

/* The only item of the page cannot be read. -1: nor can where the list goes on. */
static int skip_item(struct listing *l, const struct buf *unread, const struct err *why)
{
    struct wire_found found[] = {
        {"metadata.resourceVersion", NULL}, {"metadata.continue", NULL}, {NULL, NULL}};
    wire_scan(unread->data, unread->len, found);
    cleanup_free char *version = found[0].value, *next = found[1].value;
    if (!version)
        return -1;
    json_t *known = wire_scan_object(unread->data, unread->len, "items.0.metadata", why->msg);
    int rc = l->to->skipped(l->to->user, known);
    l->suspect = 0; /* it was this one */
    go_on_at(l, version, next ? next : "");
    return rc;
}

static int next_page(struct kube *k, struct listing *l, struct err *e)
{
    char limit[16];
    snprintf(limit, sizeof limit, "%u", l->limit);
    char *url = client_url(k, l->call.res, l->call.ns, NULL, NULL);
    client_query(&url, "limit", limit);
    if (l->sel && l->sel->labels)
        client_query(&url, "labelSelector", l->sel->labels);
    if (l->sel && l->sel->fields)
        client_query(&url, "fieldSelector", l->sel->fields);
    if (*l->next)
        client_query(&url, "continue", l->next);
    cleanup_json json_t *page = NULL;
    struct client_bytes bytes = {0, BUF_INIT(0), NULL};
    struct client_call c = l->call;
    c.url = url;
    int rc = client_request(k, &c, &page, &bytes, e);
    free(url);
    if (rc == 0)
        return take_page(l, page, bytes.size, e);
    if (bytes.unread.len && l->limit > 1) {
        l->suspect = l->limit;
        l->limit = l->limit > PAGE_SMALL ? PAGE_SMALL : 1;
        rc = 0;
    } else if (bytes.unread.len && l->to->skipped) {
        rc = skip_item(l, &bytes.unread, e);
    }
    buf_free(&bytes.unread);
    return rc;
}

static int list_pages(struct kube *k, struct listing *l, char **version, struct err *e)
{
    struct err local = ERR_INIT;
    int rc;
    l->limit = l->whole;
    l->next = xstrdup("");
    do
        rc = next_page(k, l, e ? e : &local);
    while (rc == 0 && (!l->version || *l->next));
    if (rc == 0 && version)
        *version = steal(&l->version);
    free(l->version);
    free(l->next);
    return rc;
}

int kube_list(struct kube *k, const struct kube_res *res, const char *ns,
    const struct kube_select *sel, unsigned page_size, kube_item item, void *user, char **version,
    struct err *e)
{
    const struct kube_lister to = {item, NULL, user};
    struct listing l = {.call = {"list", "GET", NULL, res, ns, NULL, NULL, NULL, KUBE_PAGE_MAX},
        .sel = sel,
        .to = &to,
        .whole = page_size ? page_size : PAGE_DEFAULT};
    return list_pages(k, &l, version, e);
}

int kube_list_readable(struct kube *k, const struct kube_res *res, const char *ns,
    const struct kube_select *sel, const struct kube_lister *to, char **version, struct err *e)
{
    struct listing l = {.call = {"list", "GET", NULL, res, ns, NULL, NULL, NULL, KUBE_PAGE_MAX},
        .sel = sel,
        .to = to,
        .whole = PAGE_DEFAULT};
    return list_pages(k, &l, version, e);
}
