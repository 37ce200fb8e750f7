/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator looks after: in another namespace, or of another kind, nothing gets on. */
#include "fuse/cli/why.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"

#include <string.h>

/* What the operator was told by a flag, "--tfjob=": "" if nothing. */
static const char *operator_flag(const json_t *pod, const char *flag)
{
    static const char *const where[] = {"command", "args"};
    const json_t *word,
        *container = kube_container(jget_arr(pod, "spec.containers"), COMPONENT_OPERATOR);
    size_t i, n = strlen(flag);
    for (size_t k = 0; k < ARRAY_LEN(where); k++)
        json_array_foreach (jget_arr(container, where[k]), i, word) {
            const char *text = json_string_value(word);
            if (text && strncmp(text, flag, n) == 0)
                return text + n;
        }
    return "";
}

static const json_t *operator_pod(const json_t *pods)
{
    const json_t *pod;
    size_t i;
    json_array_foreach (pods, i, pod)
        if (strcmp(kube_label(pod, LABEL_COMPONENT), COMPONENT_OPERATOR) == 0
            && !kube_deleting(pod))
            return pod;
    return NULL;
}

const char *watched_only(const json_t *pods)
{
    return operator_flag(operator_pod(pods), "--watch-namespace=");
}

bool runs_no_tfjobs(const json_t *pods)
{
    return strcmp(operator_flag(operator_pod(pods), "--tfjob="), "false") == 0;
}

bool is_unwatched(const json_t *pods, const char *ns)
{
    const char *only = watched_only(pods);
    return *only && strcmp(only, ns) != 0;
}

/* "helm upgrade …" of the release, with another value */
static bool upgrade_next(const json_t *pods, const char *value, struct why *w)
{
    const json_t *pod = operator_pod(pods);
    const char *release = kube_label(pod, "app.kubernetes.io/instance");
    return why_next(w, "helm upgrade %s charts/millrace -n %s --reset-then-reuse-values --set %s",
        *release ? release : "millrace", kube_namespace(pod), value);
}

/* who: "pod train-0" */
static bool unwatched_say(const json_t *pods, const char *ns, const char *who, struct why *w)
{
    w->rank = WHY_FAILS;
    w->sentence = xasprintf(
        "%s waits for Millrace, and Millrace watches namespace %s only, not %s (value "
        "watchNamespace of its chart)",
        who, watched_only(pods), ns);
    return upgrade_next(pods, "watchNamespace=", w);
}

bool why_tfjob_unrun(const json_t *job, const json_t *operators, struct why *w)
{
    if (!cond_unseen(jget_arr(job, "status.conditions")) || !runs_no_tfjobs(operators))
        return false;
    w->rank = WHY_FAILS;
    w->sentence = xasprintf(
        "tfjob %s has been looked at by nobody: " TFJOBS_NOT_OURS, kube_name(job));
    return upgrade_next(operators, "tfjob.enabled=true", w);
}

bool why_object_unwatched(
    const json_t *object, const char *kind, const char *ns, const json_t *operators, struct why *w)
{
    cleanup_free char *who = xasprintf("%s %s", kind, kube_name(object));
    if (!cond_unseen(jget_arr(object, "status.conditions")) || !is_unwatched(operators, ns))
        return false;
    return unwatched_say(operators, ns, who, w);
}

bool pod_needs_operator(const json_t *pod, const json_t *datasets)
{
    const struct why_facts f = {.pod = pod, .datasets = datasets};
    const json_t *gate;
    const char *claim;
    size_t i;
    json_array_foreach (jget_arr(pod, "spec.schedulingGates"), i, gate)
        if (strcmp(jget_str(gate, "name", ""), GATE_DATA) == 0)
            return true;
    for (i = 0; (claim = pod_claim(&f, i)); i++)
        if (named(datasets, claim)
            && strcmp(jget_str(pod, "status.phase", "Pending"), "Pending") == 0)
            return true;
    return false;
}

bool why_unwatched(const struct why_facts *f, struct why *w)
{
    cleanup_free char *who = xasprintf("pod %s", kube_name(f->pod));
    return is_unwatched(f->operators, f->ns) && pod_needs_operator(f->pod, f->datasets)
        && unwatched_say(f->operators, f->ns, who, w);
}
