/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/api_store.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void json_free_value(void *j) { json_decref(j); }

void api_store_init(struct api_store *s)
{
    *s = (struct api_store){.objects = map_new(json_free_value), .rv = 1000, .oldest = 0};
}

void api_store_free(struct api_store *s)
{
    map_free(s->objects);
    for (size_t i = 0; i < s->nchanges; i++) {
        free(s->changes[i].collection);
        free(s->changes[i].ns);
        json_decref(s->changes[i].object);
    }
    free(s->changes);
}

json_t *api_status(int code, const char *reason, const char *message)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:i}", "kind", "Status", "apiVersion", "v1", "status",
        code < 400 ? "Success" : "Failure", "reason", reason, "message", message, "code", code);
}

/* /api/v1[/namespaces/NS]/PLURAL[/NAME[/SUB]], /apis/GROUP/VERSION/… */
int api_path_parse(const char *path, struct api_path *out)
{
    *out = (struct api_path){0};
    cleanup_free char *copy = xstrdup(path);
    char *parts[10], *rest = copy + 1;
    size_t n = 0, at;
    for (char *part; n < ARRAY_LEN(parts) && (part = strsep(&rest, "/"));)
        parts[n++] = part;
    if (n >= 3 && strcmp(parts[0], "api") == 0)
        at = 2;
    else if (n >= 4 && strcmp(parts[0], "apis") == 0)
        at = 3;
    else
        return -1;
    size_t prefix = 0;
    for (size_t i = 0; i < at; i++)
        prefix += strlen(parts[i]) + 1;
    if (n > at + 2 && strcmp(parts[at], "namespaces") == 0) {
        snprintf(out->ns, sizeof out->ns, "%s", parts[at + 1]);
        at += 2;
    }
    snprintf(out->collection, sizeof out->collection, "%.*s/%s", (int)prefix, path, parts[at]);
    if (n > at + 1)
        snprintf(out->name, sizeof out->name, "%s", parts[at + 1]);
    if (n > at + 2)
        snprintf(out->sub, sizeof out->sub, "%s", parts[at + 2]);
    return 0;
}

static char *where(const char *collection, const char *ns, const char *name)
{
    return xasprintf("%s %s/%s", collection, ns, name);
}

json_t *api_store_find(
    struct api_store *s, const char *collection, const char *ns, const char *name)
{
    cleanup_free char *key = where(collection, ns, name);
    return map_get(s->objects, key);
}

bool api_store_matches(const json_t *object, const char *labels)
{
    cleanup_free char *copy = xstrdup(labels);
    char *rest = copy;
    for (char *term; rest && *rest && (term = strsep(&rest, ","));) {
        char *eq = strchr(term, '=');
        if (*term == '!') {
            if (*kube_label(object, term + 1))
                return false;
            continue;
        }
        if (eq)
            *eq++ = '\0';
        if (eq ? strcmp(kube_label(object, term), eq) != 0 : !*kube_label(object, term))
            return false;
    }
    return true;
}

/* Stamps a new version and writes the change down. object is stored (reference taken); the log
 * keeps its own copy. */
static void commit(struct api_store *s, const char *collection, const char *type, json_t *object)
{
    char rv[24];
    snprintf(rv, sizeof rv, "%" PRIu64, ++s->rv);
    json_object_set_new(json_object_get(object, "metadata"), "resourceVersion", json_string(rv));
    if (s->nchanges == s->cap)
        s->changes = xrealloc(s->changes, (s->cap = s->cap ? s->cap * 2 : 64) * sizeof *s->changes);
    s->changes[s->nchanges++] = (struct change){
        s->rv, xstrdup(collection), xstrdup(kube_namespace(object)), type, json_deep_copy(object)};
    cleanup_free char *key = where(collection, kube_namespace(object), kube_name(object));
    if (strcmp(type, "DELETED") == 0)
        map_del(s->objects, key);
    else if (map_get(s->objects, key) != object)
        map_put(s->objects, key, json_incref(object));
}

