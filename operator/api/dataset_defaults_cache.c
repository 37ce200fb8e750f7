/* SPDX-License-Identifier: Apache-2.0 */
/* defaults.cache: what the rules of the Dataset's CRD check in a Dataset, which nobody checks in
 * what is filled into it. */
#include "operator/api/dataset_priv.h"

#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"

#include <stdlib.h>
#include <string.h>

#define LOWER  "abcdefghijklmnopqrstuvwxyz0123456789"
#define LETTER "ABCDEFGHIJKLMNOPQRSTUVWXYZ" LOWER

typedef int (*check_one)(const json_t *j, const char *where, struct err *e);

static int check_known(const json_t *o, const char *where, const char *const *known, struct err *e)
{
    const char *key;
    json_t *value;
    if (!json_is_object(o))
        return err_set(e, ERR_INVALID, "%s must be an object", where);
    json_object_foreach ((json_t *)o, key, value)
        if (!dataset_word_in(key, known))
            return err_set(e, ERR_INVALID, "%s.%s: there is no such field", where, key);
    return 0;
}

/* Of the list below key, if it is there. */
static int check_each(
    const json_t *o, const char *where, const char *key, check_one check, struct err *e)
{
    const json_t *list = json_object_get(o, key);
    if (list && !json_is_null(list) && !json_is_array(list))
        return err_set(e, ERR_INVALID, "%s.%s must be a list", where, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        cleanup_free char *at = xasprintf("%s.%s[%zu]", where, key, i);
        if (check(json_array_get(list, i), at, e))
            return -1;
    }
    return 0;
}

static bool is_made_of(const char *s, const char *ends, const char *others, size_t max)
{
    cleanup_free char *all = xasprintf("%s%s", ends, others);
    size_t n = strlen(s);
    return n && n <= max && strspn(s, all) == n && strspn(s, ends) && strchr(ends, s[n - 1]);
}

static bool is_label_key(const char *s)
{
    const char *slash = strchr(s, '/');
    cleanup_free char *prefix = slash ? xstrndup(s, (size_t)(slash - s)) : xstrdup("a");
    return is_made_of(prefix, LOWER, "-.", 253)
        && is_made_of(slash ? slash + 1 : s, LETTER, "-_.", 63);
}

static bool is_label_value(const char *s) { return !*s || is_made_of(s, LETTER, "-_.", 63); }

static int check_label_map(
    const json_t *component, const char *where, const char *what, bool labels, struct err *e)
{
    const json_t *map = json_object_get(component, what);
    const char *key;
    json_t *value;
    if (map && !json_is_object(map))
        return err_set(e, ERR_INVALID, "%s.%s must be an object", where, what);
    json_object_foreach ((json_t *)map, key, value)
        if (!is_label_key(key) || (labels && !is_label_value(json_string_value(value))))
            return err_set(e, ERR_INVALID,
                "%s.%s.%s: \"%s\": a key, and the value of a label, holds at most 63 letters, digits, '-', '_' and '.'",
                where, what, key, json_string_value(value));
    return 0;
}

/* As written, or as a number; one that cannot be read was refused before. */
static int64_t milli_of(const json_t *q)
{
    int64_t n = 0;
    if (json_is_integer(q))
        return 1000 * json_integer_value(q);
    quantity_parse_milli(json_is_string(q) ? json_string_value(q) : "0", &n);
    return n;
}

static int check_default_resources(const json_t *res, const char *where, struct err *e)
{
    static const char *const fields[] = {"requests", "limits", NULL},
                             *const kinds[] = {"cpu", "memory", NULL};
    if (!res)
        return 0;
    if (check_known(res, where, fields, e))
        return -1;
    for (size_t i = 0; fields[i]; i++) {
        const json_t *of = json_object_get(res, fields[i]);
        cleanup_free char *at = xasprintf("%s.%s", where, fields[i]);
        if (of && check_known(of, at, kinds, e))
            return -1;
    }
    for (size_t i = 0; kinds[i]; i++) {
        const json_t *asks = json_object_get(json_object_get(res, "requests"), kinds[i]),
                     *may = json_object_get(json_object_get(res, "limits"), kinds[i]);
        if (asks && may && milli_of(asks) > milli_of(may))
            return err_set(e, ERR_INVALID,
                "%s: requests.%s is more than limits.%s: lower the one or raise the other", where,
                kinds[i], kinds[i]);
    }
    return 0;
}

static bool is_whole_number(const char *s)
{
    s += *s == '-';
    size_t n = strspn(s, "0123456789");
    return n && n < 19 && !s[n];
}

static int check_requirement(const json_t *r, const char *where, struct err *e)
{
    static const char *const fields[] = {"key", "operator", "values", NULL},
                             *const some[] = {"In", "NotIn", NULL},
                             *const one[] = {"Gt", "Lt", NULL},
                             *const none[] = {"Exists", "DoesNotExist", NULL};
    if (check_known(r, where, fields, e))
        return -1;
    const char *operator= jget_str(r, "operator", "");
    size_t n = jget_len(r, "values");
    if (!is_label_key(jget_str(r, "key", "")))
        return err_set(e, ERR_INVALID,
            "%s.key must be the name of a label, like topology.kubernetes.io/zone", where);
    if (dataset_word_in(operator, some)      ? n == 0
            : dataset_word_in(operator, one) ? n != 1
                                             : n != 0 || !dataset_word_in(operator, none))
        return err_set(e, ERR_INVALID,
            "%s: operator must be In or NotIn with values, Gt or Lt with one number, Exists or DoesNotExist without",
            where);
    for (size_t i = 0; i < n; i++) {
        const char *v = json_string_value(json_array_get(jget_arr(r, "values"), i));
        bool number = dataset_word_in(operator, one);
        if (!v || !(number ? is_whole_number(v) : is_label_value(v)))
            return err_set(e, ERR_INVALID, "%s.values[%zu] must be %s", where, i,
                number ? "a whole number" : "the value of a label");
    }
    return 0;
}

