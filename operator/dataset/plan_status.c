/* SPDX-License-Identifier: Apache-2.0 */
/* The conditions of a Dataset, its counters, and the Events that say what changed. */
#include "operator/dataset/observed.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/api/cond.h"
#include "operator/render/volume.h"

#define REFUSED "ApplyFailed"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One component — the workers, or the clients — summed up. */
struct pod_group {
    const char *component;
    int desired, ready, current_ready; /* current_ready: of those made of the spec as it is */
    /* index of the first pod with a problem, SIZE_MAX if none; one of the store comes first */
    size_t problem_at;
    json_t *nodes; /* of those that are ready */
};

static void count_pods(
    const struct dataset_observed *o, const struct dataset_eval *v, struct pod_group *g)
{
    g->problem_at = SIZE_MAX;
    g->nodes = json_array();
    for (size_t i = 0; i < o->npods; i++) {
        const struct cache_pod_health *m = &v->health[i];
        if (!cache_pod_is(o->pods[i].pod, g->component))
            continue;
        switch (m->state) {
        case CACHE_POD_READY:
            g->ready++;
            g->current_ready += v->current[i];
            json_array_append_new(g->nodes, json_string(m->node));
            break;
        case CACHE_POD_PROBLEM:
            if (g->problem_at == SIZE_MAX
                || (m->store_problem && !v->health[g->problem_at].store_problem))
                g->problem_at = i;
            break;
        case CACHE_POD_FINISHED:
            if (m->rest_ns && g->problem_at == SIZE_MAX)
                g->problem_at = i;
            break;
        case CACHE_POD_LEAVING:
            if (m->held_ns == 1 && g->problem_at == SIZE_MAX)
                g->problem_at = i;
            break;
        case CACHE_POD_STARTING:
            break;
        }
    }
}

/* One condition as it will be: its text lives here until it is written. */
struct dataset_condition {
    const char *phase;
    struct cond cond;
    enum cond_progress progress; /* of Ready only */
    char message[640];
    bool warn; /* the transition to it is a Warning */
    bool tell; /* of ClientsReady: the attach controller does not */
};

static void set_ready(struct dataset_condition *r, const char *phase, enum cond_status status,
    const char *reason, bool warn)
{
    r->phase = phase;
    r->warn = warn;
    r->progress = status == COND_TRUE ? COND_SETTLED : COND_RECONCILING;
    r->cond = (struct cond){DATASET_COND_READY, status, reason, r->message};
}

/* Was it ready with this very spec? Then a restart of its pods changes nothing. */
static bool was_ready(const struct dataset_observed *o)
{
    const json_t *conditions = jget_arr(o->cr, "status.conditions");
    return cond_is_true(conditions, DATASET_COND_READY)
        && jget_int(cond_find(conditions, DATASET_COND_READY), "observedGeneration", -1)
        == jget_int(o->cr, "metadata.generation", 0);
}

/* Pods of before serve on, since those of the new spec are refused; or that is being asked. */
static bool stays_as_it_was(const struct dataset_observed *o, const struct dataset_eval *v)
{
    return (v->asks || *v->refused || v->clients.refused)
        && cond_is_true(jget_arr(o->cr, "status.conditions"), DATASET_COND_READY);
}

/* Without workers, a client that its own node keeps from running says nothing of the others: jobs
 * may start there. */
static bool is_of_one_node(
    const struct dataset_eval *v, const struct pod_group *workers, size_t problem_at)
{
    return workers->desired == 0 && problem_at != SIZE_MAX && !v->health[problem_at].store_problem;
}

/* The store will have none that starts now, wherever: those that run may read on. */
static bool is_denied(const struct dataset_eval *v, size_t problem_at)
{
    return problem_at != SIZE_MAX && v->health[problem_at].store_problem
        && v->health[problem_at].stalled;
}

/* The store has refused this very spec, and nobody has asked it since. */
static bool was_refused(const struct dataset_observed *o)
{
    return strcmp(jget_str(o->cr, "status.phase", ""), DATASET_FAILED) == 0
        && jget_int(o->cr, "status.observedGeneration", -1)
        == jget_int(o->cr, "metadata.generation", 0);
}

