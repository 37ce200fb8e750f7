/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/api.h"

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/head.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/conf.h"
#include "tests/fake/api_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY_MAX ((size_t)64 << 20)

/* ---- bytes ---- */

static int send_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static void reset(int fd)
{
    struct linger hard = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
}

/* Reads one request; leftovers stay in `in`. 0, or -1 at the connection's end. */
static int read_request(int fd, struct buf *in, struct http_head *h, char **body)
{
    size_t head_len;
    char chunk[16384];
    while (!(head_len = http_head_length(buf_str(in), in->len))) {
        ssize_t n = recv(fd, chunk, sizeof chunk, 0);
        if (n <= 0 || buf_add(in, chunk, (size_t)n))
            return -1;
    }
    if (http_head_parse(h, buf_str(in), head_len))
        return -1;
    while (in->len < head_len + h->content_length) {
        ssize_t n = recv(fd, chunk, sizeof chunk, 0);
        if (n <= 0 || buf_add(in, chunk, (size_t)n))
            return -1;
    }
    *body = xstrndup(buf_str(in) + head_len, h->content_length);
    buf_drop(in, head_len + h->content_length);
    return 0;
}

static int answer(
    int fd, int status, const char *headers, const char *type, const char *body, size_t only)
{
    struct buf out = BUF_INIT(BODY_MAX);
    size_t len = strlen(body);
    buf_addf(&out, "HTTP/1.1 %d Status\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n",
        status, type, len, headers ? headers : "");
    buf_add(&out, body, MIN(len, only));
    int rc = send_all(fd, out.data, out.len);
    buf_free(&out);
    return rc || only < len ? -1 : 0;
}

/* As the document is sent. */
static char *sent_text(const json_t *j)
{
    static const char mark[] = "\"" FAKE_BROKEN "\"";
    char *text = json_text(j);
    for (char *at = text; (at = strstr(at, mark));)
        memcpy(at, "broken    ", sizeof mark - 1);
    return text;
}

/* ---- query ---- */

static char *query(const char *q, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = q; *p; p += strcspn(p, "&"), p += *p == '&')
        if (strncmp(p, key, n) == 0 && p[n] == '=') {
            char *value = xstrndup(p + n + 1, strcspn(p + n + 1, "&"));
            http_head_unescape(value, true);
            return value;
        }
    return xstrdup("");
}

/* ---- watch ---- */

static int send_event(int fd, const char *type, const json_t *object)
{
    cleanup_free char *text = sent_text(object);
    cleanup_free char *line = xasprintf("{\"type\":\"%s\",\"object\":%s}\n", type, text);
    cleanup_free char *chunk = xasprintf("%zx\r\n%s\r\n", strlen(line), line);
    return send_all(fd, chunk, strlen(chunk));
}

static int send_error_event(int fd)
{
    json_t *status = api_status(410, "Expired", "too old resource version");
    int rc = send_event(fd, "ERROR", status);
    json_decref(status);
    return rc;
}

/* The type of a change for somebody with a label selector; NULL: none of his business. */
static const char *seen_type(const struct api_path *p, const struct change *c, const char *labels)
{
    if (strcmp(c->collection, p->collection) != 0 || (*p->ns && strcmp(c->ns, p->ns) != 0))
        return NULL;
    return api_store_matches(c->object, labels) ? c->type : NULL;
}

/* Sends what is new since *rv. The lock is held, and given up while sending. */
static int send_changes(struct conn *c, const struct api_path *p, const char *labels, uint64_t *rv)
{
    struct fake_api *f = c->f;
    for (size_t i = 0; i < f->store.nchanges; i++) {
        struct change *ch = &f->store.changes[i];
        if (ch->rv <= *rv)
            continue;
        *rv = ch->rv;
        const char *type = seen_type(p, ch, labels);
        if (!type)
            continue;
        json_t *object = json_deep_copy(ch->object);
        pthread_mutex_unlock(&f->mu);
        int rc = send_event(c->fd, type, object);
        json_decref(object);
        pthread_mutex_lock(&f->mu);
        if (rc)
            return -1;
    }
    return 0;
}

