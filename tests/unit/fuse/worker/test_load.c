/* SPDX-License-Identifier: Apache-2.0 */
/* The loader against a worker that says what the test wants: what it reports of files that fail,
 * and how fast it asks. */
#include "fuse/worker/load.h"
#include "fuse/worker/load_rate.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/http/serve.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/lib/unit.h"
#include "tests/unit/fuse/worker/worker_fixture.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define PIECE (1 << 20)

/* Files whose names begin with "bad" fail for good; of others all is fetched when they are asked
 * for first. */
static void on_load(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    atomic_uint *asked = user;
    cleanup_free char *len = serve_query(req, "len"), *path = serve_query(req, "path");
    assert_non_null(len);
    assert_non_null(path);
    if (strncmp(path, "bad", 3) == 0) {
        resp->status = 400;
        buf_adds(&resp->body, "the store has \"no\" bytes of it \xe2\x82\xac\n");
        return;
    }
    bool first = atomic_fetch_add(asked, 1) < 4;
    buf_addf(&resp->body, "{\"cachedBytes\":%s,\"hadBytes\":%s}", len, first ? "0" : len);
}

static struct http_server *says;
static atomic_uint asked;

static int says_start(void **state)
{
    static const struct serve_route routes[] = {{"POST", "/v1/load", on_load, &asked}};
    static const struct serve_conf conf = {
        .address = "127.0.0.1:0", .routes = routes, .nroutes = 1, .max_threads = 4, .max_body = 64};
    struct err e = ERR_INIT;
    if (worker_setup(state))
        return -1;
    atomic_store(&asked, 0);
    says = serve_start(&conf, &e);
    if (!says)
        fail_msg("%s", e.msg);
    snprintf(worker_url, sizeof worker_url, "http://127.0.0.1:%d", serve_port(says));
    return 0;
}

static int says_stop(void **state)
{
    serve_stop(says);
    return worker_teardown(state);
}

/* What it reports; path: of what it loads, NULL: of all. Caller frees. */
static char *loaded_as(const char *json, char *path, int64_t bandwidth, int want)
{
    cleanup_free char *file = path_join(worker_dir, "report");
    assert_int_equal(file_write_atomic(file, "", 0, 0644, NULL), 0);
    struct server *s = server_new(COMPONENT_LOADER, NULL, NULL);
    server_configure(s, json);
    server_start(s);
    const char *one = worker_url;
    struct load_conf lc = {.paths = &path,
        .npaths = path != NULL,
        .threads = 4,
        .bandwidth = bandwidth,
        .wait_ns = 60 * NS_PER_S,
        .report = file,
        .urls = &one,
        .nurls = 1};
    assert_int_equal(load_run(s, &lc), want);
    server_stop(s);
    server_free(s);
    return file_read(file, 8192, NULL, NULL);
}

static char *loaded(int64_t bandwidth, int want)
{
    cleanup_free char *json = worker_conf_json("data", 64 << 20);
    return loaded_as(json, NULL, bandwidth, want);
}

/* The first 20 and a count, in less than a termination message. */
static void test_failed_files(void **state)
{
    (void)state;
    char name[300];
    for (int i = 0; i < 66; i++) {
        snprintf(name, sizeof name, "data/%s%d", i % 3 ? "good" : "bad", i);
        worker_put_file(name, 1);
    }
    cleanup_free char *report = loaded(0, 1);
    assert_in_range(strlen(report), 100, 4096);
    cleanup_json json_t *j = json_loadb(report, strcspn(report, "\n"), 0, NULL);
    assert_int_equal(jget_int(j, "load.failedFiles", 0), 22);
    assert_int_equal(jget_len(j, "failures"), 20);
    assert_int_equal(strncmp(jget_str(j, "failures[0].path", ""), "/bad", 4), 0);
    assert_non_null(
        strstr(jget_str(j, "failures[0].message", ""), "\"no\" bytes of it \xe2\x82\xac"));
}

