/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as text: one line an action, and what it changes indented below. Nothing of the plan is
 * left out; what follows from the world (uids, times of now, what an object looks like that others
 * of its kind look like) is said only where it does not follow. */
#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/golden/golden.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX  ((size_t)8 << 20)
#define INDENT    2
#define LONG_COLS 30 /* a field of a status that is worth a word instead */

static const json_t *object_of(const struct golden_show *s, const struct plan_action *a)
{
    if (s->cr && !strcmp(jget_str(s->cr, "kind", ""), a->res->kind)
        && !strcmp(kube_name(s->cr), a->name) && !strcmp(kube_namespace(s->cr), a->ns))
        return s->cr;
    return golden_find((json_t *)(uintptr_t)s->world, a->res->kind, a->ns, a->name);
}

/* text, every line of it indented */
static void add_indented(struct buf *b, struct buf *text, int indent)
{
    for (char *save, *line = strtok_r(buf_str(text), "\n", &save); line;
         line = strtok_r(NULL, "\n", &save))
        buf_addf(b, "%*s%s\n", indent, "", line);
}

static void add_uid(struct buf *b, const struct golden_show *s, const struct plan_action *a)
{
    const char *is = kube_uid(object_of(s, a));
    if (strcmp(a->uid, is) != 0)
        buf_addf(b, " uid=%s", *a->uid ? a->uid : "none");
}

/* ---- objects ---- */

/* The body; the hash is there or not, its value follows from the rest. */
static json_t *shown(const struct plan_action *a)
{
    json_t *o = json_deep_copy(a->body);
    json_t *annotations = json_object_get(json_object_get(o, "metadata"), "annotations");
    if (json_object_get(annotations, ANNOTATION_HASH))
        json_object_set_new(annotations, ANNOTATION_HASH, json_string("of-this"));
    return o;
}

static char *name_key(const struct plan_action *a)
{
    return xasprintf("%s/%s %s/%s", a->res->group, a->res->kind, a->ns, a->name);
}

/* Objects of one role differ in the number, or the digits of a hash, at the end of the name. */
static char *role_key(const struct plan_action *a)
{
    const char *dash = strrchr(a->name, '-');
    bool index = dash && dash[1] && dash[1 + strspn(dash + 1, "0123456789abcdef")] == '\0';
    int len = (int)(index ? dash - a->name : (long)strlen(a->name));
    return xasprintf("%s/%s %.*s", a->res->group, a->res->kind, len, a->name);
}

static void add_ref(json_t *refs, const struct plan_action *a)
{
    cleanup_free char *name = name_key(a), *role = role_key(a);
    if (!json_object_get(refs, name))
        json_object_set_new(refs, name, shown(a));
    if (!json_object_get(refs, role))
        json_object_set_new(refs, role, shown(a));
}

static char *status_key(const struct plan_action *a)
{
    return xasprintf("status of %s/%s", a->res->group, a->res->kind);
}

static void add_status_ref(json_t *refs, const struct plan_action *a)
{
    cleanup_free char *key = status_key(a);
    if (!json_object_get(refs, key)) /* a copy: the plan's may change */
        json_object_set_new(refs, key, json_deep_copy(json_object_get(a->body, "status")));
}

void golden_refs(json_t *refs, const struct plan *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct plan_action *a = &p->actions[i];
        if (a->op == PLAN_CREATE || a->op == PLAN_APPLY)
            add_ref(refs, a);
        else if (a->op == PLAN_STATUS)
            add_status_ref(refs, a);
    }
}

/* refs: s->refs, or what this case has shown already */
static void add_object(
    struct buf *b, const struct golden_show *s, const struct plan_action *a, json_t *refs)
{
    const char *now = jget_str(s->world, "now", "");
    cleanup_free char *name = name_key(a), *role = role_key(a);
    cleanup_json json_t *o = shown(a);
    const json_t *ref = json_object_get(refs, name);
    if (!ref)
        ref = json_object_get(refs, role);
    buf_addc(b, '\n');
    if (ref) {
        cleanup_buf struct buf text = BUF_INIT(TEXT_MAX);
        golden_delta(&text, "", ref, o, now);
        add_indented(b, &text, INDENT);
    } else {
        golden_block(b, o, INDENT, now);
    }
    if (s->whole)
        add_ref(refs, a);
}

/* ---- status ---- */