static void evaluate_pods(const struct dataset_observed *o, const struct dataset_eval *v,
    const struct pod_group *workers, const struct pod_group *clients, struct dataset_condition *r)
{
    size_t problem_at = workers->problem_at, lacks = dataset_lacks_claim(o, v->d);
    if (lacks != SIZE_MAX && !workers->ready && !clients->ready) {
        cache_pod_say_no_claim(v->d, lacks, r->message, sizeof r->message);
        set_ready(r, DATASET_FAILED, COND_FALSE, "ClaimMissing", true);
        r->progress = COND_STALLED;
        return;
    }
    if (clients->problem_at != SIZE_MAX
        && (problem_at == SIZE_MAX
            || (v->health[clients->problem_at].store_problem
                && !v->health[problem_at].store_problem)))
        problem_at = clients->problem_at;
    bool of_node = is_of_one_node(v, workers, problem_at);
    if ((workers->current_ready || clients->current_ready) && !is_denied(v, problem_at)) {
        snprintf(r->message, sizeof r->message, "pods can mount the PersistentVolumeClaim %s",
            kube_name(o->cr));
        set_ready(r, DATASET_BOUND, COND_TRUE, "Ready", false);
    } else if (problem_at != SIZE_MAX && !of_node) {
        const struct cache_pod_health *m = &v->health[problem_at];
        snprintf(r->message, sizeof r->message, "%s", m->message);
        set_ready(
            r, m->store_problem ? DATASET_FAILED : DATASET_NOT_BOUND, COND_FALSE, m->reason, true);
        if (m->stalled)
            r->progress = COND_STALLED;
    } else if (of_node && was_refused(o)) {
        const json_t *was = cond_find(jget_arr(o->cr, "status.conditions"), DATASET_COND_READY);
        snprintf(r->message, sizeof r->message, "%s", jget_str(was, "message", ""));
        set_ready(r, DATASET_FAILED, COND_FALSE, jget_str(was, "reason", ""), true);
        if (cond_is_true(jget_arr(o->cr, "status.conditions"), DATASET_COND_STALLED))
            r->progress = COND_STALLED;
    } else if (workers->desired == 0 && (clients->desired == 0 || of_node)) {
        snprintf(r->message, sizeof r->message,
            "pods can mount the PersistentVolumeClaim %s; its store is asked when the first one does",
            kube_name(o->cr));
        set_ready(r, DATASET_BOUND, COND_TRUE, "Ready", false);
    } else if (*v->refused && workers->ready + clients->ready == 0) {
        snprintf(r->message, sizeof r->message, "%s", v->refused);
        set_ready(
            r, DATASET_FAILED, COND_FALSE, v->refused_reason ? v->refused_reason : REFUSED, true);
        r->progress = COND_STALLED;
    } else if (was_ready(o) || (stays_as_it_was(o, v) && workers->ready + clients->ready > 0)) {
        snprintf(r->message, sizeof r->message, "pods can mount the PersistentVolumeClaim %s",
            kube_name(o->cr));
        set_ready(r, DATASET_BOUND, COND_TRUE, "Ready", false);
    } else if (workers->ready || clients->ready) {
        snprintf(r->message, sizeof r->message,
            "the spec was changed: the first pod made of it is starting, the others still serve the old one");
        set_ready(r, DATASET_BOUND, COND_FALSE, "Updating", false);
    } else {
        snprintf(r->message, sizeof r->message,
            "the first cache worker or client is starting and asks the store");
        set_ready(r, DATASET_NOT_BOUND, COND_FALSE, "Starting", false);
    }
}

static void evaluate_ready(const struct dataset_observed *o, const struct dataset_eval *v,
    const struct dataset_problem *problem, const struct pod_group *workers,
    const struct pod_group *clients, struct dataset_condition *r)
{
    if (problem->reason) {
        snprintf(r->message, sizeof r->message, "%s", problem->message);
        set_ready(r, DATASET_FAILED, COND_FALSE, problem->reason, true);
        r->progress = problem->passes ? COND_RECONCILING : COND_STALLED;
        return;
    }
    const char *phase = jget_str(o->pvc, "status.phase", "");
    if (strcmp(phase, "Bound") != 0) {
        bool lost = strcmp(phase, "Lost") == 0;
        snprintf(r->message, sizeof r->message, "PersistentVolumeClaim %s is %s: %s",
            kube_name(o->cr), *phase ? phase : "being made",
            lost ? "its PersistentVolume is gone: delete the claim, it is made again"
                 : "waiting for Kubernetes to bind it");
        set_ready(r, DATASET_NOT_BOUND, COND_FALSE, "VolumeNotBound", lost);
        if (lost)
            r->progress = COND_STALLED;
        return;
    }
    if (kube_deleting(o->pvc)) {
        snprintf(r->message, sizeof r->message,
            "PersistentVolumeClaim %s is being deleted: no new pod can use it; it is made again when those that do have ended",
            kube_name(o->cr));
        set_ready(r, DATASET_NOT_BOUND, COND_FALSE, "VolumeNotBound", true);
        return;
    }
    evaluate_pods(o, v, workers, clients, r);
}

