/* SPDX-License-Identifier: Apache-2.0 */
/* What a client says of itself at /status, /metrics, /readyz and /healthz: every key, and numbers
 * that agree. */
#include "tests/lib/unit.h"

#include "fuse/cache/cache.h"
#include "fuse/file/file.h"
#include "fuse/file/kept.h"
#include "fuse/peers/peers.h"
#include "fuse/prefetch/hint.h"
#include "fuse/report/stall.h"
#include "fuse/report/status.h"
#include "lib/base/file.h"
#include "lib/base/ioctl.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "lib/sign/sign.h"
#include "tests/fake/store.h"
#include "tests/lib/eventually.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct fx {
    char dir[64], address[32], metrics_address[32];
    int port, metrics_port;
    struct conf_mount mounts[2];
    struct conf_tier tier;
    struct conf conf;
    struct fake_store *fake[2];
    struct store *stores[2];
    struct peers *peers;
    struct cache *cache;
    struct inodes *inodes;
    struct tree *tree;
    struct files *files;
    struct hints *hints;
    struct stalls *stalls;
    struct status *status;
};

static void changed(void *user, uint64_t dir, const char *name)
{
    (void)user;
    (void)dir;
    (void)name;
}

static void who(void *user, pid_t pid, char out[CALLER_MAX])
{
    (void)user;
    snprintf(out, CALLER_MAX, "pod \"%d\"", (int)pid);
}

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&a, &len), 0);
    close(s);
    return ntohs(a.sin_port);
}

static struct fx *fx_new(void)
{
    struct fx *x = xcalloc(1, sizeof *x);
    struct err e = ERR_INIT;
    bool fresh;
    snprintf(x->dir, sizeof x->dir, "/tmp/millrace-status.XXXXXX");
    assert_non_null(mkdtemp(x->dir));
    x->tier = (struct conf_tier){CONF_MEM, INT64_C(64) << 20};
    x->conf = (struct conf){.mounts = x->mounts, .nmounts = 2, .tiers = &x->tier, .ntiers = 1};
    for (int i = 0; i < 2; i++) {
        x->mounts[i] = (struct conf_mount){.mount_point = (char *)(i ? "s3://\"b\"" : "s3://a"),
            .path = (char *)(i ? "/b" : "/a")};
        x->fake[i] = fake_store_new(STORE_CAP_WRITE);
        x->stores[i] = fake_store(x->fake[i]);
    }
    x->peers = peers_new(&(struct peers_conf){.conf = &x->conf, .stores = x->stores}, &e);
    assert_non_null(x->peers);
    struct cache_conf cc = {
        .tiers = &x->tier, .ntiers = 1, .fetch_threads = 2, .source = {peers_fetch, x->peers}};
    assert_non_null(x->cache = cache_new(&cc, &e));
    cleanup_free char *path = path_join(x->dir, "index");
    struct inodes_conf ic = {
        .path = path, .identity = 1, .dir_mode = 0755, .file_mode = 0644, .nmounts = 2};
    assert_non_null(x->inodes = inodes_open(&ic, &fresh, &e));
    struct tree_conf tc = {.conf = &x->conf,
        .inodes = x->inodes,
        .stores = x->stores,
        .sync_ns = 600 * NS_PER_S,
        .changed = changed};
    assert_non_null(x->tree = tree_new(&tc, &e));
    struct files_conf fc = {.inodes = x->inodes,
        .tree = x->tree,
        .cache = x->cache,
        .conf = &x->conf,
        .stage_dir = x->dir};
    assert_non_null(x->files = files_new(&fc, &e));
    assert_non_null(x->hints = hints_new(x->files, x->dir, false, &e));
    x->stalls = stalls_new(who, NULL);
    x->status = status_new();
    x->port = free_port();
    snprintf(x->address, sizeof x->address, "127.0.0.1:%d", x->port);
    x->metrics_port = free_port();
    snprintf(x->metrics_address, sizeof x->metrics_address, "127.0.0.1:%d", x->metrics_port);
    status_listen(x->status, x->address, x->metrics_address);
    return x;
}

static void use_all(struct fx *x)
{
    status_conf(x->status, &x->conf);
    status_data(x->status,
        &(struct status_sources){x->cache, x->peers, x->inodes, x->hints, x->stalls, x->dir});
}

static void fx_free(struct fx *x)
{
    status_free(x->status);
    hints_free(x->hints);
    files_free(x->files);
    stalls_free(x->stalls);
    tree_free(x->tree);
    cache_free(x->cache);
    peers_free(x->peers);
    inodes_close(x->inodes, true);
    for (int i = 0; i < 2; i++)
        fake_store_free(x->fake[i]);
    file_remove_tree(x->dir, NULL);
    free(x);
}