static int refuse(int code, const char *reason, const char *what, const char *name, json_t **out)
{
    cleanup_free char *message = xasprintf("\"%s\": %s", name, what);
    *out = api_status(code, reason, message);
    return code;
}

int api_store_create(
    struct api_store *s, const struct api_path *p, json_t *object_take, json_t **out)
{
    json_t *metadata = json_object_get(object_take, "metadata");
    const char *name = kube_name(object_take);
    if (!*name || api_store_find(s, p->collection, p->ns, name)) {
        int code = *name ? refuse(409, "AlreadyExists", "already exists", name, out)
                         : refuse(422, "Invalid", "name is required", name, out);
        json_decref(object_take);
        return code;
    }
    if (*p->ns)
        json_object_set_new(metadata, "namespace", json_string(p->ns));
    if (!*kube_uid(object_take)) {
        char uid[64];
        snprintf(uid, sizeof uid, "00000000-0000-4000-8000-%012" PRIx64, ++s->uids);
        json_object_set_new(metadata, "uid", json_string(uid));
    }
    json_object_set_new(metadata, "creationTimestamp", json_string("2026-01-01T00:00:00Z"));
    commit(s, p->collection, "ADDED", object_take);
    *out = json_deep_copy(object_take);
    json_decref(object_take);
    return 201;
}

/* After a change: an object that is being deleted and has no finalizer left is gone. */
static void modified(struct api_store *s, const char *collection, json_t *object)
{
    bool last = kube_deleting(object) && !jget_len(object, "metadata.finalizers");
    json_incref(object);
    commit(s, collection, last ? "DELETED" : "MODIFIED", object);
    json_decref(object);
}

static int check_locks(const json_t *have, const json_t *given, const char *name, json_t **out)
{
    const char *uid = kube_uid(given), *rv = jget_str(given, "metadata.resourceVersion", "");
    if (*uid && strcmp(uid, kube_uid(have)) != 0)
        return refuse(
            409, "Conflict", "Precondition failed: UID in precondition differs", name, out);
    if (*rv && strcmp(rv, jget_str(have, "metadata.resourceVersion", "")) != 0)
        return refuse(409, "Conflict",
            "the object has been modified; please apply your changes to the latest version", name,
            out);
    return 0;
}

int api_store_update(
    struct api_store *s, const struct api_path *p, json_t *object_take, json_t **out)
{
    json_t *have = api_store_find(s, p->collection, p->ns, p->name);
    int code = have ? check_locks(have, object_take, p->name, out)
                    : refuse(404, "NotFound", "not found", p->name, out);
    if (code == 0) {
        commit(s, p->collection, "MODIFIED", object_take);
        *out = json_deep_copy(object_take);
        code = 200;
    }
    json_decref(object_take);
    return code;
}

static void merge(json_t *into, const json_t *patch)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)patch, key, value) {
        json_t *have = json_object_get(into, key);
        if (json_is_null(value)) {
            json_object_del(into, key);
        } else if (json_is_object(value)) {
            if (!json_is_object(have)) {
                have = json_object();
                json_object_set_new(into, key, have);
            }
            merge(have, value);
        } else {
            json_object_set_new(into, key, json_deep_copy(value));
        }
    }
}

int api_store_patch(
    struct api_store *s, const struct api_path *p, const json_t *patch, bool apply, json_t **out)
{
    json_t *have = api_store_find(s, p->collection, p->ns, p->name);
    if (!have && apply && !*p->sub)
        return api_store_create(s, p, json_deep_copy(patch), out);
    if (!have)
        return refuse(404, "NotFound", "not found", p->name, out);
    int code = check_locks(have, patch, p->name, out);
    if (code)
        return code;
    json_t *next = json_deep_copy(have), *part = json_deep_copy(patch);
    json_object_del(json_object_get(part, "metadata"), "resourceVersion");
    if (*p->sub) { /* of a subresource only that part counts */
        json_t *only = json_object();
        json_object_set(only, p->sub, json_object_get(part, p->sub));
        json_decref(part);
        part = only;
    }
    merge(next, part);
    json_decref(part);
    if (!json_equal(next, have))
        modified(s, p->collection, next);
    *out = json_deep_copy(next);
    json_decref(next);
    return 200;
}

