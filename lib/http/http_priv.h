/* SPDX-License-Identifier: Apache-2.0 */
/* http_priv — what http.c (the client and its idle handles) and transfer.c (one request) share. */
#ifndef MILLRACE_LIB_HTTP_HTTP_PRIV_H
#define MILLRACE_LIB_HTTP_HTTP_PRIV_H

#include "lib/http/http.h"

#include <curl/curl.h>
#include <pthread.h>

/* One idle handle. Each keeps its own connections (libcurl does not let threads share those), so a
 * request prefers a handle that last spoke to the same origin; name look-ups and TLS sessions are
 * shared by all. */
struct idle_handle {
    CURL *curl;
    char *origin; /* "https://host:port" */
};

struct http {
    char *ca_file, *ca_pem, *cert_pem, *key_pem, *cert_file, *key_file, *user_agent;
    bool insecure, direct, no_metadata;
    int64_t connect_ns, dead_ns;
    unsigned max_idle;
    CURLSH *share;
    pthread_mutex_t share_mu[CURL_LOCK_DATA_LAST];
    pthread_mutex_t mu;       /* leaf */
    struct idle_handle *idle; /* mu: a stack, the most recently used last */
    unsigned nidle;           /* mu */
};

/* One request with that handle, as http_do(); NULL: none could be made. */
int transfer_run(const struct http *h, CURL *curl, const struct http_req *req,
    struct http_resp *resp, struct err *e);

#endif
