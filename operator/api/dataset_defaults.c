/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster's defaults by themselves: what is wrong with them is told to the administrator who
 * wrote them, not to every team whose Dataset they are filled into. */
#include "operator/api/dataset_priv.h"

#include "lib/base/mem.h"
#include "lib/json/obj.h"

static int check_keys(const json_t *map, const char *where, const char *const *known, struct err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)map, key, value) {
        if (!dataset_word_in(key, known))
            return err_set(e, ERR_INVALID, "%s.%s: there is no such field", where, key);
        if (!json_is_object(value))
            return err_set(e, ERR_INVALID, "%s.%s must be an object", where, key);
    }
    return 0;
}

/* A Dataset that says nothing but where its data is takes all of them. */
static int check_filled_in(const json_t *defaults, const char *mount_point, struct err *e)
{
    const char *reason = "";
    cleanup_json json_t *cr = json_pack("{s:{s:s, s:s, s:s}, s:{s:[{s:s}]}}", "metadata", "name",
        "defaults", "namespace", "default", "uid", "u", "spec", "mounts", "mountPoint",
        mount_point);
    cleanup_dataset struct dataset *d = dataset_parse(cr, defaults, &reason, e);
    return d ? 0 : err_wrap(e, "defaults, in a Dataset that leaves the field out");
}

int dataset_check_defaults(const json_t *defaults, struct err *e)
{
    static const char *const fields[] = {"options", "cache", NULL};
    static const char *const schemes[] = {"s3", "pvc", NULL};
    if (check_keys(defaults, "defaults", fields, e)
        || check_keys(json_object_get(defaults, "options"), "defaults.options", schemes, e))
        return -1;
    return check_filled_in(defaults, "s3://bucket", e)
            || check_filled_in(defaults, "pvc://claim", e)
        ? -1
        : 0;
}
