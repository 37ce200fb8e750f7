/* SPDX-License-Identifier: Apache-2.0 */
/* What store.h promises, of every kind of store: a row in the table of store_kinds.h. With
 * MILLRACE_STORE_URL it is that store's turn alone, which a test has started: a directory of it for
 * each promise, options from the environment. */
#include "tests/lib/unit.h"

#include "tests/unit/fuse/store/store_kinds.h"

#include <errno.h>
#include <pthread.h>

#define LEN 300000u

static struct store_stat put(struct store *s, const char *path, unsigned seed, uint64_t len)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    cleanup_fd int fd = content_fd(seed, len);
    ok(store_put(s, path, PUT(fd, len), &st, &e), &e);
    assert_false(st.is_dir);
    assert_int_equal(st.size, len);
    assert_true(*st.version);
    return st;
}

static void make_dir(struct store *s, const char *path)
{
    struct err e = ERR_INIT;
    ok(store_mkdir(s, path, 0, &e), &e);
}

static bool has_dirs(const struct store *s) { return store_caps(s) & STORE_CAP_DIRS; }

static struct store_stat stat_of(struct store *s, const char *path)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    ok(store_stat_path(s, path, &st, &e), &e);
    return st;
}

static void assert_content(
    struct store *s, const char *path, const char *version, unsigned seed, uint64_t off, size_t len)
{
    struct err e = ERR_INIT;
    cleanup_free unsigned char *buf = xmalloc(len + 1);
    ok(store_read(s, path, version, off, len, buf, NULL, &e), &e);
    assert_true(content_same(seed, off, buf, len));
}

static void assert_listing(struct store *s, const char *dir, bool tree, const char *want)
{
    struct err e = ERR_INIT;
    struct names l;
    ok(names_list(s, dir, tree, &l, &e), &e);
    cleanup_free char *got = names_join(&l);
    assert_string_equal(got, want);
}

/* -- the promises ---------------------------------------------------------------------------- */

static void an_empty_store(struct store *s)
{
    struct err e = ERR_INIT;
    struct store_stat st = stat_of(s, "");
    ok(store_check(s, &e), &e);
    assert_true(st.is_dir);
    assert_int_equal(st.size, 0);
    assert_string_equal(st.version, "");
    assert_listing(s, "", false, "");
    assert_listing(s, "", true, "");
}

static void what_is_put_is_there(struct store *s)
{
    static const uint64_t sizes[] = {0, 1, 4096, LEN};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct store_stat made = put(s, "f", 1, sizes[i]), st = stat_of(s, "f");
        assert_false(st.is_dir);
        assert_int_equal(st.size, sizes[i]);
        assert_string_equal(st.version, made.version);
        assert_int_equal(st.mtime_ns, made.mtime_ns);
        assert_content(s, "f", made.version, 1, 0, (size_t)sizes[i]);
    }
}

static void ranges_of_a_file(struct store *s)
{
    struct err e = ERR_INIT;
    struct store_stat st = put(s, "f", 1, LEN);
    unsigned char buf[16];
    assert_content(s, "f", st.version, 1, 12345, 100000);
    assert_content(s, "f", "", 1, LEN - 1, 1);
    ok(store_read(s, "f", st.version, 7, 0, buf, NULL, &e), &e);
    fails(store_read(s, "f", st.version, LEN - 5, 6, buf, NULL, &e), &e, ERR_INVALID, 0);
    fails(store_read(s, "f", "", LEN + 10, 1, buf, NULL, &e), &e, ERR_INVALID, 0);
    fails(store_read(s, "none", "", 0, 1, buf, NULL, &e), &e, ERR_NOTFOUND, ENOENT);
}

static void bytes_come_in_order_until_they_are_refused(struct store *s)
{
    struct err e = ERR_INIT;
    struct store_stat st = put(s, "f", 1, LEN);
    struct taken all = {1000, UINT64_MAX}, none = {1000, 0};
    ok(store_stream(s, "f", st.version, 1000, 200000, take, &all, NULL, &e), &e);
    assert_int_equal(all.at, 201000);
    ok(store_stream(s, "f", st.version, 1000, 0, take, &all, NULL, &e), &e);
    assert_int_equal(all.at, 201000);
    fails(store_stream(s, "f", st.version, 1000, 200000, take, &none, NULL, &e), &e, ERR_RETRY,
        ECANCELED);
}

static void a_cancelled_read(struct store *s)
{
    struct err e = ERR_INIT;
    atomic_bool cancel = true;
    char buf[16];
    put(s, "f", 1, LEN);
    fails(store_read(s, "f", "", 0, sizeof buf, buf, &cancel, &e), &e, ERR_RETRY, ECANCELED);
}

