/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of the kept files while the disk hangs that they are on. */
#include "tests/lib/unit.h"

#include "fuse/report/kept_copy.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/lib/eventually.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t kept_files(struct kept_copy *k, const char *dir)
{
    struct kept_seen seen;
    kept_copy_get(k, dir, &seen);
    uint64_t files = seen.kept.files;
    kept_seen_free(&seen);
    return files;
}

/* What was seen before is told; a note that is a FIFO is as a disk that does not answer. */
static void test_disk_hangs(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct sidecar note = {.why = KEPT_CONFLICT, .path = "ckpt"};
    struct kept_seen seen;
    char stage[] = "/tmp/millrace-kept.XXXXXX";
    assert_non_null(mkdtemp(stage));
    struct kept_copy *k = kept_copy_new();
    cleanup_free char *content = path_join(stage, "s0000000000000001-2-1"),
                      *beside = xasprintf("%s.path", content), *dir = kept_dir(stage),
                      *other = path_join(dir, "s0000000000000001-3-1"),
                      *fifo = xasprintf("%s.path", other);
    assert_int_equal(kept_files(k, NULL), 0);
    assert_int_equal(kept_files(k, stage), 0);
    assert_int_equal(file_write_atomic(content, "12345", 5, 0600, &e), 0);
    assert_int_equal(sidecar_write(beside, &note, false, &e), 0);
    assert_int_equal(kept_add(stage, "s0000000000000001-2-1", &note, &e), 0);
    assert_int_equal(kept_files(k, stage), 1);
    assert_int_equal(file_write_atomic(other, "123", 3, 0600, &e), 0);
    assert_int_equal(mkfifo(fifo, 0600), 0); /* who opens it waits for a writer */
    for (int i = 0; i < 3; i++) {
        kept_copy_get(k, stage, &seen);
        assert_int_equal(seen.kept.files, 1);
        assert_int_equal(seen.kept.bytes, 5);
        assert_string_equal(seen.kept.shown[0].path, "ckpt");
        assert_string_equal(seen.dir, dir);
        kept_seen_free(&seen);
    }
    int writer = open(fifo, O_WRONLY | O_CLOEXEC);
    assert_true(writer >= 0);
    assert_int_equal(sidecar_write(fifo, &note, false, &e), 0); /* in place of it */
    close(writer);
    eventually(kept_files(k, stage) == 2);
    kept_copy_free(k);
    assert_int_equal(file_remove_tree(stage, &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_disk_hangs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
