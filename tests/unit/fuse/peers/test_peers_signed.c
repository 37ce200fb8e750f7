/* SPDX-License-Identifier: Apache-2.0 */
/* What a client takes of a worker's answer: blocks that are as their checksums say, and with a key
 * only what is signed with it. All else comes from the store, to the byte. */
#include "fuse/peers/peers.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/http/serve.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BLOCK ((uint64_t)1 << 20)
#define SIZE  (4 * BLOCK + 12345) /* bytes of the file */

enum manner {
    FINE,
    ROTTEN,       /* a bit of the third block is another */
    NO_CRCS,      /* as an older worker */
    OTHER_CRCS,   /* changed after they were signed */
    FEWER_CRCS,   /* signed, but not one for each block */
    UNSIGNED,     /* as somebody who has taken the address of a worker */
    OTHER_KEY,    /* the same, who tries */
    OLD_ANSWER,   /* the signature of another request */
    UNSIGNED_409, /* the file has changed, says a stranger */
    SIGNED_409,   /* … says the worker */
};

static char dir[64], url[64];
static unsigned char content[SIZE];
static struct conf *conf;
static struct store *store;
static struct store_stat st;
static struct http_server *server;
static enum manner manner;
static atomic_uint asked, refused;
static const struct sign_key key = {"the key of the dataset is this!"},
                             other = {"the key of the dataset is that!"};

static void add_signature(
    struct serve_resp *resp, const char *request, const char *range, const char *crcs)
{
    char text[SIGN_HEX + 1];
    const struct sign_answer a = {.request = manner == OLD_ANSWER ? "another" : request,
        .status = resp->status,
        .range = range,
        .crcs = crcs};
    sign_answer(manner == OTHER_KEY ? &other : &key, &a, text);
    if (manner != UNSIGNED && manner != UNSIGNED_409)
        buf_addf(&resp->headers, SIGN_ANSWER_HEADER ": %s\r\n", text);
}

static void on_data(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)user;
    char asks[64], request[SIGN_REQUEST_MAX + 1] = "", range[96];
    uint64_t a, b;
    struct err e = ERR_INIT;
    asked++;
    const char *h = serve_header(req, SIGN_REQUEST_HEADER, request, sizeof request);
    assert_non_null(serve_header(req, "range", asks, sizeof asks));
    const struct sign_ask ask = {req->method, req->path, req->query, asks};
    if (sign_check_request(&key, &ask, h, clock_real_ns() / NS_PER_S, &e))
        refused++;
    assert_int_equal(sscanf(asks, "bytes=%" SCNu64 "-%" SCNu64, &a, &b), 2);
    if (manner == UNSIGNED_409 || manner == SIGNED_409) {
        resp->status = 409;
        buf_adds(&resp->body, "{\"reason\":\"VersionChanged\",\"message\":\"it has changed\"}\n");
        add_signature(resp, request, NULL, NULL);
        return;
    }
    resp->status = 206;
    snprintf(range, sizeof range, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, a, b, (uint64_t)SIZE);
    uint32_t crcs[8];
    size_t n = 0;
    for (uint64_t at = a; at <= b; at += BLOCK)
        crcs[n++] = crc32c(0, content + at, (size_t)MIN(BLOCK, b + 1 - at));
    cleanup_free char *text = peers_crcs_text(crcs, manner == FEWER_CRCS ? n - 1 : n);
    buf_addf(&resp->headers, "Content-Range: %s\r\n", range);
    add_signature(resp, request, range, manner == NO_CRCS ? NULL : text);
    if (manner == OTHER_CRCS)
        text[0] = text[0] == '0' ? '1' : '0';
    if (manner != NO_CRCS)
        buf_addf(&resp->headers, SIGN_CRC_HEADER ": %s\r\n", text);
    size_t before = resp->body.len;
    buf_add(&resp->body, content + a, (size_t)(b - a + 1));
    if (manner == ROTTEN && a <= 2 * BLOCK + 7 && b >= 2 * BLOCK + 7)
        resp->body.data[before + 2 * BLOCK + 7 - a] ^= 1;
}

