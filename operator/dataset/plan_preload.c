/* SPDX-License-Identifier: Apache-2.0 */
/* spec.cache.preload: one pod that loads the paths into the workers and keeps them there, and the
 * condition Preloaded, which believes nothing but that pod's word about workers that all serve. */
#include "operator/dataset/observed.h"

#include "lib/base/clock.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/text.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"
#include "operator/ctl/verdicts.h"
#include "operator/dataset/report_news.h"
#include "operator/render/meta.h"

#include <stdio.h>
#include <string.h>

#define EVICTED                                                                            \
    "a cache worker has evicted some of it: what is left is being looked at, the rest is " \
    "loaded again; if that comes often, raise spec.cache.tiers[].quota, or pin what must stay"

/* Behind what was true when the store last answered. */
#define SILENT \
    "; the store does not answer, so changes in it are not seen, and nothing is loaded, until it does: "

static bool is_preloader(const struct dataset_observed *o, const json_t *pod)
{
    return cache_pod_is(pod, COMPONENT_LOADER) && kube_controlled_by(pod, kube_uid(o->cr));
}

static const struct cache_pod *find_preloader(const struct dataset_observed *o, size_t *at)
{
    for (*at = 0; *at < o->npods; (*at)++)
        if (is_preloader(o, o->pods[*at].pod))
            return &o->pods[*at];
    return NULL;
}

static void set_preloaded(
    struct dataset_preloading *r, enum cond_status status, const char *reason, bool warn)
{
    snprintf(r->reason, sizeof r->reason, "%s", reason);
    r->cond = (struct cond){DATASET_COND_PRELOADED, status, r->reason, r->message};
    r->warn = warn;
}

/* ---- the workers ---- */

/* true: all of them serve. Otherwise r says what is missing; a store that they cannot read is
 * theirs to tell. */
static bool workers_serve(
    const struct dataset_observed *o, const struct dataset_eval *v, struct dataset_preloading *r)
{
    int ready = 0;
    const struct cache_pod_health *problem = NULL;
    char words[DATASET_WORDS_LEN];
    if (dataset_unresolvable(v->d, words)) {
        snprintf(r->message, sizeof r->message, "cache workers cannot be used: %s", words);
        set_preloaded(r, COND_FALSE, "NameTooLong", true);
        return false;
    }
    for (size_t i = 0; i < o->npods; i++) {
        if (!cache_pod_is(o->pods[i].pod, COMPONENT_WORKER))
            continue;
        ready += v->health[i].state == CACHE_POD_READY;
        if (v->health[i].state == CACHE_POD_PROBLEM && (!problem || v->health[i].store_problem))
            problem = &v->health[i];
    }
    if (ready >= v->d->replicas)
        return true;
    snprintf(r->message, sizeof r->message, "%d of %d cache workers are ready%s%s", ready,
        v->d->replicas, problem ? ": " : "", problem ? problem->message : "");
    set_preloaded(r, COND_FALSE,
        problem && problem->store_problem ? problem->reason : "WorkersNotReady", problem != NULL);
    return false;
}

/* When kubelet began the worker's container; 0: not known. */
static int64_t container_began(const json_t *pod)
{
    int64_t ns = 0;
    clock_parse_rfc3339(jget_str(cache_pod_container(pod), "state.running.startedAt", ""), &ns);
    return ns;
}

/* Are the workers those that the pod found everything in? A worker's report that is older than its
 * container is of another process. */
static bool workers_are_those(const struct dataset_eval *v, const json_t *load)
{
    uint64_t starts = 0;
    char text[REPORT_STARTS_LEN];
    for (int i = 0; i < v->d->replicas; i++) {
        const struct cache_pod *w = dataset_worker(v, i);
        int64_t ms = jget_int(w ? w->report : NULL, REPORT_STARTED, 0);
        if (ms <= 0 || ms / 1000 + 1 < container_began(w->pod) / NS_PER_S)
            return false;
        starts = report_starts(starts, (uint64_t)ms);
    }
    report_starts_text(starts, text);
    return strcmp(text, jget_str(load, "workers", "")) == 0;
}