/* The status code; *body (caller frees) may be NULL. */
static int get_at(int port, const char *path, char **body)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static char answer[256 << 10];
    size_t len = 0;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), code = 0;
    assert_int_equal(connect(s, (struct sockaddr *)&a, sizeof a), 0);
    dprintf(s, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    for (ssize_t n; (n = recv(s, answer + len, sizeof answer - 1 - len, 0)) > 0;)
        len += (size_t)n;
    close(s);
    answer[len] = '\0';
    assert_int_equal(sscanf(answer, "HTTP/1.1 %d", &code), 1);
    char *end = strstr(answer, "\r\n\r\n");
    assert_non_null(end);
    if (body)
        *body = xstrdup(end + 4);
    return code;
}

static int get(struct fx *x, const char *path, char **body) { return get_at(x->port, path, body); }

static json_t *get_status(struct fx *x)
{
    cleanup_free char *body = NULL;
    assert_int_equal(get(x, "/status", &body), 200);
    json_t *j = json_loads(body, 0, NULL);
    if (!j)
        fail_msg("no JSON: %s", body);
    return j;
}

static int64_t number(struct fx *x, const char *path)
{
    json_t *j = get_status(x);
    const json_t *v = jget(j, path);
    if (!json_is_integer(v))
        fail_msg("%s is no number", path);
    int64_t n = json_integer_value(v);
    json_decref(j);
    return n;
}

/* A line of the metrics; it must be there once. */
static double metric(struct fx *x, const char *name)
{
    cleanup_free char *body = NULL;
    double value = -1;
    unsigned found = 0;
    assert_int_equal(get_at(x->metrics_port, "/metrics", &body), 200);
    char *rest = body, *line;
    size_t len = strlen(name);
    while ((line = strsep(&rest, "\n")))
        if (strncmp(line, name, len) == 0 && line[len] == ' ') {
            value = strtod(line + len, NULL);
            found++;
        }
    if (found != 1)
        fail_msg("%s is there %u times", name, found);
    return value;
}

static void read_file(struct fx *x, const char *name, size_t size)
{
    struct err e = ERR_INIT;
    struct cache_key key = {.mount = 0, .path = name, .version = "v1", .size = size};
    struct cache_file *f = cache_open(x->cache, &key, &e);
    cleanup_free char *buf = xmalloc(size);
    assert_non_null(f);
    assert_int_equal(cache_read(f, buf, size, 0, &e), size);
    cache_close(f);
}

static void test_before_anything(void **state)
{
    (void)state;
    struct fx *x = fx_new();
    cleanup_free char *why = NULL, *fine = NULL;
    assert_int_equal(get(x, "/healthz", &fine), 200);
    assert_string_equal(fine, "ok\n");
    assert_int_equal(get(x, "/readyz", &why), 503);
    assert_string_equal(why, "Starting: the store is being looked at\n");
    json_t *j = get_status(x);
    assert_string_equal(jget_str(j, REPORT_COMPONENT, ""), COMPONENT_CLIENT);
    assert_false(jget_bool(j, REPORT_READY, true) || jget_bool(j, REPORT_SERVING, true));
    assert_string_equal(jget_str(j, REPORT_REASON, "?"), "");
    assert_string_equal(jget_str(j, REPORT_PROFILE, "?"), "");
    assert_int_equal(jget_len(j, REPORT_MOUNTS), 0);
    assert_int_equal(jget_len(j, REPORT_STALLS), 0);
    json_decref(j);
    assert_true(metric(x, "millrace_ready") == 0 && metric(x, "millrace_serving") == 0);
    assert_true(metric(x, "millrace_cache_used_bytes") == 0);
    assert_int_equal(get(x, "/nothing", NULL), 404);
    assert_int_equal(get(x, "/metrics", NULL), 404);
    assert_int_equal(get_at(x->metrics_port, "/status", NULL), 404);
    assert_int_equal(get_at(x->metrics_port, "/healthz", NULL), 404);
    fx_free(x);
}

