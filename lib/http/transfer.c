/* SPDX-License-Identifier: Apache-2.0 */
/* One request of the HTTP client: libcurl's options and callbacks, and what its end means. */
#include "lib/http/http_priv.h"
#include "lib/http/lookups.h"
#include "lib/http/metadata.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"

#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A pod that is made again has another address under its name, and that of before answers nobody.
 * Connections are kept, so few of them need one. */
#define ADDRESS_S    5
#define BODY_DEFAULT ((size_t)1 << 20)
#define HEADERS_MAX  ((size_t)64 << 10)
/* per busy handle: large enough for ranged reads, small enough for many at once */
#define IO_BUFFER (128L << 10)

/* One request on its way. */
struct transfer {
    CURL *curl;
    const struct http *http;
    const struct http_req *req;
    struct http_resp *resp;
    struct buf headers;
    curl_off_t moved; /* bytes, both ways, when last looked */
    int64_t moved_at; /* mono ns */
    bool begun, sink_stopped, cancelled, stalled, too_large, source_failed, metadata;
    bool looks_up, no_lookup; /* a name's address is asked for; it was not asked for */
};

static bool is_2xx(long status) { return status >= 200 && status < 300; }

/* The sink's owner sees status and headers before the first byte. */
static int begin_sink(struct transfer *t, long status)
{
    if (t->begun || !t->req->begin)
        return 0;
    t->begun = true;
    t->resp->status = (int)status;
    t->resp->headers = buf_str(&t->headers); /* lent */
    int rc = t->req->begin(t->req->sink_user, t->resp);
    t->resp->headers = NULL;
    return rc;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    struct transfer *t = user;
    size_t len = size * n;
    long status = 0;
    progress_mark();
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    if (t->req->sink && is_2xx(status)) {
        if (begin_sink(t, status) || t->req->sink(t->req->sink_user, data, len)) {
            t->sink_stopped = true;
            return len + 1; /* any other number ends the transfer */
        }
        return len;
    }
    if (buf_add(&t->resp->body, data, len)) {
        t->too_large = true;
        return len + 1;
    }
    return len;
}

static size_t on_header(char *data, size_t size, size_t n, void *user)
{
    struct transfer *t = user;
    size_t len = size * n;
    /* of the final answer, not of a 100 before it */
    if (len >= 5 && strncmp(data, "HTTP/", 5) == 0) {
        buf_clear(&t->headers);
        return len;
    }
    const char *colon = memchr(data, ':', len);
    if (!colon)
        return len;
    for (const char *p = data; p < colon; p++)
        buf_addc(&t->headers, (char)tolower((unsigned char)*p));
    const char *value = colon + 1, *end = data + len;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && isspace((unsigned char)end[-1]))
        end--;
    buf_adds(&t->headers, ": ");
    buf_add(&t->headers, value, (size_t)(end - value));
    buf_addc(&t->headers, '\n');
    return len;
}

static size_t on_source(char *data, size_t size, size_t n, void *user)
{
    struct transfer *t = user;
    progress_mark();
    ssize_t got = t->req->source(t->req->source_user, data, size * n);
    if (got < 0) {
        t->source_failed = true;
        return CURL_READFUNC_ABORT;
    }
    return (size_t)got;
}

static int on_rewind(void *user, curl_off_t offset, int origin)
{
    struct transfer *t = user;
    if (offset != 0 || origin != SEEK_SET || !t->req->source_rewind)
        return CURL_SEEKFUNC_CANTSEEK;
    return t->req->source_rewind(t->req->source_user) ? CURL_SEEKFUNC_FAIL : CURL_SEEKFUNC_OK;
}

static bool flag_is_set(const atomic_bool *flag)
{
    return flag && atomic_load_explicit(flag, memory_order_relaxed);
}

/* Has the server all that it needs to do it? Without a body, it has that with the headers. */
static bool is_sent(const struct transfer *t, curl_off_t up_total, curl_off_t up)
{
    long headers = 0;
    if (t->req->body_len)
        return up_total > 0 && up >= up_total;
    curl_easy_getinfo(t->curl, CURLINFO_REQUEST_SIZE, &headers);
    return headers > 0;
}