static void another_version_is_a_conflict(struct store *s)
{
    struct err e = ERR_INIT;
    char buf[16];
    struct store_stat old = put(s, "f", 1, LEN), now = put(s, "f", 2, LEN);
    assert_string_not_equal(old.version, now.version);
    fails(store_read(s, "f", old.version, 0, sizeof buf, buf, NULL, &e), &e, ERR_CONFLICT, ESTALE);
    assert_content(s, "f", now.version, 2, 0, LEN);
    assert_content(s, "f", "", 2, 0, LEN);
}

static void listings(struct store *s)
{
    make_dir(s, "a");
    make_dir(s, "a/b");
    make_dir(s, "empty");
    put(s, "a/b/deep", 1, 3);
    put(s, "a/file", 1, 2);
    put(s, "top", 1, 1);
    assert_listing(s, "", false, "a/ empty/ top:1");
    assert_listing(s, "a", false, "b/ file:2");
    assert_listing(s, "empty", false, "");
    assert_listing(s, "", true, "a/b/deep:3 a/file:2 top:1");
    assert_listing(s, "a", true, "b/deep:3 file:2");
    assert_true(stat_of(s, "a/b").is_dir);
    assert_string_equal(stat_of(s, "a/b").version, "");
}

static int stop_at_three(void *user, const struct store_entry *entry)
{
    (void)entry;
    return ++*(int *)user == 3;
}

static void a_listing_that_is_stopped(struct store *s)
{
    for (int i = 0; i < 10; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i);
        put(s, name, 1, 1);
    }
    for (int tree = 0; tree < 2; tree++) {
        struct err e = ERR_INIT;
        char *cursor = NULL;
        int seen = 0;
        ok((tree ? store_list_tree : store_list)(s, "", &cursor, stop_at_three, &seen, &e), &e);
        assert_int_equal(seen, 3);
        free(cursor);
    }
}

/* More than one batch of a directory has, or one page of hdfs_lib.sh's server, which takes its time
 * for each; each name comes once, with what stat says of it. */
static void a_large_directory(struct store *s)
{
    struct err e = ERR_INIT;
    struct names l;
    int many = is_hdfs() ? 250 : 600;
    for (int i = 0; i < many; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%04d", i);
        put(s, name, 1, (uint64_t)i % 7);
    }
    for (int tree = 0; tree < 2; tree++) {
        ok(names_list(s, "", tree, &l, &e), &e);
        assert_int_equal(l.n, many);
        for (int i = 0; i < many; i++) {
            char want[32];
            snprintf(want, sizeof want, "n%04d:%d", i, i % 7);
            assert_string_equal(l.name[i], want);
        }
        names_free(&l);
    }
}

static void odd_names(struct store *s)
{
    static const char *const names[] = {"with space", "plus+percent%41", "quote'\"", "ümlaut",
        "a&b=c?d#e", "...", ".hidden", "semi;colon:", "back\\slash", "*[x]", "~", "tab\there"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct err e = ERR_INIT;
        if (is_hdfs() && strchr(names[i], ':')) {
            refuses_name(s, names[i]);
            continue;
        }
        put(s, names[i], (unsigned)i, 10);
        cleanup_free char *want = xasprintf("%s:10", names[i]);
        assert_listing(s, "", false, want);
        assert_content(s, names[i], stat_of(s, names[i]).version, (unsigned)i, 0, 10);
        ok(store_remove(s, names[i], &e), &e);
    }
    assert_listing(s, "", true, "");
}

static void paths_that_are_none(struct store *s)
{
    static const char *const bad[] = {"/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b"};
    cleanup_fd int fd = content_fd(1, 1);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = ERR_INIT;
        struct store_stat st;
        char *cursor = NULL, byte;
        int seen = 0;
        fails(store_stat_path(s, bad[i], &st, &e), &e, ERR_INVALID, EINVAL);
        fails(store_list(s, bad[i], &cursor, stop_at_three, &seen, &e), &e, ERR_INVALID, EINVAL);
        fails(store_read(s, bad[i], "", 0, 1, &byte, NULL, &e), &e, ERR_INVALID, EINVAL);
        fails(store_put(s, bad[i], PUT(fd, 1), &st, &e), &e, ERR_INVALID, EINVAL);
        fails(store_remove(s, bad[i], &e), &e, ERR_INVALID, EINVAL);
        fails(store_mkdir(s, bad[i], 0, &e), &e, ERR_INVALID, EINVAL);
        fails(store_rmdir(s, bad[i], &e), &e, ERR_INVALID, EINVAL);
        fails(store_rename(s, "x", bad[i], NULL, &st, &e), &e, ERR_INVALID, EINVAL);
    }
    struct err e = ERR_INIT;
    fails(store_remove(s, "", &e), &e, ERR_INVALID, EBUSY);
}

