/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/s3_terms.h"

#include "lib/base/mem.h"
#include "lib/http/http.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES   32
#define KEY_BASE64  44
#define SSE         "x-amz-server-side-encryption"
#define CUSTOMER    SSE "-customer-"
#define COPY_SOURCE "x-amz-copy-source-server-side-encryption-customer-"

static void add_term(struct s3_terms *t, unsigned when, char *line_take)
{
    t->term[t->n++] = (struct s3_term){when, line_take};
}

static bool is_among(const char *value, const char *const *among)
{
    for (; *among; among++)
        if (strcmp(*among, value) == 0)
            return true;
    return false;
}

/* The option's value, or NULL; it becomes part of a header. among: the values it may have, up to
 * NULL; or NULL: any word. take: what to write, for people. */
static int get_word(const struct store_params *p, const char *option, const char *const *among,
    const char *take, char **out, struct err *e)
{
    if (option_get(p, option, out, e))
        return -1;
    if (!*out || (**out && http_is_word(*out, strlen(*out)) && (!among || is_among(*out, among))))
        return 0;
    return option_err(p, option, *out, take, e);
}

/* -- encryption -------------------------------------------------------------------------------- */

static int take_encryption(struct s3_terms *t, const struct store_params *p, struct err *e)
{
    static const char *const kinds[] = {"AES256", "aws:kms", "aws:kms:dsse", NULL};
    cleanup_free char *kind = NULL, *key = NULL;
    if (get_word(p, "server-side-encryption", kinds, "it takes AES256, aws:kms or aws:kms:dsse",
            &kind, e)
        || get_word(p, "kms-key-id", NULL, "it takes the id, alias or ARN of a key", &key, e))
        return -1;
    if (key && (!kind || strncmp(kind, "aws:", 4) != 0))
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": option kms-key-id names a key, but server-side-encryption is not \"aws:kms\": set it");
    if (kind)
        add_term(t, S3_MAKES, xasprintf(SSE ": %s", kind));
    if (key)
        add_term(t, S3_MAKES, xasprintf(SSE "-aws-kms-key-id: %s", key));
    return 0;
}

/* The key itself goes with each request, and its digest, by which the server tells that it came
 * whole. */
static int take_customer_key(struct s3_terms *t, const struct store_params *p, struct err *e)
{
    cleanup_free char *key = NULL;
    unsigned char bytes[KEY_BYTES + 4], digest[EVP_MAX_MD_SIZE];
    char text[32];
    unsigned n = 0;
    if (option_get(p, "sse-customer-key", &key, e))
        return -1;
    if (!key)
        return 0;
    bool fits = strlen(key) == KEY_BASE64 && key[KEY_BASE64 - 1] == '='
        && EVP_DecodeBlock(bytes, (const unsigned char *)key, KEY_BASE64) == KEY_BYTES + 1
        && EVP_Digest(bytes, KEY_BYTES, digest, &n, EVP_md5(), NULL);
    explicit_bzero(bytes, sizeof bytes);
    if (fits) {
        EVP_EncodeBlock((unsigned char *)text, digest, (int)n);
        t->secret = true;
        add_term(t, S3_CONTENT, xasprintf(CUSTOMER "algorithm: AES256"));
        add_term(t, S3_CONTENT, xasprintf(CUSTOMER "key: %s", key));
        add_term(t, S3_CONTENT, xasprintf(CUSTOMER "key-md5: %s", text));
        add_term(t, S3_COPIES, xasprintf(COPY_SOURCE "algorithm: AES256"));
        add_term(t, S3_COPIES, xasprintf(COPY_SOURCE "key: %s", key));
        add_term(t, S3_COPIES, xasprintf(COPY_SOURCE "key-md5: %s", text));
    }
    explicit_bzero(key, strlen(key));
    return fits
        ? 0
        : store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": option sse-customer-key is no key: it takes 32 bytes in base64, as `openssl rand -base64 32` makes them");
}

/* -- the others -------------------------------------------------------------------------------- */

static int take_storage_class(struct s3_terms *t, const struct store_params *p, struct err *e)
{
    cleanup_free char *class = NULL;
    if (get_word(p, "storage-class", NULL, "it takes a name like STANDARD_IA", &class, e))
        return -1;
    if (class && (strcmp(class, "GLACIER") == 0 || strcmp(class, "DEEP_ARCHIVE") == 0))
        return option_err(p, "storage-class", class,
            "objects of that class cannot be read until they are restored: take GLACIER_IR", e);
    if (class)
        add_term(t, S3_MAKES, xasprintf("x-amz-storage-class: %s", class));
    return 0;
}

static int take_access(struct s3_terms *t, const struct store_params *p, struct err *e)
{
    static const char *const lists[] = {"private", "public-read", "public-read-write",
        "authenticated-read", "aws-exec-read", "bucket-owner-read", "bucket-owner-full-control",
        NULL};
    cleanup_free char *list = NULL, *owner = NULL;
    bool pays = false;
    if (get_word(p, "acl", lists,
            "it takes the name of a canned list, as bucket-owner-full-control", &list, e)
        || get_word(p, "expected-bucket-owner", NULL, "it takes the id of an account", &owner, e)
        || option_is_true(p, "requester-pays", &pays, e))
        return -1;
    if (list)
        add_term(t, S3_MAKES, xasprintf("x-amz-acl: %s", list));
    if (pays)
        add_term(t, 0, xstrdup("x-amz-request-payer: requester"));
    if (owner) {
        add_term(t, 0, xasprintf("x-amz-expected-bucket-owner: %s", owner));
        add_term(t, S3_COPIES, xasprintf("x-amz-source-expected-bucket-owner: %s", owner));
    }
    return 0;
}

static int take_checksum(struct s3_terms *t, const struct store_params *p, struct err *e)
{
    cleanup_free char *name = NULL;
    if (get_word(p, "checksum", NULL, "it takes CRC32C or CRC64NVME", &name, e))
        return -1;
    return !name || s3_sum_kind(name, &t->sum)
        ? 0
        : option_err(p, "checksum", name, "it takes CRC32C or CRC64NVME", e);
}

int s3_terms_open(struct s3_terms *t, const struct store_params *p, struct err *e)
{
    if (take_encryption(t, p, e) || take_customer_key(t, p, e) || take_storage_class(t, p, e)
        || take_access(t, p, e) || take_checksum(t, p, e))
        return -1;
    bool makes = false;
    for (size_t i = 0; i < t->n; i++)
        makes |= strncmp(t->term[i].line, SSE ":", sizeof SSE) == 0;
    return makes && t->secret
        ? store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": options server-side-encryption and sse-customer-key contradict each other: keep one")
        : 0;
}

void s3_terms_close(struct s3_terms *t)
{
    while (t->n) {
        char *line = t->term[--t->n].line;
        explicit_bzero(line, strlen(line));
        free(line);
    }
}
