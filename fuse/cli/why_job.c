/* SPDX-License-Identifier: Apache-2.0 */
/* Pods of a job that count no more; and a job that has no pods yet: its own status says why. */
#include "fuse/cli/why.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/api/tfjob.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* When its last container ended; if that is not told, when it was made. */
static const char *pod_end(const json_t *pod)
{
    const char *end = jget_str(pod, "metadata.creationTimestamp", "");
    const json_t *status;
    size_t i;
    json_array_foreach (jget_arr(pod, "status.containerStatuses"), i, status) {
        const char *at = jget_str(status, "state.terminated.finishedAt", "");
        end = strcmp(at, end) > 0 ? at : end;
    }
    return end;
}

static bool replaces(const json_t *pod, const json_t *failed)
{
    static const char index[] = "batch.kubernetes.io/job-completion-index";
    return strcmp(jget_str(pod, "status.phase", ""), "Failed") != 0
        && kube_controlled_by(pod, jget_str(kube_controller_of(failed), "uid", "-"))
        && strcmp(kube_label(pod, index), kube_label(failed, index)) == 0
        && strcmp(jget_str(pod, "metadata.creationTimestamp", ""), pod_end(failed)) >= 0;
}

void why_drop_replaced(json_t *pods)
{
    for (size_t i = json_array_size(pods); i-- > 0;) {
        const json_t *failed = json_array_get(pods, i);
        bool replaced = false;
        if (strcmp(jget_str(failed, "status.phase", ""), "Failed") != 0)
            continue;
        for (size_t k = 0; k < json_array_size(pods) && !replaced; k++)
            replaced = replaces(json_array_get(pods, k), failed);
        if (replaced)
            json_array_remove(pods, i);
    }
}

bool why_all_succeeded(const json_t *pods)
{
    const json_t *pod;
    size_t i;
    json_array_foreach (pods, i, pod)
        if (strcmp(jget_str(pod, "status.phase", ""), "Succeeded") != 0)
            return false;
    return true;
}

struct job_state {
    const char *condition;
    enum why_rank rank;
    const char *words;
};

/* The first one that is True counts. */
static const struct job_state job_states[] = {
    {TFJOB_FAILED, WHY_FAILS, "has failed"},
    {TFJOB_SUCCEEDED, WHY_FINE, "has succeeded"},
    {"Complete", WHY_FINE, "is complete"},
    {TFJOB_STALLED, WHY_FAILS, "cannot go on"},
    {TFJOB_WAITING_DATASET, WHY_WAITS, "has no pods yet, because they would wait for data"},
    {TFJOB_WAITING_GANG, WHY_WAITS, "has no pods yet, because it waits for room for all of them"},
};

static char *job_kind(const json_t *job)
{
    char *kind = xstrdup(jget_str(job, "kind", "job"));
    for (char *p = kind; *p; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
    return kind;
}

static const json_t *newest_warning(const json_t *events)
{
    const json_t *e, *newest = NULL;
    size_t i;
    json_array_foreach (events, i, e)
        if (strcmp(jget_str(e, "type", ""), "Warning") == 0
            && (!newest
                || strcmp(jget_str(e, "lastTimestamp", ""), jget_str(newest, "lastTimestamp", ""))
                    >= 0))
            newest = e;
    return newest;
}

/* What the job's state says, or NULL; caller frees. */
static char *job_state(const json_t *job, enum why_rank *rank)
{
    const json_t *conditions = jget_arr(job, "status.conditions");
    for (size_t i = 0; i < ARRAY_LEN(job_states); i++) {
        const struct job_state *s = &job_states[i];
        if (!cond_is_true(conditions, s->condition))
            continue;
        cleanup_free char *message = one_line(cond_message(conditions, s->condition));
        *rank = s->rank;
        return xasprintf("%s%s%s", s->words, *message ? ": " : "", message);
    }
    *rank = WHY_WAITS;
    if (jget_bool(job, "spec.suspend", false) || jget_bool(job, "spec.runPolicy.suspend", false))
        return xstrdup(
            "is suspended: it has no pods before its queue (Kueue), or whoever suspended "
            "it, lets it go on");
    return NULL;
}

void why_job(const json_t *job, const char *ns, const json_t *events, struct why *w)
{
    cleanup_free char *kind = job_kind(job), *state = job_state(job, &w->rank);
    const json_t *event = newest_warning(events);
    cleanup_free char *message = one_line(jget_str(event, "message", ""));
    if (state)
        w->sentence = xasprintf("%s %s %s", kind, kube_name(job), state);
    else
        w->sentence = xasprintf("%s %s has no pods yet%s%s", kind, kube_name(job),
            *message ? ": " : ": its controller has not made them; does it run?", message);
    w->next = xasprintf("kubectl -n %s describe %s %s", ns, kind, kube_name(job));
}