static void refused(
    struct store *s, const char *path, unsigned seed, uint64_t len, const char *expect, int sys)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    cleanup_fd int fd = content_fd(seed, len);
    fails(store_put(s, path, PUT_OVER(fd, len, expect), &st, &e), &e, ERR_CONFLICT, sys);
}

static struct store_stat replaced(
    struct store *s, const char *path, unsigned seed, uint64_t len, const char *expect)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    cleanup_fd int fd = content_fd(seed, len);
    ok(store_put(s, path, PUT_OVER(fd, len, expect), &st, &e), &e);
    assert_string_equal(st.version, stat_of(s, path).version);
    return st;
}

/* What may be replaced, and what must not. */
static void expecting(struct store *s)
{
    struct err e = ERR_INIT;
    struct store_stat first = replaced(s, "f", 1, LEN, "");
    refused(s, "f", 2, LEN, "", EEXIST);
    refused(s, "f", 2, 10, "", EEXIST);
    assert_content(s, "f", first.version, 1, 0, LEN);
    /* an attempt whose answer was lost */
    assert_string_equal(replaced(s, "f", 1, LEN, "").version, first.version);
    struct store_stat second = replaced(s, "f", 2, LEN, first.version);
    refused(s, "f", 3, LEN, first.version, ESTALE);
    assert_content(s, "f", second.version, 2, 0, LEN);
    assert_listing(s, "", true, "f:300000");
    ok(store_remove(s, "f", &e), &e);
    refused(s, "f", 3, LEN, second.version, ESTALE);
    assert_listing(s, "", true, "");
    replaced(s, "lock", 1, 0, "");
    refused(s, "lock", 1, 0, "", EEXIST); /* though it is the same: empty */
}

struct race {
    struct store *s;
    const char *expect;
    unsigned seed;
    atomic_uint *won;
};

static void *race_thread(void *user)
{
    const struct race *r = user;
    struct err e = ERR_INIT;
    struct store_stat st;
    cleanup_fd int fd = content_fd(r->seed, 1000 + r->seed);
    if (store_put(r->s, "f", PUT_OVER(fd, 1000 + r->seed, r->expect), &st, &e) == 0)
        atomic_fetch_add(r->won, 1);
    else
        assert_int_equal(e.cls, ERR_CONFLICT);
    return NULL;
}

/* Of many who make the same name, one does. */
static void one_wins(struct store *s)
{
    pthread_t threads[4];
    struct race race[ARRAY_LEN(threads)];
    atomic_uint won = 0;
    for (unsigned i = 0; i < ARRAY_LEN(threads); i++) {
        race[i] = (struct race){s, "", i, &won};
        assert_int_equal(pthread_create(&threads[i], NULL, race_thread, &race[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(won, 1);
}

static void removing(struct store *s)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    put(s, "f", 1, 10);
    put(s, "g", 1, 10);
    ok(store_remove(s, "f", &e), &e);
    fails(store_stat_path(s, "f", &st, &e), &e, ERR_NOTFOUND, ENOENT);
    assert_listing(s, "", false, "g:10");
    if (has_dirs(s)) /* others need not tell */
        fails(store_remove(s, "f", &e), &e, ERR_NOTFOUND, ENOENT);
}

static void directories(struct store *s)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    make_dir(s, "d");
    assert_true(stat_of(s, "d").is_dir);
    fails(store_mkdir(s, "d", 0, &e), &e, ERR_EXISTS, EEXIST);
    put(s, "d/f", 1, 10);
    fails(store_rmdir(s, "d", &e), &e, ERR_EXISTS, ENOTEMPTY);
    assert_content(s, "d/f", "", 1, 0, 10);
    ok(store_remove(s, "d/f", &e), &e);
    ok(store_rmdir(s, "d", &e), &e);
    fails(store_stat_path(s, "d", &st, &e), &e, ERR_NOTFOUND, ENOENT);
    cleanup_fd int fd = content_fd(1, 1);
    if (has_dirs(s))
        fails(store_put(s, "none/f", PUT(fd, 1), &st, &e), &e, ERR_NOTFOUND, ENOENT);
    else
        ok(store_put(s, "none/f", PUT(fd, 1), &st, &e), &e);
}

static void renaming_files(struct store *s)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    put(s, "from", 1, LEN);
    put(s, "to", 2, 10);
    ok(store_rename(s, "from", "to", NULL, &st, &e), &e);
    assert_int_equal(st.size, LEN);
    assert_string_equal(st.version, stat_of(s, "to").version);
    assert_content(s, "to", st.version, 1, 0, LEN);
    assert_listing(s, "", false, "to:300000");
    ok(store_rename(s, "to", "to", NULL, &st, &e), &e);
    assert_listing(s, "", false, "to:300000");
    fails(store_rename(s, "from", "x", NULL, &st, &e), &e, ERR_NOTFOUND, ENOENT);
    fails(store_rename(s, "from", "x", st.version, &st, &e), &e, ERR_NOTFOUND, ENOENT);
    struct store_stat old = stat_of(s, "to");
    put(s, "to", 3, 20);
    fails(store_rename(s, "to", "x", old.version, &st, &e), &e, ERR_CONFLICT, ESTALE);
    assert_listing(s, "", false, "to:20");
    ok(store_rename(s, "to", "x", stat_of(s, "to").version, &st, &e), &e);
    assert_listing(s, "", false, "x:20");
}

static void renaming_directories(struct store *s)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    make_dir(s, "d");
    put(s, "d/f", 1, 10);
    int rc = store_rename(s, "d", "e", NULL, &st, &e);
    if (!(store_caps(s) & STORE_CAP_RENAME_DIR)) {
        fails(rc, &e, ERR_INVALID, 0);
        assert_listing(s, "", true, "d/f:10");
        return;
    }
    ok(rc, &e);
    assert_true(st.is_dir);
    assert_listing(s, "", false, "e/");
    assert_content(s, "e/f", "", 1, 0, 10);
}

