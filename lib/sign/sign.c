/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/sign/sign.h"

#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEME     "Millrace-HMAC-SHA256 "
#define MESSAGE    16384 /* bytes: the head of a request is no longer */
#define KEY_FILE   4096
#define TIME_CHARS 12

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void sign_key_wipe(struct sign_key *key) { OPENSSL_cleanse(key, sizeof *key); }

int sign_key_parse(const char *text, size_t len, struct sign_key *key)
{
    bool ok = len == SIGN_HEX || (len == SIGN_HEX + 1 && text[SIGN_HEX] == '\n');
    memset(key, 0, sizeof *key);
    for (size_t i = 0; ok && i < SIGN_HEX; i++) {
        int digit = nibble(text[i]);
        ok = digit >= 0;
        key->bytes[i / 2] = (unsigned char)(key->bytes[i / 2] << 4 | (digit & 15));
    }
    if (!ok)
        sign_key_wipe(key);
    return ok ? 0 : -1;
}

int sign_key_read(const char *path, struct sign_key *key, struct err *e)
{
    size_t len = 0;
    sign_key_wipe(key);
    char *text = file_read(path, KEY_FILE, &len, e);
    if (!text)
        return -1;
    int rc = sign_key_parse(text, len, key);
    OPENSSL_cleanse(text, len);
    free(text);
    return rc ? err_set(e, ERR_INVALID,
               "%s holds no key: it must be %d hexadecimal characters, and there are %zu bytes",
               path, SIGN_HEX, len)
              : 0;
}

void sign_key_text(const struct sign_key *key, char out[SIGN_HEX + 1])
{
    for (unsigned i = 0; i < SIGN_KEY_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", key->bytes[i]);
}

/* A field and what ends it: no field can hold a newline. */
static void add_field(struct buf *b, const char *text)
{
    buf_adds(b, text ? text : "");
    buf_addc(b, '\n');
}

/* The MAC in hex. A text that does not fit has none that anybody could give: all are refused. */
static bool mac_of(const struct sign_key *key, const struct buf *message, char out[SIGN_HEX + 1])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    *out = '\0';
    if (message->truncated
        || !HMAC(EVP_sha256(), key->bytes, sizeof key->bytes, (const unsigned char *)message->data,
            message->len, mac, &n)
        || n != SIGN_HEX / 2)
        return false;
    for (unsigned i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", mac[i]);
    return true;
}

void sign_key_derive(const struct sign_key *master, const char *of, struct sign_key *out)
{
    char mac[SIGN_HEX + 1];
    cleanup_buf struct buf b = BUF_INIT(MESSAGE);
    add_field(&b, "key");
    add_field(&b, of);
    if (!mac_of(master, &b, mac) || sign_key_parse(mac, SIGN_HEX, out))
        abort(); /* no memory: no other key will do */
    OPENSSL_cleanse(mac, sizeof mac);
}

void sign_key_name(const struct sign_key *key, char out[SIGN_NAME_LEN])
{
    struct sign_key derived;
    char text[SIGN_HEX + 1];
    sign_key_derive(key, "name", &derived);
    sign_key_text(&derived, text);
    snprintf(out, SIGN_NAME_LEN, "%.*s", SIGN_NAME_LEN - 1, text);
}

static bool request_mac(const struct sign_key *key, const struct sign_ask *ask, const char *time,
    char out[SIGN_HEX + 1])
{
    cleanup_buf struct buf b = BUF_INIT(MESSAGE);
    add_field(&b, "request");
    add_field(&b, ask->method);
    add_field(&b, ask->path);
    add_field(&b, ask->query);
    add_field(&b, ask->range);
    add_field(&b, time);
    return mac_of(key, &b, out);
}

void sign_request(const struct sign_key *key, const struct sign_ask *ask, int64_t now_s,
    char out[SIGN_REQUEST_MAX])
{
    char time[24], mac[SIGN_HEX + 1];
    snprintf(time, sizeof time, "%" PRId64, now_s);
    request_mac(key, ask, time, mac);
    snprintf(out, SIGN_REQUEST_MAX, SCHEME "%s.%s", time, mac);
}

static bool same_mac(const char *a, const char *b)
{
    return strlen(a) == SIGN_HEX && strlen(b) == SIGN_HEX && CRYPTO_memcmp(a, b, SIGN_HEX) == 0;
}

int sign_check_request(const struct sign_key *key, const struct sign_ask *ask, const char *header,
    int64_t now_s, struct err *e)
{
    char time[TIME_CHARS + 1] = "", mac[SIGN_HEX + 1];
    const char *text = header && strncmp(header, SCHEME, strlen(SCHEME)) == 0
        ? header + strlen(SCHEME)
        : NULL;
    size_t n = text ? strspn(text, "0123456789") : 0;
    if (!n || n > TIME_CHARS || text[n] != '.')
        return err_set(e, ERR_DENIED,
            "the request is not signed: this cache worker answers who has the key of its Dataset");
    memcpy(time, text, n);
    if (!request_mac(key, ask, time, mac) || !same_mac(mac, text + n + 1))
        return err_set(e, ERR_DENIED, "the request is signed with another key");
    int64_t off = now_s - strtoll(time, NULL, 10);
    if (off > SIGN_SKEW_S || off < -SIGN_SKEW_S)
        return err_set(e, ERR_DENIED,
            "the request was signed %" PRId64
            " seconds %s: do the clocks of the nodes agree (NTP)?",
            off < 0 ? -off : off, off < 0 ? "in the future" : "ago");
    return 0;
}

/* SHA-256 in hex. */
static void add_digest(struct buf *b, const void *body, size_t len)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (!EVP_Digest(body, len, digest, &n, EVP_sha256(), NULL))
        abort(); /* no memory: an answer whose body nobody vouches for is none */
    for (unsigned i = 0; i < n; i++)
        buf_addf(b, "%02x", digest[i]);
    buf_addc(b, '\n');
}

void sign_answer(
    const struct sign_key *key, const struct sign_answer *answer, char out[SIGN_HEX + 1])
{
    char status[16];
    cleanup_buf struct buf b = BUF_INIT(MESSAGE);
    snprintf(status, sizeof status, "%d", answer->status);
    add_field(&b, "answer");
    add_field(&b, answer->request);
    add_field(&b, status);
    add_field(&b, answer->range);
    add_field(&b, answer->crcs);
    if (answer->body)
        add_digest(&b, answer->body, answer->body_len);
    mac_of(key, &b, out);
}

bool sign_check_answer(
    const struct sign_key *key, const struct sign_answer *answer, const char *signature)
{
    char mac[SIGN_HEX + 1];
    sign_answer(key, answer, mac);
    return signature && same_mac(mac, signature);
}
