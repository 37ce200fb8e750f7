/* SPDX-License-Identifier: Apache-2.0 */
/* What earlier versions and lives of this program staged, set aside and kept, found by this one. */
#include "tests/unit/fuse/file/crash_fixture.h"

#include "fuse/file/recover.h"
#include "fuse/file/sidecar.h"
#include "lib/base/file.h"

#include <sys/stat.h>
#include <unistd.h>

/* As it named and noted what it staged. */
static void as_before(struct fx *x, uint64_t ino, const char *name)
{
    cleanup_free char *now = fx_staging_file(x, ino), *note_now = xasprintf("%s.path", now),
                      *was = path_join(x->stage_dir, name), *note_was = xasprintf("%s.path", was);
    struct sidecar s;
    struct err e = ERR_INIT;
    assert_int_equal(sidecar_read(note_now, &s, &e), 0);
    cleanup_free char *text = xasprintf("%016llx-%016llx\n%s\n%s\n", (unsigned long long)s.source,
        (unsigned long long)s.place, s.version, s.path);
    assert_int_equal(rename(now, was), 0);
    assert_int_equal(unlink(note_now), 0);
    assert_int_equal(file_write_atomic(note_was, text, strlen(text), 0600, &e), 0);
}

static void test_upgraded(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) { /* the index */
        struct fx *x = fx_new(NULL);
        struct fx_handle a, b;
        assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
        fx_put(x, "main/b", "hello");
        assert_int_equal(fx_open(x, "main/b", O_WRONLY, &b), 0);
        fx_write(x, a.ino, 0, "text");
        fx_write(x, b.ino, 0, "J");
        cleanup_free char *name = xasprintf("%llu-%llu", (unsigned long long)a.ino,
            (unsigned long long)fx_inode(x, a.ino).generation);
        cleanup_free char *other = xasprintf("%llu-%llu", (unsigned long long)b.ino,
            (unsigned long long)fx_inode(x, b.ino).generation);
        as_before(x, a.ino, name);
        as_before(x, b.ino, keep ? other : "0-1700000000000000000-9-1");
        fx_restart(x, keep);
        recover_begin(x->files);
        assert_int_equal(fx_staged(x), 4);
        fx_path_is(x, "main/a", "text");
        fx_path_is(x, "main/b", "Jello");
        fx_upload(x, "main/a", 0);
        fx_upload(x, "main/b", 0);
        fx_store_is(x, "main/a", "text");
        fx_store_is(x, "main/b", "Jello");
        fx_kept(x, 0, NULL, NULL);
        fx_free(x);
    }
}

/* What it had set aside was in a directory that nobody was told of. */
static void test_lost_and_found(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
    fx_write(x, a.ino, 0, "text");
    cleanup_free char *lost = path_join(x->stage_dir, "lost");
    assert_int_equal(mkdir(lost, 0700), 0);
    as_before(x, a.ino, "lost/0-1700000000000000000-2-1");
    fx_restart(x, false);
    recover_begin(x->files);
    fx_kept(x, 1, "a", KEPT_CONFLICT);
    assert_int_equal(access(lost, F_OK), -1);
    fx_free(x);
}

/* A name is used once: what an index that is gone has left is nobody's to overwrite. */
static void test_names_are_used_once(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a, b;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
    cleanup_free char *first = fx_staging_file(x, a.ino);
    fx_restart(x, false);
    assert_int_equal(fx_create(x, "main/b", O_WRONLY, false, &b), 0);
    assert_int_equal(b.ino, a.ino); /* numbers begin anew */
    cleanup_free char *second = fx_staging_file(x, b.ino);
    assert_string_not_equal(first, second);
    assert_int_equal(access(first, F_OK), 0);
    fx_close(x, &b);
    fx_free(x);
}

/* Who has a file open reads what was there when it was opened, also when what a crashed life wrote
 * under its name is found. */
static void test_open_while_it_is_found(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle a, reader;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &a), 0);
    fx_write(x, a.ino, 0, "text");
    fx_restart(x, false);
    fx_put(x, "main/a", "hello");
    assert_int_equal(fx_open(x, "main/a", O_RDONLY, &reader), 0);
    fx_is(x, reader.ino, "hello");
    recover_begin(x->files);
    fx_is(x, reader.ino, "hello");
    assert_int_not_equal(fx_ino(x, "main/a"), reader.ino);
    fx_path_is(x, "main/a", "text");
    fx_close(x, &reader);
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upgraded),
        cmocka_unit_test(test_lost_and_found),
        cmocka_unit_test(test_names_are_used_once),
        cmocka_unit_test(test_open_while_it_is_found),
    };
    return cmocka_run_group_tests_name("recover_earlier", tests, NULL, NULL);
}
