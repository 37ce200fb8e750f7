/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/policy.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"

#include <string.h>

static bool is_in(const json_t *values, const json_t *v)
{
    size_t i;
    json_t *x;
    json_array_foreach ((json_t *)values, i, x)
        if (json_equal(x, v))
            return true;
    return false;
}

/* As batch/v1: a container that ended well does not count, whatever the rule says of 0. */
static bool codes_fit(const struct tfjob_rule *rule, const json_t *statuses)
{
    size_t i;
    json_t *c;
    json_array_foreach ((json_t *)statuses, i, c) {
        const json_t *code = jget(c, "state.terminated.exitCode");
        if (!json_is_integer(code) || json_integer_value(code) == 0
            || (*rule->container && strcmp(rule->container, jget_str(c, "name", "")) != 0))
            continue;
        if (is_in(rule->exit_codes, code) != rule->not_in)
            return true;
    }
    return false;
}

static bool conditions_fit(const json_t *wanted, const json_t *conditions)
{
    size_t i, k;
    json_t *w, *c;
    json_array_foreach ((json_t *)wanted, i, w)
        json_array_foreach ((json_t *)conditions, k, c)
            if (!strcmp(jget_str(w, "type", ""), jget_str(c, "type", ""))
                && !strcmp(jget_str(w, "status", "True"), jget_str(c, "status", "")))
                return true;
    return false;
}

static bool reasons_fit(const json_t *reasons, const json_t *statuses)
{
    size_t i;
    json_t *c;
    json_array_foreach ((json_t *)statuses, i, c)
        if (jget_int(c, "state.terminated.exitCode", 0)
            && is_in(reasons, jget(c, "state.terminated.reason")))
            return true;
    return false;
}

static bool rule_fits(const struct tfjob_rule *rule, const json_t *pod)
{
    const json_t *main = jget_arr(pod, "status.containerStatuses"),
                 *init = jget_arr(pod, "status.initContainerStatuses");
    if (rule->exit_codes && !codes_fit(rule, main) && !codes_fit(rule, init))
        return false;
    if (rule->conditions && !conditions_fit(rule->conditions, jget_arr(pod, "status.conditions")))
        return false;
    return !rule->reasons || is_in(rule->reasons, jget(pod, "status.reason"))
        || reasons_fit(rule->reasons, main) || reasons_fit(rule->reasons, init);
}

int tfjob_policy_rule(const struct tfjob *j, enum tfjob_type t, const json_t *pod)
{
    for (int i = 0; i < j->nrules; i++)
        if (j->rules[i].types & 1U << t && rule_fits(&j->rules[i], pod))
            return i;
    return -1;
}
