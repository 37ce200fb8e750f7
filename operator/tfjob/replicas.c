/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/replicas.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/kube/kube.h"
#include "operator/tfjob/names.h"
#include "operator/tfjob/policy.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- which objects a replica has ---- */

/* The replica that an object's labels and name say it belongs to; NULL if none that is wanted. */
static struct tfjob_replica *replica_of(
    const struct tfjob *j, struct tfjob_replicas *rs, const json_t *object)
{
    enum tfjob_type t;
    const char *text = kube_label(object, TFJOB_LABEL_INDEX);
    if (!tfjob_type_parse(kube_label(object, TFJOB_LABEL_TYPE), &t)
        || !isdigit((unsigned char)*text))
        return NULL;
    char *end;
    long index = strtol(text, &end, 10);
    if (*end || index >= j->spec[t].replicas)
        return NULL;
    char name[TFJOB_CHILD_NAME_LEN];
    tfjob_child_name(j, t, (int)index, name);
    return strcmp(name, kube_name(object)) ? NULL : &rs->v[rs->first[t] + (size_t)index];
}

static void add_pod(const struct tfjob *j, struct tfjob_replicas *rs, const json_t *pod)
{
    struct tfjob_replica *r = replica_of(j, rs, pod);
    if (r) {
        r->pod = pod;
        r->is = tfjob_pod_read(pod, j->uid);
    } else if (kube_controlled_by(pod, j->uid)) {
        rs->extra_pods[rs->nextra_pods++] = pod;
    }
}

static void add_service(const struct tfjob *j, struct tfjob_replicas *rs, const json_t *service)
{
    struct tfjob_replica *r = replica_of(j, rs, service);
    bool ours = kube_controlled_by(service, j->uid);
    if (r) {
        r->service = service;
        r->service_foreign = !ours;
    } else if (ours && strcmp(kube_label(service, LABEL_COMPONENT), COMPONENT_TENSORBOARD)) {
        rs->extra_services[rs->nextra_services++] = service;
    }
}

/* ---- what follows from its pod ---- */

/* ExitCode: codes from 128 on are signals and infrastructure, the others the program's own word; no
 * code at all: never ran. A pod that passed its own limit was killed, but by its own doing. */
static bool retryable(const struct tfjob_pod *pod)
{
    return !pod->evicted_by_itself && (!pod->has_exit_code || pod->exit_code >= 128);
}

/* It stays as it is; a worker of an elastic job does not end the job with that. */
static enum tfjob_outcome lose(const struct tfjob *j, const struct tfjob_replica *r)
{
    return j->dynamic && r->type == TFJOB_WORKER ? TFJOB_OUTCOME_TOLERATE : TFJOB_OUTCOME_FAIL;
}

static enum tfjob_outcome outcome_by_rule(enum tfjob_action action)
{
    switch (action) {
    case TFJOB_ACTION_FAIL_JOB:
        return TFJOB_OUTCOME_FAIL;
    case TFJOB_ACTION_FAIL_INDEX:
        return TFJOB_OUTCOME_TOLERATE;
    case TFJOB_ACTION_IGNORE:
    case TFJOB_ACTION_COUNT:
        return TFJOB_OUTCOME_REPLACE;
    }
    return TFJOB_OUTCOME_FAIL;
}

static enum tfjob_outcome outcome_of(const struct tfjob *j, const struct tfjob_replica *r)
{
    if (r->rule >= 0)
        return outcome_by_rule(j->rules[r->rule].action);
    switch (r->is.state) {
    case TFJOB_POD_NONE:
    case TFJOB_POD_FOREIGN:
    case TFJOB_POD_LEAVING:
    case TFJOB_POD_PENDING:
    case TFJOB_POD_RUNNING:
    case TFJOB_POD_SUCCEEDED:
        return TFJOB_OUTCOME_NONE;
    case TFJOB_POD_DISRUPTED:
        return r->disruptions < TFJOB_DISRUPTIONS_MAX ? TFJOB_OUTCOME_REPLACE : lose(j, r);
    case TFJOB_POD_FAILED:
        break;
    }
    enum tfjob_restart policy = j->spec[r->type].restart;
    if (policy == TFJOB_RESTART_ON_FAILURE || policy == TFJOB_RESTART_ALWAYS
        || (policy == TFJOB_RESTART_EXIT_CODE && retryable(&r->is)))
        return TFJOB_OUTCOME_REPLACE;
    return lose(j, r);
}

