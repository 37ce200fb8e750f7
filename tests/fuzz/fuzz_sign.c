/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a signed request, as it comes over the network: nothing that was not made with the
 * key is taken, and each refusal says why. */
#include "lib/sign/sign.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sign_key key = {"a key that no fuzzer knows"};
    const struct sign_ask ask = {"GET", "/v1/data", "mount=0&path=f", "bytes=0-9"};
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    struct err e = ERR_INIT;
    if (sign_check_request(&key, &ask, text, 1790000000, &e) == 0 || e.cls != ERR_DENIED
        || !e.msg[0])
        abort();
    const struct sign_answer answer = {
        .request = text, .status = 206, .range = "bytes 0-9/10", .crcs = text};
    if (sign_check_answer(&key, &answer, text))
        abort();
    free(text);
    return 0;
}