/* All serve, but an update stands still meanwhile. */
static void say_what_waits(const struct dataset_eval *v, struct dataset_condition *r, int len)
{
    char until[CLOCK_RFC3339_LEN];
    if (!v->roll_waits_until_ns)
        return;
    clock_rfc3339(v->roll_waits_until_ns, until);
    snprintf(r->message + len, sizeof r->message - (size_t)len,
        "; the next one that is to be replaced waits for what was preloaded to be in the cache again, at most until %s",
        until);
}

/* WorkersReady, ClientsReady. Without a valid spec it is unknown how many workers there should be.
 */
static void evaluate_group(const struct dataset_eval *v, const struct pod_group *g,
    const char *type, const char *none, const char *refused, struct dataset_condition *r)
{
    bool client = strcmp(g->component, COMPONENT_CLIENT) == 0;
    const char *who = client ? "nodes that use it have" : "cache workers are",
               *what = client ? "a serving client" : "ready";
    r->cond = (struct cond){type, COND_TRUE, "AllReady", r->message};
    r->warn = false;
    r->tell = false;
    if (!v->d && !client) {
        snprintf(r->message, sizeof r->message, "%d run; the spec is not valid", g->ready);
        r->cond.status = COND_UNKNOWN;
        r->cond.reason = "InvalidSpec";
        return;
    }
    if (g->desired == 0) {
        snprintf(r->message, sizeof r->message, "%s", none);
        r->cond.reason = "None";
        return;
    }
    int len = snprintf(
        r->message, sizeof r->message, "%d of %d %s %s", g->ready, g->desired, who, what);
    if (!client && v->d->asked > v->d->replicas)
        len += snprintf(r->message + len, sizeof r->message - (size_t)len,
            " (spec.cache.replicas: %d; no more are made than 16, and 4 for each node)",
            v->d->asked);
    if (*refused) {
        snprintf(r->message + len, sizeof r->message - (size_t)len, ": %s", refused);
        r->cond.status = COND_FALSE;
        r->cond.reason = !client && v->refused_reason ? v->refused_reason : REFUSED;
        r->warn = r->tell = true;
        return;
    }
    char words[DATASET_WORDS_LEN];
    if (!client && dataset_unresolvable(v->d, words)) {
        snprintf(r->message + len, sizeof r->message - (size_t)len, ": %s", words);
        r->cond.status = COND_FALSE;
        r->cond.reason = "NameTooLong";
        r->warn = r->tell = true;
        return;
    }
    if (g->ready >= g->desired) {
        if (!client)
            say_what_waits(v, r, len);
        return;
    }
    r->cond.status = COND_FALSE;
    r->cond.reason = "Starting";
    if (g->problem_at == SIZE_MAX)
        return;
    const struct cache_pod_health *m = &v->health[g->problem_at];
    snprintf(r->message + len, sizeof r->message - (size_t)len, ": %s", m->message);
    r->cond.reason = m->reason;
    r->warn = true;
    r->tell = m->slow;
}

/* The first client of a new spec, or image, does not serve: the others stay as they are. */
static void write_paused(const struct dataset_observed *o, json_t *conditions,
    const struct clients *s, struct plan *events)
{
    const struct node_client *c = s->paused;
    if (!c) {
        cond_remove(conditions, DATASET_COND_PAUSED);
        return;
    }
    char message[640];
    snprintf(message, sizeof message,
        "%zu of %zu clients are updated, the others still serve as they were made: the client on node %s does not serve: %s",
        s->current, s->current + s->outdated, c->node, c->health.message);
    const struct cond cond = {DATASET_COND_PAUSED, COND_TRUE, c->health.reason, message};
    bool was = cond_is_true(jget_arr(o->cr, "status.conditions"), DATASET_COND_PAUSED);
    cond_set(conditions, &cond, jget_int(o->cr, "metadata.generation", 0), o->now_ns);
    if (!was)
        plan_event(events, &kube_datasets, o->cr, true, DATASET_COND_PAUSED, "%s", message);
}

