/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of Google Cloud Storage: its words, its versions, and the tokens of a machine or a
 * cluster of Google's. */
#include "tests/unit/fuse/store/gs_fixture.h"

#include "fuse/store/gs.h"

/* -- tokens of the metadata server ---------------------------------------------------------------
 */

static void a_pod_of_gke_needs_no_key(void **state)
{
    struct fixture *w = *state;
    as_service_account(w);
    open_gs(w);
    expect_read(w);
    expect_read(w);
    assert_int_equal(lent(), 1);
}

/* Nobody said that it may be: the node's own rights are not every pod's. */
static void a_pod_without_an_account_is_nobody(void **state)
{
    struct fixture *w = *state;
    open_gs(w);
    expect_refused(w, "AccessDenied", "no credentials were given: name a Secret with key.json");
    assert_int_equal(lent(), 0);
    fake_s3_google(w->server, "");
    expect_read(w);
}

static void the_node_where_it_is_asked_for(void **state)
{
    struct fixture *w = *state;
    mount_option(w->m, "instance-metadata", "true");
    open_gs(w);
    expect_read(w);
}

static void anonymous_takes_no_token(void **state)
{
    struct fixture *w = *state;
    as_service_account(w);
    mount_option(w->m, "anonymous", "true");
    fake_s3_google(w->server, "");
    open_gs(w);
    expect_read(w);
    assert_int_equal(lent(), 0);
}

static void tokens_are_renewed_before_they_end(void **state)
{
    struct fixture *w = *state;
    as_service_account(w);
    lender.lifetime_s = 6;
    open_gs(w);
    expect_read(w);
    for (int i = 0; i < 200 && lent() < 2; i++) {
        expect_read(w);
        clock_sleep_ns(100 * NS_PER_MS);
    }
    assert_true(lent() >= 2);
}

struct slow_sink {
    struct fixture *w;
    size_t got;
};

/* Half of it has come when the server takes another token only, and breaks off. */
static int take_and_turn(void *user, const void *data, size_t len)
{
    struct slow_sink *sink = user;
    for (size_t i = 0; i < len; i++)
        if (((const unsigned char *)data)[i] != content(1, sink->got + i))
            return -1;
    if (!sink->got) {
        lender.token = "ya29.two";
        fake_s3_google(sink->w->server, "ya29.two");
    }
    sink->got += len;
    return 0;
}

static void refused_in_the_middle_of_a_transfer(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct slow_sink sink = {.w = w};
    cleanup_free unsigned char *data = malloc(LEN);
    for (size_t i = 0; i < LEN; i++)
        data[i] = content(1, i);
    fake_s3_put(w->server, "set/large", data, LEN);
    as_service_account(w);
    open_gs(w);
    expect_read(w);
    clock_sleep_ns(10 * NS_PER_S); /* younger ones are not asked for again */
    fake_s3_fault(w->server, "GET", "truncated", 1);
    ok(store_stream(w->s, "large", "", 0, LEN, take_and_turn, &sink, NULL, &e), &e);
    assert_int_equal(sink.got, LEN);
    assert_int_equal(lent(), 2);
}

static void no_metadata_server_of_googles(void **state)
{
    struct fixture *w = *state;
    as_service_account(w);
    cleanup_free char *host = xasprintf("127.0.0.1:%d", fake_s3_port(w->server));
    setenv("GCE_METADATA_HOST", host, 1);
    open_gs(w);
    expect_refused(w, "AccessDenied", "it is no metadata server of Google's");
}

/* -- versions and conditions ----------------------------------------------------------------------
 */

