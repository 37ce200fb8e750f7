/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/scrape.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/http/metric.h"
#include "lib/http/serve.h"

#define CONNECTIONS 16
#define ANSWER_NS   (2 * NS_PER_S)

static void scrape_answer(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    const struct scrape *s = user;
    (void)req;
    resp->content_type = "text/plain; version=0.0.4";
    if (s->collect)
        s->collect(s->user, &resp->body);
    metric_write(&resp->body);
}

int scrape_start(struct scrape *s, const char *address, struct err *e)
{
    if (address && !*address)
        return 0;
    const struct serve_route route = {"GET", "/metrics", scrape_answer, s};
    const struct serve_conf conf = {.address = address,
        .port = PORT_METRICS,
        .routes = &route,
        .nroutes = 1,
        .max_threads = CONNECTIONS,
        .max_body = 1,
        .answer_ns = ANSWER_NS};
    s->server = serve_start(&conf, e);
    return s->server ? 0 : -1;
}

void scrape_stop(struct scrape *s)
{
    serve_stop(s->server);
    s->server = NULL;
}
