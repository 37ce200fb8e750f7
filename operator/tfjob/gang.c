/* SPDX-License-Identifier: Apache-2.0 */
/* Pods that start together or not at all: the PodGroup for a gang scheduler, and the condition
 * while it makes them wait. volcano admits a group before it has pods (its resources are
 * counted), so pods are created then; scheduler-plugins admits a group by its pods, so they are
 * created at once and wait without nodes. */
#include "operator/tfjob/pass.h"

#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"
#include "operator/tfjob/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the PodGroup ---- */

static int64_t min_member(const struct tfjob *j)
{
    return j->scheduling.min_available >= 0 ? j->scheduling.min_available : tfjob_total(j);
}

static const char *quantity_text(const json_t *v, char *number, size_t cap)
{
    if (json_is_integer(v))
        snprintf(number, cap, "%" PRId64, (int64_t)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(number, cap, "%.15g", json_real_value(v)); /* 0.1 is no more than that */
    else
        return json_string_value(v);
    return number;
}

/* sum[name] += the quantity; kept as thousandths until the end. */
static void add_quantity(json_t *sum, const char *name, const json_t *v)
{
    char number[32];
    const char *text = quantity_text(v, number, sizeof number);
    int64_t milli, all;
    if (!text || quantity_parse_milli(text, &milli)
        || __builtin_add_overflow(
            milli, (int64_t)json_integer_value(json_object_get(sum, name)), &all))
        return;
    json_object_set_new(sum, name, json_integer(all));
}

static void add_quantities(json_t *sum, const json_t *quantities)
{
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)quantities, name, v)
        add_quantity(sum, name, v);
}

/* What a container asks for; of what it asks nothing, what it is limited to. */
static void add_container(json_t *sum, const json_t *container)
{
    const json_t *requests = jget_obj(container, "resources.requests");
    const char *name;
    json_t *v;
    add_quantities(sum, requests);
    json_object_foreach ((json_t *)jget_obj(container, "resources.limits"), name, v)
        if (!json_object_get(requests, name))
            add_quantity(sum, name, v);
}

/* sum[name] += times × the thousandths, or at least them. */
static void add_milli(json_t *sum, const json_t *milli, int64_t times, bool at_least)
{
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)milli, name, v) {
        json_int_t more, all, had = json_integer_value(json_object_get(sum, name));
        if (__builtin_mul_overflow(json_integer_value(v), times, &more)
            || __builtin_add_overflow(more, had, &all))
            continue;
        json_object_set_new(sum, name, json_integer(at_least ? MAX(had, more) : all));
    }
}

/* What a pod needs, as the scheduler counts it: its containers and sidecars together, or what an
 * init container needs beside the sidecars that were started before it; and what the runtime takes
 * for itself. In thousandths. Caller owns. */
static json_t *pod_needs(const json_t *spec)
{
    json_t *sum = json_object(), *c;
    cleanup_json json_t *sidecars = json_object(), *init = json_object();
    size_t i;
    json_array_foreach ((json_t *)jget_arr(spec, "containers"), i, c)
        add_container(sum, c);
    json_array_foreach ((json_t *)jget_arr(spec, "initContainers"), i, c) {
        if (!strcmp(jget_str(c, "restartPolicy", ""), "Always")) {
            add_container(sidecars, c);
            continue;
        }
        cleanup_json json_t *then = json_deep_copy(sidecars);
        add_container(then, c);
        add_milli(init, then, 1, true);
    }
    add_milli(sum, sidecars, 1, false);
    add_milli(sum, init, 1, true);
    add_quantities(sum, jget_obj(spec, "overhead"));
    return sum;
}

static json_t *min_resources(const struct tfjob *j)
{
    if (j->scheduling.min_resources)
        return json_deep_copy(j->scheduling.min_resources);
    json_t *sum = json_object(), *v;
    int64_t left = min_member(j);
    for (int t = 0; t < TFJOB_TYPES; t++) {
        int64_t n = MIN(left, j->spec[t].replicas);
        cleanup_json json_t *needs = pod_needs(jget_obj(j->spec[t].template, "spec"));
        if (n > 0)
            add_milli(sum, needs, n, false);
        left -= n;
    }
    const char *name;
    void *next;
    json_object_foreach_safe(sum, next, name, v)
    {
        char text[32];
        int64_t milli = json_integer_value(v);
        snprintf(text, sizeof text, "%" PRId64 "%s", milli % 1000 ? milli : milli / 1000,
            milli % 1000 ? "m" : "");
        json_object_set_new(sum, name, json_string(text));
    }
    return sum;
}

static const struct kube_res *group_res(const struct tfjob_pass *p)
{
    return tfjob_gang_is_volcano(p->o) ? &kube_volcano_podgroups : &kube_coscheduling_podgroups;
}

