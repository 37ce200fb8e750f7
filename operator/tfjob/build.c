/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/build.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/render/placement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_str(json_t *o, const char *key, const char *value)
{
    json_object_set_new(o, key, json_string(value));
}

/* o[key], made if it is absent; a value of another type is replaced. */
static json_t *object_at(json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    if (json_is_object(v))
        return v;
    json_object_set_new(o, key, json_object());
    return json_object_get(o, key);
}

static json_t *array_at(json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    if (json_is_array(v))
        return v;
    json_object_set_new(o, key, json_array());
    return json_object_get(o, key);
}

static void set_identity_labels(json_t *labels, const struct tfjob *j, enum tfjob_type t, int index)
{
    char text[16];
    snprintf(text, sizeof text, "%d", index);
    set_str(labels, TFJOB_LABEL_OPERATOR, TFJOB_OPERATOR_NAME);
    set_str(labels, TFJOB_LABEL_JOB, j->name);
    set_str(labels, TFJOB_LABEL_TYPE, tfjob_type_lower(t));
    set_str(labels, TFJOB_LABEL_INDEX, text);
}

/* The chief's role: where there is neither Chief nor Master, worker-0 has it. */
static bool is_master_role(const struct tfjob *j, enum tfjob_type t, int index)
{
    if (t == TFJOB_CHIEF || t == TFJOB_MASTER)
        return true;
    return t == TFJOB_WORKER && index == 0 && !j->spec[TFJOB_CHIEF].present
        && !j->spec[TFJOB_MASTER].present;
}

static void set_annotation_count(json_t *meta, const char *annotation, int n)
{
    char text[16];
    snprintf(text, sizeof text, "%d", n);
    if (n > 0)
        set_str(object_at(meta, "annotations"), annotation, text);
}

static json_t *pod_meta(
    const struct tfjob *j, enum tfjob_type t, int index, const struct tfjob_index *lived)
{
    const json_t *from = jget_obj(j->spec[t].template, "metadata");
    json_t *meta = json_object();
    static const char *const kept[] = {"labels", "annotations", "finalizers"};
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const json_t *v = jget(from, kept[i]);
        if (v)
            json_object_set_new(meta, kept[i], json_deep_copy(v));
    }
    char name[TFJOB_CHILD_NAME_LEN];
    tfjob_child_name(j, t, index, name);
    set_str(meta, "name", name);
    set_str(meta, "namespace", j->ns);
    json_t *labels = object_at(meta, "labels");
    set_identity_labels(labels, j, t, index);
    if (is_master_role(j, t, index))
        set_str(labels, TFJOB_LABEL_ROLE, "master");
    set_annotation_count(meta, ANNOTATION_RESTARTS, lived->restarts);
    set_annotation_count(meta, ANNOTATION_DISRUPTIONS, lived->disruptions);
    json_object_set_new(meta, "ownerReferences", json_pack("[o]", tfjob_owner(j)));
    return meta;
}

static void add_port(json_t *container)
{
    json_t *ports = array_at(container, "ports"), *port;
    size_t i;
    json_array_foreach (ports, i, port)
        if (!strcmp(jget_str(port, "name", ""), TFJOB_PORT_NAME))
            return;
    json_array_append_new(
        ports, json_pack("{s:s s:i}", "name", TFJOB_PORT_NAME, "containerPort", TFJOB_PORT));
}

static const char *pod_restart(const struct tfjob *j, enum tfjob_type t)
{
    switch (j->spec[t].restart) {
    case TFJOB_RESTART_NEVER:
    case TFJOB_RESTART_EXIT_CODE:
        return "Never"; /* ExitCode: the controller looks at the code */
    case TFJOB_RESTART_ON_FAILURE:
        /* a rule looks at each failure */
        return tfjob_policy_covers(j, t) ? "Never" : "OnFailure";
    case TFJOB_RESTART_ALWAYS:
        return "Always";
    }
    return "Never";
}

