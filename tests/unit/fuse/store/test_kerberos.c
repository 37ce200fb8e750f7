/* SPDX-License-Identifier: Apache-2.0 */
/* What is sent for a ticket, what a krb5.conf may hold, and what is refused before anybody is
 * asked. */
#include "fuse/store/kerberos.h"
#include "tests/lib/mount.h"
#include "tests/lib/unit.h"

#include "lib/base/file.h"

static void test_wrap(void **state)
{
    (void)state;
    /* as a DER reader shows it: [APPLICATION 0] { OID SPNEGO, [0] { { [0] { { OID Kerberos } }, [2]
     * OCTET STRING } } }, and in that [APPLICATION 0] { OID Kerberos, 01 00, the request } */
    static const unsigned char expected[] = {0x60, 0x34, 0x06, 0x06, 0x2b, 0x06, 0x01, 0x05, 0x05,
        0x02, 0xa0, 0x2a, 0x30, 0x28, 0xa0, 0x0d, 0x30, 0x0b, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86,
        0xf7, 0x12, 0x01, 0x02, 0x02, 0xa2, 0x17, 0x04, 0x15, 0x60, 0x13, 0x06, 0x09, 0x2a, 0x86,
        0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x01, 0x00, 'r', 'e', 'q', 'u', 'e', 's'};
    struct buf out;
    kerberos_wrap(&out, "reques", 6);
    assert_int_equal(out.len, sizeof expected);
    assert_memory_equal(out.data, expected, sizeof expected);
    buf_free(&out);
}

/* Each length says how many bytes follow it, in as few bytes as it takes. */
static void test_lengths(void **state)
{
    (void)state;
    static const struct {
        size_t request, head; /* bytes of the outermost length */
        unsigned char first;
    } cases[] = {{60, 1, 0}, {100, 2, 0x81}, {300, 3, 0x82}, {50000, 3, 0x82}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_free char *request = xcalloc(1, cases[i].request);
        struct buf out;
        kerberos_wrap(&out, request, cases[i].request);
        const unsigned char *p = (const unsigned char *)out.data;
        size_t n = p[1];
        if (cases[i].first)
            assert_int_equal(p[1], cases[i].first);
        for (size_t k = 1; k < cases[i].head; k++)
            n = k == 1 ? p[2] : n << 8 | p[1 + k];
        assert_int_equal(out.len, 1 + cases[i].head + n);
        assert_false(out.truncated);
        buf_free(&out);
    }
}

static void test_config(void **state)
{
    (void)state;
    assert_null(kerberos_config_fault(
        "[libdefaults]\n default_realm = A\n[realms]\n A = {\n kdc = k\n}\n"));
    assert_string_equal(kerberos_config_fault("include /etc/shadow\n"), "include");
    assert_string_equal(kerberos_config_fault("includedir /etc\n"), "include");
    assert_string_equal(kerberos_config_fault("module /tmp/x.so:y\n"), "module");
    assert_string_equal(
        kerberos_config_fault("[libdefaults]\n plugin_base_dir = /tmp\n"), "plugin");
    assert_string_equal(kerberos_config_fault("[plugins]\n a = { MODULE = x:/y }\n"), "module");
    assert_string_equal(kerberos_config_fault(" x = PKCS11:/tmp/x.so\n"), "PKCS11");
}

/* -- refusals -------------------------------------------------------------------------------- */

static void put(const char *dir, const char *key, const char *value, size_t n)
{
    struct err e = ERR_INIT;
    cleanup_free char *secret = path_join(dir, "0/secret"), *path = path_join(secret, key);
    assert_int_equal(file_mkdirs(secret, 0700, &e), 0);
    assert_int_equal(file_write_atomic(path, value, n, 0600, &e), 0);
}

/* says: what is wrong; NULL: nothing. */
static void open_as(const struct store_conf *sc, const char *says)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(sc, &e);
    if (!says != (s != NULL) || (says && !strstr(e.msg, says)))
        fail_msg("not '%s': %s", says ? says : "opened", e.msg);
    store_free(s);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const allowed[] = {"hdfs://cluster"};
    char dir[] = "/tmp/millrace-test.XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct mount *m = mount_new("hdfs://cluster/data");
    m->conf.secret_dir = (char *)"0/secret";
    m->conf.secret_dir_name = (char *)"keys";
    const struct store_conf sc = {.mount = &m->conf, .secrets_dir = dir};
    put(dir, "other", "x", 1);
    mount_option(m, "principal", "me@REALM");
    open_as(&sc, "set option kerberos to \"true\"");
    mount_option(m, "kerberos", "true");
    open_as(&sc, "put it into the Secret (or --secrets-dir) as key keytab");
    put(dir, "keytab", "\x05\x02\0\0\n", 5); /* no text, and no line end is taken off */
    open_as(&sc, NULL);
    put(dir, "krb5-conf", "[realms]\n", 9);
    open_as(&sc, NULL);
    m->conf.endpoints = (char **)(uintptr_t)allowed;
    m->conf.nendpoints = 1;
    open_as(&sc, "option krb5-conf names servers");
    m->conf.nendpoints = 0;
    put(dir, "delegation-token", "hush", 4);
    open_as(&sc, "two ways to say who we are");
    mount_free(m);
    struct err e = ERR_INIT;
    assert_int_equal(file_remove_tree(dir, &e), 0);
}

static void test_user(void **state)
{
    (void)state;
    struct mount *m = mount_new("hdfs://cluster/data");
    const struct store_conf sc = {.mount = &m->conf};
    mount_option(m, "kerberos", "true");
    open_as(&sc, NULL); /* by the cache of whoever runs it */
    mount_option(m, "user", "alice");
    open_as(&sc, "option user has no meaning with kerberos");
    mount_free(m);
}

/* Nobody is asked where there is no ticket. */
static void test_no_ticket(void **state)
{
    (void)state;
    char dir[] = "/tmp/millrace-test.XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct err e = ERR_INIT;
    cleanup_free char *config = path_join(dir, "0/secret/krb5-conf"), *principal = NULL,
                      *keytab = path_join(dir, "0/secret/keytab");
    struct kerberos k = {.keytab = keytab, .config = config};
    assert_null(kerberos_header(&k, "host", "hdfs://h", &principal, &e));
    assert_non_null(strstr(e.msg, "SecretMissing: option krb5-conf"));
    put(dir, "krb5-conf", "include /etc/passwd\n", 20);
    assert_null(kerberos_header(&k, "host", "hdfs://h", &principal, &e));
    assert_non_null(strstr(e.msg, "InvalidOption: option krb5-conf has the word 'include'"));
    put(dir, "krb5-conf", "[libdefaults]\n default_realm = A.TEST\n dns_lookup_kdc = false\n", 62);
    assert_null(kerberos_header(&k, "host", "hdfs://h", &principal, &e));
    assert_non_null(strstr(e.msg, "AccessDenied: Kerberos:"));
    assert_int_equal(e.cls, ERR_DENIED);
    assert_null(principal);
    assert_int_equal(file_remove_tree(dir, &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wrap), cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_config), cmocka_unit_test(test_refusals), cmocka_unit_test(test_user),
        cmocka_unit_test(test_no_ticket)};
    return cmocka_run_group_tests_name("kerberos", tests, NULL, NULL);
}
