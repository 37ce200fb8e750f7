/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/api/tfjob.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MANAGED_BY_US "kubeflow.org/training-operator"

static int parse_restart(const json_t *v, const char *type, enum tfjob_restart *out, struct err *e)
{
    static const struct {
        const char *name;
        enum tfjob_restart value;
    } table[] = {{"", TFJOB_RESTART_NEVER}, {"Never", TFJOB_RESTART_NEVER},
        {"OnFailure", TFJOB_RESTART_ON_FAILURE}, {"Always", TFJOB_RESTART_ALWAYS},
        {"ExitCode", TFJOB_RESTART_EXIT_CODE}};
    const char *text = v ? json_string_value(v) : "";
    for (size_t i = 0; text && i < ARRAY_LEN(table); i++)
        if (!strcmp(text, table[i].name)) {
            *out = table[i].value;
            return 0;
        }
    return err_set(e, ERR_INVALID,
        "spec.tfReplicaSpecs.%s.restartPolicy is '%s': use Always, OnFailure, Never or ExitCode",
        type, text ? text : "not a string");
}

static int parse_template(const json_t *template, const char *type, struct err *e)
{
    const json_t *containers = jget_arr(template, "spec.containers");
    if (!json_array_size(containers))
        return err_set(e, ERR_INVALID,
            "spec.tfReplicaSpecs.%s.template.spec.containers is missing: give one container, named '%s'",
            type, TFJOB_CONTAINER);
    bool found = false;
    size_t i;
    const json_t *c;
    json_array_foreach ((json_t *)containers, i, c) {
        const char *name = jget_str(c, "name", ""), *image = jget_str(c, "image", "");
        if (!*name || !*image)
            return err_set(e, ERR_INVALID,
                "spec.tfReplicaSpecs.%s.template.spec.containers[%zu].%s is missing", type, i,
                *name ? "image" : "name");
        found |= !strcmp(name, TFJOB_CONTAINER);
    }
    if (!found)
        return err_set(e, ERR_INVALID,
            "spec.tfReplicaSpecs.%s.template.spec.containers: there is no container named '%s': give the container that "
            "runs TensorFlow this name",
            type, TFJOB_CONTAINER);
    return 0;
}

/* The longest derived name is that of the last index. */
static int check_names(const struct tfjob *j, enum tfjob_type t, struct err *e)
{
    int n = j->spec[t].replicas;
    size_t len = (size_t)snprintf(
        NULL, 0, "%s-%s-%d", j->name, tfjob_type_lower(t), n > 0 ? n - 1 : 0);
    if (len <= TFJOB_NAME_MAX)
        return 0;
    return err_set(e, ERR_INVALID,
        "metadata.name is too long: pods are named <name>-%s-<index>, of which the longest has %zu bytes and at most %d "
        "are allowed: shorten the name by %zu",
        tfjob_type_lower(t), len, TFJOB_NAME_MAX, len - TFJOB_NAME_MAX);
}

static int parse_replica(struct tfjob *j, const char *key, const json_t *v, struct err *e)
{
    enum tfjob_type t;
    if (!tfjob_type_parse(key, &t))
        return err_set(e, ERR_INVALID,
            "spec.tfReplicaSpecs.%s: unknown replica type: use Chief, Master, Worker, PS or Evaluator",
            key);
    if (!json_is_object(v))
        return err_set(e, ERR_INVALID, "spec.tfReplicaSpecs.%s is empty: it needs a template", key);
    struct tfjob_replica_spec *r = &j->spec[t];
    if (r->present)
        return err_set(e, ERR_INVALID,
            "spec.tfReplicaSpecs.%s: %s is given twice, in different letter cases: keep one", key,
            tfjob_type_name(t));
    r->present = true;
    r->replicas = 1;
    if (jget(v, "replicas")) {
        int64_t n;
        if (jget_int_req(v, "replicas", 0, TFJOB_REPLICAS_MAX, &n, e))
            return err_wrap(e, "spec.tfReplicaSpecs.%s", key);
        r->replicas = (int)n;
    }
    if (r->replicas > 1 && (t == TFJOB_CHIEF || t == TFJOB_MASTER))
        return err_set(e, ERR_INVALID,
            "spec.tfReplicaSpecs.%s.replicas is %d: TensorFlow takes one chief at most; make the others Worker",
            key, r->replicas);
    if (parse_restart(jget(v, "restartPolicy"), key, &r->restart, e))
        return -1;
    r->template = jget_obj(v, "template");
    if (parse_template(r->template, key, e))
        return -1;
    return check_names(j, t, e);
}

/* runPolicy.<field>, or the same field directly under spec as before v1.2. */
static const json_t *policy(const json_t *spec, const char *field, struct tfjob *out)
{
    const json_t *v = jget(jget_obj(spec, "runPolicy"), field);
    if (v)
        return v;
    v = jget(spec, field);
    if (v)
        out->old_field = field;
    return v;
}

