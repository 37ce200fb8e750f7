/* SPDX-License-Identifier: Apache-2.0 */
/* The S3 store against a server that misbehaves. */
#include "tests/unit/fuse/store/s3_fixture.h"

#include <pthread.h>

static void read_all(struct fixture *w, size_t off, size_t len)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    ok(store_stat_path(w->s, "file", &st, &e), &e);
    cleanup_free unsigned char *buf = malloc(len);
    ok(store_read(w->s, "file", st.version, off, len, buf, NULL, &e), &e);
    assert_true(content_same(1, off, buf, len));
}

static void passing_faults_are_survived(void **state)
{
    struct fixture *w = *state;
    static const char *const kinds[] = {
        "slowdown", "throttled", "error", "reset", "truncated", "short", "long", "otherrange"};
    read_all(w, 0, LEN);
    struct err e = ERR_INIT;
    struct store_stat st;
    ok(store_stat_path(w->s, "file", &st, &e), &e);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        unsigned before = fake_s3_requests(w->server, "GET");
        assert_int_equal(fake_s3_fault(w->server, "GET", kinds[i], i == 0 ? 1 : 2), 0);
        unsigned char buf[50000];
        int rc = store_read(w->s, "file", st.version, 1000, sizeof buf, buf, NULL, &e);
        if (rc)
            print_error("%s: %s\n", kinds[i], e.msg);
        assert_int_equal(rc, 0);
        assert_true(content_same(1, 1000, buf, sizeof buf));
        assert_true(fake_s3_requests(w->server, "GET") - before >= (i == 0 ? 2 : 3));
        fake_s3_clear(w->server);
    }
}

static void what_has_come_is_not_fetched_again(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    cleanup_free unsigned char *buf = malloc(LEN);
    fake_s3_fault(w->server, "GET", "truncated", 3); /* each brings half of what is missing */
    ok(store_read(w->s, "file", "", 0, LEN, buf, NULL, &e), &e);
    assert_true(content_same(1, 0, buf, LEN));
    assert_int_equal(fake_s3_requests(w->server, "GET"), 4);
}

static void a_sink_gets_each_byte_once(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    ok(store_stat_path(w->s, "file", &st, &e), &e);
    static const char *const kinds[] = {
        "slowdown", "error", "reset", "truncated", "short", "long", "otherrange"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct taken t = {1000, UINT64_MAX};
        fake_s3_fault(w->server, "GET", kinds[i], 2);
        ok(store_stream(w->s, "file", st.version, 1000, LEN - 2000, take, &t, NULL, &e), &e);
        assert_int_equal(t.at, LEN - 1000);
        fake_s3_clear(w->server);
    }
}

