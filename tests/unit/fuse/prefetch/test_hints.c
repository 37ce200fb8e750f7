/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of files that jobs will read: fetched ahead of their readers, followed, restarted,
 * forgotten. */
#include "tests/unit/fuse/prefetch/prefetch_fixture.h"

#include "fuse/file/file.h"
#include "fuse/prefetch/hint.h"
#include "lib/base/ioctl.h"

#include <errno.h>

#define QUOTA (INT64_C(256) << 20)

struct hinted {
    struct fx *x;
    struct files *files;
    struct hints *hints;
};

static struct hinted *hinted_new(int64_t quota)
{
    struct hinted *h = xcalloc(1, sizeof *h);
    struct err e = ERR_INIT;
    h->x = fx_new(quota);
    struct files_conf fc = {.inodes = h->x->inodes,
        .tree = h->x->tree,
        .cache = h->x->cache,
        .conf = &h->x->conf,
        .stage_dir = h->x->dir};
    h->files = files_new(&fc, &e);
    assert_non_null(h->files);
    h->hints = hints_new(h->files, h->x->dir, false, &e);
    assert_non_null(h->hints);
    return h;
}

static void hinted_free(struct hinted *h)
{
    hints_free(h->hints);
    files_free(h->files);
    fx_free(h->x);
    free(h);
}

/* errno or 0 */
static int add(struct hinted *h, uint64_t list, const char *dir, const char *text)
{
    struct err e = ERR_INIT;
    struct hint_msg m = {.list = list, .len = (uint32_t)strlen(text)};
    assert_true(m.len <= sizeof m.text);
    memcpy(m.text, text, m.len);
    uint64_t ino = *dir ? fx_inode(h->x, dir).ino : INODE_ROOT;
    return hints_add(h->hints, ino, &m, &e) ? err_errno(&e) : 0;
}

/* Files DIR/f000 … as lines. */
static char *lines(const char *prefix, unsigned from, unsigned to)
{
    char *text = xcalloc(1, HINT_TEXT), *p = text;
    for (unsigned i = from; i < to; i++)
        p += sprintf(p, "%sf%03u\n", prefix, i);
    return text;
}

static struct hints_stats stats(struct hinted *h)
{
    struct hints_stats s;
    hints_stats(h->hints, &s);
    return s;
}

static void seen(struct hinted *h, const char *dir, unsigned i)
{
    hints_seen(h->hints, fx_file(h->x, dir, i).ino);
}

/* All of a short list comes, and is counted. */
static void test_fetched(void **state)
{
    (void)state;
    struct hinted *h = hinted_new(QUOTA);
    fx_files(h->x, "d", 40, 1000);
    hints_seen(h->hints, fx_file(h->x, "d", 1).ino); /* of no effect without lists */
    assert_int_equal(stats(h).lists, 0);
    cleanup_free char *text = lines("d/", 10, 30);
    assert_int_equal(add(h, 7, "", text), 0);
    eventually(stats(h).done == 20);
    struct hints_stats s = stats(h);
    assert_true(s.lists == 1 && s.entries == 20 && s.bytes == 20 * 1000);
    assert_true(s.missing == 0 && s.refused == 0 && s.failed == 0 && s.followed == 0);
    assert_string_equal(s.first_missing, "");
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(fx_is_cached(h->x, "d", i), i >= 10 && i < 30);
    hinted_free(h);
}

/* Paths are of the directory that the list was given on. */
static void test_base(void **state)
{
    (void)state;
    struct hinted *h = hinted_new(QUOTA);
    fx_files(h->x, "d", 4, 10);
    fx_files(h->x, "e", 4, 10);
    assert_int_equal(add(h, 7, "d", "f001\n./f002\n"), 0);
    eventually(stats(h).done == 2);
    assert_true(fx_is_cached(h->x, "d", 1) && fx_is_cached(h->x, "d", 2));
    assert_int_equal(add(h, 7, "e", "f001\n"), 0); /* the same number elsewhere is another list */
    eventually(stats(h).done == 3);
    assert_true(fx_is_cached(h->x, "e", 1) && stats(h).lists == 2);
    hinted_free(h);
}

