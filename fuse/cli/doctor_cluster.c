/* SPDX-License-Identifier: Apache-2.0 */
/* Of a cluster: asks for what doctor.h looks at. */
#include "fuse/cli/doctor.h"

#include "fuse/cli/cluster.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct doctor_answers {
    json_t *crds, *driver, *pods, *daemonsets, *nodes, *csinodes, *datasets, *tfjobs, *refused;
    bool may_list_crds, may_get_driver, all, all_datasets, all_tfjobs;
};

static void answers_free(struct doctor_answers *a)
{
    json_t *const every[] = {a->crds, a->driver, a->pods, a->daemonsets, a->nodes, a->csinodes,
        a->datasets, a->tfjobs, a->refused};
    for (size_t i = 0; i < ARRAY_LEN(every); i++)
        json_decref(every[i]);
}

static int fetch_crds(struct cluster *c, struct doctor_answers *a, struct err *e)
{
    static const char *const names[] = {
        "datasets." NAME_GROUP, "dataloads." NAME_GROUP, "tfjobs.kubeflow.org"};
    a->crds = json_array();
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        json_t *crd;
        if (cluster_get(c, &kube_crds, NULL, names[i], &crd, e))
            return -1;
        if (crd)
            json_array_append_new(a->crds, crd);
    }
    a->may_list_crds = !cluster_denied(c, &kube_crds);
    return 0;
}

static int fetch_driver(struct cluster *c, struct doctor_answers *a, struct err *e)
{
    int rc = cluster_get(c, &kube_csidrivers, NULL, NAME_DRIVER, &a->driver, e);
    a->may_get_driver = !cluster_denied(c, &kube_csidrivers);
    return rc;
}

/* Of all namespaces, or else of the person's own. */
static int fetch_ours(struct cluster *c, struct doctor_answers *a, struct err *e)
{
    const struct kube_select ours = {.labels = LABEL_COMPONENT};
    if (cluster_list(c, &kube_pods, NULL, &ours, &a->pods, e)
        || cluster_list(c, &kube_datasets, NULL, NULL, &a->datasets, e)
        || cluster_list(c, &kube_tfjobs, NULL, NULL, &a->tfjobs, e))
        return -1;
    a->all = a->pods != NULL;
    a->all_datasets = a->datasets != NULL;
    a->all_tfjobs = a->tfjobs != NULL;
    if (!a->datasets && cluster_list(c, &kube_datasets, c->ns, NULL, &a->datasets, e))
        return -1;
    if (!a->tfjobs && cluster_list(c, &kube_tfjobs, c->ns, NULL, &a->tfjobs, e))
        return -1;
    return 0;
}

/* May the person do that in the namespace? Adds "VERB RESOURCE" if not. 1: it is not told. */
static int ask_right(
    struct cluster *c, const char *verb, const struct kube_res *res, json_t *refused, struct err *e)
{
    cleanup_json json_t *answer = NULL;
    cleanup_json json_t *question = json_pack("{s:s, s:s, s:{s:{s:s, s:s, s:s, s:s}}}",
        "apiVersion", "authorization.k8s.io/v1", "kind", kube_access_reviews.kind, "spec",
        "resourceAttributes", "namespace", c->ns, "verb", verb, "group", res->group, "resource",
        res->plural);
    if (kube_create(c->kube, &kube_access_reviews, NULL, question, &answer, e))
        return cluster_skip(c, &kube_access_reviews, e) ? -1 : 1;
    if (!jget_bool(answer, "status.allowed", false)) {
        cleanup_free char *what = xasprintf("%s %s", verb, res->plural);
        json_array_append_new(refused, json_string(what));
    }
    return 0;
}

static int fetch_rights(struct cluster *c, struct doctor_answers *a, struct err *e)
{
    const struct {
        const char *verb;
        const struct kube_res *res;
    } rights[] = {{"create", &kube_datasets}, {"list", &kube_datasets}, {"list", &kube_pods},
        {"list", &kube_pvcs}, {"list", &kube_events}};
    a->refused = json_array();
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(rights) && rc == 0; i++)
        rc = ask_right(c, rights[i].verb, rights[i].res, a->refused, e);
    if (rc > 0) {
        json_decref(a->refused);
        a->refused = NULL;
    }
    return rc < 0 ? -1 : 0;
}

static int fetch_answers(struct cluster *c, struct doctor_answers *a, struct err *e)
{
    return fetch_crds(c, a, e) || fetch_ours(c, a, e) || fetch_driver(c, a, e)
            || cluster_list(c, &kube_daemonsets, NULL, NULL, &a->daemonsets, e)
            || cluster_list(c, &kube_nodes, NULL, NULL, &a->nodes, e)
            || cluster_list(c, &kube_csinodes, NULL, NULL, &a->csinodes, e) || fetch_rights(c, a, e)
        ? -1
        : 0;
}

/* Does anything say where a cluster is? */
static bool is_configured(const struct cluster_flags *f)
{
    const char *home = getenv("HOME"), *config = getenv("KUBECONFIG");
    cleanup_free char *usual = xasprintf("%s/.kube/config", home ? home : "");
    return f->kubeconfig || f->context || f->server || f->ns || (config && *config)
        || getenv("KUBERNETES_SERVICE_HOST") || access(usual, F_OK) == 0;
}

int doctor_cluster(
    const struct cluster_flags *flags, bool required, struct doctor_lines *r, struct err *e)
{
    cleanup_cluster struct cluster c = {0};
    struct doctor_answers got = {0};
    if (!required && !is_configured(flags))
        return 0;
    if (cluster_open(&c, flags, e) || fetch_answers(&c, &got, e)) {
        answers_free(&got);
        return -1;
    }
    doctor_line(r, DOCTOR_OK, "the API server %s answers", kube_server(c.kube));
    const struct doctor_facts facts = {.ns = c.ns,
        .version = MILLRACE_VERSION,
        .may_list_crds = got.may_list_crds,
        .may_get_driver = got.may_get_driver,
        .crds = got.crds,
        .driver = got.driver,
        .pods = got.pods,
        .daemonsets = got.daemonsets,
        .nodes = got.nodes,
        .csinodes = got.csinodes,
        .datasets = got.datasets,
        .tfjobs = got.tfjobs,
        .all = got.all,
        .all_tfjobs = got.all_tfjobs,
        .all_datasets = got.all_datasets,
        .may_not_list = cluster_denied(&c, &kube_datasets),
        .refused = got.refused};
    doctor_checks(&facts, r);
    answers_free(&got);
    return 0;
}
