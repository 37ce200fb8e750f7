/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/cache_pod.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/dataset/dead_node.h"
#include "operator/dataset/report_news.h"
#include "operator/render/volume.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REASON_DISK_FULL "CacheDiskFull"

/* Reasons of waiting containers that mean the image cannot be pulled. */
static bool is_image_reason(const char *reason)
{
    static const char *const reasons[] = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName",
        "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
        "SignatureValidationFailed"};
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (strcmp(reasons[i], reason) == 0)
            return true;
    return false;
}

/* Of problems: those that stay until a person changes something. A store that cannot be reached may
 * come back, and a node may get room. */
static bool is_stalling(const char *reason)
{
    static const char *const reasons[] = {"InvalidURL", "InvalidOption", "SecretMissing",
        "ConfigMapMissing", "AccessDenied", "ExpiredCredentials", "BucketNotFound", "NotFound",
        "TLSFailed", "ClaimMissing", "ImagePullFailed", "OutOfMemory"};
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (strcmp(reasons[i], reason) == 0)
            return true;
    return false;
}

static const json_t *pod_condition(const json_t *pod, const char *type)
{
    const json_t *conditions = jget_arr(pod, "status.conditions");
    for (size_t i = 0; i < json_array_size(conditions); i++)
        if (strcmp(jget_str(json_array_get(conditions, i), "type", ""), type) == 0)
            return json_array_get(conditions, i);
    return NULL;
}

static bool pod_condition_is(const json_t *pod, const char *type, const char *status)
{
    return strcmp(jget_str(pod_condition(pod, type), "status", ""), status) == 0;
}

bool cache_pod_is(const json_t *pod, const char *component)
{
    return strcmp(kube_label(pod, LABEL_COMPONENT), component) == 0;
}

/* A text that did not fit was cut, perhaps in the middle of a character: removes its first
 * bytes, too. */
static void cut_whole(char *text, size_t cap)
{
    size_t n = strlen(text);
    if (n + 1 < cap)
        return;
    while (n && ((unsigned char)text[n - 1] & 0xc0) == 0x80)
        n--;
    if (n && (unsigned char)text[n - 1] >= 0xc0)
        n--;
    text[n] = '\0';
}