static int send_bookmark(int fd, uint64_t rv)
{
    cleanup_free char *version = xasprintf("%" PRIu64, rv);
    cleanup_json json_t *object = json_pack(
        "{s:s,s:{s:s}}", "kind", "Any", "metadata", "resourceVersion", version);
    return send_event(fd, "BOOKMARK", object);
}

static int watch(struct conn *c, const struct api_path *p, const char *q)
{
    struct fake_api *f = c->f;
    cleanup_free char *from = query(q, "resourceVersion"), *seconds = query(q, "timeoutSeconds"),
                      *labels = query(q, "labelSelector");
    uint64_t rv = strtoull(from, NULL, 10);
    int64_t end = clock_mono_ns() + (*seconds ? strtoll(seconds, NULL, 10) : 300) * NS_PER_S;
    static const char head[] =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    int rc = send_all(c->fd, head, sizeof head - 1);
    pthread_mutex_lock(&f->mu);
    if (rv < f->store.oldest)
        rc = rc || send_error_event(c->fd) ? -1 : 1;
    unsigned bookmarks = f->bookmarks, drops = f->drops;
    c->watching = p->collection;
    pthread_cond_broadcast(&f->changed);
    while (rc == 0 && !f->stopping && drops == f->drops && clock_mono_ns() < end) {
        rc = send_changes(c, p, labels, &rv);
        if (rc == 0 && bookmarks != f->bookmarks) {
            bookmarks = f->bookmarks;
            rc = send_bookmark(c->fd, f->store.rv);
        }
        int64_t until = MIN(end, clock_mono_ns() + 50 * NS_PER_MS);
        if (rc == 0 && !f->stopping && drops == f->drops)
            clock_cond_wait(&f->changed, &f->mu, until);
    }
    c->watching = NULL;
    pthread_mutex_unlock(&f->mu);
    return rc >= 0 ? send_all(c->fd, "0\r\n\r\n", 5) : -1;
}

/* ---- requests ---- */

/* Does what is asked; returns the status and the answer's text. */
static int serve(struct fake_api *f, const struct http_head *h, const char *body, char **text)
{
    struct api_path p;
    json_t *out = NULL;
    cleanup_json json_t *given = *body ? json_parse(body, strlen(body), NULL) : NULL;
    cleanup_free char *limit = query(h->query, "limit"), *token = query(h->query, "continue"),
                      *labels = query(h->query, "labelSelector"), *dry = query(h->query, "dryRun");
    char type[100] = "";
    http_head_value(h->headers, "content-type", type, sizeof type);
    int code = 404;
    pthread_mutex_lock(&f->mu);
    if (api_path_parse(h->path, &p)
        || (f->uninstalled && strcmp(f->uninstalled, p.collection) == 0))
        out = api_status(404, "NotFound", "the server could not find the requested resource");
    else if (strcmp(h->method, "GET") == 0 && *p.name)
        out = json_deep_copy(api_store_find(&f->store, p.collection, p.ns, p.name)),
        code = out ? 200 : 404;
    else if (strcmp(h->method, "GET") == 0)
        code = api_store_list(&f->store, &p, labels, strtoull(limit, NULL, 10), token, &out);
    else if (strcmp(h->method, "DELETE") == 0)
        code = api_store_delete(&f->store, &p, given, &out);
    else if (!given)
        code = 400, out = api_status(400, "BadRequest", "the body is not json");
    else if (strcmp(h->method, "POST") == 0 && *dry)
        out = json_deep_copy(given), code = 201;
    else if (strcmp(h->method, "POST") == 0)
        code = api_store_create(&f->store, &p, json_deep_copy(given), &out);
    else if (strcmp(h->method, "PUT") == 0)
        code = api_store_update(&f->store, &p, json_deep_copy(given), &out);
    else if (strcmp(h->method, "PATCH") == 0)
        code = api_store_patch(
            &f->store, &p, given, strcmp(type, "application/apply-patch+yaml") == 0, &out);
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mu);
    if (!out)
        out = api_status(code, "NotFound", "not found");
    *text = sent_text(out);
    json_decref(out);
    return code;
}