json_t *tfjob_build_pod(const struct tfjob_observed *o, const struct tfjob *j, enum tfjob_type t,
    int index, const struct tfjob_index *lived)
{
    json_t *spec = json_deep_copy(jget_obj(j->spec[t].template, "spec"));
    json_t *container = tfjob_main_container(spec);
    add_port(container);
    /* then the job's condition ends with the last line of its log */
    if (!json_object_get(container, "terminationMessagePolicy"))
        set_str(container, "terminationMessagePolicy", "FallbackToLogsOnError");
    cleanup_free char *tf_config = tfjob_tf_config(j, t, index, o->domain);
    if (tf_config) /* last: wins over one of the user's */
        json_array_append_new(array_at(container, "env"),
            json_pack("{s:s s:s}", "name", "TF_CONFIG", "value", tf_config));
    set_str(spec, "restartPolicy", pod_restart(j, t));
    if (j->annotations.placement == DATA_PLACEMENT_REQUIRE)
        placement_require(spec, o->cached);
    else
        placement_prefer(spec, o->cached);
    json_t *pod = json_pack("{s:s s:s s:o s:o}", "apiVersion", "v1", "kind", "Pod", "metadata",
        pod_meta(j, t, index, lived), "spec", spec);
    tfjob_gang_mark_pod(o, j, t, pod);
    return pod;
}

static bool has_port(
    const json_t *ports, const char *key, const json_t *value, const char *protocol)
{
    size_t i;
    json_t *p;
    json_array_foreach ((json_t *)ports, i, p)
        if (json_equal(json_object_get(p, key), value)
            && (!protocol || !strcmp(jget_str(p, "protocol", "TCP"), protocol)))
            return true;
    return false;
}

/* Every port of the container. Upstream copies names as they are, and a Service with two ports of
 * which one has no name (or two that are equal) is refused by the API server for ever: unnamed ones
 * get a name here, repeated ones are left out. */
static json_t *service_ports(const struct tfjob_replica_spec *r)
{
    cleanup_json json_t *container = json_deep_copy(
        tfjob_main_container(jget_obj(r->template, "spec")));
    add_port(container);
    json_t *out = json_array(), *port;
    size_t i;
    json_array_foreach (json_object_get(container, "ports"), i, port) {
        const json_t *number = json_object_get(port, "containerPort");
        const char *protocol = jget_str(port, "protocol", "TCP");
        if (!json_is_integer(number) || has_port(out, "port", number, protocol))
            continue;
        char name[48];
        snprintf(name, sizeof name, "%.40s", jget_str(port, "name", ""));
        if (!*name)
            snprintf(name, sizeof name, "port-%" PRId64 "%s", (int64_t)json_integer_value(number),
                strcmp(protocol, "TCP") ? "-udp" : "");
        cleanup_json json_t *taken = json_string(name);
        if (has_port(out, "name", taken, NULL))
            continue;
        json_t *one = json_pack("{s:s s:I}", "name", name, "port", json_integer_value(number));
        if (strcmp(protocol, "TCP"))
            set_str(one, "protocol", protocol);
        json_array_append_new(out, one);
    }
    return out;
}

json_t *tfjob_build_service(const struct tfjob *j, enum tfjob_type t, int index)
{
    char name[TFJOB_CHILD_NAME_LEN];
    tfjob_child_name(j, t, index, name);
    json_t *labels = json_object();
    set_identity_labels(labels, j, t, index);
    json_t *selector = json_deep_copy(labels);
    json_t *meta = json_pack("{s:s s:s s:o s:[o]}", "name", name, "namespace", j->ns, "labels",
        labels, "ownerReferences", tfjob_owner(j));
    /* addresses of pods that are not ready too: peers look each other up while they start */
    json_t *spec = json_pack("{s:s s:b s:o s:o}", "clusterIP", "None", "publishNotReadyAddresses",
        1, "selector", selector, "ports", service_ports(&j->spec[t]));
    return json_pack(
        "{s:s s:s s:o s:o}", "apiVersion", "v1", "kind", "Service", "metadata", meta, "spec", spec);
}
