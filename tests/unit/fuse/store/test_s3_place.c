/* SPDX-License-Identifier: Apache-2.0 */
/* The S3 store finds the region of its bucket: by what the server says when it is asked at the
 * wrong place. */
#include "tests/unit/fuse/store/s3_fixture.h"

#include <pthread.h>

static struct store *opened(struct fixture *w, const char *region)
{
    if (region)
        mount_option(w->m, "region", region);
    return open_store(w->m, w->dir, PATIENT);
}

static void the_server_tells_the_region(void **state)
{
    struct fixture *w = *state;
    static const struct {
        enum fake_s3_tells how;
        unsigned extra; /* requests of the first call */
    } cases[] = {{FAKE_S3_TELLS_BODY, 1}, {FAKE_S3_TELLS_HEADER, 1}, {FAKE_S3_TELLS_HEAD, 2}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        struct store *s = opened(w, NULL);
        fake_s3_region(w->server, "eu-west-9", cases[i].how);
        unsigned before = fake_s3_requests(w->server, NULL);
        ok(store_check(s, &e), &e);
        assert_int_equal(fake_s3_requests(w->server, NULL) - before, 1 + cases[i].extra);
        for (int k = 0; k < 3; k++) /* it is remembered */
            ok(store_check(s, &e), &e);
        assert_int_equal(fake_s3_requests(w->server, NULL) - before, 4 + cases[i].extra);
        store_free(s);
    }
}

static void writes_and_reads_find_it_too(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    fake_s3_region(w->server, "eu-west-9", FAKE_S3_TELLS_HEADER);
    struct store *s = opened(w, NULL);
    struct taken t = {0, UINT64_MAX};
    ok(store_stream(s, "file", "", 0, LEN, take, &t, NULL, &e), &e);
    assert_int_equal(t.at, LEN);
    store_free(s);
    s = opened(w, NULL);
    int fd = memfd_create("up", 0);
    assert_int_equal(write(fd, "hello", 5), 5);
    ok(store_put(s, "new", PUT(fd, 5), &st, &e), &e);
    close(fd);
    size_t len = 0;
    cleanup_free char *now = fake_s3_get(w->server, "set/new", &len);
    assert_int_equal(len, 5);
    store_free(s);
}

static void no_question_where_nothing_is_wrong(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    ok(store_check(w->s, &e), &e);
    assert_int_equal(fake_s3_requests(w->server, NULL), 1);
    fake_s3_fault(w->server, "GET", "denied", 1);
    assert_int_equal(store_check(w->s, &e), -1);
    assert_string_equal(store_reason(&e), "AccessDenied");
    assert_int_equal(fake_s3_requests(w->server, NULL), 2);
}

static void a_region_that_was_given_holds(void **state)
{
    struct fixture *w = *state;
    static const enum fake_s3_tells hows[] = {
        FAKE_S3_TELLS_BODY, FAKE_S3_TELLS_HEADER, FAKE_S3_TELLS_NOT};
    struct store *s = opened(w, "us-west-2");
    for (size_t i = 0; i < ARRAY_LEN(hows); i++) {
        struct err e = ERR_INIT;
        fake_s3_region(w->server, "eu-west-9", hows[i]);
        unsigned before = fake_s3_requests(w->server, NULL);
        assert_int_equal(store_check(s, &e), -1);
        assert_int_equal(fake_s3_requests(w->server, NULL) - before, 1);
        assert_string_equal(store_reason(&e), "InvalidOption");
        const char *words = hows[i] == FAKE_S3_TELLS_NOT
            ? "the bucket is not in region us-west-2 at http://127.0.0.1:"
            : "the bucket is in region eu-west-9, not us-west-2: set option region to eu-west-9";
        if (!strstr(e.msg, words))
            print_error("%s\n", e.msg);
        assert_non_null(strstr(e.msg, words));
    }
    store_free(s);
}

