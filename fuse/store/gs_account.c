/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/gs_account.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/base/wipe.h"
#include "lib/http/http.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_S  3600
#define JWT_MAX (16u << 10) /* bytes */

static char *take_str(const json_t *j, const char *path) { return xstrdup(jget_str(j, path, "")); }

/* It becomes part of JSON, of headers or of a URL. */
static bool is_plain(const char *s)
{
    return *s && http_is_word(s, strlen(s)) && !strpbrk(s, "\"\\");
}

static int take_service_account(const json_t *j, struct gs_account *a, struct err *e)
{
    a->kind = GS_SERVICE_ACCOUNT;
    a->email = take_str(j, "client_email");
    a->key = take_str(j, "private_key");
    a->key_id = take_str(j, "private_key_id");
    if (!is_plain(a->email) || !*a->key || (*a->key_id && !is_plain(a->key_id)))
        return err_set(e, ERR_INVALID, "its client_email or private_key is missing");
    return 0;
}

static int take_user(const json_t *j, struct gs_account *a, struct err *e)
{
    a->kind = GS_USER;
    a->client_id = take_str(j, "client_id");
    a->client_secret = take_str(j, "client_secret");
    a->token = take_str(j, "refresh_token");
    if (!*a->client_id || !*a->client_secret || !*a->token)
        return err_set(e, ERR_INVALID, "its client_id, client_secret or refresh_token is missing");
    return 0;
}

static int take_external(const json_t *j, struct gs_account *a, struct err *e)
{
    a->kind = GS_EXTERNAL;
    a->audience = take_str(j, "audience");
    a->token_type = take_str(j, "subject_token_type");
    a->file = take_str(j, "credential_source.file");
    a->impersonate = take_str(j, "service_account_impersonation_url");
    bool json = strcmp(jget_str(j, "credential_source.format.type", "text"), "json") == 0;
    a->field = json ? take_str(j, "credential_source.format.subject_token_field_name")
                    : xstrdup("");
    if (!*a->file)
        return err_set(e, ERR_INVALID,
            "its token is not from a file (credential_source.file), and others are not asked for one");
    if (!*a->audience || (json && !*a->field))
        return err_set(e, ERR_INVALID, "its audience, or the field of its token, is missing");
    return 0;
}

int gs_account_parse(const char *text, size_t len, struct gs_account *out, struct err *e)
{
    struct err inner = ERR_INIT;
    *out = (struct gs_account){0};
    cleanup_json json_t *j = json_parse(text, len, &inner);
    if (!j)
        return err_set(e, ERR_INVALID, "it is no JSON");
    const char *type = jget_str(j, "type", "");
    bool external = strcmp(type, "external_account") == 0;
    out->token_uri = take_str(j, external ? "token_url" : "token_uri");
    if (!*out->token_uri) {
        free(out->token_uri);
        out->token_uri = xstrdup(external ? "https://sts.googleapis.com/v1/token"
                                          : "https://oauth2.googleapis.com/token");
    }
    if (!is_plain(out->token_uri))
        return err_set(e, ERR_INVALID, "its token_uri is no URL");
    if (external)
        return take_external(j, out, e);
    if (strcmp(type, "service_account") == 0)
        return take_service_account(j, out, e);
    if (strcmp(type, "authorized_user") == 0)
        return take_user(j, out, e);
    return err_set(e, ERR_INVALID,
        "its type is none of service_account, external_account and authorized_user");
}

void gs_account_clear(struct gs_account *a)
{
    char **const all[] = {&a->token_uri, &a->email, &a->key, &a->key_id, &a->client_id,
        &a->client_secret, &a->token, &a->audience, &a->token_type, &a->file, &a->field,
        &a->impersonate};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        wipe_text(all[i]);
}

/* -- the signature ------------------------------------------------------------------------------
 */

static void add_base64url(struct buf *out, const void *data, size_t len)
{
    cleanup_free char *text = xmalloc(len / 3 * 4 + 8);
    EVP_EncodeBlock((unsigned char *)text, data, (int)len);
    for (char *p = text; *p && *p != '='; p++)
        buf_addc(out, *p == '+' ? '-' : *p == '/' ? '_' : *p);
}

static int no_password(char *out, int cap, int writing, void *user)
{
    (void)out, (void)cap, (void)writing, (void)user;
    return -1; /* never asked for on a terminal */
}

static int add_signature(struct buf *jwt, const char *pem, struct err *e)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char signature[1024];
    size_t n = sizeof signature;
    bool ok = key && ctx && EVP_PKEY_base_id(key) == EVP_PKEY_RSA
        && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1
        && EVP_DigestSign(ctx, signature, &n, (const unsigned char *)jwt->data, jwt->len) == 1;
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    BIO_free(bio);
    if (!ok)
        return err_set(e, ERR_INVALID, "its private_key is no RSA key in PEM");
    buf_addc(jwt, '.');
    add_base64url(jwt, signature, n);
    return 0;
}

char *gs_account_sign(const struct gs_account *a, const char *scope, int64_t now_s, struct err *e)
{
    cleanup_free char *head = *a->key_id
        ? xasprintf("{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"%s\"}", a->key_id)
        : xstrdup("{\"alg\":\"RS256\",\"typ\":\"JWT\"}");
    cleanup_free char *claims = xasprintf(
        "{\"iss\":\"%s\",\"scope\":\"%s\",\"aud\":\"%s\",\"iat\":%lld,\"exp\":%lld}", a->email,
        scope, a->token_uri, (long long)now_s, (long long)now_s + HOUR_S);
    struct buf jwt = BUF_INIT(JWT_MAX);
    add_base64url(&jwt, head, strlen(head));
    buf_addc(&jwt, '.');
    add_base64url(&jwt, claims, strlen(claims));
    char *text = add_signature(&jwt, a->key, e) ? NULL : xstrdup(buf_str(&jwt));
    if (jwt.data)
        explicit_bzero(jwt.data, jwt.len);
    buf_free(&jwt);
    return text;
}

char *gs_account_field(const char *text, size_t len, const char *field)
{
    struct err ignored = ERR_INIT;
    cleanup_json json_t *j = json_parse(text, len, &ignored);
    const char *value = j ? json_string_value(json_object_get(j, field)) : NULL;
    return xstrdup(value);
}

/* -- answers ------------------------------------------------------------------------------------
 */

bool gs_token_parse(const char *text, size_t len, struct gs_token *out)
{
    struct err ignored = ERR_INIT;
    *out = (struct gs_token){0};
    cleanup_json json_t *j = json_parse(text, len, &ignored);
    const char *token = j ? jget_str(j, "access_token", jget_str(j, "accessToken", "")) : "";
    if (!*token || !http_is_word(token, strlen(token)))
        return false;
    out->token = xstrdup(token);
    int64_t lifetime = jget_int(j, "expires_in", 0);
    out->lifetime_s = lifetime < 0 || lifetime > 24 * HOUR_S ? 0 : lifetime;
    snprintf(out->until, sizeof out->until, "%s", jget_str(j, "expireTime", ""));
    return true;
}

void gs_token_fault(const char *text, size_t len, char out[200])
{
    struct err ignored = ERR_INIT;
    cleanup_json json_t *j = json_parse(text, len, &ignored);
    const char *code = j ? jget_str(j, "error", jget_str(j, "error.status", "")) : "";
    const char *words = j ? jget_str(j, "error_description", jget_str(j, "error.message", "")) : "";
    snprintf(out, 200, "%s%s%s", code, *code && *words ? ": " : "", words);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
}