static const json_t *find_cond(const json_t *conditions, const char *type)
{
    size_t i;
    json_t *c;
    json_array_foreach (conditions, i, c)
        if (!strcmp(jget_str(c, "type", ""), type))
            return c;
    return NULL;
}

static void add_time(
    struct buf *b, const json_t *c, const char *key, const char *follows, const char *now)
{
    const char *is = jget_str(c, key, "none");
    if (strcmp(is, follows) != 0)
        buf_addf(b, " %s=%s", key, !strcmp(is, now) ? "now" : is);
}

/* What a condition has beside type, status, reason and message, where it does not follow: the time
 * of the last turn, and, of a JobCondition, that of the last change; of a metav1.Condition, the
 * object's generation. */
static void add_cond_rest(struct buf *b, const json_t *was, const json_t *is, const json_t *object,
    const char *now, bool turned)
{
    add_time(b, is, "lastTransitionTime",
        turned ? now : jget_str(was, "lastTransitionTime", "none"), now);
    int64_t generation = jget_int(is, "observedGeneration", -1);
    if (generation >= 0 && generation != jget_int(object, "metadata.generation", 0))
        buf_addf(b, " observedGeneration=%" PRId64, generation);
    add_time(b, is, "lastUpdateTime", generation < 0 ? now : "none", now);
    static const char *const known[] = {"type", "status", "reason", "message", "lastTransitionTime",
        "lastUpdateTime", "observedGeneration"};
    cleanup_json json_t *more = json_copy((json_t *)(uintptr_t)is);
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        json_object_del(more, known[i]);
    if (json_object_size(more)) {
        buf_addc(b, ' ');
        golden_flow(b, more, now);
    }
}

static void add_cond(
    struct buf *b, const json_t *was, const json_t *is, const json_t *object, const char *now)
{
    const char *status = jget_str(is, "status", "");
    bool turned = !was || strcmp(jget_str(was, "status", ""), status) != 0;
    bool known = !strcmp(status, "True") || !strcmp(status, "False");
    buf_addf(b, "  %s%s ", !known ? "?" : *status == 'T' ? "+" : "-", jget_str(is, "type", ""));
    if (!known && strcmp(status, "Unknown") != 0)
        buf_addf(b, "status=%s ", status);
    buf_addf(b, "%s ", jget_str(is, "reason", "none"));
    buf_add_json_string(b, jget_str(is, "message", ""));
    buf_adds(b, turned ? "" : " (still)");
    add_cond_rest(b, was, is, object, now, turned);
    buf_addc(b, '\n');
}

/* The last of the list is the state of a job: the order counts. */
static void add_cond_order(struct buf *b, const json_t *was, const json_t *is)
{
    cleanup_buf struct buf follows = BUF_INIT(TEXT_MAX), given = BUF_INIT(TEXT_MAX);
    size_t i;
    json_t *c;
    json_array_foreach (was, i, c)
        if (find_cond(is, jget_str(c, "type", "")))
            buf_addf(&follows, " %s", jget_str(c, "type", ""));
    json_array_foreach (is, i, c) {
        buf_addf(&given, " %s", jget_str(c, "type", ""));
        if (!find_cond(was, jget_str(c, "type", "")))
            buf_addf(&follows, " %s", jget_str(c, "type", ""));
    }
    if (strcmp(buf_str(&follows), buf_str(&given)) != 0)
        buf_addf(b, "  conditions in this order:%s\n", buf_str(&given));
}

static void add_conditions(
    struct buf *b, const json_t *object, const json_t *conditions, const char *now)
{
    const json_t *before = jget_arr(object, "status.conditions");
    size_t i;
    json_t *c;
    json_array_foreach (conditions, i, c) {
        const json_t *was = find_cond(before, jget_str(c, "type", ""));
        if (!was || !json_equal(was, c))
            add_cond(b, was, c, object, now);
    }
    json_array_foreach (before, i, c)
        if (!find_cond(conditions, jget_str(c, "type", "")))
            buf_addf(b, "  without %s\n", jget_str(c, "type", ""));
    add_cond_order(b, before, conditions);
}

/* Fields that are long, and the same as the reference has, are named on one line and taken out. */
static void add_same(struct buf *b, json_t *status, const json_t *ref, const char *now)
{
    cleanup_json json_t *all = json_copy(status);
    size_t nkeys, n = 0;
    cleanup_free const char **keys = golden_keys(all, &nkeys);
    for (size_t i = 0; i < nkeys; i++) {
        const json_t *v = json_object_get(all, keys[i]);
        cleanup_buf struct buf text = BUF_INIT(TEXT_MAX);
        golden_flow(&text, v, now);
        if (text.len < LONG_COLS || !json_equal(v, json_object_get(ref, keys[i])))
            continue;
        buf_addf(b, "%s%s", n++ ? ", " : "  as build-plain: ", keys[i]);
        json_object_del(status, keys[i]);
    }
    buf_adds(b, n ? "\n" : "");
}

