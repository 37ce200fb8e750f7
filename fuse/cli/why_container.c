/* SPDX-License-Identifier: Apache-2.0 */
/* Containers that do not start, or end: it is not the data then, and that is worth saying. */
#include "fuse/cli/why.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"

#include <stdlib.h>
#include <string.h>

static bool is_one_of(const char *text, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(text, *list) == 0)
            return true;
    return false;
}

static bool logs_next(
    const struct why_facts *f, const char *container, bool previous, struct why *w)
{
    return why_next(w, "kubectl -n %s logs %s -c %s%s", f->ns, kube_name(f->pod), container,
        previous ? " --previous" : "");
}

/* A container that ended: by whose fault. */
static bool why_ended(const struct why_facts *f, const json_t *status, const json_t *ended,
    const char *then, struct why *w)
{
    const char *name = jget_str(status, "name", ""), *reason = jget_str(ended, "reason", "");
    if (strcmp(reason, "OOMKilled") == 0) {
        why_say(f, w, WHY_FAILS,
            "%s: container %s was killed because it used more memory than its limit; it is not the "
            "data: raise resources.limits.memory of that container (page cache of the mount does not "
            "count against it)",
            then, name);
        return why_describe(f, w);
    }
    why_say(f, w, WHY_FAILS,
        "%s: container %s ended with exit code %d%s%s; nothing is wrong with its data: its log says "
        "what happened",
        then, name, (int)jget_int(ended, "exitCode", -1),
        *reason && strcmp(reason, "Error") != 0 ? ", " : "",
        strcmp(reason, "Error") != 0 ? reason : "");
    return logs_next(f, name, jget(status, "state.waiting") != NULL, w);
}

static bool is_held_up(const json_t *status)
{
    static const char *const normal[] = {"", "ContainerCreating", "PodInitializing", NULL};
    return !is_one_of(jget_str(status, "state.waiting.reason", ""), normal);
}

static bool why_waiting(const struct why_facts *f, const json_t *status, struct why *w)
{
    static const char *const image[] = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName",
        "ErrImageNeverPull", "RegistryUnavailable", NULL};
    const json_t *last = jget(status, "lastState.terminated");
    const char *reason = jget_str(status, "state.waiting.reason", ""),
               *name = jget_str(status, "name", "");
    if (!is_held_up(status))
        return false;
    if (last)
        return why_ended(f, status, last, "starts again and again", w);
    cleanup_free char *message = one_line(jget_str(status, "state.waiting.message", ""));
    if (is_one_of(reason, image))
        why_say(f, w, WHY_FAILS, "waits for the image %s of container %s, not for data: %s%s%s",
            jget_str(status, "image", ""), name, reason, *message ? ": " : "", message);
    else
        why_say(f, w, WHY_FAILS, "waits for container %s, not for data: %s%s%s", name, reason,
            *message ? ": " : "", message);
    return why_describe(f, w);
}

static const char *const lists[] = {"status.initContainerStatuses", "status.containerStatuses"};

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
