/* SPDX-License-Identifier: Apache-2.0 */
/* health — the routes that every program of ours serves: /healthz (it runs), /readyz (it can do its
 * work) and /metrics. */
#ifndef MILLRACE_LIB_HTTP_HEALTH_H
#define MILLRACE_LIB_HTTP_HEALTH_H

#include "lib/base/buf.h"
#include "lib/http/serve.h"

#include <stdbool.h>

#define HEALTH_ROUTES 3

struct health { /* its functions are called by the server's threads */
    /* true: 200, false: 503. Appends the answer, the reason if it is not ready; "ok" if it appends
     * nothing. NULL: always ready. */
    bool (*ready)(void *user, struct buf *out);
    /* Sets the gauges before they are written; may append metrics that it does not keep. NULL: none
     */
    void (*collect)(void *user, struct buf *out);
    void *user;
};

/* h is borrowed as long as the server runs. */
void health_routes(const struct health *h, struct serve_route out[HEALTH_ROUTES]);

#endif
