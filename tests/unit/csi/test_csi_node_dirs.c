/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "csi/node_dirs.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/http/metric.h"
#include "tests/unit/csi/csi_env.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct volume_context client = {
    .kind = VOLUME_KIND_CLIENT, .ns = "team-a", .uid = "0b2c", .pod = "mnist-client-1"};
static const struct volume_context dataset = {
    .kind = VOLUME_KIND_DATASET, .ns = "team-a", .uid = "0b2c", .name = "mnist"};
static const struct volume_context worker = {
    .kind = VOLUME_KIND_WORKER, .ns = "team-a", .uid = "0b2c", .pod = "mnist-cache-0"};
static const struct volume_context worker1 = {
    .kind = VOLUME_KIND_WORKER, .ns = "team-a", .uid = "0b2c", .pod = "mnist-cache-1"};

static bool there(const struct csi_env *env, const char *below)
{
    cleanup_free char *path = path_join(env->dir, below);
    return access(path, F_OK) == 0;
}

static void assert_metric(const char *line)
{
    struct buf all = BUF_INIT(1 << 20);
    metric_write(&all);
    if (!strstr(buf_str(&all), line))
        fail_msg("no '%s' in %s", line, buf_str(&all));
    buf_free(&all);
}

static void test_directories(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    struct node_dirs *p = node_dirs_new(env->dir, env->dir, 0, &e);
    cleanup_free char *a = node_dirs_get(p, &client, &e), *b = node_dirs_get(p, &dataset, &e);
    assert_string_equal(a, b); /* the mount and the client pod share it */
    cleanup_free char *w0 = node_dirs_get(p, &worker, &e), *w1 = node_dirs_get(p, &worker1, &e);
    assert_string_not_equal(w0, w1); /* two workers of a dataset on one node do not */
    cleanup_free char *cache = path_join(a, "cache");
    struct stat st;
    assert_int_equal(stat(a, &st), 0);
    if (geteuid() == 0) {
        assert_int_equal(st.st_uid, 0); /* so a client cannot replace the handoff's socket … */
        assert_int_equal(st.st_gid, 65532);
        assert_int_equal(st.st_mode & 07777, 0750);
        assert_int_equal(stat(cache, &st), 0);
        assert_int_equal(st.st_uid, 65532); /* … but owns its cache */
        assert_int_equal(st.st_mode & 07777, 0700);
    }
    node_dirs_collect(p, true); /* all in use */
    assert_true(there(env, "volumes/team-a/0b2c/cache"));
    node_dirs_put(p, &client);
    node_dirs_collect(p, true);
    assert_true(there(env, "volumes/team-a/0b2c/cache"));
    node_dirs_put(p, &dataset);
    node_dirs_put(p, &worker);
    node_dirs_collect(p, false); /* kept for 0 s */
    assert_false(there(env, "volumes/team-a"));
    assert_false(there(env, "workers/team-a/0b2c/mnist-cache-0"));
    assert_true(there(env, "workers/team-a/0b2c/mnist-cache-1/cache"));
    node_dirs_put(p, &worker1);
    node_dirs_collect(p, true);
    assert_false(there(env, "volumes"));
    assert_false(there(env, "workers"));
    assert_false(there(env, "trash"));
    node_dirs_free(p);
}

static void test_kept(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    struct node_dirs *p = node_dirs_new(env->dir, env->dir, 3600 * NS_PER_S, &e);
    cleanup_free char *a = node_dirs_get(p, &worker, &e);
    cleanup_free char *file = path_join(a, "cache/block");
    assert_int_equal(file_write_atomic(file, "x", 1, 0600, &e), 0);
    node_dirs_put(p, &worker);
    node_dirs_collect(p, false);
    assert_int_equal(access(file, F_OK), 0);
    node_dirs_free(p); /* a restart: it is found again, and gets its time anew */
    p = node_dirs_new(env->dir, env->dir, 3600 * NS_PER_S, &e);
    node_dirs_collect(p, false);
    assert_int_equal(access(file, F_OK), 0);
    node_dirs_free(p);
    p = node_dirs_new(env->dir, env->dir, 100 * NS_PER_MS, &e);
    cleanup_free char *again = node_dirs_get(p, &worker, &e);
    assert_string_equal(a, again);
    clock_sleep_ns(150 * NS_PER_MS);
    node_dirs_collect(p, false); /* in use */
    assert_int_equal(access(file, F_OK), 0);
    node_dirs_put(p, &worker);
    clock_sleep_ns(150 * NS_PER_MS);
    node_dirs_collect(p, false);
    assert_int_equal(access(file, F_OK), -1);
    node_dirs_free(p);
}

