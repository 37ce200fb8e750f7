/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/observed.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One component — the workers, or the clients — summed up. */
struct group {
    const char *component;
    int desired, ready, current_ready; /* current_ready: of those made of the spec as it is */
    /* index of the first troubled member, SIZE_MAX if none; the store's trouble first */
    size_t trouble;
    json_t *nodes; /* of those that are ready */
};

static void sum_up(const struct dataset_observed *o, const struct dataset_view *v, struct group *g)
{
    g->trouble = SIZE_MAX;
    g->nodes = json_array();
    for (size_t i = 0; i < o->nmembers; i++) {
        const struct member_view *m = &v->views[i];
        if (!member_is(o->members[i].pod, g->component))
            continue;
        switch (m->state) {
        case MEMBER_READY:
            g->ready++;
            g->current_ready += v->current[i];
            json_array_append_new(g->nodes, json_string(m->node));
            break;
        case MEMBER_TROUBLED:
            if (g->trouble == SIZE_MAX || (m->store_trouble && !v->views[g->trouble].store_trouble))
                g->trouble = i;
            break;
        case MEMBER_STARTING:
        case MEMBER_FINISHED:
        case MEMBER_LEAVING:
            break;
        }
    }
}

/* What the conditions will be: text lives here until they are written. */
struct verdict {
    const char *phase;
    struct cond ready;
    char message[640];
    bool warn; /* the transition to it is a Warning */
};

static void say(
    struct verdict *r, const char *phase, enum cond_status status, const char *reason, bool warn)
{
    r->phase = phase;
    r->warn = warn;
    r->ready = (struct cond){DATASET_COND_READY, status, reason, r->message};
}

/* Was it ready with this very spec? Then a restart of its pods is no news. */
static bool was_ready(const struct dataset_observed *o)
{
    const json_t *conditions = jget_arr(o->cr, "status.conditions");
    return cond_is_true(conditions, DATASET_COND_READY)
        && jget_int(cond_find(conditions, DATASET_COND_READY), "observedGeneration", -1)
        == jget_int(o->cr, "metadata.generation", 0);
}

static void judge_pods(const struct dataset_observed *o, const struct dataset_view *v,
    const struct group *workers, const struct group *clients, struct verdict *r)
{
    size_t trouble = workers->trouble;
    if (clients->trouble != SIZE_MAX
        && (trouble == SIZE_MAX
            || (v->views[clients->trouble].store_trouble && !v->views[trouble].store_trouble)))
        trouble = clients->trouble;
    if (workers->current_ready || clients->current_ready) {
        snprintf(r->message, sizeof r->message, "pods can mount the PersistentVolumeClaim %s",
            kube_name(o->cr));
        say(r, DATASET_BOUND, COND_TRUE, "Ready", false);
    } else if (trouble != SIZE_MAX) {
        const struct member_view *m = &v->views[trouble];
        snprintf(r->message, sizeof r->message, "%s", m->message);
        say(r, m->store_trouble ? DATASET_FAILED : DATASET_NOT_BOUND, COND_FALSE, m->reason, true);
    } else if (workers->desired == 0 && clients->desired == 0) {
        snprintf(r->message, sizeof r->message,
            "pods can mount the PersistentVolumeClaim %s; its store is asked when the first one does",
            kube_name(o->cr));
        say(r, DATASET_BOUND, COND_TRUE, "Ready", false);
    } else if (was_ready(o)) {
        snprintf(r->message, sizeof r->message, "pods can mount the PersistentVolumeClaim %s",
            kube_name(o->cr));
        say(r, DATASET_BOUND, COND_TRUE, "Ready", false);
    } else if (workers->ready || clients->ready) {
        snprintf(r->message, sizeof r->message,
            "the spec was changed: the first pod made of it is starting, the others still serve the old one");
        say(r, DATASET_BOUND, COND_FALSE, "Updating", false);
    } else {
        snprintf(r->message, sizeof r->message,
            "the first cache worker or client is starting and asks the store");
        say(r, DATASET_NOT_BOUND, COND_FALSE, "Starting", false);
    }
}

