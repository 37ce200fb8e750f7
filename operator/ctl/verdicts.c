/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/verdicts.h"

#include "lib/base/human.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LISTENERS_MAX 4
#define OLD_NS        (10 * VERDICT_NS) /* forgotten when the next one comes */
#define MADE          "made"            /* of a Secret, as what is wanted */

struct verdicts {
    pthread_mutex_t mu;   /* a leaf */
    struct map *by_owner; /* mu: struct obj * */
    struct {
        verdict_listener fn;
        void *user;
    } listeners[LISTENERS_MAX];
    size_t nlisteners;
};

static void free_verdict_obj(void *o) { obj_unref(o); }

struct verdicts *verdicts_new(void)
{
    struct verdicts *v = xcalloc(1, sizeof *v);
    pthread_mutex_init(&v->mu, NULL);
    v->by_owner = map_new(free_verdict_obj);
    return v;
}

void verdicts_free(struct verdicts *v)
{
    if (!v)
        return;
    map_free(v->by_owner);
    pthread_mutex_destroy(&v->mu);
    free(v);
}

void verdicts_listen(struct verdicts *v, verdict_listener fn, void *user)
{
    if (v->nlisteners == LISTENERS_MAX)
        abort();
    v->listeners[v->nlisteners].fn = fn;
    v->listeners[v->nlisteners++].user = user;
}

static json_t *without_old(const json_t *known, int64_t now_ns)
{
    json_t *left = json_object(), *verdict;
    const char *name;
    json_object_foreach ((json_t *)(uintptr_t)known, name, verdict)
        if (now_ns - jget_int(verdict, "at", 0) < OLD_NS)
            json_object_set_new(left, name, json_deep_copy(verdict));
    return left;
}

static const char *owner_of(const json_t *object)
{
    return jget_str(kube_controller_of(object), "uid", "");
}

static void verdict_put(struct verdicts *v, const json_t *object, const char *name,
    json_t *verdict_take, int64_t now_ns)
{
    const char *owner = owner_of(object);
    pthread_mutex_lock(&v->mu);
    json_t *all = without_old(obj_json(map_get(v->by_owner, owner)), now_ns);
    json_object_set_new(all, name, verdict_take);
    map_put(v->by_owner, owner, obj_take(all));
    pthread_mutex_unlock(&v->mu);
    for (size_t i = 0; i < v->nlisteners; i++)
        v->listeners[i].fn(v->listeners[i].user, object);
}

void verdicts_put(struct verdicts *v, const struct plan_action *asked, const char *refused,
    bool taken, int64_t now_ns)
{
    json_t *verdict = json_pack("{s:s, s:I}", "wanted", asked->wanted, "at", (json_int_t)now_ns);
    if (refused)
        json_object_set_new(verdict, "refused", json_string(refused));
    if (taken)
        json_object_set_new(verdict, "taken", json_true());
    verdict_put(v, asked->body, asked->name, verdict, now_ns);
}

void verdicts_made(struct verdicts *v, const json_t *secret, int64_t now_ns)
{
    verdict_put(v, secret, kube_name(secret),
        json_pack("{s:s, s:I}", "wanted", MADE, "at", (json_int_t)now_ns), now_ns);
}

void verdicts_drop(struct verdicts *v, const struct plan_action *created)
{
    pthread_mutex_lock(&v->mu);
    const json_t *known = obj_json(map_get(v->by_owner, owner_of(created->body)));
    if (json_object_get(known, created->name)) {
        json_t *left = json_copy((json_t *)(uintptr_t)known);
        json_object_del(left, created->name);
        map_put(v->by_owner, owner_of(created->body), obj_take(left));
    }
    pthread_mutex_unlock(&v->mu);
}

struct obj *verdicts_of(struct verdicts *v, const char *owner_uid)
{
    pthread_mutex_lock(&v->mu);
    struct obj *o = obj_ref(map_get(v->by_owner, owner_uid));
    pthread_mutex_unlock(&v->mu);
    return o;
}

void verdicts_forget(struct verdicts *v, const char *owner_uid)
{
    pthread_mutex_lock(&v->mu);
    map_del(v->by_owner, owner_uid);
    pthread_mutex_unlock(&v->mu);
}