/* libcurl calls this whenever bytes moved, and about once a second when none did. */
static int on_progress(
    void *user, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
    struct transfer *t = user;
    (void)down_total;
    bool sent = t->req->await_answer && is_sent(t, up_total, up);
    if (!sent && (flag_is_set(t->req->cancel) || flag_is_set(t->req->also_cancel))) {
        t->cancelled = true;
        return 1;
    }
    if (t->req->stall_ns) {
        int64_t now = clock_mono_ns();
        if (down + up != t->moved) {
            t->moved = down + up;
            t->moved_at = now;
        } else if (now - t->moved_at > t->req->stall_ns) {
            t->stalled = true;
            return 1;
        }
    }
    return 0;
}

static bool has_header(const char *const *headers, const char *name)
{
    size_t len = strlen(name);
    for (; headers && *headers; headers++)
        if (strncasecmp(*headers, name, len) == 0 && (*headers)[len] == ':')
            return true;
    return false;
}

/* A line that would end early and go on as something else: whoever chose its value would write
 * requests of his own on our connection. */
static bool is_one_line(const char *header)
{
    for (const unsigned char *p = (const unsigned char *)header; *p; p++)
        if ((*p < ' ' && *p != '\t') || *p == 0x7f)
            return false;
    return true;
}

static int check_headers(const struct http_req *req, struct err *e)
{
    for (const char *const *line = req->headers; line && *line; line++)
        if (!is_one_line(*line))
            return err_set(e, ERR_INVALID, "the value of header %.*s has a line end in it",
                (int)strcspn(*line, ":"), *line);
    return 0;
}

static struct curl_slist *header_list(const struct http_req *req)
{
    struct curl_slist *list = NULL;
    for (const char *const *line = req->headers; line && *line; line++)
        list = curl_slist_append(list, *line);
    if (!has_header(req->headers, "Expect"))
        /* saves a round trip where the caller did not ask for one */
        list = curl_slist_append(list, "Expect:");
    if (!has_header(req->headers, "Content-Type"))
        list = curl_slist_append(list, "Content-Type:"); /* else libcurl calls every body a form */
    return list;
}

static void set_method(CURL *c, const struct http_req *req, struct transfer *t)
{
    bool sends = req->body || req->source || strcmp(req->method, "POST") == 0
        || strcmp(req->method, "PUT") == 0 || strcmp(req->method, "PATCH") == 0;
    if (req->source) {
        curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(c, CURLOPT_READFUNCTION, on_source);
        curl_easy_setopt(c, CURLOPT_READDATA, t);
        curl_easy_setopt(c, CURLOPT_SEEKFUNCTION, on_rewind);
        curl_easy_setopt(c, CURLOPT_SEEKDATA, t);
        curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)req->body_len);
    } else if (sends) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, req->body ? req->body : "");
        curl_easy_setopt(
            c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(req->body ? req->body_len : 0));
    } else if (strcmp(req->method, "HEAD") == 0) {
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    } else {
        curl_easy_setopt(c, CURLOPT_HTTPGET, 1L);
    }
    curl_easy_setopt(
        c, CURLOPT_CUSTOMREQUEST, strcmp(req->method, "HEAD") == 0 ? NULL : req->method);
}

static void set_blob(CURL *c, CURLoption option, const char *pem)
{
    /* ours lives as long as the handle */
    struct curl_blob blob = {(void *)(uintptr_t)pem, strlen(pem), CURL_BLOB_NOCOPY};
    curl_easy_setopt(c, option, &blob);
}