static void judge(const struct dataset_observed *o, const struct dataset_view *v,
    const struct dataset_problem *problem, const struct group *workers, const struct group *clients,
    struct verdict *r)
{
    if (problem->reason) {
        snprintf(r->message, sizeof r->message, "%s", problem->message);
        say(r, DATASET_FAILED, COND_FALSE, problem->reason, true);
        return;
    }
    const char *phase = jget_str(o->pvc, "status.phase", "");
    if (strcmp(phase, "Bound") != 0) {
        bool lost = strcmp(phase, "Lost") == 0;
        snprintf(r->message, sizeof r->message, "PersistentVolumeClaim %s is %s: %s",
            kube_name(o->cr), *phase ? phase : "being made",
            lost ? "its PersistentVolume is gone: delete the claim, it is made again"
                 : "waiting for Kubernetes to bind it");
        say(r, DATASET_NOT_BOUND, COND_FALSE, "VolumeNotBound", lost);
        return;
    }
    judge_pods(o, v, workers, clients, r);
}

/* WorkersReady, ClientsReady. d NULL: nobody can say how many workers there should be. */
static void judge_group(const struct dataset_view *v, const struct group *g, const char *type,
    const char *none, struct verdict *r)
{
    bool client = strcmp(g->component, COMPONENT_CLIENT) == 0;
    const char *who = client ? "nodes that use it have" : "cache workers are",
               *what = client ? "a serving client" : "ready";
    r->ready = (struct cond){type, COND_TRUE, "AllReady", r->message};
    r->warn = false;
    if (!v->d && !client) {
        snprintf(r->message, sizeof r->message, "%d run; the spec is not valid", g->ready);
        r->ready.status = COND_UNKNOWN;
        r->ready.reason = "InvalidSpec";
        return;
    }
    if (g->desired == 0) {
        snprintf(r->message, sizeof r->message, "%s", none);
        r->ready.reason = "None";
        return;
    }
    int len = snprintf(
        r->message, sizeof r->message, "%d of %d %s %s", g->ready, g->desired, who, what);
    if (g->ready >= g->desired)
        return;
    r->ready.status = COND_FALSE;
    r->ready.reason = "Starting";
    if (g->trouble == SIZE_MAX)
        return;
    const struct member_view *m = &v->views[g->trouble];
    snprintf(r->message + len, sizeof r->message - (size_t)len, ": %s", m->message);
    r->ready.reason = m->reason;
    r->warn = true;
}

static void judge_cache(const struct dataset_observed *o, struct verdict *r)
{
    r->ready = (struct cond){DATASET_COND_CACHE, COND_TRUE, "NoTrouble", r->message};
    r->warn = false;
    snprintf(r->message, sizeof r->message, "no cache has reported trouble");
    for (size_t i = 0; i < o->nmembers; i++) {
        const char *why;
        if (!member_disk_full(&o->members[i], &why))
            continue;
        const json_t *pod = o->members[i].pod;
        snprintf(r->message, sizeof r->message, "pod %s on node %s: %s", kube_name(pod),
            jget_str(pod, "spec.nodeName", "(unknown)"), why);
        r->ready.status = COND_FALSE;
        r->ready.reason = "CacheDiskFull";
        r->warn = true;
        return;
    }
}

/* Writes the condition, and the Event if status or reason turned. `said`: the Ready condition's
 * message; the same words twice help nobody, which is why the attach controller alone tells about
 * clients. */
static void settle(const struct dataset_observed *o, json_t *conditions, const struct verdict *r,
    const char *said, struct plan *events)
{
    const json_t *was = jget_arr(o->cr, "status.conditions");
    const json_t *old = cond_find(was, r->ready.type);
    bool turned = !old
        || strcmp(jget_str(old, "status", ""), cond_status_name(r->ready.status)) != 0
        || strcmp(jget_str(old, "reason", ""), r->ready.reason) != 0;
    cond_set(conditions, &r->ready, jget_int(o->cr, "metadata.generation", 0), o->now_ns);
    bool is_ready = strcmp(r->ready.type, DATASET_COND_READY) == 0;
    if (!turned || (said && strstr(r->message, said))
        || strcmp(r->ready.type, DATASET_COND_CLIENTS) == 0)
        return;
    if (r->warn)
        plan_event(events, &kube_datasets, o->cr, true, r->ready.reason, "%s", r->message);
    else if (is_ready && r->ready.status == COND_TRUE)
        plan_event(events, &kube_datasets, o->cr, false, r->ready.reason, "%s", r->message);
}

