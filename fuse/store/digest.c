/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/digest.h"

#include "fuse/store/s3_sum.h"
#include "lib/base/mem.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct digest {
    EVP_MD_CTX *evp; /* NULL: a CRC */
    enum s3_sum kind;
    uint64_t sum;
};

struct digest *digest_new(const char *kind)
{
    struct digest *d = xcalloc(1, sizeof *d);
    const EVP_MD *md = strcmp(kind, "sha256") == 0 ? EVP_sha256()
        : strcmp(kind, "md5") == 0                 ? EVP_md5()
                                                   : NULL;
    if (md && (d->evp = EVP_MD_CTX_new()) && EVP_DigestInit_ex(d->evp, md, NULL) == 1)
        return d;
    if (!md && s3_sum_kind(kind, &d->kind) && d->kind != S3_SUM_NONE)
        return d;
    EVP_MD_CTX_free(d->evp);
    free(d);
    return NULL;
}

int digest_sink(void *digest, const void *data, size_t len)
{
    struct digest *d = digest;
    if (d->evp)
        return EVP_DigestUpdate(d->evp, data, len) == 1 ? 0 : -1;
    d->sum = s3_sum_add(d->kind, d->sum, data, len);
    return 0;
}

void digest_end(struct digest *d, char text[DIGEST_TEXT])
{
    unsigned char out[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (d->evp) {
        EVP_DigestFinal_ex(d->evp, out, &n);
        for (unsigned i = 0; i < n && i < (DIGEST_TEXT - 1) / 2; i++)
            snprintf(text + 2 * (size_t)i, 3, "%02x", out[i]);
    } else {
        s3_sum_text(d->kind, d->sum, text);
    }
    EVP_MD_CTX_free(d->evp);
    free(d);
}
