/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/operator/sim/sim_api.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"
#include "tests/golden/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t sim_roll(struct sim_api *s, uint32_t n)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (uint32_t)(s->random >> 33) % n;
}

void sim_open(struct sim_api *s, uint64_t seed, const char *const *kinds)
{
    *s = (struct sim_api){.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1,
        .objects = json_array(),
        .cache = json_array()};
    clock_parse_rfc3339(GOLDEN_NOW, &s->now_ns);
    for (size_t i = 0; kinds[i]; i++) {
        s->nwatches++;
        s->watches[i].kind = kinds[i];
        s->watches[i].events = json_array();
    }
    for (int i = 0; i < 8; i++)
        sim_roll(s, 2);
}

void sim_close(struct sim_api *s)
{
    json_decref(s->objects);
    json_decref(s->cache);
    for (size_t i = 0; i < s->nwatches; i++)
        json_decref(s->watches[i].events);
}

/* ---- sets of objects ---- */

static size_t sim_index(const json_t *objects, const char *kind, const char *name)
{
    size_t i;
    json_t *o;
    json_array_foreach (objects, i, o)
        if (!strcmp(jget_str(o, "kind", ""), kind) && !strcmp(kube_name(o), name))
            return i;
    return SIZE_MAX;
}

json_t *sim_find(json_t *objects, const char *kind, const char *name)
{
    return json_array_get(objects, sim_index(objects, kind, name));
}

static void sim_drop(json_t *objects, const json_t *o)
{
    size_t at = sim_index(objects, jget_str(o, "kind", ""), kube_name(o));
    if (at != SIZE_MAX)
        json_array_remove(objects, at);
}

static void sim_set(json_t *objects, const json_t *o)
{
    size_t at = sim_index(objects, jget_str(o, "kind", ""), kube_name(o));
    if (at == SIZE_MAX)
        json_array_append_new(objects, json_deep_copy(o));
    else
        json_array_set_new(objects, at, json_deep_copy(o));
}

static int64_t version_of(const json_t *o)
{
    return strtoll(jget_str(o, "metadata.resourceVersion", "0"), NULL, 10);
}

static size_t watch_of(const struct sim_api *s, const json_t *o)
{
    for (size_t i = 0; i < s->nwatches; i++)
        if (!strcmp(s->watches[i].kind, jget_str(o, "kind", "")))
            return i;
    fprintf(stderr, "nobody watches %s\n", jget_str(o, "kind", ""));
    abort();
}

/* ---- the server ---- */

static void emit(struct sim_api *s, json_t *o, bool gone)
{
    char version[24];
    snprintf(version, sizeof version, "%lld", (long long)++s->version);
    json_object_set_new(json_object_get(o, "metadata"), "resourceVersion", json_string(version));
    json_array_append_new(s->watches[watch_of(s, o)].events,
        json_pack("{s:b, s:o}", "gone", gone, "object", json_deep_copy(o)));
}

void sim_put(struct sim_api *s, json_t *object_take)
{
    emit(s, object_take, false);
    sim_set(s->objects, object_take);
    json_decref(object_take);
}

void sim_remove(struct sim_api *s, const char *kind, const char *name)
{
    size_t at = sim_index(s->objects, kind, name);
    if (at == SIZE_MAX)
        return;
    json_t *o = json_incref(json_array_get(s->objects, at));
    json_array_remove(s->objects, at);
    emit(s, o, true);
    json_decref(o);
}

/* ---- the informers ---- */

/* The answer to a write: newer than what is there, and than what the watch has told. */
static void sim_observe(struct sim_api *s, const json_t *o)
{
    const json_t *have = sim_find(s->cache, jget_str(o, "kind", ""), kube_name(o));
    if (version_of(o) > s->watches[watch_of(s, o)].delivered && version_of(o) > version_of(have))
        sim_set(s->cache, o);
}

static void sim_observe_gone(struct sim_api *s, const struct plan_action *a)
{
    const json_t *have = sim_find(s->cache, a->res->kind, a->name);
    if (have && !strcmp(kube_uid(have), a->uid))
        sim_drop(s->cache, have);
}

