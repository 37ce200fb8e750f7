/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/kube/client.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define IN_FLIGHT_DEFAULT 64
#define TIMEOUT_DEFAULT   (30 * NS_PER_S)
#define DEAD_PEER         (45 * NS_PER_S) /* bookmarks come but once a minute */
#define RETRY_WAIT_MAX    (30 * NS_PER_S)

struct kube *kube_new(struct kube_conf *conf_take, const struct kube_opts *opts, struct err *e)
{
    static const struct kube_opts defaults;
    if (!opts)
        opts = &defaults;
    struct http_conf hc = {
        .ca_file = conf_take->ca_file,
        .ca_pem = conf_take->ca_file ? NULL : conf_take->ca_pem,
        .cert_file = conf_take->cert_file,
        .key_file = conf_take->key_file,
        .cert_pem = conf_take->cert_pem,
        .key_pem = conf_take->key_pem,
        .insecure = conf_take->insecure,
        .direct = conf_take->in_cluster,
        .dead_ns = DEAD_PEER,
        .user_agent = opts->user_agent ? opts->user_agent : "millrace/" MILLRACE_VERSION,
    };
    struct http *http = http_new(&hc, e);
    if (!http) {
        err_wrap(e, "client of %s", conf_take->server);
        kube_conf_free(conf_take);
        return NULL;
    }
    struct kube *k = xcalloc(1, sizeof *k);
    k->conf = conf_take;
    k->http = http;
    k->field_manager = xstrdup(opts->field_manager ? opts->field_manager : NAME_FIELD_MANAGER);
    k->timeout_ns = opts->timeout_ns ? opts->timeout_ns : TIMEOUT_DEFAULT;
    k->max_in_flight = opts->max_in_flight ? opts->max_in_flight : IN_FLIGHT_DEFAULT;
    pthread_mutex_init(&k->mu, NULL);
    pthread_cond_init(&k->ended, NULL);
    return k;
}

void kube_free(struct kube *k)
{
    if (!k)
        return;
    http_free(k->http);
    kube_conf_free(k->conf);
    free(k->field_manager);
    pthread_mutex_destroy(&k->mu);
    pthread_cond_destroy(&k->ended);
    free(k);
}

const char *kube_server(const struct kube *k) { return k->conf->server; }

/* ---- URLs and headers ---- */

char *client_url(const struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    const char *sub)
{
    struct buf url = BUF_INIT(64 << 10);
    buf_addf(&url, *res->group ? "%s/apis/%s/%s" : "%s/api%s/%s", k->conf->server, res->group,
        res->version);
    if (ns && *ns) {
        cleanup_free char *escaped = http_escape(ns, false);
        buf_addf(&url, "/namespaces/%s", escaped);
    }
    buf_addf(&url, "/%s", res->plural);
    if (name && *name) {
        cleanup_free char *escaped = http_escape(name, false);
        buf_addf(&url, "/%s", escaped);
    }
    if (sub && *sub)
        buf_addf(&url, "/%s", sub);
    return buf_take(&url);
}

void client_query(char **url, const char *key, const char *value)
{
    cleanup_free char *escaped = http_escape(value, false), *old = *url;
    *url = xasprintf("%s%c%s=%s", old, strchr(old, '?') ? '&' : '?', key, escaped);
}

void client_headers(
    struct kube *k, const char *content_type, bool fresh_token, char *headers[CLIENT_HEADERS])
{
    size_t n = 0;
    headers[n++] = xstrdup("Accept: application/json");
    if (content_type)
        headers[n++] = xasprintf("Content-Type: %s", content_type);
    char *token = kube_conf_token(k->conf, fresh_token);
    if (token) {
        headers[n++] = xasprintf("Authorization: Bearer %s", token);
        explicit_bzero(token, strlen(token));
        free(token);
    }
    headers[n] = NULL;
}

void client_headers_free(char *headers[CLIENT_HEADERS])
{
    for (size_t i = 0; headers[i]; i++) {
        explicit_bzero(headers[i], strlen(headers[i]));
        free(headers[i]);
    }
}

/* ---- one request ---- */

static void enter(struct kube *k)
{
    pthread_mutex_lock(&k->mu);
    while (k->in_flight >= k->max_in_flight)
        pthread_cond_wait(&k->ended, &k->mu);
    k->in_flight++;
    pthread_mutex_unlock(&k->mu);
}

static void kube_leave(struct kube *k)
{
    pthread_mutex_lock(&k->mu);
    k->in_flight--;
    pthread_cond_signal(&k->ended);
    pthread_mutex_unlock(&k->mu);
}

