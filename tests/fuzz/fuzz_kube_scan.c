/* SPDX-License-Identifier: Apache-2.0 */
/* What is found in a text that can be parsed is what the parser finds there. */
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/wire.h"
#include "lib/kube/wire_scan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void same(const struct wire_found *found, const json_t *whole, const char *path)
{
    const char *there = jget_str(whole, path, NULL);
    if (found->value && (!there || strcmp(found->value, there) != 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_found wanted[] = {
        {"metadata.continue", NULL}, {"items.0.metadata.name", NULL}, {NULL, NULL}};
    char *text = xmalloc(size + 1); /* its own block, so that a read past its end is seen */
    memcpy(text, data, size);
    wire_scan(text, size, wanted);
    text[size] = '\0';
    /* strict: of two equal keys the scan takes the first, a parser the last */
    json_t *whole = json_parse(text, size, NULL);
    if (whole) {
        same(&wanted[0], whole, "metadata.continue");
        same(&wanted[1], whole, "items[0].metadata.name");
    }
    json_decref(whole);
    json_t *object = wire_scan_object(text, size, "object.metadata", "why");
    if (!json_is_object(json_object_get(object, "metadata")))
        abort();
    json_decref(object);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        free(wanted[i].value);
    free(text);
    return 0;
}