/* Takes the first fault that fits; false if none does. */
static bool take_fault(
    struct fake_api *f, const struct http_head *h, const char *target, struct fake_fault *out)
{
    bool found = false;
    pthread_mutex_lock(&f->mu);
    for (size_t i = 0; i < f->nfaults && !found; i++) {
        struct fake_fault *x = &f->faults[i];
        if ((x->method && strcmp(x->method, h->method) != 0) || (x->in && !strstr(target, x->in)))
            continue;
        *out = *x;
        found = true;
        if (--x->times == 0)
            memmove(x, x + 1, (--f->nfaults - i) * sizeof *x);
    }
    pthread_mutex_unlock(&f->mu);
    return found;
}

static int endless(int fd, size_t bytes)
{
    char block[65536];
    memset(block, 'a', sizeof block);
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
    if (send_all(fd, head, sizeof head - 1))
        return -1;
    for (; bytes > sizeof block; bytes -= sizeof block)
        if (send_all(fd, block, sizeof block))
            break;
    return -1;
}

static void linger(struct fake_api *f, int64_t delay_ns)
{
    int64_t until = clock_mono_ns() + delay_ns;
    pthread_mutex_lock(&f->mu);
    while (!f->stopping && clock_mono_ns() < until)
        clock_cond_wait(&f->changed, &f->mu, until);
    pthread_mutex_unlock(&f->mu);
}

static int misbehave(
    struct conn *c, const struct fake_fault *x, const struct http_head *h, const char *body)
{
    cleanup_free char *text = NULL;
    int status;
    switch (x->kind) {
    case FAULT_STATUS: {
        json_t *j = api_status(x->status, "Fault", "asked for by the test");
        text = x->body ? xstrdup(x->body) : json_text(j);
        json_decref(j);
        return answer(
            c->fd, x->status, x->headers, x->type ? x->type : "application/json", text, SIZE_MAX);
    }
    case FAULT_LOSE:
        serve(c->f, h, body, &text);
        reset(c->fd);
        return -1;
    case FAULT_RESET:
        reset(c->fd);
        return -1;
    case FAULT_CUT:
        status = serve(c->f, h, body, &text);
        return answer(c->fd, status, NULL, "application/json", text, x->bytes);
    case FAULT_SLOW:
        linger(c->f, x->delay_ns);
        status = serve(c->f, h, body, &text);
        return answer(c->fd, status, NULL, "application/json", text, SIZE_MAX);
    case FAULT_STREAM:
        text = xasprintf(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n%s",
            x->body);
        send_all(c->fd, text, strlen(text));
        return -1;
    case FAULT_ENDLESS:
        return endless(c->fd, x->bytes);
    }
    return -1;
}

static void note(
    struct fake_api *f, const struct http_head *h, const char *target, const char *body)
{
    struct request *r = xcalloc(1, sizeof *r);
    r->method = xstrdup(h->method);
    r->target = xstrdup(target);
    r->body = xstrdup(body);
    pthread_mutex_lock(&f->mu);
    *f->last = r;
    f->last = &r->next;
    free(f->last_headers);
    f->last_headers = xstrdup(h->headers);
    pthread_mutex_unlock(&f->mu);
}

static enum fake_verdict judged(
    const struct fake_api *f, const struct http_head *h, const char *target)
{
    char agent[128] = "";
    if (!f->judge || strcmp(h->method, "GET") == 0)
        return FAKE_DO;
    http_head_value(h->headers, "user-agent", agent, sizeof agent);
    return f->judge(f->judge_user, h->method, target, agent);
}

/* Does a request that is neither faulty nor a watch. */
static int ordinary(struct conn *c, const struct http_head *h, const char *target, const char *body)
{
    cleanup_free char *text = NULL;
    enum fake_verdict verdict = judged(c->f, h, target);
    int status = verdict == FAKE_DROP ? 0 : serve(c->f, h, body, &text);
    if (verdict == FAKE_DO)
        return answer(c->fd, status, NULL, "application/json", text, SIZE_MAX);
    reset(c->fd);
    return -1;
}