static void set_problem(struct cache_pod_health *v, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void set_problem(struct cache_pod_health *v, const char *reason, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(v->message, sizeof v->message, fmt, ap);
    va_end(ap);
    cut_whole(v->message, sizeof v->message);
    snprintf(v->reason, sizeof v->reason, "%s", reason);
    v->state = CACHE_POD_PROBLEM;
    v->stalled = is_stalling(reason);
}

const char *cache_pod_last_line(const char *text, char *out, size_t cap)
{
    size_t end = strlen(text);
    while (end && strchr("\n\r \t", text[end - 1]))
        end--;
    size_t start = end;
    while (start && text[start - 1] != '\n')
        start--;
    snprintf(out, cap, "%.*s", (int)MIN(end - start, cap - 1), text + start);
    cut_whole(out, cap);
    return out;
}

/* One line of our own log is JSON; people want its msg. */
static const char *log_words(const char *line, char *out, size_t cap)
{
    json_t *j = *line == '{' ? json_loads(line, 0, NULL) : NULL;
    const char *msg = jget_str(j, "msg", NULL);
    if (msg)
        snprintf(out, cap, "%s", msg);
    json_decref(j);
    return msg ? out : line;
}

static bool is_main(const json_t *container)
{
    return strcmp(jget_str(container, "name", CONTAINER_MAIN), CONTAINER_MAIN) == 0;
}

/* "pod NAME", " on node NODE" unless that is NULL, or which container of it, if it is not ours. */
static const char *container_words(
    const json_t *pod, const json_t *container, const char *node, char out[512])
{
    const char *on = node ? " on node " : "", *at = node ? node : "";
    if (is_main(container))
        snprintf(out, 512, "pod %s%s%s", kube_name(pod), on, at);
    else
        snprintf(out, 512,
            "container %s of pod %s%s%s, which is not Millrace's (added by a webhook?),",
            jget_str(container, "name", ""), kube_name(pod), on, at);
    return out;
}

static void crashed(struct cache_pod_health *v, const json_t *pod, const json_t *container,
    const json_t *terminated)
{
    char line[256], words[256], who[512];
    const char *said = log_words(
        cache_pod_last_line(jget_str(terminated, "message", ""), line, sizeof line), words,
        sizeof words);
    const char *reason = jget_str(terminated, "reason", "");
    if (strcmp(reason, "OOMKilled") == 0 && is_main(container))
        set_problem(v, "OutOfMemory",
            "pod %s was killed because it used more memory than its limit: raise spec.cache.%s.resources.limits.memory",
            kube_name(pod), kube_label(pod, LABEL_COMPONENT)); /* the field has its name */
    else
        set_problem(v, "ContainerCrashed", "%s ended with exit code %d%s%s",
            container_words(pod, container, NULL, who), (int)jget_int(terminated, "exitCode", -1),
            *reason && strcmp(reason, "Error") != 0 ? ", " : "",
            strcmp(reason, "Error") != 0 ? reason : "");
    size_t len = strlen(v->message);
    if (*said && len < sizeof v->message)
        snprintf(v->message + len, sizeof v->message - len, ": %s", said);
    cut_whole(v->message, sizeof v->message);
}

const json_t *cache_pod_container(const json_t *pod)
{
    return kube_container(jget_arr(pod, "status.containerStatuses"), CONTAINER_MAIN);
}

static void say_image(struct cache_pod_health *v, const json_t *pod, const json_t *container)
{
    char who[512];
    const json_t *spec = is_main(container)
        ? kube_container(jget_arr(pod, "spec.containers"), CONTAINER_MAIN)
        : NULL;
    const char *message = jget_str(container, "state.waiting.message", "");
    set_problem(v, "ImagePullFailed", "%s cannot get %s%s: %s: %s",
        container_words(pod, container, v->node, who), spec ? "the image " : "its image",
        jget_str(spec, "image", ""), jget_str(container, "state.waiting.reason", ""),
        *message ? message : "see the pod's events");
}

/* Evaluates what Kubernetes knows of a container. false: nothing is wrong with it. */
static bool evaluate_container(const json_t *pod, const json_t *c, struct cache_pod_health *v)
{
    char who[512];
    const json_t *waiting = jget(c, "state.waiting"), *ended = jget(c, "state.terminated"),
                 *last = jget(c, "lastState.terminated");
    const char *reason = jget_str(waiting, "reason", ""),
               *message = jget_str(waiting, "message", "");
    if (is_image_reason(reason)) {
        say_image(v, pod, c);
        return true;
    }
    if (ended && jget_int(ended, "exitCode", 0) != 0) {
        crashed(v, pod, c, ended);
        return true;
    }
    if (last && jget_int(last, "exitCode", 0) != 0 && waiting) {
        crashed(v, pod, c, last);
        return true;
    }
    if (*reason && strcmp(reason, "ContainerCreating") != 0
        && strcmp(reason, "PodInitializing") != 0) {
        set_problem(v, "ContainerFailed", "%s cannot start: %s: %s",
            container_words(pod, c, v->node, who), reason, message);
        return true;
    }
    return false;
}

/* Ours first: the others, a mesh's say, are not in our hands, but hold the pod up as well. */
static bool evaluate_containers(const json_t *pod, struct cache_pod_health *v)
{
    static const char *const lists[] = {"status.initContainerStatuses", "status.containerStatuses"};
    if (evaluate_container(pod, cache_pod_container(pod), v))
        return true;
    for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
        const json_t *all = jget_arr(pod, lists[k]);
        for (size_t i = 0; i < json_array_size(all); i++)
            if (!is_main(json_array_get(all, i))
                && evaluate_container(pod, json_array_get(all, i), v))
                return true;
    }
    return false;
}

/* The URL of mount i as the user wrote it: a pod knows claims by the directory where it has them.
 */
static const char *mount_url(const struct dataset *d, const json_t *mount, size_t i)
{
    return d && i < d->nmounts ? d->mounts[i].mount_point : jget_str(mount, REPORT_MOUNT_POINT, "");
}

