/* SPDX-License-Identifier: Apache-2.0 */
/* Any order of the catalogue's operations leaves it as the model has it. */
#include "tests/unit/fuse/cache/catalogue_drive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model model;
    unsigned steps;
    const char *failure = model_run(&model, data, size, &steps);
    if (failure) {
        fprintf(stderr, "%s\n", failure);
        abort();
    }
    return 0;
}
