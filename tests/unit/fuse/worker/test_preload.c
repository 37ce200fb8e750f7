/* SPDX-License-Identifier: Apache-2.0 */
/* The preloader: what it keeps in a worker, what makes it look again, what it says when it can't.
 */
#include "tests/unit/fuse/worker/worker_fixture.h"

#include "fuse/worker/preload.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/task.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WAIT_NS (60 * NS_PER_S)

static int64_t look_ns; /* of preloaders that are started; each test begins with LOOK_NS */
#define LOOK_NS (50 * NS_PER_MS)

static int preload_setup(void **state)
{
    look_ns = LOOK_NS;
    return worker_setup(state);
}

/* A preloader on a thread of its own. */
struct preloader {
    struct server *s;
    struct preload_conf conf;
    struct load_path paths[2];
    struct task task;
    const char *url;
};

static void run_preloader(void *arg)
{
    struct preloader *k = arg;
    preload_run(k->s, &k->conf);
}

static void preloader_start_as(
    struct preloader *k, const char *json, const char *a, enum request_pin pin, const char *b)
{
    *k = (struct preloader){.paths = {{a, pin}, {b, REQUEST_PIN_AS_IS}}, .url = worker_url};
    k->s = server_new(COMPONENT_LOADER, NULL, NULL);
    server_configure(k->s, json);
    server_start(k->s);
    k->conf = (struct preload_conf){.paths = k->paths,
        .npaths = (size_t)(a != NULL) + (b != NULL),
        .threads = 4,
        .tick_ns = 20 * NS_PER_MS,
        .look_ns = look_ns,
        .urls = &k->url,
        .nurls = 1};
    assert_int_equal(task_start(&k->task, "preloader", run_preloader, k, NULL), 0);
}

static void preloader_start(struct preloader *k, const char *a, enum request_pin pin, const char *b)
{
    cleanup_free char *json = worker_conf_json("data", 64 << 20);
    preloader_start_as(k, json, a, pin, b);
}

static void preloader_stop(struct preloader *k)
{
    atomic_store(&k->s->cancel, true);
    task_stop(&k->task);
    server_stop(k->s);
    server_free(k->s);
}

static json_t *preloader_says(struct preloader *k)
{
    struct buf out = BUF_INIT(4096);
    buf_adds(&out, "{");
    pthread_mutex_lock(&k->s->mu);
    if (k->s->more)
        k->s->more(k->s->more_user, true, &out);
    pthread_mutex_unlock(&k->s->mu);
    buf_adds(&out, "}");
    json_t *j = json_parse(buf_str(&out), out.len, NULL);
    buf_free(&out);
    assert_non_null(j);
    return j;
}

/* Waits until it says that all files are there. */
static void keeps(struct preloader *k, int files, int64_t bytes)
{
    cleanup_free char *said = NULL;
    for (int64_t until = clock_mono_ns() + WAIT_NS; clock_mono_ns() < until;
         clock_sleep_ns(10 * NS_PER_MS)) {
        cleanup_json json_t *j = preloader_says(k);
        if (jget_bool(j, "load.complete", false) && jget_int(j, "load.files", 0) == files
            && jget_int(j, "load.bytes", 0) == bytes) {
            assert_true(jget_bool(j, "load.counted", false));
            assert_int_equal(jget_int(j, "load.loadedFiles", -1), files);
            assert_int_equal(jget_int(j, "load.loadedBytes", -1), bytes);
            assert_string_equal(jget_str(j, "load.reason", "x"), "");
            return;
        }
        free(said);
        said = json_dumps(j, 0);
    }
    fail_msg("it does not keep %d files: %s", files, said);
}

/* Waits until it says why it cannot. Caller frees. */
static char *gives_up(struct preloader *k, const char *reason)
{
    for (int64_t until = clock_mono_ns() + WAIT_NS; clock_mono_ns() < until;
         clock_sleep_ns(10 * NS_PER_MS)) {
        cleanup_json json_t *j = preloader_says(k);
        if (strcmp(jget_str(j, "load.reason", ""), reason) == 0) {
            assert_false(jget_bool(j, "load.complete", true));
            return xstrdup(jget_str(j, "load.message", ""));
        }
    }
    fail_msg("it never said %s", reason);
    return NULL;
}