static void a_sink_that_stops_is_not_asked_again(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    ok(store_stat_path(w->s, "file", &st, &e), &e);
    unsigned before = fake_s3_requests(w->server, "GET");
    struct taken t = {1000, 0};
    assert_int_equal(
        store_stream(w->s, "file", st.version, 1000, LEN - 1000, take, &t, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    assert_int_equal(e.sys, ECANCELED);
    assert_int_equal(t.at, 1000);
    assert_int_equal(fake_s3_requests(w->server, "GET"), before + 1);
}

/* The first part came of one version, and the rest is not to be had any more: all of it is of the
 * new one. */
static void any_version_is_one_version(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    cleanup_free unsigned char *buf = malloc(LEN);
    fake_s3_fault(w->server, "GET", "truncated", 1);
    fake_s3_fault(w->server, "GET", "etag", 1);
    ok(store_read(w->s, "file", "", 0, LEN, buf, NULL, &e), &e);
    assert_true(content_same(1, 0, buf, LEN));
    struct taken t = {0, UINT64_MAX};
    fake_s3_fault(w->server, "GET", "truncated", 1);
    fake_s3_fault(w->server, "GET", "etag", 1);
    assert_int_equal(store_stream(w->s, "file", "", 0, LEN, take, &t, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_true(t.at > 0 && t.at < LEN);
}

static void retry_after_is_honoured(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    char c;
    fake_s3_fault(w->server, "GET", "slowdown", 1); /* Retry-After: 1 */
    int64_t began = clock_mono_ns();
    ok(store_read(w->s, "file", "", 0, 1, &c, NULL, &e), &e);
    assert_true(clock_mono_ns() - began >= NS_PER_S);
    assert_true(clock_mono_ns() - began < PATIENT / 2);
}

static void lasting_faults_end_at_the_deadline(void **state)
{
    struct fixture *w = *state;
    static const char *const kinds[] = {"error", "hang", "reset"};
    struct store *s = open_store(w->m, w->dir, BRIEF);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct err e = ERR_INIT;
        char c;
        fake_s3_fault(w->server, "GET", kinds[i], 1000);
        int64_t began = clock_mono_ns();
        assert_int_equal(store_read(s, "file", "", 0, 1, &c, NULL, &e), -1);
        assert_int_equal(e.cls, ERR_RETRY);
        assert_int_equal(err_errno(&e), EIO);
        /* a thousand failures, or one that hangs: it does not wait for them */
        assert_true(clock_mono_ns() - began < PATIENT / 2);
        for (int k = 0; k < TRIES && i == 0 && strcmp(store_reason(&e), "StoreError") != 0; k++)
            assert_int_equal(store_read(s, "file", "", 0, 1, &c, NULL, &e), -1);
        assert_string_equal(store_reason(&e), i == 0 ? "StoreError" : "Unreachable");
        fake_s3_clear(w->server);
    }
    store_free(s);
}

static void *cancel_soon(void *flag)
{
    clock_sleep_ns(200 * NS_PER_MS);
    atomic_store((atomic_bool *)flag, true);
    return NULL;
}

static void a_cancelled_read_returns_soon(void **state)
{
    struct fixture *w = *state;
    static const char *const kinds[] = {"hang", "error"};
    struct store *s = open_store(w->m, w->dir, PATIENT);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct err e = ERR_INIT;
        char c;
        atomic_bool cancel = false;
        fake_s3_fault(w->server, "GET", kinds[i], 1000);
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, cancel_soon, &cancel), 0);
        int64_t began = clock_mono_ns();
        assert_int_equal(store_read(s, "file", "", 0, 1, &c, &cancel, &e), -1);
        assert_true(clock_mono_ns() - began < PATIENT / 2);
        pthread_join(t, NULL);
        fake_s3_clear(w->server);
    }
    store_free(s);
}

