/* SPDX-License-Identifier: Apache-2.0 */
/* One request to HDFS: to the name node that is active, and on to where it leads. */
#include "fuse/store/hdfs.h"

#include "fuse/store/web_lead.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/wipe.h"

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
#define REFUSALS_MAX 2 /* of tokens, in one call */

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

/* What hop asks for. ticket: a header, for a name node alone, or NULL. */
static int send_hop(struct hdfs *h, struct hdfs_call *c, const char *url, const char *ticket,
    bool led, const struct retry *r, struct http_resp *resp, struct err *e)
{
    static const char *const binary[] = {"Content-Type: application/octet-stream", NULL};
    const char *const negotiate[] = {ticket, NULL};
    struct hdfs_body up = {c->fd, 0, c->len};
    struct http_req req = {.method = c->method,
        .url = url,
        .headers = negotiate,
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
        if (send_hop(h, c, location, NULL, true, r, resp, e)) {
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

/* Of "http://host:port", "http://[::1]:port". */
static char *host_of(const char *node)
{
    const char *host = strstr(node, "://") + 3;
    bool bracket = *host == '[';
    host += bracket;
    return xstrndup(host, bracket ? strcspn(host, "]") : strcspn(host, ":"));
}

/* What the URL says of us, and the header where there is one. A token is asked for by who renews
 * it, too. */
static char *present(
    struct hdfs *h, unsigned node, const struct hdfs_call *c, char **ticket, struct err *e)
{
    *ticket = NULL;
    if (!c->by_ticket)
        return hdfs_authority(h, e);
    cleanup_free char *host = host_of(h->node[node]), *principal = NULL;
    *ticket = kerberos_header(&h->ticket, host, c->what, &principal, e);
    if (!*ticket)
        return NULL;
    cleanup_free char *escaped = http_escape(principal, false);
    return xasprintf("&renewer=%s", escaped);
}

/* *elsewhere: this node is none to ask, another may be. */
static int ask_node(struct hdfs *h, unsigned node, struct hdfs_call *c, const struct retry *r,
    struct http_resp *resp, int64_t *after_ns, bool *elsewhere, struct err *e)
{
    char *ticket;
    cleanup_free char *escaped = http_escape(c->path, true), *who = present(h, node, c, &ticket, e);
    if (!who)
        return -1;
    cleanup_free char *without = *c->excluded ? http_escape(c->excluded, false) : NULL;
    cleanup_free char *url = xasprintf("%s" API "%s?op=%s%s%s%s%s", h->node[node],
        *escaped ? escaped : "/", c->op, c->query ? c->query : "", who,
        without ? "&excludedatanodes=" : "", without ? without : "");
    explicit_bzero(who, strlen(who));
    int rc = send_hop(h, c, url, ticket, false, r, resp, e);
    explicit_bzero(url, strlen(url));
    wipe_text(&ticket);
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

/* At each of the name nodes until one is active. */
static int ask_nodes(struct hdfs *h, struct hdfs_call *c, const struct retry *r,
    struct http_resp *resp, int64_t *after_ns, struct err *e)
{
    *resp = (struct http_resp){0};
    *after_ns = -1;
    for (unsigned tried = 0;;) {
        unsigned node = atomic_load(&h->active);
        bool elsewhere = false;
        if (ask_node(h, node, c, r, resp, after_ns, &elsewhere, e) == 0)
            return 0;
        if (!elsewhere)
            return -1;
        atomic_compare_exchange_strong(&h->active, &node, (node + 1) % h->nnodes);
        if (++tried >= h->nnodes)
            return -1;
        http_resp_free(resp);
    }
}

/* -- delegation tokens by Kerberos ----------------------------------------------------------------
 */

static int ask_by_ticket(struct hdfs *h, const char *method, const char *op, const char *query,
    struct http_resp *resp, struct err *e)
{
    struct retry r = RETRY_INIT(h->params.deadline_ns, NULL);
    struct hdfs_call c = {.method = method,
        .op = op,
        .path = "/",
        .query = query,
        .by_ticket = true,
        .what = h->params.url};
    int64_t after_ns;
    return ask_nodes(h, &c, &r, resp, &after_ns, e);
}

static int fail_token(const struct hdfs *h, const char *op, const struct err *inner, struct err *e)
{
    const struct hdfs_call c = {.op = op, .what = h->params.url};
    return hdfs_fail_answer(&c, inner, e);
}

/* No other answer tells when a token expires: a new one is renewed at once. *longer: it lives for
 * longer than before. */
static int renew_token(struct hdfs *h, const char *token, bool *longer, struct err *e)
{
    static const char op[] = "RENEWDELEGATIONTOKEN";
    cleanup_resp struct http_resp resp = {0};
    struct err inner = ERR_INIT;
    int64_t expires_ms;
    char *escaped = http_escape(token, false), *query = xasprintf("&token=%s", escaped);
    int rc = ask_by_ticket(h, "PUT", op, query, &resp, e);
    wipe_text(&escaped);
    wipe_text(&query);
    if (rc)
        return -1;
    if (hdfs_json_time(buf_str(&resp.body), resp.body.len, &expires_ms, &inner))
        return fail_token(h, op, &inner, e);
    *longer = hdfs_token_keep(h, token, expires_ms);
    return 0;
}

static int get_token(struct hdfs *h, struct err *e)
{
    static const char op[] = "GETDELEGATIONTOKEN";
    cleanup_resp struct http_resp resp = {0};
    struct err inner = ERR_INIT;
    bool longer;
    if (ask_by_ticket(h, "GET", op, NULL, &resp, e))
        return -1;
    char *token = hdfs_json_token(buf_str(&resp.body), resp.body.len, &inner);
    if (resp.body.len)
        explicit_bzero(resp.body.data, resp.body.len);
    if (!token)
        return fail_token(h, op, &inner, e);
    log_redact(token);
    int rc = renew_token(h, token, &longer, e);
    wipe_text(&token);
    return rc;
}

/* While the one that there is holds, it is no error that it cannot be renewed. */
static int renew_or_get(struct hdfs *h, enum hdfs_token_state state, struct err *e)
{
    struct err inner = ERR_INIT;
    char *token = state == HDFS_TOKEN_DUE ? hdfs_token_copy(h) : NULL;
    bool longer = false;
    int rc = token ? renew_token(h, token, &longer, &inner) : 0;
    wipe_text(&token);
    if (rc == 0 && longer)
        return 0;
    if ((rc == 0 || inner.cls != ERR_RETRY) && get_token(h, &inner) == 0)
        return 0;
    if (state == HDFS_TOKEN_DUE) {
        log_warn(
            "the delegation token could not be renewed, and is used while it holds: %s", inner.msg);
        hdfs_token_put_off(h);
        return 0;
    }
    h->ticket_err = inner;
    h->ticket_failed_ns = clock_mono_ns();
    *e = inner;
    return -1;
}

/* One thread gets or renews it. Who has a token goes on meanwhile; who has none waits, and fails of
 * what that one failed of. */
static int ready_token(struct hdfs *h, struct err *e)
{
    int64_t since = clock_mono_ns();
    enum hdfs_token_state state = h->by_kerberos ? hdfs_token_state(h) : HDFS_TOKEN_GOOD;
    if (state == HDFS_TOKEN_GOOD)
        return 0;
    if (state == HDFS_TOKEN_NONE)
        pthread_mutex_lock(&h->ticket_mu);
    else if (pthread_mutex_trylock(&h->ticket_mu))
        return 0;
    int rc = 0;
    state = hdfs_token_state(h);
    if (state == HDFS_TOKEN_NONE && h->ticket_failed_ns > since) {
        *e = h->ticket_err;
        rc = -1;
    } else if (state != HDFS_TOKEN_GOOD) {
        rc = renew_or_get(h, state, e);
    }
    pthread_mutex_unlock(&h->ticket_mu);
    return rc;
}

/* -- one call -------------------------------------------------------------------------------------
 */

int hdfs_once(struct hdfs *h, struct hdfs_call *c, const struct retry *r, struct http_resp *resp,
    int64_t *after_ns, struct err *e)
{
    *resp = (struct http_resp){0};
    *after_ns = -1;
    for (unsigned refusals = 0;; refusals++) {
        if (ready_token(h, e))
            return -1;
        unsigned changes = hdfs_token_changes(h);
        if (ask_nodes(h, c, r, resp, after_ns, e) == 0)
            return 0;
        bool expired = e->cls == ERR_DENIED && strcmp(store_reason(e), "ExpiredCredentials") == 0;
        if (!expired || refusals == REFUSALS_MAX || !hdfs_token_renewed(h, changes))
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
