/* SPDX-License-Identifier: Apache-2.0 */
/* The verb: a pod, a job or a path of a mount, and the sentence about it. */
#include "fuse/cli/why.h"

#include "fuse/cli/cli.h"
#include "fuse/cli/facts.h"
#include "fuse/cli/kind.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <stdlib.h>
#include <string.h>

/* Jobs that may have no pods yet. Others are known by the labels of their pods. */
static const struct kube_res *const our_jobs[] = {&kube_tfjobs, &kube_jobs};
static const struct kube_res other_jobs[] = {
    {"kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", true},
    {"kubeflow.org", "v1", "mpijobs", "MPIJob", true},
    {"jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", true},
    {"trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", true},
};

static bool is_pod_of(const json_t *pod, const char *job)
{
    static const char *const labels[] = {"batch.kubernetes.io/job-name", "job-name",
        "training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name", "ray.io/cluster"};
    const json_t *owner = kube_controller_of(pod);
    const char *name = jget_str(owner, "name", "");
    for (size_t i = 0; i < ARRAY_LEN(labels); i++)
        if (strcmp(kube_label(pod, labels[i]), job) == 0)
            return true;
    /* a Deployment's ReplicaSet is called like it, and a hash */
    size_t n = strlen(job);
    bool replica_set = strcmp(jget_str(owner, "kind", ""), "ReplicaSet") == 0
        && strncmp(name, job, n) == 0 && name[n] == '-' && !strchr(name + n + 1, '-');
    bool dataset = strcmp(jget_str(owner, "kind", ""), "Dataset") == 0; /* its own pods */
    return replica_set || (strcmp(name, job) == 0 && !dataset);
}

static int say_why(const struct why *w, struct cluster *c)
{
    cleanup_free char *next = w->next && *w->next ? xasprintf("next: %s\n", w->next) : xstrdup("");
    cli_put(stdout, w->sentence);
    puts("");
    cli_put(stdout, next);
    if (c)
        cluster_say_skipped(c, stdout);
    return w->rank == WHY_FINE ? CLI_DONE : CLI_FOUND;
}

static int why_pods(struct cluster *c, const json_t *pods, const char *job, struct err *e)
{
    cleanup_facts struct facts f = {0};
    cleanup_why struct why w = {0};
    size_t like, all = json_array_size(pods);
    if (job && all > 1 && why_all_succeeded(pods)) {
        printf("%s: its %zu pods have succeeded: they wait for nothing\n", job, all);
        return CLI_DONE;
    }
    if (facts_fetch(c, c->ns, pods, &f, e))
        return cli_failed(e);
    if (!f.datasets && !cluster_denied(c, &kube_datasets))
        return cluster_no_datasets(c, c->ns, e), cli_failed(e);
    facts_worst(&f, c->ns, pods, &w, &like);
    if (job && all > 1)
        printf("%s: %zu of its %zu pods %s: ", job, like, all,
            w.rank == WHY_FINE ? "are well" : "are like this");
    return say_why(&w, c);
}

/* Of a job without pods; CLI_DONE with *found false: there is no such job. */
static int why_job_alone(
    struct cluster *c, const struct kube_res *res, const char *name, bool *found, struct err *e)
{
    cleanup_json json_t *job = NULL, *events = NULL;
    if (cluster_get(c, res, c->ns, name, &job, e))
        return cli_failed(e);
    *found = job != NULL;
    if (!job)
        return CLI_DONE;
    cleanup_free char *fields = xasprintf(
        "involvedObject.kind=%s,involvedObject.name=%s", res->kind, name);
    const struct kube_select sel = {.fields = fields};
    if (cluster_list(c, &kube_events, c->ns, &sel, &events, e))
        return cli_failed(e);
    cleanup_json json_t *operators = NULL;
    if (res == &kube_tfjobs && facts_operators(c, &operators, e))
        return cli_failed(e);
    cleanup_why struct why w = {0};
    if (!why_object_unwatched(job, "tfjob", c->ns, operators, &w)
        && !why_tfjob_unrun(job, operators, &w))
        why_job(job, c->ns, events, &w);
    return say_why(&w, c);
}

/* Of a Dataset or a DataLoad; CLI_DONE with *found false: there is none of that name. */
static int why_ours(
    struct cluster *c, const struct kube_res *res, const char *name, bool *found, struct err *e)
{
    cleanup_json json_t *object = NULL;
    if (cluster_get(c, res, c->ns, name, &object, e))
        return cli_failed(e);
    *found = object != NULL;
    if (!object)
        return CLI_DONE;
    cleanup_json json_t *operators = NULL;
    if (facts_operators(c, &operators, e))
        return cli_failed(e);
    cleanup_why struct why w = {0};
    const char *kind = res == &kube_datasets ? "dataset" : "dataload";
    if (why_object_unwatched(object, kind, c->ns, operators, &w))
        return say_why(&w, c);
    if (res == &kube_datasets)
        why_of_dataset(object, cli_name(), &w);
    else
        why_of_dataload(object, &w);
    return say_why(&w, c);
}

