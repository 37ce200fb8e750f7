/* SPDX-License-Identifier: Apache-2.0 */
/* Which written files stay in the cache, by path: the rule counts that fits the path under which
 * the bytes went to the store, whatever the file was called before. */
#include "tests/unit/fuse/file/file_fixture.h"

static struct conf_rule rules[] = {
    {(char *)"/", CONF_CACHE_THROUGH},
    {(char *)"/main/through", CONF_THROUGH},
    {(char *)"/main/through/kept", CONF_CACHE_THROUGH},
    {(char *)"/main/through/kept/not/there/yet", CONF_THROUGH},
    {(char *)"/main/one.bin", CONF_THROUGH},
    {(char *)"/other", CONF_THROUGH},
};

static struct fx *fx_with_rules(void)
{
    struct fx *x = fx_new(NULL);
    struct err e = ERR_INIT;
    x->conf.rules = rules;
    x->conf.nrules = ARRAY_LEN(rules);
    static const char *const dirs[] = {"through", "through/kept", "through/kept/not",
        "through/kept/not/there", "through/kept/not/there/yet", "throughout"};
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        assert_int_equal(store_mkdir(x->stores[0], dirs[i], 0, &e), 0);
    return x;
}

/* Reading it needs the store, or does not. */
static void stays(struct fx *x, const char *path, bool cached)
{
    unsigned mount = strncmp(path, "other", 5) == 0;
    unsigned before = fake_store_calls(x->fake[mount], FAKE_READ);
    fx_path_is(x, path, "text");
    if ((fake_store_calls(x->fake[mount], FAKE_READ) == before) != cached)
        fail_msg("%s: %s", path, cached ? "is not in the cache" : "is in the cache");
}

static void test_longest_path(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        bool cached;
    } cases[] = {{"main/a", true}, {"main/through/a", false}, {"main/throughout/a", true},
        {"main/through/kept/a", true}, {"main/through/kept/not/there/a", true},
        {"main/through/kept/not/there/yet/a", false}, {"main/one.bin", false},
        {"main/one.bin2", true}, {"other/a", false}};
    struct fx *x = fx_with_rules();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        fx_make(x, cases[i].path, "text");
        stays(x, cases[i].path, cases[i].cached);
    }
    fx_free(x);
}

/* Renamed while it is written: the path that it has when it goes to the store. */
static void test_renamed_before_the_upload(void **state)
{
    (void)state;
    struct fx *x = fx_with_rules();
    struct fx_handle h;
    assert_int_equal(fx_create(x, "main/through/tmp", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    assert_int_equal(fx_rename(x, "main/through/tmp", "main/final", 0, false), 0);
    assert_int_equal(fx_close(x, &h), 0);
    stays(x, "main/final", true);
    assert_int_equal(fx_create(x, "main/tmp", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "text");
    assert_int_equal(fx_rename(x, "main/tmp", "main/through/final", 0, false), 0);
    assert_int_equal(fx_close(x, &h), 0);
    stays(x, "main/through/final", false);
    fx_free(x);
}

/* Renamed afterwards: a rename writes nothing, so what is cached comes along, and no more. */
static void test_renamed_after_the_upload(void **state)
{
    (void)state;
    struct fx *x = fx_with_rules();
    fx_make(x, "main/through/tmp", "text");
    assert_int_equal(fx_rename(x, "main/through/tmp", "main/final", 0, false), 0);
    stays(x, "main/final", false);
    fx_make(x, "main/tmp", "text");
    assert_int_equal(fx_rename(x, "main/tmp", "main/through/final", 0, false), 0);
    stays(x, "main/through/final", true);
    fx_free(x);
}

static void test_directory_renamed(void **state)
{
    (void)state;
    struct fx *x = fx_with_rules();
    struct fx_handle in, out;
    assert_int_equal(fx_mkdir(x, "main/d", false), 0);
    assert_int_equal(fx_create(x, "main/d/a", O_WRONLY, false, &in), 0);
    fx_write(x, in.ino, 0, "text");
    assert_int_equal(fx_rename(x, "main/d", "main/through/d", 0, false), 0);
    assert_int_equal(fx_close(x, &in), 0);
    stays(x, "main/through/d/a", false);
    assert_int_equal(fx_create(x, "main/through/d/b", O_WRONLY, false, &out), 0);
    fx_write(x, out.ino, 0, "text");
    assert_int_equal(fx_rename(x, "main/through/d", "main/e", 0, false), 0);
    assert_int_equal(fx_close(x, &out), 0);
    stays(x, "main/e/b", true);
    fx_free(x);
}

/* Opened again for writing: the rule of that time. */
static void test_written_again(void **state)
{
    (void)state;
    struct fx *x = fx_with_rules();
    struct fx_handle h;
    fx_make(x, "main/a", "old!");
    assert_int_equal(fx_rename(x, "main/a", "main/through/a", 0, false), 0);
    assert_int_equal(fx_open(x, "main/through/a", O_RDWR, &h), 0);
    fx_write(x, h.ino, 0, "text");
    assert_int_equal(fx_close(x, &h), 0);
    stays(x, "main/through/a", false);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_longest_path),
        cmocka_unit_test(test_renamed_before_the_upload),
        cmocka_unit_test(test_renamed_after_the_upload), cmocka_unit_test(test_directory_renamed),
        cmocka_unit_test(test_written_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