static void test_long_names_that_fail(void **state)
{
    (void)state;
    char name[300];
    for (int i = 0; i < 14; i++) {
        snprintf(
            name, sizeof name, "data/bad%d%.*s", i, 200, "\xe2\x82\xac\xe2\x82\xac\"\xe2\x82\xac");
        for (size_t n = strlen(name); n < 240; n++, name[n] = '\0')
            name[n] = 'x';
        worker_put_file(name, 1);
    }
    cleanup_free char *report = loaded(0, 1);
    assert_in_range(strlen(report), 1000, 4096);
    cleanup_json json_t *j = json_loadb(report, strcspn(report, "\n"), 0, NULL);
    assert_int_equal(jget_int(j, "load.failedFiles", 0), 14);
    assert_in_range(jget_len(j, "failures"), 5, 13);
}

/* What is fetched is paid for before more is asked for; what was there costs nothing. */
static void test_bandwidth(void **state)
{
    (void)state;
    worker_put_file("data/a", PIECE);
    worker_put_file("data/b", PIECE);
    worker_put_file("data/c", PIECE);
    worker_put_file("data/d", PIECE);
    int64_t before = clock_mono_ns();
    cleanup_free char *report = loaded(2 * PIECE, 0);
    assert_true(clock_mono_ns() - before >= 2 * NS_PER_S);
    assert_non_null(strstr(report, "loaded 4 files"));
}

/* The directory is there for a mount below it, and not in the store that the path is in. */
static void test_mounts_below_what_is_not_there(void **state)
{
    (void)state;
    worker_put_file("data/a", 1);
    worker_put_file("more/b", 2);
    worker_put_file("more/c", 3);
    cleanup_free char *json = worker_conf_json("data", 64 << 20);
    const char *end = strstr(json, "}],");
    cleanup_free char *two = xasprintf(
        "%.*s},{\"mountPoint\":\"file://%s/more\",\"path\":\"/train/extra\"%s", (int)(end - json),
        json, worker_dir, end);
    char path[] = "/train", nowhere[] = "/trail", unseen[] = "/train\xe2\x80\x8b";
    cleanup_free char *report = loaded_as(two, path, 0, 0);
    assert_non_null(strstr(report, "loaded 2 files"));
    cleanup_free char *gone = loaded_as(two, nowhere, 0, LOADER_EXIT_FINAL),
                      *typo = loaded_as(two, unseen, 0, LOADER_EXIT_FINAL);
    assert_null(strstr(gone, "invisible character"));
    assert_non_null(strstr(typo, "it holds an invisible character"));
    char pattern[] = "/train/*.tfrecord";
    cleanup_free char *none = loaded_as(two, pattern, 0, LOADER_EXIT_FINAL);
    assert_non_null(strstr(none, "paths are names, no patterns"));
    assert_null(strstr(gone, "no patterns"));
}

static void test_rate(void **state)
{
    (void)state;
    struct load_rate p = {.rate = 100};
    assert_true(load_rate_begin(&p, 1000, 0)); /* a piece that is larger than the rate */
    assert_false(load_rate_begin(&p, 1, 0));
    load_rate_end(&p, 1000, 200, NS_PER_S);
    assert_false(load_rate_begin(&p, 1, 3 * NS_PER_S - 1));
    assert_true(load_rate_begin(&p, 60, 3 * NS_PER_S));
    assert_true(load_rate_begin(&p, 40, 3 * NS_PER_S));
    assert_false(load_rate_begin(&p, 1, 3 * NS_PER_S));
    load_rate_end(&p, 60, 0, 3 * NS_PER_S);
    assert_true(load_rate_begin(&p, 1, 3 * NS_PER_S));
    struct load_rate none = {.rate = 0};
    for (int i = 0; i < 3; i++) {
        assert_true(load_rate_begin(&none, INT64_MAX / 4, 0));
        load_rate_end(&none, INT64_MAX / 4, INT64_MAX / 4, 0);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, says_start, says_stop)
    const struct CMUnitTest tests[] = {
        T(test_failed_files),
        T(test_long_names_that_fail),
        T(test_bandwidth),
        T(test_mounts_below_what_is_not_there),
        cmocka_unit_test(test_rate),
    };
    log_init("test", LOG_ERROR);
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