static void *use_own_file(void *store)
{
    static atomic_uint number;
    char path[16];
    unsigned n = atomic_fetch_add(&number, 1);
    snprintf(path, sizeof path, "t%u", n);
    for (unsigned i = 0; i < 5; i++) {
        struct store_stat st = put(store, path, n + i, 20000);
        assert_content(store, path, st.version, n + i, 100, 10000);
    }
    return NULL;
}

static void many_threads(struct store *s)
{
    pthread_t threads[4];
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_own_file, s), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    struct err e = ERR_INIT;
    struct names l;
    ok(names_list(s, "", false, &l, &e), &e);
    assert_int_equal(l.n, ARRAY_LEN(threads));
    names_free(&l);
}

/* -- every promise, of every kind ------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*check)(struct store *s);
} promises[] = {
#define P(name)     \
    {               \
#name, name \
    }
    P(an_empty_store),
    P(what_is_put_is_there),
    P(ranges_of_a_file),
    P(bytes_come_in_order_until_they_are_refused),
    P(a_cancelled_read),
    P(another_version_is_a_conflict),
    P(expecting),
    P(one_wins),
    P(listings),
    P(a_listing_that_is_stopped),
    P(a_large_directory),
    P(odd_names),
    P(paths_that_are_none),
    P(removing),
    P(directories),
    P(renaming_files),
    P(renaming_directories),
    P(many_threads),
};

struct pairing {
    size_t kind, promise;
    struct subject t;
};

static int begin(void **state)
{
    struct pairing *p = *state;
    const char *url = getenv("MILLRACE_STORE_URL");
    p->t = (struct subject){0};
    if (url) {
        cleanup_free char *own = xasprintf("%s/%s", url, promises[p->promise].name);
        make_own(url, promises[p->promise].name);
        open_at(&p->t, own);
    } else {
        kinds[p->kind].open(&p->t);
    }
    return 0;
}

static int end(void **state)
{
    struct pairing *p = *state;
    subject_close(&p->t);
    return 0;
}

static void keeps_promise(void **state)
{
    struct pairing *p = *state;
    promises[p->promise].check(p->t.s);
}

int main(void)
{
    enum { N = ARRAY_LEN(kinds) * ARRAY_LEN(promises) };
    static struct pairing pairings[N];
    static struct CMUnitTest tests[N];
    static char names[N][128];
    bool one = getenv("MILLRACE_STORE_URL") != NULL;
    size_t n = one ? ARRAY_LEN(promises) : N;
    for (size_t i = 0; i < n; i++) {
        pairings[i] = (struct pairing){
            .kind = i / ARRAY_LEN(promises), .promise = i % ARRAY_LEN(promises)};
        snprintf(names[i], sizeof names[i], "%s%s%s", one ? "" : kinds[pairings[i].kind].name,
            one ? "" : ": ", promises[pairings[i].promise].name);
        tests[i] = (struct CMUnitTest){names[i], keeps_promise, begin, end, &pairings[i]};
    }
    return _cmocka_run_group_tests("store", tests, n, NULL, NULL);
}