static void add_status(
    struct buf *b, const struct golden_show *s, const struct plan_action *a, const json_t *refs)
{
    const char *now = jget_str(s->world, "now", "");
    cleanup_free char *key = status_key(a);
    const json_t *conditions = jget_arr(a->body, "status.conditions");
    cleanup_json json_t *rest = json_deep_copy(a->body);
    json_t *status = json_object_get(rest, "status");
    if (conditions) {
        add_conditions(b, object_of(s, a), conditions, now);
        json_object_del(status, "conditions");
    }
    add_same(b, status, json_object_get(refs, key), now);
    golden_block(b, status, INDENT, now);
    json_object_del(rest, "status");
    if (strcmp(jget_str(rest, "metadata.resourceVersion", ""),
            jget_str(object_of(s, a), "metadata.resourceVersion", "none"))
        == 0)
        json_object_del(rest, "metadata"); /* only over what the plan was made of */
    if (json_object_size(rest))
        golden_block(b, rest, INDENT, now);
}

/* ---- actions ---- */

static const char *const verbs[] = {[PLAN_APPLY] = "apply",
    [PLAN_CREATE] = "create",
    [PLAN_DELETE] = "delete",
    [PLAN_PATCH] = "patch",
    [PLAN_STATUS] = "status",
    [PLAN_TRY] = "try",
    [PLAN_EVENT] = "event",
    [PLAN_REQUEUE] = "requeue"};

static void add_requeue(struct buf *b, const struct plan_action *a)
{
    int64_t ms = a->after_ns / 1000000;
    if (ms % 1000)
        buf_addf(b, "requeue after %" PRId64 "ms\n", ms);
    else
        buf_addf(b, "requeue after %" PRId64 "s\n", ms / 1000);
}

static void add_event(struct buf *b, const struct golden_show *s, const struct plan_action *a)
{
    buf_addf(b, "event %s %s ", a->warning ? "Warning" : "Normal", a->reason);
    buf_add_json_string(b, a->message);
    if (object_of(s, a) != s->cr || !s->cr)
        buf_addf(b, " about %s %s/%s", a->res->kind, a->ns, a->name);
    add_uid(b, s, a);
    buf_addc(b, '\n');
}

static void add_action(
    struct buf *b, const struct golden_show *s, const struct plan_action *a, json_t *refs)
{
    if (s->children && (a->op == PLAN_STATUS || a->op == PLAN_EVENT || a->op == PLAN_REQUEUE))
        return;
    if (a->op == PLAN_REQUEUE) {
        add_requeue(b, a);
        return;
    }
    if (a->op == PLAN_EVENT) {
        add_event(b, s, a);
        return;
    }
    cleanup_free char *key = kube_key(a->ns, a->name);
    buf_addf(b, "%s %s %s%s", verbs[a->op], a->res->kind, key, a->was_made ? " (was made)" : "");
    if (a->op == PLAN_CREATE || a->op == PLAN_APPLY || a->op == PLAN_TRY) {
        add_object(b, s, a, refs);
        return;
    }
    add_uid(b, s, a);
    if (a->op == PLAN_PATCH) {
        buf_addc(b, ' ');
        golden_flow(b, a->body, jget_str(s->world, "now", ""));
    }
    if (a->op == PLAN_DELETE && a->grace_s >= 0)
        buf_addf(b, " grace=%" PRId64 "s", a->grace_s);
    if (a->op == PLAN_DELETE && a->propagation)
        buf_addf(b, " propagation=%s", a->propagation);
    buf_addc(b, '\n');
    if (a->op == PLAN_STATUS)
        add_status(b, s, a, refs);
}

char *golden_text(const struct golden_show *s, const struct plan *p)
{
    struct buf b = BUF_INIT(TEXT_MAX);
    cleanup_json json_t *own = json_object();
    for (size_t i = 0; i < p->n; i++)
        add_action(&b, s, &p->actions[i], s->whole ? own : (json_t *)(uintptr_t)s->refs);
    if (!p->n)
        buf_adds(&b, "nothing\n");
    return buf_take(&b);
}
