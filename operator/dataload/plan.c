/* SPDX-License-Identifier: Apache-2.0 */
/* The next steps for one DataLoad: one loader pod, tried a few times, and a status that follows
 * it. */
#include "operator/dataload/observed.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"
#include "operator/api/dataload.h"
#include "operator/dataload/schedule.h"
#include "operator/dataset/dead_node.h"
#include "operator/render/meta.h"
#include "operator/render/read.h"

#include <stdio.h>
#include <string.h>

#define PATH_NOT_FOUND "PathNotFound"

/* What became of the load so far: text lives here until the conditions are written. */
struct dataload_outcome {
    const char *phase;
    char reason[48], message[600];
    bool warn, stalled;  /* stalled: only a person can mend it */
    const char *started; /* RFC 3339; NULL: it has not run yet */
    struct dataload_progress progress;
    json_t *failures; /* owned; goes with the progress */
};

static void set_reason(struct dataload_outcome *r, const char *reason)
{
    snprintf(r->reason, sizeof r->reason, "%s", reason);
}

static struct dataload_outcome pending(const char *reason, bool warn)
{
    struct dataload_outcome r = {.phase = DATALOAD_PENDING, .warn = warn};
    set_reason(&r, reason);
    return r;
}

static void set_outcome_failed(struct dataload_outcome *r, const char *reason)
{
    r->phase = DATALOAD_FAILED;
    set_reason(r, reason);
    r->warn = r->stalled = true;
}

/* Evicted, say, or deleted. */
static struct dataload_outcome loader_lost(void)
{
    struct dataload_outcome r = pending("Starting", false);
    snprintf(r.message, sizeof r.message, "the loader's pod was lost and is made again");
    return r;
}

static bool is_of_this_run(const json_t *cr, const json_t *pod)
{
    return strcmp(kube_annotation(pod, ANNOTATION_SCHEDULED), dataload_run(cr)) == 0;
}

/* One that is being deleted, on a dead node. */
static bool abandon_loader(const struct dataload_observed *o, size_t at, struct plan *p)
{
    return o->pod_nodes
        && pod_abandon(p, &kube_dataloads, o->cr, o->pods[at].pod, o->pod_nodes[at], o->now_ns);
}

/* That of the run before has the name that the next one needs. */
static bool clear_earlier(const struct dataload_observed *o, struct plan *p)
{
    bool any = false;
    for (size_t i = 0; i < o->npods; i++) {
        const json_t *pod = o->pods[i].pod;
        if (!kube_controlled_by(pod, kube_uid(o->cr)) || is_of_this_run(o->cr, pod))
            continue;
        if (!abandon_loader(o, i, p))
            plan_delete(p, &kube_pods, pod, -1, NULL);
        any = true;
    }
    return any;
}

static const struct cache_pod *find_loader(const struct dataload_observed *o)
{
    for (size_t i = 0; i < o->npods; i++)
        if (kube_controlled_by(o->pods[i].pod, kube_uid(o->cr))
            && is_of_this_run(o->cr, o->pods[i].pod))
            return &o->pods[i];
    return NULL;
}

/* The counters at its end are in the first line of its termination message, fuse/worker/load.c.
 * The caller owns it; NULL: it said nothing. */
static json_t *last_report(const json_t *terminated)
{
    const char *said = jget_str(terminated, "message", "");
    return json_loadb(said, strcspn(said, "\n"), 0, NULL);
}

static void set_last_progress(struct dataload_outcome *r, const json_t *terminated)
{
    cleanup_json json_t *j = last_report(terminated);
    r->progress = dataload_progress_of(jget_obj(j, "load"));
    r->failures = dataload_failures_of(j);
}

static void evaluate_complete(const struct cache_pod *m, struct dataload_outcome *r)
{
    const json_t *ended = jget(cache_pod_container(m->pod), "state.terminated");
    r->phase = DATALOAD_COMPLETE;
    set_reason(r, "Loaded");
    set_last_progress(r, ended);
    if (r->progress.known && r->progress.files == 0) {
        set_outcome_failed(r, "NothingFound");
        snprintf(r->message, sizeof r->message,
            "there are no files to load: put them where spec.mounts of the Dataset says, or correct its mountPoint, and load again");
        return;
    }
    cache_pod_last_line(jget_str(ended, "message", ""), r->message, sizeof r->message);
    if (!*r->message)
        snprintf(r->message, sizeof r->message, "everything was loaded and verified");
}

/* While it runs. Its last pass verifies that everything is there and counts from the start again:
 * the progress stays at what it was. */