/* In a row: a pod that ran long begins anew. Like restarts it follows from the pod and what is
 * stored alone, however often it is counted. */
static int row_of(const struct tfjob_replica *r, int stored)
{
    bool ran_long = tfjob_pod_ran_ns(&r->is) >= LONG_RUN_NS;
    if (r->ignored)
        return ran_long ? 1 : MAX(stored, r->is.disruptions_before + 1);
    return r->is.state == TFJOB_POD_FAILED && ran_long ? 0 : stored;
}

/* What a pod has lived through is counted as a maximum: restarts of the pods before it (its
 * annotation), those of its containers, and its own end. So it makes no difference how often, or
 * after which crash of ours, it is counted. */
static void classify(const struct tfjob *j, const struct tfjob_indexes *m, struct tfjob_replica *r)
{
    struct tfjob_index stored = tfjob_index_of(m, (size_t)r->index);
    bool ended = r->is.state == TFJOB_POD_FAILED || r->is.state == TFJOB_POD_DISRUPTED;
    r->rule = ended ? tfjob_policy_rule(j, r->type, r->pod) : -1;
    r->ignored = r->rule >= 0 ? j->rules[r->rule].action == TFJOB_ACTION_IGNORE
                              : r->is.state == TFJOB_POD_DISRUPTED;
    r->disruptions = row_of(r, stored.disruptions);
    enum tfjob_outcome outcome = outcome_of(j, r);
    bool counted = outcome == TFJOB_OUTCOME_REPLACE && !r->ignored;
    int lived = r->is.restarts_before + r->is.container_restarts + counted;
    r->completed = stored.completed || r->is.state == TFJOB_POD_SUCCEEDED;
    r->outcome = r->completed ? TFJOB_OUTCOME_NONE : outcome;
    r->restarts = stored.restarts;
    if (lived <= r->restarts || (j->spec[r->type].restart == TFJOB_RESTART_NEVER && !counted))
        return;
    r->restarts = lived;
    r->newly_failed = counted;
}

void tfjob_replicas_make(const struct tfjob_observed *o, const struct tfjob *j,
    const struct tfjob_status *status, struct tfjob_replicas *out)
{
    *out = (struct tfjob_replicas){0};
    out->v = xcalloc((size_t)tfjob_total(j) + 1, sizeof *out->v);
    for (int t = 0; t < TFJOB_TYPES; t++) {
        out->first[t] = out->n;
        for (int i = 0; i < j->spec[t].replicas; i++)
            out->v[out->n++] = (struct tfjob_replica){.type = (enum tfjob_type)t, .index = i};
    }
    out->first[TFJOB_TYPES] = out->n;
    out->extra_pods = xcalloc(o->npods + 1, sizeof *out->extra_pods);
    out->extra_services = xcalloc(o->nservices + 1, sizeof *out->extra_services);
    for (size_t i = 0; i < o->npods; i++)
        add_pod(j, out, o->pods[i]);
    for (size_t i = 0; i < o->nservices; i++)
        add_service(j, out, o->services[i]);
    for (size_t i = 0; i < out->n; i++)
        classify(j, &status->indexes[out->v[i].type], &out->v[i]);
}

void tfjob_replicas_free(struct tfjob_replicas *rs)
{
    free(rs->v);
    free(rs->extra_pods);
    free(rs->extra_services);
    *rs = (struct tfjob_replicas){0};
}