static void a_server_that_does_not_tell(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store *s = opened(w, NULL);
    fake_s3_region(w->server, "eu-west-9", FAKE_S3_TELLS_NOT);
    assert_int_equal(store_check(s, &e), -1);
    assert_int_equal(e.cls, ERR_INVALID);
    assert_non_null(strstr(e.msg, "set the options region and endpoint"));
    assert_int_equal(fake_s3_requests(w->server, NULL), 2);
    store_free(s);
}

static void a_circle_ends(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store *s = opened(w, NULL);
    fake_s3_region(w->server, "eu-west-9", FAKE_S3_TELLS_CIRCLE);
    assert_int_equal(store_check(s, &e), -1);
    assert_int_equal(e.cls, ERR_INVALID);
    assert_non_null(
        strstr(e.msg, "the bucket is in region us-east-1, not eu-west-9: set option region"));
    assert_int_equal(fake_s3_requests(w->server, NULL), 2);
    assert_int_equal(store_check(s, &e), -1); /* and is not gone round again */
    assert_int_equal(fake_s3_requests(w->server, NULL), 3);
    store_free(s);
}

static void what_is_no_region_is_not_believed(void **state)
{
    struct fixture *w = *state;
    static const char *const bad[] = {"evil.example.com/", "a b", "a@b", "-a", "a-", "..", "a.b",
        "eu-west-1%0d%0ahost", "eu-west-1?x=", "eu-west-1#", "eu-west-1&#10;x: y",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = ERR_INIT;
        struct store *s = opened(w, NULL);
        fake_s3_region(w->server, bad[i], FAKE_S3_TELLS_BODY);
        unsigned before = fake_s3_requests(w->server, NULL);
        if (store_check(s, &e) == 0)
            fail_msg("%s", bad[i]);
        assert_int_equal(e.cls, ERR_INVALID);
        assert_int_equal(fake_s3_requests(w->server, NULL) - before, 1);
        store_free(s);
    }
}

static struct s3 *on_amazon(struct mount *m)
{
    struct store_params p = {.url = m->conf.mount_point,
        .rest = m->conf.mount_point + 5,
        .mount = &m->conf,
        .kind = &store_s3.kind,
        .secrets_dir = "/nonexistent",
        .deadline_ns = NS_PER_S};
    struct err e = ERR_INIT;
    struct s3 *s = store_s3.open(&p, &e);
    assert_non_null(s);
    return s;
}

static void amazons_host_follows_the_region(void **state)
{
    (void)state;
    struct mount *m = mount_new("s3://bucket/set");
    struct s3 *s = on_amazon(m);
    const struct s3_place *first = s->place;
    assert_string_equal(first->origin, "https://bucket.s3.us-east-1.amazonaws.com");
    assert_false(s3_place_learn(s, first, "us-east-1"));
    assert_false(s3_place_learn(s, first, ""));
    assert_ptr_equal(s->place, first);
    assert_true(s3_place_learn(s, first, "EU-West-1"));
    assert_string_equal(s->place->origin, "https://bucket.s3.eu-west-1.amazonaws.com");
    assert_string_equal(s->place->host, "bucket.s3.eu-west-1.amazonaws.com");
    assert_true(s3_place_learn(s, first, "eu-west-2")); /* too late: another thread knows already */
    assert_string_equal(s->place->region, "EU-West-1");
    assert_true(s3_place_learn(s, s->place, "cn-north-1"));
    assert_string_equal(s->place->origin, "https://bucket.s3.cn-north-1.amazonaws.com.cn");
    assert_true(s3_place_learn(s, s->place, "eu-west-3"));
    assert_false(s3_place_learn(s, s->place, "eu-west-4")); /* a bucket does not wander */
    assert_false(s3_place_learn(s, s->place, "us-east-1"));
    assert_string_equal(s->place->region, "eu-west-3");
    store_s3.close(s);
    mount_free(m);
}

