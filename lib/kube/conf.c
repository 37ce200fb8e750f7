/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/kube/conf.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/yaml.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* for people; programs of ours run in pods */
#define INSTEAD "start `kubectl proxy` and use --server http://127.0.0.1:8001"

static struct kube_conf *conf_new(void)
{
    struct kube_conf *c = xcalloc(1, sizeof *c);
    pthread_mutex_init(&c->mu, NULL);
    return c;
}

void kube_conf_free(struct kube_conf *c)
{
    if (!c)
        return;
    free(c->server);
    free(c->ns);
    free(c->ca_pem);
    free(c->ca_file);
    free(c->cert_file);
    free(c->key_file);
    free(c->cert_pem);
    if (c->key_pem)
        explicit_bzero(c->key_pem, strlen(c->key_pem));
    free(c->key_pem);
    free(c->token_file);
    if (c->token)
        explicit_bzero(c->token, strlen(c->token));
    free(c->token);
    pthread_mutex_destroy(&c->mu);
    free(c);
}

const char *kube_conf_namespace(const struct kube_conf *c) { return c->ns; }

/* ---- token ---- */

static void trim_end(char *text)
{
    size_t n = strlen(text);
    while (n && strchr(" \t\r\n", text[n - 1]))
        text[--n] = '\0';
}

/* Replaces the token by what the file holds. mu is held, or c is new; it is held across the
 * reading: files of this kind are in memory. */
static int read_token_locked(struct kube_conf *c, struct err *e)
{
    size_t len;
    char *text = file_read(c->token_file, CONF_FILE_MAX, &len, e);
    if (!text)
        return -1;
    trim_end(text);
    if (!*text) {
        free(text);
        return err_set(e, ERR_INVALID, "token file %s is empty", c->token_file);
    }
    log_redact(text);
    free(c->token);
    c->token = text;
    c->token_at = clock_mono_ns();
    return 0;
}

char *kube_conf_token(struct kube_conf *c, bool fresh)
{
    pthread_mutex_lock(&c->mu);
    if (c->token_file && (fresh || clock_mono_ns() - c->token_at > CONF_TOKEN_NS)) {
        struct err e = ERR_INIT;
        if (read_token_locked(c, &e)) {
            c->token_at = clock_mono_ns();
            log_warn("the token could not be read again, the last one is used: %s", e.msg);
        }
    }
    char *token = xstrdup(c->token);
    pthread_mutex_unlock(&c->mu);
    return token;
}

/* ---- in a pod ---- */

