/* SPDX-License-Identifier: Apache-2.0 */
/* Names in a directory that is a store: which are the store's own, and who gets one that several
 * write at once. */
#include "tests/lib/unit.h"

#include "fuse/store/store.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "tests/unit/fuse/store/store_kinds.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITERS 4
#define ROUNDS  200

static char dir[] = "/tmp/millrace-test.XXXXXX";

static struct store *open_store(struct mount **m)
{
    cleanup_free char *url = xasprintf("file://%s", dir);
    struct err e = ERR_INIT;
    *m = mount_new(url);
    mount_option(*m, "can-hang", "false");
    struct store *s = store_new(&(struct store_conf){.mount = &(*m)->conf}, &e);
    assert_non_null(s);
    return s;
}

/* 0 or errno */
static int put(struct store *s, const char *path, const char *text, const char *expect)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    cleanup_fd int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_int_equal(io_pwrite(fd, text, strlen(text), 0), 0);
    return store_put(s, path, &(struct store_put){.fd = fd, .len = strlen(text), .expect = expect},
               &st, &e)
        ? err_errno(&e)
        : 0;
}

static int count_entry(void *user, const struct store_entry *entry)
{
    (void)entry;
    ++*(unsigned *)user;
    return 0;
}

static unsigned entries(struct store *s, const char *path)
{
    cleanup_free char *cursor = NULL;
    struct err e = ERR_INIT;
    unsigned n = 0;
    assert_int_equal(store_list(s, path, &cursor, count_entry, &n, &e), 0);
    return n;
}

/* What merely looks like a file that is being written is a file as any other. */
static void test_alike(void **state)
{
    (void)state;
    static const char *const names[] = {"d/.millrace-put-", "d/.millrace-put-notes",
        "d/.millrace-put-0123456789abcde", "d/.millrace-put-0123456789abcdef0",
        "d/.millrace-put-0123456789abcdeF"};
    struct mount *m;
    struct store *s = open_store(&m);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct err e = ERR_INIT;
        assert_int_equal(store_mkdir(s, "d", 0, &e), 0);
        assert_int_equal(put(s, names[i], "precious", NULL), 0);
        assert_int_equal(entries(s, "d"), 1);
        assert_int_equal(store_rmdir(s, "d", &e), -1);
        assert_int_equal(entries(s, "d"), 1);
        e = (struct err)ERR_INIT;
        assert_int_equal(store_remove(s, names[i], &e), 0);
        assert_int_equal(store_rmdir(s, "d", &e), 0);
    }
    store_free(s);
    mount_free(m);
}

/* What was left under a name of the store's own does not keep a directory; a store in a mount of
 * another one makes such names there. */
static void test_own(void **state)
{
    (void)state;
    static const char below[] = "d/.millrace-put-0123456789abcdef";
    struct mount *m;
    struct store *s = open_store(&m);
    struct store_stat st;
    struct err e = ERR_INIT;
    cleanup_free char *left = path_join(dir, below);
    assert_int_equal(store_mkdir(s, "d", 0, &e), 0);
    assert_int_equal(put(s, below, "x", NULL), 0);
    assert_int_equal(entries(s, "d"), 0);
    assert_int_equal(store_rename(s, below, "d/f", NULL, &st, &e), 0);
    assert_int_equal(entries(s, "d"), 1);
    assert_int_equal(store_remove(s, "d/f", &e), 0);
    assert_int_equal(mkdir(left, 0755), 0); /* as after a kill */
    assert_int_equal(entries(s, "d"), 0);
    assert_int_equal(store_rmdir(s, "d", &e), 0);
    store_free(s);
    mount_free(m);
}

