/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a TFJob beyond its replicas: runPolicy.schedulingPolicy, and our annotations. */
#include "operator/api/tfjob.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEAD_NODE_S 60

int tfjob_parse_scheduling(const json_t *spec, struct tfjob_scheduling *out, struct err *e)
{
    const json_t *policy = jget_obj(spec, "runPolicy.schedulingPolicy");
    *out = (struct tfjob_scheduling){.min_available = -1, .timeout_s = -1};
    out->queue = jget_str(policy, "queue", "");
    out->priority_class = jget_str(policy, "priorityClass", "");
    out->min_resources = jget_obj(policy, "minResources");
    if (jget(policy, "minAvailable")
        && jget_int_req(policy, "minAvailable", 0, INT32_MAX, &out->min_available, e))
        return err_wrap(e, "spec.runPolicy.schedulingPolicy");
    if (jget(policy, "scheduleTimeoutSeconds")
        && jget_int_req(policy, "scheduleTimeoutSeconds", 0, INT32_MAX, &out->timeout_s, e))
        return err_wrap(e, "spec.runPolicy.schedulingPolicy");
    return 0;
}

static void bad(
    struct tfjob_annotations *w, const char *annotation, const char *value, const char *remedy)
{
    if (!*w->bad)
        snprintf(w->bad, sizeof w->bad, "annotation %s is '%.80s' and has no effect: %s",
            annotation, value, remedy);
}

/* value, or otherwise if there is no such annotation or it is neither yes nor no. */
static bool flag(const json_t *cr, const char *annotation, const char *yes, const char *no,
    struct tfjob_annotations *w)
{
    const char *value = kube_annotation(cr, annotation);
    char remedy[80];
    if (!*value || !strcmp(value, no))
        return false;
    if (!strcmp(value, yes))
        return true;
    snprintf(remedy, sizeof remedy, "use \"%s\" or \"%s\"", yes, no);
    bad(w, annotation, value, remedy);
    return false;
}

static void parse_timeout(const json_t *cr, struct tfjob_annotations *w)
{
    const char *value = kube_annotation(cr, ANNOTATION_DEAD_NODE);
    char *end;
    errno = 0;
    long s = strtol(value, &end, 10);
    w->dead_node_s = DEAD_NODE_S;
    if (!*value)
        return;
    if (errno || *end || s < 0 || s > INT32_MAX)
        bad(w, ANNOTATION_DEAD_NODE, value, "use a whole number of seconds, 0 or more");
    else
        w->dead_node_s = s;
}

/* Plain names without "..": it becomes part of a command line and a volume. */
static bool is_tensorboard_path(const char *value)
{
    size_t claim = strcspn(value, "/");
    if (!claim || claim > 253 || strlen(value) > 1024 || strstr(value, ".."))
        return false;
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return false;
    return true;
}

static void parse_tensorboard(const json_t *cr, struct tfjob_annotations *w)
{
    const char *value = kube_annotation(cr, ANNOTATION_TENSORBOARD);
    w->tensorboard_image = kube_annotation(cr, ANNOTATION_TENSORBOARD_IMAGE);
    if (!*value)
        return;
    if (strlen(kube_name(cr)) + strlen(TFJOB_TENSORBOARD_SUFFIX) > TFJOB_NAME_MAX)
        bad(w, ANNOTATION_TENSORBOARD, value,
            "the job's name must leave room for " TFJOB_TENSORBOARD_SUFFIX
            ": at most 51 characters");
    else if (!is_tensorboard_path(value))
        bad(w, ANNOTATION_TENSORBOARD, value,
            "use <name of a claim>/<directory in it>, without blanks and ..");
    else
        w->tensorboard = value;
}

/* The annotation, or the label of the same name. */
static const char *word_of(const json_t *cr, const char *key)
{
    const char *value = kube_annotation(cr, key);
    return *value ? value : kube_label(cr, key);
}

static void refuse_two_words(const json_t *cr, const char *key, struct tfjob_annotations *out)
{
    const char *annotation = kube_annotation(cr, key), *label = kube_label(cr, key);
    if (*annotation && *label && strcmp(annotation, label) != 0)
        snprintf(out->refused, sizeof out->refused,
            "%s is '%.32s' as annotation and '%.32s' as label: take one away", key, annotation,
            label);
}