static void another_version_is_a_conflict(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    unsigned char buf[1000];
    ok(store_stat_path(w->s, "file", &st, &e), &e);
    fake_s3_fault(w->server, "GET", "etag", 1); /* a server that knows nothing of If-Match */
    struct taken t = {0, UINT64_MAX};
    assert_int_equal(store_stream(w->s, "file", st.version, 0, sizeof buf, take, &t, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_int_equal(e.sys, ESTALE);
    assert_int_equal(t.at, 0); /* not one byte of it */
    ok(store_read(w->s, "file", st.version, 0, sizeof buf, buf, NULL, &e), &e);
    fake_s3_put(w->server, "set/file", "new", 3);
    assert_int_equal(store_read(w->s, "file", st.version, 0, sizeof buf, buf, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
}

/* Its versions are size and time. */
static void another_version_of_a_server_without_etags(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    unsigned char buf[1000];
    for (int resized = 0; resized < 2; resized++) {
        fake_s3_tags(w->server, false, false);
        ok(store_stat_path(w->s, "file", &st, &e), &e);
        assert_int_equal(st.version[0], '~');
        ok(store_read(w->s, "file", st.version, 0, sizeof buf, buf, NULL, &e), &e);
        if (resized) {
            size_t len;
            cleanup_free char *now = fake_s3_get(w->server, "set/file", &len);
            fake_s3_put(w->server, "set/file", now, len - 1);
        } else {
            fake_s3_tags(w->server, false, true);
        }
        assert_int_equal(store_read(w->s, "file", st.version, 0, sizeof buf, buf, NULL, &e), -1);
        assert_int_equal(e.cls, ERR_CONFLICT);
        ok(store_stat_path(w->s, "file", &st, &e), &e);
        ok(store_read(w->s, "file", st.version, 0, sizeof buf, buf, NULL, &e), &e);
    }
}

static void a_server_without_ranges(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    cleanup_free unsigned char *buf = malloc(LEN);
    struct store *s = open_store(w->m, w->dir, BRIEF);
    fake_s3_fault(w->server, "GET", "norange", 1000);
    ok(store_read(w->s, "file", "", 0, LEN, buf, NULL, &e), &e); /* all of it: nothing is wrong */
    assert_true(content_same(1, 0, buf, LEN));
    for (int i = 0; i < TRIES && !strstr(e.msg, "other bytes"); i++)
        assert_int_equal(store_read(s, "file", "", 10, 100, buf, NULL, &e), -1);
    assert_non_null(strstr(e.msg, "other bytes"));
    store_free(s);
}

static void errors_in_words(void **state)
{
    struct fixture *w = *state;
    static const struct {
        const char *kind;
        enum err_class cls;
        const char *reason, *words;
    } cases[] = {
        {"denied", ERR_DENIED, "AccessDenied",
            "s3://data/set: AccessDenied (403 AccessDenied): check the keys in Secret creds (keys accessKey, secretKey)"},
        {"redirect", ERR_INVALID, "InvalidOption",
            "the bucket is in region eu-west-9, and option endpoint (http://127.0.0.1:"},
        {"xml", ERR_RETRY, "StoreError", "is the endpoint an S3 server?"},
        {"html", ERR_RETRY, "StoreError", "is the endpoint an S3 server?"},
        {"error", ERR_RETRY, "StoreError", "500 InternalError"},
        {"hang", ERR_RETRY, "Unreachable", "127.0.0.1"},
    };
    struct store *s = open_store(w->m, w->dir, BRIEF);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        fake_s3_fault(w->server, "GET", cases[i].kind, 1000);
        for (int k = 0; k < TRIES && !strstr(e.msg, cases[i].words); k++)
            assert_int_equal(store_check(s, &e), -1);
        if (!strstr(e.msg, cases[i].words) || e.cls != cases[i].cls)
            print_error("%s: %s\n", cases[i].kind, e.msg);
        assert_int_equal(e.cls, cases[i].cls);
        assert_string_equal(store_reason(&e), cases[i].reason);
        assert_non_null(strstr(e.msg, cases[i].words));
        assert_null(strstr(e.msg, "secretsecret"));
        fake_s3_clear(w->server);
        ok(store_check(w->s, &e), &e);
    }
    store_free(s);
}

static void listings_survive_malformed_pages(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct names l;
    for (int i = 0; i < 30; i++) {
        cleanup_free char *key = xasprintf("set/dir %d/x\ty", i);
        fake_s3_put(w->server, key, "123", 3);
    }
    fake_s3_put(w->server, "set/dir 1/", "", 0); /* a marker */
    fake_s3_put(w->server, "set/both", "1", 1);
    fake_s3_put(w->server, "set/both/x", "1", 1);
    fake_s3_put(w->server, "set/both-and", "1", 1);
    fake_s3_put(w->server, "set//odd", "1", 1);
    fake_s3_put(w->server, "set/./odd", "1", 1);
    fake_s3_put(w->server, "set/../odd", "1", 1);
    fake_s3_fault(w->server, "GET", "xml", 2);
    uint64_t left_out = store_left_out_count();
    ok(names_list(w->s, "", false, &l, &e), &e);
    assert_int_equal(l.n, 34);
    assert_int_equal(store_left_out_count() - left_out, 3);
    names_free(&l);
    ok(names_list(w->s, "dir 1", false, &l, &e), &e);
    cleanup_free char *text = names_join(&l);
    assert_string_equal(text, "x\ty:3");
    ok(names_list(w->s, "", true, &l, &e), &e);
    assert_int_equal(l.n, 34);
    assert_int_equal(store_left_out_count() - left_out, 6);
    names_free(&l);
    struct store_stat st;
    ok(store_stat_path(w->s, "both", &st, &e), &e); /* object and prefix: the directory wins */
    assert_true(st.is_dir);
    ok(store_stat_path(w->s, "both-and", &st, &e), &e);
    assert_false(st.is_dir);
}

static void a_name_far_behind_its_neighbours_is_still_a_directory(void **state)
{
    struct fixture *w = *state;
    for (int i = 0; i < 40; i++) { /* "d!…" sorts before "d/" */
        cleanup_free char *key = xasprintf("set/d!%02d", i);
        fake_s3_put(w->server, key, "", 0);
    }
    struct err e = ERR_INIT;
    struct store_stat st;
    assert_int_equal(store_stat_path(w->s, "d", &st, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    fake_s3_put(w->server, "set/d/x", "", 0);
    ok(store_stat_path(w->s, "d", &st, &e), &e);
    assert_true(st.is_dir);
}

/* Also where it is written to: nothing is below it yet, and pods would see an empty directory. */
static void an_object_as_mount_point(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    fake_s3_put(w->server, "tars/train.tar", "x", 1);
    fake_s3_put(w->server, "marked", "", 0); /* as some tools mark a directory */
    static const char *const urls[] = {
        "s3://data/tars/train.tar", "s3://data/tars/train.ta", "s3://data/marked"};
    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        char *was = w->m->conf.mount_point;
        w->m->conf.mount_point = (char *)urls[i];
        struct store *s = open_store(w->m, w->dir, PATIENT);
        int rc = store_check(s, &e);
        store_free(s);
        w->m->conf.mount_point = was;
        assert_int_equal(rc, i ? 0 : -1);
    }
    assert_string_equal(store_reason(&e), "InvalidURL");
    assert_non_null(strstr(e.msg, "it is one object, no directory"));
}

static void new_credentials_are_used_at_once(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    ok(store_check(w->s, &e), &e);
    fake_s3_expire(w->server, "good");
    assert_int_equal(store_check(w->s, &e), -1);
    assert_string_equal(store_reason(&e), "ExpiredCredentials");
    assert_int_equal(e.cls, ERR_DENIED);
    assert_non_null(strstr(e.msg, "renew the credentials in Secret creds"));
    fake_s3_expire(w->server, "older");
    write_secret(w, "id", "older");
    clock_sleep_ns(1100 * NS_PER_MS); /* "older" is what it knows now */
    assert_int_equal(store_check(w->s, &e), -1);
    write_secret(w, "id", "good");
    unsigned before = fake_s3_requests(w->server, NULL);
    /* refused, read again, accepted; or read again before, if that took a second */
    ok(store_check(w->s, &e), &e);
    assert_in_range(fake_s3_requests(w->server, NULL) - before, 1, 2);
}

static void secrets_that_are_missing(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    cleanup_free char *path = path_join(w->dir, "key");
    assert_int_equal(unlink(path), 0);
    struct store *s = open_store(w->m, w->dir, PATIENT);
    assert_int_equal(store_check(s, &e), -1);
    assert_string_equal(store_reason(&e), "SecretMissing");
    assert_non_null(strstr(e.msg,
        "option secret-access-key comes from key 'secretKey' of Secret creds, which is not there"));
    assert_int_equal(fake_s3_requests(w->server, NULL), 0);
    write_secret(w, "key", "");
    assert_int_equal(store_check(s, &e), -1);
    assert_string_equal(store_reason(&e), "SecretMissing");
    write_secret(w, "key", "anything");
    ok(store_check(s, &e), &e); /* no restart needed */
    store_free(s);
}

static void a_public_bucket_needs_no_keys(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    w->m->conf.nsecrets = 0;
    struct store *s = open_store(w->m, w->dir, PATIENT);
    ok(store_check(s, &e), &e);
    store_free(s);
    w->m->conf.nsecrets = 1; /* half of a pair */
    s = open_store(w->m, w->dir, PATIENT);
    assert_int_equal(store_check(s, &e), -1);
    assert_string_equal(store_reason(&e), "SecretMissing");
    store_free(s);
    w->m->conf.nsecrets = 2;
}

static void expect_refusal(const struct mount *m, const char *secrets, const char *words)
{
    struct err e = ERR_INIT;
    struct store *s = open_store(m, secrets, BRIEF);
    for (int k = 0; k < TRIES && !strstr(e.msg, words); k++)
        assert_int_equal(store_check(s, &e), -1);
    if (!strstr(e.msg, words))
        print_error("%s\n", e.msg);
    assert_non_null(strstr(e.msg, words));
    store_free(s);
}

static void a_refusal_without_keys_says_so(void **state)
{
    struct fixture *w = *state;
    fake_s3_fault(w->server, "GET", "denied", 1000);
    w->m->conf.nsecrets = 0;
    expect_refusal(w->m, w->dir, "no keys were given: name their Secret in the mount's secretRef");
    expect_refusal(w->m, NULL, "no keys were given: set AWS_ACCESS_KEY_ID");
    w->m->conf.nsecrets = 2;
}

static void a_server_without_tls_is_told(void **state)
{
    (void)state;
    struct err e = ERR_INIT, inner = ERR_INIT;
    struct s3 s = {.params = {.url = "s3://data"}};
    struct s3_place place = {.origin = "https://h:7070"};
    struct s3_call call = {.what = "s3://data/"};
    err_set(&inner, ERR_RETRY, "GET https://h:7070/data: OpenSSL: error: wrong version number");
    assert_int_equal(s3_fail_network(&s, &call, &place, &inner, &e), -1);
    assert_string_equal(e.msg,
        "s3://data: TLSFailed: https://h:7070 speaks no TLS: write http:// instead of https:// in option endpoint, or another port");
}

static void a_wrong_clock_is_corrected(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    fake_s3_fault(w->server, "GET", "skew", 1000);
    ok(store_check(w->s, &e), &e);
    read_all(w, 0, LEN);
}

static void versions_from_etags(void **state)
{
    (void)state;
    char a[STORE_VERSION_MAX], b[STORE_VERSION_MAX];
    s3_version("\"abc-2\"", 1, 2, a);
    assert_string_equal(a, "abc-2");
    s3_version(NULL, 10, 20 * NS_PER_S + 5, a);
    assert_string_equal(a, "~10-20");
    char lengthy[300];
    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    s3_version("\"a\r\nx: b\"", 0, 0, a); /* a listing may say so: never sent as it is */
    assert_true(a[0] == '~' && strlen(a) > 40);
    s3_version(lengthy, 0, 0, a);
    lengthy[250] = 'y';
    s3_version(lengthy, 0, 0, b);
    assert_int_equal(a[0], '~');
    assert_string_not_equal(a, b);
}

static void content_ranges(void **state)
{
    (void)state;
    uint64_t first, last, total;
    static const char *const bad[] = {"", "bytes", "bytes ", "bytes 0-9", "bytes 0-9/",
        "bytes 0-9/*", "bytes */10", "bytes -0-9/10", "bytes 0--9/10", "bytes 0-9/ 10",
        "bytes 9-0/10", "bytes 0-10/10", "bytes 0-9/10x", "items 0-9/10",
        "bytes 0-9/18446744073709551616", "bytes +0-9/10"};
    assert_true(s3_content_range("bytes 1-9/18446744073709551615", &first, &last, &total));
    assert_true(first == 1 && last == 9 && total == UINT64_MAX);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (s3_content_range(bad[i], &first, &last, &total))
            fail_msg("%s", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {with_fixture(passing_faults_are_survived),
        with_fixture(what_has_come_is_not_fetched_again), with_fixture(a_sink_gets_each_byte_once),
        with_fixture(a_sink_that_stops_is_not_asked_again),
        with_fixture(any_version_is_one_version), with_fixture(retry_after_is_honoured),
        with_fixture(lasting_faults_end_at_the_deadline),
        with_fixture(a_cancelled_read_returns_soon), with_fixture(another_version_is_a_conflict),
        with_fixture(another_version_of_a_server_without_etags),
        with_fixture(a_server_without_ranges), with_fixture(errors_in_words),
        with_fixture(listings_survive_malformed_pages),
        with_fixture(a_name_far_behind_its_neighbours_is_still_a_directory),
        with_fixture(an_object_as_mount_point), with_fixture(new_credentials_are_used_at_once),
        with_fixture(secrets_that_are_missing), with_fixture(a_public_bucket_needs_no_keys),
        with_fixture(a_refusal_without_keys_says_so),
        cmocka_unit_test(a_server_without_tls_is_told), with_fixture(a_wrong_clock_is_corrected),
        cmocka_unit_test(versions_from_etags), cmocka_unit_test(content_ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
