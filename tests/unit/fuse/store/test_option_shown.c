/* SPDX-License-Identifier: Apache-2.0 */
/* What a Secret says is never repeated, whichever option of whichever store it is for, and whatever
 * is wrong with it: conditions and Events are read by people who may not read Secrets. */
#include "tests/lib/mount.h"
#include "tests/lib/unit.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"

#define SECRET "hushhush"

/* Of each of these, something is no value of every option that is looked at before a request. */
static const char *const values[] = {
    SECRET " /../" SECRET ":x",
    SECRET,
    "https://" SECRET ":" SECRET "@h",
    "http://h/" SECRET,
    "http://" SECRET ".example",
    "nn1:9870, " SECRET "/" SECRET,
    "\xef\xbb\xbf" SECRET,
};

static const char *url_of(const char *scheme)
{
    static const char *const urls[] = {"s3://bucket/prefix", "gs://bucket/prefix", "file:///tmp",
        "http://127.0.0.1:1/a", "https://127.0.0.1:1/a", "hdfs://nn/a", "webhdfs://nn/a",
        "swebhdfs://nn/a"};
    for (size_t i = 0; i < ARRAY_LEN(urls); i++)
        if (strncmp(urls[i], scheme, strlen(scheme)) == 0 && urls[i][strlen(scheme)] == ':')
            return urls[i];
    fail_msg("no URL of a %s:// is here: add one", scheme);
    return NULL;
}

static void put(const char *dir, const char *key, const char *value)
{
    struct err e = ERR_INIT;
    cleanup_free char *secret = path_join(dir, "0/secret"), *path = path_join(secret, key);
    assert_int_equal(file_remove_tree(secret, &e), 0);
    assert_int_equal(file_mkdirs(secret, 0700, &e), 0);
    assert_int_equal(file_write_atomic(path, value, strlen(value), 0600, &e), 0);
}

/* Is it refused? Web servers' and Google's credentials are looked at with the first request. */
static bool is_refused(const struct store_conf *sc, struct err *e)
{
    *e = (struct err)ERR_INIT;
    struct store *s = store_new(sc, e);
    bool late = strncmp(sc->mount->mount_point, "http", 4) == 0
        || strncmp(sc->mount->mount_point, "gs:", 3) == 0;
    bool refused = !s || (late && store_check(s, e));
    store_free(s);
    return refused;
}

/* whole: by secretRef, else by encryptOptions. limited: the cluster allows some servers only. */
static bool try_value(const struct store_kind *kind, const char *option, const char *value,
    bool whole, bool limited, const char *dir)
{
    static const char *const allowed[] = {"https://minio.example"};
    struct err e;
    struct mount *m = mount_new(url_of(kind->scheme));
    const struct store_conf sc = {
        .mount = &m->conf, .secrets_dir = dir, .deadline_ns = 50 * NS_PER_MS};
    put(dir, option, value);
    cleanup_free char *file = xasprintf("0/secret/%s", option);
    cleanup_free char *name = xasprintf("creds:%s", option);
    if (whole) {
        m->conf.secret_dir = (char *)"0/secret";
        m->conf.secret_dir_name = (char *)"creds";
    } else {
        mount_secret(m, option, file, name);
    }
    if (limited) {
        m->conf.endpoints = (char **)(uintptr_t)allowed;
        m->conf.nendpoints = 1;
    }
    bool refused = is_refused(&sc, &e);
    /* a server that is asked for what an option names is told by that name, up to whoever prints */
    if (refused && strcmp(store_reason(&e), "InvalidOption") != 0)
        log_redact_text(e.msg);
    if (refused && strstr(e.msg, SECRET))
        fail_msg("%s, option %s: %s", m->conf.mount_point, option, e.msg);
    mount_free(m);
    return refused;
}

/* Nothing is wrong with such a value before somebody is asked. */
static bool takes_any(const char *option)
{
    static const char *const any[] = {"access-key-id", "secret-access-key", "session-token",
        "role-arn", "external-id", "role-session-name", "profile", "user", "delegation-token",
        "keytab", "krb5-conf", "instance-metadata", "anonymous"};
    for (size_t i = 0; i < ARRAY_LEN(any); i++)
        if (strcmp(any[i], option) == 0)
            return true;
    return false;
}

static void test_secrets(void **state)
{
    (void)state;
    char dir[] = "/tmp/millrace-test.XXXXXX";
    assert_non_null(mkdtemp(dir));
    const struct store_kind *kind;
    for (size_t k = 0; (kind = store_kind_at(k)); k++)
        for (const struct store_option *o = kind->options; o->name; o++)
            for (unsigned way = 0; way < 4; way++) {
                size_t refused = 0;
                for (size_t i = 0; i < ARRAY_LEN(values); i++)
                    refused += try_value(kind, o->name, values[i], way & 1, way & 2, dir);
                if (!refused && !takes_any(o->name))
                    fail_msg("%s://, option %s: no value here is refused", kind->scheme, o->name);
            }
    struct err e = ERR_INIT;
    assert_int_equal(file_remove_tree(dir, &e), 0);
}

/* The value where it stands for all to see, else where to look. */
static void test_words(void **state)
{
    (void)state;
    char dir[] = "/tmp/millrace-test.XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct err e;
    struct mount *m = mount_new("https://127.0.0.1:1/a");
    const struct store_conf sc = {.mount = &m->conf, .secrets_dir = dir, .deadline_ns = 1};
    struct conf_pair usual = {(char *)"tls-verify", (char *)"perhaps"};
    put(dir, "tls-verify", SECRET);
    mount_secret(m, "tls-verify", "0/secret/tls-verify", "creds:tls-verify");
    assert_true(is_refused(&sc, &e));
    assert_non_null(strstr(e.msg,
        "option tls-verify is what key tls-verify of Secret creds says; write \"true\" or \"false\""));
    m->conf.nsecrets = m->conf.nsecret_names = 0;
    m->conf.secret_dir = (char *)"0/secret";
    m->conf.secret_dir_name = (char *)"creds";
    assert_true(is_refused(&sc, &e));
    assert_non_null(strstr(e.msg, "option tls-verify is what Secret creds says; write"));
    m->conf.default_options = &usual;
    m->conf.ndefault_options = 1;
    assert_true(is_refused(&sc, &e));
    assert_non_null(strstr(e.msg, "option tls-verify is 'perhaps'; write"));
    m->conf.ndefault_options = 0;
    mount_option(m, "tls-verify", "never");
    assert_true(is_refused(&sc, &e));
    assert_non_null(strstr(e.msg, "option tls-verify is 'never'; write"));
    mount_free(m);
    assert_int_equal(file_remove_tree(dir, &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secrets), cmocka_unit_test(test_words)};
    return cmocka_run_group_tests_name("option_shown", tests, NULL, NULL);
}
