/* SPDX-License-Identifier: Apache-2.0 */
/* cat, head and checksum of a store read in pieces: a store's call has a deadline, and may have to
 * hold in memory what it reads, while who takes the bytes may be slow. */
#include "fuse/cli/cli.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)8 << 20)
#define SIZE  (2 * PIECE + 12345)

static char work[PATH_MAX];
static char *content;         /* SIZE bytes, lines of 100 */
static size_t longest, asked; /* of one call, of all */
static unsigned calls;

int __real_store_stream_of(struct store *s, const char *path, const char *version, uint64_t size,
    uint64_t off, size_t len, sink_fn sink, void *user, const atomic_bool *cancel, struct err *e);
int __wrap_store_stream_of(struct store *s, const char *path, const char *version, uint64_t size,
    uint64_t off, size_t len, sink_fn sink, void *user, const atomic_bool *cancel, struct err *e);

int __wrap_store_stream_of(struct store *s, const char *path, const char *version, uint64_t size,
    uint64_t off, size_t len, sink_fn sink, void *user, const atomic_bool *cancel, struct err *e)
{
    calls++;
    asked += len;
    longest = MAX(longest, len);
    return __real_store_stream_of(s, path, version, size, off, len, sink, user, cancel, e);
}

/* What the verb with those arguments prints for the file "big"; caller frees. */
static char *prints(const char *name, const char *flag, size_t *len)
{
    const struct verb *v = verb_find(name);
    cleanup_free char *verb = xstrdup(name), *url = xasprintf("file://%s/big", work),
                      *more = flag ? xstrdup(flag) : NULL, *path = path_join(work, "out");
    char *argv[] = {verb, more ? more : url, more ? url : NULL, NULL};
    assert_non_null(v);
    longest = asked = calls = 0;
    fflush(stdout);
    int out = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int before = dup(STDOUT_FILENO);
    assert_true(out >= 0 && before >= 0 && dup2(out, STDOUT_FILENO) >= 0);
    int rc = v->run(v, more ? 3 : 2, argv);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    close(out);
    assert_int_equal(rc, CLI_DONE);
    char *text = file_read(path, 2 * SIZE, len, NULL);
    assert_non_null(text);
    return text;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(work, sizeof work, "/tmp/millrace-content.XXXXXX");
    assert_non_null(mkdtemp(work));
    content = xmalloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        content[i] = i % 100 == 99 ? '\n' : (char)('a' + i / 100 % 26);
    cleanup_free char *path = path_join(work, "big");
    return file_write_atomic(path, content, SIZE, 0600, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    free(content);
    return file_remove_tree(work, NULL);
}

static void test_cat_reads_in_pieces(void **state)
{
    (void)state;
    size_t len;
    cleanup_free char *text = prints("cat", NULL, &len);
    assert_int_equal(len, SIZE);
    assert_memory_equal(text, content, SIZE);
    assert_int_equal(asked, SIZE);
    assert_true(longest <= PIECE);
    assert_int_equal(calls, 3);
}

static void test_head_reads_little(void **state)
{
    (void)state;
    size_t len;
    cleanup_free char *text = prints("head", NULL, &len);
    assert_int_equal(len, 1000);
    assert_memory_equal(text, content, 1000);
    assert_true(asked < 1 << 20);
    cleanup_free char *more = prints("head", "--lines=100000", &len);
    assert_int_equal(len, 100000 * 100);
    assert_memory_equal(more, content, len);
    assert_true(longest <= PIECE);
}

static void test_checksum_reads_in_pieces(void **state)
{
    (void)state;
    size_t len;
    cleanup_free char *text = prints("checksum", "--type=crc32c", &len);
    assert_true(len > 8);
    assert_int_equal(asked, SIZE);
    assert_true(longest <= PIECE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cat_reads_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_head_reads_little, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_checksum_reads_in_pieces, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
