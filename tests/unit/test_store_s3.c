/* The S3 store against a server that misbehaves. */
#include "tests/unit/unit.h"

#include "fuse/store/s3.h"
#include "lib/base/file.h"
#include "tests/fake/fake_s3.h"
#include "tests/unit/mount.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#define LEN 300000u
#define PATIENT (60 * NS_PER_S) /* a machine that stops for seconds is no fault of the store */
#define BRIEF (3 * NS_PER_S)    /* what goes wrong goes on for so long: time for an answer at least */
#define TRIES 8                 /* where the machine stops during the last one, the deadline is what went wrong */

struct world {
    struct fake_s3 *server;
    struct mount *m;
    struct store *s;
    char dir[64]; /* secrets */
};

static void write_secret(const struct world *w, const char *name, const char *value)
{
    cleanup_free char *path = path_join(w->dir, name);
    struct err e = ERR_INIT;
    assert_int_equal(file_write_atomic(path, value, strlen(value), 0600, &e), 0);
}

static struct store *open_store(const struct mount *m, const char *secrets, int64_t deadline_ns)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(&(struct store_conf){.mount = &m->conf, .secrets_dir = secrets, .deadline_ns = deadline_ns}, &e);
    if (!s)
        print_error("%s\n", e.msg);
    assert_non_null(s);
    return s;
}

static int setup(void **state)
{
    struct world *w = xcalloc(1, sizeof *w);
    strcpy(w->dir, "/tmp/millrace-test.XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    write_secret(w, "id", "good\n");
    write_secret(w, "key", "secretsecret");
    w->server = fake_s3_start(0);
    w->m = mount_new("s3://data/set");
    cleanup_free char *endpoint = xasprintf("http://127.0.0.1:%d", fake_s3_port(w->server));
    mount_option(w->m, "endpoint", endpoint);
    mount_secret(w->m, "access-key-id", "id", "creds:accessKey");
    mount_secret(w->m, "secret-access-key", "key", "creds:secretKey");
    w->s = open_store(w->m, w->dir, PATIENT);
    unsigned char *data = malloc(LEN);
    for (size_t i = 0; i < LEN; i++)
        data[i] = content(1, i);
    fake_s3_put(w->server, "set/file", data, LEN);
    free(data);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    store_free(w->s);
    mount_free(w->m);
    fake_s3_stop(w->server);
    file_remove_tree(w->dir, &e);
    free(w);
    return 0;
}

static void ok(int rc, const struct err *e)
{
    if (rc)
        print_error("%s\n", e->msg);
    assert_int_equal(rc, 0);
}

static void read_all(struct world *w, size_t off, size_t len)
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
    struct world *w = *state;
    static const char *const kinds[] = {"slowdown", "throttled", "error", "reset", "truncated", "short", "long", "otherrange"};
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
    struct world *w = *state;
    struct err e = ERR_INIT;
    cleanup_free unsigned char *buf = malloc(LEN);
    fake_s3_fault(w->server, "GET", "truncated", 3); /* each brings half of what is missing */
    ok(store_read(w->s, "file", "", 0, LEN, buf, NULL, &e), &e);
    assert_true(content_same(1, 0, buf, LEN));
    assert_int_equal(fake_s3_requests(w->server, "GET"), 4);
}

struct taken {
    size_t at, most; /* next byte of the file; it stops there */
};

static int take(void *user, const void *data, size_t len)
{
    struct taken *t = user;
    if (t->at >= t->most)
        return 1;
    assert_true(content_same(1, t->at, data, len));
    t->at += len;
    return 0;
}

static void a_sink_gets_each_byte_once(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    ok(store_stat_path(w->s, "file", &st, &e), &e);
    static const char *const kinds[] = {"slowdown", "error", "reset", "truncated", "short", "long", "otherrange"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct taken t = {1000, SIZE_MAX};
        fake_s3_fault(w->server, "GET", kinds[i], 2);
        ok(store_stream(w->s, "file", st.version, 1000, LEN - 2000, take, &t, NULL, &e), &e);
        assert_int_equal(t.at, LEN - 1000);
        fake_s3_clear(w->server);
    }
}