/* What a hostile client leaves in its cache must not lead us elsewhere. */
static void test_hostile_cache(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    cleanup_free char *precious = path_join(env->dir, "precious"),
                      *file = path_join(precious, "file");
    assert_int_equal(mkdir(precious, 0700), 0);
    assert_int_equal(file_write_atomic(file, "x", 1, 0600, &e), 0);
    struct node_dirs *p = node_dirs_new(env->dir, env->dir, 0, &e);
    cleanup_free char *a = node_dirs_get(p, &worker, &e);
    cleanup_free char *cache = path_join(a, "cache"), *link = path_join(cache, "link");
    assert_int_equal(symlink(precious, link), 0);
    node_dirs_put(p, &worker);
    node_dirs_collect(p, false);
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(access(a, F_OK), -1);
    assert_int_equal(mkdir(a, 0700), -1); /* its parent has gone, too */
    cleanup_free char *b = node_dirs_get(p, &worker, &e);
    assert_int_equal(rmdir(cache), 0);
    assert_int_equal(symlink(precious, cache), 0); /* a cache that is a link is refused */
    assert_null(node_dirs_get(p, &worker, &e));
    node_dirs_free(p);
    /* but a mount of it that is found is not collected, as long as it is there */
    p = node_dirs_new(env->dir, env->dir, 0, &e);
    assert_null(node_dirs_get(p, &worker, &e));
    node_dirs_hold(p, &worker);
    node_dirs_collect(p, false);
    assert_int_equal(access(b, F_OK), 0);
    node_dirs_put(p, &worker);
    node_dirs_collect(p, false);
    assert_int_equal(access(b, F_OK), -1);
    assert_int_equal(access(file, F_OK), 0);
    node_dirs_free(p);
}

/* What was written and is not in the store exists nowhere else. */
static void test_written(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    struct node_dirs *p = node_dirs_new(env->dir, env->dir, 0, &e);
    cleanup_free char *a = node_dirs_get(p, &client, &e), *w = node_dirs_get(p, &worker, &e);
    cleanup_free char *stage = path_join(a, "cache/stage"), *written = path_join(stage, "1-2-3"),
                      *dir = path_join(stage, "kept"), *kept = path_join(dir, "1-2-4"),
                      *theirs = path_join(w, "cache/stage");
    assert_int_equal(file_mkdirs(dir, 0700, &e), 0);
    assert_int_equal(file_mkdirs(theirs, 0700, &e), 0);
    cleanup_free char *no_client = path_join(theirs, "file");
    assert_int_equal(file_write_atomic(written, "x", 1, 0600, &e), 0);
    assert_int_equal(file_write_atomic(kept, "x", 1, 0600, &e), 0);
    assert_int_equal(file_write_atomic(no_client, "x", 1, 0600, &e), 0);
    node_dirs_put(p, &client);
    node_dirs_put(p, &worker);
    node_dirs_collect(p, false);
    node_dirs_collect(p, true); /* not at an uninstall either */
    assert_int_equal(access(written, F_OK), 0);
    assert_int_equal(access(w, F_OK), -1); /* workers do not write */
    assert_metric("\nmillrace_csi_spared_directories 1\n");
    assert_int_equal(unlink(written), 0);
    node_dirs_collect(p, false);
    assert_int_equal(access(kept, F_OK), 0);
    cleanup_free char *again = node_dirs_get(p, &client, &e); /* in use: nothing to be said */
    assert_metric("\nmillrace_csi_spared_directories 0\n");
    node_dirs_put(p, &client);
    assert_int_equal(unlink(kept), 0);
    node_dirs_collect(p, false);
    assert_false(there(env, "volumes/team-a"));
    node_dirs_free(p);
}

/* A rename of a directory that is half done, and what earlier versions set aside. */
static void test_unfinished(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    static const char *const only[] = {"cache/stage/moves/1-7.from", "cache/stage/lost/1-2-3"};
    for (size_t i = 0; i < 2; i++) {
        struct node_dirs *p = node_dirs_new(env->dir, env->dir, 0, &e);
        cleanup_free char *a = node_dirs_get(p, &client, &e), *file = path_join(a, only[i]),
                          *dir = xstrndup(file, (size_t)(strrchr(file, '/') - file));
        assert_int_equal(file_mkdirs(dir, 0700, &e), 0);
        assert_int_equal(file_write_atomic(file, "x", 1, 0600, &e), 0);
        node_dirs_put(p, &client);
        node_dirs_collect(p, true);
        assert_int_equal(access(file, F_OK), 0);
        assert_int_equal(unlink(file), 0);
        node_dirs_collect(p, false);
        assert_false(there(env, "volumes/team-a"));
        node_dirs_free(p);
    }
}

