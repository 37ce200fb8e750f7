/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates, both ways: a TLS server of our own whose certificates are made on the spot. */
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/http/http.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct identity {
    EVP_PKEY *key;
    X509 *cert;
    char *key_pem, *cert_pem;
};

static struct identity ca, stranger, server, user, successor;
static _Atomic(const char *) refused; /* a name that is answered 401 */
static int listen_fd;
static char url[64];
static pthread_t thread;

static char *pem_of(BIO *bio)
{
    char *data;
    long n = BIO_get_mem_data(bio, &data);
    char *text = xstrndup(data, (size_t)n);
    BIO_free(bio);
    return text;
}

static void extend(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *x = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    assert_non_null(x);
    X509_add_ext(cert, x, -1);
    X509_EXTENSION_free(x);
}

/* by NULL: signs itself, as a CA. */
static struct identity make(const char *name, const struct identity *by)
{
    static long serial = 1;
    struct identity id = {.key = EVP_EC_gen("P-256"), .cert = X509_new()};
    X509_set_version(id.cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(id.cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(id.cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(id.cert), 3600);
    X509_set_pubkey(id.cert, id.key);
    X509_NAME_add_entry_by_txt(
        X509_get_subject_name(id.cert), "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(id.cert, X509_get_subject_name(by ? by->cert : id.cert));
    extend(id.cert, NID_basic_constraints, by ? "CA:FALSE" : "CA:TRUE");
    if (by)
        extend(id.cert, NID_subject_alt_name, "IP:127.0.0.1");
    X509_sign(id.cert, by ? by->key : id.key, EVP_sha256());
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, id.cert);
    id.cert_pem = pem_of(bio);
    bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, id.key, NULL, NULL, 0, NULL, NULL);
    id.key_pem = pem_of(bio);
    return id;
}

static void unmake(struct identity *id)
{
    EVP_PKEY_free(id->key);
    X509_free(id->cert);
    free(id->key_pem);
    free(id->cert_pem);
}

static void answer_all(SSL *ssl)
{
    char in[4096], out[512], name[128] = "nobody";
    X509 *peer = SSL_get1_peer_certificate(ssl);
    if (peer)
        X509_NAME_get_text_by_NID(X509_get_subject_name(peer), NID_commonName, name, sizeof name);
    X509_free(peer);
    while (SSL_read(ssl, in, sizeof in) > 0) {
        const char *not = refused;
        int status = not &&strcmp(name, not ) == 0 ? 401 : 200;
        int n = snprintf(out, sizeof out, "HTTP/1.1 %d Status\r\nContent-Length: %zu\r\n\r\n%s",
            status, strlen(name), name);
        SSL_write(ssl, out, n);
    }
}

/* Answers with the name in the client's certificate, one connection after the other. */
static void *serve(void *arg)
{
    SSL_CTX *ctx = arg;
    int fd;
    while ((fd = accept(listen_fd, NULL, NULL)) >= 0) {
        SSL *ssl = SSL_new(ctx);
        SSL_set_fd(ssl, fd);
        if (SSL_accept(ssl) == 1) {
            answer_all(ssl);
            SSL_shutdown(ssl);
        }
        SSL_free(ssl);
        close(fd);
    }
    SSL_CTX_free(ctx);
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    ca = make("ca", NULL);
    stranger = make("stranger", NULL);
    server = make("server", &ca);
    user = make("alice", &ca);
    successor = make("alice-2", &ca);
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(ctx, server.cert);
    SSL_CTX_use_PrivateKey(ctx, server.key);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), ca.cert);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"tls", 3);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listen_fd, (struct sockaddr *)&at, sizeof at) || listen(listen_fd, 8)
        || getsockname(listen_fd, (struct sockaddr *)&at, &len))
        return -1;
    snprintf(url, sizeof url, "https://127.0.0.1:%d/", ntohs(at.sin_port));
    return pthread_create(&thread, NULL, serve, ctx);
}

static int teardown(void **state)
{
    (void)state;
    shutdown(listen_fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listen_fd);
    unmake(&ca);
    unmake(&stranger);
    unmake(&server);
    unmake(&user);
    unmake(&successor);
    return 0;
}

/* The name the server saw, or NULL with *e. Caller frees. */
static char *ask(const struct http_conf *conf, struct err *e)
{
    struct http *h = http_new(conf, e);
    if (!h)
        return NULL;
    struct http_resp resp;
    int rc = http_do(h, &(struct http_req){.method = "GET", .url = url}, &resp, e);
    char *body = rc ? NULL : xstrdup(buf_str(&resp.body));
    http_resp_free(&resp);
    http_free(h);
    return body;
}

static void certificates_are_shown_and_checked(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_free char *nobody = ask(&(struct http_conf){.ca_pem = ca.cert_pem}, &e);
    assert_string_equal(nobody, "nobody");
    cleanup_free char *alice = ask(
        &(struct http_conf){
            .ca_pem = ca.cert_pem, .cert_pem = user.cert_pem, .key_pem = user.key_pem},
        &e);
    assert_string_equal(alice, "alice");
}

