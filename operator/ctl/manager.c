/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/manager.h"

#include "lib/base/mem.h"

#include <string.h>

static bool same(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

struct informer *manager_informer(struct manager *mgr, const struct informer_conf *conf)
{
    struct apply *a = &mgr->apply;
    a->informers = xrealloc(a->informers, (a->ninformers + 1) * sizeof *a->informers);
    return a->informers[a->ninformers++] = informer_new(mgr->kube, conf);
}

struct informer *manager_shared_informer(struct manager *mgr, const struct informer_conf *conf)
{
    for (size_t i = 0; i < mgr->apply.ninformers; i++) {
        struct informer *c = mgr->apply.informers[i];
        const struct informer_conf *have = informer_conf(c);
        if (have->res != conf->res || have->trim != conf->trim || have->fold != conf->fold
            || !same(have->ns, conf->ns) || !same(have->labels, conf->labels)
            || !same(have->fields, conf->fields))
            continue;
        for (size_t k = 0; k < conf->nindexes; k++)
            informer_add_index(c, &conf->indexes[k]);
        return c;
    }
    return manager_informer(mgr, conf);
}

struct controller *manager_controller(struct manager *mgr, const struct controller_conf *conf)
{
    struct controller_conf whole = *conf;
    if (!whole.workers)
        whole.workers = mgr->workers;
    mgr->controllers = xrealloc(
        mgr->controllers, (mgr->ncontrollers + 1) * sizeof *mgr->controllers);
    return mgr->controllers[mgr->ncontrollers++] = controller_new(&whole);
}

void manager_on_lead(
    struct manager *mgr, int (*start)(void *, struct err *), void (*stop)(void *), void *user)
{
    mgr->hooks = xrealloc(mgr->hooks, (mgr->nhooks + 1) * sizeof *mgr->hooks);
    mgr->hooks[mgr->nhooks++] = (struct manager_hook){start, stop, user};
}
