/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of health, with and without functions of the program. */
#include "lib/base/mem.h"
#include "lib/http/health.h"
#include "lib/http/http.h"
#include "tests/lib/unit.h"

#include <string.h>

struct state {
    bool ready;
    const char *text;
};

static bool test_ready(void *user, struct buf *out)
{
    const struct state *s = user;
    buf_adds(out, s->text);
    return s->ready;
}

/* Starts a server with the routes of h, gets path and compares. */
static void expect(const struct health *h, const char *path, int status, const char *text)
{
    struct serve_route routes[HEALTH_ROUTES];
    health_routes(h, routes);
    struct serve_conf conf = {.routes = routes, .nroutes = HEALTH_ROUTES, .max_threads = 2};
    struct err e = ERR_INIT;
    struct http_server *server = serve_start(&conf, &e);
    assert_non_null(server);
    cleanup_free char *url = xasprintf("http://127.0.0.1:%d%s", serve_port(server), path);
    struct http *client = http_new(&(struct http_conf){0}, &e);
    cleanup_resp struct http_resp resp = {0};
    assert_int_equal(
        http_do(client, &(struct http_req){.method = "GET", .url = url}, &resp, &e), 0);
    assert_int_equal(resp.status, status);
    if (!strstr(buf_str(&resp.body), text))
        fail_msg("%s: %s", path, buf_str(&resp.body));
    http_free(client);
    serve_stop(server);
}

static void test_routes(void **state)
{
    (void)state;
    struct state s = {true, ""};
    struct health h = {.ready = test_ready, .user = &s}, plain = {0};
    expect(&h, "/healthz", 200, "ok\n");
    expect(&h, "/readyz", 200, "ok\n");
    s.text = "ok, leading\n";
    expect(&h, "/readyz", 200, "ok, leading\n");
    s = (struct state){false, "StoreError: it is gone\n"};
    expect(&h, "/healthz", 200, "ok\n");
    expect(&h, "/readyz", 503, "StoreError: it is gone\n");
    s.text = "";
    expect(&h, "/readyz", 503, "not ready\n");
    expect(&plain, "/readyz", 200, "ok\n");
    struct health stuck = {.alive = test_ready, .user = &s};
    expect(&stuck, "/healthz", 503, "stuck\n");
    s = (struct state){true, ""};
    expect(&stuck, "/healthz", 200, "ok\n");
    expect(&plain, "/metrics", 404, "there is nothing here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_routes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
