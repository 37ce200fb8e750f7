/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/render/pod.h"

#include "lib/base/buf.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/render/meta.h"
#include "operator/render/placement.h"
#include "operator/render/volume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USUAL_CPU       "50m"
#define USUAL_CPU_MILLI 50
#define MIB             INT64_C(1048576)
#define REQUEST_OVER    (64 * MIB) /* beside the Memory tier: code, index, buffers */
/* the same and read-ahead; page cache beyond it is reclaimed by the kernel */
#define LIMIT_OVER (256 * MIB)
#define SKEW_ANY   1000 /* so many workers on one node are as good as none */
#define GRACE_S    30   /* a client that gets SIGTERM finishes its uploads */

/* Service meshes that put a proxy into every pod of a namespace leave a pod with these alone: with
 * one, a loader never ends, and its init container is refused by the restricted profile. Istio
 * reads the label, Linkerd the annotation. */
#define LABEL_ISTIO        "sidecar.istio.io/inject"
#define ANNOTATION_LINKERD "linkerd.io/inject"
/* A Prometheus without its operator finds its targets by these. */
#define ANNOTATION_SCRAPE      "prometheus.io/scrape"
#define ANNOTATION_SCRAPE_PORT "prometheus.io/port"
#define TEXT_OF(number)        TEXT(number)
#define TEXT(number)           #number

/* Cluster autoscaler keeps nodes with pods whose owner it does not know. Ours may go at any time.
 */
#define ANNOTATION_EVICT "cluster-autoscaler.kubernetes.io/safe-to-evict"

/* What all our containers have in common. */
struct spec {
    const char *component;
    const char *kind;                     /* of the inline volume, NULL for none */
    json_t *command;                      /* stolen */
    const struct dataset_component *user; /* what users say of such pods */
    const struct dataset_tiers *tiers;
    const char *restart;
};

static json_t *bytes_quantity(int64_t bytes)
{
    cleanup_free char *text = bytes % MIB ? xasprintf("%" PRId64, bytes)
                                          : xasprintf("%" PRId64 "Mi", bytes / MIB);
    return json_string(text);
}

/* A quantity may be given as a number; pods take strings and give them back so. */
static void set_quantities(json_t *to, const json_t *from)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)from, key, value) {
        cleanup_free char *text = json_is_integer(value)
            ? xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value))
            : xstrdup(json_string_value(value));
        if (text)
            json_object_set_new(to, key, json_string(text));
    }
}

static bool limits_cpu_below(const json_t *user, int64_t milli)
{
    const json_t *limit = jget(user, "limits.cpu");
    int64_t m = json_is_integer(limit) ? json_integer_value(limit) * 1000 : 0;
    if (json_is_string(limit) && quantity_parse_milli(json_string_value(limit), &m))
        return true;
    return limit && m < milli;
}

static json_t *resources(const struct spec *s)
{
    /* a loader caches nothing itself */
    int64_t memory = s->kind ? s->tiers->memory : 0;
    const json_t *user = s->user->resources;
    json_t *requests = json_pack(
        "{s:s, s:o}", "cpu", USUAL_CPU, "memory", bytes_quantity(memory + REQUEST_OVER));
    json_t *limits = json_pack("{s:o}", "memory", bytes_quantity(memory + LIMIT_OVER));
    /* A limit below our default request would be refused; where the user sets one of memory, only
     * the user's request counts, or the limit itself. */
    if (jget(user, "limits.memory"))
        json_object_del(requests, "memory");
    if (limits_cpu_below(user, USUAL_CPU_MILLI))
        json_object_del(requests, "cpu");
    if (jget(user, "requests.memory") && !jget(user, "limits.memory"))
        json_object_del(limits, "memory");
    set_quantities(requests, jget_obj(user, "requests"));
    set_quantities(limits, jget_obj(user, "limits"));
    return json_pack("{s:o, s:o}", "requests", requests, "limits", limits);
}

static json_t *probe(const char *path, int period_s, int failures)
{
    return json_pack("{s:{s:s, s:s}, s:i, s:i, s:i}", "httpGet", "path", path, "port", "http",
        "periodSeconds", period_s, "timeoutSeconds", 5, "failureThreshold", failures);
}