static void test_missing(void **state)
{
    (void)state;
    struct hinted *h = hinted_new(QUOTA);
    fx_files(h->x, "d", 4, 10);
    assert_int_equal(
        add(h, 7, "", "d/absent\nd/f000/below\nd\nd/f001\n/absolute\nd/../d/f002\n\nother/f000\n"),
        0);
    eventually(stats(h).done == 5);
    struct hints_stats s = stats(h);
    assert_true(s.entries == 5 && s.missing == 4 && s.refused == 2 && s.failed == 0);
    assert_true(s.bytes == 10 && strcspn(s.first_missing, "\n") > 0);
    assert_true(fx_is_cached(h->x, "d", 1));
    snprintf(h->x->fails, sizeof h->x->fails, "d/f003");
    h->x->fail_cls = ERR_RETRY;
    assert_int_equal(add(h, 7, "", "d/f003\nd/f000\n"), 0);
    eventually(stats(h).done == 7);
    assert_int_equal(stats(h).failed, 1);
    assert_true(fx_is_cached(h->x, "d", 0));
    hinted_free(h);
}

static void test_first_missing(void **state)
{
    (void)state;
    struct hinted *h = hinted_new(QUOTA);
    fx_files(h->x, "d", 1, 10);
    assert_int_equal(add(h, 7, "", "d/absent\n"), 0);
    eventually(stats(h).done == 1);
    assert_string_equal(stats(h).first_missing, "d/absent");
    assert_int_equal(add(h, 7, "", "d/too\n"), 0);
    eventually(stats(h).done == 2);
    assert_string_equal(stats(h).first_missing, "d/absent"); /* of this list … */
    assert_int_equal(add(h, 8, "", "d/another\n"), 0);
    eventually(stats(h).done == 3);
    assert_string_equal(stats(h).first_missing, "d/another"); /* … or of the latest one */
    hinted_free(h);
}

static void test_malformed(void **state)
{
    (void)state;
    struct hinted *h = hinted_new(QUOTA);
    struct err e = ERR_INIT;
    struct hint_msg m = {.list = 1, .len = HINT_TEXT + 1};
    fx_files(h->x, "d", 1, 10);
    assert_int_equal(hints_add(h->hints, INODE_ROOT, &m, &e), -1);
    assert_int_equal(err_errno(&e), EINVAL);
    m = (struct hint_msg){.list = 1, .len = 1, .unused = 1};
    assert_int_equal(hints_add(h->hints, INODE_ROOT, &m, &e), -1);
    assert_int_equal(err_errno(&e), EINVAL);
    m.unused = 0;
    assert_int_equal(hints_add(h->hints, fx_file(h->x, "d", 0).ino, &m, &e), -1);
    assert_int_equal(err_errno(&e), ENOTDIR);
    assert_int_equal(hints_add(h->hints, 99999, &m, &e), -1);
    assert_int_equal(err_errno(&e), ENOTDIR);
    assert_int_equal(stats(h).lists, 0);
    m.len = HINT_TEXT;
    memset(m.text, '\n', sizeof m.text);
    assert_int_equal(hints_add(h->hints, INODE_ROOT, &m, &e), 0);
    hinted_free(h);
}

/* Only so much is ahead of the reader; more comes as it comes on, and as it begins anew. */
static void test_window(void **state)
{
    (void)state;
    struct hinted *h = hinted_new(INT64_C(40) << 20); /* 2 MiB ahead */
    fx_files(h->x, "d", 60, 256 << 10);
    cleanup_free char *text = lines("d/", 0, 60);
    assert_int_equal(add(h, 7, "", text), 0);
    eventually(stats(h).done >= 5);
    fx_settle(h->x);
    assert_in_range(stats(h).done, 5, 8);
    for (unsigned i = 0; i < 30; i++) {
        seen(h, "d", i);
        eventually(fx_is_cached(h->x, "d", i + 1));
    }
    assert_int_equal(stats(h).followed, 30);
    eventually(stats(h).done >= 35);
    fx_settle(h->x);
    assert_in_range(stats(h).done, 35, 38);
    for (unsigned i = 0; i < 6; i++) { /* one file that is read twice is no second reader */
        seen(h, "d", 29);
        seen(h, "d", 29);
    }
    assert_int_equal(stats(h).followed, 30);
    hinted_free(h);
}