static int64_t worker_number(const char *path)
{
    cleanup_json json_t *j = worker_status();
    return jget_int(j, path, -1);
}

static void put_many(const char *below, int n, size_t size)
{
    for (int i = 0; i < n; i++) {
        cleanup_free char *name = xasprintf("data/%s/f%d", below, i);
        worker_put_file(name, size);
    }
}

static void start_with_room(int64_t quota)
{
    cleanup_free char *json = worker_conf_json("data", quota);
    worker_start(json);
    assert_true(worker_becomes_ready(60));
}

static void test_keeps_what_changes(void **state)
{
    (void)state;
    struct preloader k;
    put_many("train", 20, 10000);
    put_many("other", 5, 10000);
    start_with_room(64 << 20);
    preloader_start(&k, "/train", REQUEST_PIN_AS_IS, NULL);
    keeps(&k, 20, 200000);
    assert_int_equal(worker_number("reads.storeBytes"), 200000); /* the rest is left alone */
    worker_put_file("data/train/f3", 20000);
    keeps(&k, 20, 210000);
    put_many("train", 21, 30000);
    keeps(&k, 21, 630000);
    cleanup_free char *gone = path_join(worker_dir, "data/train/f3");
    assert_int_equal(remove(gone), 0);
    keeps(&k, 20, 600000);
    preloader_stop(&k);
    worker_stop();
}

/* Its cache is lost, and it begins again under the same address: as a pod that was made again. */
static void test_keeps_when_a_worker_is_lost(void **state)
{
    (void)state;
    struct preloader k;
    put_many("train", 10, 50000);
    start_with_room(64 << 20);
    preloader_start(&k, "/train", REQUEST_PIN_AS_IS, NULL);
    keeps(&k, 10, 500000);
    cleanup_free char *json = worker_conf_json("data", 64 << 20);
    worker_begin_again_empty(json);
    for (int64_t until = clock_mono_ns() + WAIT_NS;
         worker_number("reads.storeBytes") != 500000 && clock_mono_ns() < until;)
        clock_sleep_ns(10 * NS_PER_MS);
    assert_int_equal(worker_number("reads.storeBytes"), 500000);
    keeps(&k, 10, 500000);
    preloader_stop(&k);
    worker_stop();
}

static void test_keeps_pins_of_its_list(void **state)
{
    (void)state;
    struct preloader k;
    put_many("a", 4, 10000);
    put_many("b", 3, 10000);
    start_with_room(64 << 20);
    preloader_start(&k, "/a", REQUEST_PIN, "/b");
    keeps(&k, 7, 70000);
    assert_int_equal(worker_number("cache.pinnedFiles"), 4);
    preloader_stop(&k);
    preloader_start(&k, "/b", REQUEST_PIN, NULL); /* the list was edited */
    keeps(&k, 3, 30000);
    assert_int_equal(worker_number("cache.pinnedFiles"), 3);
    preloader_stop(&k);
    preloader_start(&k, NULL, REQUEST_PIN_AS_IS, NULL); /* nothing is to be kept any more */
    keeps(&k, 0, 0);
    assert_int_equal(worker_number("cache.pinnedFiles"), 0);
    preloader_stop(&k);
    worker_stop();
}

/* One path in another: each file counts once, and is pinned as either says. */
static void test_paths_in_paths(void **state)
{
    (void)state;
    struct preloader k;
    put_many("a", 3, 1 << 20);
    put_many("a/b", 3, 1 << 20);
    start_with_room(8 << 20); /* twice a/b would not fit */
    preloader_start(&k, "/a/b", REQUEST_PIN, "/a");
    keeps(&k, 6, 6 << 20);
    assert_int_equal(worker_number("cache.pinnedFiles"), 3);
    preloader_stop(&k);
    preloader_start(&k, "/a/b/f0", REQUEST_PIN, "/");
    keeps(&k, 6, 6 << 20);
    assert_int_equal(worker_number("cache.pinnedFiles"), 1);
    preloader_stop(&k);
    worker_stop();
}