static json_t *container(const struct dataset *d, const struct render_env *env,
    const struct spec *s, json_t *volume_mounts)
{
    cleanup_free char *config = render_config(d, s->tiers, env->keep_free, env->endpoints);
    json_t *c = json_pack(
        "{s:s, s:s, s:o, s:[{s:s, s:s}], s:[{s:s, s:i, s:s}, {s:s, s:i, s:s}], s:o, s:o, s:s, s:o}",
        "name", CONTAINER_MAIN, "image", env->image, "command", s->command, "env", "name",
        ENV_CONFIG, "value", config, "ports", "name", "http", "containerPort", PORT_HTTP,
        "protocol", "TCP", "name", "metrics", "containerPort", PORT_METRICS, "protocol", "TCP",
        "resources", resources(s), "securityContext",
        json_pack("{s:b, s:b, s:{s:[s]}}", "allowPrivilegeEscalation", 0, "readOnlyRootFilesystem",
            1, "capabilities", "drop", "ALL"),
        "terminationMessagePolicy", "FallbackToLogsOnError", "volumeMounts", volume_mounts);
    const char *name;
    json_t *value, *vars = json_object_get(c, "env");
    json_object_foreach ((json_t *)env->env, name, value)
        json_array_append_new(vars, json_pack("{s:s, s:O}", "name", name, "value", value));
    if (env->ca_bundle && *env->ca_bundle)
        json_array_append_new(
            vars, json_pack("{s:s, s:s}", "name", ENV_CA_BUNDLE, "value", env->ca_bundle));
    if (d->service_account)
        json_array_append_new(
            vars, json_pack("{s:s, s:s}", "name", ENV_IDENTITY_TOKEN, "value", RENDER_TOKEN_FILE));
    if (*env->pull_policy)
        json_object_set_new(c, "imagePullPolicy", json_string(env->pull_policy));
    if (strcmp(s->component, COMPONENT_LOADER) != 0) {
        json_object_set_new(c, "readinessProbe", probe("/readyz", 1, 3));
        json_object_set_new(c, "livenessProbe", probe("/healthz", 10, 6));
    }
    return c;
}

static json_t *pull_secrets(const char *list)
{
    json_t *names = json_array();
    for (const char *s = list; *s;) {
        size_t n = strcspn(s, ",");
        cleanup_free char *name = xstrndup(s, n);
        if (*name)
            json_array_append_new(names, json_pack("{s:s}", "name", name));
        s += n + (s[n] == ',');
    }
    return names;
}

/* Whoever installed us, and users, may say otherwise than our hints for others, not than what the
 * operator finds its pods by. */
static void pod_labels(
    json_t *pod, const struct render_env *env, const struct dataset_component *user)
{
    json_t *meta = json_object_get(pod, "metadata");
    json_t *labels = json_pack("{s:s}", LABEL_ISTIO, "false"),
           *annotations = json_pack("{s:s, s:s, s:s, s:s}", ANNOTATION_LINKERD, "disabled",
               ANNOTATION_EVICT, "true", ANNOTATION_SCRAPE, "true", ANNOTATION_SCRAPE_PORT,
               TEXT_OF(PORT_METRICS));
    if (env->labels)
        json_object_update_new(labels, json_deep_copy(env->labels));
    if (env->annotations)
        json_object_update_new(annotations, json_deep_copy(env->annotations));
    if (user->labels)
        json_object_update_new(labels, json_deep_copy(user->labels));
    if (user->annotations)
        json_object_update_new(annotations, json_deep_copy(user->annotations));
    json_object_update(labels, json_object_get(meta, "labels"));
    json_object_set_new(meta, "labels", labels);
    json_object_set_new(meta, "annotations", annotations);
}

static json_t *security(const struct render_env *env)
{
    json_t *context = json_pack(
        "{s:b, s:{s:s}}", "runAsNonRoot", 1, "seccompProfile", "type", "RuntimeDefault");
    if (!env->openshift)
        json_object_update_new(
            context, json_pack("{s:i, s:i}", "runAsUser", POD_UID, "runAsGroup", POD_UID));
    return context;
}

