/* SPDX-License-Identifier: Apache-2.0 */
/* Which name nodes are asked is judged where it is written, and nobody sees what a Secret says. */
#include "tests/lib/mount.h"
#include "tests/lib/unit.h"

#include "lib/base/file.h"

static void put(const char *dir, const char *key, const char *value)
{
    struct err e = ERR_INIT;
    cleanup_free char *secret = path_join(dir, "0/secret"), *path = path_join(secret, key);
    assert_int_equal(file_mkdirs(secret, 0700, &e), 0);
    assert_int_equal(file_write_atomic(path, value, strlen(value), 0600, &e), 0);
}

/* Opens it, and asks nobody. says: what is wrong; NULL: nothing. */
static void open_as(const struct store_conf *sc, const char *says)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(sc, &e);
    if (!says != (s != NULL) || (says && !strstr(e.msg, says)))
        fail_msg("not '%s': %s", says ? says : "opened", e.msg);
    if (!s)
        assert_string_equal(store_reason(&e), "InvalidOption");
    store_free(s);
}

static void test_secret(void **state)
{
    (void)state;
    static const char *const allowed[] = {"hdfs://cluster", "hdfs://nn1.example"};
    char dir[] = "/tmp/millrace-test.XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct mount *m = mount_new("hdfs://cluster/data");
    m->conf.secret_dir = (char *)"0/secret";
    m->conf.secret_dir_name = (char *)"keys";
    const struct store_conf sc = {.mount = &m->conf, .secrets_dir = dir};
    put(dir, "delegation-token", "hushhush");
    put(dir, "name-nodes", "thief.example:80");
    open_as(&sc, NULL); /* without limits: as it likes */
    m->conf.endpoints = (char **)(uintptr_t)allowed;
    m->conf.nendpoints = ARRAY_LEN(allowed);
    open_as(&sc, "a Secret says option name-nodes");
    mount_option(m, "nameNodes", "nn1.example"); /* options go before it */
    open_as(&sc, NULL);
    put(dir, "http-port", "80");
    open_as(&sc, "a Secret says option http-port");
    mount_free(m);
    struct err e = ERR_INIT;
    assert_int_equal(file_remove_tree(dir, &e), 0);
}

static void test_single_key(void **state)
{
    (void)state;
    static const char *const allowed[] = {"hdfs://cluster"};
    struct mount *m = mount_new("hdfs://cluster/data");
    const struct store_conf sc = {.mount = &m->conf, .secrets_dir = "/nonexistent"};
    m->conf.endpoints = (char **)(uintptr_t)allowed;
    m->conf.nendpoints = 1;
    mount_secret(m, "name-nodes", "0/nodes", "keys:nodes");
    open_as(&sc, "a Secret says option name-nodes");
    mount_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secret), cmocka_unit_test(test_single_key)};
    return cmocka_run_group_tests_name("hdfs_secret", tests, NULL, NULL);
}
