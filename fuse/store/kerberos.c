/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/kerberos.h"

#include "fuse/store/impl.h"
#include "lib/base/file.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <krb5.h>
#include <openssl/evp.h>
#include <profile.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* bytes; a ticket of Active Directory has some kilobytes of groups */
#define TOKEN_MAX    (64u << 10)
#define CHECKSUM_GSS 0x8003 /* RFC 4121, 4.1.1 */

/* -- DER --------------------------------------------------------------------------------------- */

/* What is in b becomes the value of tag. */
static void der_wrap(struct buf *b, unsigned char tag)
{
    struct buf inner = *b;
    size_t n = inner.len;
    *b = (struct buf)BUF_INIT(TOKEN_MAX);
    buf_addc(b, (char)tag);
    if (n >= 0x10000) {
        buf_addc(b, (char)0x83);
        buf_addc(b, (char)(n >> 16));
    } else if (n >= 0x100) {
        buf_addc(b, (char)0x82);
    } else if (n >= 0x80) {
        buf_addc(b, (char)0x81);
    }
    if (n >= 0x100)
        buf_addc(b, (char)(n >> 8));
    buf_addc(b, (char)n);
    buf_add(b, inner.data, n);
    buf_free(&inner);
}

static void put_before(struct buf *b, const char *bytes, size_t n)
{
    struct buf after = *b;
    *b = (struct buf)BUF_INIT(TOKEN_MAX);
    buf_add(b, bytes, n);
    buf_add(b, after.data, after.len);
    buf_free(&after);
}

#define OID_KRB5   "\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"
#define OID_SPNEGO "\x06\x06\x2b\x06\x01\x05\x05\x02"
#define AP_REQ     "\x01\x00"
/* mechTypes [0]: Kerberos alone */
#define MECHANISMS "\xa0\x0d\x30\x0b" OID_KRB5

void kerberos_wrap(struct buf *out, const void *request, size_t len)
{
    *out = (struct buf)BUF_INIT(TOKEN_MAX);
    buf_add(out, OID_KRB5 AP_REQ, sizeof OID_KRB5 AP_REQ - 1);
    buf_add(out, request, len);
    der_wrap(out, 0x60);
    der_wrap(out, 0x04); /* mechToken [2] OCTET STRING */
    der_wrap(out, 0xa2);
    put_before(out, MECHANISMS, sizeof MECHANISMS - 1);
    der_wrap(out, 0x30); /* NegTokenInit [0] SEQUENCE */
    der_wrap(out, 0xa0);
    put_before(out, OID_SPNEGO, sizeof OID_SPNEGO - 1);
    der_wrap(out, 0x60);
}

/* -- tickets ----------------------------------------------------------------------------------- */

struct login {
    krb5_context ctx;
    int config; /* a file of memory, or -1; as long as ctx */
    krb5_principal client, server;
    krb5_keytab keytab;
    krb5_ccache cache;
    bool own_cache; /* made here, of the keytab */
    krb5_auth_context auth;
    krb5_creds first, wanted, *got;
    krb5_data request;
};

static void login_free(struct login *l)
{
    krb5_free_data_contents(l->ctx, &l->request);
    krb5_free_creds(l->ctx, l->got);
    krb5_free_cred_contents(l->ctx, &l->first);
    krb5_auth_con_free(l->ctx, l->auth);
    if (l->cache && l->own_cache)
        krb5_cc_destroy(l->ctx, l->cache);
    else if (l->cache)
        krb5_cc_close(l->ctx, l->cache);
    if (l->keytab)
        krb5_kt_close(l->ctx, l->keytab);
    krb5_free_principal(l->ctx, l->client);
    krb5_free_principal(l->ctx, l->server);
    krb5_free_context(l->ctx);
}

static void login_end(struct login *l)
{
    if (l->ctx)
        login_free(l);
    if (l->config >= 0)
        close(l->config);
}

const char *kerberos_config_fault(const char *text)
{
    static const char *const words[] = {"module", "include", "plugin", "pkinit", "PKCS11"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcasestr(text, words[i]))
            return words[i];
    return NULL;
}

/* A copy of the file, so that what is looked at is what is used. */
static int open_config(struct login *l, const char *file, const char *what, struct err *e)
{
    struct err inner = ERR_INIT;
    size_t n = 0;
    cleanup_free char *text = file_read(file, OPTION_SECRET_MAX, &n, &inner);
    if (!text)
        return store_err(e, ERR_DENIED, EACCES, REASON_SECRET_MISSING, what,
            ": option krb5-conf: %s", inner.msg);
    const char *fault = strlen(text) == n ? kerberos_config_fault(text) : "NUL";
    if (fault)
        return store_err(e, ERR_INVALID, EACCES, REASON_INVALID_OPTION, what,
            ": option krb5-conf has the word '%s' in it: leave out what includes files and loads modules",
            fault);
    l->config = memfd_create("krb5.conf", MFD_CLOEXEC);
    return l->config < 0 || io_pwrite(l->config, text, n, 0)
        ? store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, what, ": no memory for krb5.conf")
        : 0;
}

static krb5_error_code login_begin(struct login *l)
{
    profile_t profile;
    if (l->config < 0)
        return krb5_init_context(&l->ctx);
    cleanup_free char *path = xasprintf("/proc/self/fd/%d", l->config);
    krb5_error_code code = (krb5_error_code)profile_init_path(path, &profile);
    if (code)
        return code;
    code = krb5_init_context_profile(profile, 0, &l->ctx);
    profile_release(profile);
    return code;
}