/* Have they evicted some of it, since it was found in them? */
static bool workers_have_evicted(const struct dataset_eval *v, const json_t *load)
{
    int64_t evicted = 0;
    for (int i = 0; i < v->d->replicas; i++) {
        const struct cache_pod *w = dataset_worker(v, i);
        evicted += jget_int(w ? w->report : NULL, REPORT_EVICTED_LOADED, 0);
    }
    return evicted > jget_int(load, "evictedBytes", INT64_MAX);
}

/* ---- what the pod says ---- */

/* True with this spec, and no worker has begun since. */
static bool was_preloaded(const struct dataset_observed *o)
{
    const json_t *c = cond_find(jget_arr(o->cr, "status.conditions"), DATASET_COND_PRELOADED);
    int64_t since = 0;
    clock_parse_rfc3339(jget_str(c, "lastTransitionTime", ""), &since);
    for (size_t i = 0; i < o->npods; i++)
        if (cache_pod_is(o->pods[i].pod, COMPONENT_WORKER)
            && container_began(o->pods[i].pod) >= since)
            return false;
    return strcmp(jget_str(c, "status", ""), "True") == 0
        && jget_int(c, "observedGeneration", -1) == jget_int(o->cr, "metadata.generation", 0);
}

static void say_preloaded(const struct dataset_eval *v, struct dataset_preloading *r)
{
    char bytes[HUMAN_BYTES_LEN], files[HUMAN_COUNT_LEN];
    const struct dataload_progress *n = &r->progress;
    snprintf(r->message, sizeof r->message, "%s in %s %s of %zu %s %s in the cache",
        human_bytes((uint64_t)n->bytes, bytes), human_count(n->files, files),
        n->files == 1 ? "file" : "files", v->d->npreload, v->d->npreload == 1 ? "path" : "paths",
        n->files == 1 ? "is" : "are");
    set_preloaded(r, COND_TRUE, "Preloaded", false);
}

static void say_loading(const json_t *load, struct dataset_preloading *r)
{
    char done[HUMAN_BYTES_LEN], bytes[HUMAN_BYTES_LEN], ndone[HUMAN_COUNT_LEN],
        files[HUMAN_COUNT_LEN];
    const struct dataload_progress *n = &r->progress;
    human_bytes((uint64_t)n->done_bytes, done);
    human_count(n->done_files, ndone);
    set_preloaded(r, COND_FALSE, "Loading", false);
    if (jget_bool(load, "counted", false))
        snprintf(r->message, sizeof r->message, "%d %%: %s of %s, %s of %s files",
            dataload_percent(n), done, human_bytes((uint64_t)n->bytes, bytes), ndone,
            human_count(n->files, files));
    else
        snprintf(r->message, sizeof r->message,
            "%s in %s files so far; the files are still being listed: %s so far", done, ndone,
            human_count(n->files, files));
}

static void say_checking(struct dataset_preloading *r, const char *why)
{
    r->progress.known = false;
    snprintf(r->message, sizeof r->message, "%s", why);
    set_preloaded(r, COND_FALSE, "Checking", false);
}

/* Why it cannot be complete, and what to do about it. */
static void say_why_not(const json_t *load, struct dataset_preloading *r)
{
    const char *reason = jget_str(load, "reason", ""), *message = jget_str(load, "message", "");
    bool none = strcmp(reason, "PathNotFound") == 0 || strcmp(reason, "NothingFound") == 0;
    snprintf(r->message, sizeof r->message, "%s%.400s%s", none ? "spec.cache.preload: " : "",
        message,
        none
            ? ": correct the path, or the mount's mountPoint (bucket and prefix), or put files there; it is looked for again each minute"
            : "");
    if (strcmp(reason, "TooLarge") == 0)
        r->progress.done_files = r->progress.done_bytes = 0; /* evicted by what came behind */
    set_preloaded(r, COND_FALSE, reason, strcmp(reason, "WorkersNotReady") != 0);
}

/* What the condition says, without what was said of a store that did not answer. */
static void say_as_before(const struct dataset_observed *o, struct dataset_preloading *r)
{
    const json_t *was = cond_find(jget_arr(o->cr, "status.conditions"), DATASET_COND_PRELOADED);
    const char *message = jget_str(was, "message", ""), *end = strstr(message, SILENT);
    size_t n = end ? (size_t)(end - message) : strlen(message);
    snprintf(r->message, sizeof r->message, "%.*s", (int)n, message);
    set_preloaded(r, COND_TRUE, "Preloaded", false);
}

