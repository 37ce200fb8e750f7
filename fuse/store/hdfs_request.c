/* SPDX-License-Identifier: Apache-2.0 */
/* One request to HDFS: to the name node that is active, and on to where it leads. */
#include "fuse/store/hdfs.h"

#include "fuse/store/web_lead.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STALL_NS     (15 * NS_PER_S)
#define SILENT_NS    (4 * NS_PER_S) /* of a name node, where another may be asked */
#define ANSWER_MAX   (1u << 20)
#define LOCATION_MAX 16384u
#define HOPS_MAX     4
#define API          "/webhdfs/v1"

struct hdfs_body {
    int fd;
    uint64_t at, len;
};

static ssize_t hdfs_body_read(void *user, void *data, size_t len)
{
    struct hdfs_body *up = user;
    len = (size_t)MIN((uint64_t)len, up->len - up->at);
    ssize_t n = len ? io_pread(up->fd, data, len, up->at) : 0;
    if (n < 0 || (n == 0 && len))
        return -1; /* or shorter than it was */
    up->at += (uint64_t)n;
    return n;
}

static int hdfs_body_rewind(void *user)
{
    ((struct hdfs_body *)user)->at = 0;
    return 0;
}

/* What hop asks for. */
static int send_hop(struct hdfs *h, struct hdfs_call *c, const char *url, bool led,
    const struct retry *r, struct http_resp *resp, struct err *e)
{
    static const char *const binary[] = {"Content-Type: application/octet-stream", NULL};
    struct hdfs_body up = {c->fd, 0, c->len};
    struct http_req req = {.method = c->method,
        .url = url,
        .sink = c->sink,
        .begin = c->begin,
        .sink_user = c->sink_user,
        .max_body = c->max_body ? c->max_body : ANSWER_MAX,
        .timeout_ns = retry_left_ns(r),
        .stall_ns = h->nnodes > 1 && !led ? SILENT_NS : STALL_NS,
        .cancel = r->cancel};
    if (c->upload && led) {
        req.headers = binary;
        req.body_len = (size_t)c->len;
        req.source = c->len ? hdfs_body_read : NULL;
        req.source_user = &up;
        req.source_rewind = hdfs_body_rewind;
    }
    struct err inner = ERR_INIT;
    return http_do(h->http, &req, resp, &inner)
        ? store_err_network(h->params.url, c->what, &inner, e)
        : 0;
}

/* A data node that does not answer is not asked again at once, unless there is no other. */
static void exclude(struct hdfs_call *c, const char *host, size_t n)
{
    c->excluded[0] = '\0';
    if (n < sizeof c->excluded)
        snprintf(c->excluded, sizeof c->excluded, "%.*s", (int)n, host);
}

/* Follows to where the answer leads, as it was led: the name node has put into the URL whatever the
 * data node wants to see. */
static int follow_to_data(struct hdfs *h, struct hdfs_call *c, const struct retry *r,
    struct http_resp *resp, bool *standby, struct err *e)
{
    cleanup_free char *location = xcalloc(1, LOCATION_MAX);
    for (int hops = 0;; hops++) {
        const char *host;
        size_t n;
        if (!http_header(resp, "location", location, LOCATION_MAX)
            || !hdfs_redirect_ok(location, h->tls, &host, &n)) {
            cleanup_free char *shown = web_shown_lead(location);
            return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, c->what,
                ": the name node leads to where is not followed: %s", shown);
        }
        if (hops == HOPS_MAX)
            return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, c->what,
                ": the server leads on and on, to %.*s", (int)MIN(n, (size_t)200), host);
        http_resp_free(resp);
        if (send_hop(h, c, location, true, r, resp, e)) {
            if (resp->status == 0)
                exclude(c, host, n);
            return -1;
        }
        if (resp->status / 100 == 2)
            return 0;
        if (resp->status / 100 != 3) {
            int rc = hdfs_fail(h, c, resp, standby, e);
            if (e->cls == ERR_RETRY)
                exclude(c, host, n);
            return rc;
        }
    }
}

