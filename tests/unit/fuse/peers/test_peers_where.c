/* SPDX-License-Identifier: Apache-2.0 */
/* Which cache worker has what of a file: each says it of itself, and one that does not is told. */
#include "tests/lib/unit.h"

#include "fuse/peers/peers.h"
#include "lib/base/mem.h"
#include "lib/http/serve.h"

#include <stdio.h>
#include <string.h>

#define WORKERS 4
#define SIZE    (40 * PEERS_CHUNK + 5)

struct said {
    int status;
    const char *body;
    char asked[128];
};

static void on_cached(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct said *s = user;
    snprintf(s->asked, sizeof s->asked, "%s", req->query);
    resp->status = s->status;
    buf_adds(&resp->body, s->body);
}

/* One tells, one talks nonsense, one does not know the question, and of one nobody listens. */
static void test_each_says_what_it_has(void **state)
{
    (void)state;
    const char *json = "{\"namespace\":\"\",\"name\":\"t\",\"uid\":\"\",\"readOnly\":true,"
                       "\"mounts\":[{\"mountPoint\":\"file:///d\",\"path\":\"/\"}],"
                       "\"cache\":{\"tiers\":[{\"medium\":\"MEM\",\"quota\":1000000}]}}";
    static struct said said[WORKERS] = {{200, "123456\n", ""}, {200, "12x", ""}, {404, "7", ""}};
    struct http_server *server[WORKERS];
    char url[WORKERS][64];
    const char *urls[WORKERS];
    struct err e = ERR_INIT;
    for (int i = 0; i < WORKERS; i++) {
        const struct serve_route route = {"GET", PEERS_CACHED, on_cached, &said[i]};
        server[i] = serve_start(
            &(struct serve_conf){.address = "127.0.0.1:0", .routes = &route, .nroutes = 1}, &e);
        assert_non_null(server[i]);
        snprintf(url[i], sizeof url[i], "http://127.0.0.1:%d", serve_port(server[i]));
        urls[i] = url[i];
    }
    serve_stop(server[3]);
    struct conf *conf = conf_parse(json, strlen(json), &e);
    assert_non_null(conf);
    struct store *none = NULL;
    struct peers *p = peers_new(
        &(struct peers_conf){.conf = conf, .stores = &none, .urls = urls, .nurls = WORKERS}, &e);
    assert_non_null(p);
    const struct cache_key key = {0, "a/f 1", "v1", SIZE};
    struct peers_share *shares;
    assert_int_equal(peers_shares(p, &key, &shares), WORKERS);
    peers_shares_ask(p, &key, shares, WORKERS);
    uint64_t all = 0;
    for (int i = 0; i < WORKERS; i++) {
        char name[16];
        uint64_t owns = 0;
        snprintf(name, sizeof name, "worker-%d", i);
        assert_string_equal(shares[i].worker, name);
        for (uint64_t off = 0; off < SIZE; off += PEERS_CHUNK)
            if (peers_owner("worker", WORKERS, "file:///d", "a/f 1", off) == i)
                owns += MIN(PEERS_CHUNK, SIZE - off);
        assert_int_equal(shares[i].owns, owns);
        all += owns;
    }
    assert_int_equal(all, SIZE);
    assert_string_equal(said[0].asked, "mount=0&path=a/f%201&version=v1&size=2684354565");
    assert_int_equal(shares[0].has, 123456);
    assert_string_equal(shares[0].why, "");
    assert_string_equal(shares[1].why, "it answers with status 200, and no number");
    assert_string_equal(shares[2].why, "it answers with status 404");
    assert_non_null(strstr(shares[3].why, "onnect"));
    peers_shares_free(shares, WORKERS);
    /* what has no bytes is nobody's */
    assert_int_equal(peers_shares(p, &(struct cache_key){0, "e", "v", 0}, &shares), 0);
    peers_shares_free(shares, 0);
    peers_free(p);
    conf_free(conf);
    for (int i = 0; i < 3; i++)
        serve_stop(server[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_says_what_it_has)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