static void evaluate_cache(
    const struct dataset_observed *o, struct dataset_condition *r, struct plan *p)
{
    int64_t wait_ns;
    r->cond = (struct cond){DATASET_COND_CACHE, COND_TRUE, "NoTrouble", r->message};
    r->warn = false;
    snprintf(r->message, sizeof r->message, "no cache has reported trouble");
    if (dataset_disk_full(o, r->message, sizeof r->message)) {
        r->cond.status = COND_FALSE;
        r->cond.reason = "CacheDiskFull";
    } else {
        bool not_heard = dataset_not_heard(o, r->message, sizeof r->message, &wait_ns);
        if (wait_ns >= 0)
            plan_requeue(p, wait_ns);
        if (!not_heard)
            return;
        r->cond.status = COND_UNKNOWN;
        r->cond.reason = "NotReached";
    }
    r->warn = true;
}

/* Writes the condition, and an Event if its status or reason changed. `said`: the Ready condition's
 * message, which is not repeated; nor are clients, of which the attach controller tells. */
static void write_condition(const struct dataset_observed *o, json_t *conditions,
    const struct dataset_condition *r, const char *said, struct plan *events)
{
    const json_t *was = jget_arr(o->cr, "status.conditions");
    const json_t *old = cond_find(was, r->cond.type);
    bool changed = !old
        || strcmp(jget_str(old, "status", ""), cond_status_name(r->cond.status)) != 0
        || strcmp(jget_str(old, "reason", ""), r->cond.reason) != 0;
    cond_set(conditions, &r->cond, jget_int(o->cr, "metadata.generation", 0), o->now_ns);
    bool is_news = strcmp(r->cond.type, DATASET_COND_READY) == 0
        || strcmp(r->cond.type, DATASET_COND_PRELOADED) == 0;
    if (!changed || (said && strstr(r->message, said))
        || (strcmp(r->cond.type, DATASET_COND_CLIENTS) == 0 && !r->tell))
        return;
    if (r->warn)
        plan_event(events, &kube_datasets, o->cr, true, r->cond.reason, "%s", r->message);
    else if (is_news && (r->cond.status == COND_TRUE || strcmp(r->cond.reason, "Loading") == 0))
        plan_event(events, &kube_datasets, o->cr, false, r->cond.reason, "%s", r->message);
}

/* All clients serve, but some pods have a mount that is dead: each loss is an Event. */
static void write_lost(
    const struct dataset_observed *o, struct dataset_condition *clients, struct plan *events)
{
    const json_t *old = cond_find(jget_arr(o->cr, "status.conditions"), DATASET_COND_CLIENTS);
    if (clients->cond.status != COND_TRUE
        || !dataset_lost_mount(o, clients->message, sizeof clients->message))
        return;
    clients->cond.reason = "MountLost";
    if (strcmp(jget_str(old, "message", ""), clients->message) != 0)
        plan_event(
            events, &kube_datasets, o->cr, true, clients->cond.reason, "%s", clients->message);
}

static void write_preloaded(const struct dataset_observed *o, json_t *conditions,
    const struct dataset_preloading *preload, const char *said, struct plan *events)
{
    if (!preload->asked) {
        cond_remove(conditions, DATASET_COND_PRELOADED);
        return;
    }
    struct dataset_condition c = {.warn = preload->warn};
    snprintf(c.message, sizeof c.message, "%s", preload->message);
    c.cond = preload->cond;
    c.cond.message = c.message;
    write_condition(o, conditions, &c, said, events);
}

/* A pod that is still starting after CACHE_POD_SLOW_NS has a problem; no event says when. */
static void requeue_starting(
    const struct dataset_observed *o, const struct dataset_eval *v, struct plan *p)
{
    for (size_t i = 0; i < o->npods; i++)
        if (v->health[i].state == CACHE_POD_STARTING) {
            plan_requeue(p, CACHE_POD_SLOW_NS / 3);
            return;
        }
}

/* Without an Event: nothing is wrong, and describe shows it. */
static void write_advice(
    const struct dataset_observed *o, json_t *conditions, const struct dataset_advice *a)
{
    if (!a->keep)
        cond_set(conditions, &a->cond, jget_int(o->cr, "metadata.generation", 0), o->now_ns);
}

/* What the server refuses of workers and clients, "" where nothing is. While it is asked anew, what
 * it said before stays. */
