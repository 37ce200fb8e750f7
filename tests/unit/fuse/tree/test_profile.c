/* SPDX-License-Identifier: Apache-2.0 */
/* Which profile a mount gets: by its configuration, by a sample of its files, by what it had
 * before. */
#include "tests/unit/fuse/tree/tree_fixture.h"

#include "fuse/tree/profile.h"

static const char *const two[] = {"/a", "/b", NULL};

struct sample {
    unsigned small, large; /* of 10 bytes, of 3 MiB */
};

static void make(struct fx *x, int store, struct sample s)
{
    cleanup_free char *large = xmalloc((3 << 20) + 1);
    memset(large, 'x', 3 << 20);
    large[3 << 20] = '\0';
    for (unsigned i = 0; i < s.small + s.large; i++) {
        char name[32];
        snprintf(name, sizeof name, "d%u/f", i); /* directories are no files */
        fake_store_write(x->fake[store], name, i < s.small ? "0123456789" : large);
    }
}

static bool sealed(struct fx *x, enum conf_immutable immutable, bool read_only, bool resume)
{
    cleanup_free char *file = path_join(x->dir, "profile");
    for (size_t i = 0; i < x->conf.nmounts; i++)
        x->conf.mounts[i].immutable = immutable;
    return profile_sealed(&x->conf, x->stores, read_only, file, resume);
}

static void test_sample(void **state)
{
    (void)state;
    static const struct {
        struct sample a, b;
        bool sealed;
    } cases[] = {
        {{16, 0}, {0, 0}, true},  /* as few as say anything */
        {{15, 0}, {0, 0}, false}, /* too few */
        {{8, 0}, {8, 0}, true},   /* all mounts together */
        {{12, 4}, {0, 0}, true},  /* 12 MiB in 16 files */
        {{10, 6}, {0, 0}, false}, /* 18 MiB in 16 files */
        {{20, 0}, {0, 15}, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fx *x = fx_new(two, true);
        make(x, 0, cases[i].a);
        make(x, 1, cases[i].b);
        assert_int_equal(sealed(x, CONF_IMMUTABLE_UNSET, true, false), cases[i].sealed);
        assert_false(
            sealed(x, CONF_IMMUTABLE_UNSET, false, false)); /* what can be written is open */
        fx_free(x);
    }
}

static void test_configured(void **state)
{
    (void)state;
    struct fx *x = fx_new(two, true);
    assert_true(sealed(x, CONF_IMMUTABLE_TRUE, true, false));
    make(x, 0, (struct sample){50, 0});
    assert_false(sealed(x, CONF_IMMUTABLE_FALSE, true, false));
    assert_int_equal(fake_store_calls(x->fake[0], FAKE_LIST), 0); /* nothing is asked */
    fake_store_fail(x->fake[1], FAKE_LIST, ERR_DENIED, 0, 0, 1);
    assert_false(sealed(x, CONF_IMMUTABLE_UNSET, true, false));
    assert_true(sealed(x, CONF_IMMUTABLE_UNSET, true, false));
    fx_free(x);
}

/* Sources that differ: what is in them decides. */
static void test_mixed(void **state)
{
    (void)state;
    struct fx *x = fx_new(two, true);
    cleanup_free char *file = path_join(x->dir, "profile");
    static const enum conf_immutable others[] = {CONF_IMMUTABLE_FALSE, CONF_IMMUTABLE_UNSET};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        x->conf.mounts[0].immutable = CONF_IMMUTABLE_TRUE;
        x->conf.mounts[1].immutable = others[i];
        assert_int_equal(profile_sealed(&x->conf, x->stores, true, file, false), i > 0);
        if (i == 0)
            make(x, 1, (struct sample){50, 0});
        assert_true(profile_sealed(&x->conf, x->stores, true, file, false));
        assert_false(profile_sealed(&x->conf, x->stores, false, file, false));
    }
    fx_free(x);
}

/* A process that takes the mount over has the profile that the kernel was told. */
static void test_resumed(void **state)
{
    (void)state;
    struct fx *x = fx_new(two, true);
    assert_false(sealed(x, CONF_IMMUTABLE_TRUE, true, true)); /* none is noted down */
    assert_true(sealed(x, CONF_IMMUTABLE_TRUE, true, false));
    assert_true(sealed(x, CONF_IMMUTABLE_FALSE, true, true));
    assert_false(sealed(x, CONF_IMMUTABLE_FALSE, true, false));
    assert_false(sealed(x, CONF_IMMUTABLE_TRUE, true, true));
    /* where it cannot be noted down, the next process would not know: open */
    assert_false(profile_sealed(&x->conf, x->stores, true, "/nonexistent/millrace/profile", false));
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_configured),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_resumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
