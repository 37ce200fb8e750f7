/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/gated.h"

#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/tfjob.h"
#include "operator/dataset/demand.h"
#include "operator/dataset/informers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Objects that ask: adds what one asks to `to`, as {claim: [texts of demands]}. */
struct asking {
    struct gated *gated;
    struct informer *objects;
    void (*asks)(const struct gated *g, const json_t *object, json_t *to);
};

struct gated {
    const json_t *patterns;
    void (*changed)(void *user, const char *claim);
    void *user;
    struct asking asking[1 + GATED_PODS];
    pthread_mutex_t mu;
    struct map *sources; /* mu: "index of asking/namespace/name" → json_t * of asks(), owned */
    struct map *claims;  /* mu: claim → json_t *, {text: how many ask it}, owned */
};

static void gated_free_json(void *x) { json_decref(x); }

/* ---- what one asks ---- */

static void ask_for_pod(const struct gated *g, const char *ns, const json_t *spec, json_t *to)
{
    const json_t *volumes = jget_arr(spec, "volumes");
    cleanup_json json_t *demand = demand_of(spec, g->patterns);
    cleanup_free char *text = demand ? json_text(demand) : NULL;
    for (size_t i = 0; text && i < json_array_size(volumes); i++) {
        const char *claim = jget_str(
            json_array_get(volumes, i), "persistentVolumeClaim.claimName", "");
        cleanup_free char *key = kube_key(ns, claim);
        if (!*claim)
            continue;
        if (!json_object_get(to, key))
            json_object_set_new(to, key, json_array());
        json_array_append_new(json_object_get(to, key), json_string(text));
    }
}

/* One that is held back by whoever suspends it is not sure to come. */
static void asks_of_job(const struct gated *g, const json_t *job, json_t *to)
{
    struct tfjob j;
    struct err e = ERR_INIT;
    if (tfjob_has_ended(job) || tfjob_runs(job) || tfjob_parse(job, &j, &e) || j.deleting
        || j.external || j.suspend)
        return;
    for (int t = 0; t < TFJOB_TYPES; t++)
        if (j.spec[t].present && j.spec[t].replicas > 0)
            ask_for_pod(g, j.ns, jget_obj(j.spec[t].template, "spec"), to);
}

static void asks_of_pod(const struct gated *g, const json_t *pod, json_t *to)
{
    if (!kube_deleting(pod) && !*jget_str(pod, "spec.nodeName", "")
        && strcmp(jget_str(pod, "status.phase", "Pending"), "Pending") == 0)
        ask_for_pod(g, kube_namespace(pod), jget_obj(pod, "spec"), to);
}

/* ---- what all ask ---- */

/* by: 1 or -1; true: it is asked now and was not, or the other way round. */
static bool count_asked(json_t *texts, const char *text, int by)
{
    json_int_t n = json_integer_value(json_object_get(texts, text)) + by;
    if (n > 0)
        json_object_set_new(texts, text, json_integer(n));
    else
        json_object_del(texts, text);
    return by > 0 ? n == 1 : n <= 0;
}

static void count_source(struct gated *g, const json_t *asked, int by, json_t *touched)
{
    const char *claim;
    json_t *texts, *text;
    size_t i;
    json_object_foreach ((json_t *)asked, claim, texts) {
        json_t *all = map_get(g->claims, claim);
        if (!all)
            map_put(g->claims, claim, all = json_object());
        json_array_foreach (texts, i, text)
            if (count_asked(all, json_string_value(text), by))
                json_object_set_new(touched, claim, json_true());
        if (!json_object_size(all))
            map_del(g->claims, claim);
    }
}

/* As it is now, whoever saw what first. touched: the claims of which something else is asked. */
static void ask_again_of(
    struct gated *g, const struct asking *a, const char *key, const char *source, json_t *touched)
{
    cleanup_obj struct obj *o = informer_get(a->objects, key);
    cleanup_json json_t *was = map_steal(g->sources, source);
    json_t *now = json_object();
    if (o)
        a->asks(g, obj_json(o), now);
    if (!json_equal(was, now)) {
        count_source(g, now, 1, touched);
        count_source(g, was, -1, touched);
    }
    if (json_object_size(now))
        map_put(g->sources, source, now);
    else
        json_decref(now);
}

static void gated_changed(void *user, const json_t *was, const json_t *now)
{
    const struct asking *a = user;
    struct gated *g = a->gated;
    cleanup_free char *key = kube_key_of(now ? now : was),
                      *source = xasprintf("%d/%s", (int)(a - g->asking), key);
    cleanup_json json_t *asked = json_object(), *touched = json_object();
    if (now)
        a->asks(g, now, asked);
    pthread_mutex_lock(&g->mu);
    if (json_object_size(asked) || map_get(g->sources, source))
        ask_again_of(g, a, key, source, touched);
    pthread_mutex_unlock(&g->mu);
    const char *claim;
    json_t *yes;
    json_object_foreach (touched, claim, yes)
        g->changed(g->user, claim);
}

json_t *gated_demands(struct gated *g, const char *claim)
{
    json_t *demands = json_array(), *n;
    const char *text;
    pthread_mutex_lock(&g->mu);
    json_object_foreach ((json_t *)map_get(g->claims, claim), text, n)
        if (json_array_size(demands) < GATED_DEMANDS_MAX)
            json_array_append_new(demands, json_loads(text, 0, NULL));
    pthread_mutex_unlock(&g->mu);
    return demands;
}

/* ---- a life ---- */

struct gated *gated_new(struct manager *mgr, const json_t *patterns,
    void (*changed)(void *user, const char *claim), void *user)
{
    struct gated *g = xcalloc(1, sizeof *g);
    *g = (struct gated){.patterns = patterns,
        .changed = changed,
        .user = user,
        .sources = map_new(gated_free_json),
        .claims = map_new(gated_free_json)};
    pthread_mutex_init(&g->mu, NULL);
    for (size_t i = 0; i < ARRAY_LEN(g->asking); i++) {
        struct asking *a = &g->asking[i];
        if (i == 0 && !mgr->tfjobs)
            continue;
        *a = (struct asking){g, i ? informers_gated_pods(mgr, i - 1) : informers_tfjobs(mgr),
            i ? asks_of_pod : asks_of_job};
        informer_on_change(a->objects, gated_changed, a);
    }
    return g;
}

void gated_free(struct gated *g)
{
    if (!g)
        return;
    map_free(g->sources);
    map_free(g->claims);
    pthread_mutex_destroy(&g->mu);
    free(g);
}
