/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/health.h"

static void health_alive(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    const struct health *h = user;
    (void)req;
    bool alive = !h->alive || h->alive(h->user, &resp->body);
    resp->status = alive ? 200 : 503;
    if (!resp->body.len)
        buf_adds(&resp->body, alive ? "ok\n" : "stuck\n");
}

static void health_ready(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    const struct health *h = user;
    (void)req;
    bool ready = !h->ready || h->ready(h->user, &resp->body);
    resp->status = ready ? 200 : 503;
    if (!resp->body.len)
        buf_adds(&resp->body, ready ? "ok\n" : "not ready\n");
}

void health_routes(const struct health *h, struct serve_route out[HEALTH_ROUTES])
{
    out[0] = (struct serve_route){"GET", "/healthz", health_alive, (void *)h};
    out[1] = (struct serve_route){"GET", "/readyz", health_ready, (void *)h};
}