/* The pod without placement. Steals s->command. */
static json_t *base_pod(
    const struct dataset *d, const struct render_env *env, const char *name, const struct spec *s)
{
    json_t *pod = render_object(&kube_pods, d->ns, name, d->name, d->uid, s->component);
    json_t *volumes = json_array(), *mounts = json_array();
    pod_labels(pod, env, s->user);
    if (s->kind)
        render_inline_volume(d, s->kind, volumes, mounts);
    render_sources(d, volumes, mounts);
    if (d->service_account)
        render_identity_volume(d, volumes, mounts);
    render_info_volume(volumes, mounts);
    if (env->master) {
        render_key_volume(d, env->master, volumes, mounts);
        /* before the paths of a loader */
        json_array_insert_new(s->command, 1, json_string("--cache-key-file=" RENDER_KEY_FILE));
    }
    json_t *spec = json_pack("{s:b, s:b, s:s, s:i, s:o, s:[o], s:o}",
        "automountServiceAccountToken", 0, "enableServiceLinks", 0, "restartPolicy", s->restart,
        "terminationGracePeriodSeconds", GRACE_S, "securityContext", security(env), "containers",
        container(d, env, s, mounts), "volumes", volumes);
    if (d->service_account)
        json_object_set_new(spec, "serviceAccountName", json_string(d->service_account));
    json_t *secrets = pull_secrets(env->pull_secrets);
    if (json_array_size(secrets))
        json_object_set(spec, "imagePullSecrets", secrets);
    json_decref(secrets);
    const char *priority = *s->user->priority_class ? s->user->priority_class : env->priority_class;
    if (priority && *priority)
        json_object_set_new(spec, "priorityClassName", json_string(priority));
    json_object_set_new(pod, "spec", spec);
    return pod;
}

static json_t *spec_of(json_t *pod) { return json_object_get(pod, "spec"); }

/* Called after everything that makes a pod outdated when it changes, before the rest. */
static void stamp(json_t *pod)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, json_hash(pod));
    json_object_set_new(json_object_get(json_object_get(pod, "metadata"), "annotations"),
        ANNOTATION_HASH, json_string(text));
}

bool render_same(const json_t *desired, const json_t *pod)
{
    return strcmp(kube_annotation(desired, ANNOTATION_HASH), kube_annotation(pod, ANNOTATION_HASH))
        == 0;
}

/* Nodes that have no node plugin, as its DaemonSet says: pods cannot mount their volume there.
 */
static json_t *possible_nodes(const json_t *plugin_nodes)
{
    json_t *all = json_pack("[{s:s, s:s, s:[s]}, {s:s, s:s, s:[s, s]}, {s:s, s:s, s:[s]}]", "key",
        "kubernetes.io/os", "operator", "In", "values", "linux", "key",
        "eks.amazonaws.com/compute-type", "operator", "NotIn", "values", "fargate", "hybrid", "key",
        "type", "operator", "NotIn", "values", "virtual-kubelet");
    json_array_extend(all, (json_t *)plugin_nodes);
    return all;
}

/* Where users want it, of the nodes where it can be: the affinity, for more to be added.
 * plugin_nodes: NULL for a pod without a volume of ours. */