static void deliver_one(struct sim_api *s, size_t watch)
{
    json_t *event = json_array_get(s->watches[watch].events, 0);
    const json_t *o = json_object_get(event, "object"),
                 *have = sim_find(s->cache, jget_str(o, "kind", ""), kube_name(o));
    s->watches[watch].delivered = version_of(o);
    if (json_is_true(json_object_get(event, "gone"))) {
        if (have && !strcmp(kube_uid(have), kube_uid(o)))
            sim_drop(s->cache, have);
    } else if (version_of(o) > version_of(have)) {
        sim_set(s->cache, o);
    }
    json_array_remove(s->watches[watch].events, 0);
}

/* 410: what is listed is all there is. */
static void list(struct sim_api *s, size_t watch)
{
    size_t i;
    json_t *o;
    for (i = json_array_size(s->cache); i > 0; i--)
        if (!strcmp(jget_str(json_array_get(s->cache, i - 1), "kind", ""), s->watches[watch].kind))
            json_array_remove(s->cache, i - 1);
    json_array_foreach (s->objects, i, o)
        if (!strcmp(jget_str(o, "kind", ""), s->watches[watch].kind))
            json_array_append_new(s->cache, json_deep_copy(o));
    json_array_clear(s->watches[watch].events);
    s->watches[watch].delivered = s->version;
}

void sim_deliver(struct sim_api *s)
{
    for (size_t i = 0; i < s->nwatches; i++) {
        if (!sim_roll(s, 30)) {
            list(s, i);
            continue;
        }
        for (uint32_t n = sim_roll(s, 5); n && json_array_size(s->watches[i].events); n--)
            deliver_one(s, i);
    }
}

void sim_deliver_all(struct sim_api *s)
{
    for (size_t i = 0; i < s->nwatches; i++)
        while (json_array_size(s->watches[i].events))
            deliver_one(s, i);
}

void sim_restart(struct sim_api *s)
{
    for (size_t i = 0; i < s->nwatches; i++)
        list(s, i);
    s->restarts++;
}

/* ---- writes of the operator ---- */

enum write_end { WRITE_OK, WRITE_FAILED };

static enum write_end sim_patch(struct sim_api *s, const struct plan_action *a, bool lost)
{
    json_t *there = sim_find(s->objects, a->res->kind, a->name);
    const char *version = jget_str(a->body, "metadata.resourceVersion", NULL);
    if (!there) {
        sim_observe_gone(s, a);
        return WRITE_OK;
    }
    if ((*a->uid && strcmp(a->uid, kube_uid(there)) != 0)
        || (version && strcmp(version, jget_str(there, "metadata.resourceVersion", "")) != 0))
        return WRITE_FAILED;
    json_t *o = json_deep_copy(there);
    golden_merge(o, a->body);
    if (kube_deleting(o) && !jget_len(o, "metadata.finalizers")
        && strcmp(a->res->kind, "Pod") != 0) { /* that was the last one */
        sim_remove(s, a->res->kind, a->name);
        json_decref(o);
        return WRITE_OK;
    }
    emit(s, o, false);
    sim_set(s->objects, o);
    if (!lost)
        sim_observe(s, o);
    json_decref(o);
    return WRITE_OK;
}

static enum write_end sim_create(struct sim_api *s, const struct plan_action *a, bool lost)
{
    json_t *there = sim_find(s->objects, a->res->kind, a->name);
    if (there && s->updates && a->op == PLAN_APPLY)
        return sim_patch(s, a, lost);
    if (there) { /* ours, or a stranger's: there are none here */
        sim_observe(s, there);
        return kube_deleting(there) ? WRITE_FAILED : WRITE_OK;
    }
    char now[CLOCK_RFC3339_LEN];
    clock_rfc3339(s->now_ns, now);
    json_t *o = json_deep_copy(a->body), *meta = json_object_get(o, "metadata");
    json_object_set_new(o, "kind", json_string(a->res->kind));
    json_object_set_new(meta, "uid", json_sprintf("uid-%s-%u", a->name, s->counted++));
    json_object_set_new(meta, "creationTimestamp", json_string(now));
    if (!strcmp(a->res->kind, "Pod"))
        json_object_set_new(o, "status", json_pack("{s:s}", "phase", "Pending"));
    if (!strncmp(a->res->kind, "Persistent", 10)) /* they stay while they are in use */
        json_object_set_new(meta, "finalizers", json_pack("[s]", "kubernetes.io/protection"));
    emit(s, o, false);
    sim_set(s->objects, o);
    if (!lost)
        sim_observe(s, o);
    json_decref(o);
    return WRITE_OK;
}

