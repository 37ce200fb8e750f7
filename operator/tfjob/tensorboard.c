/* SPDX-License-Identifier: Apache-2.0 */
/* The TensorBoard of a TFJob that asks for one: a Deployment and a Service that stay until the
 * TFJob is deleted, because its curves are looked at afterwards, too. It runs as the job's pods
 * do (user, service account, registry), and only reads. */
#include "operator/tfjob/pass.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/tfjob/names.h"

#include <string.h>

#define TENSORBOARD_PORT 6006
#define TENSORBOARD_DIR  "/logs"

static json_t *meta_of(const struct tfjob *j, const char *name)
{
    return json_pack("{s:s s:s s:{s:s s:s s:s} s:[o]}", "name", name, "namespace", j->ns, "labels",
        TFJOB_LABEL_OPERATOR, TFJOB_OPERATOR_NAME, TFJOB_LABEL_JOB, j->name, LABEL_COMPONENT,
        COMPONENT_TENSORBOARD, "ownerReferences", tfjob_owner(j));
}

/* Not the labels of the job's pods: clients find those by the job's name. */
static json_t *tensorboard_selector(const struct tfjob *j)
{
    return json_pack("{s:s s:s}", LABEL_TFJOB, j->name, LABEL_COMPONENT, COMPONENT_TENSORBOARD);
}

static const json_t *model_pod_spec(const struct tfjob *j)
{
    static const enum tfjob_type order[] = {
        TFJOB_CHIEF, TFJOB_MASTER, TFJOB_WORKER, TFJOB_EVALUATOR, TFJOB_PS};
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        if (j->spec[order[i]].present)
            return jget_obj(j->spec[order[i]].template, "spec");
    return NULL;
}

static void copy_field(json_t *to, const json_t *from, const char *key)
{
    const json_t *v = json_object_get(from, key);
    if (v)
        json_object_set_new(to, key, json_deep_copy(v));
}

static json_t *tensorboard_container(const struct tfjob *j, const char *dir)
{
    const json_t *main = tfjob_main_container(model_pod_spec(j));
    const char *image = *j->annotations.tensorboard_image ? j->annotations.tensorboard_image
                                                          : jget_str(main, "image", "");
    cleanup_free char *logdir = xasprintf("--logdir=" TENSORBOARD_DIR "%s", dir);
    json_t *c = json_pack(
        "{s:s s:s s:[s s s s] s:[{s:s s:i}] s:[{s:s s:s s:b}] s:{s:{s:s s:i} s:i}}", "name",
        "tensorboard", "image", image, "command", "tensorboard", logdir, "--host=0.0.0.0",
        "--port=6006", "ports", "name", "http", "containerPort", TENSORBOARD_PORT, "volumeMounts",
        "name", "logs", "mountPath", TENSORBOARD_DIR, "readOnly", 1, "readinessProbe", "httpGet",
        "path", "/", "port", TENSORBOARD_PORT, "periodSeconds", 5);
    copy_field(c, main, "securityContext");
    copy_field(c, main, "imagePullPolicy");
    return c;
}

static json_t *writers(const struct tfjob *j)
{
    return json_pack("{s:s s:s}", TFJOB_LABEL_JOB, j->name, TFJOB_LABEL_ROLE, "master");
}

/* Beside the pod that writes the events: what an open file has got is seen at once on its node, and
 * elsewhere when the file is closed. Not required: after the job it may run anywhere. */
static json_t *beside_writer(const struct tfjob *j)
{
    return json_pack("{s:{s:[{s:i s:{s:s s:{s:o}}}]}}", "podAffinity",
        "preferredDuringSchedulingIgnoredDuringExecution", "weight", 100, "podAffinityTerm",
        "topologyKey", "kubernetes.io/hostname", "labelSelector", "matchLabels", writers(j));
}

