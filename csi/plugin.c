/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/plugin.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

int64_t plugin_deadline(const struct rpc_call *call)
{
    int64_t now = clock_mono_ns(), deadline = rpc_deadline_ns(call);
    if (deadline == INT64_MAX)
        return now + RPC_ENDLESS_NS;
    int64_t left = deadline - now;
    return deadline - MIN(RPC_MARGIN_NS, left / 4);
}

struct volume_pair *plugin_pairs(struct rpc_call *call, Csi__Pair *const *list, size_t n)
{
    struct volume_pair *out = rpc_alloc(call, n * sizeof *out);
    for (size_t i = 0; i < n; i++)
        out[i] = (struct volume_pair){list[i]->key, list[i]->value};
    return out;
}

void plugin_save(struct plugin *p, const struct volume *v)
{
    struct err e = ERR_INIT;
    if (volume_save(p->volumes, v, &e))
        log_kv(LOG_ERROR, "the record of a volume is out of date", "volume", v->id, "error", e.msg,
            NULL);
}
