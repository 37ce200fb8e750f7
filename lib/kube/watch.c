/* SPDX-License-Identifier: Apache-2.0 */
/* One watch: a stream of events by lines, until it ends or is cancelled. */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/kube/client.h"
#include "lib/kube/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_DEFAULT (300 * NS_PER_S)
#define WATCH_LATE    (30 * NS_PER_S)  /* how much longer than it was asked for a watch may last */
#define WATCH_SILENT  (150 * NS_PER_S) /* the server sends a bookmark every minute */

struct watching {
    const struct kube_watch *w;
    struct wire_lines lines;
    /* of an ERROR event or a line that is none; cls ERR_NONE: the caller ended it */
    struct err why;
};

static int on_line(void *user, const char *text, size_t len, bool cut)
{
    struct watching *g = user;
    enum kube_event_type type = KUBE_BOOKMARK;
    json_t *object = NULL;
    if (wire_event(text, len, cut, &type, &object, &g->why))
        return -1;
    return g->w->event(g->w->user, type, object);
}

static int on_data(void *user, const void *data, size_t len)
{
    struct watching *g = user;
    return wire_lines_feed(&g->lines, data, len, on_line, g);
}

static char *watch_url(struct kube *k, const struct kube_res *res, const char *ns,
    const struct kube_watch *w, int64_t timeout_ns)
{
    char seconds[24];
    snprintf(seconds, sizeof seconds, "%" PRId64, MAX(timeout_ns / NS_PER_S, 1));
    char *url = client_url(k, res, ns, NULL, NULL);
    client_query(&url, "watch", "true");
    client_query(&url, "allowWatchBookmarks", "true");
    client_query(&url, "resourceVersion", w->version);
    client_query(&url, "timeoutSeconds", seconds);
    if (w->sel && w->sel->labels)
        client_query(&url, "labelSelector", w->sel->labels);
    if (w->sel && w->sel->fields)
        client_query(&url, "fieldSelector", w->sel->fields);
    return url;
}

/* Turns the end of the request into that of the watch. */
static int outcome(const struct watching *g, int rc, const struct http_resp *resp, struct err *e)
{
    if (g->why.cls != ERR_NONE) {
        if (e)
            *e = g->why;
        return -1;
    }
    if (rc)
        return -1; /* *e says why: cut off, stalled, cancelled */
    if (resp->status < 200 || resp->status > 299)
        return wire_fail(resp->status, resp->body.data ? resp->body.data : "", resp->body.len, e);
    if (g->lines.rest.len)
        return err_set(e, ERR_RETRY, "the stream ended in the middle of a line");
    return 0;
}

int kube_watch(struct kube *k, const struct kube_res *res, const char *ns,
    const struct kube_watch *w, struct err *e)
{
    int64_t timeout = w->timeout_ns ? w->timeout_ns : WATCH_DEFAULT;
    struct watching g = {.w = w, .lines = WIRE_LINES_INIT, .why = ERR_INIT};
    cleanup_free char *url = watch_url(k, res, ns, w, timeout);
    char *headers[CLIENT_HEADERS];
    client_headers(k, NULL, false, headers);
    struct http_req req = {
        .method = "GET",
        .url = url,
        .headers = (const char *const *)headers,
        .sink = on_data,
        .sink_user = &g,
        .timeout_ns = timeout + WATCH_LATE,
        .stall_ns = WATCH_SILENT,
        .cancel = w->cancel,
    };
    cleanup_resp struct http_resp resp = {0};
    int rc = http_do(k->http, &req, &resp, e);
    client_count(
        k, &(struct client_call){.verb = "watch", .method = "GET", .res = res}, resp.status, -1);
    client_headers_free(headers);
    if (resp.status == 401)
        free(kube_conf_token(k->conf, true)); /* rotated: the next watch takes the new one */
    rc = outcome(&g, rc, &resp, e);
    wire_lines_free(&g.lines);
    return rc ? err_wrap(e, "watch %s", res->plural) : 0;
}