static void test_life(void **state)
{
    (void)state;
    struct fx *x = fx_new();
    cleanup_free char *why = NULL, *now = NULL, *ready = NULL;
    use_all(x);
    status_mount(x->status, 1, "AccessDenied", "s3://\"b\": no");
    assert_int_equal(get(x, "/readyz", &why), 503);
    assert_string_equal(why, "AccessDenied: s3://\"b\": no\n");
    json_t *j = get_status(x);
    assert_int_equal(jget_len(j, REPORT_MOUNTS), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *m = json_array_get(jget_arr(j, REPORT_MOUNTS), i);
        assert_string_equal(jget_str(m, REPORT_MOUNT_POINT, ""), x->mounts[i].mount_point);
        assert_string_equal(jget_str(m, REPORT_MOUNT_PATH, ""), x->mounts[i].path);
        assert_int_equal(jget_bool(m, REPORT_READY, i), !i);
        assert_string_equal(jget_str(m, REPORT_REASON, "?"), i ? "AccessDenied" : "");
    }
    assert_string_equal(jget_str(j, REPORT_REASON, ""), "AccessDenied"); /* of the whole, too */
    json_decref(j);
    status_fail(x->status, "CacheError", "the disk is gone");
    assert_int_equal(get(x, "/readyz", &now), 503);
    assert_string_equal(now, "CacheError: the disk is gone\n"); /* its own comes first */
    status_mount(x->status, 1, "", "");
    status_ready(x->status);
    status_serving(x->status, true);
    status_profile(x->status, true, NULL);
    assert_int_equal(get(x, "/readyz", &ready), 200);
    assert_string_equal(ready, "ok\n");
    j = get_status(x);
    assert_true(jget_bool(j, REPORT_READY, false) && jget_bool(j, REPORT_SERVING, false));
    assert_null(jget(j, REPORT_KERNEL_RELEASE));
    assert_string_equal(jget_str(j, REPORT_REASON, "?"), "");
    assert_string_equal(jget_str(j, REPORT_PROFILE, ""), "sealed");
    json_decref(j);
    assert_true(metric(x, "millrace_ready") == 1 && metric(x, "millrace_serving") == 1);
    status_profile(x->status, false, NULL);
    status_serving(x->status, false);
    status_kernel(x->status, true, false);
    j = get_status(x);
    assert_true(strlen(jget_str(j, REPORT_KERNEL_RELEASE, "")) > 2);
    assert_true(jget_bool(j, REPORT_KERNEL_PASSTHROUGH, false));
    assert_false(jget_bool(j, REPORT_KERNEL_RESEND, true));
    assert_string_equal(jget_str(j, REPORT_KERNEL_REFUSED, "?"), "");
    assert_string_equal(jget_str(j, REPORT_PROFILE, ""), "open");
    assert_false(jget_bool(j, REPORT_SERVING, true));
    json_decref(j);
    status_data(x->status, NULL); /* what it was made from is gone */
    assert_int_equal(number(x, REPORT_CACHE_CAPACITY), 0);
    fx_free(x);
}