/* "/c" is not above "/ca". */
static void test_paths_beside_paths(void **state)
{
    (void)state;
    struct preloader k;
    put_many("c", 2, 1000);
    put_many("ca", 3, 1000);
    start_with_room(8 << 20);
    preloader_start(&k, "/ca", REQUEST_PIN, "/c");
    keeps(&k, 5, 5000);
    assert_int_equal(worker_number("cache.pinnedFiles"), 3);
    preloader_stop(&k);
    worker_stop();
}

/* What is said never to change is not listed again and again. */
static void test_immutable_is_listed_once(void **state)
{
    (void)state;
    struct preloader k;
    put_many("train", 2, 1000);
    start_with_room(8 << 20);
    cleanup_free char *json = worker_conf_json("data", 64 << 20);
    const char *at = strstr(json, "\"path\":\"/\"");
    cleanup_free char *immutable = xasprintf(
        "%.*s\"immutable\":true,\"readOnly\":true,%s", (int)(at - json), json, at);
    preloader_start_as(&k, immutable, "/train", REQUEST_PIN_AS_IS, NULL);
    keeps(&k, 2, 2000);
    put_many("train", 3, 1000);
    clock_sleep_ns(NS_PER_S); /* twenty times what it would look after */
    keeps(&k, 2, 2000);
    preloader_stop(&k);
    worker_stop();
}

static void test_says_why_not(void **state)
{
    (void)state;
    struct preloader k;
    put_many("large", 20, 1 << 20);
    put_many("half", 5, 1 << 20);
    start_with_room(8 << 20);
    preloader_start(&k, "/large", REQUEST_PIN_AS_IS, NULL);
    cleanup_free char *large = gives_up(&k, "TooLarge");
    assert_non_null(strstr(large, "do not fit into the 8.00MiB of 1 cache worker: raise"));
    assert_non_null(strstr(large, "MiB in"));
    for (int i = 0; i < 18; i++) { /* somebody takes files away */
        cleanup_free char *name = xasprintf("%s/data/large/f%d", worker_dir, i);
        assert_int_equal(remove(name), 0);
    }
    keeps(&k, 2, 2 << 20);
    preloader_stop(&k);
    preloader_start(&k, "/half", REQUEST_PIN, NULL);
    cleanup_free char *pins = gives_up(&k, "PinLimit");
    assert_non_null(strstr(pins, "pins may take half"));
    assert_true(!strstr(pins, "{\"") && !strstr(pins, "://")); /* words, not an answer of HTTP */
    preloader_stop(&k);
    preloader_start(&k, "/nowhere", REQUEST_PIN_AS_IS, "/half/f0");
    cleanup_free char *nowhere = gives_up(&k, "PathNotFound");
    assert_non_null(strstr(nowhere, "/nowhere"));
    cleanup_json json_t *j = preloader_says(&k); /* what is there is loaded all the same */
    assert_int_equal(jget_int(j, "load.loadedFiles", -1), 1);
    assert_true(jget_bool(j, "load.counted", false));
    preloader_stop(&k);
    worker_stop();
}

static void make_dir(const char *below)
{
    cleanup_free char *dir = path_join(worker_dir, below);
    assert_int_equal(mkdir(dir, 0755), 0);
}

/* A directory, or a store, that is there and has no file is not preloaded: it is a mistyped one, or
 * one that is still to be filled. */
