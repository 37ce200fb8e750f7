/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/http.h"
#include "tests/fake/api.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct fake_api *api;
static struct http *client;

static int setup(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    api = fake_api_start();
    client = http_new(&(struct http_conf){.user_agent = "test/1"}, &e);
    return client ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    http_free(client);
    fake_api_stop(api);
    return 0;
}

static char *url(const char *path) { return xasprintf("%s%s", fake_api_url(api), path); }

static int get(const char *path, struct http_resp *resp, struct err *e)
{
    cleanup_free char *u = url(path);
    return http_do(client, &(struct http_req){.method = "GET", .url = u}, resp, e);
}

static void answers_come_back_whole(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_resp struct http_resp resp;
    char type[64];
    assert_int_equal(get("/api/v1/pods", &resp, &e), 0);
    assert_int_equal(resp.status, 200);
    assert_non_null(strstr(buf_str(&resp.body), "\"items\""));
    assert_string_equal(http_header(&resp, "content-type", type, sizeof type), "application/json");
    assert_null(http_header(&resp, "x-none", type, sizeof type));
    cleanup_free char *sent = fake_api_last_headers(api);
    assert_non_null(strstr(sent, "user-agent: test/1\n"));
    assert_null(strstr(sent, "content-type")); /* nothing was sent that has one */
}

/* What the environment says of a proxy is for servers outside. */
static void direct_requests_pass_the_proxy_by(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_resp struct http_resp refused, answered;
    struct http *direct = http_new(&(struct http_conf){.direct = true}, &e);
    cleanup_free char *u = url("/api/v1/pods");
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    int by_proxy = get("/api/v1/pods", &refused, &e),
        past_it = http_do(direct, &(struct http_req){.method = "GET", .url = u}, &answered, &e);
    unsetenv("http_proxy");
    http_free(direct);
    assert_int_equal(by_proxy, -1);
    assert_int_equal(past_it, 0);
    assert_int_equal(answered.status, 200);
}

static void connections_are_used_again(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    for (int i = 0; i < 20; i++) {
        cleanup_resp struct http_resp resp;
        assert_int_equal(get(i % 2 ? "/api/v1/pods" : "/nowhere", &resp, &e), 0);
        assert_int_equal(resp.status, i % 2 ? 200 : 404);
    }
    assert_int_equal(fake_api_connections(api), 1);
}

static void *many_gets(void *user)
{
    intptr_t bad = 0;
    for (int i = 0; i < 50; i++) {
        cleanup_resp struct http_resp resp;
        bad += get("/api/v1/pods", &resp, user) != 0 || resp.status != 200;
    }
    return (void *)bad;
}

static void threads_share_a_client(void **state)
{
    (void)state;
    pthread_t threads[16];
    struct err errors[16] = {ERR_INIT};
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many_gets, &errors[i]), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_int_equal((intptr_t)bad, 0);
    }
    assert_in_range(fake_api_connections(api), 1, 16);
}

static void bodies_are_sent(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_free char *u = url("/api/v1/namespaces/n/pods");
    const char *const headers[] = {"Content-Type: application/json", NULL};
    const char *body = "{\"metadata\":{\"name\":\"a\"}}";
    cleanup_resp struct http_resp resp;
    struct http_req req = {
        .method = "POST", .url = u, .headers = headers, .body = body, .body_len = strlen(body)};
    assert_int_equal(http_do(client, &req, &resp, &e), 0);
    assert_int_equal(resp.status, 201);
    cleanup_free char *got = fake_api_last(api, "POST", NULL);
    assert_string_equal(got, body);
    cleanup_free char *sent = fake_api_last_headers(api);
    assert_null(strstr(sent, "expect:"));
}

struct source {
    size_t left;
    int rewinds;
    bool fail;
};

static ssize_t read_source(void *user, void *data, size_t len)
{
    struct source *s = user;
    if (s->fail && s->left < 100000)
        return -1;
    size_t n = MIN(MIN(len, s->left), 1000);
    memset(data, ' ', n);
    s->left -= n;
    return (ssize_t)n;
}

