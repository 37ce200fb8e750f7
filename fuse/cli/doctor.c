/* SPDX-License-Identifier: Apache-2.0 */
/* The checks, and what to do where one fails. */
#include "fuse/cli/doctor.h"

#include "fuse/cli/cli.h"
#include "fuse/cli/why.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/api/dataset_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void doctor_line(struct doctor_lines *r, enum doctor_verdict v, const char *fmt, ...)
{
    static const char *const words[] = {"ok", "FAILED", "note", "skipped"};
    va_list ap;
    va_start(ap, fmt);
    cleanup_free char *text = xvasprintf(fmt, ap);
    va_end(ap);
    cleanup_free char *line = one_line(text);
    buf_addf(r->out, "%-8s%s\n", words[v], line);
    r->failed += v == DOCTOR_FAILED;
    if (r->at_once) {
        printf("%-8s", words[v]);
        cli_put(stdout, line);
        puts("");
        fflush(stdout);
    }
}

/* -- kinds ------------------------------------------------------------------------------------- */

/* Not one part of it: what is missing then is missing together. */
static bool not_installed(const struct doctor_facts *f)
{
    return f->may_list_crds && json_array_size(f->crds) == 0 && f->may_get_driver && !f->driver
        && json_array_size(f->pods) == 0;
}

const json_t *doctor_crd(const struct doctor_facts *f, const char *name)
{
    const json_t *crd;
    size_t i;
    json_array_foreach (f->crds, i, crd)
        if (strcmp(kube_name(crd), name) == 0)
            return crd;
    return NULL;
}

static const json_t *crd_version(const json_t *crd, const char *name)
{
    const json_t *v;
    size_t i;
    json_array_foreach (jget_arr(crd, "spec.versions"), i, v)
        if (strcmp(jget_str(v, "name", ""), name) == 0 && jget_bool(v, "served", false))
            return v;
    return NULL;
}

static void check_crds(const struct doctor_facts *f, struct doctor_lines *r)
{
    static const char *const names[] = {"datasets." NAME_GROUP, "dataloads." NAME_GROUP};
    const char *served = strchr(NAME_API_VERSION, '/') + 1;
    if (!f->may_list_crds) {
        doctor_line(r, DOCTOR_SKIPPED, "kinds: you may not read CustomResourceDefinitions");
        return;
    }
    if (not_installed(f)) {
        doctor_line(r, DOCTOR_FAILED,
            "kinds: Millrace is not installed in this cluster: install the chart, which brings them "
            "along: docs/install/helm.md");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const json_t *crd = doctor_crd(f, names[i]);
        if (!crd)
            doctor_line(r, DOCTOR_FAILED, "kind %s is not there: " DOCTOR_CRDS_REMEDY, names[i]);
        else if (!crd_version(crd, served))
            doctor_line(r, DOCTOR_FAILED, "kind %s does not serve %s: " DOCTOR_CRDS_REMEDY,
                names[i], served);
        else if (i == 0 && !dataset_schema_is_ours(crd_version(crd, served)))
            doctor_line(r, DOCTOR_FAILED,
                "kind %s is older than this program: its new fields are dropped: " DOCTOR_CRDS_REMEDY,
                names[i]);
        else
            doctor_line(r, DOCTOR_OK, "kind %s serves %s", names[i], served);
    }
}

/* -- pods of ours ------------------------------------------------------------------------------ */

bool doctor_is_component(const json_t *pod, const char *component)
{
    return strcmp(kube_label(pod, LABEL_COMPONENT), component) == 0;
}

bool doctor_pod_is_ready(const json_t *pod)
{
    return cond_is_true(jget_arr(pod, "status.conditions"), "Ready");
}

/* Of our container: those of the chart are called like their component. */
static const char *image_of(const json_t *pod)
{
    const json_t *all = jget_arr(pod, "spec.containers"),
                 *ours = kube_container(all, CONTAINER_MAIN);
    return jget_str(
        ours ? ours : kube_container(all, kube_label(pod, LABEL_COMPONENT)), "image", "");
}

const json_t *doctor_first_of(const struct doctor_facts *f, const char *component, bool ready)
{
    const json_t *pod;
    size_t i;
    json_array_foreach (f->pods, i, pod)
        if (doctor_is_component(pod, component) && doctor_pod_is_ready(pod) == ready
            && !kube_deleting(pod))
            return pod;
    return NULL;
}