int api_store_delete(
    struct api_store *s, const struct api_path *p, const json_t *options, json_t **out)
{
    json_t *have = api_store_find(s, p->collection, p->ns, p->name);
    if (!have)
        return refuse(404, "NotFound", "not found", p->name, out);
    const char *uid = jget_str(options, "preconditions.uid", "");
    if (*uid && strcmp(uid, kube_uid(have)) != 0)
        return refuse(
            409, "Conflict", "Precondition failed: UID in precondition differs", p->name, out);
    json_t *next = json_deep_copy(have);
    if (!jget_len(have, "metadata.finalizers")) {
        commit(s, p->collection, "DELETED", next);
        *out = api_status(200, "", "");
    } else {
        if (!kube_deleting(next)) {
            json_object_set_new(json_object_get(next, "metadata"), "deletionTimestamp",
                json_string("2026-01-01T00:00:01Z"));
            commit(s, p->collection, "MODIFIED", next);
        }
        *out = json_deep_copy(next);
    }
    json_decref(next);
    return 200;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int api_store_list(struct api_store *s, const struct api_path *p, const char *labels, size_t limit,
    const char *token, json_t **out)
{
    size_t skip = 0;
    uint64_t rv = s->rv;
    if (*token && sscanf(token, "%zu.%" SCNu64, &skip, &rv) == 2 && rv < s->oldest) {
        *out = api_status(410, "Expired", "The provided continue parameter is too old");
        return 410;
    }
    cleanup_free char *prefix = xasprintf("%s %s%s", p->collection, p->ns, *p->ns ? "/" : "");
    cleanup_free const char **keys = xcalloc(map_len(s->objects) + 1, sizeof *keys);
    size_t n = 0;
    const char *key;
    void *value;
    for (size_t i = 0; map_next(s->objects, &i, &key, &value);)
        if (strncmp(key, prefix, strlen(prefix)) == 0 && api_store_matches(value, labels))
            keys[n++] = key;
    qsort(keys, n, sizeof *keys, by_key);
    json_t *items = json_array();
    size_t end = limit && skip + limit < n ? skip + limit : n;
    for (size_t i = skip; i < end; i++) {
        json_t *item = json_deep_copy(map_get(s->objects, keys[i]));
        json_object_del(item, "kind"); /* as the real one does */
        json_object_del(item, "apiVersion");
        json_array_append_new(items, item);
    }
    cleanup_free char *version = xasprintf("%" PRIu64, rv);
    cleanup_free char *next = end < n ? xasprintf("%zu.%" PRIu64, end, rv) : xstrdup("");
    *out = json_pack("{s:s,s:s,s:{s:s,s:s},s:o}", "kind", "List", "apiVersion", "v1", "metadata",
        "resourceVersion", version, "continue", next, "items", items);
    return 200;
}

void api_store_put(struct api_store *s, const char *collection, json_t *object_take)
{
    struct api_path p = {0};
    json_t *answer = NULL;
    snprintf(p.collection, sizeof p.collection, "%s", collection);
    snprintf(p.ns, sizeof p.ns, "%s", kube_namespace(object_take));
    snprintf(p.name, sizeof p.name, "%s", kube_name(object_take));
    json_t *have = api_store_find(s, collection, p.ns, p.name);
    if (!have) {
        api_store_create(s, &p, object_take, &answer);
        json_decref(answer);
        return;
    }
    json_object_set_new(
        json_object_get(object_take, "metadata"), "uid", json_string(kube_uid(have)));
    commit(s, collection, "MODIFIED", object_take);
    json_decref(object_take);
}

void api_store_remove(struct api_store *s, const char *collection, const char *ns, const char *name)
{
    json_t *have = api_store_find(s, collection, ns, name);
    if (!have)
        return;
    json_t *last = json_deep_copy(have);
    commit(s, collection, "DELETED", last);
    json_decref(last);
}