static void evaluate_running(
    const struct cache_pod *m, const struct cache_pod_health *v, struct dataload_outcome *r)
{
    const json_t *load = jget_obj(m->report, "load");
    bool verifying = jget_bool(load, "verifying", false);
    if (!verifying) {
        r->progress = dataload_progress_of(load);
        r->failures = dataload_failures_of(m->report);
    }
    set_reason(r, verifying ? "Verifying" : "Loading");
    snprintf(r->message, sizeof r->message, "%s",
        verifying ? "looking whether everything is in the cache" : "loading");
    if (!v->store_problem)
        return;
    set_reason(r, v->reason);
    r->warn = true;
    r->stalled = v->stalled;
    snprintf(r->message, sizeof r->message, "%s", v->message);
}

/* Before there is a loader: sets what it has to wait for. true: nothing, it can start. d: NULL
 * if the Dataset is not valid. */
static bool may_start(const struct dataload_observed *o, const struct dataload *l,
    const struct dataset *d, const struct err *invalid, struct dataload_outcome *r)
{
    const json_t *conditions = jget_arr(o->dataset, "status.conditions");
    if (!o->dataset) {
        *r = pending("DatasetNotFound", true);
        snprintf(r->message, sizeof r->message,
            "there is no Dataset %s in namespace %s: make it, or correct spec.dataset.name",
            l->dataset, l->ns);
    } else if (!cond_is_true(conditions, DATASET_COND_READY)) {
        *r = pending("DatasetNotReady", false);
        snprintf(r->message, sizeof r->message, "Dataset %s is not ready: %s", l->dataset,
            cond_unseen(conditions) ? "it was just made"
                                    : cond_message(conditions, DATASET_COND_READY));
        r->stalled = cond_is_true(conditions, DATASET_COND_STALLED);
    } else if (!d) {
        *r = pending("DatasetNotReady", false);
        snprintf(
            r->message, sizeof r->message, "Dataset %s is not valid: %s", l->dataset, invalid->msg);
    } else if (d->replicas == 0) {
        *r = pending("NoWorkers", true);
        snprintf(r->message, sizeof r->message,
            "Dataset %s has no cache workers to load into: set its spec.cache.replicas",
            l->dataset);
        r->stalled = true;
    } else if (l->pin >= 0 && d->npreload) {
        *r = pending("PinnedByPreload", true);
        snprintf(r->message, sizeof r->message,
            "Dataset %s has spec.cache.preload, which alone says what is pinned: give a path there pin: true, and make a DataLoad without spec.pin",
            l->dataset);
        r->stalled = true;
    } else if (!cond_is_true(conditions, DATASET_COND_WORKERS)) {
        *r = pending("WorkersNotReady", false);
        snprintf(r->message, sizeof r->message, "waiting for the cache workers of Dataset %s: %s",
            l->dataset, cond_message(conditions, DATASET_COND_WORKERS));
    } else {
        return true;
    }
    return false;
}

/* What only a person can mend, known before a load is due. */
static bool has_problem(
    const struct dataload_observed *o, const struct dataload *l, struct dataload_outcome *r)
{
    const char *reason = "";
    struct err e = ERR_INIT;
    cleanup_dataset struct dataset *d = o->dataset ? render_read(o->dataset, &o->env, &reason, &e)
                                                   : NULL;
    return !may_start(o, l, d, &e, r) && r->warn;
}

static void start_loader(const struct dataload_observed *o, const struct dataload *l,
    struct dataload_outcome *r, struct plan *p)
{
    const char *reason = "";
    struct err e = ERR_INIT;
    cleanup_dataset struct dataset *d = o->dataset ? render_read(o->dataset, &o->env, &reason, &e)
                                                   : NULL;
    if (!may_start(o, l, d, &e, r))
        return;
    cleanup_json json_t *paths = dataload_paths(l);
    const struct loader_words words = {paths, l->pin, l->bandwidth, dataload_run(o->cr)};
    cleanup_json json_t *pod = render_loader(d, &o->env, o->cr, &words);
    const struct cache_pod_making making = {.d = d,
        .env = &o->env,
        .workers = d->replicas,
        .key_made = cache_pod_key_made(d, &o->env, o->pods, o->npods, o->said),
        .said = o->said,
        .now_ns = o->now_ns};
    const char *refused = cache_pod_create_heard(p, &making, json_incref(pod));
    *r = pending("Starting", refused != NULL);
    snprintf(r->message, sizeof r->message, "the loader is starting");
    if (!refused)
        return;
    set_reason(
        r, cache_pod_say_unmade(o->dataset, o->said, pod, refused, r->message, sizeof r->message));
    r->stalled = true;
}

