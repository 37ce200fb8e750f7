/* SPDX-License-Identifier: Apache-2.0 */
/* http — the one HTTP client (libcurl behind it): a request out, a response or a stream of bytes
 * back. Threads: a client may be used by any number of threads at once; every request blocks its
 * thread until it is done. Connections, TLS sessions and DNS answers are pooled per client; a
 * connection that has been idle is used again by the next request to its origin. Nothing here
 * retries: policy belongs to the caller (but for a pooled connection that turns out to have been
 * closed before the answer began). SIGPIPE is ignored from http_new() on, unless the process
 * handles it. */
#ifndef MILLRACE_LIB_HTTP_HTTP_H
#define MILLRACE_LIB_HTTP_HTTP_H

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/sink.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct http; /* opaque client */

struct http_conf {
    /* PEM file, read again for each connection; or NULL for the system's */
    const char *ca_file;
    const char *ca_pem;             /* PEM text, wins over ca_file */
    const char *cert_pem, *key_pem; /* client certificate, or NULL */
    /* or PEM files of it, read again for each connection; an answer of 401 ends the connections
     * that there are: they were made with an older one */
    const char *cert_file, *key_file;
    /* no TLS verification: only where a user asked for it in so many words */
    bool insecure;
    /* never by the proxy of the environment: the server is in the cluster */
    bool direct;
    /* never to the metadata service of a cloud, whatever name or redirect leads there: INVALID */
    bool no_metadata;
    int64_t connect_ns; /* 0: 10 s */
    /* a peer that acknowledges nothing for about so long is gone, also while nothing is sent:
     * RETRY; 0: when the kernel thinks so, which takes many minutes */
    int64_t dead_ns;
    unsigned max_idle;      /* idle connections kept; 0: 32 */
    const char *user_agent; /* NULL: "millrace" */
};

struct http *http_new(const struct http_conf *conf, struct err *e); /* copies conf */
void http_free(struct http *h);

/* Fills up to len bytes of the request body; 0 at its end, -1 to abort. */
typedef ssize_t (*http_source)(void *user, void *data, size_t len);

struct http_resp;
struct http_req {
    const char *method; /* "GET" … */
    const char *url;
    const char *const *headers; /* "Name: value" lines up to NULL, or NULL */
    const void *body;           /* or NULL */
    size_t body_len;
    http_source source; /* instead of body: streamed, exactly body_len bytes */
    void *source_user;
    int (*source_rewind)(void *user); /* if the connection must be replayed; may be NULL */
    /* Gets body bytes as they come, on the requesting thread; if it takes no more, http_do returns
     * ERR_RETRY with sys == ECANCELED. Only called for 2xx; other bodies are collected in
     * resp->body. NULL: those go to resp->body too. */
    sink_fn sink;
    /* before the first of them, with status and headers; as sink. Or NULL */
    int (*begin)(void *sink_user, const struct http_resp *resp);
    void *sink_user;
    size_t max_body;    /* ceiling for resp->body; 0: 1 MiB; more bytes: ERR_EXHAUSTED */
    int64_t timeout_ns; /* whole request; 0: none */
    /* no byte moved for that long: ERR_RETRY, sys ETIMEDOUT; 0: none */
    int64_t stall_ns;
    /* either ends it; checked at least every second while waiting; NULL: none */
    const atomic_bool *cancel, *also_cancel;
    /* Not once all of it is sent: who has it may do what it says. */
    bool await_answer;
};

struct http_resp {
    int status; /* 0 if no response came */
    struct buf body;
    /* "name: value\n" lines, names in lower case; http_header() reads it */
    char *headers;
};

/* 0: a response came, whatever its status. -1: none, or it broke off: class RETRY (sys:
 * EADDRNOTAVAIL the name does not resolve, ECONNREFUSED nobody answers there, ETIMEDOUT, ECANCELED,
 * EIO the source failed, ECONNRESET it broke off), DENIED (TLS verification), INVALID (URL),
 * EXHAUSTED (ceiling of a 2xx body; other bodies are cut at it). resp is always initialised, its
 * status is known if the headers came. Redirects are not followed. The error names the URL without
 * user and query. */
int http_do(struct http *h, const struct http_req *req, struct http_resp *resp, struct err *e);
/* NULL if absent */
const char *http_header(
    const struct http_resp *resp, const char *lower_name, char *out, size_t cap);
void http_resp_free(struct http_resp *resp);
#define cleanup_resp __attribute__((cleanup(http_resp_free)))

/* 404 NOTFOUND, 401/403 DENIED, 409/412 CONFLICT, 429/5xx RETRY, other 4xx INVALID */
enum err_class http_class_of_status(int status);
/* As messages show it: without user, query and fragment, where credentials hide; caller frees. */
char *http_shown_url(const char *url);
/* percent-encoding of RFC 3986 unreserved; caller frees */
char *http_escape(const char *text, bool keep_slash);
/* Visible ASCII without blanks: it may stand in a header as it is. */
bool http_is_word(const char *text, size_t len);

#endif
