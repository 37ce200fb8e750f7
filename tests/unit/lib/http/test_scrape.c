/* SPDX-License-Identifier: Apache-2.0 */
/* The listener for metrics: it answers nothing else, and connections that hold it take nothing from
 * the next one. */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/http.h"
#include "lib/http/metric.h"
#include "lib/http/scrape.h"
#include "lib/http/serve.h"
#include "tests/lib/unit.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

METRIC_GAUGE(t_collected, "t_collected", "", "Set when it is asked for.");

static bool large; /* answers that fill every buffer on the way */

static void test_collect(void *user, struct buf *out)
{
    metric_set(metric_of(&t_collected), *(int *)user);
    buf_adds(out, "t_of_a_moment 7\n");
    for (int i = 0; large && i < 1 << 18; i++)
        buf_adds(out, "# a line of thirty-two letters.\n");
}

static int get(const struct scrape *s, const char *path, struct http_resp *resp)
{
    struct err e = ERR_INIT;
    cleanup_free char *url = xasprintf("http://127.0.0.1:%d%s", serve_port(s->server), path);
    struct http *client = http_new(&(struct http_conf){0}, &e);
    const struct http_req req = {
        .method = "GET", .url = url, .timeout_ns = 20 * NS_PER_S, .max_body = 64 << 20};
    int rc = http_do(client, &req, resp, &e);
    http_free(client);
    if (rc)
        print_error("%s\n", e.msg);
    return rc ? -1 : resp->status;
}

static void expect(const struct scrape *s, const char *path, int status, const char *text)
{
    cleanup_resp struct http_resp resp = {0};
    assert_int_equal(get(s, path, &resp), status);
    if (!strstr(buf_str(&resp.body), text))
        fail_msg("%s: %s", path, buf_str(&resp.body));
}

static void test_metrics_and_nothing_else(void **state)
{
    (void)state;
    int value = 42;
    struct err e = ERR_INIT;
    struct scrape s = {test_collect, &value, NULL};
    assert_int_equal(scrape_start(&s, "127.0.0.1:0", &e), 0);
    expect(&s, "/metrics", 200, "\nt_collected 42\n");
    expect(&s, "/metrics", 200, "t_of_a_moment 7\n");
    expect(&s, "/metrics", 200, "\nprocess_resident_memory_bytes ");
    expect(&s, "/", 404, "there is nothing here");
    expect(&s, "/healthz", 404, "there is nothing here");
    expect(&s, "/status", 404, "there is nothing here");
    scrape_stop(&s);
    scrape_stop(&s);
}

static void test_addresses(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct scrape none = {0}, bad = {0}, first = {0}, second = {0};
    assert_int_equal(scrape_start(&none, "", &e), 0);
    assert_null(none.server);
    scrape_stop(&none);
    assert_int_equal(scrape_start(&bad, "nonsense", &e), -1);
    assert_non_null(strstr(e.msg, "nonsense"));
    assert_int_equal(scrape_start(&first, "127.0.0.1:0", &e), 0);
    cleanup_free char *taken = xasprintf("127.0.0.1:%d", serve_port(first.server));
    e = (struct err)ERR_INIT;
    assert_int_equal(scrape_start(&second, taken, &e), -1);
    assert_non_null(strstr(e.msg, taken));
    scrape_stop(&first);
}

static int dial(const struct scrape *s, const char *text)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), small = 4096;
    struct sockaddr_in to = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)serve_port(s->server)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return fd;
}

/* More connections than it has threads, of three kinds: silent ones, ones in the middle of a
 * request, ones that ask and never read. */
static void test_held_connections_starve_nobody(void **state)
{
    (void)state;
    static const char *const said[] = {
        "", "GET /metrics HTTP/1.1\r\nHo", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"};
    int value = 1;
    struct err e = ERR_INIT;
    struct scrape s = {test_collect, &value, NULL};
    assert_int_equal(scrape_start(&s, "127.0.0.1:0", &e), 0);
    for (size_t kind = 0; kind < ARRAY_LEN(said); kind++) {
        int held[40];
        large = kind == 2;
        for (size_t i = 0; i < ARRAY_LEN(held); i++)
            held[i] = dial(&s, said[kind]);
        cleanup_resp struct http_resp resp = {0};
        assert_int_equal(get(&s, "/metrics", &resp), 200);
        for (size_t i = 0; i < ARRAY_LEN(held); i++)
            close(held[i]);
    }
    scrape_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_metrics_and_nothing_else),
        cmocka_unit_test(test_addresses), cmocka_unit_test(test_held_connections_starve_nobody)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
