/* SPDX-License-Identifier: Apache-2.0 */
/* The cache workers of a Dataset, replaced one at a time. */
#include "operator/dataset/observed.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"
#include "operator/ctl/verdicts.h"
#include "operator/dataset/dead_node.h"
#include "operator/dataset/place.h"
#include "operator/render/meta.h"

#include <stdlib.h>

#define SETTLED_NS   (60 * NS_PER_S)
#define MOVED_BYTES  ((int64_t)1 << 30) /* fetched again in seconds */
#define STRANDED_NS  (330 * NS_PER_S)
#define ROLL_WAIT_NS (3600 * NS_PER_S) /* for what was preloaded, after each worker */

/* Kubernetes evicts what is on a node that does not answer for five minutes, but not what tolerates
 * that. */
static bool is_stranded(
    const struct dataset_observed *o, const struct dataset_eval *v, size_t at, struct plan *p)
{
    int64_t since = 0;
    const json_t *pod = o->pods[at].pod;
    enum cache_pod_state state = v->health[at].state;
    if (!o->pod_nodes || (state != CACHE_POD_PROBLEM && state != CACHE_POD_STARTING)
        || !*jget_str(pod, "spec.nodeName", "") || !node_is_dead(o->pod_nodes[at])
        || clock_parse_rfc3339(jget_str(cond_find(jget_arr(pod, "status.conditions"), "Ready"),
                                   "lastTransitionTime", ""),
            &since))
        return false;
    int64_t wait = since + STRANDED_NS - o->now_ns;
    if (wait > 0)
        plan_requeue(p, wait);
    return wait <= 0;
}

/* For the status it is leaving already. */
static void drop_pod(
    const struct dataset_observed *o, struct dataset_eval *v, size_t at, struct plan *p)
{
    if (v->health[at].state == CACHE_POD_LEAVING)
        dataset_abandon(o, at, p);
    else
        plan_delete(p, &kube_pods, o->pods[at].pod, -1, NULL);
    v->health[at].state = CACHE_POD_LEAVING;
}

/* The worker goes when the server is known to take what is made in its place. */
static void replace_worker(const struct dataset_observed *o, struct dataset_eval *v,
    const struct places *places, size_t at, int index, struct plan *p)
{
    const json_t *pod = o->pods[at].pod;
    cleanup_place_offer struct place_offer offer;
    place_offer_take(o, v, places, index, &offer);
    json_t *next = render_worker(v->d, &o->env, index, &offer.places);
    cleanup_free char *hash = xstrdup(kube_annotation(next, ANNOTATION_HASH));
    switch (cache_pod_try(p, &v->making, pod, next)) {
    case VERDICT_TAKEN:
        drop_pod(o, v, at, p);
        return;
    case VERDICT_ASKED:
        v->asks = true;
        return;
    case VERDICT_REFUSED:
        if (!*v->refused)
            dataset_say_refused(
                o->cr, pod, verdict_refusal(o->said, pod, hash), v->refused, sizeof v->refused);
        return;
    }
}

/* One that is refused keeps neither the others from being made nor those that serve from serving.
 */
static void make_worker(const struct dataset_observed *o, struct dataset_eval *v,
    const struct places *places, int index, struct plan *p)
{
    cleanup_place_offer struct place_offer offer;
    place_offer_take(o, v, places, index, &offer);
    cleanup_json json_t *pod = render_worker(v->d, &o->env, index, &offer.places);
    const char *refused = cache_pod_create_heard(p, &v->making, json_incref(pod));
    if (refused && !*v->refused)
        v->refused_reason = cache_pod_say_unmade(
            o->cr, o->said, pod, refused, v->refused, sizeof v->refused);
}

/* When the youngest of the workers that are made of the spec as it is was started, since the epoch;
 * 0: there is none. */
static int64_t last_replaced(const struct dataset_observed *o, const struct dataset_eval *v)
{
    int64_t last = 0, at;
    for (size_t i = 0; i < o->npods; i++)
        if (v->current[i] && cache_pod_is(o->pods[i].pod, COMPONENT_WORKER)
            && clock_parse_rfc3339(jget_str(o->pods[i].pod, "status.startTime", ""), &at) == 0)
            last = MAX(last, at);
    return last;
}

/* A worker's successor may begin with nothing: what was preloaded is loaded into it first, or an
 * update would empty the whole cache. The first one to be replaced waits for nothing: the edit may
 * mend what keeps the rest from being loaded. */
static bool waits_for_preload(const struct dataset_observed *o, struct dataset_eval *v)
{
    int64_t last = last_replaced(o, v);
    if (!last || dataset_preload_held(o, v) != DATASET_COMING || o->now_ns - last >= ROLL_WAIT_NS)
        return false;
    v->roll_waits_until_ns = last + ROLL_WAIT_NS;
    return true;
}

