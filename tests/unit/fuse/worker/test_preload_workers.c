/* SPDX-License-Identifier: Apache-2.0 */
/* The preloader, while the number of cache workers changes. */
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

#define LONG_NS (60 * NS_PER_S)

static struct server *keeper;
static char said_last[REPORT_STARTS_LEN];

static void run_keeper(void *arg) { preload_run(keeper, arg); }

static json_t *keeper_says(void)
{
    cleanup_buf struct buf out = BUF_INIT(4096);
    buf_adds(&out, "{");
    pthread_mutex_lock(&keeper->mu);
    if (keeper->more)
        keeper->more(keeper->more_user, true, &out);
    pthread_mutex_unlock(&keeper->mu);
    buf_adds(&out, "}");
    return json_parse(buf_str(&out), out.len, NULL);
}

/* Is everything there, in other workers than when it was asked before? */
static bool keeps_anew(const json_t *says)
{
    return jget_bool(says, "load.complete", false)
        && strcmp(jget_str(says, "load.workers", ""), said_last) != 0;
}

static bool has_none(const json_t *says)
{
    return strcmp(jget_str(says, "load.reason", ""), "WorkersNotReady") == 0
        && strstr(jget_str(says, "load.message", ""), "no cache workers");
}

static void with_workers(const char *number, bool (*is)(const json_t *says))
{
    cleanup_free char *file = path_join(worker_dir, "workers");
    assert_int_equal(file_write_atomic(file, number, 1, 0644, NULL), 0);
    bool yes = false;
    for (int64_t until = clock_mono_ns() + LONG_NS; !yes && clock_mono_ns() < until;
         clock_sleep_ns(10 * NS_PER_MS)) {
        cleanup_json json_t *says = keeper_says();
        yes = is(says);
        if (yes)
            snprintf(said_last, sizeof said_last, "%s", jget_str(says, "load.workers", ""));
    }
    assert_true(yes);
}

static int64_t pinned_files(void)
{
    cleanup_json json_t *j = worker_status();
    return jget_int(j, "cache.pinnedFiles", -1);
}

/* What is loaded has other owners then: here the same worker, once or twice. */
static void test_number_of_workers_changes(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        cleanup_free char *name = xasprintf("data/train/f%d", i);
        worker_put_file(name, 10000);
    }
    cleanup_free char *json = worker_conf_json("data", 64 << 20);
    worker_start(json);
    assert_true(worker_becomes_ready(60));
    const char *at = strstr(json, "\"count\":1");
    cleanup_free char *changes = xasprintf("%.*s\"countFile\":\"%s/workers\"%s", (int)(at - json),
        json, worker_dir, at + strlen("\"count\":1"));
    struct load_path path = {"/train", REQUEST_PIN};
    const char *urls[] = {worker_url, worker_url};
    struct preload_conf conf = {.paths = &path,
        .npaths = 1,
        .threads = 4,
        .tick_ns = 20 * NS_PER_MS,
        .look_ns = 3600 * NS_PER_S,
        .urls = urls,
        .nurls = 2};
    struct task task;
    keeper = server_new(COMPONENT_LOADER, NULL, NULL);
    server_configure(keeper, changes);
    server_start(keeper);
    assert_int_equal(task_start(&task, "keeper", run_keeper, &conf, NULL), 0);
    with_workers("0", has_none);
    with_workers("1", keeps_anew);
    assert_int_equal(pinned_files(), 6);
    with_workers("2", keeps_anew);
    assert_int_equal(pinned_files(), 6);
    with_workers("1", keeps_anew);
    atomic_store(&keeper->cancel, true);
    task_stop(&task);
    server_stop(keeper);
    server_free(keeper);
    worker_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_number_of_workers_changes, worker_setup, worker_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