static int rewind_source(void *user)
{
    struct source *s = user;
    s->left = 200000;
    s->rewinds++;
    return 0;
}

static void bodies_are_streamed(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_free char *u = url("/api/v1/namespaces/n/pods/a");
    for (int fail = 0; fail < 2; fail++) {
        struct source s = {.left = 200000, .fail = fail};
        struct http_req req = {.method = "PUT",
            .url = u,
            .source = read_source,
            .source_user = &s,
            .source_rewind = rewind_source,
            .body_len = s.left};
        cleanup_resp struct http_resp resp;
        int rc = http_do(client, &req, &resp, &e);
        if (fail) {
            assert_int_equal(rc, -1);
            assert_int_equal(e.cls, ERR_RETRY);
            assert_int_equal(e.sys, EIO);
        } else {
            assert_int_equal(rc, 0);
            assert_int_equal(resp.status, 400); /* blanks are no json */
            cleanup_free char *got = fake_api_last(api, "PUT", NULL);
            assert_int_equal(strlen(got), 200000);
            assert_int_equal(s.left, 0);
        }
    }
}

static int sum(void *user, const void *data, size_t len)
{
    (void)data;
    *(size_t *)user += len;
    return 0;
}

static int stop_at_once(void *user, const void *data, size_t len)
{
    (void)user;
    (void)data;
    (void)len;
    return 1;
}

