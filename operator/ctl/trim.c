/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/trim.h"

#include <stdbool.h>
#include <string.h>

void trim_to(json_t *object, const char *const *names, size_t n)
{
    const char *key;
    json_t *v;
    void *next;
    json_object_foreach_safe(object, next, key, v)
    {
        bool kept = false;
        for (size_t i = 0; i < n; i++)
            kept |= !strcmp(key, names[i]);
        if (!kept)
            json_object_del(object, key);
    }
}

void trim_each_to(json_t *array, const char *const *names, size_t n)
{
    size_t i;
    json_t *v;
    json_array_foreach (array, i, v)
        trim_to(v, names, n);
}
