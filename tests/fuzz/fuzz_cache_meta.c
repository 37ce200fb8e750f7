/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in a cache directory may be anything: records of the table, headers and records of
 * sidecars. */
#include "fuse/cache/meta.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char side[META_SIDE_HEADER];
    unsigned char record[META_RECORD] = {0}, again[META_RECORD];
    char boot[META_BOOT_LEN];
    struct meta_file f, g;
    uint32_t crc;
    memcpy(record, data, size < sizeof record ? size : sizeof record);
    if (meta_header_get(record, boot) && strlen(boot) >= META_BOOT_LEN)
        abort();
    if (meta_record_get(record, &f)) { /* what is accepted is written back the same */
        meta_record_put(again, &f);
        if (!meta_record_get(again, &g) || memcmp(&f, &g, sizeof f) != 0)
            abort();
        if (f.valid == 0 || (uint64_t)f.valid > f.size / (1u << 20) + 1)
            abort();
    }
    memset(&f, 0, sizeof f);
    f.size = size;
    memset(side, 0, sizeof side);
    memcpy(side, data, size < sizeof side ? size : sizeof side);
    if (meta_side_header_get(side, &f) && size < 44)
        abort();
    for (size_t i = 0; i + META_SIDE_RECORD <= size && i < 64; i += META_SIDE_RECORD)
        if (meta_side_get(data + i, &f, (uint32_t)i, &crc)) {
            unsigned char r[META_SIDE_RECORD];
            meta_side_put(r, &f, (uint32_t)i, crc);
            if (memcmp(r, data + i, sizeof r) != 0)
                abort();
        }
    return 0;
}