static void test_says_nothing_is_found(void **state)
{
    (void)state;
    struct preloader k;
    make_dir("data");
    start_with_room(8 << 20);
    preloader_start(&k, "/", REQUEST_PIN_AS_IS, NULL);
    cleanup_free char *root = gives_up(&k, "NothingFound");
    cleanup_free char *store = xasprintf("/: there is no file in file://%s/data", worker_dir);
    assert_string_equal(root, store);
    put_many("train", 2, 1000);
    make_dir("data/val");
    keeps(&k, 2, 2000);
    preloader_stop(&k);
    preloader_start(&k, "/val/", REQUEST_PIN_AS_IS, "/train");
    cleanup_free char *val = gives_up(&k, "NothingFound");
    cleanup_free char *dir = xasprintf("/val/: there is no file in file://%s/data/val", worker_dir);
    assert_string_equal(val, dir);
    cleanup_json json_t *j = preloader_says(&k); /* what is there is loaded all the same */
    assert_int_equal(jget_int(j, "load.loadedFiles", -1), 2);
    put_many("val", 1, 500);
    keeps(&k, 3, 2500);
    preloader_stop(&k);
    /* a file that a longer path gives is found by both */
    preloader_start(&k, "/val/f0", REQUEST_PIN_AS_IS, "/val");
    keeps(&k, 1, 500);
    preloader_stop(&k);
    worker_stop();
}

static void ask_worker_for(
    const char *method, const char *name, const char *route, const char *more)
{
    cleanup_free char *path = worker_path(name, route), *whole = xasprintf("%s%s", path, more);
    cleanup_resp struct http_resp resp;
    assert_int_equal(worker_ask(method, whole, NULL, &resp), 200);
}

static void read_files(const char *below, int n)
{
    for (int i = 0; i < n; i++) {
        cleanup_free char *name = xasprintf("%s/f%d", below, i);
        ask_worker_for("GET", name, "/v1/data", "");
    }
}

static void load_files(const char *below, int n, const char *more)
{
    for (int i = 0; i < n; i++) {
        cleanup_free char *name = xasprintf("%s/f%d", below, i);
        ask_worker_for("POST", name, "/v1/load", more);
    }
}

/* Reads other files, more than there is room for, until some bytes that were loaded are gone. */
static int64_t read_until_evicted(int64_t before)
{
    for (int i = 0; i < 50 && worker_number("evictedLoadedBytes") == before; i++)
        read_files("other", 30);
    return worker_number("evictedLoadedBytes");
}

static void test_worker_counts_what_was_loaded(void **state)
{
    (void)state;
    put_many("train", 4, 1 << 20);
    put_many("other", 30, 1 << 20);
    worker_put_file("data/large", 140 << 20);
    start_with_room(16 << 20);
    load_files("train", 4, "");
    read_files("other", 30);
    read_files("other", 30);
    assert_true(worker_number("cache.evictedBytes") > 0);
    assert_int_equal(worker_number("evictedLoadedBytes"), 0);
    load_files("train", 4, "&mark=7");
    int64_t evicted = read_until_evicted(0);
    assert_in_range(evicted, 1 << 20, 16 << 20); /* on a busy machine some are fetched twice */
    load_files("train", 4, "&mark=7");
    cleanup_resp struct http_resp resp;
    assert_int_equal(worker_ask("POST", "/v1/unmark?mark=7", NULL, &resp), 200);
    evicted = read_until_evicted(evicted);
    load_files("train", 4, "&mark=7");
    cleanup_resp struct http_resp other;
    assert_int_equal(worker_ask("POST", "/v1/unmark?mark=8", NULL, &other), 200);
    evicted = worker_number("evictedLoadedBytes");
    int64_t all = worker_number("cache.evictedBytes");
    for (int i = 0; i < 4; i++)
        read_files("other", 30);
    assert_int_equal(worker_number("evictedLoadedBytes"), evicted); /* no mark is left */
    assert_true(worker_number("cache.evictedBytes") > all + (30 << 20));
    ask_worker_for("POST", "large", "/v1/load", "&off=67108864&len=8388608&mark=7");
    assert_in_range(read_until_evicted(evicted) - evicted, 1 << 20, 32 << 20); /* of a part of it */
    cleanup_free char *path = worker_path("train/f0", "/v1/load"),
                      *bad = xasprintf("%s&mark=256", path);
    cleanup_resp struct http_resp refused;
    assert_int_equal(worker_ask("POST", bad, NULL, &refused), 400);
    cleanup_resp struct http_resp none;
    assert_int_equal(worker_ask("POST", "/v1/unmark?mark=x", NULL, &none), 400);
    worker_stop();
}

