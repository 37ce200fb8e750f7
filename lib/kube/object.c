/* SPDX-License-Identifier: Apache-2.0 */
/* The resources that we know, and the metadata of objects. */
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/kube/kube.h"

#include <stdlib.h>
#include <string.h>

const struct kube_res kube_pods = {"", "v1", "pods", "Pod", true};
const struct kube_res kube_services = {"", "v1", "services", "Service", true};
const struct kube_res kube_configmaps = {"", "v1", "configmaps", "ConfigMap", true};
const struct kube_res kube_secrets = {"", "v1", "secrets", "Secret", true};
const struct kube_res kube_events = {"", "v1", "events", "Event", true};
const struct kube_res kube_nodes = {"", "v1", "nodes", "Node", false};
const struct kube_res kube_pvs = {"", "v1", "persistentvolumes", "PersistentVolume", false};
const struct kube_res kube_pvcs = {
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true};
const struct kube_res kube_networkpolicies = {
    "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true};
const struct kube_res kube_leases = {"coordination.k8s.io", "v1", "leases", "Lease", true};
const struct kube_res kube_volumeattachments = {
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false};
const struct kube_res kube_deployments = {"apps", "v1", "deployments", "Deployment", true};
const struct kube_res kube_daemonsets = {"apps", "v1", "daemonsets", "DaemonSet", true};
const struct kube_res kube_jobs = {"batch", "v1", "jobs", "Job", true};
const struct kube_res kube_csinodes = {"storage.k8s.io", "v1", "csinodes", "CSINode", false};
const struct kube_res kube_csidrivers = {"storage.k8s.io", "v1", "csidrivers", "CSIDriver", false};
const struct kube_res kube_crds = {
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false};
const struct kube_res kube_access_reviews = {
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false};
const struct kube_res kube_datasets = {NAME_GROUP, "v1alpha1", "datasets", "Dataset", true};
const struct kube_res kube_dataloads = {NAME_GROUP, "v1alpha1", "dataloads", "DataLoad", true};
const struct kube_res kube_tfjobs = {"kubeflow.org", "v1", "tfjobs", "TFJob", true};
const struct kube_res kube_volcano_podgroups = {
    "scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", true};
const struct kube_res kube_coscheduling_podgroups = {
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true};

char *kube_res_api_version(const struct kube_res *res)
{
    return *res->group ? xasprintf("%s/%s", res->group, res->version) : xstrdup(res->version);
}

char *kube_key(const char *ns, const char *name)
{
    return ns && *ns ? xasprintf("%s/%s", ns, name) : xstrdup(name);
}
char *kube_key_of(const json_t *object)
{
    return kube_key(kube_namespace(object), kube_name(object));
}

/* These are asked for every object of every list: no path parser in between. */
static const char *meta(const json_t *object, const char *field)
{
    const char *text = json_string_value(
        json_object_get(json_object_get(object, "metadata"), field));
    return text ? text : "";
}

static const char *meta_in(const json_t *object, const char *map, const char *key)
{
    const char *text = json_string_value(
        json_object_get(json_object_get(json_object_get(object, "metadata"), map), key));
    return text ? text : "";
}

const char *kube_name(const json_t *object) { return meta(object, "name"); }
const char *kube_namespace(const json_t *object) { return meta(object, "namespace"); }
const char *kube_uid(const json_t *object) { return meta(object, "uid"); }
const char *kube_label(const json_t *object, const char *label)
{
    return meta_in(object, "labels", label);
}
const char *kube_annotation(const json_t *object, const char *annotation)
{
    return meta_in(object, "annotations", annotation);
}
bool kube_deleting(const json_t *object) { return *meta(object, "deletionTimestamp") != '\0'; }

const json_t *kube_controller_of(const json_t *object)
{
    const json_t *owners = json_object_get(json_object_get(object, "metadata"), "ownerReferences"),
                 *owner;
    size_t i;
    json_array_foreach (owners, i, owner)
        if (json_is_true(json_object_get(owner, "controller")))
            return owner;
    return NULL;
}

bool kube_controlled_by(const json_t *object, const char *owner_uid)
{
    const char *uid = json_string_value(json_object_get(kube_controller_of(object), "uid"));
    return uid && strcmp(uid, owner_uid) == 0;
}

const json_t *kube_container(const json_t *containers, const char *name)
{
    const json_t *container;
    size_t i;
    json_array_foreach (containers, i, container) {
        const char *its = json_string_value(json_object_get(container, "name"));
        if (!its || strcmp(its, name) == 0)
            return container;
    }
    return NULL;
}

uint64_t kube_rv(const json_t *object)
{
    const char *text = meta(object, "resourceVersion");
    char *end;
    uint64_t v = strtoull(text, &end, 10);
    return *text && !*end ? v : 0;
}
