/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules share: saying, and finding among the facts. */
#include "fuse/cli/why.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void why_free(struct why *w)
{
    free(w->sentence);
    free(w->next);
    *w = (struct why){0};
}

bool why_say(const struct why_facts *f, struct why *w, enum why_rank rank, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cleanup_free char *text = xvasprintf(fmt, ap);
    va_end(ap);
    cleanup_free char *line = one_line(text);
    w->rank = rank;
    w->sentence = xasprintf("pod %s %s", kube_name(f->pod), line);
    return true;
}

bool why_next(struct why *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    free(w->next);
    w->next = xvasprintf(fmt, ap);
    va_end(ap);
    return true;
}

bool why_describe(const struct why_facts *f, struct why *w)
{
    return why_next(w, "kubectl -n %s describe pod %s", f->ns, kube_name(f->pod));
}

bool why_status(const struct why_facts *f, struct why *w, const char *dataset)
{
    return why_next(w, "%s status %s -n %s", f->command, dataset, f->ns);
}

const char *our_component(const json_t *pod)
{
    static const char *const all[] = {COMPONENT_WORKER, COMPONENT_CLIENT, COMPONENT_LOADER};
    const char *component = kube_label(pod, LABEL_COMPONENT);
    for (size_t i = 0; i < ARRAY_LEN(all) && *kube_label(pod, LABEL_DATASET); i++)
        if (strcmp(component, all[i]) == 0)
            return component;
    return "";
}

const char *scheduler_message(const json_t *pod)
{
    const json_t *c;
    size_t i;
    json_array_foreach (jget_arr(pod, "status.conditions"), i, c)
        if (strcmp(jget_str(c, "type", ""), "PodScheduled") == 0)
            return jget_str(c, "message", "");
    return "";
}

char *one_line(const char *text)
{
    char *out = xstrdup(text);
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        bool space = strchr(" \t\r\n", *p) != NULL;
        if (!space || (n && out[n - 1] != ' '))
            out[n++] = (char)(space ? ' ' : *p);
    }
    while (n && strchr(" .", out[n - 1]))
        n--;
    out[n] = '\0';
    return out;
}

static const char *event_time(const json_t *event)
{
    const char *last = jget_str(event, "series.lastObservedTime", "");
    if (!*last)
        last = jget_str(event, "lastTimestamp", "");
    return *last ? last : jget_str(event, "eventTime", "");
}

static bool in_reasons(const char *reason, const char *const *reasons)
{
    for (; reasons && *reasons; reasons++)
        if (strcmp(reason, *reasons) == 0)
            return true;
    return false;
}

const json_t *newest_event(const struct why_facts *f, const char *type, const char *const *reasons)
{
    const json_t *e, *newest = NULL;
    size_t i;
    json_array_foreach (f->events, i, e) {
        const char *uid = jget_str(e, "involvedObject.uid", "");
        if (strcmp(jget_str(e, "involvedObject.name", ""), kube_name(f->pod)) != 0
            || (*uid && strcmp(uid, kube_uid(f->pod)) != 0) /* of a pod of that name before */
            || (*type && strcmp(jget_str(e, "type", ""), type) != 0)
            || (reasons && !in_reasons(jget_str(e, "reason", ""), reasons)))
            continue;
        if (!newest || strcmp(event_time(e), event_time(newest)) >= 0)
            newest = e;
    }
    return newest;
}

bool pod_started(const struct why_facts *f)
{
    return strcmp(jget_str(f->pod, "status.phase", "Pending"), "Pending") != 0;
}

const char *pod_claim(const struct why_facts *f, size_t i)
{
    const json_t *volume;
    size_t k;
    json_array_foreach (jget_arr(f->pod, "spec.volumes"), k, volume) {
        const char *claim = jget_str(volume, "persistentVolumeClaim.claimName", NULL);
        if (claim && i-- == 0)
            return claim;
    }
    return NULL;
}

const json_t *claim_dataset(const struct why_facts *f, const char *claim)
{
    const json_t *dataset = named(f->datasets, claim), *pvc = named(f->claims, claim);
    bool ours = !pvc || !kube_controller_of(pvc) || kube_controlled_by(pvc, kube_uid(dataset));
    return dataset && ours ? dataset : NULL;
}
