/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/fuse/cli/recorded.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/kube/yaml.h"

#include <stdio.h>
#include <stdlib.h>

json_t *recorded_read(const char *name)
{
    struct err e = ERR_INIT;
    size_t len;
    const char *source = getenv("MILLRACE_SOURCE");
    cleanup_free char *path = xasprintf("%s/tests/unit/fuse/cli/%s", source ? source : ".", name);
    cleanup_free char *text = file_read(path, 1 << 20, &len, &e);
    json_t *j = text ? yaml_parse(text, len, &e) : NULL;
    if (!j)
        fprintf(stderr, "%s: %s\n", path, e.msg);
    return j;
}

void recorded_change(json_t *to, const json_t *by)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)by, key, value) {
        json_t *old = json_object_get(to, key);
        if (json_is_null(value))
            json_object_del(to, key);
        else if (json_is_object(value) && json_is_object(old))
            recorded_change(old, value);
        else
            json_object_set_new(to, key, json_deep_copy(value));
    }
}