/* Evaluates what the pod reports of itself: its store first. */
static bool evaluate_report(
    const json_t *report, const struct dataset *d, struct cache_pod_health *v)
{
    const json_t *mounts = jget_arr(report, REPORT_MOUNTS);
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        const json_t *m = json_array_get(mounts, i);
        const char *reason = jget_str(m, REPORT_REASON, ""),
                   *message = jget_str(m, REPORT_MESSAGE, ""), *url = mount_url(d, m, i);
        if (jget_bool(m, REPORT_READY, true) || !*reason)
            continue;
        cleanup_free char *bare = xstrndup(
            url, strlen(url) - (*url && url[strlen(url) - 1] == '/'));
        bool named = strstr(message, bare) != NULL;
        set_problem(
            v, reason, "%s%s%s", named ? "" : url, named ? "" : ": ", *message ? message : reason);
        v->store_problem = true;
        return true;
    }
    const char *reason = jget_str(report, REPORT_REASON, ""),
               *message = jget_str(report, REPORT_MESSAGE, "");
    if (!*reason || jget_bool(report, REPORT_READY, false) || strcmp(reason, "Starting") == 0
        || strcmp(reason, "Draining") == 0)
        return false;
    set_problem(v, reason, "%s", *message ? message : reason);
    /* CacheDiskFull, CacheError: this pod's own */
    v->store_problem = strncmp(reason, "Cache", 5) != 0;
    return true;
}

static void evaluate_starting(
    const json_t *pod, const json_t *report, int64_t now_ns, struct cache_pod_health *v)
{
    int64_t since = now_ns;
    clock_parse_rfc3339(
        jget_str(pod, "status.startTime", jget_str(pod, "metadata.creationTimestamp", "")), &since);
    bool slow = now_ns - since >= CACHE_POD_SLOW_NS;
    const char *unreachable = jget_str(report, REPORT_UNREACHABLE, NULL);
    v->state = CACHE_POD_STARTING;
    snprintf(v->message, sizeof v->message, "pod %s is starting", kube_name(pod));
    if (!slow)
        return;
    v->slow = true;
    if (!jget(cache_pod_container(pod), "state.running"))
        set_problem(v, "PodNotStarted",
            "pod %s on node %s has not started yet: `kubectl -n %s describe pod %s` says why (does the node plugin run on that node, as csi.nodeSelector and csi.tolerations of the chart allow?)",
            kube_name(pod), *v->node ? v->node : "(none yet)", kube_namespace(pod), kube_name(pod));
    else
        set_problem(v, "PodNotReady",
            "pod %s on node %s runs but is not ready%s%s: see `kubectl -n %s logs %s`",
            kube_name(pod), v->node, unreachable ? ": " : "", unreachable ? unreachable : "",
            kube_namespace(pod), kube_name(pod));
}

/* A claim that is named and is not there: the scheduler says so among its reasons. */
static bool is_claim_missing(const char *message, const char *claim)
{
    cleanup_free char *words = xasprintf("persistentvolumeclaim \"%s\" not found", claim);
    return strstr(message, words) != NULL;
}

void cache_pod_say_no_claim(const struct dataset *d, size_t mount, char *out, size_t size)
{
    const struct dataset_mount *m = &d->mounts[mount];
    snprintf(out, size,
        "%s: there is no PersistentVolumeClaim %s in namespace %s: create it, or correct spec.mounts[%zu].mountPoint",
        m->mount_point, m->claim, d->ns, mount);
}

/* Which fields of the Dataset the scheduler's words are about: ", see
 * spec.cache.worker.tolerations" A client's own place is where its readers are. */
static const char *say_fields(const json_t *pod, const char *message, char out[192])
{
    static const struct {
        const char *words, *field;
        bool of_client;
    } about[] = {
        {"node affinity/selector", "nodeAffinity (and csi.nodeSelector of the chart)", false},
        {"untolerated taint", "tolerations", false}, {"Insufficient ", "resources", true}};
    const char *component = kube_label(pod, LABEL_COMPONENT);
    size_t len = 0;
    *out = '\0';
    for (size_t i = 0; i < ARRAY_LEN(about); i++)
        if (strstr(message, about[i].words)
            && (about[i].of_client || strcmp(component, COMPONENT_CLIENT) != 0)) {
            snprintf(out + len, 192 - len, "%s%s.%s", len ? ", " : ", see spec.cache.",
                len ? "" : component, about[i].field);
            len = strlen(out);
        }
    return out;
}

static void evaluate_unscheduled(
    const json_t *pod, const struct dataset *d, struct cache_pod_health *v)
{
    const char *message = jget_str(
        pod_condition(pod, "PodScheduled"), "message", "no reason was given");
    for (size_t i = 0; d && i < d->nmounts; i++)
        if (d->mounts[i].claim && is_claim_missing(message, d->mounts[i].claim)) {
            set_problem(v, "ClaimMissing", "%s", "");
            cache_pod_say_no_claim(d, i, v->message, sizeof v->message);
            v->store_problem = true;
            return;
        }
    v->full = strstr(message, "Insufficient cpu") || strstr(message, "Insufficient memory")
        || strstr(message, "Insufficient ephemeral-storage");
    char fields[192];
    set_problem(v, "PodUnschedulable", "pod %s cannot be scheduled%s: %s", kube_name(pod),
        say_fields(pod, message, fields), message);
}

