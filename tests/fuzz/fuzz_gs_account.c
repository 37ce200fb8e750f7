/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials of Google's tools and answers of token servers, or of somebody in their place: what
 * becomes part of a header or of JSON is a word, and messages are one line. */
#include "fuse/store/gs.h"
#include "fuse/store/gs_account.h"
#include "lib/http/http.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), words[200], sum[S3_SUM_TEXT + 1];
    struct gs_account a;
    struct gs_token t;
    struct err e = ERR_INIT;
    memcpy(text, data, size);
    text[size] = '\0';
    if (gs_account_parse(text, size, &a, &e) == 0) {
        if (!http_is_word(a.token_uri, strlen(a.token_uri)))
            abort();
        if (a.kind == GS_SERVICE_ACCOUNT) {
            if (strpbrk(a.email, "\"\\"))
                abort();
            free(gs_account_sign(&a, "s", 1, &e));
        }
    }
    gs_account_clear(&a);
    if (gs_token_parse(text, size, &t) && (!*t.token || !http_is_word(t.token, strlen(t.token))))
        abort();
    free(t.token);
    gs_token_fault(text, size, words);
    if (strchr(words, '\n'))
        abort();
    free(gs_account_field(text, size, "token"));
    gs_crc32c(text, sum);
    if (strlen(sum) >= S3_SUM_TEXT)
        abort();
    free(gs_line(text));
    free(text);
    return 0;
}
