/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the AWS tools, as people and programs have left them. */
#include "fuse/store/aws_profile.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"default", "me"};
    for (int config = 0; config < 2; config++) {
        const struct aws_file f = {(const char *)data, size, config};
        for (size_t i = 0; i < 2; i++) {
            char *value = aws_profile_get(&f, names[i], "region");
            if (value && (!*value || strchr(value, '\n') || !aws_profile_exists(&f, names[i])))
                abort();
            free(value);
        }
    }
    return 0;
}