static krb5_error_code first_of_keytab(struct login *l)
{
    krb5_kt_cursor cursor;
    krb5_keytab_entry entry;
    krb5_error_code code = krb5_kt_start_seq_get(l->ctx, l->keytab, &cursor);
    if (code)
        return code;
    code = krb5_kt_next_entry(l->ctx, l->keytab, &entry, &cursor);
    if (!code) {
        code = krb5_copy_principal(l->ctx, entry.principal, &l->client);
        krb5_free_keytab_entry_contents(l->ctx, &entry);
    }
    krb5_kt_end_seq_get(l->ctx, l->keytab, &cursor);
    return code;
}

/* A ticket-granting ticket of the key, in a cache of memory that is nobody else's. */
static krb5_error_code by_keytab(struct login *l, const struct kerberos *k)
{
    krb5_error_code code = krb5_kt_resolve(l->ctx, k->keytab, &l->keytab);
    if (!code && !l->client)
        code = first_of_keytab(l);
    if (!code)
        code = krb5_get_init_creds_keytab(l->ctx, &l->first, l->client, l->keytab, 0, NULL, NULL);
    if (!code)
        code = krb5_cc_new_unique(l->ctx, "MEMORY", NULL, &l->cache);
    if (code)
        return code;
    l->own_cache = true;
    code = krb5_cc_initialize(l->ctx, l->cache, l->client);
    return code ? code : krb5_cc_store_cred(l->ctx, l->cache, &l->first);
}

static krb5_error_code by_cache(struct login *l)
{
    if (l->client)
        return krb5_cc_cache_match(l->ctx, l->client, &l->cache);
    krb5_error_code code = krb5_cc_default(l->ctx, &l->cache);
    return code ? code : krb5_cc_get_principal(l->ctx, l->cache, &l->client);
}

/* The AP-REQ, with the checksum that GSS-API puts into it: of no channel, and no flags. */
static krb5_error_code ask_ticket(struct login *l, const char *host)
{
    static char sum[24] = {16};
    krb5_data data = {.data = sum, .length = sizeof sum};
    krb5_error_code code = krb5_sname_to_principal(
        l->ctx, host, "HTTP", KRB5_NT_SRV_HST, &l->server);
    if (code)
        return code;
    l->wanted.client = l->client;
    l->wanted.server = l->server;
    code = krb5_get_credentials(l->ctx, 0, l->cache, &l->wanted, &l->got);
    if (!code)
        code = krb5_auth_con_init(l->ctx, &l->auth);
    if (!code)
        code = krb5_auth_con_set_req_cksumtype(l->ctx, l->auth, CHECKSUM_GSS);
    return code ? code : krb5_mk_req_extended(l->ctx, &l->auth, 0, &data, l->got, &l->request);
}

static int fail_login(const struct login *l, const struct kerberos *k, krb5_error_code code,
    const char *what, struct err *e)
{
    const char *text = krb5_get_error_message(l->ctx, code), *advice;
    enum err_class cls = ERR_DENIED;
    enum reason reason = REASON_ACCESS_DENIED;
    switch (code) {
    case KRB5_KDC_UNREACH:
        cls = ERR_RETRY;
        reason = REASON_UNREACHABLE;
        advice = "; is the KDC that krb5.conf names reachable from here?";
        break;
    case KRB5_REALM_UNKNOWN:
    case KRB5_REALM_CANT_RESOLVE:
    case KRB5_CONFIG_NODEFREALM:
    case KRB5_CONFIG_CANTOPEN:
    case KRB5_CONFIG_BADFORMAT:
        cls = ERR_INVALID;
        reason = REASON_INVALID_OPTION;
        advice = "; give a krb5.conf with the realm and its KDC (option krb5-conf)";
        break;
    case KRB5KRB_AP_ERR_SKEW:
        advice = "; set the clock";
        break;
    case KRB5KRB_AP_ERR_TKT_EXPIRED:
        reason = REASON_EXPIRED;
        advice = "; run kinit";
        break;
    case KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN:
        advice = "; name the name node as its principal HTTP/host does";
        break;
    default:
        advice = k->keytab ? "; is the keytab of that principal, and its newest?"
                           : "; run kinit, or give a keytab";
        break;
    }
    store_err(
        e, cls, cls == ERR_RETRY ? EIO : EACCES, reason, what, ": Kerberos: %s%s", text, advice);
    krb5_free_error_message(l->ctx, text);
    return -1;
}

static char *header_of(const krb5_data *request)
{
    static const char name[] = "Authorization: Negotiate ";
    struct buf token;
    kerberos_wrap(&token, request->data, request->length);
    char *out = xcalloc(1, sizeof name + token.len / 3 * 4 + 5);
    memcpy(out, name, sizeof name);
    EVP_EncodeBlock(
        (unsigned char *)out + sizeof name - 1, (const unsigned char *)token.data, (int)token.len);
    buf_free(&token);
    return out;
}

char *kerberos_header(
    const struct kerberos *k, const char *host, const char *what, char **principal, struct err *e)
{
    struct login l = {.config = -1};
    char *header = NULL, *name = NULL;
    *principal = NULL;
    if (k->config && open_config(&l, k->config, what, e)) {
        login_end(&l);
        return NULL;
    }
    krb5_error_code code = login_begin(&l);
    if (!code && k->principal)
        code = krb5_parse_name(l.ctx, k->principal, &l.client);
    if (!code)
        code = k->keytab ? by_keytab(&l, k) : by_cache(&l);
    if (!code)
        code = ask_ticket(&l, host);
    if (!code)
        code = krb5_unparse_name(l.ctx, l.client, &name);
    if (code) {
        fail_login(&l, k, code, what, e);
    } else {
        *principal = xstrdup(name);
        header = header_of(&l.request);
    }
    if (l.ctx)
        krb5_free_unparsed_name(l.ctx, name);
    login_end(&l);
    return header;
}