/* What trying again does not mend: an end with that exit status, whatever kubelet does next. */
static const json_t *final_end(const json_t *container)
{
    static const char *const where[] = {"state.terminated", "lastState.terminated"};
    for (size_t i = 0; i < ARRAY_LEN(where); i++)
        if (jget_int(jget(container, where[i]), "exitCode", 0) == LOADER_EXIT_FINAL)
            return jget(container, where[i]);
    return NULL;
}

static void evaluate_final(const json_t *ended, bool by_schedule, struct dataload_outcome *r)
{
    set_outcome_failed(r, "LoadFailed");
    set_last_progress(r, ended);
    cache_pod_last_line(jget_str(ended, "message", ""), r->message, sizeof r->message);
    if (!*r->message)
        snprintf(r->message, sizeof r->message,
            "the loader ended with exit code %d: trying again does not help", LOADER_EXIT_FINAL);
    cleanup_json json_t *report = last_report(ended);
    if (strcmp(jget_str(report, REPORT_LOAD_REASON, ""), PATH_NOT_FOUND) != 0)
        return;
    set_reason(r, PATH_NOT_FOUND);
    size_t len = MIN(strlen(r->message), (size_t)400);
    snprintf(r->message + len, sizeof r->message - len,
        ": correct spec.target[].path in a new DataLoad, or put files there and %s",
        by_schedule ? "wait for the next" : "make it again");
}

static void evaluate_loader(const struct dataload_observed *o, const struct cache_pod *m,
    struct dataload_outcome *r, struct plan *p)
{
    const json_t *c = cache_pod_container(m->pod);
    struct cache_pod_health v;
    cache_pod_evaluate(m, NULL, o->now_ns, &v);
    *r = pending("Starting", false);
    if (jget(c, "state.running") || jget(c, "state.terminated")
        || jget_int(c, "restartCount", 0) > 0)
        r->started = jget_str(m->pod, "status.startTime", NULL);
    if (r->started)
        r->phase = DATALOAD_EXECUTING;
    if (strcmp(jget_str(m->pod, "status.phase", ""), "Succeeded") == 0) {
        evaluate_complete(m, r);
    } else if (final_end(c)) {
        evaluate_final(final_end(c), *dataload_run(o->cr), r);
        plan_delete(p, &kube_pods, m->pod, -1, NULL);
    } else if (jget_int(c, "restartCount", 0) >= DATALOAD_TRIES - 1 && v.state == CACHE_POD_PROBLEM
        && !jget(c, "state.running")) {
        set_outcome_failed(r, "LoadFailed");
        set_last_progress(r, jget(c, "lastState.terminated"));
        snprintf(r->message, sizeof r->message, "the loader was tried %d times: %s", DATALOAD_TRIES,
            v.message);
        plan_delete(p, &kube_pods, m->pod, -1, NULL); /* or kubelet would go on trying */
    } else if (v.rest_ns) {
        set_reason(r, v.reason);
        r->warn = true;
        snprintf(r->message, sizeof r->message, "%s", v.message);
        plan_requeue(p, v.rest_ns);
    } else if (v.state == CACHE_POD_FINISHED) {
        *r = loader_lost();
        plan_delete(p, &kube_pods, m->pod, -1, NULL);
    } else if (v.state == CACHE_POD_PROBLEM && !jget(c, "state.running")) {
        set_reason(r, v.reason);
        r->warn = true;
        r->stalled = v.stalled;
        snprintf(r->message, sizeof r->message, "%s", v.message);
    } else if (r->started) {
        evaluate_running(m, &v, r);
    } else {
        snprintf(r->message, sizeof r->message, "the loader is starting");
    }
}

static void dataload_evaluate(
    const struct dataload_observed *o, struct dataload_outcome *r, struct plan *p)
{
    struct dataload l;
    struct err e = ERR_INIT;
    const struct cache_pod *m = find_loader(o);
    *r = pending("Starting", false);
    if (dataload_parse(o->cr, &l, &e)) {
        set_outcome_failed(r, "InvalidSpec");
        snprintf(r->message, sizeof r->message, "%s", e.msg);
        if (m)
            plan_delete(p, &kube_pods, m->pod, -1, NULL);
    } else if (o->dataset && kube_deleting(o->dataset)) {
        set_outcome_failed(r, "DatasetDeleted");
        snprintf(r->message, sizeof r->message, "Dataset %s is being deleted", l.dataset);
        if (m)
            plan_delete(p, &kube_pods, m->pod, -1, NULL);
    } else if (clear_earlier(o, p)) {
        snprintf(r->message, sizeof r->message, "the pod of the load before goes first");
    } else if (m && kube_deleting(m->pod)) {
        abandon_loader(o, (size_t)(m - o->pods), p);
        *r = loader_lost();
    } else if (m) {
        evaluate_loader(o, m, r, p);
    } else {
        start_loader(o, &l, r, p);
    }
}

