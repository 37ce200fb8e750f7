/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/http.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/head.h"
#include "lib/http/http_priv.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_DEFAULT    32
#define CONNECT_DEFAULT (10 * NS_PER_S)

static void global_init(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
    /* libcurl leaves SIGPIPE to us where signals are off, as they must be with threads. */
    struct sigaction now;
    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
}

static void share_lock(CURL *curl, curl_lock_data data, curl_lock_access access, void *user)
{
    (void)curl;
    (void)access;
    pthread_mutex_lock(&((struct http *)user)->share_mu[data]);
}

static void share_unlock(CURL *curl, curl_lock_data data, void *user)
{
    (void)curl;
    pthread_mutex_unlock(&((struct http *)user)->share_mu[data]);
}

struct http *http_new(const struct http_conf *conf, struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, global_init);
    if ((conf->cert_pem != NULL) != (conf->key_pem != NULL)
        || (conf->cert_file != NULL) != (conf->key_file != NULL)) {
        err_set(e, ERR_INVALID, "a client certificate needs its key, and a key its certificate");
        return NULL;
    }
    struct http *h = xcalloc(1, sizeof *h);
    h->share = curl_share_init();
    if (!h->share) {
        free(h);
        err_set(e, ERR_EXHAUSTED, "no memory for an HTTP client");
        return NULL;
    }
    h->ca_file = xstrdup(conf->ca_file);
    h->ca_pem = xstrdup(conf->ca_pem);
    h->cert_pem = xstrdup(conf->cert_pem);
    h->key_pem = xstrdup(conf->key_pem);
    h->cert_file = xstrdup(conf->cert_file);
    h->key_file = xstrdup(conf->key_file);
    h->user_agent = xstrdup(conf->user_agent ? conf->user_agent : "millrace");
    h->insecure = conf->insecure;
    h->direct = conf->direct;
    h->no_metadata = conf->no_metadata;
    h->connect_ns = conf->connect_ns ? conf->connect_ns : CONNECT_DEFAULT;
    h->dead_ns = conf->dead_ns;
    h->max_idle = conf->max_idle ? conf->max_idle : IDLE_DEFAULT;
    h->idle = xcalloc(h->max_idle, sizeof *h->idle);
    pthread_mutex_init(&h->mu, NULL);
    for (size_t i = 0; i < ARRAY_LEN(h->share_mu); i++)
        pthread_mutex_init(&h->share_mu[i], NULL);
    curl_share_setopt(h->share, CURLSHOPT_LOCKFUNC, share_lock);
    curl_share_setopt(h->share, CURLSHOPT_UNLOCKFUNC, share_unlock);
    curl_share_setopt(h->share, CURLSHOPT_USERDATA, h);
    curl_share_setopt(h->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
    curl_share_setopt(h->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    return h;
}

static void drop_idle(struct http *h)
{
    for (; h->nidle; h->nidle--) {
        curl_easy_cleanup(h->idle[h->nidle - 1].curl);
        free(h->idle[h->nidle - 1].origin);
    }
}

void http_free(struct http *h)
{
    if (!h)
        return;
    drop_idle(h);
    free(h->idle);
    curl_share_cleanup(h->share);
    pthread_mutex_destroy(&h->mu);
    for (size_t i = 0; i < ARRAY_LEN(h->share_mu); i++)
        pthread_mutex_destroy(&h->share_mu[i]);
    free(h->ca_file);
    free(h->ca_pem);
    free(h->cert_pem);
    free(h->key_pem);
    free(h->cert_file);
    free(h->key_file);
    free(h->user_agent);
    free(h);
}

/* "https://host:port" of an URL, for choosing a handle. */
static char *origin_of(const char *url)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    return xstrndup(url, (size_t)(host - url) + strcspn(host, "/?#"));
}

/* The most recently used idle handle of that origin; else the one unused for longest, which gives
 * up its connections' places; else a new one. */
static CURL *handle_get(struct http *h, const char *origin)
{
    CURL *curl = NULL;
    pthread_mutex_lock(&h->mu);
    unsigned at = h->nidle;
    while (at > 0 && strcmp(h->idle[at - 1].origin, origin) != 0)
        at--;
    bool take = at > 0;
    if (!take && h->nidle == h->max_idle) {
        take = true;
        at = 1;
    }
    if (take) {
        curl = h->idle[at - 1].curl;
        free(h->idle[at - 1].origin);
        memmove(&h->idle[at - 1], &h->idle[at], (h->nidle - at) * sizeof *h->idle);
        h->nidle--;
    }
    pthread_mutex_unlock(&h->mu);
    return curl ? curl : curl_easy_init();
}

/* refused: the server does not know us by that connection (any more). */
static void handle_put(struct http *h, CURL *curl, char *origin_take, bool refused)
{
    bool older = refused && h->cert_file;
    pthread_mutex_lock(&h->mu);
    if (older)
        drop_idle(h);
    bool keep = !older && h->nidle < h->max_idle;
    if (keep)
        h->idle[h->nidle++] = (struct idle_handle){curl, origin_take};
    pthread_mutex_unlock(&h->mu);
    if (!keep) {
        curl_easy_cleanup(curl);
        free(origin_take);
    }
}

int http_do(struct http *h, const struct http_req *req, struct http_resp *resp, struct err *e)
{
    char *origin = origin_of(req->url);
    CURL *curl = handle_get(h, origin);
    int rc = transfer_run(h, curl, req, resp, e);
    if (curl)
        handle_put(h, curl, origin, resp->status == 401);
    else
        free(origin);
    return rc;
}

const char *http_header(const struct http_resp *resp, const char *lower_name, char *out, size_t cap)
{
    return resp->headers ? http_head_value(resp->headers, lower_name, out, cap) : NULL;
}

void http_resp_free(struct http_resp *resp)
{
    buf_free(&resp->body);
    free(resp->headers);
    resp->headers = NULL;
}

enum err_class http_class_of_status(int status)
{
    switch (status) {
    case 404:
    case 410:
        return ERR_NOTFOUND;
    case 401:
    case 403:
        return ERR_DENIED;
    case 409:
    case 412:
        return ERR_CONFLICT;
    case 408:
    case 429:
        return ERR_RETRY;
    case 507:
        return ERR_EXHAUSTED;
    default:
        break;
    }
    if (status >= 200 && status < 300)
        return ERR_NONE;
    return status >= 400 && status < 500 ? ERR_INVALID : ERR_RETRY;
}

bool http_is_word(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 0x7f)
            return false;
    return true;
}

char *http_escape(const char *text, bool keep_slash)
{
    static const char hex[] = "0123456789ABCDEF";
    char *out = xmalloc(strlen(text) * 3 + 1), *p = out;
    for (; *text; text++) {
        unsigned char ch = (unsigned char)*text;
        if ((ch < 0x80 && isalnum(ch)) || strchr("-._~", ch) || (keep_slash && ch == '/')) {
            *p++ = (char)ch;
        } else {
            *p++ = '%';
            *p++ = hex[ch >> 4];
            *p++ = hex[ch & 15];
        }
    }
    *p = '\0';
    return out;
}
