/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in a cache directory may be anything: records of the table, headers and records of
 * sidecars. */
#include "fuse/cache/meta.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char sidecar[META_SIDECAR_HEADER];
    unsigned char record[META_RECORD] = {0}, again[META_RECORD];
    char boot[META_BOOT_LEN];
    struct meta_file f = {0}, g = {0}; /* compared as bytes */
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
    memset(sidecar, 0, sizeof sidecar);
    memcpy(sidecar, data, size < sizeof sidecar ? size : sizeof sidecar);
    if (meta_sidecar_header_get(sidecar, &f) && size < 44)
        abort();
    for (size_t i = 0; i + META_SIDECAR_RECORD <= size && i < 64; i += META_SIDECAR_RECORD)
        if (meta_sidecar_get(data + i, &f, (uint32_t)i, &crc)) {
            unsigned char r[META_SIDECAR_RECORD];
            meta_sidecar_put(r, &f, (uint32_t)i, crc);
            if (memcmp(r, data + i, sizeof r) != 0)
                abort();
        }
    return 0;
}
