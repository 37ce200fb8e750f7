/* SPDX-License-Identifier: Apache-2.0 */
/* What options ask of a bucket beside its objects goes with every request that it has to go with,
 * against a server that refuses those without it. */
#include "tests/unit/fuse/store/s3_fixture.h"

#define KEY     "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
#define KEY_MD5 "hRasmdxgYDKV3nvbahU1MA=="
#define MIB     (UINT64_C(1) << 20)

/* Each operation once, those in parts, too. */
static void use(struct fixture *w)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    char byte;
    cleanup_fd int small = content_fd(1, LEN), large = content_fd(2, 65 * MIB);
    ok(store_check(w->s, &e), &e);
    ok(store_put(w->s, "new", PUT_OVER(small, LEN, ""), &st, &e), &e);
    ok(store_put(w->s, "large", PUT(large, 65 * MIB), &st, &e), &e);
    ok(store_read(w->s, "large", "", MIB, 1, &byte, NULL, &e), &e);
    ok(store_rename(w->s, "new", "newer", NULL, &st, &e), &e);
    ok(store_stat_path(w->s, "newer", &st, &e), &e);
    ok(store_mkdir(w->s, "dir", 0, &e), &e);
    ok(store_rmdir(w->s, "dir", &e), &e);
    ok(store_remove(w->s, "newer", &e), &e);
}

static void reopen(struct fixture *w)
{
    store_free(w->s);
    w->s = open_store(w->m, w->dir, 20 * NS_PER_S);
}

static void who_pays_and_who_owns(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    fake_s3_demand(w->server, "x-amz-request-payer: requester", false);
    fake_s3_demand(w->server, "x-amz-expected-bucket-owner: 123456789012", false);
    assert_int_equal(store_check(w->s, &e), -1);
    mount_option(w->m, "requester-pays", "true");
    mount_option(w->m, "expected-bucket-owner", "123456789012");
    reopen(w);
    use(w);
}

static void a_key_of_the_customer(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    write_secret(w, "sse", KEY "\n");
    mount_secret(w->m, "sse-customer-key", "sse", "creds:sse");
    reopen(w);
    assert_int_equal(store_check(w->s, &e), -1); /* by http://, where anybody sees it */
    assert_string_equal(store_reason(&e), "InvalidOption");
    assert_non_null(strstr(e.msg, "a customer's key is not sent to http://"));
    assert_null(strstr(e.msg, KEY));
    assert_int_equal(fake_s3_requests(w->server, NULL), 0);
    mount_option(w->m, "tls-verify", "false");
    reopen(w);
    char byte;
    fake_s3_demand(w->server, "x-amz-server-side-encryption-customer-algorithm: AES256", true);
    fake_s3_demand(w->server, "x-amz-server-side-encryption-customer-key: " KEY, true);
    fake_s3_demand(w->server, "x-amz-server-side-encryption-customer-key-md5: " KEY_MD5, true);
    e = (struct err)ERR_INIT;
    ok(store_read(w->s, "file", "", 0, 1, &byte, NULL, &e), &e);
    struct store_stat st;
    cleanup_fd int fd = content_fd(1, 65 * MIB);
    ok(store_put(w->s, "new", PUT_OVER(fd, LEN, ""), &st, &e), &e);
    ok(store_put(w->s, "large", PUT_OVER(fd, 65 * MIB, ""), &st, &e), &e);
    fake_s3_demand(w->server, "x-amz-copy-source-server-side-encryption-customer-key: " KEY, true);
    ok(store_copy(w->s, "new", "copy", NULL, &st, &e), &e);
}

static void what_is_made(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    static const char *const options[][2] = {{"server-side-encryption", "aws:kms"},
        {"kms-key-id", "alias/data"}, {"storage-class", "GLACIER_IR"},
        {"acl", "bucket-owner-full-control"}};
    static const char *const lines[] = {"x-amz-server-side-encryption: aws:kms",
        "x-amz-server-side-encryption-aws-kms-key-id: alias/data",
        "x-amz-storage-class: GLACIER_IR", "x-amz-acl: bucket-owner-full-control"};
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        mount_option(w->m, options[i][0], options[i][1]);
    reopen(w);
    use(w); /* before anything is demanded: it is not everywhere */
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        fake_s3_demand(w->server, lines[i], true);
    cleanup_fd int fd = content_fd(1, LEN);
    ok(store_put(w->s, "new", PUT(fd, LEN), &st, &e), &e);
    ok(store_copy(w->s, "new", "copy", NULL, &st, &e), &e);
}

