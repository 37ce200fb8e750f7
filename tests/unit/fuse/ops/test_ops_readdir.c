/* SPDX-License-Identifier: Apache-2.0 */
/* Directories as the kernel reads them: on from a position, and until there is nothing more. */
#include "tests/unit/fuse/ops/ops_fixture.h"

#include <fcntl.h>

static void test_readdir(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    fx_put(k->x, "main/d/a", "1");
    fx_put(k->x, "main/d/b", "2");
    uint64_t d = look_up(k, root_of(k, "main"), "d");
    struct fuse_open_in in = {.flags = O_RDONLY};
    assert_int_equal(ASK(k, FUSE_OPENDIR, d, in), 0);
    struct fuse_read_in r = {.size = 4096};
    char seen[64] = "";
    for (int i = 0; i < 8; i++) { /* a position is the cookie of the last entry */
        assert_int_equal(ASK(k, FUSE_READDIR, d, r), 0);
        if (!reply.len)
            break;
        struct fuse_dirent de;
        memcpy(&de, reply.body, sizeof de); /* one at a time */
        size_t at = strlen(seen);
        snprintf(seen + at, sizeof seen - at, "%.*s ", (int)de.namelen, reply.body + sizeof de);
        r.offset = de.off;
    }
    assert_int_equal(reply.len, 0);
    assert_true(strcmp(seen, ". .. a b ") == 0 || strcmp(seen, ". .. b a ") == 0);
    kernel_free(k);
}

/* One that is empty is listed once by a reader, who asks until there is nothing more. */
static void test_readdir_of_nothing(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    assert_int_equal(fx_mkdir(k->x, "main/e", false), 0);
    uint64_t e = look_up(k, root_of(k, "main"), "e");
    for (unsigned reader = 1; reader < 3; reader++) {
        struct fuse_read_in r = {.size = 4096};
        assert_int_equal(ASK(k, FUSE_READDIR, e, r), 0);
        assert_true(reply.len > 0); /* itself and the one above */
        r.offset = 2;
        assert_int_equal(ASK(k, FUSE_READDIR, e, r), 0);
        assert_int_equal(reply.len, 0);
        assert_int_equal(fake_store_calls(k->x->fake[0], FAKE_LIST), reader);
    }
    kernel_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readdir),
        cmocka_unit_test(test_readdir_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
