/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/informer.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/task.h"
#include "lib/json/jget.h"
#include "operator/ctl/indexer.h"
#include "operator/ctl/informer_priv.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- index functions ---- */

void informer_values_label(
    const char *arg, const json_t *object, void (*emit)(void *, const char *), void *to)
{
    const char *value = kube_label(object, arg);
    if (*value)
        emit(to, value);
}

void informer_values_field(
    const char *arg, const json_t *object, void (*emit)(void *, const char *), void *to)
{
    const char *value = jget_str(object, arg, NULL);
    if (value)
        emit(to, value);
}

/* ---- life ---- */

struct informer *informer_new(struct kube *k, const struct informer_conf *conf)
{
    struct informer *inf = xcalloc(1, sizeof *inf);
    inf->kube = k;
    inf->conf = *conf;
    inf->conf.indexes = NULL; /* they live in the indexer */
    inf->conf.nindexes = 0;
    inf->conf.ns = xstrdup(conf->ns);
    inf->conf.labels = xstrdup(conf->labels);
    inf->conf.fields = xstrdup(conf->fields);
    inf->indexer = indexer_new();
    inf->recent = recent_new(conf->fold ? conf->recent : 0);
    inf->skipped = map_new(free);
    for (size_t i = 0; i < conf->nindexes; i++)
        indexer_add_index(inf->indexer, &conf->indexes[i]);
    err_set(&inf->error, ERR_RETRY, "list %s: not begun", conf->res->plural);
    inf->failing_since = clock_mono_ns();
    pthread_mutex_init(&inf->order, NULL);
    pthread_mutex_init(&inf->mu, NULL);
    return inf;
}

void informer_free(struct informer *inf)
{
    if (!inf)
        return;
    task_stop(&inf->task);
    indexer_free(inf->indexer);
    recent_free(inf->recent);
    free((char *)(uintptr_t)inf->conf.ns);
    free((char *)(uintptr_t)inf->conf.labels);
    free((char *)(uintptr_t)inf->conf.fields);
    free(inf->handlers);
    free(inf->version);
    map_free(inf->skipped);
    pthread_mutex_destroy(&inf->order);
    pthread_mutex_destroy(&inf->mu);
    free(inf);
}

void informer_on_change(struct informer *inf, informer_handler fn, void *user)
{
    inf->handlers = xrealloc(inf->handlers, (inf->nhandlers + 1) * sizeof *inf->handlers);
    inf->handlers[inf->nhandlers++] = (struct informer_listener){fn, user};
}

void informer_add_index(struct informer *inf, const struct informer_index *index)
{
    indexer_add_index(inf->indexer, index);
}

void informer_on_unreadable(struct informer *inf, informer_unreadable fn, void *user)
{
    inf->unreadable = fn;
    inf->unreadable_user = user;
}

bool informer_synced(const struct informer *inf) { return atomic_load(&inf->synced); }
const struct kube_res *informer_res(const struct informer *inf) { return inf->conf.res; }
const struct informer_conf *informer_conf(const struct informer *inf) { return &inf->conf; }

void informer_error(struct informer *inf, struct err *out)
{
    pthread_mutex_lock(&inf->mu);
    *out = inf->error;
    pthread_mutex_unlock(&inf->mu);
}

int64_t informer_stale_ns(struct informer *inf, struct err *why)
{
    pthread_mutex_lock(&inf->mu);
    int64_t since = inf->failing_since;
    *why = inf->error;
    pthread_mutex_unlock(&inf->mu);
    return since ? MAX(clock_mono_ns() - since, 1) : 0;
}

/* ---- changes ---- */

static void del_from(json_t *object, const char *parent, const char *key)
{
    json_t *m = json_object_get(object, parent);
    json_object_del(m, key);
    if (m && !json_object_size(m))
        json_object_del(object, parent);
}

static void informer_trim(const struct informer *inf, json_t *object)
{
    json_t *metadata = json_object_get(object, "metadata");
    json_object_del(metadata, "managedFields");
    del_from(metadata, "annotations", "kubectl.kubernetes.io/last-applied-configuration");
    if (inf->conf.trim)
        inf->conf.trim(object);
}

static void call_handlers(struct informer *inf, const json_t *was, const json_t *now)
{
    for (size_t i = 0; i < inf->nhandlers; i++)
        inf->handlers[i].fn(inf->handlers[i].user, was, now);
}

static void notify(struct informer *inf, struct obj *was_take, const struct obj *now_obj)
{
    cleanup_obj struct obj *was_obj = inf->nhandlers ? obj_unfold(was_take) : was_take;
    const json_t *was = obj_json(was_obj), *now = obj_json(now_obj);
    if (was && now && strcmp(kube_uid(was), kube_uid(now)) != 0) {
        call_handlers(inf, was, NULL);
        was = NULL;
    }
    call_handlers(inf, was, now);
}

