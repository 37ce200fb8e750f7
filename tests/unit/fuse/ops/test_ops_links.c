/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about symbolic links. */
#include "tests/unit/fuse/ops/ops_fixture.h"

#include <limits.h>

static void test_link(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    uint64_t dir = root_of(k, "main");
    assert_int_equal(ask(k, FUSE_SYMLINK, dir, "l", 2, "../to", NULL, 0), 0);
    struct fuse_entry_out made = ANSWER(struct fuse_entry_out);
    assert_int_equal(made.attr.mode, S_IFLNK | 0777);
    assert_int_equal(made.attr.size, 5);
    assert_int_equal(ASK_NAME(k, FUSE_READLINK, made.nodeid, ""), 0);
    assert_int_equal(reply.len, 5);
    assert_memory_equal(reply.body, "../to", 5);
    assert_int_equal(ask(k, FUSE_SYMLINK, dir, "l", 2, "to", NULL, 0), EEXIST);
    assert_int_equal(look_up(k, dir, "l"), made.nodeid);
    assert_int_equal(ASK_NAME(k, FUSE_UNLINK, dir, "l"), 0);
    assert_int_equal(ASK_NAME(k, FUSE_READLINK, made.nodeid, ""), ESTALE);
    uint64_t ro = root_of(k, "ro");
    assert_int_equal(ask(k, FUSE_SYMLINK, ro, "l", 2, "to", NULL, 0), EROFS);
    kernel_free(k);
}

/* The type that a listing tells of a name; *node: its id, 0: it is told without attributes. */
static unsigned type_of(struct kernel *k, uint64_t dir, const char *name, bool plus, uint64_t *node)
{
    struct fuse_read_in in = {.size = 4096};
    assert_int_equal(ASK(k, plus ? FUSE_READDIRPLUS : FUSE_READDIR, dir, in), 0);
    for (size_t at = 0; at < reply.len;) {
        const struct fuse_direntplus *p = (const void *)(reply.body + at);
        const struct fuse_dirent *d = plus ? &p->dirent : (const void *)(reply.body + at);
        *node = plus ? p->entry_out.nodeid : 0;
        if (d->namelen == strlen(name) && memcmp(d->name, name, d->namelen) == 0)
            return d->type;
        at += plus ? FUSE_DIRENTPLUS_SIZE(p) : FUSE_DIRENT_SIZE(d);
    }
    return UINT_MAX;
}

/* Nobody is told that a name is a file before it is known not to be a link. */
static void test_listing(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    uint64_t dir = root_of(k, "main"), node;
    fake_store_leave_unasked(k->x->fake[0]);
    fake_store_link(k->x->fake[0], "l", "to");
    fake_store_write(k->x->fake[0], "f", "text");
    for (int plus = 0; plus < 2; plus++) {
        assert_int_equal(type_of(k, dir, "l", plus, &node), 0);
        assert_int_equal(node, 0);
        assert_int_equal(type_of(k, dir, "f", plus, &node), 0);
        assert_int_equal(node, 0);
    }
    assert_true(look_up(k, dir, "l") && look_up(k, dir, "f"));
    assert_int_equal(type_of(k, dir, "l", true, &node), S_IFLNK >> 12);
    assert_int_equal(type_of(k, dir, "f", true, &node), S_IFREG >> 12);
    kernel_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_link),
        cmocka_unit_test(test_listing),
    };
    return cmocka_run_group_tests_name("ops_links", tests, NULL, NULL);
}
