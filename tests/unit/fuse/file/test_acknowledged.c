/* SPDX-License-Identifier: Apache-2.0 */
/* AsyncThrough: what close or fsync has said is kept stays so, whatever an upload that is under way
 * at that moment, or was before, comes to. */
#include "tests/unit/fuse/file/commit_fixture.h"

#include "fuse/file/recover.h"

#include <unistd.h>

static const struct fx_conf async = {.write = CONF_ASYNC_THROUGH};

static void save(struct fx *x, uint64_t ino)
{
    struct err e = ERR_INIT;
    assert_int_equal(files_save(x->files, ino, true, &e), 0);
}

/* More was saved while an upload was under way: that it fails takes none of it back. */
static void test_failed_upload_of_less(void **state)
{
    (void)state;
    struct fx *x = fx_new(&async);
    struct fx_handle h;
    struct fx_behind b;
    struct sidecar note;
    assert_int_equal(fx_create(x, "main/log", O_WRONLY, false, &h), 0);
    fx_write(x, h.ino, 0, "one");
    save(x, h.ino);
    fx_begin_held(&b, x, h.ino);
    fx_write(x, h.ino, 3, " two");
    save(x, h.ino);
    fake_store_fail(x->fake[0], FAKE_PUT, ERR_RETRY, EIO, 0, 1);
    assert_int_equal(fx_end_held(&b), EIO);
    fx_note(x, h.ino, &note);
    assert_true(note.asked);
    assert_int_equal(note.asked_len, 7);
    save(x, h.ino);
    fx_power_cut(x);
    recover_begin(x->files);
    fx_path_is(x, "main/log", "one two");
    assert_int_equal(fx_behind(x, fx_ino(x, "main/log")), 0);
    fx_store_is(x, "main/log", "one two");
    fx_kept(x, 0, NULL, NULL);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failed_upload_of_less),
    };
    return cmocka_run_group_tests_name("acknowledged", tests, NULL, NULL);
}