static bool writer_has_node(const struct tfjob_pass *p)
{
    for (size_t i = 0; i < p->o->npods; i++)
        if (kube_controlled_by(p->o->pods[i], p->job->uid)
            && *kube_label(p->o->pods[i], TFJOB_LABEL_ROLE)
            && *jget_str(p->o->pods[i], "spec.nodeName", ""))
            return true;
    return false;
}

static json_t *tensorboard_deployment(const struct tfjob_pass *p, const char *name)
{
    const struct tfjob *j = p->job;
    const char *slash = strchr(j->annotations.tensorboard, '/');
    cleanup_free char *claim = tfjob_tensorboard_claim(p->o->job);
    json_t *spec = json_pack("{s:o s:[o] s:[{s:s s:{s:s s:b}}]}", "affinity", beside_writer(j),
        "containers", tensorboard_container(j, slash ? slash : ""), "volumes", "name", "logs",
        "persistentVolumeClaim", "claimName", claim, "readOnly", 1);
    static const char *const kept[] = {"securityContext", "serviceAccountName", "imagePullSecrets"};
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        copy_field(spec, model_pod_spec(j), kept[i]);
    return json_pack("{s:s s:s s:o s:{s:i s:{s:o} s:{s:{s:o} s:o}}}", "apiVersion", "apps/v1",
        "kind", "Deployment", "metadata", meta_of(j, name), "spec", "replicas", 1, "selector",
        "matchLabels", tensorboard_selector(j), "template", "metadata", "labels",
        tensorboard_selector(j), "spec", spec);
}

static json_t *tensorboard_service(const struct tfjob *j, const char *name)
{
    return json_pack("{s:s s:s s:o s:{s:o s:[{s:s s:i s:s}]}}", "apiVersion", "v1", "kind",
        "Service", "metadata", meta_of(j, name), "spec", "selector", tensorboard_selector(j),
        "ports", "name", "http", "port", TENSORBOARD_PORT, "targetPort", "http");
}

static void apply_unless_foreign(
    struct tfjob_pass *p, const struct kube_res *res, json_t *desired_take, const json_t *there)
{
    if (there && !kube_controlled_by(there, p->job->uid)) {
        pass_event(p, true, "TensorBoardFailed",
            "%s %s exists and does not belong to this job: delete it, or choose another name for the job",
            res->kind, kube_name(there));
        json_decref(desired_take);
        return;
    }
    plan_apply(p->plan, res, desired_take, there);
}

/* It is made nevertheless: its pod starts when the claim is there. */
static void say_no_logs(struct tfjob_pass *p)
{
    cleanup_free char *claim = tfjob_tensorboard_claim(p->o->job);
    pass_event(p, true, "TensorBoardFailed",
        "there is no PersistentVolumeClaim %s, nor a Dataset of that name: make it, or correct the annotation " ANNOTATION_TENSORBOARD
        "; the job runs on, and its TensorBoard waits",
        claim);
}

void pass_tensorboard(struct tfjob_pass *p)
{
    const struct tfjob_observed *o = p->o;
    size_t since = p->plan->n;
    if (p->job->annotations.tensorboard) {
        cleanup_free char *name = xasprintf("%s" TFJOB_TENSORBOARD_SUFFIX, p->job->name);
        apply_unless_foreign(
            p, &kube_services, tensorboard_service(p->job, name), o->tensorboard_service);
        if (o->logs_missing && !pass_has_ended(p) && writer_has_node(p))
            say_no_logs(p);
        if (o->tensorboard || pass_has_ended(p) || writer_has_node(p))
            apply_unless_foreign(
                p, &kube_deployments, tensorboard_deployment(p, name), o->tensorboard);
        plan_extra(p->plan, since);
        return;
    }
    if (o->tensorboard && kube_controlled_by(o->tensorboard, p->job->uid))
        plan_delete(p->plan, &kube_deployments, o->tensorboard, -1, "Background");
    if (o->tensorboard_service && kube_controlled_by(o->tensorboard_service, p->job->uid))
        plan_delete(p->plan, &kube_services, o->tensorboard_service, -1, NULL);
    plan_extra(p->plan, since);
}
