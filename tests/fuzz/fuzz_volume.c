/* SPDX-License-Identifier: Apache-2.0 */
/* A volume's record: what is accepted names no path outside, and is the same after writing and
 * reading it again. */
#include "csi/volume_json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct volume *v = volume_from_json((const char *)data, size, &e);
    if (!v)
        return 0;
    if (!volume_is_id(v->id) || !volume_is_label(v->context.ns) || strchr(v->context.uid, '/')
        || strcmp(v->context.uid, "..") == 0 || (v->staging && !volume_is_path(v->staging)))
        abort();
    char *text = volume_to_json(v);
    struct volume *again = volume_from_json(text, strlen(text), &e);
    char *text2 = again ? volume_to_json(again) : NULL;
    if (!text2 || strcmp(text, text2) != 0)
        abort();
    free(text);
    free(text2);
    volume_free(v);
    volume_free(again);
    return 0;
}
