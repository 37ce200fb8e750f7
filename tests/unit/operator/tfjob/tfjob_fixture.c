/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/operator/tfjob/tfjob_fixture.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "tests/golden/golden_tfjob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *fx_json(const char *text)
{
    cleanup_free char *copy = xstrdup(text);
    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    json_error_t at;
    json_t *j = json_loads(copy, JSON_DECODE_ANY, &at);
    if (!j) {
        fprintf(stderr, "%s: %s\n", copy, at.text);
        abort();
    }
    return j;
}

json_t *fx_job(const char *replicas, const char *spec)
{
    json_t *s = spec ? fx_json(spec) : json_object();
    json_object_set_new(s, "tfReplicaSpecs", golden_tfjob_replicas(replicas));
    return json_pack("{s:s s:s s:{s:s s:s s:s} s:o}", "apiVersion", "kubeflow.org/v1", "kind",
        "TFJob", "metadata", "name", "j", "namespace", "ns", "uid", GOLDEN_TFJOB_UID, "spec", s);
}

static void set_pod(json_t *world, const char *type, int index, struct golden_tfjob_state state)
{
    cleanup_free char *name = xasprintf("j-%s-%d", type, index),
                      *uid = xasprintf("uid-of-%s", name);
    json_t *pod = golden_find(world, "Pod", "ns", name);
    if (!pod) {
        pod = golden_tfjob_child("Pod", type, index);
        json_object_set_new(json_object_get(pod, "metadata"), "uid", json_string(uid));
        golden_add(world, pod);
    }
    golden_tfjob_set_state(pod, state, golden_now(world), strchr("RDT", state.letter) ? 60 : 0);
    json_object_del(pod, "spec"); /* these worlds have no nodes: one that is named would be dead */
    if (state.letter != 'D')
        return;
    /* its grace is over, so that no plan shortens it */
    json_t *meta = json_object_get(pod, "metadata");
    json_object_set_new(meta, "deletionTimestamp", json_string(jget_str(world, "now", "")));
    json_object_set_new(meta, "deletionGracePeriodSeconds", json_integer(0));
}

void fx_set_pod(json_t *world, const char *type, int index, char state)
{
    set_pod(world, type, index, (struct golden_tfjob_state){state, -1});
}

static void add_index(void *world, const char *type, int index, struct golden_tfjob_state state)
{
    json_t *service = golden_tfjob_child("Service", type, index);
    cleanup_free char *uid = xasprintf("uid-of-%s", kube_name(service));
    json_object_set_new(json_object_get(service, "metadata"), "uid", json_string(uid));
    if (state.letter != '-')
        set_pod(world, type, index, state);
    golden_add(world, service);
}

json_t *fx_world(const char *pods)
{
    json_t *world = json_pack("{s:s s:[]}", "now", FX_NOW, "objects");
    golden_tfjob_each(pods, add_index, world);
    return world;
}

size_t fx_reconcile(json_t *cr, json_t *world)
{
    cleanup_plan struct plan p = PLAN_INIT;
    golden_tfjob_plan(cr, world, &p);
    return golden_apply(cr, world, &p, GOLDEN_LINGER, SIZE_MAX);
}

void fx_advance(json_t *world, int64_t seconds)
{
    char text[CLOCK_RFC3339_LEN];
    clock_rfc3339(golden_now(world) + seconds * NS_PER_S, text);
    json_object_set_new(world, "now", json_string(text));
}

const char *fx_cond_status(const json_t *cr, const char *type)
{
    return jget_str(cond_find(jget(cr, "status.conditions"), type), "status", "");
}

bool fx_cond(const json_t *cr, const char *type) { return *fx_cond_status(cr, type); }

size_t fx_count(const json_t *world, const char *kind, bool leaving)
{
    size_t n, count = 0;
    const json_t **all = golden_objects(world, kind, &n);
    for (size_t i = 0; i < n; i++)
        count += kube_deleting(all[i]) == leaving;
    free(all);
    return count;
}