/* A pod that has begun anew cannot look at a store that does not answer: that says nothing of what
 * is in the cache. False: it is another problem, or was not preloaded. */
static bool keep_while_silent(const struct dataset_observed *o, const char *reason,
    const char *message, struct dataset_preloading *r)
{
    static const char *const silent[] = {"Unreachable", "NameNotResolved", "StoreSlow"};
    bool is_silent = false;
    for (size_t i = 0; i < ARRAY_LEN(silent); i++)
        is_silent |= strcmp(reason, silent[i]) == 0;
    if (!is_silent || !was_preloaded(o))
        return false;
    say_as_before(o, r);
    r->progress.known = false;
    size_t n = strlen(r->message);
    snprintf(r->message + n, sizeof r->message - n, SILENT "%.400s", message);
    text_end_whole(r->message);
    return true;
}

static void keep_or_start(const struct dataset_observed *o, struct dataset_preloading *r)
{
    if (was_preloaded(o)) {
        say_as_before(o, r);
        return;
    }
    snprintf(r->message, sizeof r->message, "the pod that loads is starting");
    set_preloaded(r, COND_FALSE, "Starting", false);
}

static void evaluate_preload_report(const struct dataset_observed *o, const struct dataset_eval *v,
    const struct cache_pod *m, struct dataset_preloading *r)
{
    const json_t *load = jget_obj(m->report, REPORT_LOAD);
    const char *reason = jget_str(load, "reason", "");
    bool evicted = workers_have_evicted(v, load);
    if (!load || jget(m->report, REPORT_UNREACHABLE)) {
        if (evicted)
            say_checking(r, EVICTED);
        else
            keep_or_start(o, r);
        return;
    }
    r->progress = dataload_progress_of(load);
    bool complete = jget_bool(load, "complete", false),
         nothing_missed = !jget_int(load, "missing", 0) && !r->progress.failed;
    if (complete && !workers_are_those(v, load))
        say_checking(r,
            "a cache worker has started again, or there are more or fewer of them: what they hold is being looked at");
    else if (complete && !evicted)
        say_preloaded(v, r);
    else if (complete)
        say_checking(r, EVICTED);
    else if (!evicted && nothing_missed
        && (keep_while_silent(o, reason, jget_str(load, "message", ""), r)
            || keep_while_silent(o, jget_str(m->report, REPORT_REASON, ""),
                jget_str(m->report, REPORT_MESSAGE, ""), r)))
        return;
    else if (strcmp(reason, "StoreUnavailable") == 0 && *jget_str(m->report, REPORT_REASON, "")) {
        snprintf(r->message, sizeof r->message, "%s", jget_str(m->report, REPORT_MESSAGE, ""));
        set_preloaded(r, COND_FALSE, jget_str(m->report, REPORT_REASON, ""), true);
    } else if (*reason)
        say_why_not(load, r);
    else if (evicted && nothing_missed)
        say_checking(r, EVICTED);
    else if (was_preloaded(o) && nothing_missed) {
        r->progress.known = false; /* it looks again */
        keep_or_start(o, r);
    } else
        say_loading(load, r);
}

/* Does it load what the spec says, though it is made otherwise (image, resources, labels)? */
static bool loads_the_same(const json_t *desired, const json_t *pod)
{
    const char *loads = kube_annotation(pod, ANNOTATION_LOADS);
    return *loads && strcmp(loads, kube_annotation(desired, ANNOTATION_LOADS)) == 0;
}

enum dataset_held dataset_preload_held(
    const struct dataset_observed *o, const struct dataset_eval *v)
{
    static const char *const never[] = {
        "TooLarge", "CacheTooSmall", "CacheFull", "PinLimit", "NothingFound", "PathNotFound"};
    if (!v->d->npreload)
        return DATASET_HELD;
    size_t at;
    const struct cache_pod *m = find_preloader(o, &at);
    cleanup_json json_t *desired = render_preloader(v->d, &o->env);
    const json_t *load = m ? jget_obj(m->report, REPORT_LOAD) : NULL;
    if (!load || v->health[at].state != CACHE_POD_READY || jget(m->report, REPORT_UNREACHABLE)
        || (!render_same(desired, m->pod) && !loads_the_same(desired, m->pod)))
        return DATASET_COMING;
    for (size_t i = 0; i < ARRAY_LEN(never); i++)
        if (strcmp(jget_str(load, "reason", ""), never[i]) == 0)
            return DATASET_NEVER;
    bool held = jget_bool(load, "complete", false) && workers_are_those(v, load)
        && !workers_have_evicted(v, load);
    return held ? DATASET_HELD : DATASET_COMING;
}

