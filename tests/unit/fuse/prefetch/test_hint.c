/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/prefetch/hint_list.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB    (UINT64_C(1) << 20)
#define PLENTY UINT64_MAX

static struct hint_list *new_list(void)
{
    const char *tmp = getenv("TMPDIR");
    struct err e = ERR_INIT;
    struct hint_list *l = hint_list_new(7, 1, tmp ? tmp : "/tmp", &e);
    if (!l)
        fail_msg("%s", e.msg);
    return l;
}

static void end_list(struct hint_list *l)
{
    hint_list_remove(l);
    hint_list_free(l);
}

static void give(struct hint_list *l, const char *text, size_t len)
{
    struct err e = ERR_INIT;
    if (hint_list_write(l, text, len, PLENTY, &e) || hint_list_publish(l, &e))
        fail_msg("%s", e.msg);
}

static void give_numbers(struct hint_list *l, unsigned from, unsigned to)
{
    char line[32];
    for (unsigned i = from; i < to; i++)
        give(l, line, (size_t)snprintf(line, sizeof line, "dir/%u\n", i));
}

static int64_t next(struct hint_list *l, uint64_t most, char path[INODE_PATH_MAX])
{
    struct hint_entry entry;
    if (!hint_list_next(l, most, &entry))
        return -1;
    assert_int_equal(hint_list_path(l, &entry, path), 0);
    return entry.index;
}

static void expect_next(struct hint_list *l, int64_t index)
{
    char path[INODE_PATH_MAX], want[32];
    assert_int_equal(next(l, PLENTY, path), index);
    snprintf(want, sizeof want, "dir/%lld", (long long)index);
    if (index >= 0)
        assert_string_equal(path, want);
}

static enum hint_seen seen(struct hint_list *l, unsigned i)
{
    char path[32];
    snprintf(path, sizeof path, "dir/%u", i);
    return hint_list_seen(l, path, false);
}

static void test_lines(void **state)
{
    (void)state;
    static const char text[] =
        "a\n./b//c/./d/\n\n/absolute\na/../b\n..\nwith space\r\n...\n.\n-\nz";
    static const char *want[] = {"a", "b/c/d", "with space", "...", "-"};
    for (size_t cut = 0; cut < sizeof text; cut++) { /* wherever the pieces are cut */
        struct hint_list *l = new_list();
        char path[INODE_PATH_MAX];
        struct hint_list_stats st;
        give(l, text, cut);
        give(l, text + cut, sizeof text - 1 - cut);
        for (size_t i = 0; i < ARRAY_LEN(want); i++) {
            assert_int_equal(next(l, PLENTY, path), i);
            assert_string_equal(path, want[i]);
        }
        assert_int_equal(next(l, PLENTY, path), -1); /* "z" is not complete */
        give(l, "\n", 1);
        assert_int_equal(next(l, PLENTY, path), ARRAY_LEN(want));
        hint_list_stats(l, &st);
        assert_int_equal(st.entries, ARRAY_LEN(want) + 1);
        assert_int_equal(st.bad, 4);
        end_list(l);
    }
}

static void test_long_lines(void **state)
{
    (void)state;
    struct hint_list *l = new_list();
    char *text = xmalloc(10000);
    struct hint_list_stats st;
    char path[INODE_PATH_MAX];
    memset(text, 'x', 10000);
    text[256] = text[9998] = '\n'; /* a name of 256 bytes; a line of 9741 */
    text[9999] = 'y';
    give(l, text, 10000);
    for (int i = 0; i < 20; i++) /* 4080 bytes of names of 254 bytes: a long path, but one */
        memset(text + i * 255, 'n', 254), text[i * 255 + 254] = '/';
    text[0] = '\n';
    text[16 * 255] = '\n';
    give(l, text, 16 * 255 + 1);
    hint_list_stats(l, &st);
    assert_int_equal(st.bad, 2);
    assert_int_equal(st.entries, 2);
    assert_int_equal(next(l, PLENTY, path), 0);
    assert_string_equal(path, "y");
    assert_int_equal(next(l, PLENTY, path), 1);
    assert_int_equal(strlen(path), 16 * 255 - 2);
    struct err e = ERR_INIT;
    assert_int_equal(hint_list_write(l, "a\nb\nc\n", 6, 2, &e), -1); /* room for two more */
    assert_int_equal(e.cls, ERR_EXHAUSTED);
    assert_int_equal(hint_list_publish(l, &e), 0);
    hint_list_stats(l, &st);
    assert_int_equal(st.entries, 2);
    free(text);
    end_list(l);
}