static int parse_seconds(
    const json_t *spec, const char *field, struct tfjob *j, int64_t *out, struct err *e)
{
    const json_t *v = policy(spec, field, j);
    if (!v)
        return 0;
    if (!json_is_integer(v) || json_integer_value(v) < 0
        || json_integer_value(v) > INT64_MAX / 2000000000)
        return err_set(
            e, ERR_INVALID, "spec.runPolicy.%s must be a whole number, 0 or more", field);
    *out = json_integer_value(v);
    return 0;
}

static int parse_policy(const json_t *spec, struct tfjob *j, struct err *e)
{
    j->old_field = NULL;
    j->suspend = jget_bool(spec, "runPolicy.suspend", false);
    if (parse_seconds(spec, "ttlSecondsAfterFinished", j, &j->ttl_s, e)
        || parse_seconds(spec, "activeDeadlineSeconds", j, &j->deadline_s, e)
        || parse_seconds(spec, "backoffLimit", j, &j->backoff_limit, e))
        return -1;
    const json_t *v = policy(spec, "cleanPodPolicy", j);
    const char *clean = v ? json_string_value(v) : "";
    if (clean && !*clean)
        j->clean = TFJOB_CLEAN_DEFAULT;
    else if (clean && !strcmp(clean, "None"))
        j->clean = TFJOB_CLEAN_NONE;
    else if (clean && !strcmp(clean, "Running"))
        j->clean = TFJOB_CLEAN_RUNNING;
    else if (clean && !strcmp(clean, "All"))
        j->clean = TFJOB_CLEAN_ALL;
    else
        return err_set(e, ERR_INVALID,
            "spec.runPolicy.cleanPodPolicy is '%s': use All, Running or None",
            clean ? clean : "not a string");
    const char *success = jget_str(spec, "successPolicy", "");
    j->all_workers = !strcmp(success, "AllWorkers");
    if (*success && !j->all_workers)
        return err_set(
            e, ERR_INVALID, "spec.successPolicy is '%s': use AllWorkers, or leave it out", success);
    return 0;
}

static bool is_dns1035(const char *name)
{
    size_t len = strlen(name);
    if (!len || len > TFJOB_NAME_MAX || !islower((unsigned char)name[0]) || name[len - 1] == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) && name[i] != '-')
            return false;
    return true;
}

bool tfjob_is_external(const json_t *cr)
{
    return strcmp(jget_str(cr, "spec.runPolicy.managedBy", MANAGED_BY_US), MANAGED_BY_US) != 0;
}

static void tfjob_identity(const json_t *cr, struct tfjob *out)
{
    *out = (struct tfjob){.ttl_s = -1, .deadline_s = -1, .backoff_limit = -1};
    out->ns = jget_str(cr, "metadata.namespace", "");
    out->name = jget_str(cr, "metadata.name", "");
    out->uid = jget_str(cr, "metadata.uid", "");
    out->deleting = jget(cr, "metadata.deletionTimestamp") != NULL;
    out->external = tfjob_is_external(cr);
}

static int parse_replicas(const json_t *cr, struct tfjob *out, struct err *e)
{
    if (!is_dns1035(out->name))
        return err_set(e, ERR_INVALID,
            "metadata.name '%s' is not a DNS label: use lower case letters, digits and '-', a letter first, at most %d",
            out->name, TFJOB_NAME_MAX);
    const json_t *spec = jget_obj(cr, "spec"), *specs = jget_obj(spec, "tfReplicaSpecs");
    if (!json_object_size(specs))
        return err_set(e, ERR_INVALID,
            "spec.tfReplicaSpecs is missing: give at least one of Chief, Master, Worker, PS, Evaluator");
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)specs, key, v)
        if (parse_replica(out, key, v, e))
            return -1;
    if (out->spec[TFJOB_CHIEF].present && out->spec[TFJOB_MASTER].present)
        return err_set(e, ERR_INVALID,
            "spec.tfReplicaSpecs: Chief and Master are two names for the same role: keep one of them");
    return 0;
}

int tfjob_parse(const json_t *cr, struct tfjob *out, struct err *e)
{
    const json_t *spec = jget_obj(cr, "spec");
    struct err policy = ERR_INIT;
    tfjob_identity(cr, out);
    /* first: what is cleaned up, and when, counts also for a job that is refused */
    bool policy_bad = parse_policy(spec, out, &policy) != 0;
    if (parse_replicas(cr, out, e))
        return -1;
    if (policy_bad) {
        *e = policy;
        return -1;
    }
    out->dynamic = jget_bool(spec, "enableDynamicWorker", false);
    tfjob_parse_annotations(cr, &out->annotations);
    if (tfjob_parse_failure_policy(spec, out, e))
        return -1;
    return tfjob_parse_scheduling(spec, &out->scheduling, e);
}

bool tfjob_has_chief(const struct tfjob *j)
{
    return j->spec[TFJOB_CHIEF].replicas > 0 || j->spec[TFJOB_MASTER].replicas > 0;
}

int tfjob_total(const struct tfjob *j)
{
    int n = 0;
    for (int t = 0; t < TFJOB_TYPES; t++)
        n += j->spec[t].replicas;
    return n;
}
