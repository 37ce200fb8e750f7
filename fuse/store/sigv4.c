/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/sigv4.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/http.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CANONICAL_MAX (64u << 10)
#define CHUNK         (256u << 10)

static void to_hex(const unsigned char *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = '\0';
}

void sigv4_sha256(const void *data, size_t len, char hex[SIGV4_HEX_LEN])
{
    unsigned char digest[32];
    SHA256(len ? data : "", len, digest);
    to_hex(digest, sizeof digest, hex);
}

int sigv4_sha256_fd(int fd, uint64_t off, uint64_t len, char hex[SIGV4_HEX_LEN], struct err *e)
{
    cleanup_free char *chunk = malloc(CHUNK);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int rc = 0;
    if (!chunk || !ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1)
        rc = err_sys(e, ENOMEM, "compute a SHA-256");
    while (rc == 0 && len) {
        ssize_t n = pread(fd, chunk, MIN(len, CHUNK), (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = err_sys(e, errno, "read the file to upload");
        else if (n == 0)
            rc = err_sys(e, EAGAIN, "the file to upload became shorter meanwhile");
        else
            EVP_DigestUpdate(ctx, chunk, (size_t)n);
        if (n > 0) {
            off += (uint64_t)n;
            len -= (uint64_t)n;
        }
    }
    unsigned char digest[32];
    if (rc == 0) {
        EVP_DigestFinal_ex(ctx, digest, NULL);
        to_hex(digest, sizeof digest, hex);
    }
    EVP_MD_CTX_free(ctx);
    return rc;
}

static void hmac(
    const void *key, size_t key_len, const void *data, size_t len, unsigned char out[32])
{
    unsigned int n = 32;
    HMAC(EVP_sha256(), key, (int)key_len, data, len, out, &n);
}

void sigv4_time(int64_t real_ns, char out[SIGV4_TIME_LEN])
{
    time_t t = (time_t)(real_ns / NS_PER_S);
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(out, SIGV4_TIME_LEN, "%Y%m%dT%H%M%SZ", &tm);
}

void sigv4_key(const char *secret, const struct sigv4_scope *scope, unsigned char key[32])
{
    char *first = xasprintf("AWS4%s", secret);
    size_t n = strlen(first);
    hmac(first, n, scope->time, 8, key);
    OPENSSL_cleanse(first, n);
    free(first);
    hmac(key, 32, scope->region, strlen(scope->region), key);
    hmac(key, 32, scope->service, strlen(scope->service), key);
    hmac(key, 32, "aws4_request", 12, key);
}

struct encoded {
    char *name, *value;
};

static int by_name(const void *a, const void *b)
{
    const struct encoded *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->value, y->value);
}

char *sigv4_query(const struct sigv4_pair *pairs, size_t n)
{
    struct encoded *list = xcalloc(n + 1, sizeof *list);
    for (size_t i = 0; i < n; i++)
        list[i] = (struct encoded){
            http_escape(pairs[i].name, false), http_escape(pairs[i].value, false)};
    qsort(list, n, sizeof *list, by_name);
    struct buf out = BUF_INIT(CANONICAL_MAX);
    for (size_t i = 0; i < n; i++) {
        buf_addf(&out, "%s%s=%s", i ? "&" : "", list[i].name, list[i].value);
        free(list[i].name);
        free(list[i].value);
    }
    free(list);
    return buf_take(&out);
}

/* Trimmed, and inner runs of blanks made one. */
static void add_value(struct buf *out, const char *value)
{
    bool blank = false, any = false;
    for (; *value; value++) {
        if (*value == ' ' || *value == '\t') {
            blank = any;
            continue;
        }
        if (blank)
            buf_addc(out, ' ');
        blank = false;
        any = true;
        buf_addc(out, *value);
    }
}

void sigv4_canonical(const struct sigv4_req *req, struct buf *canonical, struct buf *signed_headers)
{
    for (size_t i = 0; i < req->nheaders; i++)
        buf_addf(signed_headers, "%s%s", i ? ";" : "", req->headers[i].name);
    buf_addf(canonical, "%s\n%s\n%s\n", req->method, req->path, req->query);
    for (size_t i = 0; i < req->nheaders; i++) {
        buf_addf(canonical, "%s:", req->headers[i].name);
        add_value(canonical, req->headers[i].value);
        buf_addc(canonical, '\n');
    }
    buf_addf(canonical, "\n%s\n%s", buf_str(signed_headers), req->payload_hash);
}

char *sigv4_authorization(const struct sigv4_req *req, const struct sigv4_scope *scope,
    const char *key_id, const unsigned char key[32])
{
    cleanup_buf struct buf canonical = BUF_INIT(CANONICAL_MAX), names = BUF_INIT(CANONICAL_MAX),
                           text = BUF_INIT(CANONICAL_MAX);
    sigv4_canonical(req, &canonical, &names);
    char hash[SIGV4_HEX_LEN], signature[SIGV4_HEX_LEN];
    sigv4_sha256(canonical.data, canonical.len, hash);
    buf_addf(&text, "AWS4-HMAC-SHA256\n%s\n%.8s/%s/%s/aws4_request\n%s", scope->time, scope->time,
        scope->region, scope->service, hash);
    unsigned char mac[32];
    hmac(key, 32, text.data, text.len, mac);
    to_hex(mac, sizeof mac, signature);
    return xasprintf(
        "AWS4-HMAC-SHA256 Credential=%s/%.8s/%s/%s/aws4_request, SignedHeaders=%s, Signature=%s",
        key_id, scope->time, scope->region, scope->service, buf_str(&names), signature);
}
