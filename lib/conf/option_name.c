/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/conf/option_name.h"

#include "lib/base/mem.h"

#include <string.h>

static const struct {
    const char *name, *aliases[2];
    bool credential;
} option_names[] = {
    {OPTION_ENDPOINT, {"alluxio.underfs.s3.endpoint", "url"}, false},
    {"region", {"alluxio.underfs.s3.endpoint.region"}, false},
    {"access-key-id", {"aws.accessKeyId", "access-key"}, false},
    {"secret-access-key", {"aws.secretKey", "secret-key"}, true},
    {"session-token", {NULL}, true},
};

const char *option_proper_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(option_names); i++)
        for (size_t k = 0; k < ARRAY_LEN(option_names[i].aliases) && option_names[i].aliases[k];
             k++)
            if (strcmp(name, option_names[i].aliases[k]) == 0)
                return option_names[i].name;
    return name;
}

bool option_is_credential(const char *name)
{
    const char *proper = option_proper_name(name);
    for (size_t i = 0; i < ARRAY_LEN(option_names); i++)
        if (strcmp(option_names[i].name, proper) == 0)
            return option_names[i].credential;
    return false;
}