static void a_sink_that_stops_is_not_asked_again(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    ok(store_stat_path(w->s, "file", &st, &e), &e);
    unsigned before = fake_s3_requests(w->server, "GET");
    struct taken t = {1000, 0};
    assert_int_equal(store_stream(w->s, "file", st.version, 1000, LEN - 1000, take, &t, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    assert_int_equal(e.sys, ECANCELED);
    assert_int_equal(t.at, 1000);
    assert_int_equal(fake_s3_requests(w->server, "GET"), before + 1);
}

/* The first part came of one version, and the rest is not to be had any more: all of it is of the new one. */
static void any_version_is_one_version(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    cleanup_free unsigned char *buf = malloc(LEN);
    fake_s3_fault(w->server, "GET", "truncated", 1);
    fake_s3_fault(w->server, "GET", "etag", 1);
    ok(store_read(w->s, "file", "", 0, LEN, buf, NULL, &e), &e);
    assert_true(content_same(1, 0, buf, LEN));
    struct taken t = {0, SIZE_MAX};
    fake_s3_fault(w->server, "GET", "truncated", 1);
    fake_s3_fault(w->server, "GET", "etag", 1);
    assert_int_equal(store_stream(w->s, "file", "", 0, LEN, take, &t, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_true(t.at > 0 && t.at < LEN);
}

static void retry_after_is_honoured(void **state)
{
    struct world *w = *state;
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
    struct world *w = *state;
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
        assert_true(clock_mono_ns() - began < PATIENT / 2); /* a thousand failures, or one that hangs: it does not wait for them */
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
    struct world *w = *state;
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
    struct world *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    unsigned char buf[1000];
    ok(store_stat_path(w->s, "file", &st, &e), &e);
    fake_s3_fault(w->server, "GET", "etag", 1); /* a server that knows nothing of If-Match */
    struct taken t = {0, SIZE_MAX};
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
    struct world *w = *state;
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
    struct world *w = *state;
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
    struct world *w = *state;
    static const struct {
        const char *kind;
        enum err_class cls;
        const char *reason, *words;
    } cases[] = {
        {"denied", ERR_DENIED, "AccessDenied", "s3://data/set: AccessDenied (403 AccessDenied): check the keys in Secret creds (keys accessKey, secretKey)"},
        {"redirect", ERR_INVALID, "InvalidOption", "the bucket is in region eu-west-9, not us-east-1: set option region to eu-west-9"},
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
    struct world *w = *state;
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
    ok(names_list(w->s, "", false, &l, &e), &e);
    assert_int_equal(l.n, 34);
    names_free(&l);
    ok(names_list(w->s, "dir 1", false, &l, &e), &e);
    cleanup_free char *text = names_join(&l);
    assert_string_equal(text, "x\ty:3");
    ok(names_list(w->s, "", true, &l, &e), &e);
    assert_int_equal(l.n, 34);
    names_free(&l);
    struct store_stat st;
    ok(store_stat_path(w->s, "both", &st, &e), &e); /* object and prefix: the directory wins */
    assert_true(st.is_dir);
    ok(store_stat_path(w->s, "both-and", &st, &e), &e);
    assert_false(st.is_dir);
}

static void a_name_far_behind_its_neighbours_is_still_a_directory(void **state)
{
    struct world *w = *state;
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

static void new_credentials_are_used_at_once(void **state)
{
    struct world *w = *state;
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
    ok(store_check(w->s, &e), &e); /* refused, read again, accepted; or read again before, if that took a second */
    assert_in_range(fake_s3_requests(w->server, NULL) - before, 1, 2);
}

static void secrets_that_are_missing(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    cleanup_free char *path = path_join(w->dir, "key");
    assert_int_equal(unlink(path), 0);
    struct store *s = open_store(w->m, w->dir, PATIENT);
    assert_int_equal(store_check(s, &e), -1);
    assert_string_equal(store_reason(&e), "SecretMissing");
    assert_non_null(strstr(e.msg, "option secret-access-key comes from key 'secretKey' of Secret creds, which is not there"));
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
    struct world *w = *state;
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

static void a_wrong_clock_is_corrected(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    fake_s3_fault(w->server, "GET", "skew", 1000);
    ok(store_check(w->s, &e), &e);
    read_all(w, 0, LEN);
}

static void check_object(struct world *w, const char *key, unsigned seed, size_t want)
{
    size_t len = 0;
    cleanup_free unsigned char *data = fake_s3_get(w->server, key, &len);
    assert_non_null(data);
    assert_int_equal(len, want);
    assert_true(content_same(seed, 0, data, len));
}

static void uploads_survive_faults(void **state)
{
    struct world *w = *state;
    static const char *const kinds[] = {"error", "slowdown", "reset", "lost"};
    cleanup_fd int fd = content_fd(4, 700000);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct err e = ERR_INIT;
        struct store_stat st;
        cleanup_free char *path = xasprintf("up/%s", kinds[i]), *key = xasprintf("set/up/%s", kinds[i]);
        fake_s3_fault(w->server, "PUT", kinds[i], 1);
        ok(store_put(w->s, path, fd, 700000, &st, &e), &e);
        assert_int_equal(st.size, 700000);
        check_object(w, key, 4, 700000);
        fake_s3_clear(w->server);
    }
}

static struct s3 *small_parts(struct world *w)
{
    struct store_params p = {.url = "s3://data/set", .rest = "data/set", .mount = &w->m->conf, .options = store_s3.options,
        .secrets_dir = w->dir, .deadline_ns = PATIENT, .max_connections = 8};
    struct err e = ERR_INIT;
    struct s3 *s = store_s3.open(&p, &e);
    assert_non_null(s);
    s->single_put_max = s->part_size = s->copy_part_size = s->single_copy_max = 100000;
    return s;
}

static void multipart_uploads_survive_faults(void **state)
{
    struct world *w = *state;
    struct s3 *s = small_parts(w);
    cleanup_fd int fd = content_fd(5, 1050000);
    static const struct {
        const char *method, *kind;
        unsigned fine;
    } cases[] = {{"PUT", "error", 3}, {"PUT", "lost", 1}, {"POST", "error", 0}, {"POST", "error", 1}, {"POST", "ok200", 1},
        {"PUT", "reset", 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        struct store_stat st;
        cleanup_free char *path = xasprintf("big%zu", i), *key = xasprintf("set/big%zu", i);
        fake_s3_fault(w->server, cases[i].method, "fine", cases[i].fine);
        fake_s3_fault(w->server, cases[i].method, cases[i].kind, 2);
        ok(store_s3.put(s, path, fd, 1050000, &st, &e), &e);
        check_object(w, key, 5, 1050000);
        assert_int_equal(fake_s3_uploads(w->server), 0);
        fake_s3_clear(w->server);
    }
    struct err e = ERR_INIT;
    struct store_stat st;
    fake_s3_fault(w->server, "PUT", "denied", 1000);
    assert_int_equal(store_s3.put(s, "never", fd, 1050000, &st, &e), -1);
    assert_int_equal(e.cls, ERR_DENIED);
    assert_int_equal(fake_s3_uploads(w->server), 0); /* aborted: nothing lies about and costs money */
    size_t len;
    assert_null(fake_s3_get(w->server, "set/never", &len));
    store_s3.close(s);
}

/* The answer to the last request of an upload is lost; the server does not know the upload when asked again. */
static void a_lost_completion_is_recognised(void **state)
{
    struct world *w = *state;
    struct s3 *s = small_parts(w);
    struct err e = ERR_INIT;
    struct store_stat st;
    cleanup_fd int fd = content_fd(6, 450000);
    fake_s3_fault(w->server, "POST", "fine", 1);
    fake_s3_fault(w->server, "POST", "lost", 1);
    ok(store_s3.put(s, "f", fd, 450000, &st, &e), &e);
    check_object(w, "set/f", 6, 450000);
    fake_s3_clear(w->server);
    store_s3.close(s);
}

static void renames_copy_and_delete(void **state)
{
    struct world *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    fake_s3_fault(w->server, "PUT", "ok200", 1); /* an error that arrives as a success */
    fake_s3_fault(w->server, "DELETE", "error", 1);
    ok(store_rename(w->s, "file", "moved", &st, &e), &e);
    assert_int_equal(st.size, LEN);
    check_object(w, "set/moved", 1, LEN);
    size_t len;
    assert_null(fake_s3_get(w->server, "set/file", &len));
    fake_s3_clear(w->server);
    struct s3 *s = small_parts(w);
    fake_s3_fault(w->server, "PUT", "error", 1);
    ok(store_s3.rename(s, "moved", "again", &st, &e), &e); /* in parts */
    check_object(w, "set/again", 1, LEN);
    assert_int_equal(fake_s3_uploads(w->server), 0);
    store_s3.close(s);
    fake_s3_clear(w->server);
    fake_s3_fault(w->server, "DELETE", "denied", 1000);
    assert_int_equal(store_rename(w->s, "again", "third", &st, &e), -1);
    assert_non_null(strstr(e.msg, "was copied to set/third, but not removed"));
    check_object(w, "set/again", 1, LEN);
}

static void part_sizes(void **state)
{
    (void)state;
    const uint64_t mib = 1 << 20;
    assert_int_equal(s3_part_size(65 * mib, 16 * mib), 16 * mib);
    assert_int_equal(s3_part_size(160000 * mib, 16 * mib), 16 * mib);
    assert_int_equal(s3_part_size(160001 * mib, 16 * mib), 17 * mib);
    uint64_t huge = 5 * mib * mib; /* 5 TiB, S3's largest object */
    assert_true(huge / s3_part_size(huge, 16 * mib) <= 10000);
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
    static const char *const bad[] = {"", "bytes", "bytes ", "bytes 0-9", "bytes 0-9/", "bytes 0-9/*", "bytes */10", "bytes -0-9/10", "bytes 0--9/10",
        "bytes 0-9/ 10", "bytes 9-0/10", "bytes 0-10/10", "bytes 0-9/10x", "items 0-9/10", "bytes 0-9/18446744073709551616", "bytes +0-9/10"};
    assert_true(s3_content_range("bytes 1-9/18446744073709551615", &first, &last, &total));
    assert_true(first == 1 && last == 9 && total == UINT64_MAX);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (s3_content_range(bad[i], &first, &last, &total))
            fail_msg("%s", bad[i]);
}

#define with_world(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {with_world(passing_faults_are_survived), with_world(what_has_come_is_not_fetched_again),
        with_world(a_sink_gets_each_byte_once), with_world(a_sink_that_stops_is_not_asked_again),
        with_world(any_version_is_one_version), with_world(retry_after_is_honoured), with_world(lasting_faults_end_at_the_deadline),
        with_world(a_cancelled_read_returns_soon), with_world(another_version_is_a_conflict),
        with_world(another_version_of_a_server_without_etags), with_world(a_server_without_ranges),
        with_world(errors_in_words), with_world(listings_survive_malformed_pages),
        with_world(a_name_far_behind_its_neighbours_is_still_a_directory), with_world(new_credentials_are_used_at_once),
        with_world(secrets_that_are_missing), with_world(a_public_bucket_needs_no_keys), with_world(a_wrong_clock_is_corrected),
        with_world(uploads_survive_faults), with_world(multipart_uploads_survive_faults),
        with_world(a_lost_completion_is_recognised), with_world(renames_copy_and_delete), cmocka_unit_test(part_sizes),
        cmocka_unit_test(versions_from_etags),
        cmocka_unit_test(content_ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