/* Nodes can be chosen by one field, their name. */
static int check_field_requirement(const json_t *r, const char *where, struct err *e)
{
    static const char *const operators[] = {"In", "NotIn", NULL};
    if (strcmp(jget_str(r, "key", ""), "metadata.name") == 0
        && dataset_word_in(jget_str(r, "operator", ""), operators) && jget_len(r, "values") == 1)
        return 0;
    return err_set(e, ERR_INVALID,
        "%s: key must be metadata.name, operator In or NotIn, values the name of one node", where);
}

static int check_term(const json_t *t, const char *where, struct err *e)
{
    static const char *const fields[] = {"matchExpressions", "matchFields", NULL};
    if (check_known(t, where, fields, e))
        return -1;
    if (!jget_len(t, "matchExpressions") && !jget_len(t, "matchFields"))
        return err_set(e, ERR_INVALID, "%s is empty: it fits no node", where);
    return check_each(t, where, "matchExpressions", check_requirement, e)
            || check_each(t, where, "matchFields", check_field_requirement, e)
        ? -1
        : 0;
}

static int check_affinity(const json_t *affinity, const char *where, struct err *e)
{
    static const char *const fields[] = {"required", NULL},
                             *const terms[] = {"nodeSelectorTerms", NULL};
    if (!affinity)
        return 0;
    cleanup_free char *at = xasprintf("%s.required", where);
    const json_t *required = json_object_get(affinity, "required");
    if (check_known(affinity, where, fields, e) || check_known(required, at, terms, e))
        return -1;
    if (!jget_len(required, "nodeSelectorTerms"))
        return err_set(e, ERR_INVALID, "%s.nodeSelectorTerms needs at least one term", at);
    return check_each(required, at, "nodeSelectorTerms", check_term, e);
}

static int check_toleration(const json_t *t, const char *where, struct err *e)
{
    static const char *const fields[] = {"key", "operator", "value", "effect", "tolerationSeconds",
        NULL},
                             *const operators[] = {"Exists", "Equal", NULL},
                             *const effects[] = {
                                 "", "NoSchedule", "PreferNoSchedule", "NoExecute", NULL};
    if (check_known(t, where, fields, e))
        return -1;
    const char *key = jget_str(t, "key", ""), *operator= jget_str(t, "operator", "Equal"),
               *value = jget_str(t, "value", ""), *effect = jget_str(t, "effect", "");
    if (!dataset_word_in(operator, operators) || !dataset_word_in(effect, effects))
        return err_set(e, ERR_INVALID,
            "%s: operator must be Exists or Equal, effect NoSchedule, PreferNoSchedule or NoExecute",
            where);
    if (strcmp(operator, "Exists") == 0 && *value)
        return err_set(e, ERR_INVALID, "%s: operator Exists takes no value", where);
    if (!*key && strcmp(operator, "Exists") != 0)
        return err_set(e, ERR_INVALID, "%s: without a key, operator: Exists is needed", where);
    if ((*key && !is_label_key(key)) || !is_label_value(value))
        return err_set(e, ERR_INVALID, "%s: key and value must be those of a taint", where);
    if (jget(t, "tolerationSeconds") && strcmp(effect, "NoExecute") != 0)
        return err_set(e, ERR_INVALID, "%s: tolerationSeconds needs effect: NoExecute", where);
    return 0;
}

static int check_component(
    const json_t *cache, const char *name, const char *const *fields, struct err *e)
{
    const json_t *c = json_object_get(cache, name);
    cleanup_free char *where = xasprintf("defaults.cache.%s", name),
                      *res = xasprintf("%s.resources", where),
                      *affinity = xasprintf("%s.nodeAffinity", where);
    const char *class = jget_str(c, "priorityClassName", "");
    if (!c)
        return 0;
    if (check_known(c, where, fields, e)
        || check_default_resources(json_object_get(c, "resources"), res, e)
        || check_affinity(json_object_get(c, "nodeAffinity"), affinity, e)
        || check_each(c, where, "tolerations", check_toleration, e)
        || check_label_map(c, where, "labels", true, e)
        || check_label_map(c, where, "annotations", false, e))
        return -1;
    if (*class && !is_made_of(class, LOWER, "-.", 253))
        return err_set(e, ERR_INVALID, "%s.priorityClassName: \"%s\" is no name of a PriorityClass",
            where, class);
    return 0;
}

int dataset_check_default_cache(const json_t *cache, struct err *e)
{
    static const char *const fields[] = {"replicas", "placement", "exclusive", "tiers",
        "metadataSyncSeconds", "worker", "client", "loader", NULL};
    static const char *const worker[] = {"tiers", "resources", "nodeAffinity", "tolerations",
        "priorityClassName", "labels", "annotations", NULL};
    static const char *const client[] = {
        "tiers", "resources", "priorityClassName", "labels", "annotations", NULL};
    if (!cache)
        return 0;
    const json_t *exclusive = json_object_get(cache, "exclusive");
    if (exclusive && !json_is_boolean(exclusive))
        return err_set(e, ERR_INVALID, "defaults.cache.exclusive must be true or false");
    return check_known(cache, "defaults.cache", fields, e)
            || check_component(cache, "worker", worker, e)
            || check_component(cache, "client", client, e)
            || check_component(cache, "loader", worker + 1, e)
        ? -1
        : 0;
}
