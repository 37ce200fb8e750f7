/* SPDX-License-Identifier: Apache-2.0 */
/* cp and mv onto a disk or a mount: all of a file or what was there before, and a close() that
 * fails, as it does on a mount whose store refuses, fails them. */
#include "fuse/cli/cli.h"
#include "fuse/cli/rm.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/lib/unit.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char work[PATH_MAX];        /* with "from" and "to" in it */
static bool no_saving, no_writing; /* of what is below "to" */
static bool goes_on;               /* "from/a" is written to while it is copied */

static bool is_below_to(int fd)
{
    char name[64], path[PATH_MAX] = "";
    cleanup_free char *to = path_join(work, "to/");
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return readlink(name, path, sizeof path - 1) > 0 && strncmp(path, to, strlen(to)) == 0;
}

static char *in_work(const char *name) { return path_join(work, name); }

static void put(const char *name, const char *text, mode_t mode)
{
    cleanup_free char *path = in_work(name);
    assert_int_equal(file_write_atomic(path, text, strlen(text), mode, NULL), 0);
}

int __real_close(int fd);
int __wrap_close(int fd);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
ssize_t __real_pwrite(int fd, const void *buf, size_t len, off_t off);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t off);

int __wrap_close(int fd)
{
    bool fails = no_saving && is_below_to(fd);
    int rc = __real_close(fd);
    if (!fails)
        return rc;
    errno = EIO;
    return -1;
}

int __wrap_fsync(int fd)
{
    if (goes_on && is_below_to(fd)) {
        goes_on = false;
        put("from/a", "newer", 0600);
    }
    if (!no_saving || !is_below_to(fd))
        return __real_fsync(fd);
    errno = EIO;
    return -1;
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t off)
{
    if (!no_writing || !is_below_to(fd))
        return __real_pwrite(fd, buf, len, off);
    errno = ENOSPC;
    return -1;
}

static void assert_holds(const char *name, const char *text)
{
    cleanup_free char *path = in_work(name);
    cleanup_free char *now = file_read(path, 1 << 20, NULL, NULL);
    assert_non_null(now);
    assert_string_equal(now, text);
}

static bool is_there(const char *name)
{
    cleanup_free char *path = in_work(name);
    return access(path, F_OK) == 0;
}

static unsigned entries_in_to(void)
{
    cleanup_free char *path = in_work("to");
    unsigned n = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *de; (de = readdir(d));)
        n += strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0;
    closedir(d);
    return n;
}

/* cp or mv, of a URL or a path in "from" to what is below "to" */
static int copies(const char *name, bool url, const char *what, const char *where)
{
    const struct verb *v = verb_find(name);
    cleanup_free char *from = url ? xasprintf("file://%s/%s", work, what) : in_work(what),
                      *to = in_work(where), *verb = xstrdup(name);
    char *argv[] = {verb, from, to, NULL};
    assert_non_null(v);
    return v->run(v, 3, argv);
}

/* of a path in "from" to a URL of what is below "to" */
static int copies_to_store(const char *name, const char *what, const char *where)
{
    const struct verb *v = verb_find(name);
    cleanup_free char *from = in_work(what), *to = xasprintf("file://%s/%s", work, where),
                      *verb = xstrdup(name), *tree = xstrdup("--recursive");
    char *cp[] = {verb, tree, from, to, NULL}, *mv[] = {verb, from, to, NULL};
    bool is_cp = strcmp(name, "cp") == 0;
    assert_non_null(v);
    return v->run(v, is_cp ? 4 : 3, is_cp ? cp : mv);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(work, sizeof work, "/tmp/millrace-copy.XXXXXX");
    assert_non_null(mkdtemp(work));
    cleanup_free char *from = in_work("from"), *to = in_work("to");
    assert_int_equal(file_mkdirs(from, 0700, NULL), 0);
    assert_int_equal(file_mkdirs(to, 0700, NULL), 0);
    put("from/a", "new", 0600);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    no_saving = no_writing = goes_on = false;
    return file_remove_tree(work, NULL);
}

static void test_what_is_not_saved_is_not_copied(void **state)
{
    (void)state;
    for (int url = 0; url < 2; url++) {
        no_saving = true;
        assert_int_equal(copies("cp", url, "from/a", "to/b"), CLI_FAILED);
        if (url) /* of two paths of one disk, the name changes */
            assert_int_equal(copies("mv", url, "from/a", "to/c"), CLI_FAILED);
        no_saving = false;
        assert_true(is_there("from/a"));
        assert_int_equal(copies("cp", url, "from/a", "to/b"), CLI_DONE);
        assert_holds("to/b", "new");
    }
    assert_int_equal(copies("mv", true, "from/a", "to/c"), CLI_DONE);
    assert_holds("to/c", "new");
    assert_false(is_there("from/a"));
}

