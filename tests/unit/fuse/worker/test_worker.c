/* SPDX-License-Identifier: Apache-2.0 */
/* The worker over HTTP: what it serves, what it refuses, what it says of itself; and the loader
 * that fills it. */
#include "tests/unit/fuse/worker/worker_fixture.h"

#include "fuse/peers/peers.h"
#include "fuse/worker/load.h"
#include "fuse/worker/request.h"
#include "fuse/worker/server.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/http/http.h"
#include "lib/http/metric.h"
#include "lib/http/serve.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/lib/eventually.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void check_range(const char *name, const char *range, int status, uint64_t off, uint64_t len)
{
    cleanup_free char *path = worker_path(name, "/v1/data"),
                      *file = xasprintf("%s/data/%s", worker_dir, name);
    cleanup_resp struct http_resp resp;
    assert_int_equal(worker_ask("GET", path, range, &resp), status);
    size_t size;
    cleanup_free char *want = file_read(file, 256 << 20, &size, NULL);
    assert_int_equal(resp.body.len, len);
    assert_memory_equal(buf_str(&resp.body), want + off, len);
}

static void check_error(
    const char *method, const char *path, const char *range, int status, const char *reason)
{
    cleanup_resp struct http_resp resp;
    assert_int_equal(worker_ask(method, path, range, &resp), status);
    struct err e = ERR_INIT;
    cleanup_json json_t *j = json_parse(buf_str(&resp.body), resp.body.len, &e);
    assert_non_null(j);
    assert_string_equal(jget_str(j, "reason", ""), reason);
    assert_true(strlen(jget_str(j, "message", "")) > 5);
}

static void check_cached(const char *name, const char *bytes)
{
    cleanup_free char *path = worker_path(name, "/v1/cached");
    cleanup_resp struct http_resp resp;
    assert_int_equal(worker_ask("GET", path, NULL, &resp), 200);
    assert_string_equal(buf_str(&resp.body), bytes);
}

static void test_serving(void **state)
{
    (void)state;
    worker_put_file("data/small", 5000);
    worker_put_file("data/sub/medium file", 3000000);
    worker_put_file("data/large", 70u << 20);
    worker_put_file("data/empty", 0);
    cleanup_free char *json = worker_conf_json("data", 200 << 20);
    worker_start(json);
    assert_true(worker_becomes_ready(60));
    check_cached("small", "0\n");
    for (int again = 0; again < 2; again++) {
        check_range("small", NULL, 200, 0, 5000);
        check_range("small", "Range: bytes=10-19", 206, 10, 10);
        check_range("sub/medium file", "Range: bytes=-100", 206, 2999900, 100);
        check_range("sub/medium file", NULL, 200, 0, 3000000);
        check_range("large", "Range: bytes=1000000-8999999", 206, 1000000, 8000000);
        /* over two chunks */
        check_range("large", "Range: bytes=67000000-68000000", 206, 67000000, 1000001);
        check_range("empty", NULL, 200, 0, 0);
    }
    cleanup_free char *large = worker_path("large", "/v1/data"),
                      *small = worker_path("small", "/v1/data");
    check_cached("small", "5000\n");
    check_cached("sub/medium file", "3000000\n");
    check_cached("empty", "0\n");
    check_error(
        "GET", "/v1/cached?mount=1&path=small&version=x&size=5000", NULL, 400, "InvalidRequest");
    check_error("GET", large, NULL, 413, "RangeTooLarge");
    check_error("GET", small, "Range: bytes=5000-", 416, "OutOfRange");
    check_error("GET", small, "Range: bytes=1-2,3-4", 400, "InvalidRequest");
    check_error(
        "GET", "/v1/data?mount=0&path=small&version=old&size=5000", NULL, 409, "VersionChanged");
    check_error("GET", "/v1/data?mount=0&path=nothing&version=x&size=5000", NULL, 404, "NotFound");
    check_error(
        "GET", "/v1/data?mount=1&path=small&version=x&size=5000", NULL, 400, "InvalidRequest");
    check_error(
        "GET", "/v1/data?mount=0&path=../secret&version=x&size=5", NULL, 400, "InvalidRequest");
    check_range("small", NULL, 200, 0, 5000); /* a wrong version did not push the right one out */
    cleanup_json json_t *j = worker_status();
    assert_string_equal(jget_str(j, "component", ""), "worker");
    assert_true(jget_bool(j, "ready", false));
    assert_true(jget_bool(j, "mounts[0].ready", false));
    assert_true(jget_int(j, "reads.storeBytes", 0) < 14 << 20); /* only what was asked for, once */
    assert_true(jget_int(j, "reads.cacheBytes", 0) > 11000000);
    assert_true(jget_int(j, "cache.usedBytes", 0) > 0);
    cleanup_buf struct buf metrics = BUF_INIT(1 << 20);
    worker->scrape.collect(worker->scrape.user, &metrics);
    metric_write(&metrics);
    assert_non_null(strstr(buf_str(&metrics), "\nmillrace_served_bytes_total "));
    assert_non_null(strstr(buf_str(&metrics), "\nmillrace_read_bytes_total{from=\"cache\"} "));
    cleanup_resp struct http_resp none;
    assert_int_equal(worker_ask("GET", "/metrics", NULL, &none), 404);
    worker_stop();
}

