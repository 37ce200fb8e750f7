/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of Google Cloud Storage: its words, its versions, and the tokens that are lent, against
 * servers that play the XML API (fake_gs.c), the metadata server and the token servers. There is no
 * real Google here: what they take and say is what its documents say. */
#include "tests/unit/fuse/store/s3_fixture.h"

#include "fuse/store/gs.h"
#include "fuse/store/gs_account.h"
#include "lib/http/serve.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#define PROVIDER "projects/7/locations/global/workloadIdentityPools/p/providers/k"

/* -- who gives tokens ---------------------------------------------------------------------------
 */

static struct {
    struct http_server *server;
    pthread_mutex_t mu;
    char asked[16384], bearer[256], path[256]; /* of the last request */
    unsigned requests;
    int status;
    int lifetime_s;
    const char *token;
} lender = {.mu = PTHREAD_MUTEX_INITIALIZER};

static void note(const struct serve_req *req)
{
    lender.requests++;
    snprintf(lender.path, sizeof lender.path, "%s", req->path);
    snprintf(lender.asked, sizeof lender.asked, "%.*s", (int)req->body_len,
        req->body ? (const char *)req->body : "");
    if (!serve_header(req, "authorization", lender.bearer, sizeof lender.bearer))
        lender.bearer[0] = '\0';
}

static void metadata(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    char flavor[16];
    (void)user;
    pthread_mutex_lock(&lender.mu);
    note(req);
    resp->status = lender.status;
    if (!serve_header(req, "metadata-flavor", flavor, sizeof flavor)
        || strcmp(flavor, "Google") != 0)
        resp->status = 403;
    buf_adds(&resp->headers, "Metadata-Flavor: Google\r\n");
    buf_addf(&resp->body, "{\"access_token\":\"%s\",\"expires_in\":%d,\"token_type\":\"Bearer\"}",
        lender.token, lender.lifetime_s);
    pthread_mutex_unlock(&lender.mu);
}

static void token(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)user;
    pthread_mutex_lock(&lender.mu);
    note(req);
    resp->status = lender.status;
    if (lender.status != 200)
        buf_adds(&resp->body,
            "{\"error\":\"invalid_grant\",\"error_description\":\"Invalid JWT\\nSignature.\"}");
    else
        buf_addf(&resp->body, "{\"access_token\":\"%s\",\"expires_in\":%d}",
            strcmp(req->path, "/v1/token") == 0 && lender.lifetime_s == 1 ? "federated"
                                                                          : lender.token,
            lender.lifetime_s);
    pthread_mutex_unlock(&lender.mu);
}

static void account_token(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    char end[CLOCK_RFC3339_LEN];
    (void)user;
    pthread_mutex_lock(&lender.mu);
    note(req);
    clock_rfc3339(clock_real_ns() + 3600 * NS_PER_S, end);
    buf_addf(&resp->body, "{\"accessToken\":\"%s\",\"expireTime\":\"%s\"}", lender.token, end);
    pthread_mutex_unlock(&lender.mu);
}

static unsigned lent(void)
{
    pthread_mutex_lock(&lender.mu);
    unsigned n = lender.requests;
    pthread_mutex_unlock(&lender.mu);
    return n;
}

static char *at_lender(const char *path)
{
    return xasprintf("http://127.0.0.1:%d%s", serve_port(lender.server), path);
}

/* -- the fixture --------------------------------------------------------------------------------
 */

static int begin_gs(void **state)
{
    static const struct serve_route routes[] = {
        {"GET", "/computeMetadata/v1/instance/service-accounts/default/token", metadata, NULL},
        {"POST", "/token", token, NULL}, {"POST", "/v1/token", token, NULL},
        {"POST", "/impersonate", account_token, NULL}};
    struct err e = ERR_INIT;
    setup(state);
    struct fixture *w = *state;
    store_free(w->s);
    mount_free(w->m);
    w->s = NULL;
    w->m = mount_new("gs://data/set");
    cleanup_free char *endpoint = xasprintf("http://127.0.0.1:%d", fake_s3_port(w->server));
    mount_option(w->m, "endpoint", endpoint);
    mount_option(w->m, "tls-verify", "false"); /* tokens go by http:// */
    fake_s3_google(w->server, "ya29.one");
    fake_s3_put(w->server, "set/file", "content", 7); /* it has a generation now */
    unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
    unsetenv("CLOUDSDK_CONFIG");
    unsetenv("MILLRACE_IDENTITY_TOKEN_FILE");
    setenv("HOME", w->dir, 1);
    lender.server = serve_start(
        &(struct serve_conf){.address = "127.0.0.1:0", .routes = routes, .nroutes = 4}, &e);
    assert_non_null(lender.server);
    lender.status = 200;
    lender.lifetime_s = 3599;
    lender.token = "ya29.one";
    lender.requests = 0;
    lender.asked[0] = '\0';
    cleanup_free char *host = xasprintf("127.0.0.1:%d", serve_port(lender.server));
    setenv("GCE_METADATA_HOST", host, 1);
    return 0;
}

static int end_gs(void **state)
{
    serve_stop(lender.server);
    return teardown(state);
}

#define with_gs(test) cmocka_unit_test_setup_teardown(test, begin_gs, end_gs)

/* in a cluster: with a directory of Secrets */
static void open_gs(struct fixture *w) { w->s = open_store(w->m, w->dir, 20 * NS_PER_S); }

static void as_service_account(struct fixture *w)
{
    write_secret(w, "token", "k8s.to.ken\n");
    cleanup_free char *path = path_join(w->dir, "token");
    setenv("MILLRACE_IDENTITY_TOKEN_FILE", path, 1);
}

static int read_file(struct fixture *w, struct err *e)
{
    char c[7];
    int rc = store_read(w->s, "file", "", 0, sizeof c, c, NULL, e);
    if (rc == 0)
        assert_memory_equal(c, "content", sizeof c);
    return rc;
}

static void expect_read(struct fixture *w)
{
    struct err e = ERR_INIT;
    ok(read_file(w, &e), &e);
}

static void expect_refused(struct fixture *w, const char *reason, const char *words)
{
    struct err e = ERR_INIT;
    assert_int_equal(read_file(w, &e), -1);
    if (strcmp(store_reason(&e), reason) != 0 || !strstr(e.msg, words))
        fail_msg("not %s with \"%s\": %s", reason, words, e.msg);
}

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
        with_gs(generations_are_versions),
        with_gs(large_ones_go_in_parts),
        with_gs(sums_go_with_what_is_written),
        with_gs(who_pays),
        cmocka_unit_test(words_of_google),
        with_gs(options_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
