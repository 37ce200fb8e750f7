/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/fuse/worker/worker_fixture.h"

#include "fuse/peers/peers.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/obj.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char worker_dir[64];
struct server *worker;
static struct http_server *http_server;
static struct http *http;
char worker_url[64];
const struct sign_key *worker_key;
unsigned worker_threads;

void worker_put_file(const char *name, size_t size)
{
    cleanup_free char *path = path_join(worker_dir, name), *parent = xstrdup(path);
    *strrchr(parent, '/') = '\0';
    assert_int_equal(file_mkdirs(parent, 0755, NULL), 0);
    unsigned char *data = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        data[i] = (unsigned char)(i * 31 + i / 200 + name[0]);
    assert_int_equal(file_write_atomic(path, data, size, 0644, NULL), 0);
    free(data);
}

char *worker_conf_json(const char *below, int64_t quota)
{
    return xasprintf(
        "{\"namespace\":\"\",\"name\":\"t\",\"uid\":\"\",\"readOnly\":true,\"mounts\":[{\"mountPoint\":\"file://%s/%s\",\"path\":\"/\"}],"
        "\"cache\":{\"tiers\":[{\"medium\":\"SSD\",\"quota\":%" PRId64 "}]},"
        "\"workers\":{\"service\":\"t-cache.default.svc\",\"name\":\"t-cache\",\"count\":1,\"port\":9400}}",
        worker_dir, below, quota);
}

static void start_at(const char *json, const char *address)
{
    static char cache_dir[128];
    snprintf(cache_dir, sizeof cache_dir, "%s/cache", worker_dir);
    worker = server_new(COMPONENT_WORKER, NULL, cache_dir);
    worker->key = worker_key;
    server_configure(worker, json);
    struct serve_route routes[STATUS_ROUTES + SERVE_RANGE_ROUTES];
    status_routes(worker, routes);
    serve_range_routes(worker, routes + STATUS_ROUTES);
    http_server = server_listen(address, worker_threads ? worker_threads : 64, routes,
        worker->conf ? ARRAY_LEN(routes) : STATUS_ROUTES, NULL);
    assert_non_null(http_server);
    snprintf(worker_url, sizeof worker_url, "http://127.0.0.1:%d", serve_port(http_server));
    server_start(worker);
}

void worker_start(const char *json) { start_at(json, "127.0.0.1:0"); }

void worker_stop(void)
{
    serve_stop(http_server);
    inventory_stop();
    server_stop(worker);
    server_free(worker);
}

void worker_begin_again_empty(const char *json)
{
    cleanup_free char *address = xstrdup(worker_url + strlen("http://")),
                      *cache = path_join(worker_dir, "cache");
    worker_stop();
    assert_int_equal(file_remove_tree(cache, NULL), 0);
    start_at(json, address);
}

bool worker_becomes_ready(int seconds)
{
    for (int i = 0; i < seconds * 100 && !server_ready(worker); i++)
        clock_sleep_ns(10 * NS_PER_MS);
    return server_ready(worker);
}

int worker_setup(void **state)
{
    (void)state;
    strcpy(worker_dir, "/tmp/millrace-worker.XXXXXX");
    http = http_new(&(struct http_conf){0}, NULL);
    return mkdtemp(worker_dir) && http ? 0 : -1;
}

int worker_teardown(void **state)
{
    (void)state;
    http_free(http);
    return file_remove_tree(worker_dir, NULL);
}

int worker_ask(const char *method, const char *path, const char *range, struct http_resp *resp)
{
    cleanup_free char *full = xasprintf("%s%s", worker_url, path);
    const char *headers[] = {range, NULL};
    struct http_req req = {.method = method, .url = full, .headers = headers, .max_body = 64 << 20};
    struct err e = ERR_INIT;
    if (http_do(http, &req, resp, &e)) {
        print_error("%s\n", e.msg);
        return -1;
    }
    return resp->status;
}

char *worker_path(const char *name, const char *route)
{
    struct store_stat st;
    struct err e = ERR_INIT;
    assert_int_equal(store_stat_path(server_store(worker, 0), name, &st, &e), 0);
    struct cache_key key = {0, name, st.version, st.size};
    cleanup_free char *query = peers_query(&key);
    return xasprintf("%s?%s", route, query);
}

json_t *worker_status(void)
{
    cleanup_resp struct http_resp resp;
    assert_int_equal(worker_ask("GET", "/status", NULL, &resp), 200);
    struct err e = ERR_INIT;
    json_t *j = json_parse(buf_str(&resp.body), resp.body.len, &e);
    assert_non_null(j);
    return j;
}
