/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/volume_record.h"

#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

void volume_free(void *p)
{
    struct volume *v = p;
    for (size_t i = 0; i < v->ntargets; i++)
        free(v->targets[i].path);
    for (size_t i = 0; i < v->nparams; i++) {
        free(v->params[i].key);
        free(v->params[i].value);
    }
    free(v->targets);
    free(v->params);
    free(v->staging);
    free(v->name);
    free(v->id);
    free(v);
}

struct volume_target *volume_target_find(struct volume *v, const char *path)
{
    for (size_t i = 0; i < v->ntargets; i++)
        if (strcmp(v->targets[i].path, path) == 0)
            return &v->targets[i];
    return NULL;
}

void volume_target_add(struct volume *v, const char *path, bool read_only, int mode)
{
    v->targets = xrealloc(v->targets, (v->ntargets + 1) * sizeof *v->targets);
    v->targets[v->ntargets++] = (struct volume_target){xstrdup(path), read_only, mode};
}

void volume_target_del(struct volume *v, const char *path)
{
    struct volume_target *t = volume_target_find(v, path);
    if (!t)
        return;
    free(t->path);
    *t = v->targets[--v->ntargets];
}

void volume_param_add(struct volume *v, const char *key, const char *value)
{
    v->params = xrealloc(v->params, (v->nparams + 1) * sizeof *v->params);
    v->params[v->nparams++] = (struct volume_param){xstrdup(key), xstrdup(value)};
}