/* A client neither leads us elsewhere by what is called stage, nor keeps us there. */
static void test_hostile_stage(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    cleanup_free char *precious = path_join(env->dir, "precious"),
                      *file = path_join(precious, "file");
    assert_int_equal(mkdir(precious, 0700), 0);
    assert_int_equal(file_write_atomic(file, "x", 1, 0600, &e), 0);
    struct node_dirs *p = node_dirs_new(env->dir, env->dir, 0, &e);
    cleanup_free char *a = node_dirs_get(p, &client, &e), *stage = path_join(a, "cache/stage");
    assert_int_equal(symlink(precious, stage), 0);
    node_dirs_put(p, &client);
    node_dirs_collect(p, false);
    assert_int_equal(access(a, F_OK), -1);
    assert_int_equal(access(file, F_OK), 0);
    cleanup_free char *b = node_dirs_get(p, &client, &e);
    assert_int_equal(mkfifo(stage, 0600), 0);
    node_dirs_put(p, &client);
    node_dirs_collect(p, false);
    assert_int_equal(access(b, F_OK), -1);
    node_dirs_free(p);
}

/* A pod that runs as a user of its namespace's range reaches its directory by its group. */
static void test_group(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    struct stat st;
    struct node_dirs *p = node_dirs_new(env->dir, env->dir, 0, &e);
    cleanup_free char *a = node_dirs_get(p, &client, &e), *cache = path_join(a, "cache");
    gid_t group = geteuid() == 0 ? 1000660000 : getegid();
    assert_int_equal(node_dirs_give(a, group, &e), 0);
    cleanup_free char *again = node_dirs_get(p, &dataset, &e); /* which knows of no group */
    assert_string_equal(a, again);
    assert_int_equal(stat(a, &st), 0);
    assert_int_equal(st.st_gid, group);
    assert_int_equal(st.st_mode & 07777, 0750);
    assert_int_equal(stat(cache, &st), 0);
    assert_int_equal(st.st_gid, group);
    assert_int_equal(st.st_mode & 07777, 02770);
    assert_int_equal(rmdir(cache), 0);
    assert_int_equal(symlink(env->dir, cache), 0);
    assert_int_equal(node_dirs_give(a, group, &e), -1); /* not through a link */
    node_dirs_free(p);
}

/* Caches were in one place and are to be in another: who is served from the first one stays there,
 * since a client has its socket in it. */
static void test_other_root(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    cleanup_free char *other = path_join(env->dir, "disk");
    struct node_dirs *p = node_dirs_new(env->dir, env->dir, 3600 * NS_PER_S, &e);
    cleanup_free char *a = node_dirs_get(p, &client, &e), *w0 = node_dirs_get(p, &worker, &e);
    node_dirs_free(p);
    p = node_dirs_new(other, env->dir, 3600 * NS_PER_S, &e);
    cleanup_free char *again = node_dirs_get(p, &client, &e), *w1 = node_dirs_get(p, &worker1, &e);
    assert_string_equal(a, again);
    assert_true(there(env, "disk/workers/team-a/0b2c/mnist-cache-1/cache"));
    node_dirs_collect(p, false); /* what is not used there is not kept */
    assert_int_equal(access(w0, F_OK), -1);
    assert_true(there(env, "volumes/team-a/0b2c/cache"));
    node_dirs_put(p, &client);
    node_dirs_collect(p, false);
    assert_false(there(env, "volumes"));
    assert_false(there(env, "trash"));
    cleanup_free char *moved = node_dirs_get(p, &client, &e);
    assert_true(there(env, "disk/volumes/team-a/0b2c/cache"));
    assert_string_not_equal(a, moved);
    node_dirs_put(p, &client);
    node_dirs_put(p, &worker1);
    node_dirs_collect(p, true);
    assert_int_equal(rmdir(other), 0);
    node_dirs_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_directories, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_kept, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_group, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_other_root, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_unfinished, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_written, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_hostile_stage, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_hostile_cache, csi_env_setup, csi_env_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