/* Which of Amazon's servers: by options, or by an endpoint that is one of them. */
static void amazons_other_servers(void **state)
{
    (void)state;
    static const struct {
        const char *option[3], *origin;
    } cases[] = {
        {{"dualstack"}, "https://bucket.s3.dualstack.eu-west-1.amazonaws.com"},
        {{"fips"}, "https://bucket.s3-fips.eu-west-1.amazonaws.com"},
        {{"fips", "dualstack"}, "https://bucket.s3-fips.dualstack.eu-west-1.amazonaws.com"},
        {{"accelerate"}, "https://bucket.s3-accelerate.amazonaws.com"},
        {{"accelerate", "dualstack"}, "https://bucket.s3-accelerate.dualstack.amazonaws.com"},
        {{"endpoint=https://s3.dualstack.eu-west-1.amazonaws.com"},
            "https://bucket.s3.dualstack.eu-west-1.amazonaws.com"},
        {{"endpoint=https://s3-accelerate.amazonaws.com/"},
            "https://bucket.s3-accelerate.amazonaws.com"},
        {{"endpoint=https://s3.amazonaws.com.example"}, "https://s3.amazonaws.com.example"},
        {{"endpoint=https://s3.amazonaws.com.example", "path-style=false"},
            "https://bucket.s3.amazonaws.com.example"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct mount *m = mount_new("s3://bucket/set");
        mount_option(m, "region", "eu-west-1");
        for (const char *const *o = cases[i].option; *o; o++) {
            cleanup_free char *name = xstrndup(*o, strcspn(*o, "="));
            mount_option(m, name, strchr(*o, '=') ? strchr(*o, '=') + 1 : "true");
        }
        struct s3 *s = on_amazon(m);
        assert_string_equal(s->place->origin, cases[i].origin);
        assert_string_equal(s->place->region, "eu-west-1");
        store_s3.close(s);
        mount_free(m);
    }
}

#define THREADS 8

/* What is signed is what libcurl sends as Host. */
static void origins_as_they_are_signed(void **state)
{
    (void)state;
    static const struct {
        const char *url, *origin;
    } cases[] = {{"https://sts.example.com:443/", "https://sts.example.com"},
        {"https://STS.Example.com", "https://sts.example.com"},
        {"https://sts.example.com:8443", "https://sts.example.com:8443"},
        {"http://minio:80", "http://minio"}, {"http://minio:443/", "http://minio:443"},
        {"https://[::1]:443", "https://[::1]"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_free char *origin = s3_origin(cases[i].url);
        assert_string_equal(origin, cases[i].origin);
    }
}

static void *check_often(void *user)
{
    struct store *s = user;
    for (int i = 0; i < 20; i++) {
        struct err e = ERR_INIT;
        if (store_check(s, &e))
            return xstrdup(e.msg);
    }
    return NULL;
}

static void many_threads_find_it_at_once(void **state)
{
    struct fixture *w = *state;
    struct store *s = opened(w, NULL);
    fake_s3_region(w->server, "eu-west-9", FAKE_S3_TELLS_BODY);
    pthread_t t[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, check_often, s), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *text;
        pthread_join(t[i], &text);
        if (text)
            print_error("%s\n", (char *)text);
        assert_null(text);
    }
    /* each thread was told once at most */
    assert_in_range(fake_s3_requests(w->server, NULL), THREADS * 20 + 1, THREADS * 21);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {with_fixture(the_server_tells_the_region),
        with_fixture(writes_and_reads_find_it_too),
        with_fixture(no_question_where_nothing_is_wrong),
        with_fixture(a_region_that_was_given_holds), with_fixture(a_server_that_does_not_tell),
        with_fixture(a_circle_ends), with_fixture(what_is_no_region_is_not_believed),
        cmocka_unit_test(amazons_host_follows_the_region), cmocka_unit_test(amazons_other_servers),
        cmocka_unit_test(origins_as_they_are_signed), with_fixture(many_threads_find_it_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
