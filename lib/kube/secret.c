/* SPDX-License-Identifier: Apache-2.0 */
/* What a Secret holds, out of the base64 that it is sent in. */
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

char *kube_secret_value(const json_t *secret, const char *key)
{
    const char *base64 = jget_str(json_object_get(secret, "data"), key, NULL);
    size_t n = base64 ? strlen(base64) : 0;
    if (!base64 || n % 4 || n > KUBE_SECRET_MAX)
        return NULL;
    char *text = xcalloc(1, n + 1);
    int len = EVP_DecodeBlock((unsigned char *)text, (const unsigned char *)base64, (int)n);
    if (len < 0) {
        free(text);
        return NULL;
    }
    for (size_t i = n; len > 0 && i > 0 && base64[i - 1] == '='; i--)
        text[--len] = '\0';
    return text;
}