static void strangers_are_refused(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_null(ask(&(struct http_conf){.ca_pem = stranger.cert_pem}, &e));
    assert_int_equal(e.cls, ERR_DENIED);
    e = (struct err)ERR_INIT;
    assert_null(ask(&(struct http_conf){0}, &e)); /* the system's CAs do not know ours */
    assert_int_equal(e.cls, ERR_DENIED);
    cleanup_free char *insecure = ask(&(struct http_conf){.insecure = true}, &e);
    assert_string_equal(insecure, "nobody");
}

/* As kubelet writes another one when the cluster's authority changes. */
static void authorities_are_read_again(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char path[] = "/tmp/test_http_tls.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(
        file_write_atomic(path, stranger.cert_pem, strlen(stranger.cert_pem), 0600, &e), 0);
    struct http *h = http_new(&(struct http_conf){.ca_file = path}, &e);
    const struct http_req req = {.method = "GET", .url = url};
    struct http_resp resp;
    assert_int_equal(http_do(h, &req, &resp, &e), -1);
    assert_int_equal(e.cls, ERR_DENIED);
    http_resp_free(&resp);
    e = (struct err)ERR_INIT;
    assert_int_equal(file_write_atomic(path, ca.cert_pem, strlen(ca.cert_pem), 0600, &e), 0);
    if (http_do(h, &req, &resp, &e))
        fail_msg("%s", e.msg);
    http_resp_free(&resp);
    http_free(h);
    unlink(path);
}

static void write_pair(const char *const files[2], const struct identity *id)
{
    struct err e = ERR_INIT;
    const char *const texts[] = {id->cert_pem, id->key_pem};
    for (size_t i = 0; i < 2; i++)
        if (file_write_atomic(files[i], texts[i], strlen(texts[i]), 0600, &e))
            fail_msg("%s", e.msg);
}

/* The name the server saw, or "401". */
static const char *seen(struct http *h)
{
    static char name[128];
    struct err e = ERR_INIT;
    struct http_resp resp;
    if (http_do(h, &(struct http_req){.method = "GET", .url = url}, &resp, &e))
        fail_msg("%s", e.msg);
    snprintf(name, sizeof name, "%s", resp.status == 401 ? "401" : buf_str(&resp.body));
    http_resp_free(&resp);
    return name;
}

/* Connections live long: one that was made with the former certificate must not be used on. */
static void a_certificate_is_read_again(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char dir[] = "/tmp/test_http_tls.XXXXXX";
    assert_non_null(mkdtemp(dir));
    cleanup_free char *cert = path_join(dir, "cert"), *key = path_join(dir, "key");
    const char *const files[] = {cert, key};
    write_pair(files, &user);
    struct http *h = http_new(
        &(struct http_conf){.ca_pem = ca.cert_pem, .cert_file = cert, .key_file = key}, &e);
    assert_string_equal(seen(h), "alice");
    write_pair(files, &successor);
    assert_string_equal(seen(h), "alice");
    refused = "alice";
    assert_string_equal(seen(h), "401");
    assert_string_equal(seen(h), "alice-2");
    refused = NULL;
    http_free(h);
    unlink(cert);
    unlink(key);
    rmdir(dir);
}

/* A certificate and its key are two files, and one of them is replaced first. */
static void half_a_replacement_passes(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char dir[] = "/tmp/test_http_tls.XXXXXX";
    assert_non_null(mkdtemp(dir));
    cleanup_free char *cert = path_join(dir, "cert"), *key = path_join(dir, "key");
    const char *const files[] = {cert, key};
    const struct identity between = {.cert_pem = successor.cert_pem, .key_pem = user.key_pem};
    struct http *h = http_new(
        &(struct http_conf){.ca_pem = ca.cert_pem, .cert_file = cert, .key_file = key}, &e);
    write_pair(files, &between);
    struct http_resp resp;
    assert_int_equal(http_do(h, &(struct http_req){.method = "GET", .url = url}, &resp, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    http_resp_free(&resp);
    write_pair(files, &successor);
    assert_string_equal(seen(h), "alice-2");
    http_free(h);
    unlink(cert);
    unlink(key);
    rmdir(dir);
}

static void half_an_identity_is_none(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_null(ask(&(struct http_conf){.cert_pem = user.cert_pem}, &e));
    assert_int_equal(e.cls, ERR_INVALID);
    e = (struct err)ERR_INIT;
    assert_null(ask(
        &(struct http_conf){
            .ca_pem = ca.cert_pem, .cert_pem = user.cert_pem, .key_pem = stranger.key_pem},
        &e));
    assert_int_equal(e.cls, ERR_DENIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certificates_are_shown_and_checked),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(authorities_are_read_again),
        cmocka_unit_test(a_certificate_is_read_again),
        cmocka_unit_test(half_a_replacement_passes),
        cmocka_unit_test(half_an_identity_is_none),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
