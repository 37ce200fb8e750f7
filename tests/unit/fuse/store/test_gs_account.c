/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens for buckets of Google's by credentials that a person gave, and by what another cluster
 * says of its pods. */
#include "tests/unit/fuse/store/gs_fixture.h"

#include "fuse/store/gs_account.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#define PROVIDER "projects/7/locations/global/workloadIdentityPools/p/providers/k"

/* -- credentials that a person gave --------------------------------------------------------------
 */

static char *new_key(EVP_PKEY **key)
{
    *key = EVP_RSA_gen(2048);
    BIO *bio = BIO_new(BIO_s_mem());
    char *text;
    assert_non_null(*key);
    assert_int_equal(PEM_write_bio_PKCS8PrivateKey(bio, *key, NULL, NULL, 0, NULL, NULL), 1);
    long n = BIO_get_mem_data(bio, &text);
    char *pem = xstrndup(text, (size_t)n);
    BIO_free(bio);
    return pem;
}

/* With the name of its Secret's key, as gcloud writes it: on several lines. */
static void give_document(struct fixture *w, json_t *document)
{
    cleanup_free char *text = json_dumps(document, JSON_INDENT(2));
    json_decref(document);
    write_secret(w, "key.json", text);
    mount_secret(w->m, "credentials", "key.json", "gcs:key.json");
}

static size_t from_base64url(char *text, unsigned char *out)
{
    size_t n = strlen(text);
    cleanup_free char *padded = xasprintf("%s%.*s", text, (int)((4 - n % 4) % 4), "===");
    for (char *p = padded; *p; p++)
        *p = *p == '-' ? '+' : *p == '_' ? '/' : *p;
    int len = EVP_DecodeBlock(out, (unsigned char *)padded, (int)strlen(padded));
    assert_true(len >= 0);
    return (size_t)len - (4 - n % 4) % 4;
}

/* Judged as a token server does: by the public key. */
static void check_jwt(EVP_PKEY *key, char *jwt, const char *aud)
{
    unsigned char signature[2048], text[4096];
    char *last = strrchr(jwt, '.'), *middle = strchr(jwt, '.');
    assert_true(last && middle && last > middle);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    size_t n = from_base64url(last + 1, signature);
    assert_int_equal(EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key), 1);
    assert_int_equal(
        EVP_DigestVerify(ctx, signature, n, (unsigned char *)jwt, (size_t)(last - jwt)), 1);
    EVP_MD_CTX_free(ctx);
    *middle = *last = '\0';
    n = from_base64url(jwt, text);
    cleanup_json json_t *head = json_loadb((char *)text, n, 0, NULL);
    assert_string_equal(jget_str(head, "alg", ""), "RS256");
    assert_string_equal(jget_str(head, "kid", ""), "k1");
    n = from_base64url(middle + 1, text);
    cleanup_json json_t *claims = json_loadb((char *)text, n, 0, NULL);
    int64_t now = clock_real_ns() / NS_PER_S, iat = jget_int(claims, "iat", 0);
    assert_string_equal(jget_str(claims, "iss", ""), "trainer@p.iam.gserviceaccount.com");
    assert_string_equal(jget_str(claims, "aud", ""), aud);
    assert_non_null(strstr(jget_str(claims, "scope", ""), "devstorage.read_write"));
    assert_true(iat <= now && now - iat < 300);
    assert_int_equal(jget_int(claims, "exp", 0), iat + 3600);
}

static json_t *service_account(const char *pem, const char *uri)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s}", "type", "service_account", "client_email",
        "trainer@p.iam.gserviceaccount.com", "private_key_id", "k1", "private_key", pem,
        "token_uri", uri);
}

static void a_key_of_a_service_account_signs(void **state)
{
    struct fixture *w = *state;
    EVP_PKEY *key;
    cleanup_free char *pem = new_key(&key), *uri = at_lender("/token");
    give_document(w, service_account(pem, uri));
    open_gs(w);
    expect_read(w);
    assert_int_equal(lent(), 1);
    static const char begin[] =
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
    assert_memory_equal(lender.asked, begin, sizeof begin - 1);
    check_jwt(key, lender.asked + sizeof begin - 1, uri);
    EVP_PKEY_free(key);
}

