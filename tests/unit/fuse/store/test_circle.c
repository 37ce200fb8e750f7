/* SPDX-License-Identifier: Apache-2.0 */
/* Listings that a server leads in a circle end, whatever its length and whatever is before it. */
#include "tests/lib/unit.h"

#include "fuse/store/circle.h"
#include "fuse/store/impl.h"
#include "lib/base/mem.h"
#include "tests/lib/mount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGES_MAX 100000

/* A server of so many pages; after the last one it goes back to the page `back`. */
struct pages {
    unsigned last, back, asked;
};

static unsigned after(const struct pages *p, unsigned page)
{
    return page < p->last ? page + 1 : p->back;
}

static void *pages_open(const struct store_params *p, struct err *e)
{
    struct pages *self = NULL;
    (void)e;
    sscanf(p->rest, "%p", (void **)&self);
    return self;
}

static void pages_close(void *impl) { (void)impl; }

static int pages_list(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    struct pages *p = impl;
    (void)dir;
    (void)fn;
    (void)user;
    (void)e;
    unsigned page = *cursor ? (unsigned)strtoul(*cursor + strlen(" token "), NULL, 10) : 0;
    free(*cursor);
    *cursor = NULL;
    p->asked++;
    if (page < p->last || p->back)
        *cursor = xasprintf(" token %u", after(p, page)); /* a blank at its front is its own */
    return 0;
}

static const struct store_ops ops = {
    .kind = {.scheme = "pages", .options = (const struct store_option[]){{.name = NULL}}},
    .open = pages_open,
    .close = pages_close,
    .list = pages_list,
    .list_tree = pages_list,
};

/* Lists to the end; how many pages were asked for. */
static unsigned list_all(struct pages *p, bool tree, int rc, struct err *e)
{
    cleanup_free char *url = xasprintf("pages://%p", (void *)p);
    struct mount *m = mount_new(url);
    struct store *s = store_new_of(&ops, &(struct store_conf){.mount = &m->conf}, e);
    assert_non_null(s);
    char *cursor = NULL;
    int got;
    do
        got = (tree ? store_list_tree : store_list)(s, "", &cursor, NULL, NULL, e);
    while (got == 0 && cursor && p->asked < PAGES_MAX);
    assert_int_equal(got, rc);
    free(cursor);
    store_free(s);
    mount_free(m);
    return p->asked;
}

static void test_a_circle_ends(void **state)
{
    (void)state;
    static const unsigned cases[][2] = {
        {1, 1}, {2, 1}, {2, 2}, {7, 1}, {50, 50}, {1000, 990}, {1000, 1}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (int tree = 0; tree < 2; tree++) {
            struct pages p = {.last = cases[i][0], .back = cases[i][1]};
            struct err e = ERR_INIT;
            unsigned asked = list_all(&p, tree, -1, &e);
            assert_int_equal(e.cls, ERR_INVALID);
            assert_int_equal(e.sys, EIO);
            assert_non_null(strstr(e.msg, "in a circle"));
            assert_true(asked <= 4 * p.last + 4);
        }
}

static void test_many_pages_are_none(void **state)
{
    (void)state;
    struct pages p = {.last = 20000};
    struct err e = ERR_INIT;
    assert_int_equal(list_all(&p, false, 0, &e), 20001);
}

static void test_cursors(void **state)
{
    (void)state;
    struct circle c, back;
    assert_null(circle_unwrap(NULL, &c));
    assert_true(circle_step(&c, " a b"));
    cleanup_free char *text = circle_wrap(&c, " a b");
    assert_string_equal(circle_unwrap(text, &back), " a b");
    assert_memory_equal(&c, &back, sizeof c);
    assert_false(circle_step(&back, " a b"));
    assert_string_equal(circle_unwrap("of another kind", &c), "of another kind");
    assert_int_equal(c.until, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_circle_ends),
        cmocka_unit_test(test_many_pages_are_none),
        cmocka_unit_test(test_cursors),
    };
    return cmocka_run_group_tests_name("circle", tests, NULL, NULL);
}