/* ---- the pod ---- */

static void evaluate_preloader(const struct dataset_observed *o, const struct dataset_eval *v,
    size_t at, struct dataset_preloading *r)
{
    const struct cache_pod_health *h = &v->health[at];
    switch (h->state) {
    case CACHE_POD_READY:
        evaluate_preload_report(o, v, &o->pods[at], r);
        return;
    case CACHE_POD_PROBLEM:
        if (h->store_problem && keep_while_silent(o, h->reason, h->message, r))
            return;
        snprintf(r->message, sizeof r->message, "%s", h->message);
        set_preloaded(r, COND_FALSE, h->reason, true);
        return;
    case CACHE_POD_STARTING:
    case CACHE_POD_FINISHED:
    case CACHE_POD_LEAVING:
        keep_or_start(o, r);
        if (!h->rest_ns || was_preloaded(o))
            return;
        snprintf(r->message, sizeof r->message, "%s", h->message);
        set_preloaded(r, COND_FALSE, h->reason, true);
        return;
    }
}

/* Its time to end is over: its node is gone, and kubelet with it. Nothing is looked after then. */
static bool cannot_end(
    const struct dataset_observed *o, size_t at, struct dataset_preloading *r, struct plan *p)
{
    int64_t until = 0;
    const json_t *pod = o->pods[at].pod;
    if (!kube_deleting(pod) || dataset_abandon(o, at, p)
        || clock_parse_rfc3339(jget_str(pod, "metadata.deletionTimestamp", ""), &until))
        return false;
    if (o->now_ns - until < CACHE_POD_SLOW_NS) {
        plan_requeue(p, CACHE_POD_SLOW_NS);
        return false;
    }
    snprintf(r->message, sizeof r->message,
        "pod %s on node %s should have ended and has not, and no other can take its place: if the node is gone, `kubectl -n %s delete pod %s --force`",
        kube_name(pod), jget_str(pod, "spec.nodeName", "(none)"), kube_namespace(pod),
        kube_name(pod));
    set_preloaded(r, COND_FALSE, "PodNotEnding", true);
    return true;
}

static void make_preloader(const struct dataset_observed *o, const struct dataset_eval *v,
    json_t *pod, struct dataset_preloading *r, struct plan *p)
{
    const char *refused = cache_pod_create_heard(p, &v->making, json_incref(pod));
    if (refused)
        set_preloaded(r, COND_FALSE,
            cache_pod_say_unmade(o->cr, o->said, pod, refused, r->message, sizeof r->message),
            true);
    else
        keep_or_start(o, r);
}

/* Its successor is refused: what it keeps stays true, unless the spec asks for something else. */
static void keep_preloader(const struct dataset_observed *o, const struct dataset_eval *v,
    const json_t *desired, size_t at, struct dataset_preloading *r)
{
    const json_t *pod = o->pods[at].pod;
    dataset_say_refused(o->cr, pod,
        verdict_refusal(o->said, pod, kube_annotation(desired, ANNOTATION_HASH)), r->refused,
        sizeof r->refused);
    if (!loads_the_same(desired, pod)) {
        snprintf(r->message, sizeof r->message, "%s", r->refused);
        set_preloaded(r, COND_FALSE, "ApplyFailed", true);
        return;
    }
    evaluate_preloader(o, v, at, r);
    size_t len = strlen(r->message);
    snprintf(r->message + len, sizeof r->message - len, "; %s", r->refused);
}

/* It goes when the server is known to take what is made in its place; where nothing is asked for
 * any more, at once. */