static void a_whole_secret_with_key_json(void **state)
{
    struct fixture *w = *state;
    EVP_PKEY *key;
    cleanup_free char *pem = new_key(&key), *uri = at_lender("/token"),
                      *dir = path_join(w->dir, "whole");
    EVP_PKEY_free(key);
    assert_int_equal(mkdir(dir, 0700), 0);
    cleanup_json json_t *document = service_account(pem, uri);
    cleanup_free char *text = json_dumps(document, JSON_INDENT(2));
    write_secret(w, "whole/key.json", text);
    w->m->conf.secret_dir = (char *)"whole";
    w->m->conf.secret_dir_name = (char *)"gcs";
    open_gs(w);
    expect_read(w);
}

static void a_file_of_this_machine(void **state)
{
    struct fixture *w = *state;
    cleanup_free char *uri = at_lender("/token"), *path = path_join(w->dir, "adc.json");
    cleanup_json json_t *document = json_pack("{s:s, s:s, s:s, s:s, s:s}", "type",
        "authorized_user", "client_id", "c", "client_secret", "d&e", "refresh_token", "1//r",
        "token_uri", uri);
    cleanup_free char *text = json_dumps(document, 0);
    write_secret(w, "adc.json", text);
    setenv("GOOGLE_APPLICATION_CREDENTIALS", path, 1);
    w->s = open_store(w->m, NULL, 20 * NS_PER_S);
    expect_read(w);
    assert_string_equal(lender.asked,
        "grant_type=refresh_token&client_id=c&client_secret=d%26e&refresh_token=1%2F%2Fr");
}

static void a_file_that_is_not_there(void **state)
{
    struct fixture *w = *state;
    setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json", 1);
    w->s = open_store(w->m, NULL, 20 * NS_PER_S);
    expect_refused(w, "SecretMissing", "/nowhere/key.json");
}

static void a_grant_that_is_refused(void **state)
{
    struct fixture *w = *state;
    EVP_PKEY *key;
    cleanup_free char *pem = new_key(&key), *uri = at_lender("/token");
    EVP_PKEY_free(key);
    give_document(w, service_account(pem, uri));
    lender.status = 400;
    open_gs(w);
    expect_refused(w, "ExpiredCredentials", "(400 invalid_grant: Invalid JWT Signature.)");
    assert_int_equal(lent(), 1); /* nobody is asked again at once */
}

/* People who read conditions and Events may not read Secrets. */
static void what_a_secret_says_is_not_told(void **state)
{
    struct fixture *w = *state;
    static const char *const servers[] = {"http://127.0.0.1:1/hidden", "https://hidden.invalid/t"};
    EVP_PKEY *key;
    cleanup_free char *pem = new_key(&key);
    EVP_PKEY_free(key);
    mount_secret(w->m, "credentials", "key.json", "gcs:key.json");
    for (size_t i = 0; i < ARRAY_LEN(servers); i++) {
        struct err e = ERR_INIT;
        cleanup_json json_t *document = service_account(pem, servers[i]);
        cleanup_free char *text = json_dumps(document, 0);
        write_secret(w, "key.json", text);
        w->s = open_store(w->m, w->dir, BRIEF);
        assert_int_equal(read_file(w, &e), -1);
        assert_non_null(strstr(e.msg, "the token server that the credentials name"));
        if (strstr(e.msg, "hidden") || strstr(e.msg, "127.0.0.1:1"))
            fail_msg("%s", e.msg);
        store_free(w->s);
        w->s = NULL;
    }
}

static void documents_that_are_none(void **state)
{
    struct fixture *w = *state;
    static const char *const wrong[][2] = {{"{\"type\":", "it is no JSON"},
        {"{\"type\":\"gdch\"}", "its type is none of"},
        {"{\"type\":\"service_account\",\"client_email\":\"a\"}", "private_key is missing"},
        {"{\"type\":\"service_account\",\"client_email\":\"a\",\"private_key\":\"x\"}",
            "no RSA key"},
        {"{\"type\":\"service_account\",\"client_email\":\"a\\\"b\",\"private_key\":\"x\"}",
            "client_email"},
        {"{\"type\":\"external_account\",\"audience\":\"a\",\"credential_source\":{\"executable\":{}}}",
            "not from a file"},
        {"{\"type\":\"authorized_user\",\"client_id\":\"a\"}", "refresh_token is missing"}};
    mount_secret(w->m, "credentials", "key.json", "gcs:key.json");
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        write_secret(w, "key.json", wrong[i][0]);
        open_gs(w);
        expect_refused(w, "InvalidOption", wrong[i][1]);
        store_free(w->s);
        w->s = NULL;
    }
}

