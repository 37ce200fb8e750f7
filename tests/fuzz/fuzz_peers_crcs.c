/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's header of checksums: what is taken is what would be written. */
#include "fuse/peers/peers.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t crcs[PEERS_CRCS_MAX];
    if (size < 1)
        return 0;
    size_t n = data[0] % (PEERS_CRCS_MAX + 1);
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (peers_crcs_parse(text, crcs, n) == 0) {
        char *again = peers_crcs_text(crcs, n);
        if (strcmp(again, text) != 0)
            abort();
        free(again);
    }
    free(text);
    return 0;
}
