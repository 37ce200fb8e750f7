/* SPDX-License-Identifier: Apache-2.0 */
/* The table of backing files and its log; with the kernel it is tested in test_csi_handoff.c. */
#include "tests/lib/unit.h"

#include "csi/backing.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/unit/csi/csi_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_log(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    cleanup_free char *path = path_join(env->dir, "ids");
    static const char text[] =
        "+ 800 1f 1\n+ 800 20 2\n- 1\nnonsense\n+ 800 21 -3\n+ 800 22 4\n- 99\n+ 800 1f 5\n+ 800 3";
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, &e), 0);
    struct backing *b = backing_new(path, 10);
    assert_int_equal(backing_load(b, &e), 0);
    assert_int_equal(backing_count(b), 3); /* 2, 4 and 5 */
    backing_close(b, -1, 99);
    assert_int_equal(backing_count(b), 3);
    backing_close(b, -1, 4); /* the ioctl on no device fails: the id is forgotten all the same */
    assert_int_equal(backing_count(b), 2);
    backing_free(b);

    b = backing_new(path, 10);
    assert_int_equal(backing_load(b, &e), 0);
    assert_int_equal(backing_count(b), 2);
    cleanup_free char *now = file_read(path, 4096, NULL, &e);
    assert_non_null(strstr(now, "+ 800 20 2\n"));
    assert_non_null(strstr(now, "+ 800 1f 5\n"));
    assert_null(strchr(now, '-')); /* what is over has been left out */
    backing_reset(b);
    assert_int_equal(backing_count(b), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(backing_load(b, &e), 0);
    backing_free(b);
}

/* An id that was given out twice is the kernel's until it came back twice; also when the log is
 * replayed, and shortened, in between. */
static void test_uses(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    cleanup_free char *path = path_join(env->dir, "ids");
    static const char text[] = "+ 800 1f 1\n+ 800 1f 1\n+ 800 20 2\n+ 800 1f 1\n- 1\n+ 800 20 3\n";
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, &e), 0);
    struct backing *b = backing_new(path, 10);
    for (int times = 2; times > 0; times--) {
        assert_int_equal(backing_load(b, &e), 0);
        assert_int_equal(backing_count(b), 2); /* 1, and 3, which has taken the file of 2 */
        backing_close(b, -1, 2);
        assert_int_equal(backing_count(b), 2);
        backing_close(b, -1, 1);
        assert_int_equal(backing_count(b), times);
    }
    backing_free(b);
}

/* What a client was given, or gave back, while nobody heard it: it tells what it holds. */
static void test_claims(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    cleanup_free char *path = path_join(env->dir, "ids");
    static const char text[] = "+ 800 1f 1 3\n+ 800 20 2\n+ 800 21 3\n";
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, &e), 0);
    struct backing *b = backing_new(path, 10);
    assert_int_equal(backing_load(b, &e), 0);
    backing_claim(b, 2); /* by a client that did not come to the end */
    backing_claim_none(b);
    static const int64_t held[] = {1, 3, 1, 99};
    for (size_t i = 0; i < ARRAY_LEN(held); i++)
        backing_claim(b, held[i]);
    assert_int_equal(backing_count(b), 3);
    backing_claimed(b, -1);
    for (int times = 0; times < 2; times++) {
        assert_int_equal(backing_count(b), 2); /* without 2 */
        backing_free(b);
        b = backing_new(path, 10);
        assert_int_equal(backing_load(b, &e), 0);
    }
    backing_close(b, -1, 1);
    assert_int_equal(backing_count(b), 2); /* it is held twice */
    backing_close(b, -1, 1);
    assert_int_equal(backing_count(b), 1);
    backing_claimed(b, -1);
    assert_int_equal(backing_count(b), 0);
    backing_free(b);
}

static off_t length(const char *path)
{
    struct stat st;
    return stat(path, &st) ? -1 : st.st_size;
}

/* A client that opens one file again and again: neither the log nor what reads it grows. */
static void test_one_file_for_ever(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    cleanup_free char *path = path_join(env->dir, "ids"), *name = path_join(env->dir, "file");
    cleanup_fd int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    /* the first open, which needs the kernel */
    cleanup_free char *text = xasprintf("+ %lx %lx 1\n", (long)st.st_dev, (long)st.st_ino);
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, &e), 0);
    struct backing *b = backing_new(path, 10);
    assert_int_equal(backing_load(b, &e), 0);
    int64_t id = 1;
    int taken = 1;
    for (; taken < 100000 && id == 1; taken++)
        id = backing_open(b, -1, fd, st.st_dev, st.st_uid);
    assert_int_equal(id, -EMFILE);
    for (int i = 0; i < 100000; i++) {
        backing_close(b, -1, 1);
        assert_int_equal(backing_open(b, -1, fd, st.st_dev, st.st_uid), 1);
    }
    assert_in_range(length(path), 1, 1 << 20);
    backing_free(b);

    b = backing_new(path, 10);
    assert_int_equal(backing_load(b, &e), 0);
    assert_in_range(length(path), 1, 100); /* uses are a number */
    for (int i = 1; i < taken; i++) {
        assert_int_equal(backing_count(b), 1);
        backing_close(b, -1, 1);
    }
    assert_int_equal(backing_count(b), 0);
    backing_free(b);
}

/* A log of a plugin that kept every line: what is read of it has the table's bound. */
static void test_long_log(void **state)
{
    const struct csi_env *env = *state;
    struct err e = ERR_INIT;
    cleanup_free char *path = path_join(env->dir, "ids");
    FILE *f = fopen(path, "we");
    for (int i = 1; i <= 200000; i++)
        fprintf(f, "+ 800 %x %d\n", i, i);
    fclose(f);
    struct backing *b = backing_new(path, 10);
    assert_int_equal(backing_load(b, &e), 0);
    assert_int_equal(backing_count(b), 10);
    assert_in_range(length(path), 1, 1000);
    backing_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_log, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_uses, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_claims, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_one_file_for_ever, csi_env_setup, csi_env_teardown),
        cmocka_unit_test_setup_teardown(test_long_log, csi_env_setup, csi_env_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
