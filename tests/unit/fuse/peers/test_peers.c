/* SPDX-License-Identifier: Apache-2.0 */
/* The cache workers of a dataset: what readers get when they are slow, dead, wrong or absent. */
#include "tests/lib/unit.h"

#include "fuse/peers/peers.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/http/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* -- fetching: workers that behave as told, a directory as the store -- */

#define SIZE    (3u << 20)
#define PATIENT (60 * NS_PER_S) /* a busy machine is no slow worker */
#define HASTY   (150 * NS_PER_MS)
#define PART    (300u << 10)

enum manner {
    GOOD,
    LATE,
    STUCK,
    CUT,
    LONG,
    WHOLE,
    ELSEWHERE,
    RESIZED,
    ERROR_500,
    NOT_FOUND,
    CONFLICT_409
};

struct fake_worker {
    struct http_server *server;
    enum manner manner;
    atomic_uint asked;
    atomic_bool release;
    char url[64];
};

static char dir[64];
static unsigned char content[SIZE];
static struct conf *conf;
static struct store *store;
static struct store_stat st;
static struct fake_worker fw;

static void on_data(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct fake_worker *w = user;
    char text[64];
    uint64_t a, b;
    w->asked++;
    if (!serve_header(req, "range", text, sizeof text)
        || sscanf(text, "bytes=%" SCNu64 "-%" SCNu64, &a, &b) != 2 || b >= SIZE) {
        resp->status = 400;
        return;
    }
    resp->status = 206;
    uint64_t size = w->manner == RESIZED ? SIZE + 1 : SIZE, shift = w->manner == ELSEWHERE;
    if (w->manner != WHOLE)
        buf_addf(&resp->headers, "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n",
            a + shift, b + shift, size);
    switch (w->manner) {
    case LATE:
        clock_sleep_ns(250 * NS_PER_MS);
        break;
    case STUCK:
        for (int i = 0; i < 20000 && !w->release; i++)
            clock_sleep_ns(5 * NS_PER_MS);
        break;
    case CUT:
        b -= 1000;
        break;
    case LONG:
        b = b + 10 < SIZE ? b + 10 : b;
        break;
    case WHOLE: /* as much as was asked for, but from the beginning */
        resp->status = 200;
        b -= a;
        a = 0;
        break;
    case ELSEWHERE:
        a++;
        b++;
        break;
    case ERROR_500:
        resp->status = 500;
        return;
    case NOT_FOUND:
        resp->status = 404;
        return;
    case CONFLICT_409:
        resp->status = 409;
        buf_adds(&resp->body, "{\"reason\":\"VersionChanged\",\"message\":\"it has changed\"}\n");
        return;
    case RESIZED:
    case GOOD:
        break;
    }
    buf_add(&resp->body, content + a, (size_t)(b - a + 1));
}

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/millrace-peers.XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    for (size_t i = 0; i < SIZE; i++)
        content[i] = (unsigned char)(i * 7 + i / 251);
    cleanup_free char *file = path_join(dir, "f");
    cleanup_free char *json = xasprintf(
        "{\"namespace\":\"\",\"name\":\"t\",\"uid\":\"\",\"readOnly\":true,\"mounts\":[{\"mountPoint\":\"file://%s\","
        "\"path\":\"/\"}],\"cache\":{\"tiers\":[{\"medium\":\"MEM\",\"quota\":1000000}]}}",
        dir);
    struct err e = ERR_INIT;
    conf = conf_parse(json, strlen(json), &e);
    if (!conf) {
        print_error("%s\n", e.msg);
        return -1;
    }
    struct store_conf sc = {.mount = &conf->mounts[0]};
    if (file_write_atomic(file, content, SIZE, 0644, &e) || !(store = store_new(&sc, &e))
        || store_stat_path(store, "f", &st, &e)) {
        print_error("%s\n", e.msg);
        return -1;
    }
    memset(&fw, 0, sizeof fw);
    const struct serve_route route = {"GET", "/v1/data", on_data, &fw};
    struct serve_conf vc = {.address = "127.0.0.1:0", .routes = &route, .nroutes = 1};
    fw.server = serve_start(&vc, &e);
    if (fw.server)
        snprintf(fw.url, sizeof fw.url, "http://127.0.0.1:%d", serve_port(fw.server));
    return fw.server ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    fw.release = true;
    if (fw.server)
        serve_stop(fw.server);
    store_free(store);
    conf_free(conf);
    return file_remove_tree(dir, NULL);
}