static void replace_preloader(const struct dataset_observed *o, const struct dataset_eval *v,
    const json_t *desired, size_t at, struct dataset_preloading *r, struct plan *p)
{
    const json_t *pod = o->pods[at].pod;
    enum verdict verdict = v->d->npreload && v->health[at].state != CACHE_POD_LEAVING
        ? cache_pod_try(p, &v->making, pod, json_deep_copy(desired))
        : VERDICT_TAKEN;
    switch (verdict) {
    case VERDICT_TAKEN:
        plan_delete(p, &kube_pods, pod, -1, NULL);
        keep_or_start(o, r);
        return;
    case VERDICT_ASKED:
        if (loads_the_same(desired, pod))
            evaluate_preloader(o, v, at, r);
        else
            keep_or_start(o, r);
        return;
    case VERDICT_REFUSED:
        keep_preloader(o, v, desired, at, r);
        return;
    }
}

/* One that is made of another spec, or has ended, makes room for the next; the words of the first
 * are not about this spec. */
static void plan_preloader(const struct dataset_observed *o, const struct dataset_eval *v,
    struct dataset_preloading *r, struct plan *p)
{
    size_t at;
    const struct cache_pod *m = find_preloader(o, &at);
    cleanup_json json_t *desired = render_preloader(v->d, &o->env);
    if (!m) {
        make_preloader(o, v, desired, r, p);
    } else if (cannot_end(o, at, r, p)) {
        return;
    } else if (v->health[at].rest_ns && render_same(desired, m->pod)) {
        plan_requeue(p, v->health[at].rest_ns);
        evaluate_preloader(o, v, at, r);
    } else if (v->health[at].state == CACHE_POD_FINISHED) {
        plan_delete(p, &kube_pods, m->pod, -1, NULL);
        keep_or_start(o, r);
    } else if (!render_same(desired, m->pod)) {
        replace_preloader(o, v, desired, at, r, p);
    } else {
        evaluate_preloader(o, v, at, r);
    }
}

static void drop_preloader(const struct dataset_observed *o, struct plan *p)
{
    size_t at;
    const struct cache_pod *m = find_preloader(o, &at);
    if (m)
        plan_delete(p, &kube_pods, m->pod, -1, NULL);
}

/* Nothing is to be preloaded any more: pins of before end, then the pod goes. */
static void plan_end(const struct dataset_observed *o, const struct dataset_eval *v,
    struct dataset_preloading *r, struct plan *p)
{
    struct dataset_preloading last = {0};
    size_t at;
    const struct cache_pod *m = find_preloader(o, &at);
    bool done = m && jget_bool(m->report, REPORT_LOAD_COMPLETE, false);
    cleanup_json json_t *desired = render_preloader(v->d, &o->env);
    r->ending = jget(o->cr, "status.preload") && v->d->replicas
        && !(done && render_same(desired, m->pod));
    if (!r->ending)
        drop_preloader(o, p);
    else if (m || workers_serve(o, v, &last))
        plan_preloader(o, v, &last, p);
}

void dataset_plan_preload(const struct dataset_observed *o, const struct dataset_eval *v,
    const struct dataset_problem *problem, struct dataset_preloading *r, struct plan *p)
{
    *r = (struct dataset_preloading){.asked = v->d && v->d->npreload > 0};
    if (!v->d || problem->reason) {
        r->asked = cond_find(jget_arr(o->cr, "status.conditions"), DATASET_COND_PRELOADED) != NULL;
        r->ending = true; /* whatever was preloaded stays in the status */
        snprintf(
            r->message, sizeof r->message, "the Dataset is not ready: %.500s", problem->message);
        set_preloaded(r, COND_FALSE, problem->reason ? problem->reason : "InvalidSpec", false);
        return;
    }
    if (!r->asked) {
        plan_end(o, v, r, p);
        return;
    }
    if (v->d->replicas == 0) {
        drop_preloader(o, p);
        snprintf(r->message, sizeof r->message,
            "there are no cache workers to load into: set spec.cache.replicas to at least 1, or take spec.cache.preload away");
        set_preloaded(r, COND_FALSE, "NoWorkers", true);
        return;
    }
    bool serve = workers_serve(o, v, r);
    size_t at;
    if (!serve && !find_preloader(o, &at))
        return; /* made when there is something to load into */
    struct dataset_preloading unready = *r;
    plan_preloader(o, v, r, p);
    if (!serve) { /* whatever the pod says: what a worker has is not there while it does not serve
                   */
        struct dataload_progress progress = r->progress;
        *r = unready;
        r->progress = progress;
        r->cond.reason = r->reason;
        r->cond.message = r->message;
    }
}
