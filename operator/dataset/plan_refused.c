/* SPDX-License-Identifier: Apache-2.0 */
/* A pod that stays as it was made, since the API server refuses its successor: in words. */
#include "operator/dataset/observed.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"

#include <stdio.h>
#include <string.h>

/* The field of spec.cache.COMPONENT that the server's words are about; NULL: they do not say. */
static const char *field_of(const char *words)
{
    static const char *const fields[][2] = {{"PriorityClass", "priorityClassName"},
        {"priorityClassName", "priorityClassName"}, {"metadata.labels", "labels"},
        {"metadata.annotations", "annotations"}, {"tolerations", "tolerations"},
        {"ffinity", "nodeAffinity"}, {"resources", "resources"}, {"exceeded quota", "resources"},
        {"per Container", "resources"}, {"per Pod", "resources"}};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (strstr(words, fields[i][0]))
            return fields[i][1];
    return NULL;
}

void dataset_say_refused(
    const json_t *cr, const json_t *pod, const char *words, char *out, size_t size)
{
    const char *component = kube_label(pod, LABEL_COMPONENT), *field = field_of(words);
    cleanup_free char *path = xasprintf(
        "spec.cache.%s%s%s", component, field ? "." : "", field ? field : "");
    bool own = jget(cr, path) != NULL;
    snprintf(out, size,
        "pod %s runs on as it was made, since its successor is refused: %.300s: correct %s%s%s",
        kube_name(pod), words, own ? path : "the chart's value defaults",
        own ? "" : strchr(path, '.'), own ? "" : ", or what the message names");
}
