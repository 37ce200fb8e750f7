/* SPDX-License-Identifier: Apache-2.0 */
/* A name whose address changes, as that of a pod that is made again: the new one is found soon. The
 * resolver is this file's. */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/http.h"
#include "lib/http/serve.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NAME "worker-0.cache.test"
/* libcurl by itself would go on with the old address for a minute */
#define SOON_NS (40 * NS_PER_S)

static atomic_uint address; /* of NAME, network order */
static atomic_uint asked;

/* libcurl's calls come here: the program goes before the libraries. */
int getaddrinfo(
    const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    (void)hints;
    struct {
        struct addrinfo info;
        struct sockaddr_in to;
    } *found = xcalloc(1, sizeof *found);
    found->to = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)(service ? atoi(service) : 0))};
    if (name && strcmp(name, NAME) == 0) {
        atomic_fetch_add(&asked, 1);
        found->to.sin_addr.s_addr = atomic_load(&address);
    } else if (!name || inet_pton(AF_INET, name, &found->to.sin_addr) != 1) {
        free(found);
        return EAI_NONAME;
    }
    found->info = (struct addrinfo){.ai_family = AF_INET,
        .ai_socktype = SOCK_STREAM,
        .ai_protocol = IPPROTO_TCP,
        .ai_addrlen = sizeof found->to,
        .ai_addr = (struct sockaddr *)&found->to};
    *out = &found->info;
    return 0;
}

void freeaddrinfo(struct addrinfo *found) { free(found); }

static void who(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)req;
    buf_adds(&resp->body, user);
}

static struct http_server *serve(const char *at, const char *body)
{
    struct err e = ERR_INIT;
    const struct serve_route route = {"GET", "/", who, (void *)(uintptr_t)body};
    const struct serve_conf conf = {.address = at, .routes = &route, .nroutes = 1};
    struct http_server *s = serve_start(&conf, &e);
    if (!s)
        fail_msg("%s: %s", at, e.msg);
    return s;
}

/* The body of the answer, "" if there is none; caller frees. */
static char *ask(struct http *h, int port)
{
    struct err e = ERR_INIT;
    cleanup_free char *url = xasprintf("http://" NAME ":%d/", port);
    const struct http_req req = {.method = "GET", .url = url, .timeout_ns = 2 * NS_PER_S};
    cleanup_resp struct http_resp resp = {0};
    return xstrdup(http_do(h, &req, &resp, &e) == 0 ? buf_str(&resp.body) : "");
}

static void test_new_address(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    const struct http_conf conf = {.direct = true};
    struct http *h = http_new(&conf, &e);
    struct http_server *first = serve("127.93.0.1:0", "first");
    int port = serve_port(first);
    cleanup_free char *at = xasprintf("127.93.0.2:%d", port);
    struct http_server *second = serve(at, "second");
    atomic_store(&address, inet_addr("127.93.0.1"));
    cleanup_free char *was = ask(h, port);
    assert_string_equal(was, "first");
    assert_true(atomic_load(&asked) > 0);
    serve_stop(first);
    atomic_store(&address, inet_addr("127.93.0.2"));
    cleanup_free char *now = NULL;
    for (int64_t until = clock_mono_ns() + SOON_NS; clock_mono_ns() < until;
         clock_sleep_ns(100 * NS_PER_MS)) {
        free(now);
        now = ask(h, port);
        if (*now)
            break;
    }
    assert_string_equal(now, "second");
    serve_stop(second);
    http_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_new_address)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
