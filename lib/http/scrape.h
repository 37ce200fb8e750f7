/* SPDX-License-Identifier: Apache-2.0 */
/* scrape — the listener for metrics: a port of its own that answers GET /metrics and nothing else,
 * so that it can be opened to a monitoring system alone. Connections that are idle, or whose reader
 * does not take the answer, make room for the next one. */
#ifndef MILLRACE_LIB_HTTP_SCRAPE_H
#define MILLRACE_LIB_HTTP_SCRAPE_H

#include "lib/base/buf.h"
#include "lib/base/err.h"

struct http_server;

struct scrape {
    /* Sets the metrics before they are written; may append what is not kept. Called by the server's
     * threads. NULL: none */
    void (*collect)(void *user, struct buf *out);
    void *user;
    struct http_server *server; /* NULL: does not run */
};

/* Help of two flags of every program: --metrics ADDRESS, scrape_start's, and --list-metrics, which
 * ends it with metric_list(). */
#define SCRAPE_HELP      "serve metrics there, and nothing else; empty: nowhere"
#define SCRAPE_LIST_HELP "print the name, type, labels and help of every metric, and end"

/* address: NULL: PORT_METRICS of every address; "": nowhere. s is borrowed until scrape_stop, which
 * may always be called. */
int scrape_start(struct scrape *s, const char *address, struct err *e);
void scrape_stop(struct scrape *s);

#endif