/* It does not wait until it would look anyway, and believes nothing until then. */
static void test_keeps_what_was_evicted(void **state)
{
    (void)state;
    struct preloader k;
    put_many("train", 6, 1 << 20);
    put_many("other", 30, 1 << 20);
    start_with_room(16 << 20);
    look_ns = 3600 * NS_PER_S;
    preloader_start(&k, "/train", REQUEST_PIN_AS_IS, NULL);
    keeps(&k, 6, 6 << 20);
    cleanup_free char *train = path_join(worker_dir, "data/train"),
                      *away = path_join(worker_dir, "away");
    assert_int_equal(rename(train, away), 0); /* so that it can't load */
    assert_true(read_until_evicted(0) > 0);
    free(gives_up(&k, "PathNotFound"));
    assert_int_equal(rename(away, train), 0);
    keeps(&k, 6, 6 << 20);
    cleanup_json json_t *j = preloader_says(&k);
    assert_int_equal(jget_int(j, "load.evictedBytes", -1), worker_number("evictedLoadedBytes"));
    preloader_stop(&k);
    worker_stop();
}

/* Nothing of it is evicted: it does not look again. */
static void test_others_are_evicted(void **state)
{
    (void)state;
    struct preloader k;
    put_many("train", 4, 1 << 20);
    put_many("other", 30, 1 << 20);
    start_with_room(16 << 20);
    look_ns = 3600 * NS_PER_S;
    preloader_start(&k, "/train", REQUEST_PIN, NULL);
    keeps(&k, 4, 4 << 20);
    int64_t requests = (int64_t)worker->requests;
    for (int i = 0; i < 5; i++) {
        read_files("other", 30);
        keeps(&k, 4, 4 << 20);
    }
    assert_true(worker_number("cache.evictedBytes") > 100 << 20);
    assert_int_equal(worker_number("evictedLoadedBytes"), 0);
    clock_sleep_ns(NS_PER_S); /* fifty times what it would ask the worker after */
    assert_int_equal(worker->requests, requests + 150);
    preloader_stop(&k);
    worker_stop();
}

/* What else is read leaves no room for it: it does not load for ever what is evicted at once. */
static void test_evicted_again_and_again(void **state)
{
    (void)state;
    struct preloader k;
    put_many("train", 10, 1 << 20);
    put_many("other", 30, 1 << 20);
    start_with_room(16 << 20);
    look_ns = 3600 * NS_PER_S;
    preloader_start(&k, "/train", REQUEST_PIN_AS_IS, NULL);
    keeps(&k, 10, 10 << 20);
    cleanup_free char *reason = NULL;
    for (int64_t until = clock_mono_ns() + WAIT_NS; clock_mono_ns() < until;) {
        read_files("other", 30);
        cleanup_json json_t *j = preloader_says(&k);
        free(reason);
        reason = xstrdup(jget_str(j, "load.reason", ""));
        if (*reason)
            break;
    }
    assert_string_equal(reason, "CacheTooSmall");
    cleanup_free char *why = gives_up(&k, "CacheTooSmall");
    assert_non_null(strstr(why, "raise spec.cache.tiers[].quota"));
    keeps(&k, 10, 10 << 20); /* nobody reads other files any more */
    preloader_stop(&k);
    worker_stop();
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, preload_setup, worker_teardown)
    const struct CMUnitTest tests[] = {
        T(test_keeps_what_changes),
        T(test_keeps_when_a_worker_is_lost),
        T(test_keeps_pins_of_its_list),
        T(test_paths_in_paths),
        T(test_paths_beside_paths),
        T(test_immutable_is_listed_once),
        T(test_says_why_not),
        T(test_says_nothing_is_found),
        T(test_worker_counts_what_was_loaded),
        T(test_keeps_what_was_evicted),
        T(test_others_are_evicted),
        T(test_evicted_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