/* A file that is damaged on the way is fetched again. */
static void damage_on_the_way(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    cleanup_free char *buf = xmalloc(LEN);
    mount_option(w->m, "checksum", "CRC32C");
    reopen(w);
    fake_s3_sums(w->server, true);
    struct sink_memory memory = {buf, LEN};
    fake_s3_fault(w->server, "GET", "damaged", 2);
    ok(store_stream_of(w->s, "file", "", LEN, 0, LEN, sink_to_memory, &memory, NULL, &e), &e);
    assert_true(content_same(1, 0, (unsigned char *)buf, LEN));
    assert_int_equal(fake_s3_faults(w->server, "damaged"), 2);
    memory = (struct sink_memory){buf, LEN};
    fake_s3_fault(w->server, "GET", "damaged", 3);
    assert_int_equal(
        store_stream_of(w->s, "file", "", LEN, 0, LEN, sink_to_memory, &memory, NULL, &e), -1);
    assert_int_equal(memory.left, LEN); /* nothing was given away */
    assert_non_null(strstr(e.msg, "damaged in the store or on the way"));
    memory = (struct sink_memory){buf, LEN};
    assert_int_equal(
        store_stream_of(w->s, "file", "", LEN - 1, 0, LEN - 1, sink_to_memory, &memory, NULL, &e),
        -1); /* it has grown */
    assert_int_equal(e.cls, ERR_CONFLICT);
}

/* The rest of a file whose answer broke off comes without a checksum: the first one's holds for
 * all. */
static void damage_after_a_break(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    cleanup_free char *buf = xmalloc(LEN);
    struct sink_memory memory = {buf, LEN};
    mount_option(w->m, "checksum", "CRC32C");
    reopen(w);
    fake_s3_sums(w->server, true);
    fake_s3_fault(w->server, "GET", "truncated", 1);
    fake_s3_fault(w->server, "GET", "damaged", 1);
    ok(store_stream_of(w->s, "file", "", LEN, 0, LEN, sink_to_memory, &memory, NULL, &e), &e);
    assert_int_equal(fake_s3_faults(w->server, "truncated"), 1);
    assert_int_equal(fake_s3_faults(w->server, "damaged"), 1);
    assert_true(content_same(1, 0, (unsigned char *)buf, LEN));
}

static void refusals(void **state)
{
    struct fixture *w = *state;
    static const struct {
        const char *option, *value, *words;
    } cases[] = {
        {"server-side-encryption", "aes256", "it takes AES256, aws:kms or aws:kms:dsse"},
        {"kms-key-id", "alias/x", "server-side-encryption is not \"aws:kms\""},
        {"storage-class", "GLACIER", "take GLACIER_IR"},
        {"storage-class", "A B", "it takes a name like STANDARD_IA"},
        {"acl", "everybody", "it takes the name of a canned list"},
        {"checksum", "MD5", "it takes CRC32C or CRC64NVME"},
        {"requester-pays", "yes", "write \"true\" or \"false\""},
        {"accelerate", "true", "option endpoint names one"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        size_t n = w->m->conf.noptions;
        mount_option(w->m, cases[i].option, cases[i].value);
        assert_null(
            store_new(&(struct store_conf){.mount = &w->m->conf, .secrets_dir = w->dir}, &e));
        assert_string_equal(store_reason(&e), "InvalidOption");
        if (!strstr(e.msg, cases[i].words))
            fail_msg("no \"%s\": %s", cases[i].words, e.msg);
        free(w->m->options[n].key);
        free(w->m->options[n].value);
        w->m->options[n] = (struct conf_pair){0};
        w->m->conf.noptions = n;
    }
    struct err e = ERR_INIT;
    write_secret(w, "sse", "short");
    mount_secret(w->m, "sse-customer-key", "sse", "creds:sse");
    assert_null(store_new(&(struct store_conf){.mount = &w->m->conf, .secrets_dir = w->dir}, &e));
    assert_non_null(strstr(e.msg, "it takes 32 bytes in base64"));
    assert_null(strstr(e.msg, "short"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {with_fixture(who_pays_and_who_owns),
        with_fixture(a_key_of_the_customer), with_fixture(what_is_made),
        with_fixture(damage_on_the_way), with_fixture(damage_after_a_break),
        with_fixture(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
