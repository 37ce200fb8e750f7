/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of earlier versions: the CRD refuses them, and says the same; an object may be older than
 * the CRD. What only said what holds anyway (an old CRD wrote it into each object) is passed over.
 */
#include "operator/api/dataset_priv.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"

#include <string.h>

static const struct {
    const char *path, *harmless, *words;
} gone[] = {
    {"spec.nodeAffinity", NULL,
        "spec.nodeAffinity is now spec.cache.worker.nodeAffinity: move it there"},
    {"spec.tolerations", NULL,
        "spec.tolerations is now spec.cache.worker.tolerations: move it there"},
    {"spec.cache.profile", "auto",
        "spec.cache.profile is now spec.mounts[].immutable: for sealed write immutable: true on the mount, for open immutable: false, for auto nothing"},
    {"spec.cache.writeType", "CacheThrough",
        "spec.cache.writeType is now a rule: write spec.cache.rules: [{path: /, writeType: …}]"},
};

int dataset_refuse_gone(const struct dataset *d, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(gone); i++) {
        const json_t *v = jget(d->cr, gone[i].path);
        if (v
            && !(gone[i].harmless && json_is_string(v)
                && strcmp(json_string_value(v), gone[i].harmless) == 0))
            return err_set(e, ERR_INVALID, "%s", gone[i].words);
    }
    const json_t *mounts = jget_arr(d->cr, "spec.mounts");
    for (size_t i = 0; i < json_array_size(mounts); i++)
        if (jget(json_array_get(mounts, i), "name"))
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu].name is gone: write path: /NAME, the place in the dataset's tree",
                i);
    return 0;
}