static struct peers *new_peers(const char *url, int64_t hedge_ns)
{
    struct peers_conf rc = {
        .conf = conf, .stores = &store, .hedge_ns = hedge_ns, .urls = &url, .nurls = url ? 1 : 0};
    struct err e = ERR_INIT;
    struct peers *r = peers_new(&rc, &e);
    if (!r)
        print_error("%s\n", e.msg);
    assert_non_null(r);
    return r;
}

static _Thread_local unsigned origin; /* of the latest bytes */

static int read_peers(struct peers *r, const struct cache_key *key, uint64_t off, size_t len,
    void *buf, const atomic_bool *cancel, struct err *e)
{
    struct sink_memory memory = {buf, len};
    struct cache_sink sink = {.take = sink_to_memory, .user = &memory};
    int rc = peers_fetch(r, key, off, len, &sink, cancel, e);
    origin = sink.origin;
    return rc;
}

static void fetch_check(struct peers *r, uint64_t off, size_t len)
{
    struct cache_key key = {0, "f", st.version, st.size};
    unsigned char *buf = calloc(1, len);
    struct err e = ERR_INIT;
    if (read_peers(r, &key, off, len, buf, NULL, &e))
        print_error("%s\n", e.msg);
    assert_memory_equal(buf, content + off, len);
    free(buf);
}

static struct peers_stats stats(struct peers *r)
{
    struct peers_stats s;
    peers_stats(r, &s);
    return s;
}

static void test_no_workers(void **state)
{
    (void)state;
    struct peers *r = new_peers(NULL, PATIENT);
    fetch_check(r, 5, 100000);
    assert_int_equal(stats(r).store_bytes, 100000);
    struct cache_key nowhere = {9, "f", st.version, st.size};
    char b;
    struct err e = ERR_INIT;
    assert_int_equal(read_peers(r, &nowhere, 0, 1, &b, NULL, &e), -1);
    peers_free(r);
}

static void test_a_good_worker(void **state)
{
    (void)state;
    struct peers *r = new_peers(fw.url, PATIENT);
    for (int i = 0; i < 20; i++)
        fetch_check(r, (uint64_t)i * 100001, 99999);
    struct peers_stats s = stats(r);
    assert_int_equal(s.worker_bytes, 20 * 99999);
    assert_int_equal(origin, 1);
    assert_int_equal(s.store_bytes, 0);
    assert_int_equal(fw.asked, 20);
    peers_free(r);
}

static void test_wrong_answers_go_to_the_store(void **state)
{
    (void)state;
    static const enum manner manners[] = {
        CUT, LONG, WHOLE, ELSEWHERE, RESIZED, ERROR_500, NOT_FOUND};
    for (size_t i = 0; i < ARRAY_LEN(manners); i++) {
        struct peers *r = new_peers(fw.url, PATIENT);
        fw.manner = manners[i];
        for (int k = 0; k < 4; k++)
            fetch_check(r, 1000 + (uint64_t)k * 5000, 4000);
        /* what came is good, the rest comes from the store */
        uint64_t sent = stats(r).worker_bytes;
        assert_int_equal(stats(r).store_bytes, 16000 - sent);
        if (manners[i] != LONG)
            assert_int_equal(sent, manners[i] == CUT ? 4 * 3000 : 0);
        assert_int_equal(origin, 0);
        assert_int_equal(stats(r).down, 0); /* it lives */
        peers_free(r);
    }
}