void informer_put(struct informer *inf, json_t *object_take, enum informer_source from)
{
    cleanup_free char *key = kube_key_of(object_take);
    uint64_t rv = kube_rv(object_take);
    informer_trim(inf, object_take);
    cleanup_obj struct obj *now = obj_take(object_take),
                           *kept = inf->conf.fold ? obj_fold(object_take) : obj_ref(now);
    struct obj *was = NULL;
    pthread_mutex_lock(&inf->order);
    pthread_mutex_lock(&inf->mu);
    /* A write is not what the running list has seen: the object may be gone since. */
    uint64_t mark = from == FROM_WRITE ? 0 : inf->mark;
    const struct indexed *have = indexer_get(inf->indexer, key);
    bool newer = have ? !rv || rv > have->rv : from != FROM_WRITE || !rv || rv > inf->passed;
    if (newer) {
        was = have ? obj_ref(have->o) : NULL;
        indexer_put(inf->indexer, key, steal(&kept), obj_json(now), mark);
    } else if (have && mark) {
        indexer_mark(inf->indexer, key, mark);
    }
    if (from == FROM_WATCH && rv > inf->passed)
        inf->passed = rv;
    pthread_mutex_unlock(&inf->mu);
    if (newer)
        notify(inf, was, now);
    pthread_mutex_unlock(&inf->order);
}

void informer_del(struct informer *inf, const char *key, const char *uid, uint64_t rv)
{
    struct obj *was = NULL;
    pthread_mutex_lock(&inf->order);
    pthread_mutex_lock(&inf->mu);
    const struct indexed *have = indexer_get(inf->indexer, key);
    bool same = have && (!uid || strcmp(have->uid, uid) == 0);
    bool older = have && rv && have->rv <= rv;
    if (same || older)
        was = indexer_del(inf->indexer, key);
    if (rv > inf->passed)
        inf->passed = rv;
    pthread_mutex_unlock(&inf->mu);
    if (was)
        notify(inf, was, NULL);
    pthread_mutex_unlock(&inf->order);
}

/* labels: "a=b,c,!d"; terms of any other form are taken to match. */
static bool matches(const char *labels, const json_t *object)
{
    cleanup_free char *copy = xstrdup(labels);
    char *rest = copy;
    for (char *term; (term = strsep(&rest, ","));) {
        if (*term == '!' && *kube_label(object, term + 1))
            return false;
        if (strpbrk(term, "!() "))
            continue;
        char *eq = strchr(term, '=');
        if (eq)
            *eq++ = '\0';
        if (eq && *eq == '=')
            eq++;
        const char *have = kube_label(object, term);
        if (eq ? strcmp(have, eq) != 0 : !*have)
            return false;
    }
    return true;
}

void informer_observe(struct informer *inf, json_t *object_take)
{
    bool ours = (!inf->conf.ns || strcmp(inf->conf.ns, kube_namespace(object_take)) == 0)
        && (!inf->conf.labels || matches(inf->conf.labels, object_take));
    if (ours)
        informer_put(inf, object_take, FROM_WRITE);
    else
        json_decref(object_take);
}

void informer_observe_gone(struct informer *inf, const char *key, const char *uid)
{
    informer_del(inf, key, uid, 0);
}

/* ---- the thread ---- */

int informer_start(struct informer *inf, struct err *e)
{
    if (task_start(&inf->task, "informer", informer_follow, inf, e))
        return err_wrap(e, "informer of %s", inf->conf.res->plural);
    return 0;
}

void informer_cancel(struct informer *inf) { task_cancel(&inf->task); }

/* ---- reading ---- */

struct obj *informer_get(struct informer *inf, const char *key)
{
    pthread_mutex_lock(&inf->mu);
    const struct indexed *have = indexer_get(inf->indexer, key);
    struct obj *o = have ? obj_ref(have->o) : NULL;
    pthread_mutex_unlock(&inf->mu);
    return recent_whole(inf->recent, o);
}

static int by_key(const void *a, const void *b)
{
    const json_t *x = obj_json(*(struct obj *const *)a), *y = obj_json(*(struct obj *const *)b);
    int d = strcmp(kube_namespace(x), kube_namespace(y));
    return d ? d : strcmp(kube_name(x), kube_name(y));
}

static struct objs readable(struct informer *inf, struct objs l)
{
    for (size_t i = 0; i < l.n; i++)
        l.v[i] = recent_whole(inf->recent, l.v[i]);
    if (l.n > 1)
        qsort(l.v, l.n, sizeof *l.v, by_key);
    return l;
}

struct objs informer_all(struct informer *inf)
{
    pthread_mutex_lock(&inf->mu);
    struct objs l = indexer_all(inf->indexer);
    pthread_mutex_unlock(&inf->mu);
    return readable(inf, l);
}

struct objs informer_by(struct informer *inf, const char *index, const char *value)
{
    pthread_mutex_lock(&inf->mu);
    struct objs l = indexer_by(inf->indexer, index, value);
    pthread_mutex_unlock(&inf->mu);
    return readable(inf, l);
}

char **informer_keys(struct informer *inf, const char *index, const char *value)
{
    pthread_mutex_lock(&inf->mu);
    char **keys = indexer_keys(inf->indexer, index, value);
    pthread_mutex_unlock(&inf->mu);
    return keys;
}

void informer_keys_free(char ***keys)
{
    for (size_t i = 0; *keys && (*keys)[i]; i++)
        free((*keys)[i]);
    free(*keys);
    *keys = NULL;
}

size_t informer_count(struct informer *inf)
{
    pthread_mutex_lock(&inf->mu);
    size_t n = indexer_count(inf->indexer);
    pthread_mutex_unlock(&inf->mu);
    return n;
}

void objs_free(struct objs *l)
{
    for (size_t i = 0; i < l->n; i++)
        obj_unref(l->v[i]);
    free(l->v);
    *l = (struct objs){NULL, 0};
}