/* What the sources count is in both, under each name. */
static void test_numbers(void **state)
{
    (void)state;
    struct fx *x = fx_new();
    struct err e = ERR_INIT;
    use_all(x);
    fake_store_write(x->fake[0], "f", "0123456789");
    fake_store_write(x->fake[0], "g", "01234");
    assert_int_equal(number(x, REPORT_READS_STORE), 0);
    read_file(x, "f", 10);
    assert_int_equal(number(x, REPORT_READS_STORE), 10);
    assert_int_equal(number(x, REPORT_READS_WORKER), 0);
    read_file(x, "f", 10); /* what was fetched for one reader may count for the next */
    int64_t hit = number(x, REPORT_READS_CACHE);
    read_file(x, "f", 10);
    assert_int_equal(number(x, REPORT_READS_CACHE), hit + 10);
    assert_int_equal(number(x, REPORT_READS_STORE), 10);
    assert_int_equal(number(x, REPORT_CACHE_FILES), 1);
    assert_int_equal(number(x, REPORT_CACHE_COMPLETE), 1);
    assert_int_equal(number(x, REPORT_CACHE_CAPACITY), INT64_C(64) << 20);
    assert_true(number(x, REPORT_CACHE_USED) >= 10);
    struct hint_msg m = {.list = 1, .len = 19};
    memcpy(m.text, "a/g\nb/none\n/x\na/f\n\n", m.len);
    assert_int_equal(hints_add(x->hints, INODE_ROOT, &m, &e), 0);
    eventually(number(x, REPORT_HINTS_DONE) == 3);
    assert_int_equal(number(x, REPORT_INDEX_INODES), 5); /* the root, a, b, f and g */
    json_t *j = get_status(x);
    assert_string_equal(jget_str(j, REPORT_HINTS_FIRST_MISSING, ""), "b/none");
    assert_true(jget_int(j, REPORT_INDEX_NAME_BYTES, 0) >= 4);
    static const struct {
        const char *path;
        int64_t value;
    } hints[] = {{REPORT_HINTS_LISTS, 1}, {REPORT_HINTS_ENTRIES, 3}, {REPORT_HINTS_DONE, 3},
        {REPORT_HINTS_BYTES, 15}, {REPORT_HINTS_FOLLOWED, 0}, {REPORT_HINTS_MISSING, 1},
        {REPORT_HINTS_REFUSED, 1}, {REPORT_HINTS_FAILED, 0}};
    for (size_t i = 0; i < ARRAY_LEN(hints); i++)
        assert_int_equal(jget_int(j, hints[i].path, -1), hints[i].value);
    static const struct {
        const char *metric, *path;
    } same[] = {{"millrace_read_bytes_total{from=\"cache\"}", REPORT_READS_CACHE},
        {"millrace_read_bytes_total{from=\"store\"}", REPORT_READS_STORE},
        {"millrace_read_bytes_total{from=\"worker\"}", REPORT_READS_WORKER},
        {"millrace_cache_used_bytes", REPORT_CACHE_USED},
        {"millrace_cache_capacity_bytes", REPORT_CACHE_CAPACITY},
        {"millrace_cache_files", REPORT_CACHE_FILES},
        {"millrace_cache_pinned_bytes", REPORT_CACHE_PINNED},
        {"millrace_cache_pinned_files", REPORT_CACHE_PINNED_FILES},
        {"millrace_pending_files", REPORT_WRITES_PENDING},
        {"millrace_upload_bytes_total", REPORT_WRITES_BYTES},
        {"millrace_index_inodes", REPORT_INDEX_INODES}, {"millrace_hint_lists", REPORT_HINTS_LISTS},
        {"millrace_hint_bytes_total", REPORT_HINTS_BYTES},
        {"millrace_hint_entries_total{result=\"given\"}", REPORT_HINTS_ENTRIES},
        {"millrace_hint_entries_total{result=\"done\"}", REPORT_HINTS_DONE},
        {"millrace_hint_entries_total{result=\"followed\"}", REPORT_HINTS_FOLLOWED},
        {"millrace_hint_entries_total{result=\"missing\"}", REPORT_HINTS_MISSING},
        {"millrace_hint_entries_total{result=\"refused\"}", REPORT_HINTS_REFUSED},
        {"millrace_hint_entries_total{result=\"failed\"}", REPORT_HINTS_FAILED}};
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        assert_true(metric(x, same[i].metric) == (double)jget_int(j, same[i].path, -1));
    json_decref(j);
    assert_true(metric(x, "millrace_workers_down") == 0);
    assert_true(metric(x, "millrace_cache_evicted_bytes_total") == 0);
    assert_true(metric(x, "millrace_uploads_total{result=\"failed\"}") == 0);
    fx_free(x);
}

/* What went to no store is told of, as long as it lies there. */
static void test_kept(void **state)
{
    (void)state;
    struct fx *x = fx_new();
    struct err e = ERR_INIT;
    struct sidecar note = {.why = KEPT_CONFLICT, .path = "runs/\"1\"/ckpt"};
    use_all(x);
    assert_int_equal(number(x, REPORT_KEPT_FILES), 0);
    assert_true(metric(x, "millrace_kept_files") == 0);
    cleanup_free char *content = path_join(x->dir, "s0000000000000001-2-1"),
                      *beside = xasprintf("%s.path", content), *dir = kept_dir(x->dir);
    assert_int_equal(file_write_atomic(content, "12345", 5, 0600, &e), 0);
    assert_int_equal(sidecar_write(beside, &note, false, &e), 0);
    assert_int_equal(kept_add(x->dir, "s0000000000000001-2-1", &note, &e), 0);
    json_t *j = get_status(x);
    assert_int_equal(jget_int(j, REPORT_KEPT_FILES, 0), 1);
    assert_int_equal(jget_int(j, REPORT_KEPT_BYTES, 0), 5);
    assert_string_equal(jget_str(j, REPORT_KEPT_DIR, ""), dir);
    assert_string_equal(jget_str(j, REPORT_KEPT_NODE_DIR, "?"), "");
    assert_int_equal(jget_len(j, REPORT_KEPT_PATHS), 1);
    const json_t *k = json_array_get(jget_arr(j, REPORT_KEPT_PATHS), 0);
    assert_string_equal(jget_str(k, REPORT_KEPT_PATH, ""), note.path);
    assert_string_equal(jget_str(k, REPORT_KEPT_WHY, ""), KEPT_CONFLICT);
    assert_string_equal(jget_str(k, REPORT_KEPT_FILE, ""), "s0000000000000001-2-1");
    json_decref(j);
    assert_true(metric(x, "millrace_kept_files") == 1);
    assert_true(metric(x, "millrace_kept_bytes") == 5);
    assert_int_equal(file_remove_tree(dir, &e), 0);
    assert_int_equal(number(x, REPORT_KEPT_FILES), 0);
    fx_free(x);
}