static void test_conflict_is_passed_on(void **state)
{
    (void)state;
    struct peers *r = new_peers(fw.url, PATIENT);
    fw.manner = CONFLICT_409;
    struct cache_key key = {0, "f", st.version, st.size};
    char buf[10];
    struct err e = ERR_INIT;
    assert_int_equal(read_peers(r, &key, 0, sizeof buf, buf, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_int_equal(err_errno(&e), ESTALE);
    assert_non_null(strstr(e.msg, "it has changed"));
    peers_free(r);
}

/* Nobody answers there, and nobody else gets it. */
static int hold_port(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void test_a_dead_worker_is_bypassed_and_comes_back(void **state)
{
    (void)state;
    int port = serve_port(fw.server);
    serve_stop(fw.server);
    int held = hold_port(port);
    struct peers *r = new_peers(fw.url, PATIENT);
    int64_t t0 = clock_mono_ns();
    for (int i = 0; i < 50; i++)
        fetch_check(r, (uint64_t)i * 1000, 1000);
    int64_t took = clock_mono_ns() - t0;
    assert_true(took < PATIENT); /* nobody waited for it */
    struct peers_stats s = stats(r);
    assert_int_equal(s.store_bytes, 50000);
    /* it was not asked each time, but once a second at most */
    assert_true(s.bypassed + 5 + (uint64_t)(took / NS_PER_S) >= 50);
    assert_int_equal(s.down, 1);
    const struct serve_route route = {"GET", "/v1/data", on_data, &fw};
    struct serve_conf vc = {.address = fw.url + strlen("http://"), .routes = &route, .nroutes = 1};
    close(held);
    fw.server = serve_start(&vc, NULL);
    assert_non_null(fw.server);
    for (int i = 0; i < 600 && stats(r).down; i++) {
        clock_sleep_ns(100 * NS_PER_MS);
        fetch_check(r, 0, 1000);
    }
    assert_int_equal(stats(r).down, 0);
    uint64_t before = stats(r).worker_bytes;
    fetch_check(r, 0, 1000);
    assert_int_equal(stats(r).worker_bytes, before + 1000);
    peers_free(r);
}

static void test_a_slow_worker_is_hedged(void **state)
{
    (void)state;
    struct peers *r = new_peers(fw.url, HASTY);
    fw.manner = STUCK; /* until the store has answered */
    int64_t t0 = clock_mono_ns();
    fetch_check(r, 0, 1 << 20);
    assert_true(clock_mono_ns() - t0 >= HASTY);
    struct peers_stats s = stats(r);
    assert_int_equal(s.hedged, 1);
    assert_int_equal(s.hedges_won, 1);
    assert_int_equal(s.store_bytes, 1 << 20);
    assert_int_equal(s.worker_bytes, 0);
    fw.release = true;
    peers_free(r);
}

/* Sends the first part of what is asked for, and then nothing until the caller goes away. */
static void *send_a_part(void *arg)
{
    int fd = accept4(*(int *)arg, NULL, NULL, SOCK_CLOEXEC);
    char head[4096] = "", answer[200];
    size_t n = 0;
    while (fd >= 0 && n < sizeof head - 1 && !strstr(head, "\r\n\r\n")) {
        ssize_t got = read(fd, head + n, sizeof head - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    int len = snprintf(answer, sizeof answer,
        "HTTP/1.1 206 Partial Content\r\nContent-Length: %u\r\n"
        "Content-Range: bytes 0-%u/%u\r\n\r\n",
        1u << 20, (1u << 20) - 1, SIZE);
    struct iovec part[] = {{answer, (size_t)len}, {content, PART}};
    if (fd >= 0 && writev(fd, part, 2) == (ssize_t)(len + PART))
        while (read(fd, head, sizeof head) > 0)
            continue;
    close(fd);
    return NULL;
}

static void test_a_hedge_goes_on_where_the_worker_stopped(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    pthread_t worker;
    assert_int_equal(pthread_create(&worker, NULL, send_a_part, &fd), 0);
    struct peers *r = new_peers(url, 10 * HASTY);
    fetch_check(r, 0, 1 << 20);
    struct peers_stats s = stats(r);
    assert_int_equal(s.hedges_won, 1);
    assert_int_equal(s.worker_bytes + s.store_bytes, 1 << 20);
    peers_free(r);
    assert_int_equal(pthread_join(worker, NULL), 0);
    close(fd);
}

static void test_a_stuck_worker_costs_one_pause(void **state)
{
    (void)state;
    struct peers *r = new_peers(fw.url, HASTY);
    fw.manner = STUCK;
    for (int i = 0; i < 3; i++)
        fetch_check(r, (uint64_t)i * 1000, 1000);
    assert_int_equal(stats(r).down, 1); /* no byte three times: it is not asked for a while */
    /* where that takes too long it is asked once more, then not for longer */
    for (int i = 0; i < 10 && !stats(r).bypassed; i++)
        fetch_check(r, 0, 1000);
    assert_true(stats(r).bypassed >= 1);
    fw.release = true;
    peers_free(r);
}

/* A store that is no faster must not be asked twice for everything. */
static void test_hedges_are_rationed(void **state)
{
    (void)state;
    struct peers *r = new_peers(fw.url, HASTY);
    fw.manner = LATE;
    struct cache_key key = {0, "f", st.version, st.size};
    char buf[100];
    struct store *real = store;
    store = NULL; /* hedges fail at once: the worker wins in the end */
    for (int i = 0; i < 14; i++)
        assert_int_equal(read_peers(r, &key, 0, sizeof buf, buf, NULL, NULL), 0);
    store = real;
    assert_true(stats(r).hedged <= 10);
    assert_true(stats(r).hedged >= 7);
    assert_int_equal(stats(r).worker_bytes, 14 * sizeof buf);
    peers_free(r);
}

static void test_cancel(void **state)
{
    (void)state;
    struct peers *r = new_peers(fw.url, HASTY);
    fw.manner = STUCK;
    struct store *real = store;
    store = NULL;
    atomic_bool cancel = true;
    struct cache_key key = {0, "f", st.version, st.size};
    char buf[100];
    struct err e = ERR_INIT;
    int64_t t0 = clock_mono_ns();
    assert_int_equal(read_peers(r, &key, 0, sizeof buf, buf, &cancel, &e), -1);
    assert_true(clock_mono_ns() - t0 < 30 * NS_PER_S); /* long before the worker answers */
    assert_int_equal(e.sys, ECANCELED);
    store = real;
    fw.release = true;
    peers_free(r);
}

static atomic_bool enough;

static void *read_on(void *user)
{
    while (!atomic_load(&enough))
        fetch_check(user, 5000, 4000); /* fails the test if it fails */
    return NULL;
}

static void tell_number(const char *text)
{
    assert_int_equal(file_write_atomic(conf->worker_count_file, text, strlen(text), 0644, NULL), 0);
}

static void reads_from(struct peers *r, unsigned where)
{
    int64_t until = clock_mono_ns() + 60 * NS_PER_S;
    for (origin = !where; origin != where && clock_mono_ns() < until;)
        fetch_check(r, 0, 1000);
    assert_int_equal(origin, where);
}

static void test_the_number_of_workers_changes(void **state)
{
    (void)state;
    const char *urls[] = {fw.url, fw.url, "http://127.0.0.1:1"}; /* nobody listens at the third */
    conf->worker_count_file = path_join(dir, "workers");
    struct peers_conf rc = {.conf = conf,
        .stores = &store,
        .hedge_ns = PATIENT,
        .look_ns = NS_PER_MS,
        .urls = urls,
        .nurls = ARRAY_LEN(urls)};
    struct err e = ERR_INIT;
    struct peers *r = peers_new(&rc, &e);
    reads_from(r, 0);
    tell_number("1");
    reads_from(r, 1);
    tell_number("0");
    reads_from(r, 0);
    pthread_t readers[4];
    for (size_t i = 0; i < ARRAY_LEN(readers); i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_on, r), 0);
    for (int i = 0; i < 60; i++) {
        tell_number((const char *[]){"1", "3", "2", "0", "900"}[i % 5]);
        clock_sleep_ns(5 * NS_PER_MS);
    }
    tell_number("2");
    reads_from(r, 1); /* also where it was down before it was taken away */
    atomic_store(&enough, true);
    for (size_t i = 0; i < ARRAY_LEN(readers); i++)
        pthread_join(readers[i], NULL);
    peers_free(r);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_no_workers),
        T(test_a_good_worker),
        T(test_wrong_answers_go_to_the_store),
        T(test_conflict_is_passed_on),
        T(test_a_dead_worker_is_bypassed_and_comes_back),
        T(test_a_slow_worker_is_hedged),
        T(test_a_hedge_goes_on_where_the_worker_stopped),
        T(test_a_stuck_worker_costs_one_pause),
        T(test_hedges_are_rationed),
        T(test_cancel),
        T(test_the_number_of_workers_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