/* -- tokens of a cluster that is none of Google's -------------------------------------------------
 */

static void a_token_of_the_cluster_is_exchanged(void **state)
{
    struct fixture *w = *state;
    cleanup_free char *sts = at_lender("");
    as_service_account(w);
    mount_option(w->m, "workload-provider", PROVIDER);
    mount_option(w->m, "sts-endpoint", sts);
    open_gs(w);
    expect_read(w);
    assert_string_equal(lender.path, "/v1/token");
    assert_non_null(strstr(lender.asked,
        "grant-type%3Atoken-exchange&audience=%2F%2Fiam.googleapis.com%2Fprojects%2F7%2F"));
    assert_non_null(strstr(lender.asked,
        "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt&subject_token=k8s.to.ken"));
}

static void a_provider_without_anybody(void **state)
{
    struct fixture *w = *state;
    mount_option(w->m, "workload-provider", PROVIDER);
    open_gs(w);
    expect_refused(w, "SecretMissing", "spec.serviceAccountName");
}

/* The file that it names is not read: a Secret chooses none of the pod's. */
static void an_external_account_impersonates(void **state)
{
    struct fixture *w = *state;
    cleanup_free char *uri = at_lender("/v1/token"), *as = at_lender("/impersonate");
    as_service_account(w);
    write_secret(w, "other", "not.this.one");
    cleanup_free char *other = path_join(w->dir, "other");
    lender.lifetime_s = 1;
    give_document(w,
        json_pack("{s:s, s:s, s:s, s:s, s:{s:s}, s:s}", "type", "external_account", "audience",
            "//iam.googleapis.com/" PROVIDER, "subject_token_type",
            "urn:ietf:params:oauth:token-type:jwt", "token_url", uri, "credential_source", "file",
            other, "service_account_impersonation_url", as));
    open_gs(w);
    expect_read(w);
    assert_int_equal(lent(), 2);
    assert_string_equal(lender.path, "/impersonate");
    assert_string_equal(lender.bearer, "Bearer federated");
    assert_non_null(strstr(lender.asked, "devstorage.read_write"));
}

static void token_servers_that_the_cluster_allows(void **state)
{
    struct fixture *w = *state;
    EVP_PKEY *key;
    cleanup_free char *pem = new_key(&key), *uri = at_lender("/token"), *allowed = at_lender("");
    char *other = (char *)"https://storage.example", *both[] = {other, allowed};
    EVP_PKEY_free(key);
    give_document(w, service_account(pem, uri));
    w->m->conf.endpoints = both;
    w->m->conf.nendpoints = 1;
    open_gs(w);
    expect_refused(w, "InvalidOption", "limits.endpoints");
    assert_int_equal(lent(), 0);
    store_free(w->s);
    w->m->conf.nendpoints = 2;
    open_gs(w);
    expect_read(w);
}

/* No token goes where anybody on the way sees it. */
static void not_without_tls(void **state)
{
    struct fixture *w = *state;
    free(w->m->options[1].value);
    w->m->options[1].value = xstrdup("true"); /* tls-verify */
    as_service_account(w);
    open_gs(w);
    expect_refused(w, "InvalidOption", "a token is not sent to http://");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_gs(a_key_of_a_service_account_signs),
        with_gs(a_whole_secret_with_key_json),
        with_gs(a_file_of_this_machine),
        with_gs(a_file_that_is_not_there),
        with_gs(a_grant_that_is_refused),
        with_gs(what_a_secret_says_is_not_told),
        with_gs(documents_that_are_none),
        with_gs(a_token_of_the_cluster_is_exchanged),
        with_gs(a_provider_without_anybody),
        with_gs(an_external_account_impersonates),
        with_gs(token_servers_that_the_cluster_allows),
        with_gs(not_without_tls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