static size_t count_of(const struct doctor_facts *f, const char *component, bool ready)
{
    const json_t *pod;
    size_t i, n = 0;
    json_array_foreach (f->pods, i, pod)
        n += doctor_is_component(pod, component) && doctor_pod_is_ready(pod) == ready
            && !kube_deleting(pod);
    return n;
}

static void check_operator(const struct doctor_facts *f, struct doctor_lines *r)
{
    const json_t *up = doctor_first_of(f, COMPONENT_OPERATOR, true),
                 *down = doctor_first_of(f, COMPONENT_OPERATOR, false);
    if (!f->all)
        return;
    if (!up && !down)
        doctor_line(r, DOCTOR_FAILED,
            "operator: there is no pod with the label " LABEL_COMPONENT
            "=operator: install the chart; if "
            "it is installed, `kubectl get replicasets -A` and describe tell who refuses the pods "
            "(quota, policy)");
    else if (down)
        doctor_line(r, up ? DOCTOR_NOTE : DOCTOR_FAILED,
            "operator: %zu of %zu pods are ready; kubectl -n %s describe pod %s",
            count_of(f, COMPONENT_OPERATOR, true),
            count_of(f, COMPONENT_OPERATOR, true) + count_of(f, COMPONENT_OPERATOR, false),
            kube_namespace(down), kube_name(down));
    else
        doctor_line(r, DOCTOR_OK, "operator: %zu of %zu pods are ready, image %s",
            count_of(f, COMPONENT_OPERATOR, true), count_of(f, COMPONENT_OPERATOR, true),
            image_of(up));
    if (*watched_only(f->pods))
        doctor_line(r, DOCTOR_NOTE,
            "operator: Millrace watches namespace %s only (value watchNamespace): Datasets and jobs of "
            "others wait for ever",
            watched_only(f->pods));
}

/* Does it run an image of ours, now? A TensorBoard has the job's, a loader that is done its own. */
static bool runs_ours(const json_t *pod)
{
    const char *phase = jget_str(pod, "status.phase", "");
    return !doctor_is_component(pod, COMPONENT_TENSORBOARD) && strcmp(phase, "Succeeded") != 0
        && strcmp(phase, "Failed") != 0;
}

/* Is the other at most one minor release away? docs/reference/compatibility.md promises that. */
static bool goes_with(const char *version, const char *other)
{
    int major[2] = {0}, minor[2] = {0};
    return sscanf(version, "%d.%d", &major[0], &minor[0]) == 2
        && sscanf(other, "%d.%d", &major[1], &minor[1]) == 2 && major[0] == major[1]
        && minor[0] - minor[1] <= 1 && minor[1] - minor[0] <= 1;
}

/* Our own version against the operator's; images of the others against its image. */
static void check_versions(const struct doctor_facts *f, struct doctor_lines *r)
{
    const json_t *up = doctor_first_of(f, COMPONENT_OPERATOR, true), *pod, *other = NULL;
    size_t i, n = 0, all = 0;
    if (!up)
        return;
    const char *version = kube_label(up, "app.kubernetes.io/version");
    if (*version && strcmp(version, f->version) != 0)
        doctor_line(r, goes_with(f->version, version) ? DOCTOR_NOTE : DOCTOR_FAILED,
            "versions: this program is %s, the operator %s: use the program of the same release",
            f->version, version);
    json_array_foreach (f->pods, i, pod) {
        if (!runs_ours(pod))
            continue;
        all++;
        if (!doctor_is_component(pod, COMPONENT_OPERATOR)
            && strcmp(image_of(pod), image_of(up)) != 0) {
            other = other ? other : pod;
            n++;
        }
    }
    if (other)
        doctor_line(r, DOCTOR_FAILED,
            "versions: %zu of %zu pods do not run the operator's image %s, as %s/%s (%s): clients and "
            "workers are replaced one after another while others serve: `kubectl get "
            "datasets.millrace.dev -A` tells what holds that up",
            n, all, image_of(up), kube_namespace(other), kube_name(other), image_of(other));
    else
        doctor_line(r, DOCTOR_OK, "versions: all pods of Millrace run %s", image_of(up));
}

/* -- nodes, Datasets, rights ------------------------------------------------------------------- */