static void write_status(
    const struct dataload_observed *o, const struct dataload_outcome *r, struct plan *p)
{
    const json_t *was = jget_arr(o->cr, "status.conditions");
    int64_t generation = jget_int(o->cr, "metadata.generation", 0);
    bool complete = strcmp(r->phase, DATALOAD_COMPLETE) == 0,
         failed = strcmp(r->phase, DATALOAD_FAILED) == 0;
    bool by_schedule = *dataload_run(o->cr) && !failed && !r->warn && !r->stalled
        && (r->started || strcmp(r->reason, "Starting") == 0);
    bool changed = strcmp(cond_reason(was, DATALOAD_COND_COMPLETE), r->reason) != 0;
    cleanup_json json_t *conditions = cond_copy(json_object_get(o->cr, "status"));
    const enum cond_status status = complete ? COND_TRUE : COND_FALSE;
    const struct cond done = {DATALOAD_COND_COMPLETE, status, r->reason, r->message};
    const struct cond ready = {DATALOAD_COND_READY,
        complete || by_schedule ? COND_TRUE : COND_FALSE, r->reason, r->message};
    const struct cond bad = {DATALOAD_COND_FAILED, COND_TRUE, r->reason, r->message};
    cond_set(conditions, &done, generation, o->now_ns);
    cond_set(conditions, &ready, generation, o->now_ns);
    cond_set_progress(conditions,
        complete || by_schedule ? COND_SETTLED
            : r->stalled        ? COND_STALLED
                                : COND_RECONCILING,
        r->reason, r->message, generation, o->now_ns);
    if (failed)
        cond_set(conditions, &bad, generation, o->now_ns);
    const struct dataload_status s = {.phase = r->phase,
        .conditions = conditions,
        .progress = r->progress,
        .failures = r->failures,
        .started = r->started,
        .finished = complete || failed,
        .now_ns = o->now_ns};
    plan_status(p, &kube_dataloads, o->cr, dataload_status_json(o->cr, &s));
    if (changed && (r->warn || complete))
        plan_event(p, &kube_dataloads, o->cr, r->warn, r->reason, "%s", r->message);
    /* a slow start is explained by then */
    if (!complete && !failed && !r->started && find_loader(o))
        plan_requeue(p, CACHE_POD_SLOW_NS);
}

/* A finished one is left as it is, until its time is over. */
static void plan_finished(
    const struct dataload_observed *o, const struct dataload *l, struct plan *p)
{
    int64_t expiry = dataload_expiry(o->cr, l);
    if (expiry < 0)
        return;
    if (expiry > o->now_ns)
        plan_requeue(p, expiry - o->now_ns);
    else
        plan_delete(p, &kube_dataloads, o->cr, -1, "Background");
}

void dataload_plan(const struct dataload_observed *o, struct plan *p)
{
    if (!o->cr || kube_deleting(o->cr))
        return;
    struct dataload l;
    struct err e = ERR_INIT;
    bool valid = dataload_parse(o->cr, &l, &e) == 0, schedule = jget(o->cr, "spec.schedule");
    struct dataload_outcome t = {.warn = false};
    bool problem = valid && l.schedule && has_problem(o, &l, &t);
    const struct cond said = {DATALOAD_COND_READY, COND_FALSE, t.reason, t.message};
    if (valid && schedule_rests(o, &l, problem ? &said : NULL, p))
        return;
    cleanup_json json_t *begun = valid ? schedule_begin(o, &l) : NULL;
    if (!begun && dataload_finished(o->cr) && (valid || !schedule)) {
        plan_finished(o, &l, p);
        return;
    }
    struct dataload_observed run = *o;
    struct dataload_outcome r;
    if (begun) { /* first: what is refused then is refused to this run */
        plan_status(p, &kube_dataloads, o->cr, json_incref(json_object_get(begun, "status")));
        run.cr = begun;
    }
    dataload_evaluate(&run, &r, p);
    write_status(&run, &r, p);
    json_decref(r.failures);
}
