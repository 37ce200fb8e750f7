/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials from a Secret that a mount names as a whole: the spellings of its keys, which of them
 * go together, what is told where none fits, certificates of a ConfigMap. */
#include "tests/unit/fuse/store/s3_fixture.h"

#define CERT "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"

/* A mount of s3://data/set whose secretRef is s3-keys, and its directory. */
struct whole {
    struct mount *m;
    char dir[64];
    struct store_params p;
};

static int whole_setup(void **state)
{
    struct whole *w = xcalloc(1, sizeof *w);
    strcpy(w->dir, "/tmp/millrace-test.XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    w->m = mount_new("s3://data/set");
    w->m->conf.secret_dir = (char *)"0/secret";
    w->m->conf.secret_dir_name = (char *)"s3-keys";
    w->p = (struct store_params){.url = w->m->conf.mount_point,
        .rest = "data/set",
        .mount = &w->m->conf,
        .kind = &store_s3.kind,
        .secrets_dir = w->dir,
        .deadline_ns = NS_PER_S};
    *state = w;
    return 0;
}

static int whole_teardown(void **state)
{
    struct whole *w = *state;
    struct err e = ERR_INIT;
    mount_free(w->m);
    file_remove_tree(w->dir, &e);
    free(w);
    return 0;
}

static void put_file(const struct whole *w, const char *file, const char *value)
{
    cleanup_free char *path = path_join(w->dir, file);
    struct err e = ERR_INIT;
    ok(file_mkdirs(w->dir, 0700, &e), &e);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    ok(file_mkdirs(path, 0700, &e), &e);
    *slash = '/';
    ok(file_write_atomic(path, value, strlen(value), 0600, &e), &e);
}

/* The Secret has exactly these keys, "a b c"; the value of each is its name. */
static void put_keys(const struct whole *w, const char *keys)
{
    struct err e = ERR_INIT;
    cleanup_free char *dir = path_join(w->dir, "0/secret"), *rest = xstrdup(keys);
    ok(file_remove_tree(dir, &e), &e);
    ok(file_mkdirs(dir, 0700, &e), &e);
    char *save;
    for (char *key = strtok_r(rest, " ", &save); key; key = strtok_r(NULL, " ", &save)) {
        cleanup_free char *file = xasprintf("0/secret/%s", key);
        put_file(w, file, key);
    }
}

/* The value of an option: "-" not given, "!" an error. */
static char *value_of(const struct whole *w, const char *option, struct err *e)
{
    char *out = NULL;
    *e = (struct err)ERR_INIT;
    if (option_get(&w->p, option, &out, e))
        return xstrdup("!");
    return out ? out : xstrdup("-");
}

static char *credentials(const struct whole *w)
{
    struct err e;
    cleanup_free char *id = value_of(w, "access-key-id", &e);
    cleanup_free char *key = value_of(w, "secret-access-key", &e);
    cleanup_free char *token = value_of(w, "session-token", &e);
    return xasprintf("%s %s %s", id, key, token);
}

static void spellings(void **state)
{
    struct whole *w = *state;
    static const struct {
        const char *keys, *want;
    } cases[] = {
        {"access-key-id secret-access-key", "access-key-id secret-access-key -"},
        {"access-key-id secret-access-key session-token",
            "access-key-id secret-access-key session-token"},
        {"AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN",
            "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN"},
        {"access-key secret-key session-token", "access-key secret-key session-token"},
        {"accessKey secretKey sessionToken", "accessKey secretKey sessionToken"},
        {"accessKeyId secretAccessKey sessionToken", "accessKeyId secretAccessKey sessionToken"},
        {"key_id access_key session_token", "key_id access_key session_token"},
        {"access_key secret_key", "access_key secret_key -"},
        {"aws.accessKeyId aws.secretKey", "aws.accessKeyId aws.secretKey -"},
        {"fs.s3a.access.key fs.s3a.secret.key fs.s3a.session.token",
            "fs.s3a.access.key fs.s3a.secret.key fs.s3a.session.token"},
        {"aws_access_key_id aws_secret_access_key", "aws_access_key_id aws_secret_access_key -"},
        {"AccessKey SecretKey Endpoint", "AccessKey SecretKey -"},
        {"accesskey secretkey", "accesskey secretkey -"},
        /* two pairs: the first of the table, and never a half or a token of the other */
        {"accessKey secretKey AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY -"},
        {"accessKey secretKey sessionToken AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY -"},
        {"access-key-id accessKey secretKey", "accessKey secretKey -"},
        /* halves of different spellings, but there is nothing to choose */
        {"AWS_ACCESS_KEY_ID secretKey", "AWS_ACCESS_KEY_ID secretKey -"},
        {"accessKey secretKey session-token", "accessKey secretKey session-token"},
        {"access_key AWS_SECRET_ACCESS_KEY", "access_key AWS_SECRET_ACCESS_KEY -"},
        /* there is */
        {"AWS_ACCESS_KEY_ID accessKey secret-key", "! secret-key -"},
        {"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID ! -"},
        /* access_key is the secret key beside key_id, and the access key beside secret_key */
        {"key_id access_key secret_key", "key_id ! -"},
        {"access_key", "access_key ! -"},
        {"key_id", "! ! -"},
        {"foo bar", "! ! -"},
        {"", "! ! -"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        put_keys(w, cases[i].keys);
        cleanup_free char *got = credentials(w);
        if (strcmp(got, cases[i].want) != 0)
            fail_msg("%s: %s, wanted %s", cases[i].keys, got, cases[i].want);
    }
}

/* Of any set of keys: a pair comes of one spelling, or each half is the only one there may be. */
static void no_halves_of_different_pairs(void **state)
{
    struct whole *w = *state;
    static const char *const keys[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "accessKey",
        "secretKey", "key_id", "access_key", "secret_key", "foo"};
    static const char *const pairs[][2] = {
        {keys[0], keys[1]}, {keys[2], keys[3]}, {keys[4], keys[5]}, {keys[5], keys[6]}};
    unsigned same = 0, mixed = 0;
    for (unsigned set = 0; set < 1u << ARRAY_LEN(keys); set++) {
        cleanup_buf struct buf text = BUF_INIT(400);
        unsigned ids = 0, secrets = 0;
        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
            if (!(set & 1u << i))
                continue;
            buf_addf(&text, "%s ", keys[i]);
            ids += i == 0 || i == 2 || i == 5;
            secrets += i == 1 || i == 3 || i == 6;
        }
        put_keys(w, buf_str(&text));
        struct err e;
        cleanup_free char *id = value_of(w, "access-key-id", &e);
        cleanup_free char *key = value_of(w, "secret-access-key", &e);
        if (strcmp(id, "!") == 0 || strcmp(key, "!") == 0)
            continue;
        assert_string_not_equal(id, key);
        bool pair = false;
        for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
            pair |= strcmp(id, pairs[i][0]) == 0 && strcmp(key, pairs[i][1]) == 0;
        if (!pair && !(ids == 1 && secrets == 1))
            fail_msg("%s: %s and %s", buf_str(&text), id, key);
        same += pair;
        mixed += !pair;
    }
    assert_in_range(same, 100, 255);
    assert_in_range(mixed, 4, 40);
}

static void other_options_are_in_it_too(void **state)
{
    struct whole *w = *state;
    struct err e;
    put_keys(w, "AWS_REGION foo");
    put_file(w, "0/secret/AWS_ENDPOINT_URL", "https://s3.example.com\n");
    cleanup_free char *region = value_of(w, "region", &e), *url = value_of(w, "endpoint", &e);
    assert_string_equal(region, "AWS_REGION");
    assert_string_equal(url, "https://s3.example.com");
    put_file(w, "0/secret/AWS_ENDPOINT_URL", "s3.example.com");
    cleanup_free char *bad = value_of(w, "endpoint", &e);
    assert_string_equal(bad, "!");
    assert_string_equal(store_reason(&e), "InvalidOption");
}

static void what_is_given_otherwise_wins(void **state)
{
    struct whole *w = *state;
    struct err e;
    put_keys(w, "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_REGION");
    struct conf_pair usual[] = {
        {(char *)"region", (char *)"by-default"}, {(char *)"path-style", (char *)"true"}};
    w->m->conf.default_options = usual;
    w->m->conf.ndefault_options = 2;
    cleanup_free char *region = value_of(w, "region", &e);
    assert_string_equal(region, "AWS_REGION"); /* the mount's Secret before the cluster's default */
    cleanup_free char *style = value_of(w, "path-style", &e);
    assert_string_equal(style, "true");
    put_file(w, "0/id", "single\n");
    mount_secret(w->m, "access-key-id", "0/id", "creds:id");
    mount_option(w->m, "region", "mine");
    cleanup_free char *mine = value_of(w, "region", &e);
    assert_string_equal(mine, "mine");
    cleanup_free char *mixed = credentials(w); /* one half each */
    assert_string_equal(mixed, "single AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN");
    mount_option(w->m, "secret-access-key", "plain");
    cleanup_free char *both = credentials(w); /* the token is of other keys than these */
    assert_string_equal(both, "single plain -");
    static const char *const names[] = {"access-key-id", NULL};
    cleanup_free char *origin = option_origin(&w->p, names);
    assert_string_equal(origin, "Secret creds (keys id)");
}

static void values(void **state)
{
    struct whole *w = *state;
    struct err e;
    put_keys(w, "AWS_SECRET_ACCESS_KEY");
    put_file(w, "0/secret/AWS_ACCESS_KEY_ID", "id\r\n\n");
    cleanup_free char *got = credentials(w);
    assert_string_equal(got, "id AWS_SECRET_ACCESS_KEY -");
    put_file(w, "0/secret/AWS_ACCESS_KEY_ID", "\n");
    cleanup_free char *none = value_of(w, "access-key-id", &e);
    assert_string_equal(none, "!");
    assert_string_equal(
        e.msg, "s3://data/set: SecretMissing: key 'AWS_ACCESS_KEY_ID' of Secret s3-keys is empty");
    static const char *const names[] = {"access-key-id", NULL};
    cleanup_free char *origin = option_origin(&w->p, names);
    assert_string_equal(origin, "Secret s3-keys");
}

/* As editors and shells leave them. No byte of them is told. */
static void values_that_are_no_plain_text(void **state)
{
    struct whole *w = *state;
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"\xef\xbb\xbf"
         "AKIAHUSH",
            11},
        {"AKIAHUSH\r\nx-evil: 1", 19},
        {"AKIAHUSH\nAKIAHUSH\n", 18},
        {"AKIAHUSH\tx", 10},
        {"AKIAHUSH\0x", 10},
        {"\0", 1},
        {"\xff\xfe"
         "A\0K\0I\0A\0",
            10},
        {"AKIAHUSH\x7f", 9},
        {"AKIA\xe2\x80\x8bHUSH", 11},
        {"AKIAHUSH\xe2\x81\xa0", 11},
        {"AKIAHUSH\xef\xbb\xbf\n", 12},
        {"AKIA\xc2\xa0HUSH", 10},
        {"\xe2\x80\xaeHUSHAIKA", 11},
    };
    put_keys(w, "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY");
    cleanup_free char *path = path_join(w->dir, "0/secret/AWS_ACCESS_KEY_ID");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        ok(file_write_atomic(path, cases[i].bytes, cases[i].len, 0600, &e), &e);
        cleanup_free char *got = value_of(w, "access-key-id", &e);
        if (strcmp(got, "!") != 0)
            fail_msg("case %zu: taken", i);
        assert_string_equal(store_reason(&e), "InvalidOption");
        assert_int_equal(e.cls, ERR_DENIED); /* what is cached is served meanwhile */
        assert_non_null(strstr(
            e.msg, "key 'AWS_ACCESS_KEY_ID' of Secret s3-keys is not one line of plain text"));
        assert_null(strstr(e.msg, "HUSH"));
    }
    struct err e;
    put_file(w, "0/secret/AWS_ACCESS_KEY_ID", "Zugangsschl\xc3\xbcssel 1");
    cleanup_free char *odd = value_of(w, "access-key-id", &e);
    assert_string_equal(odd, "Zugangsschl\xc3\xbcssel 1"); /* the server says what it thinks */
    mount_option(w->m, "external-id", "id\xe2\x80\x8b");
    assert_int_equal(option_check_all(&w->p, &e), -1);
    assert_non_null(strstr(e.msg, "option external-id holds an invisible character"));
}