static void set_tls(CURL *c, const struct http *h)
{
    curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (h->insecure) {
        curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (h->ca_pem)
        set_blob(c, CURLOPT_CAINFO_BLOB, h->ca_pem);
    else if (h->ca_file) {
        curl_easy_setopt(c, CURLOPT_CAINFO, h->ca_file);
#if CURL_AT_LEAST_VERSION(7, 87, 0)
        curl_easy_setopt(c, CURLOPT_CA_CACHE_TIMEOUT, 0L); /* else for a day */
#endif
    }
    if (h->cert_file) {
        curl_easy_setopt(c, CURLOPT_SSLCERT, h->cert_file);
        curl_easy_setopt(c, CURLOPT_SSLKEY, h->key_file);
        curl_easy_setopt(c, CURLOPT_SSL_SESSIONID_CACHE, 0L); /* a session has the former one */
    } else if (h->cert_pem) {
        set_blob(c, CURLOPT_SSLCERT_BLOB, h->cert_pem);
        set_blob(c, CURLOPT_SSLKEY_BLOB, h->key_pem);
    }
}

static int on_socket(void *user, curl_socket_t fd, curlsocktype purpose)
{
    const struct http *h = user;
    (void)purpose;
    unsigned ms = (unsigned)(h->dead_ns * 2 / 3 / NS_PER_MS);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
    return CURL_SOCKOPT_OK;
}

/* Probes after a third of the time, and what stays unacknowledged for the rest ends it. */
static void set_dead(CURL *c, const struct http *h)
{
    curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
    if (!h->dead_ns)
        return;
    curl_easy_setopt(c, CURLOPT_TCP_KEEPIDLE, (long)(h->dead_ns / 3 / NS_PER_S));
    curl_easy_setopt(c, CURLOPT_TCP_KEEPINTVL, (long)(h->dead_ns / 9 / NS_PER_S));
    curl_easy_setopt(c, CURLOPT_SOCKOPTFUNCTION, on_socket);
    curl_easy_setopt(c, CURLOPT_SOCKOPTDATA, (void *)(uintptr_t)h);
}

static int on_lookup(void *resolver, void *reserved, void *user)
{
    struct transfer *t = user;
    (void)resolver;
    (void)reserved;
    t->looks_up = true;
    t->no_lookup = lookups_hang(clock_mono_ns()) && !lookups_spares(t->req->url);
    return t->no_lookup;
}

/* It ended before there was an address, and nobody waits for that any more. */
static void leave_lookup(const struct transfer *t, CURLcode code)
{
    curl_off_t took_us = 0;
    curl_easy_getinfo(t->curl, CURLINFO_NAMELOOKUP_TIME_T, &took_us);
    if (t->looks_up && !took_us
        && (code == CURLE_OPERATION_TIMEDOUT || code == CURLE_ABORTED_BY_CALLBACK))
        lookups_leave(clock_mono_ns());
}

static curl_socket_t on_open(void *user, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct transfer *t = user;
    (void)purpose;
    if (http_is_metadata(&to->addr)) {
        t->metadata = true;
        return CURL_SOCKET_BAD;
    }
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static void set_all(
    CURL *c, const struct http *h, const struct http_req *req, struct transfer *t, char *errors)
{
    curl_easy_reset(c); /* options only: connections stay */
    curl_easy_setopt(c, CURLOPT_SHARE, h->share);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, errors);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    /* a resolver that hangs is left behind: its thread would be waited for beyond any deadline */
    curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(c, CURLOPT_RESOLVER_START_FUNCTION, on_lookup);
    curl_easy_setopt(c, CURLOPT_RESOLVER_START_DATA, t);
    curl_easy_setopt(c, CURLOPT_URL, req->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    /* one request a connection: h2 would only add framing */
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    /* keys of objects may hold "..", and signatures cover the path */
    curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(c, CURLOPT_USERAGENT, h->user_agent);
    set_dead(c, h);
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, IO_BUFFER);
    curl_easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, IO_BUFFER);
    curl_easy_setopt(c, CURLOPT_DNS_CACHE_TIMEOUT, (long)ADDRESS_S);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)(h->connect_ns / NS_PER_MS));
    if (req->timeout_ns)
        curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)MAX(req->timeout_ns / NS_PER_MS, 1));
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
    if (h->direct)
        curl_easy_setopt(c, CURLOPT_PROXY, "");
    if (h->no_metadata) {
        curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_open);
        curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, t);
    }
    set_tls(c, h);
    set_method(c, req, t);
}

