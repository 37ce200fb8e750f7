/* SPDX-License-Identifier: Apache-2.0 */
/* The S3 store against a real server: s3_store.sh starts it and says where it is (S3_ENDPOINT) and
 * where its files are (S3_ROOT), or that it has the many keys already (no S3_ROOT). */
#include "tests/lib/unit.h"

#include "fuse/store/s3.h"
#include "lib/base/file.h"
#include "tests/lib/mount.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#define MIB (UINT64_C(1) << 20)

static const char *endpoint, *root;

static struct mount *mount_for(const char *url)
{
    struct mount *m = mount_new(url);
    mount_option(m, "endpoint", endpoint);
    mount_option(m, "access-key-id", "testaccess");
    mount_option(m, "secret-access-key", "testsecret123");
    return m;
}

static struct store *open_mount(struct mount *m)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(
        &(struct store_conf){.mount = &m->conf, .secrets_dir = "/nonexistent"}, &e);
    if (!s)
        print_error("%s\n", e.msg);
    assert_non_null(s);
    return s;
}

static void ok(int rc, const struct err *e)
{
    if (rc)
        print_error("%s\n", e->msg);
    assert_int_equal(rc, 0);
}

static struct store_stat put(struct store *s, const char *path, unsigned seed, uint64_t len)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    cleanup_fd int fd = content_fd(seed, len);
    ok(store_put(s, path, PUT(fd, len), &st, &e), &e);
    assert_int_equal(st.size, len);
    assert_true(*st.version);
    return st;
}

static void check_read(
    struct store *s, const char *path, const char *version, unsigned seed, uint64_t off, size_t len)
{
    struct err e = ERR_INIT;
    cleanup_free unsigned char *buf = malloc(len + 1);
    ok(store_read(s, path, version, off, len, buf, NULL, &e), &e);
    assert_true(content_same(seed, off, buf, len));
}

static char *listing(struct store *s, const char *dir, bool tree)
{
    struct err e = ERR_INIT;
    struct names l;
    ok(names_list(s, dir, tree, &l, &e), &e);
    return names_join(&l);
}

#define assert_listing(s, dir, tree, text)              \
    do {                                                \
        cleanup_free char *got = listing(s, dir, tree); \
        assert_string_equal(got, text);                 \
    } while (0)