static void sinks_get_2xx_only(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    size_t n = 0;
    cleanup_free char *u = url("/api/v1/pods"), *nowhere = url("/nowhere");
    struct http_req req = {.method = "GET", .url = u, .sink = sum, .sink_user = &n};
    struct http_resp resp;
    assert_int_equal(http_do(client, &req, &resp, &e), 0);
    assert_true(n > 10);
    assert_int_equal(resp.body.len, 0);
    http_resp_free(&resp);

    n = 0;
    req.url = nowhere;
    assert_int_equal(http_do(client, &req, &resp, &e), 0);
    assert_int_equal(n, 0);
    assert_true(resp.body.len > 10);
    http_resp_free(&resp);

    req.url = u;
    req.sink = stop_at_once;
    assert_int_equal(http_do(client, &req, &resp, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    assert_int_equal(e.sys, ECANCELED);
    http_resp_free(&resp);
}

struct headed {
    int begun, refuse, status;
    size_t bytes;
    char type[64];
};

static int headed_begin(void *user, const struct http_resp *resp)
{
    struct headed *h = user;
    assert_int_equal(h->bytes, 0);
    h->begun++;
    h->status = resp->status;
    http_header(resp, "content-type", h->type, sizeof h->type);
    return h->refuse;
}

static int headed_take(void *user, const void *data, size_t len)
{
    (void)data;
    ((struct headed *)user)->bytes += len;
    return 0;
}

static void the_head_is_seen_before_the_body(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_free char *u = url("/api/v1/pods"), *nowhere = url("/nowhere");
    for (int refuse = 0; refuse < 2; refuse++) {
        struct headed h = {.refuse = refuse};
        struct http_req req = {
            .method = "GET", .url = u, .sink = headed_take, .begin = headed_begin, .sink_user = &h};
        struct http_resp resp;
        assert_int_equal(http_do(client, &req, &resp, &e), refuse ? -1 : 0);
        assert_int_equal(h.begun, 1);
        assert_int_equal(h.status, 200);
        assert_non_null(strstr(h.type, "json"));
        assert_int_equal(h.bytes > 10, !refuse);
        assert_int_equal(resp.status, 200);
        /* they are still there */
        assert_non_null(http_header(&resp, "content-type", h.type, sizeof h.type));
        if (refuse)
            assert_int_equal(e.sys, ECANCELED);
        http_resp_free(&resp);
        h.begun = 0;
        req.url = nowhere;
        assert_int_equal(http_do(client, &req, &resp, &e), 0);
        assert_int_equal(h.begun, 0); /* an error's text is not for the sink */
        http_resp_free(&resp);
    }
}

static void ceilings_hold(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_free char *u = url("/api/v1/pods"), *nowhere = url("/nowhere");
    struct http_req req = {.method = "GET", .url = u, .max_body = 20};
    struct http_resp resp;
    assert_int_equal(http_do(client, &req, &resp, &e), -1);
    assert_int_equal(e.cls, ERR_EXHAUSTED);
    http_resp_free(&resp);
    req.url = nowhere; /* of an error's text the beginning is enough */
    assert_int_equal(http_do(client, &req, &resp, &e), 0);
    assert_int_equal(resp.status, 404);
    assert_int_equal(resp.body.len, 20);
    http_resp_free(&resp);
    fake_api_fault(api, &(struct fake_fault){.kind = FAULT_ENDLESS, .bytes = (size_t)64 << 20});
    req.url = u;
    req.max_body = 0; /* the default */
    assert_int_equal(http_do(client, &req, &resp, &e), -1);
    assert_int_equal(e.cls, ERR_EXHAUSTED);
    assert_true(resp.body.len <= (size_t)1 << 20);
    http_resp_free(&resp);
}

static void broken_answers_are_errors(void **state)
{
    (void)state;
    static const struct {
        struct fake_fault fault;
        int sys;
    } cases[] = {
        {{.kind = FAULT_RESET, .times = 3}, ECONNRESET},
        {{.kind = FAULT_CUT, .bytes = 10}, ECONNRESET},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        cleanup_resp struct http_resp resp;
        fake_api_fault(api, &cases[i].fault);
        assert_int_equal(get("/api/v1/pods?token=secret", &resp, &e), -1);
        assert_int_equal(e.cls, ERR_RETRY);
        assert_int_equal(e.sys, cases[i].sys);
        assert_non_null(strstr(e.msg, "/api/v1/pods"));
        assert_null(strstr(e.msg, "secret"));
    }
}

static void time_is_bounded(void **state)
{
    (void)state;
    cleanup_free char *u = url("/api/v1/pods");
    struct http_req req = {.method = "GET", .url = u, .timeout_ns = 200 * NS_PER_MS};
    for (int stall = 0; stall < 2; stall++) {
        struct err e = ERR_INIT;
        struct http_resp resp;
        fake_api_fault(api, &(struct fake_fault){.kind = FAULT_SLOW, .delay_ns = 60 * NS_PER_S});
        if (stall) {
            req.timeout_ns = 0;
            req.stall_ns = 300 * NS_PER_MS;
        }
        int64_t begun = clock_mono_ns();
        assert_int_equal(http_do(client, &req, &resp, &e), -1);
        assert_int_equal(e.cls, ERR_RETRY);
        assert_int_equal(e.sys, ETIMEDOUT);
        assert_true(clock_mono_ns() - begun < 30 * NS_PER_S); /* before there is an answer */
        http_resp_free(&resp);
    }
}

static void *cancel_soon(void *user)
{
    clock_sleep_ns(100 * NS_PER_MS);
    atomic_store((atomic_bool *)user, true);
    return NULL;
}

static void waiting_can_be_cancelled(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    atomic_bool cancel = false;
    cleanup_free char *u = url("/api/v1/pods?watch=true&resourceVersion=1000");
    struct http_req req = {.method = "GET", .url = u, .cancel = &cancel};
    cleanup_resp struct http_resp resp;
    pthread_t thread;
    pthread_create(&thread, NULL, cancel_soon, &cancel);
    int64_t begun = clock_mono_ns();
    assert_int_equal(http_do(client, &req, &resp, &e), -1);
    pthread_join(thread, NULL);
    assert_int_equal(e.sys, ECANCELED);
    assert_true(clock_mono_ns() - begun < 30 * NS_PER_S); /* the watch goes on for minutes */
}

/* Too long for a name: nobody is asked for its address, who might take his time or know one. */
#define NO_NAME "a-label-of-a-name-has-at-most-63-characters-but-this-one-has-some-more.invalid"

static void places_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        enum err_class cls;
        int sys;
    } cases[] = {
        {"http://127.0.0.1:1/x?key=secret", ERR_RETRY, ECONNREFUSED},
        {"http://user:secret@" NO_NAME "/x", ERR_RETRY, EADDRNOTAVAIL},
        {"gopher://127.0.0.1/", ERR_INVALID, EINVAL},
        {"http://[::bad/", ERR_INVALID, EINVAL},
        {"file:///etc/passwd", ERR_INVALID, EINVAL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        cleanup_resp struct http_resp resp;
        assert_int_equal(
            http_do(client, &(struct http_req){.method = "GET", .url = cases[i].url}, &resp, &e),
            -1);
        assert_int_equal(e.cls, cases[i].cls);
        assert_int_equal(e.sys, cases[i].sys);
        assert_null(strstr(e.msg, "secret"));
        assert_int_equal(resp.status, 0);
    }
}

/* What somebody else chose, and we send as a header, stays one line. */
static void headers_are_lines(void **state)
{
    (void)state;
    static const char *const bad[] = {"if-match: \"a\"\r\n\r\nGET /other HTTP/1.1", "x: a\nb: c",
        "x: a\rb", "x: \x01", "x: \x7f", "x\n: y"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = ERR_INIT;
        cleanup_resp struct http_resp resp;
        const char *headers[] = {"fine: a\tb", bad[i], NULL};
        struct http_req req = {.method = "GET", .url = "http://127.0.0.1:1/", .headers = headers};
        assert_int_equal(http_do(client, &req, &resp, &e), -1);
        assert_int_equal(e.cls, ERR_INVALID);
        assert_non_null(strstr(e.msg, "line end"));
    }
}

static void heads_have_no_body(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_free char *u = url("/api/v1/pods");
    cleanup_resp struct http_resp resp;
    fake_api_fault(api,
        &(struct fake_fault){.method = "HEAD",
            .kind = FAULT_STATUS,
            .status = 204,
            .headers = "X-Size: 12\r\n",
            .body = ""});
    assert_int_equal(http_do(client, &(struct http_req){.method = "HEAD", .url = u}, &resp, &e), 0);
    char size[8];
    assert_string_equal(http_header(&resp, "x-size", size, sizeof size), "12");
    assert_int_equal(resp.body.len, 0);
}

static void statuses_have_classes(void **state)
{
    (void)state;
    static const struct {
        int status;
        enum err_class cls;
    } cases[] = {{200, ERR_NONE}, {206, ERR_NONE}, {304, ERR_RETRY}, {400, ERR_INVALID},
        {401, ERR_DENIED}, {403, ERR_DENIED}, {404, ERR_NOTFOUND}, {409, ERR_CONFLICT},
        {412, ERR_CONFLICT}, {416, ERR_INVALID}, {422, ERR_INVALID}, {429, ERR_RETRY},
        {500, ERR_RETRY}, {503, ERR_RETRY}, {507, ERR_EXHAUSTED}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(http_class_of_status(cases[i].status), cases[i].cls);
}

static void text_is_escaped(void **state)
{
    (void)state;
    cleanup_free char *a = http_escape("a b/ü~.-_", false), *b = http_escape("a b/c%", true);
    assert_string_equal(a, "a%20b%2F%C3%BC~.-_");
    assert_string_equal(b, "a%20b/c%25");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_come_back_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(direct_requests_pass_the_proxy_by, setup, teardown),
        cmocka_unit_test_setup_teardown(connections_are_used_again, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_share_a_client, setup, teardown),
        cmocka_unit_test_setup_teardown(bodies_are_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(bodies_are_streamed, setup, teardown),
        cmocka_unit_test_setup_teardown(sinks_get_2xx_only, setup, teardown),
        cmocka_unit_test_setup_teardown(the_head_is_seen_before_the_body, setup, teardown),
        cmocka_unit_test_setup_teardown(ceilings_hold, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_answers_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(time_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(waiting_can_be_cancelled, setup, teardown),
        cmocka_unit_test_setup_teardown(places_that_are_none, setup, teardown),
        cmocka_unit_test_setup_teardown(headers_are_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(heads_have_no_body, setup, teardown),
        cmocka_unit_test(statuses_have_classes),
        cmocka_unit_test(text_is_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
