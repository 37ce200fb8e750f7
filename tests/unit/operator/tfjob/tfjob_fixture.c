/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/operator/tfjob/tfjob_fixture.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/api/tfjob.h"
#include "operator/tfjob/names.h"
#include "tests/golden/golden_tfjob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UID "uid-of-j"

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

static json_t *replica(int n, const char *policy)
{
    json_t *r = json_pack("{s:i s:{s:{s:[{s:s s:s}]}}}", "replicas", n, "template", "spec",
        "containers", "name", "tensorflow", "image", "busybox");
    if (*policy)
        json_object_set_new(r, "restartPolicy", json_string(policy));
    return r;
}

json_t *fx_job(const char *replicas, const char *spec)
{
    json_t *specs = json_object(), *s = spec ? fx_json(spec) : json_object();
    cleanup_free char *copy = xstrdup(replicas);
    for (char *save, *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char type[16], policy[16] = "";
        int n;
        enum tfjob_type t;
        if (sscanf(word, "%15[^=]=%d:%15s", type, &n, policy) < 2 || !tfjob_type_parse(type, &t))
            abort();
        json_object_set_new(specs, tfjob_type_name(t), replica(n, policy));
    }
    json_object_set_new(s, "tfReplicaSpecs", specs);
    return json_pack("{s:s s:s s:{s:s s:s s:s} s:o}", "apiVersion", "kubeflow.org/v1", "kind",
        "TFJob", "metadata", "name", "j", "namespace", "ns", "uid", UID, "spec", s);
}

static json_t *meta_of(const char *type, int index)
{
    char number[16];
    snprintf(number, sizeof number, "%d", index);
    cleanup_free char *name = xasprintf("j-%s-%d", type, index);
    cleanup_free char *uid = xasprintf("uid-of-%s", name);
    return json_pack("{s:s s:s s:s s:{s:s s:s s:s s:s} s:[{s:s s:s s:s s:s s:b}]}", "name", name,
        "namespace", "ns", "uid", uid, "labels", TFJOB_LABEL_OPERATOR, TFJOB_OPERATOR_NAME,
        TFJOB_LABEL_JOB, "j", TFJOB_LABEL_TYPE, type, TFJOB_LABEL_INDEX, number, "ownerReferences",
        "apiVersion", "kubeflow.org/v1", "kind", "TFJob", "name", "j", "uid", UID, "controller", 1);
}

static json_t *container(const char *world_now, int code, int restarts)
{
    if (code < 0)
        return json_pack("{s:s s:i s:{s:{}}}", "name", "tensorflow", "restartCount", restarts,
            "state", "running");
    return json_pack("{s:s s:i s:{s:{s:i s:s s:s}}}", "name", "tensorflow", "restartCount",
        restarts, "state", "terminated", "exitCode", code, "startedAt", world_now, "finishedAt",
        world_now);
}

static json_t *status_of(const char *now, char state)
{
    switch (state) {
    case 'P':
        return json_pack("{s:s}", "phase", "Pending");
    case 'R':
    case 'D':
        return json_pack(
            "{s:s s:[o]}", "phase", "Running", "containerStatuses", container(now, -1, 0));
    case 'T':
        return json_pack(
            "{s:s s:[o]}", "phase", "Running", "containerStatuses", container(now, -1, 1));
    case 'S':
        return json_pack(
            "{s:s s:[o]}", "phase", "Succeeded", "containerStatuses", container(now, 0, 0));
    case 's':
        return json_pack("{s:s}", "phase", "Succeeded");
    case 'F':
        return json_pack(
            "{s:s s:[o]}", "phase", "Failed", "containerStatuses", container(now, 1, 0));
    case 'K':
        return json_pack(
            "{s:s s:[o]}", "phase", "Failed", "containerStatuses", container(now, 130, 0));
    case 'N':
        return json_pack("{s:s}", "phase", "Failed");
    case 'E':
        return json_pack("{s:s s:s}", "phase", "Failed", "reason", "Evicted");
    default:
        abort();
    }
}

void fx_set_pod(json_t *world, const char *type, int index, char state)
{
    cleanup_free char *name = xasprintf("j-%s-%d", type, index);
    json_t *pod = golden_find(world, "Pod", "ns", name);
    if (!pod) {
        pod = json_pack("{s:s s:o}", "kind", "Pod", "metadata", meta_of(type, index));
        json_array_append_new(json_object_get(world, "objects"), pod);
    }
    json_object_set_new(pod, "status", status_of(jget_str(world, "now", ""), state));
    if (state == 'D') {
        json_object_set_new(json_object_get(pod, "metadata"), "deletionTimestamp",
            json_string(jget_str(world, "now", "")));
        json_object_set_new(
            json_object_get(pod, "metadata"), "deletionGracePeriodSeconds", json_integer(0));
    }
}

json_t *fx_world(const char *pods)
{
    json_t *world = json_pack("{s:s s:[]}", "now", FX_NOW, "objects");
    cleanup_free char *copy = xstrdup(pods);
    for (char *save, *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *states = strchr(word, ':');
        *states++ = '\0';
        for (int i = 0; states[i]; i++) {
            if (states[i] != '-')
                fx_set_pod(world, word, i, states[i]);
            json_array_append_new(json_object_get(world, "objects"),
                json_pack("{s:s s:o}", "kind", "Service", "metadata", meta_of(word, i)));
        }
    }
    return world;
}

size_t fx_turn(json_t *cr, json_t *world)
{
    cleanup_plan struct plan p = PLAN_INIT;
    golden_tfjob_plan(cr, world, &p, NULL);
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