/* What kubelet does not admit to its node, one that is short of disk, say, it fails at once;
 * nothing else would slow down the next. */
static void evaluate_finished(const json_t *pod, int64_t now_ns, struct cache_pod_health *v)
{
    char line[256];
    const char *reason = jget_str(pod, "status.reason", ""),
               *message = cache_pod_last_line(
                   jget_str(pod, "status.message", ""), line, sizeof line);
    int64_t made = 0;
    clock_parse_rfc3339(jget_str(pod, "metadata.creationTimestamp", ""), &made);
    int64_t rest = made + CACHE_POD_REST_NS - now_ns;
    if (strcmp(jget_str(pod, "status.phase", ""), "Failed") == 0 && rest > 0
        && rest <= CACHE_POD_REST_NS) {
        set_problem(v, "PodFailed", "pod %s was ended on node %s as soon as it was made%s%s%s%s",
            kube_name(pod), v->node, *reason ? ": " : "", reason, *message ? ": " : "", message);
        v->rest_ns = rest;
    }
    v->state = CACHE_POD_FINISHED;
}

/* Ours have no finalizers: one that another has put there keeps the pod, and its name, when
 * its node has ended it. */
static void evaluate_leaving(const json_t *pod, int64_t now_ns, struct cache_pod_health *v)
{
    const json_t *finalizers = jget_arr(pod, "metadata.finalizers");
    const char *first = json_string_value(json_array_get(finalizers, 0));
    int64_t until = 0;
    v->state = CACHE_POD_LEAVING;
    if (!first || clock_parse_rfc3339(jget_str(pod, "metadata.deletionTimestamp", ""), &until))
        return;
    v->held_ns = MAX(until + POD_OVERDUE_NS - now_ns, 1);
    if (v->held_ns > 1)
        return;
    set_problem(v, "PodHeld",
        "pod %s has ended, but finalizer %s, which is not Millrace's, keeps it and its name: whoever set it has to take it away, or `kubectl -n %s patch pod %s --type=merge -p '{\"metadata\":{\"finalizers\":null}}'`",
        kube_name(pod), first, kube_namespace(pod), kube_name(pod));
    v->state = CACHE_POD_LEAVING;
}

void cache_pod_evaluate(const struct cache_pod *m, const struct dataset *d, int64_t now_ns,
    struct cache_pod_health *out)
{
    const json_t *pod = m->pod;
    const char *phase = jget_str(pod, "status.phase", "");
    *out = (struct cache_pod_health){.node = jget_str(pod, "spec.nodeName", "")};
    if (kube_deleting(pod)) {
        evaluate_leaving(pod, now_ns, out);
    } else if (strcmp(phase, "Failed") == 0 || strcmp(phase, "Succeeded") == 0) {
        evaluate_finished(pod, now_ns, out);
    } else if (pod_condition_is(pod, "Ready", "True")) {
        out->state = CACHE_POD_READY;
    } else if (pod_condition_is(pod, "PodScheduled", "False")) {
        evaluate_unscheduled(pod, d, out);
    } else if (!evaluate_containers(pod, out) && !evaluate_report(m->report, d, out)) {
        evaluate_starting(pod, m->report, now_ns, out);
    }
}

void cache_pod_add_count(const json_t *report, const char *path, int64_t *sum)
{
    int64_t n = jget_int(report, path, 0);
    if (n > 0 && __builtin_add_overflow(*sum, n, sum))
        *sum = INT64_MAX;
}

int64_t cache_pod_holds(const struct cache_pod *m)
{
    int64_t bytes = 0;
    if (!kube_deleting(m->pod) || !cache_pod_is(m->pod, COMPONENT_WORKER))
        cache_pod_add_count(m->report, REPORT_CACHE_USED, &bytes);
    return bytes;
}

bool cache_pod_disk_full(const struct cache_pod *m, const char **message)
{
    if (strcmp(jget_str(m->report, REPORT_REASON, ""), REASON_DISK_FULL) != 0)
        return false;
    *message = jget_str(m->report, REPORT_MESSAGE, "the cache's disk is full");
    return true;
}
