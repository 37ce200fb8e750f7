/* SPDX-License-Identifier: Apache-2.0 */
/* Containers that do not start, or end: it is not the data then, and that is worth saying. */
#include "fuse/cli/why.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"

#include <stdlib.h>
#include <string.h>

#define OTHERS_MAX 1024 /* of words about further containers */

static const char *const lists[] = {"status.initContainerStatuses", "status.containerStatuses"};

static bool is_one_of(const char *text, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(text, *list) == 0)
            return true;
    return false;
}

/* "container main", "init container fetch"; of a cache pod it is said if a webhook has put it
 * there. Caller frees. */
static char *container_called(const struct why_facts *f, const json_t *status)
{
    const char *name = jget_str(status, "name", "");
    const json_t *one;
    size_t i;
    bool init = false;
    json_array_foreach (jget_arr(f->pod, lists[0]), i, one)
        init = init || one == status;
    return xasprintf("%scontainer %s%s", init ? "init " : "", name,
        *our_component(f->pod) && strcmp(name, CONTAINER_MAIN) != 0
            ? " (not Millrace's: has a webhook added it?)"
            : "");
}

static bool logs_next(
    const struct why_facts *f, const char *container, bool previous, struct why *w)
{
    return why_next(w, "kubectl -n %s logs %s -c %s%s", f->ns, kube_name(f->pod), container,
        previous ? " --previous" : "");
}

static bool is_held_up(const json_t *status)
{
    static const char *const normal[] = {"", "ContainerCreating", "PodInitializing", NULL};
    return !is_one_of(jget_str(status, "state.waiting.reason", ""), normal);
}

/* "; container proxy cannot start, either: ErrImagePull", of all others that cannot, or that have
 * failed; caller frees. */
static char *others_like(const struct why_facts *f, const json_t *status)
{
    cleanup_buf struct buf words = BUF_INIT(OTHERS_MAX);
    const json_t *one;
    size_t i;
    for (size_t k = 0; k < ARRAY_LEN(lists); k++)
        json_array_foreach (jget_arr(f->pod, lists[k]), i, one) {
            int code = (int)jget_int(one, "state.terminated.exitCode", 0);
            cleanup_free char *who = one == status ? NULL : container_called(f, one);
            if (who && is_held_up(one))
                buf_addf(&words, "; %s cannot start, either: %s", who,
                    jget_str(one, "state.waiting.reason", ""));
            else if (who && code)
                buf_addf(&words, "; %s has ended, too, with exit code %d", who, code);
        }
    return xstrdup(buf_str(&words));
}

/* A container that ended: by whose fault. */
static bool why_ended(const struct why_facts *f, const json_t *status, const json_t *ended,
    const char *then, struct why *w)
{
    const char *name = jget_str(status, "name", ""), *reason = jget_str(ended, "reason", ""),
               *component = our_component(f->pod);
    cleanup_free char *who = container_called(f, status), *others = others_like(f, status);
    if (strcmp(reason, "OOMKilled") == 0 && *component && strcmp(name, CONTAINER_MAIN) == 0) {
        why_say(f, w, WHY_FAILS,
            "%s: it was killed because it used more memory than its limit: raise "
            "spec.cache.%s.resources.limits.memory of Dataset %s%s",
            then, component, kube_label(f->pod, LABEL_DATASET), others);
        return why_describe(f, w);
    }
    if (strcmp(reason, "OOMKilled") == 0) {
        why_say(f, w, WHY_FAILS,
            "%s: %s was killed because it used more memory than its limit; it is not the data: raise "
            "resources.limits.memory of that container (page cache of the mount does not count "
            "against it)%s",
            then, who, others);
        return why_describe(f, w);
    }
    why_say(f, w, WHY_FAILS, "%s: %s ended with exit code %d%s%s%s: its log says what happened%s",
        then, who, (int)jget_int(ended, "exitCode", -1),
        *reason && strcmp(reason, "Error") != 0 ? ", " : "",
        strcmp(reason, "Error") != 0 ? reason : "",
        *component ? "" : "; nothing is wrong with its data", others);
    return logs_next(f, name, jget(status, "state.waiting") != NULL, w);
}

static bool why_waiting(const struct why_facts *f, const json_t *status, struct why *w)
{
    static const char *const image[] = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName",
        "ErrImageNeverPull", "RegistryUnavailable", NULL};
    const json_t *last = jget(status, "lastState.terminated");
    const char *reason = jget_str(status, "state.waiting.reason", ""),
               *not_data = *our_component(f->pod) ? "" : ", not for data";
    if (!is_held_up(status))
        return false;
    if (last)
        return why_ended(f, status, last, "starts again and again", w);
    cleanup_free char *message = one_line(jget_str(status, "state.waiting.message", "")),
                      *who = container_called(f, status), *others = others_like(f, status);
    if (is_one_of(reason, image))
        why_say(f, w, WHY_FAILS, "waits for the image %s of %s%s: %s%s%s%s",
            jget_str(status, "image", ""), who, not_data, reason, *message ? ": " : "", message,
            others);
    else
        why_say(f, w, WHY_FAILS, "waits for %s%s: %s%s%s%s", who, not_data, reason,
            *message ? ": " : "", message, others);
    return why_describe(f, w);
}

