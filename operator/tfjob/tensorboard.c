/* SPDX-License-Identifier: Apache-2.0 */
/* The TensorBoard of a TFJob, for who asks for one: a Deployment and a Service that stay until the
 * TFJob is deleted, as its curves are looked at afterwards too. It runs as the job's pods do (user,
 * service account, registry), and only reads. */
#include "operator/tfjob/pass.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/tfjob/names.h"

#include <string.h>

#define BOARD_PORT 6006
#define BOARD_DIR  "/logs"

static json_t *meta_of(const struct tfjob *j, const char *name)
{
    return json_pack("{s:s s:s s:{s:s s:s s:s} s:[o]}", "name", name, "namespace", j->ns, "labels",
        TFJOB_LABEL_OPERATOR, TFJOB_OPERATOR_NAME, TFJOB_LABEL_JOB, j->name, LABEL_COMPONENT,
        COMPONENT_TENSORBOARD, "ownerReferences", tfjob_owner(j));
}

/* Not the labels of the job's pods: clients find those by the job's name. */
static json_t *selector(const struct tfjob *j)
{
    return json_pack("{s:s s:s}", LABEL_TFJOB, j->name, LABEL_COMPONENT, COMPONENT_TENSORBOARD);
}

static const json_t *model(const struct tfjob *j)
{
    static const enum tfjob_type order[] = {
        TFJOB_CHIEF, TFJOB_MASTER, TFJOB_WORKER, TFJOB_EVALUATOR, TFJOB_PS};
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        if (j->replica[order[i]].present)
            return jget_obj(j->replica[order[i]].template, "spec");
    return NULL;
}

static void copy(json_t *to, const json_t *from, const char *key)
{
    const json_t *v = json_object_get(from, key);
    if (v)
        json_object_set_new(to, key, json_deep_copy(v));
}

static json_t *container(const struct tfjob *j, const char *dir)
{
    const json_t *main = tfjob_main_container(model(j));
    const char *image = *j->wishes.board_image ? j->wishes.board_image
                                               : jget_str(main, "image", "");
    cleanup_free char *logdir = xasprintf("--logdir=" BOARD_DIR "%s", dir);
    json_t *c = json_pack(
        "{s:s s:s s:[s s s s] s:[{s:s s:i}] s:[{s:s s:s s:b}] s:{s:{s:s s:i} s:i}}", "name",
        "tensorboard", "image", image, "command", "tensorboard", logdir, "--host=0.0.0.0",
        "--port=6006", "ports", "name", "http", "containerPort", BOARD_PORT, "volumeMounts", "name",
        "logs", "mountPath", BOARD_DIR, "readOnly", 1, "readinessProbe", "httpGet", "path", "/",
        "port", BOARD_PORT, "periodSeconds", 5);
    copy(c, main, "securityContext");
    copy(c, main, "imagePullPolicy");
    return c;
}

static json_t *deployment(const struct tfjob *j, const char *name)
{
    const char *slash = strchr(j->wishes.board, '/');
    cleanup_free char *claim = xstrndup(j->wishes.board, strcspn(j->wishes.board, "/"));
    json_t *spec = json_pack("{s:[o] s:[{s:s s:{s:s s:b}}]}", "containers",
        container(j, slash ? slash : ""), "volumes", "name", "logs", "persistentVolumeClaim",
        "claimName", claim, "readOnly", 1);
    static const char *const kept[] = {"securityContext", "serviceAccountName", "imagePullSecrets"};
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        copy(spec, model(j), kept[i]);
    return json_pack("{s:s s:s s:o s:{s:i s:{s:o} s:{s:{s:o} s:o}}}", "apiVersion", "apps/v1",
        "kind", "Deployment", "metadata", meta_of(j, name), "spec", "replicas", 1, "selector",
        "matchLabels", selector(j), "template", "metadata", "labels", selector(j), "spec", spec);
}

static json_t *service(const struct tfjob *j, const char *name)
{
    return json_pack("{s:s s:s s:o s:{s:o s:[{s:s s:i s:s}]}}", "apiVersion", "v1", "kind",
        "Service", "metadata", meta_of(j, name), "spec", "selector", selector(j), "ports", "name",
        "http", "port", BOARD_PORT, "targetPort", "http");
}

static void put(
    struct tfjob_turn *t, const struct kube_res *res, json_t *desired_take, const json_t *there)
{
    if (there && !kube_controlled_by(there, t->job.uid)) {
        turn_event(t, true, "TensorBoardFailed",
            "%s %s exists and does not belong to this job: delete it, or choose another name for the job",
            res->kind, kube_name(there));
        json_decref(desired_take);
        return;
    }
    plan_apply(t->plan, res, desired_take, there);
}

void turn_board(struct tfjob_turn *t)
{
    const struct tfjob_observed *o = t->o;
    if (t->job.wishes.board) {
        cleanup_free char *name = xasprintf("%s" TFJOB_BOARD_SUFFIX, t->job.name);
        put(t, &kube_services, service(&t->job, name), o->board_service);
        put(t, &kube_deployments, deployment(&t->job, name), o->board);
        return;
    }
    if (o->board && kube_controlled_by(o->board, t->job.uid))
        plan_delete(t->plan, &kube_deployments, o->board, -1, "Background");
    if (o->board_service && kube_controlled_by(o->board_service, t->job.uid))
        plan_delete(t->plan, &kube_services, o->board_service, -1, NULL);
}
