/* SPDX-License-Identifier: Apache-2.0 */
/* What requests to the API server cost, under our names and under those of client-go, which
 * dashboards know. */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/metric.h"
#include "lib/kube/client.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

METRIC_COUNTER(api_requests, "millrace_api_requests_total", "verb,resource,code",
    "Requests to the API server; code 0: no answer came.");
METRIC_SECONDS(api_request_seconds, "millrace_api_request_seconds", "verb",
    "Duration of a request to the API server, watches not among them.");
METRIC_COUNTER(rest_requests, "rest_client_requests_total", "code,method,host",
    "The same as millrace_api_requests_total, as client-go counts them.");
METRIC_SECONDS(rest_seconds, "rest_client_request_duration_seconds", "verb,host",
    "The same as millrace_api_request_seconds, as client-go measures it.");

void client_count(struct kube *k, const struct client_call *c, int status, int64_t took_ns)
{
    char verb[16], code[16];
    const char *host = strstr(k->conf->server, "://");
    snprintf(verb, sizeof verb, "%.*s", (int)strcspn(c->verb, " "), c->verb);
    snprintf(code, sizeof code, "%d", status);
    host = host ? host + 3 : k->conf->server;
    if (status >= 200 && status < 300)
        atomic_store(&k->answered_ns, clock_mono_ns());
    metric_add(metric_of(&api_requests, verb, c->res->plural, code), 1);
    metric_add(metric_of(&rest_requests, status ? code : "<error>", c->method, host), 1);
    if (took_ns < 0)
        return;
    metric_add(metric_of(&api_request_seconds, verb), took_ns);
    metric_add(metric_of(&rest_seconds, c->method, host), took_ns);
}

int64_t kube_answered_ns(struct kube *k) { return atomic_load(&k->answered_ns); }