/* A list that was read to its end goes when the next one comes; others stay. */
static void test_forgotten(void **state)
{
    (void)state;
    struct hinted *h = hinted_new(QUOTA);
    fx_files(h->x, "d", 10, 10);
    cleanup_free char *first = lines("d/", 0, 5), *second = lines("d/", 5, 10);
    assert_int_equal(add(h, 1, "", first), 0);
    assert_int_equal(add(h, 2, "", second), 0);
    eventually(stats(h).done == 10);
    for (unsigned i = 0; i < 5; i++)
        seen(h, "d", i);
    assert_int_equal(stats(h).followed, 5);
    assert_int_equal(stats(h).lists, 2);
    assert_int_equal(add(h, 3, "", "d/f000\n"), 0);
    assert_int_equal(stats(h).lists, 2);
    seen(h, "d", 6);
    assert_int_equal(stats(h).followed, 6); /* the second one is there */
    /* a list that grows after its end was read is not at its end any more */
    assert_int_equal(add(h, 3, "", "d/f009\n"), 0);
    assert_int_equal(stats(h).lists, 2);
    eventually(stats(h).done == 12);
    hinted_free(h);
}

static void test_many_lists(void **state)
{
    (void)state;
    struct hinted *h = hinted_new(QUOTA);
    fx_files(h->x, "d", 100, 10);
    for (unsigned i = 0; i < 100; i++) {
        cleanup_free char *text = lines("d/", i, i + 1);
        assert_int_equal(add(h, i, "", text), 0);
    }
    assert_int_equal(stats(h).lists, 64);
    eventually(stats(h).done >= 64);
    seen(h, "d", 0); /* of a list that gave way */
    assert_int_equal(stats(h).followed, 0);
    seen(h, "d", 99);
    assert_int_equal(stats(h).followed, 1);
    hinted_free(h);
}

static void restart(struct hinted *h, bool resume)
{
    struct err e = ERR_INIT;
    hints_free(h->hints);
    h->hints = hints_new(h->files, h->x->dir, resume, &e);
    assert_non_null(h->hints);
}

/* A process that takes the mount over has the lists of the one before, with a line that was cut off
 * left out; another mount has none. */
static void test_resumed(void **state)
{
    (void)state;
    struct hinted *h = hinted_new(QUOTA);
    fx_files(h->x, "d", 600, 10);
    for (unsigned i = 0; i < 6; i++) {
        cleanup_free char *text = lines("d/", i * 100, (i + 1) * 100);
        assert_int_equal(add(h, 7, "", text), 0);
    }
    assert_int_equal(add(h, 7, "", "d/f0"), 0);
    assert_int_equal(add(h, 8, "", "d/f001\n"), 0);
    eventually(stats(h).done == 513);
    assert_false(fx_is_cached(h->x, "d", 599));
    restart(h, true);
    eventually(stats(h).entries == 601);
    assert_int_equal(stats(h).lists, 2);
    for (unsigned i = 500; i < 510; i++)
        seen(h, "d", i);
    eventually(fx_is_cached(h->x, "d", 599));
    assert_int_equal(add(h, 7, "", "d/f002\n"), 0); /* to the same list */
    assert_int_equal(stats(h).entries, 602);
    assert_int_equal(stats(h).lists, 2);
    assert_true(stats(h).refused == 0 && stats(h).missing == 0);
    restart(h, false);
    assert_int_equal(add(h, 9, "", "d/f003\n"), 0); /* once it has looked */
    assert_int_equal(stats(h).lists, 1);
    restart(h, true);
    assert_int_equal(add(h, 10, "", "d/f003\n"), 0);
    assert_int_equal(stats(h).lists, 2);
    hinted_free(h);
}

static void *release(void *arg)
{
    clock_sleep_ns(100 * NS_PER_MS);
    fx_hold(arg, false);
    return NULL;
}

/* Ended while files are being fetched: those, and no more. */
static void test_stop(void **state)
{
    (void)state;
    struct hinted *h = hinted_new(QUOTA);
    pthread_t thread;
    fx_files(h->x, "d", 300, 10);
    cleanup_free char *text = lines("d/", 0, 300);
    fx_hold(h->x, true);
    assert_int_equal(add(h, 7, "", text), 0);
    eventually(fx_fetched(h->x) > 0);
    assert_int_equal(pthread_create(&thread, NULL, release, h->x), 0);
    struct fx *x = h->x;
    hints_free(h->hints);
    assert_in_range(fx_fetched(x), 1, 32);
    pthread_join(thread, NULL);
    files_free(h->files);
    fx_free(x);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fetched),
        cmocka_unit_test(test_base),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_first_missing),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_forgotten),
        cmocka_unit_test(test_many_lists),
        cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