/* Pins are counted, with what they may have. */
static void test_pins(void **state)
{
    (void)state;
    struct fx *x = fx_new();
    struct err e = ERR_INIT;
    use_all(x);
    fake_store_write(x->fake[0], "f", "0123456789");
    struct cache_key key = {.mount = 0, .path = "f", .version = "v1", .size = 10};
    struct cache_file *f = cache_pin(x->cache, &key, 0, 10, &e);
    assert_non_null(f);
    assert_int_equal(cache_fill(f, 0, 10, &e), 0);
    assert_int_equal(number(x, REPORT_CACHE_PINNED_FILES), 1);
    assert_true(number(x, REPORT_CACHE_PINNED) >= 10);
    assert_true(number(x, REPORT_CACHE_PINNED_MOST) > number(x, REPORT_CACHE_PINNED));
    cache_close(f);
    fx_free(x);
}

/* Who waited, by a name that is no label's text by itself. */
static void test_stalls(void **state)
{
    (void)state;
    struct fx *x = fx_new();
    use_all(x);
    fake_store_write(x->fake[0], "f", "0123456789");
    for (int i = 0; i < 3; i++) {
        struct stall_caller *c = stalls_begin(x->stalls, 42);
        read_file(x, "f", 10);
        clock_sleep_ns(20 * NS_PER_MS);
        stalls_end(x->stalls, c);
    }
    json_t *j = get_status(x);
    assert_int_equal(jget_len(j, REPORT_STALLS), 1);
    const json_t *s = json_array_get(jget_arr(j, REPORT_STALLS), 0);
    assert_string_equal(jget_str(s, REPORT_STALL_CALLER, ""), "pod \"42\"");
    assert_int_equal(jget_int(s, REPORT_STALL_READS, 0), 3);
    int64_t waiting = jget_int(s, REPORT_STALL_WAITING_MS, 0);
    assert_true(waiting >= 60 && waiting < 60000);
    assert_true(jget_int(s, REPORT_STALL_STORE_MS, -1) >= 0
        && jget_int(s, REPORT_STALL_STORE_MS, 0) <= waiting);
    assert_int_equal(jget_int(s, REPORT_STALL_WORKER_MS, -1), 0);
    assert_true(jget_int(s, REPORT_STALL_DISK_MS, -1) >= 0);
    assert_true(jget_int(j, REPORT_UP_MS, 0) >= waiting);
    json_decref(j);
    double seconds = metric(x, "millrace_read_waiting_seconds_total{caller=\"pod \\\"42\\\"\"}");
    assert_true(seconds * 1000 >= (double)waiting - 1 && seconds * 1000 <= (double)waiting + 1);
    static const char *const what[] = {"store", "worker", "disk"};
    for (size_t i = 0; i < ARRAY_LEN(what); i++) {
        cleanup_free char *name = xasprintf(
            "millrace_read_wait_seconds_total{caller=\"pod \\\"42\\\"\",for=\"%s\"}", what[i]);
        assert_true(metric(x, name) >= 0);
    }
    fx_free(x);
}

/* Who does not have the key of the Dataset is told no names and messages. */
static void test_strangers(void **state)
{
    (void)state;
    struct fx *x = fx_new();
    status_conf(x->status, &x->conf);
    status_mount(x->status, 0, "Unreachable", "secret.example does not answer");
    char *body;
    for (int keyed = 0; keyed < 2; keyed++, free(body)) {
        status_key(x->status, keyed ? &(struct sign_key){"the key of it is this!"} : NULL);
        assert_int_equal(get(x, "/status", &body), 200);
        assert_int_equal(strstr(body, "secret.example") == NULL, keyed);
        assert_int_equal(strstr(body, x->mounts[0].mount_point) == NULL, keyed);
    }
    fx_free(x);
}

/* An address that is taken is not an error. */
static void test_address_is_taken(void **state)
{
    (void)state;
    struct fx *x = fx_new();
    struct status *other = status_new();
    status_listen(other, x->address, x->metrics_address);
    cleanup_buf struct buf out = BUF_INIT(1 << 20);
    status_json(other, &out);
    assert_non_null(strstr(buf_str(&out), "\"" REPORT_READY "\":false"));
    assert_int_equal(get(x, "/healthz", NULL), 200);
    status_free(other);
    status_free(NULL);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_anything),
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_stalls),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_address_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