static int transfer_fail(const struct transfer *t, CURLcode code, const char *detail, struct err *e)
{
    cleanup_free char *url = http_shown_url(t->req->url);
    const char *why = *detail ? detail : curl_easy_strerror(code);
    enum err_class cls = ERR_RETRY;
    int sys = 0;
    if (t->cancelled || t->sink_stopped) {
        sys = ECANCELED;
        why = "cancelled";
    } else if (t->stalled) {
        sys = ETIMEDOUT;
        why = "no byte came or went for too long";
    } else if (t->source_failed) {
        sys = EIO;
        why = "the body to send could not be read";
    } else if (t->metadata) {
        cls = ERR_INVALID;
        sys = EACCES;
        why =
            "this is the address of a cloud's metadata service, where no store is: name the store's own";
    } else if (t->no_lookup) {
        sys = EADDRNOTAVAIL;
        why =
            "the name is not looked up: too many look-ups hang already; does the name server answer?";
    } else if (t->too_large) {
        cls = ERR_EXHAUSTED;
        sys = EFBIG;
        why = "the answer is larger than allowed";
    } else if (code == CURLE_SSL_CERTPROBLEM && t->http->cert_file) {
        sys = EACCES; /* they are two files: while they are replaced, one is newer */
    } else if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE
        || code == CURLE_SSL_ISSUER_ERROR || code == CURLE_SSL_CERTPROBLEM
        || code == CURLE_SSL_INVALIDCERTSTATUS) {
        cls = ERR_DENIED;
        sys = EACCES;
    } else if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL) {
        cls = ERR_INVALID;
        sys = EINVAL;
    } else if (code == CURLE_OUT_OF_MEMORY) {
        cls = ERR_EXHAUSTED;
        sys = ENOMEM;
    } else if (code == CURLE_OPERATION_TIMEDOUT && strstr(why, "Resolving timed out")) {
        sys = EADDRNOTAVAIL; /* nobody said where it is: that is no silence of the server's */
    } else if (code == CURLE_OPERATION_TIMEDOUT) {
        sys = ETIMEDOUT;
    } else if (code == CURLE_COULDNT_RESOLVE_HOST) {
        sys = EADDRNOTAVAIL;
    } else if (code == CURLE_COULDNT_CONNECT) {
        sys = ECONNREFUSED;
    } else {
        sys = ECONNRESET;
    }
    err_set(e, cls, "%s %s: %s", t->req->method, url, why);
    if (e)
        e->sys = sys;
    return -1;
}

int transfer_run(const struct http *h, CURL *curl, const struct http_req *req,
    struct http_resp *resp, struct err *e)
{
    *resp = (struct http_resp){.body = BUF_INIT(req->max_body ? req->max_body : BODY_DEFAULT)};
    struct transfer t = {.curl = curl,
        .http = h,
        .req = req,
        .resp = resp,
        .headers = BUF_INIT(HEADERS_MAX),
        .moved_at = clock_mono_ns()};
    char errors[CURL_ERROR_SIZE] = "";
    if (!curl)
        return transfer_fail(&t, CURLE_OUT_OF_MEMORY, "", e);
    if (check_headers(req, e))
        return -1;
    t.metadata = h->no_metadata && http_names_metadata(req->url);
    if (t.metadata)
        return transfer_fail(&t, CURLE_COULDNT_CONNECT, "", e);
    struct curl_slist *headers = header_list(req);
    set_all(curl, h, req, &t, errors);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    progress_mark();
    CURLcode code = curl_easy_perform(curl);
    leave_lookup(&t, code);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, NULL);
    curl_slist_free_all(headers);
    resp->status = (int)status;
    resp->headers = buf_take(&t.headers);
    /* An error text that is too long is cut: the status says more than its tail. */
    if (code != CURLE_OK && !(t.too_large && !is_2xx(status)))
        return transfer_fail(&t, code, errors, e);
    return 0;
}