static void replace_next(const struct dataset_observed *o, struct dataset_eval *v,
    const struct places *places, size_t at, int index, struct plan *p)
{
    if (waits_for_preload(o, v)) {
        plan_requeue(p, v->roll_waits_until_ns - o->now_ns);
        return;
    }
    bool loses = last_replaced(o, v) && dataset_preload_held(o, v) == DATASET_COMING;
    replace_worker(o, v, places, at, index, p);
    if (loses && v->health[at].state == CACHE_POD_LEAVING)
        plan_event(p, &kube_datasets, o->cr, true, "PreloadNotHeld",
            "worker %s is replaced, though what was preloaded was not in the cache again %d minutes after the one before was: the condition Preloaded says why",
            kube_name(o->pods[at].pod), (int)(ROLL_WAIT_NS / NS_PER_S / 60));
}

/* What the Dataset itself preloads and pins is pinned again by whoever does that; for what a
 * DataLoad pinned, nobody is left. */
static bool pins_last(const struct dataset *d)
{
    for (size_t i = 0; i < d->npreload; i++)
        if (d->preload[i].pin)
            return true;
    return false;
}

/* May it go to a better node, and does that pay? What it holds is lost. false: or not yet. */
static bool may_move(const struct dataset_observed *o, const struct dataset *d,
    const struct cache_pod *m, const json_t *node, struct plan *p)
{
    if (jget_int(m->report, REPORT_CACHE_PINNED, 0) > 0 && !pins_last(d))
        return false;
    int64_t held = jget_int(m->report, REPORT_CACHE_USED, -1), began = o->now_ns;
    clock_parse_rfc3339(jget_str(m->pod, "status.startTime", ""), &began);
    int64_t wait = began + SETTLED_NS - o->now_ns;
    if (held < 0 || held > MOVED_BYTES || jget_bool(node, "spec.unschedulable", false))
        return false;
    if (wait > 0)
        plan_requeue(p, wait);
    return wait <= 0;
}

/* One at a time, while all serve and nothing is being preloaded. Where users say which nodes may be
 * taken, it is not known which of the better ones may. */
static void move_one(const struct dataset_observed *o, struct dataset_eval *v,
    const struct places *places, struct plan *p)
{
    if (!places->n || !o->pod_nodes || v->d->worker.node_selector
        || dataset_preload_held(o, v) == DATASET_COMING)
        return;
    for (int i = 0; i < v->d->replicas; i++) {
        const struct cache_pod *m = dataset_worker(v, i);
        size_t at = (size_t)(m - o->pods);
        const struct place *to = place_better(places, m->pod);
        if (!to || !may_move(o, v->d, m, o->pod_nodes[at], p))
            continue;
        cleanup_place_offer struct place_offer offer;
        place_offer_take(o, v, places, i, &offer);
        if (cache_pod_try(p, &v->making, m->pod, render_worker(v->d, &o->env, i, &offer.places))
            != VERDICT_TAKEN) /* where it is will do */
            return;
        drop_pod(o, v, at, p);
        plan_event(p, &kube_datasets, o->cr, false, "WorkerMoves",
            "worker %s, which holds little, leaves node %s: %s has GPUs%s", kube_name(m->pod),
            jget_str(m->pod, "spec.nodeName", ""), to->node,
            to->use == PLACE_USED          ? ", and pods there use the data"
                : to->use == PLACE_AWAITED ? ", and pods that wait to use the data ask for such"
                                           : "");
        return;
    }
}

/* Outdated workers are replaced one at a time: the next when all the others serve, and hold what is
 * to be preloaded. Those that do not serve anyway go at once. */
void dataset_plan_workers(const struct dataset_observed *o, struct dataset_eval *v, struct plan *p)
{
    cleanup_places struct places places;
    places_take(o, v, &places);
    bool *wanted = xcalloc(o->npods + 1, sizeof *wanted);
    size_t replace = SIZE_MAX, serving = 0;
    int replace_index = 0;
    for (int i = 0; i < v->d->replicas; i++) {
        const struct cache_pod *m = dataset_worker(v, i);
        if (!m) {
            make_worker(o, v, &places, i, p);
            continue;
        }
        size_t at = (size_t)(m - o->pods);
        wanted[at] = true;
        bool ready = v->health[at].state == CACHE_POD_READY;
        serving += ready;
        if (v->current[at] && v->health[at].rest_ns)
            plan_requeue(p, v->health[at].rest_ns);
        else if (v->health[at].state == CACHE_POD_FINISHED
            || v->health[at].state == CACHE_POD_LEAVING || is_stranded(o, v, at, p))
            drop_pod(o, v, at, p);
        else if (!v->current[at] && !ready)
            replace_worker(o, v, &places, at, i, p);
        else if (!v->current[at] && ready && replace == SIZE_MAX) {
            replace = at;
            replace_index = i;
        }
    }
    if (replace != SIZE_MAX && serving == (size_t)v->d->replicas)
        replace_next(o, v, &places, replace, replace_index, p);
    else if (serving == (size_t)v->d->replicas)
        move_one(o, v, &places, p);
    for (size_t i = 0; i < o->npods; i++)
        if (!wanted[i] && cache_pod_is(o->pods[i].pod, COMPONENT_WORKER))
            drop_pod(o, v, i, p);
    free(wanted);
}