static void generations_are_versions(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat one, two, st;
    char c[4];
    as_service_account(w);
    open_gs(w);
    cleanup_fd int fd = content_fd(1, 4);
    ok(store_put(w->s, "f", &(struct store_put){.fd = fd, .len = 4, .expect = ""}, &one, &e), &e);
    assert_int_equal(strspn(one.version, "0123456789"), strlen(one.version));
    assert_int_equal(strlen(one.version), 16);
    /* the same content again is another version */
    ok(store_put(
           w->s, "f", &(struct store_put){.fd = fd, .len = 4, .expect = one.version}, &two, &e),
        &e);
    assert_string_not_equal(one.version, two.version);
    ok(store_stat_path(w->s, "f", &st, &e), &e);
    assert_string_equal(st.version, two.version);
    assert_int_equal(store_read(w->s, "f", one.version, 0, 4, c, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    cleanup_fd int other = content_fd(2, 4);
    assert_int_equal(
        store_put(
            w->s, "f", &(struct store_put){.fd = other, .len = 4, .expect = one.version}, &st, &e),
        -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_int_equal(
        store_put(w->s, "f", &(struct store_put){.fd = other, .len = 4, .expect = ""}, &st, &e),
        -1);
    assert_int_equal(err_errno(&e), EEXIST);
    assert_int_equal(store_remove_version(w->s, "f", one.version, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    ok(store_rename(w->s, "f", "g", two.version, &st, &e), &e);
    ok(store_stat_path(w->s, "g", &one, &e), &e);
    assert_string_equal(one.version, st.version);
    assert_int_equal(store_stat_path(w->s, "f", &st, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
}

/* In parts, which no condition goes with: it is looked at just before. */
static void large_ones_go_in_parts(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat one, st;
    const uint64_t len = (UINT64_C(129) << 20) + 5;
    char end[5];
    as_service_account(w);
    mount_option(w->m, "checksum", "CRC32C");
    w->s = open_store(w->m, w->dir, 2 * PATIENT);
    cleanup_fd int fd = memfd_create("large", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)len), 0);
    assert_int_equal(pwrite(fd, "tail!", 5, (off_t)len - 5), 5);
    const struct store_put put = {.fd = fd, .len = len, .expect = ""};
    ok(store_put(w->s, "large", &put, &one, &e), &e);
    assert_int_equal(one.size, len);
    assert_true(fake_s3_requests(w->server, "POST") >= 2);
    ok(store_read(w->s, "large", one.version, len - 5, 5, end, NULL, &e), &e);
    assert_memory_equal(end, "tail!", 5);
    fake_s3_put(w->server, "set/large", "another", 7);
    const struct store_put again = {.fd = fd, .len = len, .expect = one.version};
    assert_int_equal(store_put(w->s, "large", &again, &st, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_int_equal(fake_s3_uploads(w->server), 0);
}

static void sums_go_with_what_is_written(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    unsigned char buf[5000];
    struct sink_memory memory = {(char *)buf, sizeof buf};
    as_service_account(w);
    mount_option(w->m, "checksum", "CRC32C");
    open_gs(w);
    cleanup_fd int fd = content_fd(1, sizeof buf);
    ok(store_put(w->s, "f", &(struct store_put){.fd = fd, .len = sizeof buf}, &st, &e), &e);
    fake_s3_fault(w->server, "GET", "damaged", 1);
    ok(store_stream_of(
           w->s, "f", st.version, sizeof buf, 0, sizeof buf, sink_to_memory, &memory, NULL, &e),
        &e);
    assert_int_equal(fake_s3_faults(w->server, "damaged"), 1);
    assert_true(content_same(1, 0, buf, sizeof buf));
}

static void who_pays(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    as_service_account(w);
    mount_option(w->m, "user-project", "team-7");
    mount_option(w->m, "storage-class", "NEARLINE");
    open_gs(w);
    fake_s3_demand(w->server, "x-amz-user-project: team-7", false); /* x-goog-, as it was heard */
    expect_read(w);
    cleanup_fd int fd = content_fd(1, 4);
    fake_s3_demand(w->server, "x-amz-storage-class: NEARLINE", false);
    ok(store_put(w->s, "f", &(struct store_put){.fd = fd, .len = 4}, &st, &e), &e);
}

/* -- words ----------------------------------------------------------------------------------------
 */

static void words_of_google(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"if-match: \"17\"", "x-goog-if-generation-match: 17"},
        {"if-none-match: *", "x-goog-if-generation-match: 0"},
        {"x-amz-copy-source: /b/k", "x-goog-copy-source: /b/k"},
        {"x-amz-copy-source-if-match: \"17\"", "x-goog-copy-source-if-generation-match: 17"},
        {"x-amz-meta-millrace-upload: 1", "x-goog-meta-millrace-upload: 1"},
        {"x-amz-checksum-crc32c: AAAAAA==", "x-goog-hash: crc32c=AAAAAA=="},
        {"x-amz-checksum-mode: ENABLED", NULL}, {"x-amz-sdk-checksum-algorithm: CRC32C", NULL},
        {"range: bytes=0-1", "range: bytes=0-1"},
        {"x-goog-user-project: p", "x-goog-user-project: p"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_free char *line = gs_line(rows[i][0]);
        if (rows[i][1])
            assert_string_equal(line, rows[i][1]);
        else
            assert_null(line);
    }
    static const char *const sums[][2] = {{"x-goog-hash: crc32c=n03x6A==\n", "n03x6A=="},
        {"a: b\nx-goog-hash: crc32c=n03x6A==,md5=Ojk9c3dhfxgoKVVHYwFbHQ==\n", "n03x6A=="},
        {"x-goog-hash: md5=Ojk9==\nx-goog-hash: crc32c=n03x6A==\n", "n03x6A=="},
        {"x-goog-hash: md5=Ojk9==\nx-other: crc32c=n03x6A==\n", ""}, {"", ""},
        {"x-goog-hash: crc32c=muchtoolongforachecksumindeed\n", ""}};
    for (size_t i = 0; i < ARRAY_LEN(sums); i++) {
        char text[S3_SUM_TEXT + 1];
        gs_crc32c(sums[i][0], text);
        assert_string_equal(text, sums[i][1]);
    }
}

static void expect_not_opened(struct fixture *w, const char *words)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(
        &(struct store_conf){.mount = &w->m->conf, .secrets_dir = w->dir}, &e);
    assert_null(s);
    if (!strstr(e.msg, words))
        fail_msg("no \"%s\": %s", words, e.msg);
}

static void options_that_are_wrong(void **state)
{
    struct fixture *w = *state;
    static const char *const wrong[][3] = {
        {"endpoint", "https://storage.googleapis.com/bucket", "write scheme, host and port only"},
        {"checksum", "CRC64NVME", "it takes CRC32C"}, {"checksum", "MD5", "it takes CRC32C"},
        {"user-project", "a b", "it takes the id of a project"},
        {"region", "eu", "unknown option 'region'"}};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        free(w->m->options[0].key);
        free(w->m->options[0].value);
        w->m->options[0] = (struct conf_pair){xstrdup(wrong[i][0]), xstrdup(wrong[i][1])};
        expect_not_opened(w, wrong[i][2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_gs(a_pod_of_gke_needs_no_key),
        with_gs(a_pod_without_an_account_is_nobody),
        with_gs(the_node_where_it_is_asked_for),
        with_gs(anonymous_takes_no_token),
        with_gs(tokens_are_renewed_before_they_end),
        with_gs(refused_in_the_middle_of_a_transfer),
        with_gs(no_metadata_server_of_googles),
        with_gs(generations_are_versions),
        with_gs(large_ones_go_in_parts),
        with_gs(sums_go_with_what_is_written),
        with_gs(who_pays),
        cmocka_unit_test(words_of_google),
        with_gs(options_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