static int setup(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    strcpy(dir, "/tmp/millrace-signed.XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    for (size_t i = 0; i < SIZE; i++)
        content[i] = (unsigned char)(i * 7 + i / 251);
    cleanup_free char *file = path_join(dir, "f");
    cleanup_free char *json = xasprintf(
        "{\"namespace\":\"\",\"name\":\"t\",\"uid\":\"\",\"readOnly\":true,\"mounts\":[{\"mountPoint\":\"file://%s\","
        "\"path\":\"/\"}],\"cache\":{\"tiers\":[{\"medium\":\"MEM\",\"quota\":1000000}]}}",
        dir);
    conf = conf_parse(json, strlen(json), &e);
    assert_non_null(conf);
    struct store_conf sc = {.mount = &conf->mounts[0]};
    assert_int_equal(file_write_atomic(file, content, SIZE, 0644, &e), 0);
    store = store_new(&sc, &e);
    assert_non_null(store);
    assert_int_equal(store_stat_path(store, "f", &st, &e), 0);
    const struct serve_route route = {"GET", "/v1/data", on_data, NULL};
    struct serve_conf vc = {
        .address = "127.0.0.1:0", .routes = &route, .nroutes = 1, .max_threads = 8};
    server = serve_start(&vc, &e);
    assert_non_null(server);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", serve_port(server));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    serve_stop(server);
    store_free(store);
    conf_free(conf);
    return file_remove_tree(dir, NULL);
}

static int64_t hedge_ns = 60 * NS_PER_S;

/* Reads the range with a new set of workers; what came from where is in *s. */
static int fetch(const struct sign_key *k, uint64_t off, size_t len, struct peers_stats *s)
{
    const char *urls[] = {url};
    struct peers_conf rc = {
        .conf = conf, .stores = &store, .hedge_ns = hedge_ns, .urls = urls, .nurls = 1, .key = k};
    struct err e = ERR_INIT;
    struct peers *p = peers_new(&rc, &e);
    assert_non_null(p);
    struct cache_key file = {0, "f", st.version, st.size};
    cleanup_free char *buf = xcalloc(1, len);
    struct sink_memory memory = {buf, len};
    struct cache_sink sink = {.take = sink_to_memory, .user = &memory};
    int rc2 = peers_fetch(p, &file, off, len, &sink, NULL, &e);
    if (rc2 == 0)
        assert_memory_equal(buf, content + off, len);
    peers_stats(p, s);
    peers_free(p);
    return rc2 ? err_errno(&e) : 0;
}

static void test_fine(void **state)
{
    (void)state;
    struct peers_stats s;
    const struct sign_key *const keys[] = {&key, NULL};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        refused = 0;
        manner = FINE;
        assert_int_equal(fetch(keys[i], 0, SIZE, &s), 0);
        assert_int_equal(s.worker_bytes, SIZE);
        assert_int_equal(s.store_bytes, 0);
        assert_int_equal(fetch(keys[i], BLOCK, 2 * BLOCK, &s), 0);
        assert_int_equal(s.worker_bytes, 2 * BLOCK);
        assert_int_equal(fetch(keys[i], 4 * BLOCK, 12345, &s), 0);
        assert_int_equal(s.worker_bytes, 12345);
        assert_int_equal(refused, keys[i] ? 0 : 3);
    }
}

/* What came before the block that is not as it should be is good; nothing of that block is used. */
static void test_rotten(void **state)
{
    (void)state;
    struct peers_stats s;
    const struct sign_key *const keys[] = {&key, NULL};
    manner = ROTTEN;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        assert_int_equal(fetch(keys[i], 0, SIZE, &s), 0);
        assert_int_equal(s.worker_bytes, 2 * BLOCK);
        assert_int_equal(s.store_bytes, SIZE - 2 * BLOCK);
        assert_int_equal(s.corrupt, 1);
        assert_int_equal(s.down, 1); /* it is left alone for a while */
    }
}

static void test_strangers(void **state)
{
    (void)state;
    static const enum manner manners[] = {
        UNSIGNED, OTHER_KEY, OLD_ANSWER, OTHER_CRCS, FEWER_CRCS, NO_CRCS, UNSIGNED_409};
    for (size_t i = 0; i < ARRAY_LEN(manners); i++) {
        struct peers_stats s;
        manner = manners[i];
        asked = 0;
        assert_int_equal(fetch(&key, 0, SIZE, &s), 0);
        assert_int_equal(asked, 1);
        assert_int_equal(s.worker_bytes, 0);
        assert_int_equal(s.store_bytes, SIZE);
        assert_int_equal(s.down, 1);
    }
}

static void test_conflict_of_the_worker(void **state)
{
    (void)state;
    struct peers_stats s;
    manner = SIGNED_409;
    assert_int_equal(fetch(&key, 0, SIZE, &s), ESTALE);
}

#define SENT (2 * BLOCK + 77) /* so much of it comes, and then no more */

