/* SPDX-License-Identifier: Apache-2.0 */
/* A name whose address changes, as that of a pod that is made again: the new one is found soon. The
 * resolver is this file's. */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/http.h"
#include "lib/http/lookups.h"
#include "lib/http/metadata.h"
#include "lib/http/serve.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NAME   "worker-0.cache.test"
#define SILENT "silent.test"
/* libcurl by itself would go on with the old address for a minute */
#define SOON_NS (40 * NS_PER_S)
#define LATE_NS (6 * NS_PER_S)

static atomic_uint address; /* of NAME, network order */
static atomic_uint asked;
static atomic_uint waiting;  /* look-ups of SILENT */
static atomic_bool answered; /* until then the name server says nothing of SILENT */

/* libcurl's calls come here: the program goes before the libraries. */
int getaddrinfo(
    const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    (void)hints;
    bool silent = name && strcmp(name, SILENT) == 0;
    if (silent)
        atomic_fetch_add(&waiting, 1);
    while (silent && !atomic_load(&answered))
        clock_sleep_ns(10 * NS_PER_MS);
    if (silent)
        atomic_fetch_sub(&waiting, 1);
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

static void *answer_late(void *unused)
{
    clock_sleep_ns(LATE_NS);
    atomic_store(&answered, true);
    return unused;
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

/* The resolver takes as long as it likes, and cannot be interrupted: the request ends in time. */
static void test_silent_name_server(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    const struct http_conf conf = {.direct = true};
    struct http *h = http_new(&conf, &e);
    const struct http_req req = {
        .method = "GET", .url = "http://" SILENT "/", .timeout_ns = NS_PER_S};
    cleanup_resp struct http_resp resp = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer_late, NULL), 0);
    int64_t began = clock_mono_ns();
    assert_int_equal(http_do(h, &req, &resp, &e), -1);
    assert_false(atomic_load(&answered));
    assert_true(clock_mono_ns() - began < LATE_NS);
    assert_int_equal(e.sys, EADDRNOTAVAIL);
    http_free(h);
    pthread_join(thread, NULL);
}

/* Each look-up that is left behind has a thread: some go on, and no more are begun. What needs none
 * is asked for as before. */
static void test_many_silent_names(void **state)
{
    (void)state;
    const struct http_conf conf = {.direct = true};
    struct http *h = http_new(&conf, NULL);
    struct http_req req = {
        .method = "GET", .url = "http://" SILENT "/", .timeout_ns = 100 * NS_PER_MS};
    struct err e = ERR_INIT;
    atomic_store(&answered, false);
    for (int i = 0; i < LOOKUPS_LEFT_MAX + 8; i++) {
        cleanup_resp struct http_resp resp = {0};
        e = (struct err)ERR_INIT;
        bool hang = lookups_hang(clock_mono_ns());
        assert_int_equal(http_do(h, &req, &resp, &e), -1);
        assert_int_equal(e.cls, ERR_RETRY);
        assert_int_equal(e.sys, EADDRNOTAVAIL);
        assert_int_equal(strstr(e.msg, "too many look-ups hang") != NULL, hang);
    }
    assert_non_null(strstr(e.msg, "does the name server answer"));
    assert_true(atomic_load(&waiting) <= LOOKUPS_LEFT_MAX);
    assert_false(lookups_hang(clock_mono_ns() + LOOKUP_NS)); /* they have ended by then */
    struct http_server *server = serve("127.93.0.5:0", "served");
    cleanup_free char *url = xasprintf("http://127.93.0.5:%d/", serve_port(server));
    req = (struct http_req){.method = "GET", .url = url, .timeout_ns = 20 * NS_PER_S};
    cleanup_resp struct http_resp resp = {0};
    if (http_do(h, &req, &resp, &e))
        fail_msg("%s", e.msg);
    serve_stop(server);
    http_free(h);
    atomic_store(&answered, true);
    while (atomic_load(&waiting))
        clock_sleep_ns(NS_PER_MS);
}

