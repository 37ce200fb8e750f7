/* SPDX-License-Identifier: Apache-2.0 */
/* runPolicy.podFailurePolicy of a TFJob, in the words of batch/v1 and some more: which rule fits is
 * the plan's. */
#include "operator/api/tfjob.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"

#include <string.h>

#define RULE "spec.runPolicy.podFailurePolicy.rules[%zu]"

const char *tfjob_action_name(enum tfjob_action a)
{
    static const char *const names[] = {[TFJOB_ACTION_FAIL_JOB] = "FailJob",
        [TFJOB_ACTION_FAIL_INDEX] = "FailIndex",
        [TFJOB_ACTION_IGNORE] = "Ignore",
        [TFJOB_ACTION_COUNT] = "Count"};
    return names[a];
}

static int parse_action(const json_t *rule, size_t i, enum tfjob_action *out, struct err *e)
{
    const char *text = jget_str(rule, "action", "");
    for (int a = TFJOB_ACTION_FAIL_JOB; a <= TFJOB_ACTION_COUNT; a++)
        if (!strcmp(text, tfjob_action_name((enum tfjob_action)a))) {
            *out = (enum tfjob_action)a;
            return 0;
        }
    return err_set(
        e, ERR_INVALID, RULE ".action is '%s': use FailJob, FailIndex, Ignore or Count", i, text);
}

static int parse_types(const json_t *rule, size_t i, unsigned *out, struct err *e)
{
    const json_t *types = jget_arr(rule, "replicaTypes"), *v;
    size_t k;
    json_array_foreach (types, k, v) {
        enum tfjob_type t;
        const char *text = json_string_value(v) ? json_string_value(v) : "";
        if (!tfjob_type_parse(text, &t))
            return err_set(e, ERR_INVALID,
                RULE ".replicaTypes[%zu] is '%s': use Chief, Master, Worker, PS or Evaluator", i, k,
                text);
        *out |= 1U << t;
    }
    if (!json_array_size(types))
        *out = (1U << TFJOB_TYPES) - 1;
    return 0;
}

static int parse_exit_codes(const json_t *codes, size_t i, struct tfjob_rule *out, struct err *e)
{
    const char *how = jget_str(codes, "operator", "");
    out->container = jget_str(codes, "containerName", "");
    out->not_in = !strcmp(how, "NotIn");
    if (!out->not_in && strcmp(how, "In") != 0)
        return err_set(
            e, ERR_INVALID, RULE ".onExitCodes.operator is '%s': use In or NotIn", i, how);
    out->exit_codes = jget_arr(codes, "values");
    if (!json_array_size(out->exit_codes))
        return err_set(e, ERR_INVALID, RULE ".onExitCodes.values is empty: give the exit codes", i);
    size_t k;
    const json_t *v;
    json_array_foreach (out->exit_codes, k, v)
        if (!json_is_integer(v) || (json_integer_value(v) == 0 && !out->not_in))
            return err_set(e, ERR_INVALID,
                RULE
                ".onExitCodes.values[%zu] must be a whole number, and not 0 with In: 0 is no failure",
                i, k);
    return 0;
}

static int parse_conditions(const json_t *conditions, size_t i, struct err *e)
{
    static const char *const statuses[] = {"True", "False", "Unknown"};
    size_t k;
    const json_t *c;
    json_array_foreach (conditions, k, c) {
        const char *status = jget_str(c, "status", "True");
        bool known = false;
        for (size_t s = 0; s < ARRAY_LEN(statuses); s++)
            known |= !strcmp(status, statuses[s]);
        if (!*jget_str(c, "type", ""))
            return err_set(e, ERR_INVALID, RULE ".onPodConditions[%zu].type is missing", i, k);
        if (!known)
            return err_set(e, ERR_INVALID,
                RULE ".onPodConditions[%zu].status is '%s': use True, False or Unknown", i, k,
                status);
    }
    return 0;
}

static int parse_failure_rule(const json_t *rule, size_t i, struct tfjob_rule *out, struct err *e)
{
    *out = (struct tfjob_rule){.container = ""};
    const json_t *codes = jget_obj(rule, "onExitCodes");
    if (parse_action(rule, i, &out->action, e) || parse_types(rule, i, &out->types, e)
        || (codes && parse_exit_codes(codes, i, out, e)))
        return -1;
    out->conditions = jget_len(rule, "onPodConditions") ? jget_arr(rule, "onPodConditions") : NULL;
    out->reasons = jget_len(rule, "onReasons") ? jget_arr(rule, "onReasons") : NULL;
    if (!codes && !out->conditions && !out->reasons && !jget_len(rule, "replicaTypes"))
        return err_set(e, ERR_INVALID,
            RULE
            " fits everything: give it onExitCodes, onPodConditions, onReasons or replicaTypes",
            i);
    return parse_conditions(out->conditions, i, e);
}

bool tfjob_policy_covers(const struct tfjob *j, enum tfjob_type t)
{
    for (int i = 0; i < j->nrules; i++)
        if (j->rules[i].types & 1U << t)
            return true;
    return false;
}

/* Such a container starts again in place: no pod ever fails, and no rule is asked. */
static int refuse_always(const struct tfjob *j, struct err *e)
{
    for (int t = 0; t < TFJOB_TYPES; t++)
        if (j->spec[t].present && j->spec[t].restart == TFJOB_RESTART_ALWAYS
            && tfjob_policy_covers(j, (enum tfjob_type)t))
            return err_set(e, ERR_INVALID,
                "spec.tfReplicaSpecs.%s.restartPolicy is Always, with which spec.runPolicy.podFailurePolicy never sees a "
                "failure: use OnFailure, or name other replicaTypes in its rules",
                tfjob_type_name((enum tfjob_type)t));
    return 0;
}

int tfjob_parse_failure_policy(const json_t *spec, struct tfjob *out, struct err *e)
{
    const json_t *rules = jget_arr(spec, "runPolicy.podFailurePolicy.rules"), *rule;
    if (json_array_size(rules) > TFJOB_RULES_MAX)
        return err_set(e, ERR_INVALID,
            "spec.runPolicy.podFailurePolicy.rules has %zu rules: at most %d are allowed",
            json_array_size(rules), TFJOB_RULES_MAX);
    size_t i;
    json_array_foreach (rules, i, rule) {
        if (parse_failure_rule(rule, i, &out->rules[i], e))
            return -1;
        out->nrules = (int)i + 1;
    }
    return refuse_always(out, e);
}