/* A good answer that breaks off in the middle of a block. */
static void *send_a_part(void *arg)
{
    cleanup_fd int fd = accept4(*(int *)arg, NULL, NULL, SOCK_CLOEXEC);
    char head[8192] = "", request[SIGN_REQUEST_MAX + 1] = "", range[96], signature[SIGN_HEX + 1];
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && !strstr(head, "\r\n\r\n"); n += got > 0 ? (size_t)got : 0)
        got = read(fd, head + n, sizeof head - 1 - n);
    const char *at = strcasestr(head, SIGN_REQUEST_HEADER ": ");
    if (at)
        snprintf(request, sizeof request, "%.*s",
            (int)strcspn(at + strlen(SIGN_REQUEST_HEADER ": "), "\r"),
            at + strlen(SIGN_REQUEST_HEADER ": "));
    uint32_t crcs[5];
    for (size_t i = 0; i < ARRAY_LEN(crcs); i++)
        crcs[i] = crc32c(0, content + i * BLOCK, (size_t)MIN(BLOCK, SIZE - i * BLOCK));
    cleanup_free char *text = peers_crcs_text(crcs, ARRAY_LEN(crcs));
    snprintf(range, sizeof range, "bytes 0-%" PRIu64 "/%" PRIu64, SIZE - 1, SIZE);
    sign_answer(&key,
        &(struct sign_answer){.request = request, .status = 206, .range = range, .crcs = text},
        signature);
    cleanup_free char *answer = xasprintf("HTTP/1.1 206 Partial Content\r\nContent-Length: %" PRIu64
                                          "\r\nContent-Range: %s\r\n" SIGN_ANSWER_HEADER
                                          ": %s\r\n" SIGN_CRC_HEADER ": %s\r\n\r\n",
        SIZE, range, signature, text);
    if (send(fd, answer, strlen(answer), MSG_NOSIGNAL) == (ssize_t)strlen(answer))
        for (size_t sent = 0; sent < SENT;) {
            ssize_t put = send(fd, content + sent, SENT - sent, MSG_NOSIGNAL);
            if (put <= 0)
                break;
            sent += (size_t)put;
        }
    while (read(fd, head, sizeof head) > 0) /* until the caller goes away */
        continue;
    return NULL;
}

/* A block of which a part came is the store's, from its beginning; what came before stays. */
static void test_hedge_of_a_part(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    struct peers_stats s;
    char before[sizeof url];
    pthread_t worker;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    memcpy(before, url, sizeof url);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    assert_int_equal(pthread_create(&worker, NULL, send_a_part, &fd), 0);
    hedge_ns = 1500 * NS_PER_MS; /* longer than a busy machine needs for what comes */
    assert_int_equal(fetch(&key, 0, SIZE, &s), 0);
    assert_int_equal(s.hedges_won, 1);
    assert_int_equal(s.worker_bytes + s.store_bytes, SIZE);
    assert_int_equal(s.worker_bytes % BLOCK, 0);
    assert_true(s.worker_bytes);
    hedge_ns = 60 * NS_PER_S;
    memcpy(url, before, sizeof url);
    pthread_join(worker, NULL);
    close(fd);
}

/* An older worker, where there is no key. */
static void test_without_checksums(void **state)
{
    (void)state;
    struct peers_stats s;
    manner = NO_CRCS;
    assert_int_equal(fetch(NULL, 0, SIZE, &s), 0);
    assert_int_equal(s.worker_bytes, SIZE);
    manner = FINE; /* no whole blocks: as they come */
    assert_int_equal(fetch(NULL, 5, 2 * BLOCK, &s), 0);
    assert_int_equal(s.worker_bytes, 2 * BLOCK);
}

static void test_header(void **state)
{
    (void)state;
    static const uint32_t crcs[] = {0, 0xdeadbeef, 1};
    uint32_t back[3];
    cleanup_free char *text = peers_crcs_text(crcs, 3);
    assert_string_equal(text, "00000000,deadbeef,00000001");
    assert_int_equal(peers_crcs_parse(text, back, 3), 0);
    assert_memory_equal(back, crcs, sizeof crcs);
    static const char *const bad[] = {"", "00000000", "00000000,deadbeef",
        "00000000,deadbeef,0000000", "00000000,deadbeef,000000011", "00000000,deadbeef,0000000g",
        "00000000 deadbeef,00000001", "00000000,DEADBEEF,00000001", "00000000,deadbeef,00000001,"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(peers_crcs_parse(bad[i], back, 3), -1);
    assert_int_equal(peers_crcs_parse("", back, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fine),
        cmocka_unit_test(test_rotten),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_conflict_of_the_worker),
        cmocka_unit_test(test_hedge_of_a_part),
        cmocka_unit_test(test_without_checksums),
        cmocka_unit_test(test_header),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