static int attempt(struct kube *k, const struct client_call *c, const char *body, bool fresh_token,
    struct http_resp *resp, struct err *e)
{
    char *headers[CLIENT_HEADERS];
    client_headers(k, body ? c->content_type : NULL, fresh_token, headers);
    struct http_req req = {
        .method = c->method,
        .url = c->url,
        .headers = (const char *const *)headers,
        .body = body,
        .body_len = body ? strlen(body) : 0,
        .max_body = c->max,
        .timeout_ns = k->timeout_ns,
    };
    int64_t begun = clock_mono_ns();
    int rc = http_do(k->http, &req, resp, e);
    client_count(k, c, resp->status, clock_mono_ns() - begun);
    client_headers_free(headers);
    return rc;
}

/* How long the server asks us to wait before we say it again; -1 if it does not. */
static int64_t asked_to_wait(const struct http_resp *resp)
{
    char value[64];
    if (resp->status != 429 && resp->status != 503)
        return -1;
    if (!http_header(resp, "retry-after", value, sizeof value))
        return -1;
    int64_t ns = wire_retry_after_ns(value, clock_real_ns());
    return ns < 0 || ns > RETRY_WAIT_MAX ? -1 : MAX(ns, 50 * NS_PER_MS);
}

static int decode(const struct client_call *c, struct http_resp *resp, json_t **out, struct err *e)
{
    char type[128] = "";
    http_header(resp, "content-type", type, sizeof type);
    if (resp->status < 200 || resp->status > 299)
        return wire_fail(resp->status, buf_str(&resp->body), resp->body.len, e);
    if (strncmp(type, "application/json", 16) != 0)
        return err_set(e, ERR_FATAL,
            "the answer is \"%.64s\", not application/json: is %s really an API server?", type,
            c->url);
    json_t *j = wire_json(buf_str(&resp->body), resp->body.len, e);
    if (!j)
        return err_wrap(e, "the answer cannot be read");
    if (!json_is_object(j)) {
        json_decref(j);
        return err_set(e, ERR_FATAL, "the answer is not a json object");
    }
    *out = j;
    return 0;
}

int client_say(const struct client_call *c, struct err *e)
{
    cleanup_free char *key = kube_key(c->ns, c->name ? c->name : "");
    return err_wrap(e, "%s %s%s%s", c->verb, c->res->plural, *key ? " " : "", key);
}

/* Leaves an answer that cannot be read to who wants to look into it. */
static void keep_unread(struct client_bytes *bytes, struct http_resp *resp)
{
    if (!bytes || resp->status < 200 || resp->status > 299)
        return;
    buf_free(&bytes->unread);
    bytes->unread = resp->body;
    resp->body = (struct buf)BUF_INIT(0);
}

/* The server took the write, and only its answer came spoilt: that is no word against what was to
 * be written. Who asks again hears what became of it. */
static void spoilt_answer(const struct client_call *c, const struct http_resp *resp, struct err *e)
{
    if (strcmp(c->method, "GET") != 0 && resp->status >= 200 && resp->status <= 299)
        e->cls = ERR_RETRY;
}

int client_request(struct kube *k, const struct client_call *c, json_t **out,
    struct client_bytes *bytes, struct err *e)
{
    cleanup_free char *body = c->body ? json_text(c->body) : NULL;
    bool fresh_token = false;
    struct err local = ERR_INIT;
    if (!e)
        e = &local;
    for (int tries = 0;; tries++) {
        cleanup_resp struct http_resp resp = {0};
        enter(k);
        int rc = attempt(k, c, body, fresh_token, &resp, e);
        kube_leave(k);
        if (rc && e->cls == ERR_EXHAUSTED)
            keep_unread(bytes, &resp);
        if (rc)
            return client_say(c, e);
        int64_t wait = asked_to_wait(&resp);
        if (wait >= 0 && tries < KUBE_RETRY_MAX) {
            clock_sleep_ns(wait); /* without a place among the requests in flight */
            continue;
        }
        bool rotates = k->conf->token_file || k->conf->cert_file;
        if (resp.status == 401 && rotates && !fresh_token) { /* a moment ago? */
            fresh_token = true;
            continue;
        }
        json_t *answer = NULL;
        if (decode(c, &resp, &answer, e)) {
            if (e->cls == ERR_INVALID)
                keep_unread(bytes, &resp);
            spoilt_answer(c, &resp, e);
            return client_say(c, e);
        }
        if (bytes)
            bytes->size = resp.body.len;
        if (bytes && bytes->warnings && resp.headers)
            wire_warnings(resp.headers, bytes->warnings);
        if (out)
            *out = answer;
        else
            json_decref(answer);
        return 0;
    }
}

/* ---- verbs ---- */

int kube_get(struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    json_t **out, struct err *e)
{
    cleanup_free char *url = client_url(k, res, ns, name, NULL);
    struct client_call c = {"get", "GET", NULL, res, ns, name, url, NULL, KUBE_OBJECT_MAX};
    return client_request(k, &c, out, NULL, e);
}