const json_t *held_up_container(const json_t *pod)
{
    const json_t *status;
    size_t i;
    for (size_t k = 0; k < ARRAY_LEN(lists); k++)
        json_array_foreach (jget_arr(pod, lists[k]), i, status)
            if (is_held_up(status))
                return status;
    return NULL;
}

static bool each_container(const struct why_facts *f, struct why *w,
    bool (*fn)(const struct why_facts *f, const json_t *status, struct why *w))
{
    const json_t *status;
    size_t i;
    for (size_t k = 0; k < ARRAY_LEN(lists); k++)
        json_array_foreach (jget_arr(f->pod, lists[k]), i, status)
            if (fn(f, status, w))
                return true;
    return false;
}

bool why_container_failed(const struct why_facts *f, struct why *w)
{
    return each_container(f, w, why_waiting);
}

static bool why_killed(const struct why_facts *f, const json_t *status, struct why *w)
{
    const json_t *last = jget(status, "lastState.terminated"),
                 *now = jget(status, "state.terminated");
    if (now && jget_int(now, "exitCode", 0) != 0)
        return why_ended(f, status, now, "does not run as a whole", w);
    if (!last || strcmp(jget_str(last, "reason", ""), "OOMKilled") != 0)
        return false;
    cleanup_free char *then = xasprintf(
        "runs, and was restarted %d times", (int)jget_int(status, "restartCount", 1));
    return why_ended(f, status, last, then, w);
}

bool why_container_killed(const struct why_facts *f, struct why *w)
{
    return each_container(f, w, why_killed);
}

static bool why_terminated(const struct why_facts *f, const json_t *status, struct why *w)
{
    const json_t *ended = jget(status, "state.terminated");
    return ended && jget_int(ended, "exitCode", 0) != 0
        && why_ended(f, status, ended, "has failed", w);
}

bool why_pod_ended(const struct why_facts *f, struct why *w)
{
    const char *phase = jget_str(f->pod, "status.phase", "");
    if (strcmp(phase, "Succeeded") == 0) {
        why_say(f, w, WHY_FINE, "has succeeded: it waits for nothing");
        return why_next(w, "%s", "");
    }
    if (strcmp(phase, "Failed") != 0)
        return false;
    const char *reason = jget_str(f->pod, "status.reason", "");
    if (!*reason && each_container(f, w, why_terminated))
        return true;
    cleanup_free char *message = one_line(jget_str(f->pod, "status.message", ""));
    why_say(f, w, WHY_FAILS, "has failed: %s%s%s", *reason ? reason : "no reason was given",
        *message ? ": " : "", message);
    return why_describe(f, w);
}

/* An init container that runs, and ends before the others start; NULL: none. */
static const char *running_init(const struct why_facts *f)
{
    const json_t *status, *c;
    size_t i, k;
    json_array_foreach (jget_arr(f->pod, "status.initContainerStatuses"), i, status)
        json_array_foreach (jget_arr(f->pod, "spec.initContainers"), k, c)
            if (jget(status, "state.running")
                && strcmp(jget_str(status, "name", ""), jget_str(c, "name", "")) == 0
                && strcmp(jget_str(c, "restartPolicy", ""), "Always") != 0)
                return jget_str(c, "name", "");
    return NULL;
}

/* Nothing is wrong, and it does not run yet. */
bool why_starting(const struct why_facts *f, struct why *w)
{
    const json_t *event;
    if (pod_started(f))
        return false;
    const char *init = running_init(f);
    if (init) {
        why_say(f, w, WHY_WAITS, "waits for its init container %s, which runs", init);
        return logs_next(f, init, false, w);
    }
    static const char *const pulling[] = {"Pulling", "Pulled", NULL};
    event = newest_event(f, "Normal", pulling);
    if (strcmp(jget_str(event, "reason", ""), "Pulling") == 0) {
        cleanup_free char *message = one_line(jget_str(event, "message", ""));
        why_say(f, w, WHY_WAITS, "waits for its image, not for data: %s", message);
        return why_describe(f, w);
    }
    event = newest_event(f, "Warning", NULL);
    cleanup_free char *message = one_line(jget_str(event, "message", ""));
    why_say(f, w, WHY_WAITS, "is being started by kubelet on node %s%s%s",
        jget_str(f->pod, "spec.nodeName", ""), *message ? ": " : "", message);
    return why_describe(f, w);
}

/* It runs, and is not what a Service or a Deployment waits for. */
bool why_not_ready(const struct why_facts *f, struct why *w)
{
    static const char *const reasons[] = {"Unhealthy", NULL};
    const json_t *status;
    size_t i;
    json_array_foreach (jget_arr(f->pod, lists[1]), i, status) {
        if (!jget(status, "state.running") || jget_bool(status, "ready", true))
            continue;
        const json_t *event = newest_event(f, "Warning", reasons);
        cleanup_free char *message = one_line(jget_str(event, "message", ""));
        why_say(f, w, WHY_SLOW, /* its data is well: not a pod that status lists */
            "runs, and nothing is wrong with its data, but container %s is not ready%s%s",
            jget_str(status, "name", ""), *message ? ": " : "", message);
        return why_describe(f, w);
    }
    return false;
}
