/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/pod.h"

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/text.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int64_t tfjob_later(int64_t time_ns, int64_t s)
{
    int64_t ns;
    bool over = __builtin_mul_overflow(s, NS_PER_S, &ns)
        || __builtin_add_overflow(time_ns, ns, &ns);
    return over ? (s > 0 ? INT64_MAX : INT64_MIN) : ns;
}

static int64_t time_at(const json_t *j, const char *path)
{
    int64_t ns = 0;
    const char *text = jget_str(j, path, NULL);
    bool sane = text && clock_parse_rfc3339(text, &ns) == 0 && ns > 0 && ns < INT64_MAX / 4;
    return sane ? ns : 0;
}

static const json_t *main_status(const json_t *pod)
{
    size_t i;
    json_t *c;
    json_array_foreach ((json_t *)jget_arr(pod, "status.containerStatuses"), i, c)
        if (!strcmp(jget_str(c, "name", ""), TFJOB_CONTAINER))
            return c;
    return NULL;
}

static int sum_restarts(const json_t *statuses)
{
    int64_t sum = 0;
    size_t i;
    json_t *c;
    json_array_foreach ((json_t *)statuses, i, c) {
        int64_t n = jget_int(c, "restartCount", 0);
        if (n > 0)
            sum += MIN(n, INT32_MAX / 8);
    }
    return (int)MIN(sum, INT32_MAX / 4);
}

/* What an annotation says of the pods before it. */
static int count_before(const json_t *pod, const char *annotation)
{
    long n = strtol(kube_annotation(pod, annotation), NULL, 10);
    return n > 0 ? (int)MIN(n, INT32_MAX / 4) : 0;
}

/* Kubelet evicted the pod because it passed a limit of its own, not because the node was short of
 * something: it would do so again. Both have the reason Evicted, kubelet's words tell them apart.
 */
static bool evicted_by_itself(const json_t *pod)
{
    static const char *const words[] = {"exceeds the limit", "exceeds the total limit",
        "exceeded its local ephemeral storage limit"};
    const char *message = jget_str(pod, "status.message", "");
    if (strcmp(jget_str(pod, "status.reason", ""), "Evicted") != 0
        || cond_is_true(jget_arr(pod, "status.conditions"), "DisruptionTarget"))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strstr(message, words[i]))
            return true;
    return false;
}

/* Reasons with which kubelet or a controller ends a pod from outside, besides the condition
 * DisruptionTarget; and those with which kubelet refuses a pod that never ran. */
static bool disrupted(const json_t *pod)
{
    if (cond_is_true(jget_arr(pod, "status.conditions"), "DisruptionTarget"))
        return true;
    if (evicted_by_itself(pod))
        return false;
    static const char *const reasons[] = {"Evicted", "Preempting", "Preempted", "NodeShutdown",
        "Shutdown", "Terminated", "NodeLost", "NodeAffinity", "NodePorts",
        "UnexpectedAdmissionError"};
    const char *reason = jget_str(pod, "status.reason", "");
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (!strcmp(reason, reasons[i]))
            return true;
    return !strncmp(reason, "OutOf", 5);
}

/* A pod that is being deleted: had it finished by itself when the deletion was asked for? Kubelet
 * ends a deletion by asking for another one, without grace, which overwrites the time of the first:
 * such a pod cannot be told from one that was stopped. (A pod that had finished goes at once and is
 * never seen like that.) Times are whole seconds. One that ended with code 0 in the second in which
 * it was asked to was more likely stopped, and must run again then; one that failed is most likely
 * deleted for that. */
static bool finished_first(const json_t *pod, int64_t ended_ns, bool failed)
{
    int64_t gone_ns = time_at(pod, "metadata.deletionTimestamp"),
            grace_s = jget_int(pod, "metadata.deletionGracePeriodSeconds", 0);
    if (!gone_ns || grace_s <= 0)
        return false;
    /* deleted before it ran, kubelet reports containers that ended with 137 at no time */
    if (!ended_ns)
        return !jget_len(pod, "status.containerStatuses");
    int64_t asked_ns = tfjob_later(gone_ns, -grace_s);
    return ended_ns < asked_ns || (failed && ended_ns == asked_ns);
}

/* `tensorflow` has ended, and kubelet will not start it again. */
static bool main_is_over(const json_t *pod, const struct tfjob_pod *p)
{
    const char *policy = jget_str(pod, "spec.restartPolicy", "");
    return p->has_exit_code
        && (!strcmp(policy, "Never") || (!strcmp(policy, "OnFailure") && p->exit_code == 0));
}

/* Kubelet reports for a moment that all containers have ended and the pod runs: that is none. */
static bool other_runs(const json_t *pod)
{
    size_t i;
    json_t *c;
    json_array_foreach ((json_t *)jget_arr(pod, "status.containerStatuses"), i, c)
        if (strcmp(jget_str(c, "name", ""), TFJOB_CONTAINER) && jget_obj(c, "state.running"))
            return true;
    return false;
}