static int ask_and_do_not_read(const char *head)
{
    int small = 4096;
    struct sockaddr_in to = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)atoi(strrchr(worker_url, ':') + 1)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(write(fd, head, strlen(head)), strlen(head));
    return fd;
}

/* Those who read slowly hold a bounded part of the worker's memory; the others ask the store. */
static void test_slow_readers(void **state)
{
    (void)state;
    cleanup_free char *json = worker_conf_json("data", 1 << 20); /* nothing of the file fits */
    worker_put_file("data/slow", 17 << 20);
    worker_start(json);
    assert_true(worker_becomes_ready(20));
    cleanup_free char *path = worker_path("slow", "/v1/data");
    cleanup_free char *head = xasprintf(
        "GET %s HTTP/1.1\r\nHost: x\r\nRange: bytes=0-16777215\r\n\r\n", path);
    int slow[12];
    for (size_t i = 0; i < ARRAY_LEN(slow); i++)
        slow[i] = ask_and_do_not_read(head);
    eventually(atomic_load(&worker->requests) == ARRAY_LEN(slow)
        && atomic_load(&worker->failed_requests) == ARRAY_LEN(slow) - 4);
    assert_int_equal(atomic_load(&worker->copied_bytes), 4 * (16 << 20));
    check_error("GET", path, "Range: bytes=0-16777215", 503, "Busy");
    for (size_t i = 0; i < ARRAY_LEN(slow); i++)
        close(slow[i]);
    eventually(atomic_load(&worker->copied_bytes) == 0);
    cleanup_resp struct http_resp resp;
    assert_int_equal(worker_ask("GET", path, "Range: bytes=0-16777215", &resp), 206);
    assert_int_equal(resp.body.len, 16 << 20);
    worker_stop();
}

static void test_problem_is_reported_and_mended(void **state)
{
    (void)state;
    cleanup_free char *json = worker_conf_json("later", 64 << 20);
    worker_start(json);
    for (int i = 0; i < 5000; i++) {
        cleanup_json json_t *j = worker_status();
        if (strcmp(jget_str(j, "reason", "Starting"), "Starting") != 0) {
            assert_string_equal(jget_str(j, "reason", ""), "NotFound");
            assert_non_null(strstr(jget_str(j, "mounts[0].message", ""), "later"));
            assert_false(jget_bool(j, "ready", true));
            break;
        }
        clock_sleep_ns(10 * NS_PER_MS);
    }
    cleanup_resp struct http_resp resp;
    assert_int_equal(worker_ask("GET", "/readyz", NULL, &resp), 503);
    assert_non_null(strstr(buf_str(&resp.body), "NotFound"));
    worker_put_file("later/x", 100);
    assert_true(worker_becomes_ready(60)); /* looked at again after 2 s, 4 s … */
    worker_stop();
}

static void test_bad_configuration(void **state)
{
    (void)state;
    static const char *const bad[] = {NULL, "", "{", "{\"mounts\":[]}",
        "{\"mounts\":[{\"mountPoint\":\"gopher://x\",\"path\":\"/\"}]}"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        worker_start(bad[i]);
        for (int k = 0; k < 5000; k++) {
            cleanup_json json_t *j = worker_status();
            if (strcmp(jget_str(j, "reason", ""), "Starting") == 0) {
                clock_sleep_ns(10 * NS_PER_MS);
                continue;
            }
            assert_false(jget_bool(j, "ready", true));
            assert_true(strlen(jget_str(j, "message", "")) > 10);
            break;
        }
        assert_false(server_ready(worker));
        worker_stop();
    }
}