static void test_a_tree_that_is_not_saved_stays(void **state)
{
    (void)state;
    no_saving = true;
    assert_int_equal(copies("mv", true, "from", "to/tree"), CLI_FAILED);
    no_saving = false;
    assert_holds("from/a", "new");
    assert_int_equal(copies("mv", true, "from", "to/tree2"), CLI_DONE);
    assert_holds("to/tree2/a", "new");
    assert_false(is_there("from/a"));
}

static void test_what_was_there_stays_until_all_is(void **state)
{
    (void)state;
    put("to/b", "old", 0640);
    no_writing = true;
    assert_int_equal(copies("cp", true, "from/a", "to/b"), CLI_FAILED);
    assert_int_equal(copies("cp", true, "from/a", "to/c"), CLI_FAILED);
    no_writing = false;
    no_saving = true;
    assert_int_equal(copies("cp", true, "from/a", "to/b"), CLI_FAILED);
    no_saving = false;
    assert_holds("to/b", "old");
    assert_int_equal(entries_in_to(), 1);
    assert_int_equal(copies("cp", true, "from/a", "to/b"), CLI_DONE);
    assert_holds("to/b", "new");
    assert_int_equal(entries_in_to(), 1);
    struct stat st;
    cleanup_free char *path = in_work("to/b");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
}

static void test_through_a_link(void **state)
{
    (void)state;
    struct stat st;
    cleanup_free char *link = in_work("link"), *target = in_work("to/b"), *lost = in_work("lost");
    put("to/b", "old", 0600);
    assert_int_equal(symlink(target, link), 0);
    no_writing = true;
    assert_int_equal(copies("cp", true, "from/a", "link"), CLI_FAILED);
    no_writing = false;
    assert_holds("to/b", "old");
    assert_int_equal(copies("cp", true, "from/a", "link"), CLI_DONE);
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_holds("to/b", "new");
    assert_int_equal(symlink("/nowhere/at/all", lost), 0);
    assert_int_equal(copies("cp", true, "from/a", "lost"), CLI_FAILED);
    assert_int_equal(lstat(lost, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

static void test_what_is_no_file_stays(void **state)
{
    (void)state;
    struct stat st;
    cleanup_free char *fifo = in_work("to/fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(copies("cp", true, "from/a", "to/fifo"), CLI_FAILED);
    assert_int_equal(lstat(fifo, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(entries_in_to(), 1);
}

/* A link, a pipe: a store has none. */
static void test_what_is_not_copied_is_not_removed(void **state)
{
    (void)state;
    struct stat st;
    cleanup_free char *link = in_work("from/link"), *fifo = in_work("from/fifo");
    assert_int_equal(symlink("/nowhere", link), 0);
    assert_int_equal(copies_to_store("cp", "from", "to/one"), CLI_FAILED);
    assert_holds("to/one/a", "new");
    assert_int_equal(copies_to_store("mv", "from", "to/two"), CLI_FAILED);
    assert_holds("to/two/a", "new");
    assert_holds("from/a", "new");
    assert_int_equal(lstat(link, &st), 0);
    unlink(link);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(copies_to_store("mv", "from", "to/three"), CLI_FAILED);
    assert_int_equal(lstat(fifo, &st), 0);
    unlink(fifo);
    assert_int_equal(copies_to_store("cp", "from", "to/four"), CLI_DONE);
    assert_int_equal(copies_to_store("mv", "from", "to/five"), CLI_DONE);
    assert_holds("to/five/a", "new");
    assert_false(is_there("from"));
}

static void test_what_is_written_meanwhile_stays(void **state)
{
    (void)state;
    goes_on = true;
    assert_int_equal(copies_to_store("mv", "from", "to/tree"), CLI_FAILED);
    assert_false(goes_on);
    assert_holds("to/tree/a", "new");
    assert_holds("from/a", "newer");
}

/* What is found when it is removed may be more than what was found when it was copied. */
static void test_only_what_was_copied_is_removed(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct place_entry entry;
    struct store_stat a;
    cleanup_place struct cli_place p = {0};
    cleanup_free char *from = in_work("from");
    put("from/b", "late", 0600);
    assert_int_equal(place_open(&p, NULL, from, false, &e), 0);
    assert_int_equal(place_stat(&p, &entry, &e), 0);
    assert_int_equal(place_stat_at(&p, "a", &a, &e), 0);
    struct map *only = map_new(NULL);
    map_put(only, "a", a.version);
    struct progress progress;
    progress_start(&progress, "removed");
    assert_int_equal(rm_tree(&p, only, &progress, &e), 0);
    assert_int_equal(progress_end(&progress), 1);
    map_free(only);
    assert_false(is_there("from/a"));
    assert_holds("from/b", "late");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_not_saved_is_not_copied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_tree_that_is_not_saved_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_there_stays_until_all_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_through_a_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_no_file_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_not_copied_is_not_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_written_meanwhile_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_what_was_copied_is_removed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