/* What is not understood makes pods wait, not start: a job that begins too early is expensive. */
static void parse_data(const json_t *cr, struct tfjob_annotations *out)
{
    const char *data = word_of(cr, LABEL_DATA), *placement = word_of(cr, LABEL_PLACEMENT);
    out->until = DATA_UNTIL_READY;
    if (!data_until_parse(data, &out->until))
        snprintf(out->refused, sizeof out->refused, LABEL_DATA " is '%.40s': write %s", data,
            DATA_UNTIL_WORDS);
    else if (!*data)
        out->until = DATA_UNTIL_READY;
    if (!data_placement_parse(placement, &out->placement))
        snprintf(out->refused, sizeof out->refused, LABEL_PLACEMENT " is '%.40s': write %s",
            placement, DATA_PLACEMENT_WORDS);
    refuse_two_words(cr, LABEL_DATA, out);
    refuse_two_words(cr, LABEL_PLACEMENT, out);
    if (!strcmp(kube_annotation(cr, ANNOTATION_WAIT_PRELOAD), "true"))
        snprintf(out->refused, sizeof out->refused,
            "annotation " ANNOTATION_WAIT_PRELOAD " is no more: write " LABEL_DATA
            ": Preloaded, and take it away");
}

/* A misspelt one would be passed over in silence. */
static void look_for_unknown(const json_t *cr, struct tfjob_annotations *out)
{
    static const char *const known[] = {ANNOTATION_EXCLUDE_EVALUATOR, ANNOTATION_ALWAYS_TF_CONFIG,
        ANNOTATION_RESTART_SCOPE, ANNOTATION_DEAD_NODE, ANNOTATION_TENSORBOARD,
        ANNOTATION_TENSORBOARD_IMAGE, LABEL_DATA, LABEL_PLACEMENT, ANNOTATION_WAIT_PRELOAD};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)jget_obj(cr, "metadata.annotations"), key, value) {
        size_t i = 0;
        while (i < ARRAY_LEN(known) && strcmp(key, known[i]) != 0)
            i++;
        if (i == ARRAY_LEN(known) && strncmp(key, NAME_GROUP "/", sizeof NAME_GROUP) == 0
            && !*out->bad)
            snprintf(out->bad, sizeof out->bad,
                "annotation %.120s has no effect: TFJobs have none of that name; is it misspelt?",
                key);
    }
}

void tfjob_parse_annotations(const json_t *cr, struct tfjob_annotations *out)
{
    *out = (struct tfjob_annotations){0};
    out->exclude_evaluator = flag(cr, ANNOTATION_EXCLUDE_EVALUATOR, "true", "false", out);
    out->always_tf_config = flag(cr, ANNOTATION_ALWAYS_TF_CONFIG, "true", "false", out);
    out->restart_all = flag(cr, ANNOTATION_RESTART_SCOPE, "job", "pod", out);
    parse_timeout(cr, out);
    parse_tensorboard(cr, out);
    parse_data(cr, out);
    look_for_unknown(cr, out);
}

static void add_once(json_t *names, const char *name)
{
    for (size_t i = 0; i < json_array_size(names); i++)
        if (!strcmp(json_string_value(json_array_get(names, i)), name))
            return;
    if (*name)
        json_array_append_new(names, json_string(name));
}

json_t *tfjob_claims(const json_t *cr)
{
    json_t *names = json_array(), *replica, *volume;
    const char *type;
    size_t i;
    json_object_foreach ((json_t *)jget_obj(cr, "spec.tfReplicaSpecs"), type, replica)
        json_array_foreach ((json_t *)jget_arr(replica, "template.spec.volumes"), i, volume)
            add_once(names, jget_str(volume, "persistentVolumeClaim.claimName", ""));
    return names;
}

char *tfjob_tensorboard_claim(const json_t *cr)
{
    const char *value = kube_annotation(cr, ANNOTATION_TENSORBOARD);
    size_t n = strcspn(value, "/");
    return n ? xstrndup(value, n) : NULL;
}

bool tfjob_has_ended(const json_t *cr)
{
    const json_t *conditions = jget_arr(cr, "status.conditions");
    return cond_is_true(conditions, TFJOB_SUCCEEDED) || cond_is_true(conditions, TFJOB_FAILED);
}

bool tfjob_runs(const json_t *cr)
{
    return cond_is_true(jget_arr(cr, "status.conditions"), TFJOB_RUNNING);
}