static bool group_is_ours(const struct tfjob_pass *p)
{
    return p->o->pod_group && kube_controlled_by(p->o->pod_group, p->job->uid);
}

static json_t *group_spec(const struct tfjob_pass *p)
{
    const struct tfjob_scheduling *s = &p->job->scheduling;
    json_t *spec = json_pack("{s:I s:o}", "minMember", (json_int_t)min_member(p->job),
        "minResources", min_resources(p->job));
    if (!tfjob_gang_is_volcano(p->o)) {
        if (s->timeout_s >= 0)
            json_object_set_new(spec, "scheduleTimeoutSeconds", json_integer(s->timeout_s));
        return spec;
    }
    /* one that is there was perhaps moved by an administrator */
    const char *queue = jget_str(p->o->pod_group, "spec.queue", "");
    json_object_set_new(spec, "queue",
        json_string(*queue  ? queue
                : *s->queue ? s->queue
                            : "default"));
    if (*s->priority_class)
        json_object_set_new(spec, "priorityClassName", json_string(s->priority_class));
    return spec;
}

static json_t *pod_group_object(const struct tfjob_pass *p)
{
    cleanup_free char *version = kube_res_api_version(group_res(p));
    json_t *meta = json_pack("{s:s s:s s:{s:s s:s} s:[o]}", "name", p->job->name, "namespace",
        p->job->ns, "labels", TFJOB_LABEL_OPERATOR, TFJOB_OPERATOR_NAME, TFJOB_LABEL_JOB,
        p->job->name, "ownerReferences", tfjob_owner(p->job));
    const json_t *annotations = jget_obj(p->o->job, "metadata.annotations");
    /* volcano reads its own among them */
    if (tfjob_gang_is_volcano(p->o) && json_object_size(annotations))
        json_object_set_new(meta, "annotations", json_deep_copy(annotations));
    return json_pack("{s:s s:s s:o s:o}", "apiVersion", version, "kind", "PodGroup", "metadata",
        meta, "spec", group_spec(p));
}

void pass_apply_gang(struct tfjob_pass *p)
{
    if (!*p->o->gang)
        return;
    /* of an older job of this name: it is garbage collected */
    if (p->o->pod_group && !group_is_ours(p))
        return;
    size_t since = p->plan->n;
    plan_apply(p->plan, group_res(p), pod_group_object(p), p->o->pod_group);
    plan_strict(p->plan, since);
}

void pass_delete_gang(struct tfjob_pass *p)
{
    if (!*p->o->gang || !group_is_ours(p) || kube_deleting(p->o->pod_group))
        return;
    plan_delete(p->plan, group_res(p), p->o->pod_group, -1, NULL);
    plan_event(p->plan, &kube_tfjobs, p->o->job, false, "SuccessfulDeletePodGroup",
        "Deleted PodGroup: %s", p->job->name);
}

/* ---- waiting ---- */

static int64_t count_placed(const struct tfjob_pass *p)
{
    int64_t n = 0;
    tfjob_each (r, p->replicas)
        n += r->completed || (r->pod && *jget_str(r->pod, "spec.nodeName", ""));
    return n;
}

static const char *group_error(const json_t *pod_group)
{
    size_t i;
    json_t *c;
    json_array_foreach ((json_t *)jget_arr(pod_group, "status.conditions"), i, c)
        if (!strcmp(jget_str(c, "type", ""), "Unschedulable")
            && !strcmp(jget_str(c, "status", ""), "True"))
            return jget_str(c, "message", "");
    return "";
}

bool pass_wait_gang(struct tfjob_pass *p)
{
    if (!*p->o->gang) {
        pass_set_waiting(p, TFJOB_WAITING_GANG, NULL);
        return false;
    }
    int64_t all = min_member(p->job), there = count_placed(p);
    const char *phase = jget_str(p->o->pod_group, "status.phase", ""),
               *error = group_error(p->o->pod_group);
    bool admitted = !tfjob_gang_is_volcano(p->o)
        || (group_is_ours(p) && *phase && strcmp(phase, "Pending"));
    if (there >= all) {
        pass_set_waiting(p, TFJOB_WAITING_GANG, NULL);
        return !admitted;
    }
    cleanup_free char *why = admitted
        ? xasprintf("those of PodGroup %s have no node yet", p->job->name)
        : p->o->pod_group && !group_is_ours(p)
        ? xasprintf("PodGroup %s belongs to an older job of this name", p->job->name)
        : xasprintf("PodGroup %s is not admitted by the scheduler, its phase is %s", p->job->name,
            *phase ? phase : "not set");
    cleanup_free char *message = xasprintf("waiting for %" PRId64 " of %" PRId64 " pods: %s%s%s",
        all - there, all, why, *error ? ": " : "", error);
    pass_set_waiting(p, TFJOB_WAITING_GANG, message);
    return !admitted;
}