static void put_get_and_ranges(void **state)
{
    (void)state;
    struct mount *m = mount_for("s3://data/basic/");
    struct store *s = open_mount(m);
    struct err e = ERR_INIT;
    ok(store_check(s, &e), &e);
    struct store_stat st = put(s, "a/one.bin", 1, 3000000), again;
    ok(store_stat_path(s, "a/one.bin", &again, &e), &e);
    assert_string_equal(again.version, st.version);
    assert_int_equal(again.mtime_ns, st.mtime_ns);
    assert_false(again.is_dir);
    check_read(s, "a/one.bin", st.version, 1, 0, 3000000);
    check_read(s, "a/one.bin", "", 1, 1234567, 65536);
    check_read(s, "a/one.bin", st.version, 1, 2999999, 1);
    check_read(s, "a/one.bin", st.version, 1, 5, 0);
    char buf[100];
    assert_int_equal(store_read(s, "a/one.bin", st.version, 2999950, 100, buf, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_INVALID);
    assert_int_equal(store_read(s, "a/one.bin", st.version, 3000000, 100, buf, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_INVALID);
    assert_int_equal(store_read(s, "a/none.bin", "", 0, 100, buf, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    assert_string_equal(store_reason(&e), "NotFound");
    assert_non_null(strstr(e.msg, "s3://data/basic/a/none.bin"));
    st = put(s, "empty", 0, 0);
    assert_int_equal(st.size, 0);
    ok(store_stat_path(s, "a", &st, &e), &e);
    assert_true(st.is_dir);
    assert_int_equal(store_stat_path(s, "b", &st, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    assert_listing(s, "", false, "a/ empty:0");
    assert_listing(s, "", true, "a/one.bin:3000000 empty:0");
    store_free(s);
    mount_free(m);
}

static void another_version_is_never_mixed_in(void **state)
{
    (void)state;
    struct mount *m = mount_for("s3://data/versions");
    struct store *s = open_mount(m);
    struct store_stat old = put(s, "f", 1, 100000), new = put(s, "f", 2, 100000);
    assert_string_not_equal(old.version, new.version);
    char buf[1000];
    struct err e = ERR_INIT;
    assert_int_equal(store_read(s, "f", old.version, 500, sizeof buf, buf, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_int_equal(e.sys, ESTALE);
    check_read(s, "f", new.version, 2, 500, 1000);
    store_free(s);
    mount_free(m);
}

static void names_of_all_kinds(void **state)
{
    (void)state;
    static const char *const paths[] = {"plain", "with space", "plus+sign", "percent%41",
        "ümläut-日本", "quote'\"<&>", "q?x=1#f", "tab\there", "back\\slash", "a~b!c*d(e)",
        "deep/er/and/deeper/still", "..dots..", "=;:@,$"};
    struct mount *m = mount_for("s3://data/names of/all kinds+");
    struct store *s = open_mount(m);
    struct err e = ERR_INIT;
    for (unsigned i = 0; i < ARRAY_LEN(paths); i++) {
        struct store_stat st = put(s, paths[i], i, 100 + i), again;
        check_read(s, paths[i], st.version, i, 3, 90);
        ok(store_stat_path(s, paths[i], &again, &e), &e);
        assert_string_equal(again.version, st.version);
    }
    struct names l;
    ok(names_list(s, "", true, &l, &e), &e);
    assert_int_equal(l.n, ARRAY_LEN(paths));
    for (unsigned i = 0; i < ARRAY_LEN(paths); i++) {
        char want[300];
        snprintf(want, sizeof want, "%s:%u", paths[i], 100 + i);
        bool found = false;
        for (size_t k = 0; k < l.n; k++)
            found |= strcmp(l.name[k], want) == 0;
        if (!found)
            print_error("missing: %s\n", want);
        assert_true(found);
    }
    names_free(&l);
    for (unsigned i = 0; i < ARRAY_LEN(paths); i++)
        ok(store_remove(s, paths[i], &e), &e);
    store_free(s);
    mount_free(m);
}

static void bad_paths_are_refused_before_they_leave(void **state)
{
    (void)state;
    static const char *const paths[] = {"/a", "a//b", "a/", "../x", "a/./b", ".", ""};
    struct mount *m = mount_for("s3://data/bad");
    struct store *s = open_mount(m);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct err e = ERR_INIT;
        char c;
        assert_int_equal(store_read(s, paths[i], "", 0, 1, &c, NULL, &e), -1);
        assert_int_equal(e.cls, ERR_INVALID);
    }
    store_free(s);
    mount_free(m);
}

/* as versitygw keeps them: quicker than so many PUTs */
static void make_many(int n)
{
    struct err e = ERR_INIT;
    cleanup_free char *dir = xasprintf("%s/data/many/d", root);
    ok(file_mkdirs(dir, 0755, &e), &e);
    for (int i = 0; i < n; i++) {
        cleanup_free char *path = xasprintf("%s/%s%04d", dir, i % 500 == 0 ? "sub" : "f", i);
        if (i % 500 == 0) {
            assert_int_equal(mkdir(path, 0755), 0);
            cleanup_free char *inner = xasprintf("%s/x", path);
            ok(file_write_atomic(inner, "x", 1, 0644, &e), &e);
        } else {
            ok(file_write_atomic(path, "hello", 5, 0644, &e), &e);
        }
    }
}

static void many_keys_come_in_pages(void **state)
{
    (void)state;
    enum { KEYS = 2500 };
    struct err e = ERR_INIT;
    if (root)
        make_many(KEYS);
    struct mount *m = mount_for("s3://data/many");
    struct store *s = open_mount(m);
    struct names l;
    ok(names_list(s, "d", false, &l, &e), &e);
    assert_int_equal(l.n, KEYS);
    assert_true(l.pages >= 3);
    for (size_t i = 1; i < l.n; i++)
        assert_string_not_equal(l.name[i - 1], l.name[i]);
    assert_string_equal(l.name[KEYS - 1], "sub2000/");
    assert_string_equal(l.name[0], "f0001:5");
    names_free(&l);
    ok(names_list(s, "", true, &l, &e), &e);
    assert_int_equal(l.n, KEYS);
    assert_string_equal(l.name[KEYS - 1], "d/sub2000/x:1");
    names_free(&l);
    store_free(s);
    mount_free(m);
}

static void directories(void **state)
{
    (void)state;
    struct mount *m = mount_for("s3://data/dirs");
    struct store *s = open_mount(m);
    struct err e = ERR_INIT;
    struct store_stat st;
    ok(store_mkdir(s, "d", 0, &e), &e);
    ok(store_stat_path(s, "d", &st, &e), &e);
    assert_true(st.is_dir);
    assert_listing(s, "", false, "d/");
    assert_listing(s, "d", false, "");
    put(s, "d/f", 1, 10);
    put(s, "d-sibling", 1, 1);
    put(s, "d.sibling", 1, 1);
    assert_listing(s, "d", false, "f:10");
    assert_int_equal(store_rmdir(s, "d", &e), -1);
    assert_int_equal(e.cls, ERR_EXISTS);
    assert_int_equal(err_errno(&e), ENOTEMPTY);
    ok(store_remove(s, "d/f", &e), &e);
    ok(store_rmdir(s, "d", &e), &e);
    assert_int_equal(store_stat_path(s, "d", &st, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    store_free(s);
    mount_free(m);
}

static void multipart(void **state)
{
    (void)state;
    struct mount *m = mount_for("s3://data/big");
    struct store *s = open_mount(m);
    uint64_t len = 65 * MIB + 12345;
    struct store_stat st = put(s, "model.bin", 7, len);
    assert_non_null(strstr(st.version, "-5")); /* an ETag of five parts */
    for (uint64_t off = 0; off < len; off += 10 * MIB + 77)
        check_read(s, "model.bin", st.version, 7, off, (size_t)MIN(MIB, len - off));
    store_free(s);
    mount_free(m);
}

static void renames(void **state)
{
    (void)state;
    struct mount *m = mount_for("s3://data/ren ame");
    struct store *s = open_mount(m);
    struct err e = ERR_INIT;
    struct store_stat st;
    put(s, "from +ü", 1, 5000);
    put(s, "to", 2, 10);
    ok(store_rename(s, "from +ü", "to", NULL, &st, &e), &e);
    assert_int_equal(st.size, 5000);
    check_read(s, "to", st.version, 1, 0, 5000);
    assert_int_equal(store_stat_path(s, "from +ü", &st, &e), -1);
    assert_int_equal(store_rename(s, "absent", "x", NULL, &st, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    store_free(s);
    mount_free(m);
}

/* The same code as for copies over the limit of one request, with the limit turned down. */
static void copies_in_parts(void **state)
{
    (void)state;
    struct mount *m = mount_for("s3://data/parts");
    struct store_params p = {.url = "s3://data/parts",
        .rest = "data/parts",
        .mount = &m->conf,
        .kind = &store_s3.kind,
        .secrets_dir = "/nonexistent",
        .deadline_ns = 30 * NS_PER_S,
        .max_connections = 8};
    struct err e = ERR_INIT;
    struct s3 *s = store_s3.open(&p, &e);
    assert_non_null(s);
    s->single_copy_max = 6 * MIB;
    s->copy_part_size = 5 * MIB;
    struct store_stat st;
    uint64_t len = 12 * MIB + 1;
    cleanup_fd int fd = content_fd(3, len);
    ok(store_s3.put(s, "one", PUT(fd, len), &st, &e), &e);
    ok(store_s3.rename(s, "one", "two", NULL, &st, &e), &e);
    assert_int_equal(st.size, len);
    assert_non_null(strstr(st.version, "-3"));
    cleanup_free unsigned char *buf = malloc(len);
    struct sink_memory memory = {(char *)buf, len};
    ok(store_s3.read(s, "two", st.version, 0, len, sink_to_memory, &memory, NULL, &e), &e);
    assert_true(content_same(3, 0, buf, len));
    assert_int_equal(store_s3.stat_path(s, "one", &st, &e), -1);
    store_s3.close(s);
    mount_free(m);
}

static void *put_many(void *user)
{
    struct store *s = user;
    for (unsigned i = 0; i < 40; i++) {
        char path[32];
        snprintf(path, sizeof path, "t%lx/%u", (unsigned long)pthread_self(), i);
        struct store_stat st = put(s, path, i, 20000 + i);
        check_read(s, path, st.version, i, 10, 19990);
    }
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    struct mount *m = mount_for("s3://data/threads");
    struct store *s = open_mount(m);
    pthread_t t[8];
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, put_many, s), 0);
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        pthread_join(t[i], NULL);
    store_free(s);
    mount_free(m);
}

static void check_tells_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *url, *endpoint, *key, *secret;
        bool read_only;
        enum err_class cls;
        const char *reason, *words;
    } cases[] = {
        {"s3://nosuchbucket/x", NULL, "testaccess", "testsecret123", false, ERR_NOTFOUND,
            "BucketNotFound", "create bucket nosuchbucket"},
        {"s3://data", NULL, "testaccess", "wrongsecret", false, ERR_DENIED, "AccessDenied",
            "SignatureDoesNotMatch"},
        {"s3://data", NULL, "nobody", "wrongsecret", false, ERR_DENIED, "AccessDenied",
            "check the keys in the options access-key-id"},
        {"s3://data/basic/none", NULL, "testaccess", "testsecret123", true, ERR_NOTFOUND,
            "NotFound", "no object below basic/none/"},
        {"s3://data", "http://127.0.0.1:1", "testaccess", "testsecret123", false, ERR_RETRY,
            "Unreachable", "127.0.0.1"},
        {"s3://data", "http://s3.nowhere.invalid:7070", "testaccess", "testsecret123", false,
            ERR_RETRY, "NameNotResolved", "check option endpoint"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct mount *m = mount_new(cases[i].url);
        mount_option(m, "endpoint", cases[i].endpoint ? cases[i].endpoint : endpoint);
        mount_option(m, "access-key-id", cases[i].key);
        mount_option(m, "secret-access-key", cases[i].secret);
        m->conf.read_only = cases[i].read_only;
        struct store *s = open_mount(m);
        struct err e = ERR_INIT;
        assert_int_equal(store_check(s, &e), -1);
        print_message("%s\n", e.msg);
        assert_int_equal(e.cls, cases[i].cls);
        assert_string_equal(store_reason(&e), cases[i].reason);
        assert_non_null(strstr(e.msg, cases[i].words));
        assert_null(strstr(e.msg, cases[i].secret));
        store_free(s);
        mount_free(m);
    }
}

int main(void)
{
    endpoint = getenv("S3_ENDPOINT");
    root = getenv("S3_ROOT");
    if (!endpoint) {
        fprintf(stderr, "run tests/integration/s3_store.sh: it starts the server\n");
        return 2;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(put_get_and_ranges),
        cmocka_unit_test(another_version_is_never_mixed_in), cmocka_unit_test(names_of_all_kinds),
        cmocka_unit_test(bad_paths_are_refused_before_they_leave),
        cmocka_unit_test(many_keys_come_in_pages), cmocka_unit_test(directories),
        cmocka_unit_test(multipart), cmocka_unit_test(renames), cmocka_unit_test(copies_in_parts),
        cmocka_unit_test(many_threads), cmocka_unit_test(check_tells_what_is_wrong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
