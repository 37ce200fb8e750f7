/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/render/read.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "operator/render/volume.h"

#include <stdlib.h>
#include <string.h>

#define VARIABLE_MAX ((size_t)128 << 10) /* bytes: what Linux takes, name and end included */

static size_t config_bytes(
    const struct dataset *d, const struct render_env *env, const struct dataset_tiers *tiers)
{
    cleanup_free char *text = render_config(d, tiers, env->keep_free, env->endpoints);
    return strlen(text);
}

static int check_size(const struct dataset *d, const struct render_env *env, struct err *e)
{
    const size_t most = VARIABLE_MAX - sizeof ENV_CONFIG - 1;
    size_t n = MAX(config_bytes(d, env, &d->worker.tiers), config_bytes(d, env, &d->client.tiers));
    if (n <= most)
        return 0;
    return err_set(e, ERR_INVALID,
        "spec.mounts, spec.cache.rules and the cluster's defaults come to %zu KiB, and pods take %zu: give certificates by caBundle instead of options.ca-cert, write fewer mounts and rules, or shorter paths",
        (n >> 10) + 1, most >> 10);
}

struct dataset *render_read(
    const json_t *cr, const struct render_env *env, const char **reason, struct err *e)
{
    struct dataset *d = dataset_parse(cr, env->defaults, reason, e);
    if (!d)
        return NULL;
    dataset_cap_workers(d, env->most_workers);
    if (check_size(d, env, e) == 0)
        return d;
    *reason = "InvalidSpec";
    dataset_free(d);
    return NULL;
}