/* ---- of plans ---- */

/* Which pod is to be replaced by what: a pod that asks for nothing has the hash of its like. */
static char *wanted_of(const json_t *pod, const json_t *successor)
{
    return xasprintf("%s/%s%s", kube_uid(pod), kube_annotation(successor, ANNOTATION_HASH),
        *kube_annotation(successor, ANNOTATION_SMALL) ? "/small" : "");
}

/* A quota counts the pod now: what asks for no more finds room in it when the pod is gone. Of our
 * container: what a webhook has added to the pod, it adds to the successor. */
static bool asks_no_more(const json_t *successor, const json_t *pod)
{
    static const char *const parts[] = {"resources.requests", "resources.limits"};
    const json_t *wants = kube_container(jget_arr(successor, "spec.containers"), CONTAINER_MAIN),
                 *has = kube_container(jget_arr(pod, "spec.containers"), CONTAINER_MAIN);
    if (strcmp(jget_str(successor, "spec.priorityClassName", ""),
            jget_str(pod, "spec.priorityClassName", ""))
        != 0)
        return false; /* another quota may count it */
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const json_t *was = jget_obj(has, parts[i]);
        json_t *amount;
        const char *name;
        json_object_foreach ((json_t *)(uintptr_t)jget_obj(wants, parts[i]), name, amount) {
            int64_t next = 0, now = 0;
            const char *text = json_string_value(amount),
                       *had = json_string_value(json_object_get(was, name));
            if (!text || quantity_parse_milli(text, &next)
                || quantity_parse_milli(had ? had : "0", &now) || next > now)
                return false;
        }
    }
    return true;
}

enum verdict plan_try(
    struct plan *p, const json_t *said, const json_t *pod, json_t *successor_take, int64_t now_ns)
{
    cleanup_json json_t *successor = successor_take;
    cleanup_free char *wanted = wanted_of(pod, successor);
    const json_t *verdict = json_object_get(said, kube_name(pod));
    bool known = verdict && strcmp(jget_str(verdict, "wanted", ""), wanted) == 0,
         refused = known && jget(verdict, "refused");
    int64_t age = now_ns - jget_int(verdict, "at", 0);
    if (known && age >= 0 && age < VERDICT_NS) {
        if (refused)
            plan_requeue(p, VERDICT_NS - age);
        return refused ? VERDICT_REFUSED : VERDICT_TAKEN;
    }
    plan_ask(p, pod, json_incref(successor), wanted, asks_no_more(successor, pod));
    return refused ? VERDICT_REFUSED : VERDICT_ASKED;
}

const char *plan_create_heard(struct plan *p, const json_t *said, json_t *pod_take, int64_t now_ns)
{
    cleanup_json json_t *pod = pod_take;
    cleanup_free char *wanted = xasprintf("create/%s", kube_annotation(pod, ANNOTATION_HASH));
    const json_t *verdict = json_object_get(said, kube_name(pod));
    bool known = verdict && strcmp(jget_str(verdict, "wanted", ""), wanted) == 0;
    const char *refused = known ? jget_str(verdict, "refused", NULL) : NULL;
    int64_t age = now_ns - jget_int(verdict, "at", 0);
    if (refused && age >= 0 && age < CREATE_AGAIN_NS)
        plan_requeue(p, CREATE_AGAIN_NS - age);
    else
        plan_create_wanted(p, json_incref(pod), wanted);
    return refused;
}

bool verdict_is_made(const json_t *said, const char *name)
{
    return strcmp(jget_str(json_object_get(said, name), "wanted", ""), MADE) == 0;
}

bool verdict_is_taken(const json_t *said, const char *name)
{
    return jget_bool(json_object_get(said, name), "taken", false);
}

const char *verdict_refusal(const json_t *said, const json_t *pod, const char *hash)
{
    const json_t *verdict = json_object_get(said, kube_name(pod));
    cleanup_free char *wanted = xasprintf("%s/%s", kube_uid(pod), hash);
    return strncmp(jget_str(verdict, "wanted", ""), wanted, strlen(wanted)) == 0
        ? jget_str(verdict, "refused", NULL)
        : NULL;
}
