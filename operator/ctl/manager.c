/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/manager.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/ctl/events.h"
#include "operator/ctl/verdicts.h"

#include <stdlib.h>
#include <string.h>

static bool same(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static void tell_unreadable(void *user, const struct kube_res *res, const json_t *known)
{
    const struct manager *mgr = user;
    cleanup_free char *message = xasprintf(
        "the operator cannot read this object, and goes on as if it had not changed: %s; replace or delete it",
        jget_str(known, "message", ""));
    const struct event_about about = {
        res, kube_namespace(known), kube_name(known), kube_uid(known)};
    if (mgr->events)
        events_post(mgr->events, &about, true, "Unreadable", message);
}

struct informer *manager_informer(struct manager *mgr, const struct informer_conf *conf)
{
    struct apply *a = &mgr->apply;
    a->informers = xrealloc(a->informers, (a->ninformers + 1) * sizeof *a->informers);
    struct informer *inf = informer_new(mgr->kube, conf);
    informer_on_unreadable(inf, tell_unreadable, mgr);
    return a->informers[a->ninformers++] = inf;
}

struct informer *manager_shared_informer(struct manager *mgr, const struct informer_conf *conf)
{
    for (size_t i = 0; i < mgr->apply.ninformers; i++) {
        struct informer *inf = mgr->apply.informers[i];
        const struct informer_conf *have = informer_conf(inf);
        if (have->res != conf->res || have->trim != conf->trim || have->fold != conf->fold
            || !same(have->ns, conf->ns) || !same(have->labels, conf->labels)
            || !same(have->fields, conf->fields))
            continue;
        for (size_t k = 0; k < conf->nindexes; k++)
            informer_add_index(inf, &conf->indexes[k]);
        return inf;
    }
    return manager_informer(mgr, conf);
}

struct verdicts *manager_verdicts(struct manager *mgr)
{
    if (!mgr->apply.verdicts)
        mgr->apply.verdicts = verdicts_new();
    return mgr->apply.verdicts;
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

int manager_start(struct manager *mgr, struct err *e)
{
    for (size_t i = 0; i < mgr->apply.ninformers; i++)
        if (informer_start(mgr->apply.informers[i], e))
            return -1;
    return 0;
}

struct informer *manager_unsynced(const struct manager *mgr, size_t *i, struct err *why)
{
    while (*i < mgr->apply.ninformers) {
        struct informer *inf = mgr->apply.informers[(*i)++];
        if (informer_synced(inf))
            continue;
        informer_error(inf, why);
        return inf;
    }
    return NULL;
}

bool manager_stuck(
    const struct manager *mgr, int64_t answered_ns, int64_t limit_ns, struct buf *out)
{
    bool stuck = false;
    if (!answered_ns || clock_mono_ns() - answered_ns > limit_ns / 5)
        return false; /* the server is away: another process could not do better */
    for (size_t i = 0; i < mgr->apply.ninformers; i++) {
        struct informer *inf = mgr->apply.informers[i];
        struct err e = ERR_INIT;
        if (!informer_synced(inf) || informer_stale_ns(inf, &e) <= limit_ns || e.cls == ERR_NOTFOUND
            || e.cls == ERR_DENIED)
            continue;
        buf_addf(out, "%s: %s\n", informer_res(inf)->plural, e.msg);
        stuck = true;
    }
    return stuck;
}

int manager_lead(struct manager *mgr, struct err *e)
{
    for (; mgr->hooks_started < mgr->nhooks; mgr->hooks_started++) {
        const struct manager_hook *h = &mgr->hooks[mgr->hooks_started];
        if (h->start && h->start(h->user, e))
            return -1;
    }
    for (size_t i = 0; i < mgr->ncontrollers; i++)
        if (controller_start(mgr->controllers[i], &mgr->apply, e))
            return -1;
    return 0;
}

void manager_stop_leading(struct manager *mgr)
{
    while (mgr->hooks_started) {
        const struct manager_hook *h = &mgr->hooks[--mgr->hooks_started];
        if (h->stop)
            h->stop(h->user);
    }
    for (size_t i = 0; i < mgr->ncontrollers; i++)
        controller_stop(mgr->controllers[i]);
}

void manager_close(struct manager *mgr)
{
    for (size_t i = 0; i < mgr->apply.ninformers; i++)
        informer_cancel(mgr->apply.informers[i]);
    for (size_t i = 0; i < mgr->apply.ninformers; i++)
        informer_free(mgr->apply.informers[i]);
    for (size_t i = 0; i < mgr->ncontrollers; i++)
        controller_free(mgr->controllers[i]);
    verdicts_free(mgr->apply.verdicts);
    free(mgr->apply.informers);
    free(mgr->controllers);
    free(mgr->hooks);
}
