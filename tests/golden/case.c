/* SPDX-License-Identifier: Apache-2.0 */
/* A case as cr and world: what all kinds have in common. README.md is the language. */
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"
#include "tests/golden/golden.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

void golden_refuse(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cleanup_free char *text = xvasprintf(fmt, ap);
    va_end(ap);
    fail_msg("%s", text);
    abort(); /* cmocka does not return, but does not say so */
}

static json_t *merged(json_t *target, const json_t *patch)
{
    if (!json_is_object(patch))
        return json_deep_copy(patch);
    json_t *out = json_is_object(target) ? json_deep_copy(target) : json_object();
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)(uintptr_t)patch, key, v) {
        if (json_is_null(v))
            json_object_del(out, key);
        else
            json_object_set_new(out, key, merged(json_object_get(out, key), v));
    }
    return out;
}

void golden_merge(json_t *object, const json_t *patch)
{
    json_t *all = merged(object, patch);
    json_object_clear(object);
    json_object_update(object, all);
    json_decref(all);
}

/* ---- the object ---- */

/* One word of `was`: a status of the base's; its conditions come behind those that are there. */
static void add_was(const json_t *base, const char *word, const char *message, json_t *status)
{
    cleanup_json json_t *part = json_deep_copy(json_object_get(jget(base, "was"), word));
    if (!part)
        golden_refuse("was: the base does not know '%s'", word);
    json_t *all = json_object_get(status, "conditions"), *new = json_object_get(part, "conditions");
    if (message)
        json_object_set_new(json_array_get(new, 0), "message", json_string(message));
    json_t *conditions = all ? json_deep_copy(all) : json_array();
    json_array_extend(conditions, new);
    golden_merge(status, part);
    json_object_set_new(status, "conditions", conditions);
}

/* "Created Running", or a list in which {Failed: message} gives a condition another message. */
static void add_all_was(const json_t *base, const json_t *was, json_t *status)
{
    const char *word;
    size_t i;
    json_t *item, *message;
    cleanup_free char *words = json_is_string(was) ? xstrdup(json_string_value(was)) : NULL;
    for (char *save, *w = words ? strtok_r(words, " ", &save) : NULL; w;
         w = strtok_r(NULL, " ", &save))
        add_was(base, w, NULL, status);
    json_array_foreach (was, i, item) {
        if (json_is_string(item))
            add_was(base, json_string_value(item), NULL, status);
        json_object_foreach (item, word, message)
            add_was(base, word, json_string_value(message), status);
    }
}

json_t *golden_object(const json_t *base, const char *kind, const json_t *c)
{
    static const char *const parts[] = {"metadata", "spec", "status"};
    json_t *o = json_deep_copy(json_object_get(base, kind));
    if (!o)
        golden_refuse("the base has no %s", kind);
    if (jget(c, "was")) {
        json_t *status = json_object();
        add_all_was(base, jget(c, "was"), status);
        json_object_set_new(o, "status", status);
    }
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        cleanup_json json_t *patch = json_object();
        if (jget_obj(c, parts[i]))
            json_object_set_new(patch, parts[i], json_deep_copy(jget_obj(c, parts[i])));
        golden_merge(o, patch);
    }
    return o;
}

/* ---- the world ---- */

/* An object of `objects`: raw, or {like: NAME of the base's objects, …patch}. */
static json_t *expand_object(const json_t *base, const json_t *given)
{
    const char *like = jget_str(given, "like", NULL);
    if (!like)
        return json_deep_copy(given);
    json_t *o = json_deep_copy(json_object_get(jget(base, "objects"), like));
    if (!o)
        golden_refuse("objects: the base has no object '%s'", like);
    cleanup_json json_t *patch = json_deep_copy(given);
    json_object_del(patch, "like");
    golden_merge(o, patch);
    return o;
}

static json_t *find_any(json_t *world, const char *kind, const char *name)
{
    size_t i;
    json_t *o;
    json_array_foreach (json_object_get(world, "objects"), i, o)
        if (!strcmp(jget_str(o, "kind", ""), kind) && !strcmp(kube_name(o), name))
            return o;
    return NULL;
}

/* "Pod/j-worker-0": {…}: a patch; null: the object is not there */
static void edit(json_t *world, const char *what, const json_t *patch)
{
    cleanup_free char *kind = xstrdup(what);
    char *name = strchr(kind, '/');
    if (!name)
        golden_refuse("edit: '%s' is not Kind/name", what);
    *name++ = '\0';
    json_t *o = find_any(world, kind, name);
    if (!o)
        golden_refuse("edit: there is no %s", what);
    if (json_is_null(patch))
        golden_remove(world, kind, name);
    else
        golden_merge(o, patch);
}

static void expand_world(const json_t *base, const json_t *c, json_t *world)
{
    const char *what;
    size_t i;
    json_t *v;
    json_array_foreach (jget_arr(c, "objects"), i, v)
        golden_add(world, expand_object(base, v));
    json_object_foreach ((json_t *)(uintptr_t)jget_obj(c, "edit"), what, v)
        edit(world, what, v);
    json_object_foreach ((json_t *)(uintptr_t)jget_obj(c, "world"), what, v)
        json_object_set(world, what, v);
}

void golden_expand(const struct golden_kind *kind, const json_t *base, const json_t *c, json_t **cr,
    json_t **world)
{
    *world = json_pack("{s:s s:[]}", "now", jget_str(c, "now", GOLDEN_NOW), "objects");
    *cr = golden_object(base, kind->kind, c);
    kind->expand(base, c, *cr, *world);
    expand_world(base, c, *world);
    if (jget_bool(c, "gone", false)) {
        json_decref(*cr);
        *cr = NULL;
    }
}