struct kube_conf *kube_conf_pod(const char *dir, const char *host, const char *port, struct err *e)
{
    struct kube_conf *c = conf_new();
    bool v6 = strchr(host, ':') != NULL;
    c->in_cluster = true;
    c->server = xasprintf("https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
    c->token_file = path_join(dir, "token");
    c->ca_file = path_join(dir, "ca.crt");
    cleanup_free char *ns = path_join(dir, "namespace");
    size_t len;
    c->ca_pem = file_read(c->ca_file, CONF_FILE_MAX, &len, e);
    if (!c->ca_pem || read_token_locked(c, e)) {
        err_wrap(e, "service account of the pod (is automountServiceAccountToken off?)");
        kube_conf_free(c);
        return NULL;
    }
    c->ns = file_read(ns, CONF_FILE_MAX, &len, NULL);
    if (c->ns)
        trim_end(c->ns);
    if (!c->ns || !*c->ns) {
        free(c->ns);
        c->ns = xstrdup("default");
    }
    return c;
}

/* ---- kubeconfig ---- */

/* The member `field` of the entry called name in the list `list` of the document: {name, <field>:
 * {…}}. */
static const json_t *entry(
    const json_t *doc, const char *list, const char *name, const char *field, struct err *e)
{
    const json_t *item;
    size_t i;
    json_array_foreach (jget_arr(doc, list), i, item)
        if (strcmp(jget_str(item, "name", ""), name) == 0) {
            const json_t *found = jget_obj(item, field);
            if (!found)
                err_set(e, ERR_INVALID, "%s[%zu] (\"%s\") has no %s", list, i, name, field);
            return found;
        }
    err_set(e, ERR_INVALID, "%s has no entry \"%s\"", list, name);
    return NULL;
}

static char *decode_base64(const char *text, const char *where, struct err *e)
{
    size_t len = strlen(text);
    unsigned char *out = xcalloc(1, len / 4 * 3 + 4);
    int n = len % 4 == 0 && len <= INT32_MAX
        ? EVP_DecodeBlock(out, (const unsigned char *)text, (int)len)
        : -1;
    for (size_t i = len; n > 0 && i > 0 && text[i - 1] == '='; i--)
        n--;
    if (n <= 0 || memchr(out, '\0', (size_t)n)) {
        free(out);
        err_set(e, ERR_INVALID, "%s is not base64 of a PEM text", where);
        return NULL;
    }
    out[n] = '\0';
    return (char *)out;
}

/* <name>-data (base64), else the file <name>; *out stays NULL if neither is there. */
static int pem_of(const json_t *from, const char *name, char **out, struct err *e)
{
    cleanup_free char *data_field = xasprintf("%s-data", name);
    const char *data = jget_str(from, data_field, ""), *path = jget_str(from, name, "");
    size_t len;
    if (*data)
        *out = decode_base64(data, data_field, e);
    else if (*path)
        *out = file_read(path, CONF_FILE_MAX, &len, e);
    else
        return 0;
    return *out ? 0 : err_wrap(e, "%s", name);
}

/* Those are read again when they change; what stands in the kubeconfig itself is read once. */
static char *pem_file_of(const json_t *from, const char *name)
{
    cleanup_free char *data_field = xasprintf("%s-data", name);
    const char *path = jget_str(from, name, "");
    return *path && !*jget_str(from, data_field, "") ? xstrdup(path) : NULL;
}

static void cert_files_of(struct kube_conf *c, const json_t *user)
{
    cleanup_free char *cert = pem_file_of(user, "client-certificate"),
                      *key = pem_file_of(user, "client-key");
    if (!cert || !key)
        return;
    c->cert_file = steal(&cert);
    c->key_file = steal(&key);
}

/* An empty text is as good as none. */
static bool is_given(const json_t *from, const char *field)
{
    const json_t *value = jget(from, field);
    return value && !(json_is_string(value) && !*json_string_value(value));
}

static int user_of(
    struct kube_conf *c, const json_t *user, const struct kube_where *w, struct err *e)
{
    static const char *const unsupported[] = {"auth-provider", "username", "as"};
    for (size_t i = 0; i < ARRAY_LEN(unsupported); i++)
        if (is_given(user, unsupported[i]))
            return err_set(e, ERR_INVALID,
                "\"%s\" is not supported: use a token, tokenFile or client certificate, or " INSTEAD,
                unsupported[i]);
    if (jget(user, "exec"))
        return kube_conf_exec(c, user, w->exec, e);
    if (pem_of(user, "client-certificate", &c->cert_pem, e)
        || pem_of(user, "client-key", &c->key_pem, e))
        return -1;
    if ((c->cert_pem != NULL) != (c->key_pem != NULL))
        return err_set(e, ERR_INVALID, "client-certificate and client-key must come together");
    cert_files_of(c, user);
    const char *file = jget_str(user, "tokenFile", ""), *token = jget_str(user, "token", "");
    if (*file) {
        c->token_file = xstrdup(file);
        return read_token_locked(c, e);
    }
    if (*token) {
        c->token = xstrdup(token);
        log_redact(token);
    }
    return 0;
}

static int cluster_of(struct kube_conf *c, const json_t *cluster, struct err *e)
{
    static const char *const unsupported[] = {"tls-server-name", "proxy-url"};
    for (size_t i = 0; i < ARRAY_LEN(unsupported); i++)
        if (is_given(cluster, unsupported[i]))
            return err_set(e, ERR_INVALID, "\"%s\" is not supported: " INSTEAD, unsupported[i]);
    const char *server;
    if (jget_str_req(cluster, "server", &server, e))
        return -1;
    if (strncmp(server, "https://", 8) != 0 && strncmp(server, "http://", 7) != 0)
        return err_set(e, ERR_INVALID, "server \"%s\" must begin with https:// or http://", server);
    c->server = xstrdup(server);
    for (size_t n = strlen(c->server); n && c->server[n - 1] == '/'; n--)
        c->server[n - 1] = '\0';
    c->insecure = jget_bool(cluster, "insecure-skip-tls-verify", false);
    c->ca_file = pem_file_of(cluster, "certificate-authority");
    return pem_of(cluster, "certificate-authority", &c->ca_pem, e);
}

static int choose(struct kube_conf *c, const json_t *doc, const struct kube_where *w, struct err *e)
{
    const char *context = w->context ? w->context : jget_str(doc, "current-context", "");
    if (!*context)
        return err_set(e, ERR_INVALID,
            "there is no current-context; choose one with: kubectl config use-context NAME");
    const json_t *ctx = entry(doc, "contexts", context, "context", e);
    if (!ctx)
        return -1;
    const char *cluster_name = jget_str(ctx, "cluster", ""), *user_name = jget_str(ctx, "user", "");
    const json_t *cluster = entry(doc, "clusters", cluster_name, "cluster", e);
    if (!cluster)
        return err_wrap(e, "context \"%s\"", context);
    if (cluster_of(c, cluster, e))
        return err_wrap(e, "cluster \"%s\"", cluster_name);
    const json_t *user = *user_name ? entry(doc, "users", user_name, "user", e) : NULL;
    if (*user_name && !user)
        return err_wrap(e, "context \"%s\"", context);
    if (user && user_of(c, user, w, e))
        return err_wrap(e, "user \"%s\"", user_name);
    const char *ns = jget_str(ctx, "namespace", "");
    c->ns = xstrdup(*ns ? ns : "default");
    return 0;
}

static struct kube_conf *conf_of(const json_t *doc, const struct kube_where *w, struct err *e)
{
    struct kube_conf *c = conf_new();
    if (choose(c, doc, w, e)) {
        kube_conf_free(c);
        return NULL;
    }
    return c;
}

static void absolute(json_t *object, const char *field, const char *dir)
{
    const char *path = jget_str(object, field, "");
    if (!*path || *path == '/' || !dir)
        return;
    cleanup_free char *whole = path_join(dir, path);
    json_object_set_new(object, field, json_string(whole));
}

/* Reads one document; file names in it become absolute. */
static json_t *conf_document(const char *text, size_t len, const char *dir, struct err *e)
{
    size_t at = 0;
    while (at < len && strchr(" \t\r\n", text[at]))
        at++;
    json_t *doc = at < len && text[at] == '{' ? json_parse(text, len, e) : yaml_parse(text, len, e);
    if (!doc)
        return NULL;
    if (!json_is_object(doc)) {
        json_decref(doc);
        err_set(e, ERR_INVALID, "it is not a kubeconfig");
        return NULL;
    }
    json_t *item;
    size_t i;
    json_array_foreach (json_object_get(doc, "clusters"), i, item)
        absolute(json_object_get(item, "cluster"), "certificate-authority", dir);
    json_array_foreach (json_object_get(doc, "users"), i, item) {
        json_t *user = json_object_get(item, "user");
        absolute(user, "client-certificate", dir);
        absolute(user, "client-key", dir);
        absolute(user, "tokenFile", dir);
        json_t *exec = json_object_get(user, "exec");
        if (strchr(jget_str(exec, "command", ""), '/')) /* else it is found by PATH */
            absolute(exec, "command", dir);
    }
    return doc;
}

struct kube_conf *kube_conf_parse(
    const char *text, size_t len, const char *dir, const struct kube_where *w, struct err *e)
{
    static const struct kube_where anywhere;
    cleanup_json json_t *doc = conf_document(text, len, dir, e);
    return doc ? conf_of(doc, w ? w : &anywhere, e) : NULL;
}

/* Later files add entries; of two with one name the first counts, as entry() finds it first. */
static void merge(json_t *into, const json_t *from)
{
    static const char *const lists[] = {"clusters", "users", "contexts"};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        json_t *have = json_object_get(into, lists[i]), *more = json_object_get(from, lists[i]);
        if (json_is_array(have) && json_is_array(more))
            json_array_extend(have, more);
        else if (json_is_array(more))
            json_object_set(into, lists[i], more);
    }
    if (!*jget_str(into, "current-context", ""))
        json_object_set(into, "current-context", json_object_get(from, "current-context"));
}

