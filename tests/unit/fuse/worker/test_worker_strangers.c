/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of those who have no key, as many as the worker has threads. */
#include "tests/unit/fuse/worker/worker_fixture.h"

#include "fuse/peers/peers.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/lib/pipeliners.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE (16u << 20)

static const struct sign_key key = {"the key of the dataset is this!"};

/* A request for all of a file, signed. */
static char *ask_for(const char *name, size_t size)
{
    struct store_stat st;
    struct err e = ERR_INIT;
    assert_int_equal(store_stat_path(server_store(worker, 0), name, &st, &e), 0);
    struct cache_key file = {0, name, st.version, size};
    cleanup_free char *query = peers_query(&file);
    const struct sign_ask ask = {"GET", "/v1/data", query, NULL};
    char signature[SIGN_REQUEST_MAX];
    sign_request(&key, &ask, clock_real_ns() / NS_PER_S, signature);
    return xasprintf("GET /v1/data?%s HTTP/1.1\r\nHost: x\r\n" SIGN_REQUEST_HEADER ": %s\r\n\r\n",
        query, signature);
}

static int say_to(int port, const char *request)
{
    int fd = pipeliners_dial(port);
    struct timeval tv = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    send(fd, request, strlen(request), MSG_NOSIGNAL); /* cut already: nothing is heard */
    return fd;
}

/* Bytes that come until there are as many, or no more. */
static size_t hear(int fd, size_t want, char *begin, size_t cap)
{
    static char buf[1 << 16];
    size_t have = 0;
    while (have < want) {
        ssize_t n = recv(fd, buf, MIN(sizeof buf, want - have), 0);
        if (n <= 0)
            break;
        if (have < cap)
            memcpy(begin + have, buf, MIN((size_t)n, cap - have));
        have += (size_t)n;
    }
    return have;
}

/* Asks until there is an answer: a server that is full cuts a connection whose request does not
 * come within 50 ms, and on a busy machine ours does not always. Clients try again, too. */
static int say_until_heard(int port, const char *request, char begin[16])
{
    for (int tries = 1;; tries++) {
        int fd = say_to(port, request);
        if (hear(fd, 12, begin, 12) == 12)
            return fd;
        close(fd);
        assert_true(tries < 10);
    }
}

static void test_strangers_hold_no_threads(void **state)
{
    (void)state;
    worker_key = &key;
    worker_threads = PIPELINERS;
    worker_put_file("data/small", 100);
    cleanup_free char *json = worker_conf_json("data", 64 << 20);
    worker_start(json);
    assert_true(worker_becomes_ready(20));
    int port = atoi(strrchr(worker_url, ':') + 1);
    cleanup_free char *request = ask_for("small", 100);
    struct pipeliners p;
    pipeliners_start(&p, port, "GET /status HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < 10; i++) {
        char begin[16] = "";
        int fd = say_until_heard(port, request, begin);
        assert_string_equal(begin, "HTTP/1.1 200");
        close(fd);
    }
    pipeliners_stop(&p);
    worker_stop();
}

/* One with the key is not cut because others wait, however slowly it reads. */
static void test_who_has_the_key_takes_his_time(void **state)
{
    (void)state;
    worker_key = &key;
    worker_threads = PIPELINERS;
    worker_put_file("data/large", LARGE);
    cleanup_free char *json = worker_conf_json("data", 64 << 20);
    worker_start(json);
    assert_true(worker_becomes_ready(20));
    int port = atoi(strrchr(worker_url, ':') + 1);
    cleanup_free char *request = ask_for("large", LARGE);
    char begin[16] = "";
    int slow = say_until_heard(port, request, begin);
    assert_string_equal(begin, "HTTP/1.1 200");
    struct pipeliners p;
    pipeliners_start(&p, port, "GET /status HTTP/1.1\r\nHost: x\r\n\r\n");
    int64_t until = clock_mono_ns() + 2 * HEALTH_ANSWER_NS;
    for (int i = 0; clock_mono_ns() < until; i++) { /* others come and go */
        close(say_until_heard(port, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", begin));
    }
    pipeliners_stop(&p);
    assert_true(hear(slow, LARGE, begin, 0) >= LARGE);
    close(slow);
    worker_stop();
}

/* What /status answers to one who signs with that key (NULL: does not sign); *signature: what the
 * answer is signed with, "" if it is not. */
static json_t *status_to(const struct sign_key *k, char request[SIGN_REQUEST_MAX],
    char signature[SIGN_HEX + 1], char *body, size_t cap)
{
    static const struct sign_ask ask = {"GET", "/status", NULL, NULL};
    cleanup_resp struct http_resp resp;
    struct err e = ERR_INIT;
    sign_request(k ? k : &key, &ask, clock_real_ns() / NS_PER_S, request);
    cleanup_free char *header = xasprintf(SIGN_REQUEST_HEADER ": %s", request);
    assert_int_equal(worker_ask("GET", "/status", k ? header : NULL, &resp), 200);
    if (!http_header(&resp, SIGN_ANSWER_HEADER, signature, SIGN_HEX + 1))
        *signature = '\0';
    snprintf(body, cap, "%s", buf_str(&resp.body));
    json_t *j = json_parse(body, strlen(body), &e);
    assert_non_null(j);
    return j;
}

/* Strangers are told numbers, and neither where the data is nor what is wrong with it. */
static void test_status(void **state)
{
    (void)state;
    static const struct sign_key other = {"the key of some other dataset is"};
    static const struct sign_key *const strangers[] = {NULL, &other};
    char request[SIGN_REQUEST_MAX], signature[SIGN_HEX + 1], body[8192];
    worker_key = &key;
    worker_threads = 0;
    worker_put_file("data/small", 100);
    cleanup_free char *json = worker_conf_json("data", 64 << 20);
    worker_start(json);
    assert_true(worker_becomes_ready(20));
    cleanup_json json_t *all = status_to(&key, request, signature, body, sizeof body);
    const char *where = jget_str(
        json_array_get(jget_arr(all, REPORT_MOUNTS), 0), REPORT_MOUNT_POINT, "");
    assert_non_null(strstr(where, "file://"));
    const struct sign_answer answer = {
        .request = request, .status = 200, .body = body, .body_len = strlen(body)};
    assert_true(sign_check_answer(&key, &answer, signature));
    for (size_t i = 0; i < ARRAY_LEN(strangers); i++) {
        cleanup_json json_t *some = status_to(strangers[i], request, signature, body, sizeof body);
        assert_string_equal(signature, "");
        assert_null(strstr(body, "file://"));
        assert_true(jget_bool(some, REPORT_READY, false));
        assert_int_equal(jget_len(some, REPORT_MOUNTS), jget_len(all, REPORT_MOUNTS));
        assert_int_equal(
            jget_int(some, REPORT_CACHE_CAPACITY, -1), jget_int(all, REPORT_CACHE_CAPACITY, -2));
    }
    worker_stop();
    worker_key = NULL;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, worker_setup, worker_teardown)
    const struct CMUnitTest tests[] = {
        T(test_strangers_hold_no_threads),
        T(test_who_has_the_key_takes_his_time),
        T(test_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