static void test_counting(void **state)
{
    (void)state;
    worker_put_file("data/a", 100);
    worker_put_file("data/b/c", 200);
    worker_put_file("data/b/d/e", 3000);
    cleanup_free char *json = worker_conf_json("data", 64 << 20);
    worker_start(json);
    inventory_start(worker);
    bool complete = false;
    for (int i = 0; i < 5000 && !complete; i++) {
        cleanup_json json_t *j = worker_status();
        complete = jget_bool(j, "ufs.complete", false);
        if (complete) {
            assert_int_equal(jget_int(j, "ufs.bytes", 0), 3300);
            assert_int_equal(jget_int(j, "ufs.files", 0), 3);
        }
        clock_sleep_ns(10 * NS_PER_MS);
    }
    assert_true(complete);
    worker_stop();
}

/* -- the loader -- */

static int load_pinned(enum request_pin pin, char **paths, int npaths, char *report, size_t cap)
{
    cleanup_free char *json = worker_conf_json("data", 64 << 20),
                      *file = path_join(worker_dir, "report");
    assert_int_equal(file_write_atomic(file, "", 0, 0644, NULL), 0);
    struct server *s = server_new(COMPONENT_LOADER, NULL, NULL);
    server_configure(s, json);
    server_start(s);
    const char *one = worker_url;
    struct load_conf lc = {.paths = paths,
        .npaths = npaths,
        .pin = pin,
        .threads = 4,
        .wait_ns = 60 * NS_PER_S,
        .report = file,
        .urls = &one,
        .nurls = 1};
    int rc = load_run(s, &lc);
    cleanup_free char *text = file_read(file, 4096, NULL, NULL);
    snprintf(report, cap, "%s", text);
    server_stop(s);
    server_free(s);
    return rc;
}

static int load(char **paths, int npaths, char *report, size_t cap)
{
    return load_pinned(REQUEST_PIN_AS_IS, paths, npaths, report, cap);
}

static void test_loading(void **state)
{
    (void)state;
    char name[32], report[512];
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "data/d%d/f%d", i % 5, i);
        worker_put_file(name, (size_t)i * 3000);
    }
    worker_put_file("data/large", 66u << 20);
    cleanup_free char *json = worker_conf_json("data", 200 << 20);
    worker_start(json);
    assert_true(worker_becomes_ready(60));
    char *some[] = {(char *)"/d1", (char *)"/d2/f2"};
    assert_int_equal(load(some, 2, report, sizeof report), 0);
    assert_non_null(strstr(report, "loaded 11 files"));
    assert_int_equal(load(NULL, 0, report, sizeof report), 0);
    assert_non_null(strstr(report, "loaded 51 files"));
    {
        cleanup_json json_t *j = worker_status();
        assert_int_equal(jget_int(j, "cache.completeFiles", 0), 50); /* all but the empty one */
        assert_int_equal(jget_int(j, "reads.storeBytes", 0), (66 << 20) + 49 * 50 / 2 * 3000);
    }
    char *none[] = {(char *)"/nowhere"};
    assert_int_equal(load(none, 1, report, sizeof report), LOADER_EXIT_FINAL);
    assert_non_null(strstr(report, "nowhere"));
    assert_non_null(strstr(report, "\"reason\":\"PathNotFound\""));
    char *between[] = {(char *)"/nowhere", (char *)"/d1", (char *)"/neither", (char *)"/d2/f2"};
    assert_int_equal(load(between, 4, report, sizeof report), LOADER_EXIT_FINAL);
    assert_non_null(strstr(report, "\"loadedFiles\":11"));
    assert_non_null(strstr(report, "; not there either: /neither"));
    char *many[64];
    for (int i = 0; i < 64; i++)
        many[i] = (char *)"/none-of-a-long-name";
    assert_int_equal(load(many, 64, report, sizeof report), LOADER_EXIT_FINAL);
    assert_true(strcmp(report + strlen(report) - 5, " more") == 0);
    worker_stop();
}

/* At first it holds a part of what it is asked for, as one whose disk is full. */
static void half_loads(void *asked, const struct serve_req *req, struct serve_resp *resp)
{
    cleanup_free char *len = serve_query(req, "len");
    assert_non_null(len);
    bool whole = atomic_fetch_add((atomic_uint *)asked, 1) >= 2;
    buf_addf(&resp->body, "{\"cachedBytes\":%lld}", strtoll(len, NULL, 10) - !whole);
}

static void test_a_part_is_not_loaded(void **state)
{
    (void)state;
    char report[512];
    atomic_uint asked = 0;
    struct err e = ERR_INIT;
    const struct serve_route routes[] = {{"POST", "/v1/load", half_loads, &asked}};
    const struct serve_conf conf = {
        .address = "127.0.0.1:0", .routes = routes, .nroutes = 1, .max_threads = 4, .max_body = 64};
    struct http_server *half = serve_start(&conf, &e);
    if (!half)
        fail_msg("%s", e.msg);
    snprintf(worker_url, sizeof worker_url, "http://127.0.0.1:%d", serve_port(half));
    worker_put_file("data/a", 1000);
    worker_put_file("data/b", 1000);
    assert_int_equal(load(NULL, 0, report, sizeof report), 0);
    assert_non_null(strstr(report, "loaded 2 files"));
    assert_int_equal(asked, 6); /* again for both, and once more to verify */
    serve_stop(half);
}