/* Pods linger until their kubelet has ended them, others go at once. */
static enum write_end sim_delete(struct sim_api *s, const struct plan_action *a, bool lost)
{
    json_t *there = sim_find(s->objects, a->res->kind, a->name);
    if (!there || (*a->uid && strcmp(a->uid, kube_uid(there)) != 0)) {
        sim_observe_gone(s, a);
        return WRITE_OK;
    }
    bool held = jget_len(there, "metadata.finalizers") > 0;
    if (!held && (strcmp(a->res->kind, "Pod") != 0 || a->grace_s == 0)) {
        sim_remove(s, a->res->kind, a->name);
        if (!lost)
            sim_observe_gone(s, a);
        return WRITE_OK;
    }
    char until[CLOCK_RFC3339_LEN];
    int64_t grace_s = a->grace_s >= 0 ? a->grace_s : 30;
    json_t *o = json_deep_copy(there), *meta = json_object_get(o, "metadata");
    clock_rfc3339(s->now_ns + grace_s * NS_PER_S, until);
    json_object_set_new(meta, "deletionTimestamp", json_string(until));
    json_object_set_new(meta, "deletionGracePeriodSeconds", json_integer(grace_s));
    emit(s, o, false);
    sim_set(s->objects, o);
    if (!lost)
        sim_observe(s, o);
    json_decref(o);
    return WRITE_OK;
}

static enum write_end sim_write(struct sim_api *s, const struct plan_action *a, bool lost)
{
    switch (a->op) {
    case PLAN_CREATE:
    case PLAN_APPLY: /* what is applied here is made once */
        return sim_create(s, a, lost);
    case PLAN_DELETE:
        return sim_delete(s, a, lost);
    case PLAN_PATCH:
    case PLAN_STATUS:
        return sim_patch(s, a, lost);
    case PLAN_EVENT:
    case PLAN_TRY: /* nothing of a TFJob is tried */
    case PLAN_REQUEUE:
        break;
    }
    return WRITE_OK;
}

bool sim_ask_again(struct sim_api *s, const char *kind, const char *name)
{
    const json_t *there = sim_find(s->objects, kind, name);
    if (!s->failed)
        return true;
    if (!s->fair && !sim_roll(s, 10))
        return false;
    if (there)
        sim_observe(s, there);
    return true;
}

/* false: at the first error, or the operator's end. */
static bool sim_run(struct sim_api *s, const struct plan_action *a, sim_look look, void *user)
{
    uint32_t fate = s->fair ? 99 : sim_roll(s, 40);
    s->faults += fate < 5;
    if (fate == 0 || fate == 1) { /* 409, 429, 500; the operator dies before it writes */
        if (fate == 1)
            sim_restart(s);
        return false;
    }
    look(user, a);
    bool lost = fate == 2 || fate == 3 || fate == 4;
    if (sim_write(s, a, lost) == WRITE_FAILED)
        return false;
    if (fate == 4) /* it dies when it has written */
        sim_restart(s);
    return !lost;
}

void sim_apply(struct sim_api *s, const struct plan *p, sim_look look, void *user)
{
    s->failed = false;
    for (size_t i = 0; i < p->n && !s->failed; i++)
        if (p->actions[i].op != PLAN_EVENT && p->actions[i].op != PLAN_REQUEUE)
            s->failed = !sim_run(s, &p->actions[i], look, user);
}
