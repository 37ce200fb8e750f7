/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "csi/volume.h"
#include "csi/volume_json.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/unit/csi/csi_env.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t soon(int64_t ms) { return clock_mono_ns() + ms * NS_PER_MS; }

static void fill(struct volume *v)
{
    v->context = (struct volume_context){
        .kind = VOLUME_KIND_DATASET, .ns = "default", .uid = "0b2c", .name = "mnist"};
    v->staging = xstrdup("/var/lib/kubelet/x y\"z/globalmount");
    v->read_only = true;
    v->mode = 3;
    volume_target_add(v, "/pods/1/mount", true, 3);
    volume_target_add(v, "/pods/2/mount", false, 5);
    volume_param_add(v, "url", "file:///d\xc3\xa4ta");
}

static void test_restart(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    struct volumes *vs = volumes_open(env->dir, &e);
    struct volume *v = volume_hold(vs, "pv-1", true, soon(0), &e);
    fill(v);
    assert_int_equal(volume_save(vs, v, &e), 0);
    volume_release(vs, v);
    volumes_free(vs); /* as kill -9 would */

    cleanup_free char *half = path_join(env->dir, "pv-1.json.Xy12Ab"); /* killed while it wrote */
    assert_int_equal(file_write_atomic(half, "{", 1, 0600, &e), 0);
    vs = volumes_open(env->dir, &e);
    assert_int_equal(access(half, F_OK), -1);
    assert_int_equal(volumes_count(vs), 1);
    assert_null(volume_hold(vs, "pv-2", false, soon(0), &e));
    assert_int_equal(e.cls, ERR_NOTFOUND);
    v = volume_hold(vs, "pv-1", false, soon(0), &e);
    assert_non_null(v);
    assert_string_equal(v->context.name, "mnist");
    assert_string_equal(v->staging, "/var/lib/kubelet/x y\"z/globalmount");
    assert_true(v->read_only);
    assert_int_equal(v->mode, 3);
    assert_int_equal(v->ntargets, 2);
    assert_true(volume_target_find(v, "/pods/1/mount")->read_only);
    assert_int_equal(volume_target_find(v, "/pods/2/mount")->mode, 5);
    assert_int_equal(v->nparams, 1);
    assert_string_equal(v->params[0].key, "url");
    assert_string_equal(v->params[0].value, "file:///d\xc3\xa4ta");
    volume_target_del(v, "/pods/1/mount");
    volume_target_del(v, "/pods/1/mount");
    assert_int_equal(v->ntargets, 1);
    volume_target_del(v, "/pods/2/mount");
    free(v->staging);
    v->staging = NULL;
    volume_release(vs, v); /* nowhere any more: forgotten, on disk as well */
    assert_int_equal(volumes_count(vs), 0);
    cleanup_free char *file = path_join(env->dir, "pv-1.json");
    assert_int_equal(access(file, F_OK), -1);
    volumes_free(vs);
}

static void test_broken_records(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    struct volume v = {.id = (char *)"pv-1"};
    fill(&v);
    cleanup_free char *good = volume_to_json(&v);
    static const char *const changes[][2] = {{"\"version\":1", "\"version\":2"},
        {"\"namespace\":\"default\"", "\"namespace\":\"../x\""},
        {"\"uid\":\"0b2c\"", "\"uid\":\"\""}, {"\"kind\":\"dataset\"", "\"kind\":\"else\""},
        {"/pods/1/mount", "/pods/../mount"}, {"\"id\":\"pv-1\"", "\"id\":\"a/b\""}, {"{", "["}};
    struct volume *read = volume_from_json(good, strlen(good), &e);
    assert_non_null(read);
    volume_free(read);
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        char *at = strstr(good, changes[i][0]);
        assert_non_null(at);
        cleanup_free char *bad = xasprintf(
            "%.*s%s%s", (int)(at - good), good, changes[i][1], at + strlen(changes[i][0]));
        cleanup_free char *name = xasprintf("%s/bad-%zu.json", env->dir, i);
        err_clear(&e);
        assert_null(volume_from_json(bad, strlen(bad), &e));
        assert_int_equal(e.cls, ERR_INVALID);
        assert_int_equal(file_write_atomic(name, bad, strlen(bad), 0600, &e), 0);
    }
    for (size_t i = 0; i < v.ntargets; i++)
        free(v.targets[i].path);
    free(v.targets), free(v.staging), free(v.params[0].key), free(v.params[0].value),
        free(v.params);
    struct volumes *vs = volumes_open(env->dir, &e); /* starts all the same */
    assert_int_equal(volumes_count(vs), 0);
    volumes_free(vs);
    cleanup_free char *aside = path_join(env->dir, "bad-0.json.broken");
    assert_int_equal(access(aside, F_OK), 0);
}

struct race {
    struct volumes *vs;
    atomic_int inside, most, turns;
};

static void *contend(void *arg)
{
    struct race *r = arg;
    for (int i = 0; i < 200; i++) {
        struct err e = ERR_INIT;
        struct volume *v = volume_hold(r->vs, "one", true, soon(60000), &e);
        assert_non_null(v);
        int now = atomic_fetch_add(&r->inside, 1) + 1;
        if (now > atomic_load(&r->most))
            atomic_store(&r->most, now);
        v->created = i % 3 != 0; /* sometimes it is forgotten */
        atomic_fetch_add(&r->turns, 1);
        atomic_fetch_sub(&r->inside, 1);
        volume_release(r->vs, v);
    }
    return NULL;
}

static void test_turns(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    struct race r = {.vs = volumes_open(env->dir, &e)};
    pthread_t threads[4];
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, contend, &r), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&r.turns), 800);
    assert_int_equal(atomic_load(&r.most), 1);

    struct volume *v = volume_hold(r.vs, "two", true, soon(0), &e);
    int64_t began = clock_mono_ns();
    assert_null(volume_hold(r.vs, "two", true, soon(200), &e));
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_true(clock_mono_ns() - began >= 190 * NS_PER_MS);
    volume_release(r.vs, v);
    volumes_free(r.vs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_restart, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_broken_records, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_turns, csi_env_setup, csi_env_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