static void add_report(struct dataset_status *s, const struct member *m, bool workers_cache)
{
    bool client = member_is(m->pod, COMPONENT_CLIENT), worker = member_is(m->pod, COMPONENT_WORKER);
    member_count(m->report, "reads.storeBytes", &s->read_store);
    if (client) {
        member_count(m->report, "cache.usedBytes", &s->client_cached);
        member_count(m->report, "reads.cacheBytes", &s->read_cache);
        member_count(m->report, "reads.workerBytes", &s->read_worker);
        member_count(m->report, "reads.storeBytes", &s->read_direct);
        member_count(m->report, "writes.bytes", &s->written);
        member_count(m->report, "writes.pendingFiles", &s->pending_files);
    }
    if (workers_cache ? worker : client) {
        member_count(m->report, "cache.usedBytes", &s->cached);
        member_count(m->report, "cache.capacityBytes", &s->capacity);
    }
    const json_t *ufs = worker && jget_bool(m->report, "ready", false) ? jget_obj(m->report, "ufs")
                                                                       : NULL;
    if (ufs && !s->has_ufs) {
        s->has_ufs = true;
        s->ufs_complete = jget_bool(ufs, "complete", false);
        member_count(ufs, "bytes", &s->ufs_bytes);
        member_count(ufs, "files", &s->ufs_files);
    }
}

static void count(
    const struct dataset_observed *o, const struct dataset *d, struct dataset_status *s)
{
    s->read_cache = o->retired.cache;
    s->read_worker = o->retired.worker;
    s->read_store = o->retired.store;
    s->read_direct = o->retired.direct;
    s->written = o->retired.written;
    for (size_t i = 0; i < o->nmembers; i++)
        add_report(s, &o->members[i], !d || d->replicas > 0);
}

/* A pod that is starting gets its words when MEMBER_SLOW_NS are over, which no event tells us. */
static void look_again(
    const struct dataset_observed *o, const struct dataset_view *v, struct plan *p)
{
    for (size_t i = 0; i < o->nmembers; i++)
        if (v->views[i].state == MEMBER_STARTING) {
            plan_requeue(p, MEMBER_SLOW_NS / 3);
            return;
        }
}

void dataset_plan_status(const struct dataset_observed *o, const struct dataset_view *v,
    const struct dataset_problem *problem, struct plan *p)
{
    struct group workers = {.component = COMPONENT_WORKER,
        .desired = v->d ? v->d->replicas : (int)jget_int(o->cr, "status.workers.desired", 0)};
    struct group clients = {.component = COMPONENT_CLIENT, .desired = (int)o->nattachments};
    sum_up(o, v, &workers);
    sum_up(o, v, &clients);

    cleanup_plan struct plan events = PLAN_INIT;
    cleanup_json json_t *conditions = cond_copy(json_object_get(o->cr, "status"));
    struct verdict ready, other;
    judge(o, v, problem, &workers, &clients, &ready);
    settle(o, conditions, &ready, NULL, &events);
    judge_group(v, &workers, DATASET_COND_WORKERS, "no cache workers are asked for", &other);
    settle(o, conditions, &other, ready.message, &events);
    judge_group(v, &clients, DATASET_COND_CLIENTS, "no node uses the volume", &other);
    settle(o, conditions, &other, ready.message, &events);
    judge_cache(o, &other);
    settle(o, conditions, &other, ready.message, &events);

    struct dataset_status s = {.phase = ready.phase,
        .conditions = conditions,
        .spec = v->d,
        .workers = {workers.desired, workers.ready, workers.nodes},
        .clients = {clients.desired, clients.ready, clients.nodes}};
    count(o, v->d, &s);
    plan_status(p, &kube_datasets, o->cr, dataset_status_json(o->cr, &s));
    for (size_t i = 0; i < events.n; i++)
        plan_event(p, &kube_datasets, o->cr, events.actions[i].warning, events.actions[i].reason,
            "%s", events.actions[i].message);
    look_again(o, v, p);
}
