/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes a pod asks for, in its own words: the scheduler says only that none is like that. */
#include "fuse/cli/why.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"

#include <string.h>

#define WORDS_MAX 1024

struct asked_nodes {
    struct buf words; /* "disk=nvme (nodeSelector); zone In [a, b] (nodeAffinity)" */
    struct buf keys;  /* "disk,zone", for kubectl get nodes -L */
    const char *between;
};

static void add_word(struct asked_nodes *a, const char *word)
{
    buf_addf(&a->words, "%s%s", a->between, word);
    a->between = ", ";
}

static void add_key(struct asked_nodes *a, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = buf_str(&a->keys); *p; p += strspn(p, ",")) {
        size_t len = strcspn(p, ",");
        if (len == n && strncmp(p, key, n) == 0)
            return;
        p += len;
    }
    buf_addf(&a->keys, "%s%s", a->keys.len ? "," : "", key);
}

static void add_selector(struct asked_nodes *a, const json_t *pod)
{
    const char *key;
    json_t *value, *selector = (json_t *)jget_obj(pod, "spec.nodeSelector");
    json_object_foreach (selector, key, value) {
        cleanup_free char *word = xasprintf("%s=%s", key, json_string_value(value));
        add_word(a, word);
        add_key(a, key);
    }
    if (json_object_size(selector))
        buf_adds(&a->words, " (spec.nodeSelector)");
}

static void add_expression(struct asked_nodes *a, const json_t *expression)
{
    cleanup_buf struct buf values = BUF_INIT(WORDS_MAX);
    const char *key = jget_str(expression, "key", "");
    const json_t *value;
    size_t i;
    json_array_foreach (jget_arr(expression, "values"), i, value)
        buf_addf(&values, "%s%s", i ? ", " : " [", json_string_value(value));
    cleanup_free char *word = xasprintf("%s %s%s%s", key, jget_str(expression, "operator", ""),
        buf_str(&values), values.len ? "]" : "");
    add_word(a, word);
    add_key(a, key);
}

static void add_affinity(struct asked_nodes *a, const json_t *pod)
{
    const json_t *expression,
        *terms = jget_arr(pod,
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
            "nodeSelectorTerms"),
        *term;
    size_t i, k;
    bool any = false;
    a->between = a->words.len ? "; " : "";
    json_array_foreach (terms, i, term) {
        a->between = any ? " or " : a->between;
        json_array_foreach (jget_arr(term, "matchExpressions"), k, expression) {
            add_expression(a, expression);
            any = true;
        }
    }
    if (any)
        buf_adds(&a->words, " (spec.affinity.nodeAffinity)");
}

bool why_no_such_node(const struct why_facts *f, const char *message, struct why *w)
{
    struct asked_nodes a = {BUF_INIT(WORDS_MAX), BUF_INIT(WORDS_MAX), ""};
    bool said = false;
    if (strstr(message, "didn't match Pod's node affinity/selector")) {
        add_selector(&a, f->pod);
        add_affinity(&a, f->pod);
    }
    if (a.words.len) {
        why_say(f, w, WHY_WAITS,
            "waits for a node, not for data: %s; the pod asks for nodes with %s", message,
            buf_str(&a.words));
        said = why_next(w, "kubectl get nodes -L %s", buf_str(&a.keys));
    }
    buf_free(&a.words);
    buf_free(&a.keys);
    return said;
}