static void check_kernels(const struct doctor_facts *f, struct doctor_lines *r)
{
    const json_t *node, *old = NULL;
    size_t i, n = 0, all = 0;
    if (!f->nodes) {
        doctor_line(r, DOCTOR_SKIPPED, "kernels: you may not list Nodes");
        return;
    }
    json_array_foreach (f->nodes, i, node) {
        int major = 0, minor = 0;
        const char *text = jget_str(node, "status.nodeInfo.kernelVersion", "");
        if (strcmp(jget_str(node, "status.nodeInfo.operatingSystem", "linux"), "linux") != 0)
            continue;
        all++;
        if (sscanf(text, "%d.%d", &major, &minor) == 2
            && (major < 6 || (major == 6 && minor < 9))) {
            old = old ? old : node;
            n++;
        }
    }
    if (old)
        doctor_line(r, DOCTOR_NOTE,
            "kernels: %zu of %zu nodes are older than Linux 6.9, as %s (%s): mounts work, reads are slower "
            "and a killed client breaks them there: docs/install/requirements.md",
            n, all, kube_name(old), jget_str(old, "status.nodeInfo.kernelVersion", ""));
    else
        doctor_line(r, DOCTOR_OK, "kernels: %zu of %zu nodes run Linux 6.9 or newer", all, all);
}

char *doctor_unseen(const struct doctor_facts *f, const char *ns)
{
    if (is_unwatched(f->pods, ns))
        return xasprintf("Millrace watches namespace %s only: upgrade its chart with another "
                         "watchNamespace, or with none",
            watched_only(f->pods));
    return xstrdup(
        "no operator has looked at it: does one run? kubectl get pods -A -l " LABEL_COMPONENT
        "=operator");
}

/* What is wrong with one that is not Ready. */
static char *doctor_unready(const struct doctor_facts *f, const struct dataset_reading *d)
{
    return *d->reason ? xasprintf("%s%s%s", d->reason, *d->message ? ": " : "", d->message)
                      : doctor_unseen(f, d->ns);
}

static void check_datasets(const struct doctor_facts *f, struct doctor_lines *r)
{
    const json_t *dataset;
    struct dataset_reading first = {0};
    size_t i, n = 0;
    if (!f->datasets) {
        if (f->may_not_list)
            doctor_line(
                r, DOCTOR_SKIPPED, "Datasets: you may not list them in namespace %s", f->ns);
        else
            doctor_line(r, DOCTOR_SKIPPED, "Datasets: there is no such kind");
        return;
    }
    json_array_foreach (f->datasets, i, dataset) {
        struct dataset_reading d;
        dataset_read(dataset, &d);
        if (d.ready || d.deleting)
            continue;
        if (n++ == 0)
            first = d;
    }
    const char *where = f->all_datasets ? "the cluster" : f->ns;
    cleanup_free char *why = n ? doctor_unready(f, &first) : NULL;
    if (n)
        doctor_line(r, DOCTOR_FAILED, "Datasets: %zu of %zu in %s are not Ready, as %s/%s: %s", n,
            json_array_size(f->datasets), where, first.ns, first.name, why);
    else
        doctor_line(
            r, DOCTOR_OK, "Datasets: all %zu in %s are Ready", json_array_size(f->datasets), where);
}

static void check_rights(const struct doctor_facts *f, struct doctor_lines *r)
{
    cleanup_buf struct buf list = BUF_INIT(4096);
    const json_t *what;
    size_t i;
    if (!f->refused) {
        doctor_line(r, DOCTOR_SKIPPED, "rights: the API server does not tell what you may do");
        return;
    }
    json_array_foreach (f->refused, i, what)
        buf_addf(&list, "%s%s", i ? ", " : "", json_string_value(what));
    if (list.len)
        doctor_line(r, DOCTOR_FAILED,
            "rights: in namespace %s you may not %s: ask for the role edit (view, to look only) there",
            f->ns, buf_str(&list));
    else
        doctor_line(r, DOCTOR_OK,
            "rights: in namespace %s you may make Datasets and see why pods wait", f->ns);
}

void doctor_checks(const struct doctor_facts *f, struct doctor_lines *r)
{
    static void (*const checks[])(const struct doctor_facts *f, struct doctor_lines *r) = {
        check_crds, doctor_check_tfjob_kind, check_operator, check_versions, doctor_check_plugin,
        doctor_check_disks, doctor_check_driver, check_kernels, check_datasets, doctor_check_tfjobs,
        check_rights};
    if (!f->all)
        doctor_line(r, DOCTOR_SKIPPED,
            "operator: you may not list pods of all namespaces: a cluster's administrator sees more");
    for (size_t i = 0; i < ARRAY_LEN(checks); i++)
        checks[i](f, r);
}

unsigned doctor_report(const struct doctor_facts *f, struct buf *out)
{
    struct doctor_lines r = {.out = out};
    doctor_checks(f, &r);
    return r.failed;
}
