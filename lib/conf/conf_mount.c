/* SPDX-License-Identifier: Apache-2.0 */
/* What a mount of a configuration says of its store, read in one way by all. */
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/conf.h"
#include "lib/conf/option_name.h"

#include <string.h>

/* By any of its names. */
static const char *pair_value(const struct conf_pair *pairs, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(option_proper_name(pairs[i].key), name) == 0)
            return pairs[i].value;
    return NULL;
}

const char *conf_mount_endpoint(const struct conf_mount *m)
{
    const char *own = pair_value(m->options, m->noptions, OPTION_ENDPOINT),
               *usual = pair_value(m->default_options, m->ndefault_options, OPTION_ENDPOINT);
    return own ? own : usual ? usual : "";
}

char *conf_mount_id(const struct conf_mount *m)
{
    const char *endpoint = conf_mount_endpoint(m);
    return *endpoint ? xasprintf("%s %s", m->mount_point, endpoint) : xstrdup(m->mount_point);
}

bool conf_mount_has_secrets(const struct conf *c, size_t i)
{
    return i == 0 || c->mounts[i].nsecrets || c->mounts[i].secret_dir;
}