static void refusals_in_words(void **state)
{
    struct whole *w = *state;
    static const struct {
        const char *keys, *option, *words;
    } cases[] = {
        {"foo bar", "access-key-id",
            "none of them is the access key: name them access-key-id and secret-access-key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"},
        {"accessKey", "secret-access-key",
            "Secret s3-keys has keys accessKey; none of them is the secret key: name them"},
        {"key_id access_key secret_key", "secret-access-key",
            "it is not clear which of them is the secret key"},
        {"", "access-key-id",
            "Secret s3-keys is not there or has no keys: create it with the keys access-key-id and secret-access-key"},
        {"k1 k2 k3 k4 k5 k6 k7 k8 k9 k10 k11 k12", "access-key-id", " and 2 more; none of them"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e;
        put_keys(w, cases[i].keys);
        cleanup_free char *got = value_of(w, cases[i].option, &e);
        assert_string_equal(got, "!");
        assert_string_equal(store_reason(&e), "SecretMissing");
        assert_int_equal(e.cls, ERR_DENIED);
        if (!strstr(e.msg, cases[i].words))
            fail_msg("%s", e.msg);
    }
    struct err e = ERR_INIT;
    cleanup_free char *dir = path_join(w->dir, "0");
    ok(file_remove_tree(dir, &e), &e); /* not even a directory */
    cleanup_free char *got = value_of(w, "access-key-id", &e);
    assert_non_null(strstr(e.msg, "Secret s3-keys is not there"));
    cleanup_free char *region = value_of(w, "region", &e);
    assert_string_equal(region, "-");
    w->p.secrets_dir = NULL;
    cleanup_free char *nowhere = value_of(w, "region", &e);
    assert_string_equal(nowhere, "!");
    assert_non_null(strstr(e.msg, "--secrets-dir"));
}

static void certificates_of_a_config_map(void **state)
{
    struct whole *w = *state;
    struct err e;
    w->m->conf.secret_dir = NULL;
    w->m->conf.ca_bundle = (char *)"0/ca-bundle";
    w->m->conf.ca_bundle_name = (char *)"corporate-ca:ca.crt";
    cleanup_free char *missing = value_of(w, "ca-cert", &e);
    assert_string_equal(missing, "!");
    assert_string_equal(store_reason(&e), "ConfigMapMissing");
    assert_non_null(strstr(e.msg,
        "option ca-cert comes from key 'ca.crt' of ConfigMap corporate-ca, which is not there: create the ConfigMap with that key"));
    put_file(w, "0/ca-bundle", "/etc/ssl/ca.crt");
    cleanup_free char *wrong = value_of(w, "ca-cert", &e);
    assert_string_equal(wrong, "!");
    assert_string_equal(store_reason(&e), "InvalidOption");
    assert_non_null(strstr(e.msg, "has no certificate in it"));
    size_t many = 3000; /* as a bundle of all that the system trusts, and more than a Secret file */
    cleanup_free char *bundle = xcalloc(many, sizeof CERT);
    for (size_t i = 0; i < many; i++)
        memcpy(bundle + i * (sizeof CERT - 1), CERT, sizeof CERT);
    put_file(w, "0/ca-bundle", bundle);
    cleanup_free char *text = value_of(w, "ca-cert", &e);
    assert_int_equal(strlen(text), many * (sizeof CERT - 1) - 1);
    mount_option(w->m, "ca-cert", CERT);
    cleanup_free char *mine = value_of(w, "ca-cert", &e);
    assert_string_equal(mine, CERT);
    cleanup_free char *region = value_of(w, "region", &e);
    assert_string_equal(region, "-");
}

/* -- a store with them ------------------------------------------------------------------------- */

static void a_store_uses_and_follows_them(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    w->m->conf.nsecrets = w->m->conf.nsecret_names = 0;
    w->m->conf.secret_dir = (char *)"whole";
    w->m->conf.secret_dir_name = (char *)"s3-keys";
    cleanup_free char *dir = path_join(w->dir, "whole");
    ok(file_mkdirs(dir, 0700, &e), &e);
    struct store *s = open_store(w->m, w->dir, PATIENT);
    assert_int_equal(store_check(s, &e), -1);
    assert_string_equal(store_reason(&e), "SecretMissing");
    assert_int_equal(fake_s3_requests(w->server, NULL), 0);
    write_secret(w, "whole/AWS_ACCESS_KEY_ID", "good\n");
    write_secret(w, "whole/AWS_SECRET_ACCESS_KEY", "hushhush");
    ok(store_check(s, &e), &e); /* no restart needed */
    fake_s3_expire(w->server, "good");
    assert_int_equal(store_check(s, &e), -1);
    assert_non_null(strstr(e.msg, "renew the credentials in Secret s3-keys"));
    assert_null(strstr(e.msg, "hushhush"));
    fake_s3_expire(w->server, "older");
    ok(store_check(s, &e), &e);
    write_secret(w, "whole/AWS_ACCESS_KEY_ID", "older"); /* a rotation, to ones that are refused */
    clock_sleep_ns(1100 * NS_PER_MS);
    assert_int_equal(store_check(s, &e), -1);
    assert_string_equal(store_reason(&e), "ExpiredCredentials");
    store_free(s);
}

/* The Secret may say where the server is, so a store without one waits for it. */
static void a_secret_that_comes_later(void **state)
{
    struct whole *w = *state;
    struct err e = ERR_INIT;
    struct store_conf sc = {.mount = &w->m->conf, .secrets_dir = w->dir, .deadline_ns = NS_PER_S};
    assert_null(store_new(&sc, &e));
    assert_int_equal(e.cls, ERR_DENIED);
    assert_string_equal(store_reason(&e), "SecretMissing");
    put_keys(w, "");
    assert_null(store_new(&sc, &e));
    assert_non_null(strstr(e.msg, "Secret s3-keys is not there or has no keys"));
    put_keys(w, "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY");
    put_file(w, "0/secret/AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    struct store *s = store_new(&sc, &e);
    assert_non_null(s);
    assert_int_equal(store_check(s, &e), -1);
    assert_non_null(strstr(e.msg, "127.0.0.1"));
    store_free(s);
    put_keys(w, "");
    mount_option(w->m, "endpoint", "http://127.0.0.1:1"); /* it is known where to go */
    s = store_new(&sc, &e);
    assert_non_null(s);
    store_free(s);
}

/* Where the cluster says which servers there are, a Secret, which no policy reads, leads to no
 * other; what a mount's options or the cluster's default say was judged when it was written. */
static void a_secret_leads_to_allowed_servers_only(void **state)
{
    struct whole *w = *state;
    static const char *const allowed[] = {"aws", "https://minio.example"};
    struct conf_pair usual = {(char *)"endpoint", (char *)"https://by-default.example"};
    struct store_conf sc = {.mount = &w->m->conf, .secrets_dir = w->dir, .deadline_ns = NS_PER_S};
    static const struct {
        const char *endpoint, *written;
        bool fits;
    } cases[] = {
        {"https://minio.example", NULL, true}, {"https://by-default.example", NULL, true},
        {"https://thief.example", NULL, false},
        {"https://minio.example.thief.example", NULL, false},
        {"https://thief.example", "https://older.example", true}, /* options go before it */
    };
    w->m->conf.default_options = &usual;
    w->m->conf.ndefault_options = 1;
    w->m->conf.endpoints = (char **)allowed;
    w->m->conf.nendpoints = ARRAY_LEN(allowed);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        put_keys(w, "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY");
        put_file(w, "0/secret/AWS_ENDPOINT_URL", cases[i].endpoint);
        if (cases[i].written)
            mount_option(w->m, "endpoint", cases[i].written);
        struct store *s = store_new(&sc, &e);
        if ((s != NULL) != cases[i].fits)
            fail_msg("%s: %s", cases[i].endpoint, e.msg);
        store_free(s);
        if (cases[i].fits)
            continue;
        assert_string_equal(store_reason(&e), "InvalidOption");
        assert_int_equal(e.cls, ERR_DENIED); /* what is cached is served meanwhile */
        assert_non_null(strstr(e.msg, "this cluster allows aws, https://minio.example only"));
        assert_non_null(strstr(e.msg, "limits.endpoints"));
    }
    struct err e = ERR_INIT;
    w->m->conf.noptions = 0;
    put_keys(w, "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY");
    put_file(w, "0/endpoint", "https://thief.example"); /* a single key of a Secret */
    mount_secret(w->m, "endpoint", "0/endpoint", "creds:url");
    assert_null(store_new(&sc, &e));
    assert_string_equal(store_reason(&e), "InvalidOption");
}

/* Whoever sees a token has what it opens: it takes a word to send it where everybody sees it. */
static void tokens_are_not_sent_in_clear(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    write_secret(w, "token", "hushhush");
    mount_secret(w->m, "session-token", "token", "creds:token");
    struct store *s = open_store(w->m, w->dir, PATIENT);
    assert_int_equal(store_check(s, &e), -1);
    assert_string_equal(store_reason(&e), "InvalidOption");
    assert_int_equal(e.cls, ERR_DENIED);
    assert_non_null(strstr(e.msg, "tls-verify"));
    assert_null(strstr(e.msg, "hushhush"));
    assert_int_equal(fake_s3_requests(w->server, NULL), 0);
    store_free(s);
    e = (struct err)ERR_INIT;
    mount_option(w->m, "tls-verify", "false");
    s = open_store(w->m, w->dir, PATIENT);
    ok(store_check(s, &e), &e);
    store_free(s);
}

int main(void)
{
#define with_whole(test) cmocka_unit_test_setup_teardown(test, whole_setup, whole_teardown)
    const struct CMUnitTest tests[] = {with_whole(spellings),
        with_whole(no_halves_of_different_pairs), with_whole(other_options_are_in_it_too),
        with_whole(what_is_given_otherwise_wins), with_whole(values),
        with_whole(values_that_are_no_plain_text), with_whole(refusals_in_words),
        with_whole(certificates_of_a_config_map), with_whole(a_secret_that_comes_later),
        with_whole(a_secret_leads_to_allowed_servers_only),
        with_fixture(a_store_uses_and_follows_them), with_fixture(tokens_are_not_sent_in_clear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
