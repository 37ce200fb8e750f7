/* SPDX-License-Identifier: Apache-2.0 */
/* Where the bytes of a file are, as its attribute says it. */
#include "tests/unit/fuse/ops/ops_fixture.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <errno.h>
#include <string.h>

static int ask_location(struct kernel *k, uint64_t ino, json_t **j)
{
    struct fuse_getxattr_in x = {.size = 60000};
    struct err e = ERR_INIT;
    int rc = ask(k, FUSE_GETXATTR, ino, &x, sizeof x, XATTR_LOCATION, NULL, 0);
    *j = rc ? NULL : json_parse(reply.body, reply.len, &e);
    return rc;
}

static void test_location(void **state)
{
    (void)state;
    struct kernel *k = kernel_new(false);
    json_t *j;
    fx_put(k->x, "main/a", "hello");
    uint64_t dir = root_of(k, "main"), ino = look_up(k, dir, "a");
    assert_int_equal(ask_location(k, dir, &j), EISDIR);
    assert_int_equal(ask_location(k, 123456, &j), ESTALE);
    assert_int_equal(ask_location(k, ino, &j), 0);
    assert_non_null(j);
    assert_int_equal(jget_int(j, REPORT_LOCATION_SIZE, -1), 5);
    assert_int_equal(jget_int(j, REPORT_LOCATION_CACHED, -1), 0);
    assert_true(jget_bool(j, REPORT_LOCATION_PERSISTED, false));
    assert_string_equal(jget_str(j, REPORT_LOCATION_PATH, ""), "a");
    assert_string_equal(jget_str(j, REPORT_LOCATION_STORE, ""),
        k->fs.conf->mounts[fx_inode(k->x, ino).mount].mount_point);
    assert_int_equal(jget_len(j, REPORT_LOCATION_WORKERS), 0);
    json_decref(j);
    fx_fill(k->x, "main/a");
    assert_int_equal(ask_location(k, ino, &j), 0);
    assert_int_equal(jget_int(j, REPORT_LOCATION_CACHED, -1), 5);
    json_decref(j);
    /* what is written and not saved */
    struct fx_handle h;
    assert_int_equal(fx_create(k->x, "main/new", 0, false, &h), 0);
    assert_int_equal(fx_write(k->x, h.ino, 0, "new"), 0);
    assert_int_equal(ask_location(k, h.ino, &j), 0);
    assert_false(jget_bool(j, REPORT_LOCATION_PERSISTED, true));
    assert_int_equal(jget_int(j, REPORT_LOCATION_CACHED, -1), 3);
    json_decref(j);
    /* with holes it may be of any size */
    struct fuse_setattr_in size = {.valid = FATTR_SIZE | FATTR_FH, .size = (UINT64_C(1) << 43) + 1};
    assert_int_equal(ask(k, FUSE_SETATTR, h.ino, &size, sizeof size, NULL, NULL, 0), 0);
    assert_int_equal(ask_location(k, h.ino, &j), EFBIG);
    size.size = 3;
    assert_int_equal(ask(k, FUSE_SETATTR, h.ino, &size, sizeof size, NULL, NULL, 0), 0);
    assert_int_equal(ask_location(k, h.ino, &j), 0);
    json_decref(j);
    assert_int_equal(fx_close(k->x, &h), 0);
    kernel_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_location)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