/* What a store's URL may not reach, by whatever name: nothing is sent there. */
static void test_metadata(void **state)
{
    (void)state;
    static const char *const there[] = {
        "169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200"};
    const struct http_conf conf = {.direct = true, .no_metadata = true};
    struct http *h = http_new(&conf, NULL);
    for (size_t i = 0; i < ARRAY_LEN(there); i++) {
        struct err e = ERR_INIT;
        atomic_store(&address, inet_addr(there[i]));
        const struct http_req req = {
            .method = "GET", .url = "http://" NAME "/latest", .timeout_ns = 20 * NS_PER_S};
        cleanup_resp struct http_resp resp = {0};
        assert_int_equal(http_do(h, &req, &resp, &e), -1);
        assert_int_equal(e.cls, ERR_INVALID);
        assert_non_null(strstr(e.msg, "metadata service"));
    }
    struct http_server *server = serve("127.93.0.3:0", "served");
    atomic_store(&address, inet_addr("127.93.0.3"));
    cleanup_free char *body = ask(h, serve_port(server));
    assert_string_equal(body, "served");
    serve_stop(server);
    http_free(h);
}

/* A proxy, which has no scruples, is not asked for them. */
static void test_proxy(void **state)
{
    (void)state;
    static const char *const there[] = {"http://169.254.169.254/latest", "http://0xa9fea9fe/latest",
        "http://169.254.42.42./conf", "http://[fd00:c1::a9fe:a9fe]/opc/v2",
        "http://[fe80::a9fe:a9fe%25eth0]/openstack", "http://[::ffff:a9fe:a9fe]/",
        "https://user:pw@2852039166/latest"};
    struct err e = ERR_INIT;
    struct http_server *proxy = serve("127.93.0.4:0", "by proxy");
    cleanup_free char *at = xasprintf("http://127.93.0.4:%d", serve_port(proxy));
    setenv("http_proxy", at, 1);
    setenv("https_proxy", at, 1);
    const struct http_conf conf = {.no_metadata = true};
    struct http *h = http_new(&conf, NULL);
    struct http_req req = {
        .method = "GET", .url = "http://store.test/", .timeout_ns = 20 * NS_PER_S};
    cleanup_resp struct http_resp resp = {0};
    if (http_do(h, &req, &resp, &e)) /* a name that only a proxy finds */
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < ARRAY_LEN(there); i++) {
        cleanup_resp struct http_resp none = {0};
        req.url = there[i];
        e = (struct err)ERR_INIT;
        if (http_do(h, &req, &none, &e) == 0 || !strstr(e.msg, "metadata service"))
            fail_msg("%s: answered %d: %s", there[i], none.status, e.msg);
    }
    unsetenv("http_proxy");
    unsetenv("https_proxy");
    http_free(h);
    serve_stop(proxy);
}

static void test_metadata_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is;
    } cases[] = {{"fd00:ec2::254", true}, {"fd00:ec2::23", true}, {"fd20:ce::254", true},
        {"fd00:c1::a9fe:a9fe", true}, {"fd00:42::42", true}, {"::ffff:169.254.42.42", true},
        {"fe80::a9fe:a9fe", true}, {"fd00:a9fe:a9fe::1", true}, {"fd00:100::100:200", true},
        {"fe80::a9fe:a9ff", false}, {"fd00:42::43", false}, {"::ffff:169.254.42.43", false},
        {"::ffff:169.254.169.254", true}, {"64:ff9b::169.254.169.254", true}, {"::1", false},
        {"fd00:ec3::254", false}, {"::ffff:169.254.171.1", false}, {"64:ff9b::10.0.0.1", false}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct sockaddr_in6 to = {.sin6_family = AF_INET6};
        assert_int_equal(inet_pton(AF_INET6, cases[i].text, &to.sin6_addr), 1);
        assert_int_equal(http_is_metadata((const struct sockaddr *)&to), cases[i].is);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_new_address),
        cmocka_unit_test(test_silent_name_server), cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_proxy), cmocka_unit_test(test_metadata_addresses),
        cmocka_unit_test(test_many_silent_names)}; /* last: no name is looked up for a minute */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