static int why_of_kind(
    struct cluster *c, const struct kube_res *res, const char *name, struct err *e)
{
    bool found = false;
    int rc = why_ours(c, res, name, &found, e);
    if (rc || found)
        return rc;
    cluster_say_skipped(c, stderr);
    if (cluster_denied(c, res))
        err_set(e, ERR_DENIED, "you may not read %s in namespace %s: ask for the role view there",
            res->plural, c->ns);
    else
        err_set(e, ERR_NOTFOUND, "there is no %s %s in namespace %s: is it the right one (-n)?",
            res->kind, name, c->ns);
    return cli_failed(e);
}

/* Of what is no pod; CLI_DONE with *found false: there is nothing of that name. */
static int why_no_pod(
    struct cluster *c, enum cli_kind kind, const char *name, bool *found, struct err *e)
{
    *found = false;
    for (size_t i = 0; i < ARRAY_LEN(our_jobs) + ARRAY_LEN(other_jobs); i++) {
        const struct kube_res *res = i < ARRAY_LEN(our_jobs) ? our_jobs[i]
                                                             : &other_jobs[i - ARRAY_LEN(our_jobs)];
        int rc = why_job_alone(c, res, name, found, e);
        if (rc || *found)
            return rc;
    }
    return kind == CLI_KIND_ANY ? why_ours(c, &kube_datasets, name, found, e) : CLI_DONE;
}

/* A job's own status says something without its pods, but not what they wait for. */
static int why_without_pods(struct cluster *c, enum cli_kind kind, const char *name, struct err *e)
{
    bool found = false;
    int rc = kind == CLI_KIND_ANY ? why_ours(c, &kube_datasets, name, &found, e) : CLI_DONE;
    if (rc || found)
        return rc;
    err_set(e, ERR_DENIED,
        "you may not list pods in namespace %s, and without them it is not known what they wait "
        "for: ask for the role view there",
        c->ns);
    return cli_failed(e);
}

static int why_nobody(
    struct cluster *c, enum cli_kind kind, const char *name, const json_t *pods, struct err *e)
{
    bool found;
    int rc = why_no_pod(c, kind, name, &found, e);
    if (rc || found)
        return rc;
    const char *near = similar_name(pods, name);
    cluster_say_skipped(c, stderr);
    err_set(e, ERR_NOTFOUND, "there is no pod and no job %s in namespace %s%s%s%s", name, c->ns,
        near ? ": did you mean pod " : ": is it the right one (-n)?", near ? near : "",
        near ? "?" : "");
    return cli_failed(e);
}

static int why_name(struct cluster *c, const char *what, struct err *e)
{
    enum cli_kind kind;
    const char *name;
    cleanup_json json_t *pod = NULL, *pods = json_array(), *all = NULL;
    if (cli_kind_split(what, &kind, &name, e) || cluster_check_name("pod or job", name, e))
        return cli_failed(e);
    if (kind == CLI_KIND_DATASET || kind == CLI_KIND_DATALOAD)
        return why_of_kind(c, kind == CLI_KIND_DATASET ? &kube_datasets : &kube_dataloads, name, e);
    if ((kind == CLI_KIND_ANY || kind == CLI_KIND_POD)
        && cluster_get(c, &kube_pods, c->ns, name, &pod, e))
        return cli_failed(e);
    if (pod) {
        json_array_append(pods, pod);
        return why_pods(c, pods, NULL, e);
    }
    if (cluster_list(c, &kube_pods, c->ns, NULL, &all, e))
        return cli_failed(e);
    if (!all)
        return why_without_pods(c, kind, name, e);
    json_t *one;
    size_t i;
    json_array_foreach (all, i, one)
        if (is_pod_of(one, name))
            json_array_append(pods, one);
    why_drop_replaced(pods);
    return json_array_size(pods) ? why_pods(c, pods, what, e) : why_nobody(c, kind, name, all, e);
}

static int why_path(const char *path, struct err *e)
{
    cleanup_free char *point = NULL, *text = NULL;
    if (mount_point_of(path, &point, e))
        return cli_failed(e);
    text = read_xattr(point, XATTR_WHY);
    if (!text)
        return err_set(e, ERR_NOTFOUND,
                   "%s: the client that serves it is older than this program: it does not say why",
                   point),
               cli_failed(e);
    cli_put(stdout, text);
    puts("");
    return CLI_DONE;
}

/* "data/train", too, if that is on a mount: a pod or job of that name is not. */
static bool is_path(const char *what)
{
    cleanup_free char *point = NULL;
    struct err none = ERR_INIT;
    return *what == '/' || *what == '.' || mount_point_of(what, &point, &none) == 0;
}

int verb_why(const struct verb *v, int argc, char **argv)
{
    struct cluster_flags flags = {0};
    const struct opt table[] = {CLUSTER_FLAGS(flags)};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct err e = ERR_INIT;
    if (a.npos == 1 && is_path(a.pos[0]))
        return why_path(a.pos[0], &e);
    cleanup_cluster struct cluster c = {0};
    if (cluster_open(&c, &flags, &e))
        return cli_failed(&e);
    cleanup_free char *words = a.npos == 2 ? xasprintf("%s/%s", a.pos[0], a.pos[1]) : NULL;
    return why_name(&c, words ? words : a.pos[0], &e);
}