static int merge_file(json_t *into, const char *path, struct err *e)
{
    size_t len;
    cleanup_free char *text = file_read(path, CONF_FILE_MAX, &len, e);
    if (!text)
        return -1;
    const char *slash = strrchr(path, '/');
    cleanup_free char *dir = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
    cleanup_json json_t *doc = conf_document(text, len, dir, e);
    explicit_bzero(text, len);
    if (!doc)
        return err_wrap(e, "%s", path);
    merge(into, doc);
    return 0;
}

static struct kube_conf *from_files(const char *list, const struct kube_where *w, struct err *e)
{
    cleanup_json json_t *doc = json_object();
    cleanup_free char *copy = xstrdup(list);
    char *rest = copy;
    bool any = false;
    for (char *path; (path = strsep(&rest, ":"));) {
        /* in a list, absent files are passed over, as kubectl does */
        if (!*path || (strchr(list, ':') && access(path, F_OK)))
            continue;
        any = true;
        if (merge_file(doc, path, e))
            return NULL;
    }
    if (!any) {
        err_set(e, ERR_NOTFOUND, "none of the files in %s exists", list);
        return NULL;
    }
    struct kube_conf *c = conf_of(doc, w, e);
    if (!c)
        err_wrap(e, "kubeconfig %s", list);
    return c;
}

static struct kube_conf *from_server(const char *url, struct err *e)
{
    struct kube_conf *c = conf_new();
    cleanup_json json_t *cluster = json_pack("{s:s}", "server", url);
    if (!cluster || cluster_of(c, cluster, e)) {
        kube_conf_free(c);
        return NULL;
    }
    c->ns = xstrdup("default");
    return c;
}

struct kube_conf *kube_conf_load(const struct kube_where *w, struct err *e)
{
    const char *env = getenv("KUBECONFIG"), *host = getenv("KUBERNETES_SERVICE_HOST"),
               *port = getenv("KUBERNETES_SERVICE_PORT");
    if (w->server)
        return from_server(w->server, e);
    if (w->file && *w->file)
        return from_files(w->file, w, e);
    if (env && *env)
        return from_files(env, w, e);
    if (host && *host && port && *port)
        return kube_conf_pod(CONF_POD_DIR, host, port, e);
    const char *home = getenv("HOME");
    cleanup_free char *fallback = path_join(home && *home ? home : "/root", ".kube/config");
    if (access(fallback, F_OK)) {
        err_set(e, ERR_NOTFOUND,
            "no cluster: not in a pod, KUBECONFIG is not set and %s does not exist", fallback);
        return NULL;
    }
    return from_files(fallback, w, e);
}