/* What is given out follows the reader: by entries … */
static void test_window(void **state)
{
    (void)state;
    struct hint_list *l = new_list();
    give_numbers(l, 0, 3000);
    for (unsigned i = 0; i < HINT_WINDOW; i++)
        expect_next(l, i);
    expect_next(l, -1);
    assert_int_equal(seen(l, 0), HINT_NEAR);
    expect_next(l, HINT_WINDOW);
    expect_next(l, -1);
    assert_int_equal(seen(l, 9), HINT_NEAR); /* one of several readers is ahead of the others … */
    for (unsigned i = 1; i < 9; i++)
        assert_int_equal(seen(l, i), HINT_NEAR); /* … who change nothing */
    for (unsigned i = HINT_WINDOW + 1; i < HINT_WINDOW + 10; i++)
        expect_next(l, i);
    expect_next(l, -1);
    /* faster than we are: what he has is not given out any more */
    assert_int_equal(seen(l, HINT_WINDOW + 100), HINT_NEAR);
    expect_next(l, HINT_WINDOW + 101);
    assert_int_equal(hint_list_seen(l, "dir/4000", false), HINT_UNKNOWN);
    end_list(l);
}

/* … and by bytes. */
static void test_bytes(void **state)
{
    (void)state;
    struct hint_list *l = new_list();
    char path[INODE_PATH_MAX];
    const uint64_t most = 10 * MIB;
    give_numbers(l, 0, 100);
    assert_int_equal(next(l, most, path), 0);
    /* the beginning of a large file */
    assert_int_equal(hint_list_weigh(l, 0, 100 * MIB, most), 10 * MIB);
    assert_int_equal(next(l, most, path), -1);
    assert_int_equal(seen(l, 0), HINT_NEAR);
    for (int i = 1; i <= 10; i++) /* of unknown size: a block each */
        assert_int_equal(next(l, most, path), i);
    assert_int_equal(next(l, most, path), -1);
    for (uint32_t i = 1; i <= 10; i++)
        assert_int_equal(hint_list_weigh(l, i, 1000, most), 1000);
    for (int i = 11; i < 21; i++) /* 10 KiB are ahead: nine blocks and a bit are left */
        if (next(l, most, path) != i)
            assert_int_equal(i, 20);
    /* the other blocks are taken */
    assert_int_equal(hint_list_weigh(l, 11, 3 * MIB, most), MIB + (MIB - 10 * 1024));
    /* not given out: no more than a block */
    assert_int_equal(hint_list_weigh(l, 99, 3 * MIB, most), MIB);
    for (unsigned i = 1; i < 21; i++)
        seen(l, i);
    assert_int_equal(next(l, most, path), 21);
    /* nothing is counted twice or left over */
    assert_int_equal(hint_list_weigh(l, 21, 100 * MIB, most), 10 * MIB);
    end_list(l);
}

static void test_moves(void **state)
{
    (void)state;
    struct hint_list *l = new_list();
    give_numbers(l, 0, 10000);
    expect_next(l, 0);
    assert_int_equal(seen(l, 5000), HINT_FAR); /* somebody else, perhaps */
    assert_int_equal(seen(l, 9000), HINT_FAR);
    assert_int_equal(seen(l, 5001), HINT_FAR);
    expect_next(l, 1);
    assert_int_equal(seen(l, 5003), HINT_FAR);
    assert_int_equal(seen(l, 5002), HINT_FAR);
    assert_int_equal(seen(l, 5004), HINT_FAR); /* the fourth in a row */
    expect_next(l, 5005);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(seen(l, 100 + i), HINT_FAR); /* begins anew */
    expect_next(l, 104);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(hint_list_seen(l, "dir/7000", true), HINT_FAR);
    expect_next(l, 105);
    end_list(l);
}

/* The same files in several epochs of one list, and one of them very often. */
static void test_repeats(void **state)
{
    (void)state;
    struct hint_list *l = new_list();
    for (int epoch = 0; epoch < 5; epoch++)
        give_numbers(l, 0, 1000);
    for (unsigned i = 0; i < 5000; i++)
        assert_int_equal(seen(l, i % 1000), HINT_NEAR);
    struct hint_list_stats st;
    hint_list_stats(l, &st);
    assert_int_equal(st.passed, 5000);
    for (int i = 0; i < 100000; i++)
        give(l, "same\n", 5);
    for (int i = 0; i < 100000; i++)
        hint_list_seen(l, "same", false);
    end_list(l);
}

static void test_grows(void **state)
{
    (void)state;
    struct hint_list *l = new_list();
    unsigned given = 0;
    for (unsigned i = 0; i < 20000; i++) { /* appended while it is read */
        if (i + 700 > given) {
            give_numbers(l, given, given + 1000);
            given += 1000;
        }
        char path[INODE_PATH_MAX];
        while (next(l, PLENTY, path) >= 0)
            continue;
        assert_int_equal(seen(l, i), HINT_NEAR);
    }
    struct hint_list_stats st;
    hint_list_stats(l, &st);
    assert_int_equal(st.passed, 20000);
    assert_int_equal(st.entries, given);
    end_list(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_grows),
    };
    return cmocka_run_group_tests_name("hint", tests, NULL, NULL);
}
