/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/manager.h"

#include "lib/base/mem.h"

#include <string.h>

static bool same(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

struct cache *env_cache(struct operator_env *env, const struct cache_conf *conf)
{
    struct apply *a = &env->apply;
    a->caches = xrealloc(a->caches, (a->ncaches + 1) * sizeof *a->caches);
    return a->caches[a->ncaches++] = cache_new(env->kube, conf);
}

struct cache *env_cache_shared(struct operator_env *env, const struct cache_conf *conf)
{
    for (size_t i = 0; i < env->apply.ncaches; i++) {
        struct cache *c = env->apply.caches[i];
        const struct cache_conf *have = cache_conf(c);
        if (have->res != conf->res || have->trim != conf->trim || have->fold != conf->fold
            || !same(have->ns, conf->ns) || !same(have->labels, conf->labels)
            || !same(have->fields, conf->fields))
            continue;
        for (size_t k = 0; k < conf->nindexes; k++)
            cache_add_index(c, &conf->indexes[k]);
        return c;
    }
    return env_cache(env, conf);
}

struct controller *env_controller(struct operator_env *env, const struct controller_conf *conf)
{
    struct controller_conf whole = *conf;
    if (!whole.workers)
        whole.workers = env->workers;
    env->controllers = xrealloc(
        env->controllers, (env->ncontrollers + 1) * sizeof *env->controllers);
    return env->controllers[env->ncontrollers++] = controller_new(&whole);
}

void env_on_lead(
    struct operator_env *env, int (*start)(void *, struct err *), void (*stop)(void *), void *user)
{
    env->hooks = xrealloc(env->hooks, (env->nhooks + 1) * sizeof *env->hooks);
    env->hooks[env->nhooks++] = (struct env_hook){start, stop, user};
}

struct controller *env_find_controller(struct operator_env *env, const char *name)
{
    for (size_t i = 0; i < env->ncontrollers; i++)
        if (strcmp(controller_name(env->controllers[i]), name) == 0)
            return env->controllers[i];
    return NULL;
}