/* *elsewhere: this node is none to ask, another may be. */
static int ask_node(struct hdfs *h, unsigned node, struct hdfs_call *c, const struct retry *r,
    struct http_resp *resp, int64_t *after_ns, bool *elsewhere, struct err *e)
{
    cleanup_free char *escaped = http_escape(c->path, true), *who = hdfs_authority(h, e);
    if (!who)
        return -1;
    cleanup_free char *without = *c->excluded ? http_escape(c->excluded, false) : NULL;
    cleanup_free char *url = xasprintf("%s" API "%s?op=%s%s%s%s%s", h->node[node],
        *escaped ? escaped : "/", c->op, c->query ? c->query : "", who,
        without ? "&excludedatanodes=" : "", without ? without : "");
    explicit_bzero(who, strlen(who));
    int rc = send_hop(h, c, url, false, r, resp, e);
    explicit_bzero(url, strlen(url));
    if (rc) {
        *elsewhere = e->cls == ERR_RETRY && e->sys != ECANCELED && resp->status / 100 != 2;
        return -1;
    }
    c->excluded[0] = '\0';
    if (resp->status / 100 == 2)
        return c->upload ? store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, c->what,
                   ": the server does not say where the content goes")
                         : 0;
    if (resp->status / 100 == 3)
        return follow_to_data(h, c, r, resp, elsewhere, e);
    *after_ns = retry_after_ns(resp);
    return hdfs_fail(h, c, resp, elsewhere, e);
}

int hdfs_once(struct hdfs *h, struct hdfs_call *c, const struct retry *r, struct http_resp *resp,
    int64_t *after_ns, struct err *e)
{
    *resp = (struct http_resp){0};
    *after_ns = -1;
    for (unsigned tried = 0;;) {
        unsigned node = atomic_load(&h->active), changes = hdfs_token_changes(h);
        bool elsewhere = false;
        if (ask_node(h, node, c, r, resp, after_ns, &elsewhere, e) == 0)
            return 0;
        bool expired = e->cls == ERR_DENIED && strcmp(store_reason(e), "ExpiredCredentials") == 0;
        if (expired && hdfs_token_renewed(h, changes)) {
            http_resp_free(resp);
            continue;
        }
        if (!elsewhere)
            return -1;
        atomic_compare_exchange_strong(&h->active, &node, (node + 1) % h->nnodes);
        if (++tried >= h->nnodes)
            return -1;
        http_resp_free(resp);
    }
}

int hdfs_do(
    struct hdfs *h, struct hdfs_call *c, struct retry *r, struct http_resp *resp, struct err *e)
{
    int64_t after_ns;
    while (hdfs_once(h, c, r, resp, &after_ns, e)) {
        if (!retry_again(r, e, after_ns))
            return -1;
        http_resp_free(resp);
    }
    return 0;
}

/* -- what is asked for most ----------------------------------------------------------------------
 */

int hdfs_status_of(struct hdfs *h, const char *absolute, const char *what, struct retry *r,
    struct hdfs_status *out, struct err *e)
{
    cleanup_resp struct http_resp resp = {0};
    struct hdfs_call c = {.method = "GET", .op = "GETFILESTATUS", .path = absolute, .what = what};
    struct err inner = ERR_INIT;
    if (hdfs_do(h, &c, r, &resp, e))
        return -1;
    if (hdfs_json_status(buf_str(&resp.body), resp.body.len, out, &inner) == 0)
        return 0;
    return inner.cls == ERR_NOTFOUND
        ? store_err(e, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, what, ": %s", inner.msg)
        : hdfs_fail_answer(&c, &inner, e);
}

int hdfs_page(struct hdfs *h, const char *absolute, const char *what, const char *after,
    hdfs_entry_fn fn, void *user, char **last, bool *more, struct err *e)
{
    cleanup_free char *name = http_escape(after ? after : "", false);
    cleanup_free char *query = after ? xasprintf("&startAfter=%s", name) : NULL;
    struct retry r = RETRY_INIT(h->params.deadline_ns, NULL);
    struct err inner = ERR_INIT;
    for (;;) {
        bool whole = atomic_load(&h->whole_listings);
        cleanup_resp struct http_resp resp = {0};
        struct hdfs_call c = {.method = "GET",
            .op = whole ? "LISTSTATUS" : "LISTSTATUS_BATCH",
            .path = absolute,
            .query = whole ? NULL : query,
            .max_body = 256u << 20,
            .what = what};
        *last = NULL;
        *more = false;
        if (hdfs_do(h, &c, &r, &resp, e) == 0)
            return hdfs_json_listing(
                       buf_str(&resp.body), resp.body.len, fn, user, last, more, &inner)
                ? (free(steal(last)), hdfs_fail_answer(&c, &inner, e))
                : 0;
        /* Hadoop 2 knows no pages */
        if (whole || e->cls != ERR_INVALID || !strstr(e->msg, "LISTSTATUS_BATCH"))
            return -1;
        atomic_store(&h->whole_listings, true);
    }
}
