/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/serve.h"
#include "tests/lib/pipeliners.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static atomic_bool hold; /* /hold waits while this is set */
static atomic_int holding;

static void hello(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    cleanup_free char *name = serve_query(req, "name");
    char agent[64];
    buf_addf(&resp->headers, "X-Route: %s\r\n", (const char *)user);
    buf_addf(&resp->body, "%s %s %s %s", req->method, req->path, name ? name : "-",
        serve_header(req, "user-agent", agent, sizeof agent) ? agent : "-");
}

static void echo(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)user;
    buf_add(&resp->body, req->body, req->body_len);
}

static void file(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)req;
    resp->status = 206;
    resp->content_type = "application/octet-stream";
    resp->fd = dup(*(int *)user);
    resp->fd_off = 10;
    resp->fd_len = strcmp(req->path, "/short") == 0 ? 10000000 : 1000000;
}

static void wait_here(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)user, (void)req;
    atomic_fetch_add(&holding, 1);
    while (atomic_load(&hold))
        clock_sleep_ns(5 * NS_PER_MS);
    atomic_fetch_sub(&holding, 1);
    buf_adds(&resp->body, "done");
}

static int data_fd;

static struct http_server *start(struct serve_conf conf)
{
    static const struct serve_route routes[] = {{"GET", "/", hello, (void *)"root"},
        {"GET", "/exact", hello, (void *)"exact"}, {"GET", "/dir/", hello, (void *)"dir"},
        {"PUT", "/echo", echo, NULL}, {"GET", "/file", file, &data_fd},
        {"GET", "/short", file, &data_fd}, {"GET", "/hold", wait_here, NULL}};
    struct err e = ERR_INIT;
    conf.address = "127.0.0.1:0";
    conf.routes = routes;
    conf.nroutes = ARRAY_LEN(routes);
    struct http_server *s = serve_start(&conf, &e);
    if (!s)
        print_error("%s", e.msg);
    assert_non_null(s);
    return s;
}

static int dial(struct http_server *s)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)serve_port(s)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    struct timeval tv = {.tv_sec = 60};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* One answer: head and body of its Content-Length (none for HEAD); caller frees. NULL at the end of
 * the connection. */
