/* SPDX-License-Identifier: Apache-2.0 */
/* health — the routes that every program of ours serves: /healthz (it runs) and /readyz (it can do
 * its work). Metrics have a listener of their own: scrape.h. */
#ifndef MILLRACE_LIB_HTTP_HEALTH_H
#define MILLRACE_LIB_HTTP_HEALTH_H

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/http/serve.h"

#include <stdbool.h>

#define HEALTH_ROUTES 2
/* Their serve_conf.answer_ns: a probe never waits for readers that do not take their answers. */
#define HEALTH_ANSWER_NS (2 * NS_PER_S)

struct health { /* its functions are called by the server's threads */
    /* true: 200, false: 503. Appends the answer, the reason if it is not ready; "ok" if it appends
     * nothing. NULL: always ready. */
    bool (*ready)(void *user, struct buf *out);
    /* The same for /healthz: false, and it is to be started anew. NULL: it is alive if it answers.
     */
    bool (*alive)(void *user, struct buf *out);
    void *user;
};

/* h is borrowed as long as the server runs. */
void health_routes(const struct health *h, struct serve_route out[HEALTH_ROUTES]);

#endif
