/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/crd_check.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/http/metric.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <stdatomic.h>
#include <string.h>

#define LOOK_NS (600 * NS_PER_S)
#define MEND_NS (30 * NS_PER_S) /* while one is being mended */
#define REMEDY                                                                       \
    "kubectl apply --server-side --force-conflicts -f crds/ (of Millrace's source, " \
    "or of the chart: charts/millrace/files/crds/)"

METRIC_GAUGE(crd_current, "millrace_crd_current", "crd",
    "1: the CustomResourceDefinition in the cluster is that of this Millrace; 0: it lacks fields.");

/* Fields by which ours is known: a schema below that of the served version. */
static const struct known_crd {
    const char *name;
    const struct kube_res *res;
    const char *fields[3];
    const char *problem;
} crds[] = {
    {"tfjobs.kubeflow.org", &kube_tfjobs,
        {"properties.status.properties.indexes", "properties.status.properties.datasets"},
        "the CustomResourceDefinition tfjobs.kubeflow.org is not that of this Millrace, and drops what is remembered of jobs: " REMEDY},
    {"datasets.millrace.dev", &kube_datasets,
        {"properties.status.properties.clients", "properties.status.properties.preload",
            "properties.spec.properties.cache.properties.loader"},
        "the CustomResourceDefinition datasets.millrace.dev is of an earlier Millrace, and drops fields: " REMEDY},
    {"dataloads.millrace.dev", &kube_dataloads, {"properties.status.properties.progress"},
        "the CustomResourceDefinition dataloads.millrace.dev is of an earlier Millrace, and drops fields: " REMEDY},
};

/* The schema of our version; NULL: it is not served. */
static const json_t *served_schema(const json_t *crd, const char *version)
{
    const json_t *versions = jget_arr(crd, "spec.versions");
    for (size_t i = 0; i < json_array_size(versions); i++) {
        const json_t *v = json_array_get(versions, i);
        if (strcmp(jget_str(v, "name", ""), version) == 0 && jget_bool(v, "served", false))
            return jget_obj(v, "schema.openAPIV3Schema");
    }
    return NULL;
}

static bool crd_is_ours(const json_t *crd, const struct known_crd *known)
{
    const json_t *schema = served_schema(crd, known->res->version);
    for (size_t i = 0; i < ARRAY_LEN(known->fields) && known->fields[i]; i++)
        if (!jget(schema, known->fields[i]))
            return false;
    return schema != NULL;
}

static void tell_crd(struct crd_check *c, size_t i, bool ours)
{
    metric_set(metric_of(&crd_current, crds[i].name), ours);
    if (c->reported[i] == !ours)
        return;
    c->reported[i] = !ours;
    if (ours)
        log_kv(LOG_INFO, "the CustomResourceDefinition is right again", "crd", crds[i].name, NULL);
    else
        log_kv(LOG_ERROR, crds[i].problem, "crd", crds[i].name, NULL);
}

/* True if all that could be looked at are ours. */
static bool look_at_crds(struct crd_check *c)
{
    bool all = true;
    for (size_t i = 0; i < ARRAY_LEN(crds); i++) {
        cleanup_json json_t *crd = NULL;
        struct err e = ERR_INIT;
        if (crds[i].res == &kube_tfjobs && !c->tfjob)
            continue;
        if (kube_get(c->mgr->kube, &kube_crds, NULL, crds[i].name, &crd, &e)) {
            log_kv(LOG_DEBUG, "a CustomResourceDefinition could not be looked at", "error", e.msg,
                NULL);
            all &= !c->reported[i];
            continue;
        }
        bool ours = crd_is_ours(crd, &crds[i]);
        tell_crd(c, i, ours);
        if (crds[i].res == &kube_tfjobs)
            atomic_store(&c->mgr->crd_problem, ours ? NULL : crds[i].problem);
        all &= ours;
    }
    return all;
}

static void crd_check_thread(void *user)
{
    struct crd_check *c = user;
    bool all = !c->reported[0] && !c->reported[1] && !c->reported[2];
    while (!task_wait(&c->task, clock_mono_ns() + (all ? LOOK_NS : MEND_NS)))
        all = look_at_crds(c);
}

int crd_check_start(struct crd_check *c, struct manager *mgr, bool tfjob, struct err *e)
{
    c->mgr = mgr;
    c->tfjob = tfjob;
    look_at_crds(c);
    return task_start(&c->task, "crds", crd_check_thread, c, e);
}

void crd_check_stop(struct crd_check *c) { task_stop(&c->task); }
