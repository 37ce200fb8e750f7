/* SPDX-License-Identifier: Apache-2.0 */
/* The small API server. */
#include "tests/golden/golden.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t golden_now(const json_t *world)
{
    int64_t now = 0;
    const char *text = jget_str(world, "now", "");
    if (clock_parse_rfc3339(text, &now)) {
        fprintf(stderr, "\"now\" is '%s', not a time\n", text);
        abort();
    }
    return now;
}

const json_t **golden_objects(const json_t *world, const char *kind, size_t *n)
{
    const json_t *objects = jget_arr(world, "objects");
    const json_t **out = xcalloc(json_array_size(objects) + 1, sizeof *out);
    size_t i;
    json_t *o;
    *n = 0;
    json_array_foreach (objects, i, o)
        if (!strcmp(jget_str(o, "kind", ""), kind))
            out[(*n)++] = o;
    return out;
}

static bool is(const json_t *o, const char *kind, const char *ns, const char *name)
{
    return !strcmp(jget_str(o, "kind", ""), kind) && !strcmp(kube_namespace(o), ns)
        && !strcmp(kube_name(o), name);
}

static size_t find_at(const json_t *world, const char *kind, const char *ns, const char *name)
{
    size_t i;
    json_t *o;
    json_array_foreach (jget_arr(world, "objects"), i, o)
        if (is(o, kind, ns, name))
            return i;
    return SIZE_MAX;
}

json_t *golden_find(json_t *world, const char *kind, const char *ns, const char *name)
{
    return json_array_get(json_object_get(world, "objects"), find_at(world, kind, ns, name));
}

static json_t *objects_of(json_t *world)
{
    if (!json_object_get(world, "objects"))
        json_object_set_new(world, "objects", json_array());
    return json_object_get(world, "objects");
}

void golden_add(json_t *world, json_t *object_take)
{
    json_array_append_new(objects_of(world), object_take);
}

void golden_remove(json_t *world, const char *kind, const char *name)
{
    size_t i;
    json_t *o;
    json_array_foreach (objects_of(world), i, o)
        if (!strcmp(jget_str(o, "kind", ""), kind) && !strcmp(kube_name(o), name)) {
            json_array_remove(objects_of(world), i);
            return;
        }
}

static void create(json_t *world, const struct plan_action *a)
{
    char *uid = xasprintf(
        "uid-%s-%s-%zu", a->res->plural, a->name, json_array_size(objects_of(world)));
    json_t *o = json_deep_copy(a->body), *meta = json_object_get(o, "metadata");
    json_object_set_new(o, "kind", json_string(a->res->kind));
    json_object_set_new(meta, "uid", json_string(uid));
    json_object_set_new(meta, "creationTimestamp", json_string(jget_str(world, "now", "")));
    if (!strcmp(a->res->kind, "Pod"))
        json_object_set_new(o, "status", json_pack("{s:s}", "phase", "Pending"));
    json_array_append_new(objects_of(world), o);
    free(uid);
}

/* What an apply does not name stays: enough of server-side apply for documents of which we own
 * everything we name. */
static void update(json_t *object, const json_t *body)
{
    json_t *labels = json_object_get(json_object_get(body, "metadata"), "labels");
    if (labels)
        json_object_del(json_object_get(object, "metadata"), "labels");
    json_object_del(object, "spec");
    golden_merge(object, body);
}

static void drop(json_t *world, json_t *object, enum golden_delete how, int64_t grace_s)
{
    json_t *meta = json_object_get(object, "metadata");
    if (how == GOLDEN_GONE && !jget_len(object, "metadata.finalizers")) {
        json_array_remove(objects_of(world),
            find_at(
                world, jget_str(object, "kind", ""), kube_namespace(object), kube_name(object)));
        return;
    }
    char text[CLOCK_RFC3339_LEN];
    clock_rfc3339(golden_now(world) + grace_s * NS_PER_S, text);
    json_object_set_new(meta, "deletionTimestamp", json_string(text));
    json_object_set_new(meta, "deletionGracePeriodSeconds", json_integer(grace_s));
}

static void run(json_t *cr, json_t *world, const struct plan_action *a, enum golden_delete how)
{
    bool on_cr = cr && !strcmp(jget_str(cr, "kind", ""), a->res->kind)
        && !strcmp(kube_name(cr), a->name);
    json_t *o = on_cr ? cr : golden_find(world, a->res->kind, a->ns, a->name);
    switch (a->op) {
    case PLAN_CREATE:
        if (!o)
            create(world, a);
        return;
    case PLAN_APPLY:
        if (o)
            update(o, a->body);
        else
            create(world, a);
        return;
    case PLAN_DELETE:
        if (o && (!*a->uid || !strcmp(a->uid, kube_uid(o))))
            drop(world, o, on_cr ? GOLDEN_LINGER : how, a->grace_s >= 0 ? a->grace_s : 30);
        return;
    case PLAN_PATCH:
    case PLAN_STATUS:
        if (o)
            golden_merge(o, a->body);
        return;
    case PLAN_TRY:
    case PLAN_EVENT:
    case PLAN_REQUEUE:
        return;
    }
}

static bool is_write(const struct plan_action *a)
{
    return a->op != PLAN_TRY && a->op != PLAN_EVENT && a->op != PLAN_REQUEUE;
}

bool golden_has_writes(const struct plan *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (is_write(&p->actions[i]))
            return true;
    return false;
}

size_t golden_apply(
    json_t *cr, json_t *world, const struct plan *p, enum golden_delete how, size_t stop_at)
{
    size_t writes = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct plan_action *a = &p->actions[i];
        if (!is_write(a))
            continue;
        if (writes == stop_at)
            break;
        run(cr, world, a, how);
        writes++;
    }
    return writes;
}