static int write_with(struct kube *k, const struct client_call *c, const struct kube_write *how,
    json_t **out, struct err *e)
{
    struct client_bytes bytes = {0, BUF_INIT(0), how->warnings};
    int rc = client_request(k, c, out, &bytes, e);
    buf_free(&bytes.unread);
    return rc;
}

int kube_create_with(struct kube *k, const struct kube_res *res, const char *ns,
    const json_t *object, const struct kube_write *how, json_t **out, struct err *e)
{
    char *url = client_url(k, res, ns, NULL, NULL);
    client_query(&url, "fieldManager", k->field_manager);
    if (how->strict)
        client_query(&url, "fieldValidation", "Strict");
    if (how->dry_run)
        client_query(&url, "dryRun", "All");
    struct client_call c = {"create", "POST", "application/json", res, ns, kube_name(object), url,
        object, KUBE_OBJECT_MAX};
    int rc = write_with(k, &c, how, out, e);
    free(url);
    return rc;
}

int kube_create(struct kube *k, const struct kube_res *res, const char *ns, const json_t *object,
    json_t **out, struct err *e)
{
    return kube_create_with(k, res, ns, object, &(struct kube_write){0}, out, e);
}

int kube_update(struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    const json_t *object, json_t **out, struct err *e)
{
    char *url = client_url(k, res, ns, name, NULL);
    client_query(&url, "fieldManager", k->field_manager);
    struct client_call c = {
        "update", "PUT", "application/json", res, ns, name, url, object, KUBE_OBJECT_MAX};
    int rc = client_request(k, &c, out, NULL, e);
    free(url);
    return rc;
}

int kube_apply_with(struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    const char *sub, const json_t *object, const struct kube_write *how, json_t **out,
    struct err *e)
{
    /* it may be shared: no reference of its own */
    cleanup_json json_t *whole = json_deep_copy(object);
    cleanup_free char *version = kube_res_api_version(res);
    json_object_set_new(whole, "apiVersion", json_string(version));
    json_object_set_new(whole, "kind", json_string(res->kind));
    char *url = client_url(k, res, ns, name, sub);
    client_query(&url, "fieldManager", k->field_manager);
    client_query(&url, "force", "true");
    if (how->strict)
        client_query(&url, "fieldValidation", "Strict");
    struct client_call c = {"apply", "PATCH", "application/apply-patch+yaml", res, ns, name, url,
        whole, KUBE_OBJECT_MAX};
    int rc = write_with(k, &c, how, out, e);
    free(url);
    return rc;
}

int kube_apply(struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    const char *sub, const json_t *object, json_t **out, struct err *e)
{
    return kube_apply_with(k, res, ns, name, sub, object, &(struct kube_write){0}, out, e);
}

static const char *patch_media_type(enum kube_patch_type type)
{
    switch (type) {
    case KUBE_PATCH_MERGE:
        return "application/merge-patch+json";
    case KUBE_PATCH_JSON:
        return "application/json-patch+json";
    }
    return NULL;
}

int kube_patch(struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    const char *sub, enum kube_patch_type type, const json_t *patch, json_t **out, struct err *e)
{
    char *url = client_url(k, res, ns, name, sub);
    client_query(&url, "fieldManager", k->field_manager);
    const char *verb = sub && *sub ? "patch status of" : "patch";
    struct client_call c = {
        verb, "PATCH", patch_media_type(type), res, ns, name, url, patch, KUBE_OBJECT_MAX};
    int rc = client_request(k, &c, out, NULL, e);
    free(url);
    return rc;
}

int kube_delete(struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    const struct kube_delete *how, json_t **out, struct err *e)
{
    static const struct kube_delete plain = KUBE_DELETE_INIT;
    if (!how)
        how = &plain;
    cleanup_json json_t *body = json_pack("{s:s,s:s}", "apiVersion", "v1", "kind", "DeleteOptions");
    if (how->uid && *how->uid)
        json_object_set_new(body, "preconditions", json_pack("{s:s}", "uid", how->uid));
    if (how->propagation)
        json_object_set_new(body, "propagationPolicy", json_string(how->propagation));
    if (how->grace_s >= 0)
        json_object_set_new(body, "gracePeriodSeconds", json_integer(how->grace_s));
    cleanup_free char *url = client_url(k, res, ns, name, NULL);
    struct client_call c = {
        "delete", "DELETE", "application/json", res, ns, name, url, body, KUBE_OBJECT_MAX};
    json_t *answer = NULL;
    if (client_request(k, &c, &answer, NULL, e))
        return -1;
    bool bare = strcmp(jget_str(answer, "kind", ""), "Status") == 0;
    if (out)
        *out = bare ? NULL : json_incref(answer);
    json_decref(answer);
    return 0;
}