static enum tfjob_pod_state state_of(const json_t *pod, const struct tfjob_pod *p)
{
    const char *phase = jget_str(pod, "status.phase", "");
    bool deleting = kube_deleting(pod);
    bool stopped = deleting && !finished_first(pod, p->ended_ns, !strcmp(phase, "Failed"));
    if (!strcmp(phase, "Succeeded"))
        return stopped ? TFJOB_POD_LEAVING : TFJOB_POD_SUCCEEDED;
    if (!strcmp(phase, "Failed")) {
        /* its sidecars were stopped by us (pass_stop_sidecars), or outlived a deadline of the
         * user's */
        if (!deleting && main_is_over(pod, p) && p->exit_code == 0
            && !strcmp(jget_str(pod, "status.reason", ""), "DeadlineExceeded"))
            return TFJOB_POD_SUCCEEDED;
        if (disrupted(pod))
            return deleting ? TFJOB_POD_LEAVING : TFJOB_POD_DISRUPTED;
        return stopped ? TFJOB_POD_LEAVING : TFJOB_POD_FAILED;
    }
    if (deleting)
        return TFJOB_POD_LEAVING;
    if (p->sidecars_run)
        return p->exit_code == 0 ? TFJOB_POD_SUCCEEDED : TFJOB_POD_FAILED;
    return !strcmp(phase, "Running") ? TFJOB_POD_RUNNING : TFJOB_POD_PENDING;
}

struct tfjob_pod tfjob_pod_read(const json_t *pod, const char *owner_uid)
{
    struct tfjob_pod p = {.state = TFJOB_POD_NONE};
    if (!pod)
        return p;
    if (!kube_controlled_by(pod, owner_uid)) {
        p.state = TFJOB_POD_FOREIGN;
        return p;
    }
    p.created_ns = time_at(pod, "metadata.creationTimestamp");
    const json_t *code = jget(main_status(pod), "state.terminated.exitCode");
    p.running_ns = time_at(main_status(pod), "state.running.startedAt");
    p.evicted_by_itself = evicted_by_itself(pod);
    p.has_exit_code = json_is_integer(code);
    p.exit_code = (int)json_integer_value(code);
    size_t i;
    json_t *c;
    json_array_foreach ((json_t *)jget_arr(pod, "status.containerStatuses"), i, c) {
        int64_t ended = time_at(c, "state.terminated.finishedAt");
        if (ended <= p.ended_ns)
            continue;
        p.ended_ns = ended;
        p.started_ns = time_at(c, "state.terminated.startedAt");
    }
    p.container_restarts = sum_restarts(jget_arr(pod, "status.initContainerStatuses"))
        + sum_restarts(jget_arr(pod, "status.containerStatuses"));
    p.restarts_before = count_before(pod, ANNOTATION_RESTARTS);
    p.disruptions_before = count_before(pod, ANNOTATION_DISRUPTIONS);
    p.sidecars_run = !kube_deleting(pod) && !strcmp(jget_str(pod, "status.phase", ""), "Running")
        && main_is_over(pod, &p) && other_runs(pod);
    p.state = state_of(pod, &p);
    return p;
}

int64_t tfjob_pod_ran_ns(const struct tfjob_pod *p)
{
    int64_t began = p->started_ns ? p->started_ns : p->created_ns;
    return MAX(p->ended_ns - began, 0);
}

/* The last non-empty line of a termination message: with terminationMessagePolicy
 * FallbackToLogsOnError, of the log. */
static void add_last_line(struct buf *b, const char *text)
{
    size_t len = strlen(text);
    while (len && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == ' '))
        len--;
    size_t from = len;
    while (from && text[from - 1] != '\n')
        from--;
    if (len > from) {
        buf_adds(b, ": ");
        cleanup_free char *line = text_legible(text + from, len - from, 512);
        buf_adds(b, line);
    }
}

char *tfjob_pod_summary(const json_t *pod)
{
    struct buf b = BUF_INIT(1024);
    buf_addf(&b, "Pod %s", kube_name(pod));
    const char *node = jget_str(pod, "spec.nodeName", "");
    if (*node)
        buf_addf(&b, " on node %s", node);
    const json_t *end = jget_obj(main_status(pod), "state.terminated");
    if (end && strcmp(jget_str(pod, "status.reason", ""), "Evicted") != 0) {
        const char *reason = jget_str(end, "reason", "");
        buf_addf(&b, ": container %s exited with code %" PRId64, TFJOB_CONTAINER,
            jget_int(end, "exitCode", 0));
        if (*reason)
            buf_addf(&b, " (%s)", reason);
        add_last_line(&b, jget_str(end, "message", ""));
    } else {
        const char *reason = jget_str(pod, "status.reason", ""),
                   *message = jget_str(pod, "status.message", "");
        if (*reason)
            buf_addf(&b, ": %s", reason);
        add_last_line(&b, message);
    }
    return buf_take(&b);
}
