/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a change of a Dataset concerns: most are counters, which are nothing to anybody but people.
 */
#include "operator/api/dataset.h"

#include "lib/base/mem.h"

#include <string.h>

static bool one_of_names(const char *key, const char *const *keys)
{
    for (; *keys; keys++)
        if (strcmp(*keys, key) == 0)
            return true;
    return false;
}

/* Has a member that b has not, or has otherwise? Those named in but are passed over. */
static bool has_other(const json_t *a, const json_t *b, const char *const *but)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)a, key, value) {
        const json_t *other = json_object_get(b, key);
        if (!one_of_names(key, but) && !(other && json_equal(value, other)))
            return true;
    }
    return false;
}

static bool differ(const json_t *a, const json_t *b, const char *const *but)
{
    return has_other(a, b, but) || has_other(b, a, but);
}

bool dataset_is_news(const json_t *was, const json_t *now)
{
    static const char *const parts[] = {"metadata", "status", NULL},
                             *const versions[] = {"resourceVersion", "managedFields", NULL},
                             *const counters[] = {"cacheStates", "writes", "ufsTotal",
                                 "ufsTotalBytes", "fileNum", NULL};
    return differ(was, now, parts)
        || differ(json_object_get(was, "metadata"), json_object_get(now, "metadata"), versions)
        || differ(json_object_get(was, "status"), json_object_get(now, "status"), counters);
}