static void take_refusals(const struct dataset_observed *o, const struct dataset_eval *v,
    char workers[sizeof v->refused], char clients[sizeof v->refused])
{
    const json_t *was = jget_arr(o->cr, "status.conditions");
    const struct node_client *c = v->clients.refused;
    snprintf(workers, sizeof v->refused, "%s", v->refused);
    *clients = '\0';
    if (v->asks && strcmp(cond_reason(was, DATASET_COND_WORKERS), REFUSED) == 0) {
        const char *said = strstr(
            jget_str(cond_find(was, DATASET_COND_WORKERS), "message", ""), ": ");
        snprintf(workers, sizeof v->refused, "%s", said ? said + 2 : "");
    }
    if (c)
        dataset_say_refused(o->cr, c->pod->pod, c->refused, clients, sizeof v->refused);
}

/* Of a spec that is refused in part, Ready says nothing. */
static void write_progress(const struct dataset_observed *o, json_t *conditions,
    const struct dataset_condition *ready, const char *refused)
{
    bool stalled = *refused && ready->cond.status == COND_TRUE;
    cond_set_progress(conditions, stalled ? COND_STALLED : ready->progress,
        stalled ? REFUSED : ready->cond.reason, stalled ? refused : ready->message,
        jget_int(o->cr, "metadata.generation", 0), o->now_ns);
}

void dataset_plan_status(const struct dataset_observed *o, const struct dataset_eval *v,
    const struct dataset_problem *problem, const struct dataset_preloading *preload, struct plan *p)
{
    struct pod_group workers = {.component = COMPONENT_WORKER,
        .desired = v->d ? v->d->replicas : (int)jget_int(o->cr, "status.workers.desired", 0)};
    struct pod_group clients = {.component = COMPONENT_CLIENT, .desired = (int)o->nattachments};
    count_pods(o, v, &workers);
    count_pods(o, v, &clients);

    cleanup_plan struct plan events = PLAN_INIT;
    cleanup_json json_t *conditions = cond_copy(json_object_get(o->cr, "status"));
    struct dataset_condition ready, other;
    char clients_refused[sizeof v->refused], workers_refused[sizeof v->refused];
    take_refusals(o, v, workers_refused, clients_refused);
    evaluate_ready(o, v, problem, &workers, &clients, &ready);
    write_condition(o, conditions, &ready, NULL, &events);
    write_progress(o, conditions, &ready,
        *workers_refused       ? workers_refused
            : *clients_refused ? clients_refused
                               : preload->refused);
    evaluate_group(v, &workers, DATASET_COND_WORKERS, "no cache workers are asked for",
        workers_refused, &other);
    write_condition(o, conditions, &other, ready.message, &events);
    evaluate_group(
        v, &clients, DATASET_COND_CLIENTS, "no node uses the volume", clients_refused, &other);
    write_lost(o, &other, &events);
    write_condition(o, conditions, &other, ready.message, &events);
    write_paused(o, conditions, &v->clients, &events);
    evaluate_cache(o, &other, p);
    write_condition(o, conditions, &other, ready.message, &events);
    write_preloaded(o, conditions, preload, ready.message, &events);

    cleanup_free char *key = v->making.key_made ? render_key_name(v->d, o->env.master) : NULL;
    struct dataset_status s = {.phase = ready.phase,
        .key_secret = v->d ? key : jget_str(o->cr, "status.keySecret", NULL),
        .conditions = conditions,
        .spec = v->d,
        .has_preload = preload->asked || preload->ending,
        .preload = preload->progress,
        .workers = {.desired = workers.desired, .ready = workers.ready, .nodes = workers.nodes},
        .clients = {.desired = clients.desired,
            .ready = clients.ready,
            .nodes = clients.nodes,
            .rolls = v->d && clients.desired,
            .current = (int)v->clients.current,
            .outdated = (int)v->clients.outdated}};
    dataset_count(o, v->d, preload, &s);
    s.unheard = dataset_unheard(o);
    dataset_plan_kept(o, conditions, &s, &events);
    struct dataset_advice advice;
    dataset_advise_cache(o, &s, &advice);
    write_advice(o, conditions, &advice);
    dataset_advise_speed(o, clients.desired, &advice);
    write_advice(o, conditions, &advice);
    plan_status(p, &kube_datasets, o->cr, dataset_status_json(o->cr, &s));
    plan_move(p, &events);
    requeue_starting(o, v, p);
}