static char *hear(int fd, bool head_only, size_t *body_len)
{
    char *text = calloc(1, 2 << 20);
    size_t n = 0;
    while (!strstr(text, "\r\n\r\n")) {
        ssize_t got = recv(fd, text + n, 1, 0);
        if (got <= 0) {
            free(text);
            return NULL;
        }
        n++;
    }
    char *at = strstr(text, "Content-Length: ");
    size_t want = at && !head_only ? strtoul(at + 16, NULL, 10) : 0, have = 0;
    while (have < want) {
        ssize_t got = recv(fd, text + n + have, MIN(want - have, (2u << 20) - n - have - 1), 0);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    if (body_len)
        *body_len = have;
    return text;
}

static void expect(int fd, const char *request, const char *status, const char *body)
{
    say(fd, request);
    cleanup_free char *text = hear(fd, strncmp(request, "HEAD", 4) == 0, NULL);
    assert_non_null(text);
    if (strncmp(text + 9, status, 3) != 0 || strcmp(strstr(text, "\r\n\r\n") + 4, body) != 0)
        print_error("%s\n", text);
    assert_memory_equal(text + 9, status, 3);
    assert_string_equal(strstr(text, "\r\n\r\n") + 4, body);
}

static void expect_end(int fd)
{
    char c;
    assert_int_equal(recv(fd, &c, 1, 0), 0);
    close(fd);
}

static void routes_methods_and_keep_alive(void **state)
{
    (void)state;
    struct http_server *s = start((struct serve_conf){0});
    int fd = dial(s);
    expect(fd, "GET /?name=a%20b+c HTTP/1.1\r\nHost: h\r\nUser-Agent: me\r\n\r\n", "200",
        "GET / a b c me");
    expect(fd, "GET /exact?xname=1&name= HTTP/1.1\r\nHost: h\r\n\r\n", "200", "GET /exact  -");
    expect(fd, "HEAD /dir/x HTTP/1.1\r\nHost: h\r\n\r\n", "200", "");
    expect(fd, "GET /dir/x HTTP/1.1\r\nHost: h\r\n\r\n", "200", "GET /dir/x - -");
    /* falls to "/" */
    expect(fd, "GET /exact/x HTTP/1.1\r\nHost: h\r\n\r\n", "200", "GET /exact/x - -");
    expect(fd, "POST /exact HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "405",
        "this path does not take that method\n");
    expect(fd, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "200", "hello");
    expect(fd, "\r\nGET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "200", "GET / - -");
    expect_end(fd);
    serve_stop(s);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    struct http_server *s = start((struct serve_conf){0});
    int fd = dial(s);
    expect(fd,
        "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\naPUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nbbGET",
        "200", "a");
    cleanup_free char *second = hear(fd, false, NULL);
    assert_string_equal(strstr(second, "\r\n\r\n") + 4, "bb");
    expect(fd, " /x HTTP/1.1\r\nHost: h\r\n\r\n", "200", "GET /x - -");
    close(fd);
    serve_stop(s);
}

static void limits(void **state)
{
    (void)state;
    struct http_server *s = start((struct serve_conf){.max_body = 100});
    int fd = dial(s);
    expect(fd, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n", "413",
        "the request body is too large\n");
    expect_end(fd);
    fd = dial(s);
    cleanup_free char *big = calloc(1, 20000);
    strcpy(big, "GET / HTTP/1.1\r\nHost: h\r\nX: ");
    memset(big + strlen(big), 'x', 17000);
    expect(fd, big, "431", "the request head is larger than 16 KiB\n");
    expect_end(fd);
    fd = dial(s);
    expect(fd, "nonsense\r\n\r\n", "400", "this is not a request that can be understood\n");
    expect_end(fd);
    fd = dial(s);
    say(fd, "PUT /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    cleanup_free char *go_on = hear(fd, false, NULL);
    assert_string_equal(go_on, "HTTP/1.1 100 Continue\r\n\r\n");
    expect(fd, "abc", "200", "abc");
    close(fd);
    serve_stop(s);
}

static void files_go_out_whole_or_break(void **state)
{
    (void)state;
    struct http_server *s = start((struct serve_conf){0});
    int fd = dial(s);
    say(fd, "GET /file HTTP/1.1\r\nHost: h\r\n\r\n");
    size_t len;
    char *text = hear(fd, false, &len);
    assert_int_equal(len, 1000000);
    const char *body = strstr(text, "\r\n\r\n") + 4;
    for (size_t i = 0; i < len; i++)
        if (body[i] != (char)((i + 10) % 251))
            fail_msg("byte %zu", i);
    free(text);
    say(fd, "GET /short HTTP/1.1\r\nHost: h\r\n\r\n");
    text = hear(fd, false, &len);
    /* then the connection ends: the client sees that it is short */
    assert_int_equal(len, 2000000 - 10);
    free(text);
    expect_end(fd);
    serve_stop(s);
}

static void a_reader_that_goes_away_kills_nobody(void **state)
{
    (void)state;
    struct http_server *s = start((struct serve_conf){0});
    for (int i = 0; i < 20; i++) {
        int fd = dial(s);
        say(fd, "GET /file HTTP/1.1\r\nHost: h\r\n\r\n");
        struct linger now = {1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(fd);
    }
    int fd = dial(s);
    expect(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "200", "GET / - -");
    close(fd);
    serve_stop(s);
}

static void idle_connections_make_room(void **state)
{
    (void)state;
    struct http_server *s = start((struct serve_conf){.max_threads = 4, .idle_ns = 60 * NS_PER_S});
    int idle[4];
    for (int i = 0; i < 4; i++) {
        idle[i] = dial(s);
        if (i % 2)
            say(idle[i], "GET / HT"); /* a slow client holds nobody up either */
        else
            expect(idle[i], "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "200", "GET / - -");
    }
    int64_t began = clock_mono_ns();
    for (int i = 0; i < 20; i++) {
        int fd = dial(s);
        expect(fd, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "200", "GET / - -");
        close(fd);
    }
    /* no connection is idle for that long by itself */
    assert_true(clock_mono_ns() - began < 20 * NS_PER_S);
    for (int i = 0; i < 4; i++)
        close(idle[i]);
    serve_stop(s);
}

/* One that has sent a head and not the body that it promised is no better than an idle one. */
static void promised_bodies_make_room(void **state)
{
    (void)state;
    struct http_server *s = start((struct serve_conf){.max_threads = 4});
    int slow[4];
    for (int i = 0; i < 4; i++) {
        slow[i] = dial(s);
        say(slow[i],
            i % 2 ? "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nx"
                  : "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n");
    }
    clock_sleep_ns(NS_PER_S); /* their heads are read */
    int64_t began = clock_mono_ns();
    for (int i = 0; i < 4; i++) {
        int fd = dial(s);
        expect(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "200", "GET / - -");
        close(fd);
    }
    /* by itself a body may take 60 s */
    assert_true(clock_mono_ns() - began < 20 * NS_PER_S);
    for (int i = 0; i < 4; i++)
        close(slow[i]);
    serve_stop(s);
}

/* One that always has a request under way and takes its answers piece by piece. */
static void slow_pipeliners_make_room(void **state)
{
    (void)state;
    struct http_server *s = start(
        (struct serve_conf){.max_threads = PIPELINERS, .answer_ns = 2 * NS_PER_S});
    struct pipeliners p;
    char request[2048]; /* and it comes back in the answer */
    snprintf(request, sizeof request, "GET /?name=%01900d HTTP/1.1\r\nHost: h\r\n\r\n", 0);
    pipeliners_start(&p, serve_port(s), request);
    for (int i = 0; i < 10; i++) {
        int fd = dial(s);
        struct timeval tv = {.tv_sec = 10};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
        expect(fd, "GET /exact HTTP/1.1\r\nHost: h\r\n\r\n", "200", "GET /exact - -");
        close(fd);
    }
    pipeliners_stop(&p);
    serve_stop(s);
}

/* A head that comes byte by byte has as long as one that comes at once and stops. */
static void slow_heads_end(void **state)
{
    (void)state;
    struct http_server *s = start((struct serve_conf){.idle_ns = 60 * NS_PER_S});
    int fd = dial(s);
    char c;
    int64_t began = clock_mono_ns();
    say(fd, "GET / HTTP/1.1\r\nX: ");
    do
        clock_sleep_ns(200 * NS_PER_MS);
    while (send(fd, "x", 1, MSG_NOSIGNAL) == 1 && recv(fd, &c, 1, MSG_DONTWAIT) < 0
        && clock_mono_ns() - began < 30 * NS_PER_S);
    assert_true(clock_mono_ns() - began < 20 * NS_PER_S);
    close(fd);
    serve_stop(s);
}

static void idle_timeout(void **state)
{
    (void)state;
    /* time enough to ask, even on a busy machine */
    struct http_server *s = start((struct serve_conf){.idle_ns = 6 * NS_PER_S});
    int fd = dial(s);
    expect(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "200", "GET / - -");
    expect_end(fd);
    serve_stop(s);
}

static void *stopper(void *s)
{
    serve_stop(s);
    return NULL;
}

static void stop_waits_for_handlers(void **state)
{
    (void)state;
    struct http_server *s = start((struct serve_conf){0});
    atomic_store(&hold, true);
    int busy = dial(s), quiet = dial(s);
    expect(quiet, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "200", "GET / - -");
    say(busy, "GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
    while (!atomic_load(&holding))
        clock_sleep_ns(NS_PER_MS);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, stopper, s), 0);
    expect_end(quiet);
    atomic_store(&hold, false);
    cleanup_free char *text = hear(busy, false, NULL);
    assert_string_equal(strstr(text, "\r\n\r\n") + 4, "done");
    assert_non_null(strstr(text, "Connection: close"));
    expect_end(busy);
    pthread_join(t, NULL);
}

static void *client(void *user)
{
    struct http_server *s = user;
    for (int i = 0; i < 20; i++) {
        int fd = dial(s);
        for (int k = 0; k < 10; k++)
            expect(fd, "GET /dir/ HTTP/1.1\r\nHost: h\r\n\r\n", "200", "GET /dir/ - -");
        close(fd);
    }
    return NULL;
}

static void many_clients(void **state)
{
    (void)state;
    struct http_server *s = start((struct serve_conf){.max_threads = 16});
    pthread_t t[8];
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, client, s), 0);
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        pthread_join(t[i], NULL);
    serve_stop(s);
}

static void addresses(void **state)
{
    (void)state;
    static const char *const bad[] = {"nowhere", "127.0.0.1:notaport", "300.0.0.1:1"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = ERR_INIT;
        assert_null(serve_start(&(struct serve_conf){.address = bad[i]}, &e));
        assert_int_equal(e.cls, ERR_INVALID);
        assert_non_null(strstr(e.msg, bad[i]));
    }
    struct err e = ERR_INIT;
    struct http_server *s = serve_start(&(struct serve_conf){.address = ":0"}, &e);
    assert_non_null(s);
    int fd = dial(s);
    expect(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "404", "there is nothing here\n");
    close(fd);
    cleanup_free char *taken = xasprintf("0.0.0.0:%d", serve_port(s));
    assert_null(serve_start(&(struct serve_conf){.address = taken}, &e));
    assert_non_null(strstr(e.msg, "in use"));
    serve_stop(s);
}

int main(void)
{
    data_fd = memfd_create("data", MFD_CLOEXEC);
    cleanup_free char *data = malloc(2000000);
    for (size_t i = 0; i < 2000000; i++)
        data[i] = (char)(i % 251);
    if (write(data_fd, data, 2000000) != 2000000)
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(routes_methods_and_keep_alive),
        cmocka_unit_test(pipelined_requests_are_answered_in_order), cmocka_unit_test(limits),
        cmocka_unit_test(files_go_out_whole_or_break),
        cmocka_unit_test(a_reader_that_goes_away_kills_nobody),
        cmocka_unit_test(idle_connections_make_room), cmocka_unit_test(promised_bodies_make_room),
        cmocka_unit_test(slow_pipeliners_make_room), cmocka_unit_test(slow_heads_end),
        cmocka_unit_test(idle_timeout), cmocka_unit_test(stop_waits_for_handlers),
        cmocka_unit_test(many_clients), cmocka_unit_test(addresses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