static void test_loading_more_than_fits(void **state)
{
    (void)state;
    char name[32], report[512];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "data/f%d", i);
        worker_put_file(name, 1 << 20);
    }
    cleanup_free char *json = worker_conf_json("data", 8 << 20);
    worker_start(json);
    assert_true(worker_becomes_ready(60));
    assert_int_equal(load(NULL, 0, report, sizeof report), LOADER_EXIT_FINAL);
    assert_non_null(strstr(report, "raise the quota"));
    worker_stop();
}

/* How much of it was cached; all of it is, afterwards. */
static int64_t had(const char *name)
{
    cleanup_free char *path = worker_path(name, "/v1/load");
    cleanup_resp struct http_resp resp;
    assert_int_equal(worker_ask("POST", path, NULL, &resp), 200);
    const char *text = strstr(buf_str(&resp.body), "\"hadBytes\":");
    assert_non_null(text);
    return strtoll(text + strlen("\"hadBytes\":"), NULL, 10);
}

static void pins_are(int files, int64_t bytes)
{
    cleanup_json json_t *j = worker_status();
    assert_int_equal(jget_int(j, "cache.pinnedFiles", -1), files);
    assert_int_equal(jget_int(j, "cache.pinnedBytes", -1), bytes);
}

static void test_loading_and_pinning(void **state)
{
    (void)state;
    char name[32], report[1024];
    worker_put_file("data/keep/a", 1 << 20);
    worker_put_file("data/keep/large", 66 << 20); /* two chunks */
    for (int i = 0; i < 120; i++) {
        snprintf(name, sizeof name, "data/other/f%d", i);
        worker_put_file(name, 2 << 20);
    }
    cleanup_free char *json = worker_conf_json("data", 150 << 20);
    worker_start(json);
    assert_true(worker_becomes_ready(60));
    char *keep[] = {(char *)"/keep"}, *other[] = {(char *)"/other"}, *a[] = {(char *)"/keep/a"};
    assert_int_equal(load_pinned(REQUEST_PIN, keep, 1, report, sizeof report), 0);
    pins_are(2, 67 << 20);
    assert_int_equal(
        load(other, 1, report, sizeof report), LOADER_EXIT_FINAL); /* they do not all fit */
    assert_non_null(strstr(report, "the cache loses files while others are loaded"));
    assert_int_equal(had("keep/a"), 1 << 20);
    assert_int_equal(had("keep/large"), 66 << 20);
    assert_int_equal(load(a, 1, report, sizeof report), 0); /* as it is */
    pins_are(2, 67 << 20);
    assert_int_equal(load_pinned(REQUEST_PIN, other, 1, report, sizeof report), LOADER_EXIT_FINAL);
    assert_non_null(strstr(
        report, "unpin something (a DataLoad with pin: false), or raise spec.cache.tiers[].quota"));
    pins_are(6, 75 << 20);
    assert_int_equal(load_pinned(REQUEST_UNPIN, a, 1, report, sizeof report), 0);
    pins_are(5, 74 << 20);
    char *gone[] = {(char *)"/keep"};
    cleanup_free char *path = path_join(worker_dir, "data/other");
    assert_int_equal(file_remove_tree(path, NULL), 0);
    assert_int_equal(load_pinned(REQUEST_UNPIN, gone, 1, report, sizeof report), 0);
    pins_are(4, 8 << 20); /* of files that are no more */
    assert_int_equal(load_pinned(REQUEST_UNPIN, NULL, 0, report, sizeof report), 0);
    pins_are(0, 0);
    cleanup_free char *bad = worker_path("keep/a", "/v1/load"),
                      *query = xasprintf("%s&pin=yes", bad);
    check_error("POST", query, NULL, 400, "InvalidRequest");
    worker_stop();
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, worker_setup, worker_teardown)
    const struct CMUnitTest tests[] = {
        T(test_slow_readers),
        T(test_serving),
        T(test_problem_is_reported_and_mended),
        T(test_bad_configuration),
        T(test_counting),
        T(test_loading),
        T(test_a_part_is_not_loaded),
        T(test_loading_more_than_fits),
        T(test_loading_and_pinning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