static int one_request(struct conn *c, struct buf *in)
{
    struct http_head h = {0};
    cleanup_free char *body = NULL;
    struct fake_fault fault;
    struct api_path p;
    if (read_request(c->fd, in, &h, &body)) {
        http_head_free(&h);
        return -1;
    }
    cleanup_free char *target = xasprintf("%s?%s", h.path, h.query);
    cleanup_free char *is_watch = query(h.query, "watch");
    note(c->f, &h, target, body);
    int rc;
    if (take_fault(c->f, &h, target, &fault))
        rc = misbehave(c, &fault, &h, body);
    else if (strcmp(is_watch, "true") == 0 && api_path_parse(h.path, &p) == 0)
        rc = watch(c, &p, h.query);
    else
        rc = ordinary(c, &h, target, body);
    http_head_free(&h);
    return rc;
}

static void *serve_conn(void *user)
{
    struct conn *c = user;
    struct buf in = BUF_INIT(BODY_MAX);
    while (one_request(c, &in) == 0) {
    }
    buf_free(&in);
    pthread_mutex_lock(&c->f->mu);
    close(c->fd);
    c->fd = -1;
    pthread_mutex_unlock(&c->f->mu);
    return NULL;
}

static void *accept_all(void *user)
{
    struct fake_api *f = user;
    int fd;
    while ((fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct conn *c = xcalloc(1, sizeof *c);
        *c = (struct conn){.f = f, .fd = fd};
        pthread_mutex_lock(&f->mu);
        c->next = f->conns;
        f->conns = c;
        f->connections++;
        bool stop = f->stopping || pthread_create(&c->thread, NULL, serve_conn, c);
        if (stop) {
            f->conns = c->next;
            close(fd);
            free(c);
        }
        pthread_mutex_unlock(&f->mu);
    }
    return NULL;
}

/* ---- life ---- */

struct fake_api *fake_api_start(void)
{
    struct fake_api *f = xcalloc(1, sizeof *f);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    api_store_init(&f->store);
    f->last = &f->first;
    pthread_mutex_init(&f->mu, NULL);
    clock_cond_init(&f->changed);
    f->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (f->listen_fd < 0 || bind(f->listen_fd, (struct sockaddr *)&at, sizeof at)
        || listen(f->listen_fd, 128) || getsockname(f->listen_fd, (struct sockaddr *)&at, &len)
        || pthread_create(&f->acceptor, NULL, accept_all, f))
        abort();
    snprintf(f->url, sizeof f->url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    return f;
}

void fake_api_stop(struct fake_api *f)
{
    pthread_mutex_lock(&f->mu);
    f->stopping = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mu);
    shutdown(f->listen_fd, SHUT_RDWR);
    pthread_join(f->acceptor, NULL);
    close(f->listen_fd);
    for (struct conn *c = f->conns, *next; c; c = next) {
        next = c->next;
        pthread_mutex_lock(&f->mu);
        if (c->fd >= 0)
            shutdown(c->fd, SHUT_RDWR);
        pthread_mutex_unlock(&f->mu);
        pthread_join(c->thread, NULL);
        free(c);
    }
    fake_api_forget(f);
    api_store_free(&f->store);
    free(f->last_headers);
    free(f->uninstalled);
    pthread_mutex_destroy(&f->mu);
    pthread_cond_destroy(&f->changed);
    free(f);
}

const char *fake_api_url(const struct fake_api *f) { return f->url; }

char *fake_api_kubeconfig(const struct fake_api *f)
{
    return xasprintf(
        "{\"current-context\":\"c\",\"contexts\":[{\"name\":\"c\",\"context\":{\"cluster\":\"c\"}}],"
        "\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"%s\"}}]}",
        f->url);
}

struct kube *fake_api_client_opts(const struct fake_api *f, const struct kube_opts *opts)
{
    struct err e = ERR_INIT;
    cleanup_free char *text = fake_api_kubeconfig(f);
    struct kube_conf *conf = kube_conf_parse(text, strlen(text), NULL, NULL, &e);
    struct kube *k = conf ? kube_new(conf, opts, &e) : NULL;
    if (!k)
        abort();
    return k;
}

struct kube *fake_api_client(const struct fake_api *f) { return fake_api_client_opts(f, NULL); }