/* What has a name may not get one of those. */
static void test_rename_to_own(void **state)
{
    (void)state;
    static const char *const names[] = {
        ".millrace-put-0123456789abcdef", "e/.millrace-put-0123456789abcdef"};
    struct mount *m;
    struct store *s = open_store(&m);
    struct store_stat st;
    struct err e = ERR_INIT;
    assert_int_equal(store_mkdir(s, "e", 0, &e), 0);
    assert_int_equal(put(s, "precious", "x", NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_int_equal(store_rename(s, "precious", names[i], NULL, &st, &e), -1);
        assert_int_equal(err_errno(&e), EINVAL);
        assert_int_equal(store_rename(s, "e", names[i], NULL, &st, &e), -1);
    }
    assert_int_equal(store_stat_path(s, "precious", &st, &e), 0);
    assert_int_equal(store_rename(s, "precious", "e/.millrace-put-", NULL, &st, &e), 0);
    assert_int_equal(store_remove(s, "e/.millrace-put-", &e), 0);
    assert_int_equal(store_rmdir(s, "e", &e), 0);
    store_free(s);
    mount_free(m);
}

struct renamer {
    struct store *s;
    const char *from, *to;
    int rc;
    _Atomic bool done;
};

static void *rename_it(void *arg)
{
    struct renamer *r = arg;
    struct store_stat st;
    struct err e = ERR_INIT;
    r->rc = store_rename(r->s, r->from, r->to, NULL, &st, &e);
    r->done = true;
    return NULL;
}

/* Who looks at a version and then replaces it has the directory locked: a file that comes from
 * another directory waits for that as well. */
static void test_rename_locks_both(void **state)
{
    (void)state;
    struct mount *m;
    struct store *s = open_store(&m);
    struct err e = ERR_INIT;
    static const char *const dirs[] = {"d1", "d2"};
    assert_int_equal(store_mkdir(s, "d1", 0, &e), 0);
    assert_int_equal(store_mkdir(s, "d2", 0, &e), 0);
    for (int i = 0; i < 3; i++) { /* 2: in one directory */
        pthread_t t;
        cleanup_free char *locked = path_join(dir, dirs[i & 1]);
        struct renamer r = {.s = s, .from = i == 2 ? "d1/g" : "d1/f", .to = "d2/f"};
        if (i == 2)
            r.to = "d1/h";
        assert_int_equal(put(s, r.from, "x", NULL), 0);
        cleanup_fd int fd = open(locked, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(flock(fd, LOCK_EX), 0);
        assert_int_equal(pthread_create(&t, NULL, rename_it, &r), 0);
        clock_sleep_ns(300 * NS_PER_MS);
        bool waits = !r.done;
        assert_int_equal(flock(fd, LOCK_UN), 0);
        pthread_join(t, NULL);
        assert_int_equal(r.rc, 0);
        assert_true(waits);
    }
    assert_int_equal(store_remove(s, "d1/h", &e), 0);
    assert_int_equal(store_remove(s, "d2/f", &e), 0);
    assert_int_equal(store_rmdir(s, "d1", &e), 0);
    assert_int_equal(store_rmdir(s, "d2", &e), 0);
    store_free(s);
    mount_free(m);
}

/* Has a rename the lock of `first` while it waits for the other one? */
static bool takes_first(struct store *s, int first, int second, const char *from, const char *to)
{
    pthread_t t;
    struct renamer r = {.s = s, .from = from, .to = to};
    bool taken = false;
    assert_int_equal(flock(second, LOCK_EX), 0);
    assert_int_equal(pthread_create(&t, NULL, rename_it, &r), 0);
    while (!r.done && !(taken = flock(first, LOCK_EX | LOCK_NB) != 0)) {
        flock(first, LOCK_UN);
        clock_sleep_ns(20 * NS_PER_MS);
    }
    assert_int_equal(flock(second, LOCK_UN), 0);
    pthread_join(t, NULL);
    assert_int_equal(r.rc, 0);
    return taken;
}

/* Two that go opposite ways begin with the same lock, and do not wait for one another. */
static void test_rename_crosswise(void **state)
{
    (void)state;
    struct mount *m;
    struct store *s = open_store(&m);
    struct err e = ERR_INIT;
    struct stat st[2];
    int fd[2];
    assert_int_equal(store_mkdir(s, "d1", 0, &e), 0);
    assert_int_equal(store_mkdir(s, "d2", 0, &e), 0);
    assert_int_equal(put(s, "d1/a", "x", NULL), 0);
    for (int i = 0; i < 2; i++) {
        cleanup_free char *path = path_join(dir, i ? "d2" : "d1");
        fd[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(fstat(fd[i], &st[i]), 0);
    }
    int first = st[0].st_ino < st[1].st_ino ? 0 : 1;
    assert_true(takes_first(s, fd[first], fd[!first], "d1/a", "d2/a"));
    assert_true(takes_first(s, fd[first], fd[!first], "d2/a", "d1/a"));
    close(fd[0]);
    close(fd[1]);
    assert_int_equal(store_remove(s, "d1/a", &e), 0);
    assert_int_equal(store_rmdir(s, "d1", &e), 0);
    assert_int_equal(store_rmdir(s, "d2", &e), 0);
    store_free(s);
    mount_free(m);
}

struct writer {
    struct store *s;
    const char *expect;
    pthread_barrier_t *begin;
    char text[8];
    int rc;
};

static void *write_it(void *arg)
{
    struct writer *w = arg;
    pthread_barrier_wait(w->begin);
    w->rc = put(w->s, "f", w->text, w->expect);
    return NULL;
}

/* Of several that replace one version at once, one does. */
static void test_one_wins(void **state)
{
    (void)state;
    struct mount *m;
    struct store *s = open_store(&m);
    pthread_barrier_t begin;
    pthread_barrier_init(&begin, NULL, WRITERS);
    assert_int_equal(put(s, "f", "first", NULL), 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct writer w[WRITERS];
        pthread_t threads[WRITERS];
        struct store_stat st;
        struct err e = ERR_INIT;
        assert_int_equal(store_stat_path(s, "f", &st, &e), 0);
        for (int i = 0; i < WRITERS; i++) {
            w[i] = (struct writer){.s = s, .expect = st.version, .begin = &begin};
            snprintf(w[i].text, sizeof w[i].text, "by %d", i);
            assert_int_equal(pthread_create(&threads[i], NULL, write_it, &w[i]), 0);
        }
        unsigned won = 0;
        for (int i = 0; i < WRITERS; i++) {
            pthread_join(threads[i], NULL);
            won += w[i].rc == 0;
            assert_true(w[i].rc == 0 || w[i].rc == ESTALE);
        }
        assert_int_equal(won, 1);
    }
    pthread_barrier_destroy(&begin);
    store_free(s);
    mount_free(m);
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    return file_remove_tree(dir, &e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alike), cmocka_unit_test(test_own),
        cmocka_unit_test(test_rename_to_own), cmocka_unit_test(test_rename_locks_both),
        cmocka_unit_test(test_rename_crosswise), cmocka_unit_test(test_one_wins)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
