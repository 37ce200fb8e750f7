/* SPDX-License-Identifier: Apache-2.0 */
/* serve_priv — what serve.c (listens, accepts, starts, stops) and serve_conn.c (one connection)
 * share. */
#ifndef MILLRACE_LIB_HTTP_SERVE_PRIV_H
#define MILLRACE_LIB_HTTP_SERVE_PRIV_H

#include "lib/http/head.h"
#include "lib/http/serve.h"

#include <pthread.h>
#include <stdbool.h>

struct http_conn {
    struct http_server *s;
    struct http_conn *next, **prev; /* serve.mu */
    int fd;
    /* serve.mu. WORKING is our own time, and HTTP_PATIENT said so: those two are never cut */
    enum http_state { HTTP_WAITING, HTTP_WORKING, HTTP_ANSWERING, HTTP_PATIENT } state;
    int64_t since_ns; /* serve.mu: in this state since */
    struct buf in;    /* bytes read and not yet used */
};

struct http_server {
    struct serve_route *routes;
    size_t nroutes, max_body;
    unsigned max_threads;
    int64_t idle_ns, answer_ns;
    int listen_fd, wake_fd, port;
    pthread_t acceptor;
    pthread_mutex_t mu; /* a leaf */
    pthread_cond_t changed;
    struct http_conn *conns; /* mu */
    unsigned nconns;         /* mu */
    bool stopping;           /* mu */
};

/* The thread of a connection, which frees it. */
void *conn_thread(void *conn);

#endif
