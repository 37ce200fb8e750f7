/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/names.h"

#include "lib/base/names.h"
#include "lib/json/jget.h"

#include <stdio.h>
#include <string.h>

void tfjob_child_name(
    const struct tfjob *j, enum tfjob_type t, int index, char out[TFJOB_CHILD_NAME_LEN])
{
    snprintf(out, TFJOB_CHILD_NAME_LEN, "%s-%s-%d", j->name, tfjob_type_lower(t), index);
}

json_t *tfjob_owner(const struct tfjob *j)
{
    return json_pack("{s:s s:s s:s s:s s:b s:b}", "apiVersion", NAME_TFJOB_API_VERSION, "kind",
        "TFJob", "name", j->name, "uid", j->uid, "controller", 1, "blockOwnerDeletion", 1);
}

json_t *tfjob_main_container(const json_t *pod_spec)
{
    const json_t *containers = jget_arr(pod_spec, "containers");
    size_t i;
    json_t *c;
    json_array_foreach ((json_t *)containers, i, c)
        if (!strcmp(jget_str(c, "name", ""), TFJOB_CONTAINER))
            return c;
    return json_array_get(containers, 0);
}
