/* SPDX-License-Identifier: Apache-2.0 */
/* What a preloader says while it lists: that the store does not answer, or refuses, and that it
 * goes on when the store does. */
#include "tests/unit/fuse/worker/worker_fixture.h"

#include "fuse/worker/preload.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/task.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/fake/fake_s3.h"

#include <string.h>

#define WAIT_NS (120 * NS_PER_S)

static struct fake_s3 *s3;
static struct server *loader;
static struct preload_conf conf;
static const struct load_path all = {"/", REQUEST_PIN_AS_IS};
static const char *url;
static struct task task;

static char *s3_conf_json(void)
{
    return xasprintf(
        "{\"namespace\":\"\",\"name\":\"t\",\"uid\":\"\",\"readOnly\":true,\"mounts\":[{\"mountPoint\":\"s3://data/train\",\"path\":\"/\","
        "\"options\":{\"endpoint\":\"http://127.0.0.1:%d\",\"region\":\"us-east-1\",\"anonymous\":\"true\"}}],"
        "\"cache\":{\"tiers\":[{\"medium\":\"SSD\",\"quota\":67108864}]},"
        "\"workers\":{\"service\":\"t-cache.default.svc\",\"name\":\"t-cache\",\"count\":1,\"port\":9400}}",
        fake_s3_port(s3));
}

static void run_preloader(void *arg)
{
    (void)arg;
    preload_run(loader, &conf);
}

/* A worker and a preloader that can use the store; from then on its listings do this, or well. */
static void begin(const char *fault)
{
    s3 = fake_s3_start(0);
    fake_s3_put(s3, "train/a", "one", 3);
    fake_s3_put(s3, "train/b", "two", 3);
    cleanup_free char *json = s3_conf_json();
    worker_start(json);
    assert_true(worker_becomes_ready(60));
    loader = server_new(COMPONENT_LOADER, NULL, NULL);
    server_configure(loader, json);
    server_start(loader);
    for (int64_t until = clock_mono_ns() + WAIT_NS; !server_ready(loader);) {
        assert_true(clock_mono_ns() < until);
        clock_sleep_ns(10 * NS_PER_MS);
    }
    if (fault)
        assert_int_equal(fake_s3_fault(s3, "GET", fault, 1000000), 0);
    url = worker_url;
    conf = (struct preload_conf){.paths = &all,
        .npaths = 1,
        .threads = 2,
        .tick_ns = 20 * NS_PER_MS,
        .look_ns = 50 * NS_PER_MS,
        .slow_ns = NS_PER_S,
        .urls = &url,
        .nurls = 1};
    assert_int_equal(task_start(&task, "preloader", run_preloader, NULL, NULL), 0);
}

static void end(void)
{
    fake_s3_clear(s3);
    atomic_store(&loader->cancel, true);
    task_stop(&task);
    server_stop(loader);
    server_free(loader);
    worker_stop();
    fake_s3_stop(s3);
}

static json_t *loader_says(void)
{
    cleanup_buf struct buf out = BUF_INIT(4096);
    buf_adds(&out, "{");
    pthread_mutex_lock(&loader->mu);
    if (loader->more)
        loader->more(loader->more_user, true, &out);
    pthread_mutex_unlock(&loader->mu);
    buf_adds(&out, "}");
    json_t *j = json_parse(buf_str(&out), out.len, NULL);
    assert_non_null(j);
    return j;
}

/* Until it says that it is complete (reason ""), or this; its message, caller frees. */
static char *says(const char *reason)
{
    cleanup_free char *last = NULL;
    for (int64_t until = clock_mono_ns() + WAIT_NS; clock_mono_ns() < until;
         clock_sleep_ns(10 * NS_PER_MS)) {
        cleanup_json json_t *j = loader_says();
        free(last);
        last = json_dumps(j, 0);
        if (strcmp(jget_str(j, "load.reason", ""), reason) == 0
            && jget_bool(j, "load.complete", false) == !*reason && jget(j, "load"))
            return xstrdup(jget_str(j, "load.message", ""));
    }
    fail_msg("it never said '%s', but %s", reason, last);
    return NULL;
}

static void expect_words(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("no '%s' in: %s", words, text);
}

static void test_no_answer(void **state)
{
    (void)state;
    begin("hang");
    cleanup_free char *slow = says("StoreSlow");
    expect_words(slow, "s3://data/train has not answered a listing for 1 s or more: look at");
    expect_words(slow, "0 files are listed so far");
    fake_s3_clear(s3);
    end();
}

static void test_refused_for_now(void **state)
{
    (void)state;
    begin("error");
    cleanup_free char *error = says("StoreError");
    expect_words(error, "s3://data/train");
    fake_s3_clear(s3);
    free(says(""));
    end();
}

static void test_denied(void **state)
{
    (void)state;
    begin("denied");
    cleanup_free char *denied = says("AccessDenied");
    expect_words(denied, "list /");
    fake_s3_clear(s3);
    free(says(""));
    end();
}

static void has_counted(int files, int bytes)
{
    cleanup_json json_t *j = loader_says();
    assert_int_equal(jget_int(j, "load.files", -1), files);
    assert_int_equal(jget_int(j, "load.bytes", -1), bytes);
    assert_true(jget_bool(j, "load.counted", false));
}

/* What is known of it is not forgotten while it is looked at again, or cannot be. */
static void test_known_total(void **state)
{
    (void)state;
    begin(NULL);
    free(says(""));
    has_counted(2, 6);
    assert_int_equal(fake_s3_fault(s3, "GET", "denied", 1000000), 0);
    free(says("AccessDenied"));
    has_counted(2, 6);
    fake_s3_put(s3, "train/c", "three", 5);
    fake_s3_clear(s3);
    free(says(""));
    has_counted(3, 11);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_answer, worker_setup, worker_teardown),
        cmocka_unit_test_setup_teardown(test_refused_for_now, worker_setup, worker_teardown),
        cmocka_unit_test_setup_teardown(test_denied, worker_setup, worker_teardown),
        cmocka_unit_test_setup_teardown(test_known_total, worker_setup, worker_teardown),
    };
    return cmocka_run_group_tests_name("preload_listing", tests, NULL, NULL);
}