static json_t *place(json_t *pod, const struct dataset_component *user, const json_t *plugin_nodes)
{
    json_t *required = user->node_selector ? json_deep_copy(user->node_selector) : json_object();
    cleanup_json json_t *possible = possible_nodes(plugin_nodes);
    placement_narrow(required, possible);
    if (json_array_size(user->tolerations))
        json_object_set_new(spec_of(pod), "tolerations", json_deep_copy(user->tolerations));
    return json_pack(
        "{s:{s:o}}", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", required);
}

/* The scheduler weighs reasons of one kind against each other, but all kinds alike: beside nodes
 * that are preferred, it would count that workers should be on different ones, by our word or by
 * its own, as much as that they should be on these. So the weights say both, and nothing else does.
 */
static void add_places(json_t *pod, const struct dataset *d, const struct render_places *places)
{
    json_t *affinity = json_object_get(spec_of(pod), "affinity"), *preferred = json_array();
    for (size_t i = 0; i < places->n && i < RENDER_PLACES_MAX; i++)
        json_array_append_new(preferred,
            json_pack("{s:i, s:{s:[{s:s, s:s, s:[s]}]}}", "weight", places->v[i].weight,
                "preference", "matchFields", "key", "metadata.name", "operator", "In", "values",
                places->v[i].node));
    json_object_set_new(json_object_get(affinity, "nodeAffinity"),
        "preferredDuringSchedulingIgnoredDuringExecution", preferred);
    json_t *apart = json_object_get(affinity, "podAntiAffinity");
    json_object_del(apart, "preferredDuringSchedulingIgnoredDuringExecution");
    if (json_object_size(apart) == 0)
        json_object_del(affinity, "podAntiAffinity");
    json_object_set_new(spec_of(pod), "topologySpreadConstraints",
        json_pack("[{s:i, s:s, s:s, s:{s:{s:s, s:s}}}]", "maxSkew", SKEW_ANY, "topologyKey",
            LABEL_HOSTNAME, "whenUnsatisfiable", "ScheduleAnyway", "labelSelector", "matchLabels",
            LABEL_DATASET_UID, d->uid, LABEL_COMPONENT, COMPONENT_WORKER));
    json_object_set_new(json_object_get(json_object_get(pod, "metadata"), "annotations"),
        ANNOTATION_OFFERED, json_string(places->offered));
}

/* Not on a node with another worker of this Dataset, rather; with none at all, if it is to be
 * exclusive. */
static json_t *apart(const struct dataset *d)
{
    json_t *a = json_pack("{s:[{s:i, s:{s:s, s:{s:{s:s, s:s}}}}]}",
        "preferredDuringSchedulingIgnoredDuringExecution", "weight", 100, "podAffinityTerm",
        "topologyKey", LABEL_HOSTNAME, "labelSelector", "matchLabels", LABEL_DATASET_UID, d->uid,
        LABEL_COMPONENT, COMPONENT_WORKER);
    if (d->exclusive)
        json_object_set_new(a, "requiredDuringSchedulingIgnoredDuringExecution",
            json_pack("[{s:s, s:{}, s:{s:{s:s, s:s}}}]", "topologyKey", LABEL_HOSTNAME,
                "namespaceSelector", "labelSelector", "matchLabels", LABEL_MANAGED_BY,
                NAME_FIELD_MANAGER, LABEL_COMPONENT, COMPONENT_WORKER));
    return a;
}

json_t *render_worker(const struct dataset *d, const struct render_env *env, int index,
    const struct render_places *places)
{
    cleanup_free char *name = render_worker_name(d->name, index),
                      *service = render_service_name(d->name);
    json_t *command = json_pack(
        "[s, s, s]", "/usr/bin/millrace-worker", "--cache-dir", POD_RUN_DIR "/" VOLUME_CACHE);
    struct spec s = {
        COMPONENT_WORKER, VOL_KIND_WORKER, command, &d->worker, &d->worker.tiers, "Always"};
    json_t *pod = base_pod(d, env, name, &s);
    render_owner(pod, &kube_datasets, d->cr);
    json_object_set_new(spec_of(pod), "hostname", json_string(name));
    json_object_set_new(spec_of(pod), "subdomain", json_string(service));
    json_t *affinity = place(pod, &d->worker, env->plugin_nodes);
    json_object_set_new(affinity, "podAntiAffinity", apart(d));
    json_object_set_new(spec_of(pod), "affinity", affinity);
    stamp(pod);
    if (places && places->n)
        add_places(pod, d, places);
    return pod;
}

/* What all clients of a Dataset have in common, stamped. */
static json_t *client_of_any_node(const struct dataset *d, const struct render_env *env)
{
    json_t *command = json_pack("[s, s, s, s, s]", "/usr/bin/millrace-fuse", "--socket",
        POD_RUN_DIR "/" VOLUME_SOCKET, "--cache-dir", POD_RUN_DIR "/" VOLUME_CACHE);
    struct spec s = {
        COMPONENT_CLIENT, VOL_KIND_CLIENT, command, &d->client, &d->client.tiers, "Always"};
    json_t *pod = base_pod(d, env, d->name, &s);
    render_owner(pod, &kube_datasets, d->cr);
    json_object_set_new(spec_of(pod), "tolerations", json_pack("[{s:s}]", "operator", "Exists"));
    stamp(pod);
    return pod;
}

/* Pinned by affinity, not by nodeName, so that the scheduler counts its memory and says why it
 * cannot run; the node's taints are no reason not to serve a pod that is there. */
json_t *render_client(const struct dataset *d, const struct render_env *env, const char *node)
{
    cleanup_free char *name = render_client_name(d->name, node), *hash = render_node_hash(node);
    json_t *pod = client_of_any_node(d, env);
    json_object_set_new(json_object_get(pod, "metadata"), "name", json_string(name));
    render_label(pod, LABEL_NODE_HASH, hash);
    json_object_set_new(spec_of(pod), "affinity",
        json_pack("{s:{s:{s:[{s:[{s:s, s:s, s:[s]}]}]}}}", "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", "matchFields",
            "key", "metadata.name", "operator", "In", "values", node));
    return pod;
}

void render_small(json_t *client)
{
    static const char *const scarce[] = {"cpu", "memory", "ephemeral-storage"};
    json_t *containers = json_object_get(spec_of(client), "containers"), *c;
    size_t at;
    json_array_foreach (containers, at, c)
        for (size_t i = 0; i < ARRAY_LEN(scarce); i++) /* left out, it would be the limit */
            json_object_set_new(json_object_get(json_object_get(c, "resources"), "requests"),
                scarce[i], json_string("0"));
    json_object_set_new(json_object_get(json_object_get(client, "metadata"), "annotations"),
        ANNOTATION_SMALL, json_string("true"));
}

char *render_client_stamp(const struct dataset *d, const struct render_env *env)
{
    cleanup_json json_t *pod = client_of_any_node(d, env);
    return xstrdup(kube_annotation(pod, ANNOTATION_HASH));
}

/* A path as a word of a container's command, where kubelet reads $(NAME), and $$ as one $. */
static void add_path_word(json_t *command, const char *before, const char *path)
{
    cleanup_buf struct buf word = BUF_INIT(2 * (strlen(before) + strlen(path)) + 1);
    buf_adds(&word, before);
    for (const char *p = path; *p; p++) {
        if (*p == '$')
            buf_addc(&word, '$');
        buf_addc(&word, *p);
    }
    json_array_append_new(command, json_string(buf_str(&word)));
}

/* The last step of a pod that loads: its place, and its hash. */
static json_t *placed_loader(json_t *pod, const struct dataset *d)
{
    json_object_set_new(spec_of(pod), "affinity", place(pod, &d->loader, NULL));
    stamp(pod);
    return pod;
}

json_t *render_loader(const struct dataset *d, const struct render_env *env, const json_t *owner,
    const struct loader_words *words)
{
    cleanup_free char *name = render_loader_name(kube_name(owner));
    json_t *command = json_pack("[s, s]", "/usr/bin/millrace-worker", "--load");
    size_t i;
    json_t *path;
    if (words->pin >= 0)
        json_array_append_new(command, json_string(words->pin ? "--pin=true" : "--pin=false"));
    if (words->bandwidth)
        json_array_append_new(command, json_sprintf("--bandwidth=%" PRId64, words->bandwidth));
    json_array_foreach ((json_t *)words->paths, i, path)
        add_path_word(command, "", json_string_value(path));
    if (json_array_size(words->paths) == 0)
        json_array_append_new(command, json_string("/"));
    struct spec s = {COMPONENT_LOADER, NULL, command, &d->loader, &d->worker.tiers, "OnFailure"};
    json_t *pod = base_pod(d, env, name, &s);
    render_owner(pod, &kube_dataloads, owner);
    render_label(pod, LABEL_DATALOAD, kube_name(owner));
    if (words->run && *words->run)
        json_object_set_new(json_object_get(json_object_get(pod, "metadata"), "annotations"),
            ANNOTATION_SCHEDULED, json_string(words->run));
    return placed_loader(pod, d);
}

/* Two that differ in the rest only, such as the image, find the same files. */
static void stamp_loads(json_t *pod)
{
    const json_t *c = jget(pod, "spec.containers[0]");
    cleanup_json json_t *loads = json_pack(
        "[O, O?, O?]", jget_arr(c, "command"), jget_arr(c, "env"), jget_arr(pod, "spec.volumes"));
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, json_hash(loads));
    json_object_set_new(json_object_get(json_object_get(pod, "metadata"), "annotations"),
        ANNOTATION_LOADS, json_string(text));
}

json_t *render_preloader(const struct dataset *d, const struct render_env *env)
{
    cleanup_free char *name = render_preloader_name(d->name);
    json_t *command = json_pack("[s, s]", "/usr/bin/millrace-worker", "--preload");
    for (size_t i = 0; i < d->npreload; i++)
        add_path_word(command, d->preload[i].pin ? PRELOAD_PIN : "", d->preload[i].path);
    struct spec s = {COMPONENT_LOADER, NULL, command, &d->loader, &d->worker.tiers, "Always"};
    json_t *pod = base_pod(d, env, name, &s);
    render_owner(pod, &kube_datasets, d->cr);
    stamp_loads(pod);
    return placed_loader(pod, d);
}
