/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/informer.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/ctl/indexer.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_MIN (200 * NS_PER_MS) /* wait after the first failure of a list or watch; doubles */
#define RETRY_MAX (30 * NS_PER_S)
/* a watch lasts between this and twice this, so that they do not all end at once */
#define WATCH_MIN (300 * NS_PER_S)

struct handler {
    cache_handler fn;
    void *user;
};

struct cache {
    struct kube *kube;
    struct cache_conf conf;
    struct handler *handlers; /* fixed once started */
    size_t nhandlers;
    pthread_t thread;
    bool running;
    atomic_bool stop, synced;
    pthread_mutex_t mu;     /* a leaf */
    pthread_cond_t changed; /* stop */
    struct store *store;    /* mu */
    uint64_t passed;        /* mu: the version up to which the watch has told everything */
    uint64_t mark;          /* of the running list; used by the thread only, but under mu */
    struct err trouble;     /* mu: why there is no list or watch; ERR_NONE if there is one */
    char *version;          /* thread only: where the next watch starts */
    bool troubled;          /* thread only: trouble is set */
};

/* ---- index functions ---- */

void cache_values_owner(
    const char *arg, const json_t *object, void (*emit)(void *, const char *), void *to)
{
    (void)arg;
    const json_t *owner;
    size_t i;
    json_array_foreach (
        json_object_get(json_object_get(object, "metadata"), "ownerReferences"), i, owner) {
        const char *uid = json_string_value(json_object_get(owner, "uid"));
        if (uid)
            emit(to, uid);
    }
}

void cache_values_namespace(
    const char *arg, const json_t *object, void (*emit)(void *, const char *), void *to)
{
    (void)arg;
    emit(to, kube_namespace(object));
}

void cache_values_label(
    const char *arg, const json_t *object, void (*emit)(void *, const char *), void *to)
{
    const char *value = kube_label(object, arg);
    if (*value)
        emit(to, value);
}

void cache_values_field(
    const char *arg, const json_t *object, void (*emit)(void *, const char *), void *to)
{
    const char *value = jget_str(object, arg, NULL);
    if (value)
        emit(to, value);
}

/* ---- life ---- */

struct cache *cache_new(struct kube *k, const struct cache_conf *conf)
{
    struct cache *c = xcalloc(1, sizeof *c);
    c->kube = k;
    c->conf = *conf;
    c->conf.indexes = NULL; /* they live in the store */
    c->conf.nindexes = 0;
    c->conf.ns = xstrdup(conf->ns);
    c->conf.labels = xstrdup(conf->labels);
    c->conf.fields = xstrdup(conf->fields);
    c->store = store_new();
    for (size_t i = 0; i < conf->nindexes; i++)
        store_add_index(c->store, &conf->indexes[i]);
    err_set(&c->trouble, ERR_RETRY, "list %s: not begun", conf->res->plural);
    pthread_mutex_init(&c->mu, NULL);
    clock_cond_init(&c->changed);
    return c;
}

void cache_free(struct cache *c)
{
    if (!c)
        return;
    cache_stop(c);
    store_free(c->store);
    free((char *)(uintptr_t)c->conf.ns);
    free((char *)(uintptr_t)c->conf.labels);
    free((char *)(uintptr_t)c->conf.fields);
    free(c->handlers);
    free(c->version);
    pthread_mutex_destroy(&c->mu);
    pthread_cond_destroy(&c->changed);
    free(c);
}

void cache_on_change(struct cache *c, cache_handler fn, void *user)
{
    c->handlers = xrealloc(c->handlers, (c->nhandlers + 1) * sizeof *c->handlers);
    c->handlers[c->nhandlers++] = (struct handler){fn, user};
}

void cache_add_index(struct cache *c, const struct cache_index *index)
{
    store_add_index(c->store, index);
}
bool cache_synced(const struct cache *c) { return atomic_load(&c->synced); }
const struct kube_res *cache_res(const struct cache *c) { return c->conf.res; }
const struct cache_conf *cache_conf(const struct cache *c) { return &c->conf; }

void cache_trouble(struct cache *c, struct err *out)
{
    pthread_mutex_lock(&c->mu);
    *out = c->trouble;
    pthread_mutex_unlock(&c->mu);
}

/* ---- changes ---- */

static void drop_member(json_t *object, const char *member, const char *key)
{
    json_t *m = json_object_get(object, member);
    json_object_del(m, key);
    if (m && !json_object_size(m))
        json_object_del(object, member);
}

static void trim(const struct cache *c, json_t *object)
{
    json_t *metadata = json_object_get(object, "metadata");
    json_object_del(metadata, "managedFields");
    drop_member(metadata, "annotations", "kubectl.kubernetes.io/last-applied-configuration");
    if (c->conf.trim)
        c->conf.trim(object);
}

static void tell(struct cache *c, struct obj *was_take, const struct obj *now)
{
    cleanup_obj struct obj *was = c->nhandlers ? obj_unfold(was_take) : was_take;
    for (size_t i = 0; i < c->nhandlers; i++)
        c->handlers[i].fn(c->handlers[i].user, obj_json(was), obj_json(now));
}

/* Who says that an object is so: a page of a list, the watch (in order of versions), or the answer
 * to a write of ours. */
enum source { FROM_LIST, FROM_WATCH, FROM_WRITE };

/* Keeps the object unless what is there is as new, or it answers a write and the watch is past it:
 * then it is gone again. */
static void put(struct cache *c, json_t *object_take, enum source from)
{
    cleanup_free char *key = kube_key_of(object_take);
    uint64_t rv = kube_rv(object_take);
    trim(c, object_take);
    cleanup_obj struct obj *now = obj_take(object_take),
                           *kept = c->conf.fold ? obj_fold(object_take) : obj_ref(now);
    struct obj *was = NULL;
    pthread_mutex_lock(&c->mu);
    const struct stored *have = store_get(c->store, key);
    bool newer = have ? !rv || rv > have->rv : from != FROM_WRITE || !rv || rv > c->passed;
    if (newer) {
        was = have ? obj_ref(have->o) : NULL;
        store_put(c->store, key, steal(&kept), obj_json(now), c->mark);
    } else if (have) {
        store_mark(c->store, key, c->mark);
    }
    if (from == FROM_WATCH && rv > c->passed)
        c->passed = rv;
    pthread_mutex_unlock(&c->mu);
    if (newer)
        tell(c, was, now);
}

/* uid NULL: whatever is there. rv 0: whatever version. An object made after rv under the same name
 * stays. */
static void gone(struct cache *c, const char *key, const char *uid, uint64_t rv)
{
    struct obj *was = NULL;
    pthread_mutex_lock(&c->mu);
    const struct stored *have = store_get(c->store, key);
    bool same = have && (!uid || strcmp(have->uid, uid) == 0);
    bool older = have && rv && have->rv <= rv;
    if (same || older)
        was = store_del(c->store, key);
    if (rv > c->passed)
        c->passed = rv;
    pthread_mutex_unlock(&c->mu);
    if (was)
        tell(c, was, NULL);
}

/* labels: "a=b,c" as far as it is of that form; other terms are taken to match. */
static bool matches(const char *labels, const json_t *object)
{
    cleanup_free char *copy = xstrdup(labels);
    char *rest = copy;
    for (char *term; (term = strsep(&rest, ","));) {
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

void cache_observe(struct cache *c, json_t *object_take)
{
    bool ours = (!c->conf.ns || strcmp(c->conf.ns, kube_namespace(object_take)) == 0)
        && (!c->conf.labels || matches(c->conf.labels, object_take));
    if (ours)
        put(c, object_take, FROM_WRITE);
    else
        json_decref(object_take);
}

void cache_observe_gone(struct cache *c, const char *key, const char *uid) { gone(c, key, uid, 0); }

/* ---- list and watch ---- */

static int64_t jitter(int64_t ns) { return ns / 2 + (int64_t)(random() % (ns / 2 + 1)); }

static void wait_for(struct cache *c, int64_t ns)
{
    int64_t until = clock_mono_ns() + ns;
    pthread_mutex_lock(&c->mu);
    while (!atomic_load(&c->stop) && clock_mono_ns() < until)
        clock_cond_wait(&c->changed, &c->mu, until);
    pthread_mutex_unlock(&c->mu);
}

/* Remembers what is wrong, and says it when it begins, when it becomes another kind of wrong, and
 * when it is over. */
static void trouble(struct cache *c, const struct err *e)
{
    pthread_mutex_lock(&c->mu);
    bool changed = strcmp(c->trouble.msg, e->msg) != 0,
         other = !c->troubled || c->trouble.cls != e->cls;
    c->trouble = *e;
    pthread_mutex_unlock(&c->mu);
    bool over = c->troubled && e->cls == ERR_NONE;
    c->troubled = e->cls != ERR_NONE;
    if (atomic_load(&c->stop))
        return;
    if (over)
        log_kv(LOG_INFO, "cache follows the API server again", "resource", c->conf.res->plural,
            "selector", c->conf.labels, NULL);
    else if (c->troubled && changed)
        log_kv(other ? LOG_WARN : LOG_DEBUG, "cache cannot follow the API server, will keep trying",
            "resource", c->conf.res->plural, "selector", c->conf.labels, "error", e->msg, NULL);
}

static int on_item(void *user, json_t *item_take)
{
    struct cache *c = user;
    put(c, item_take, FROM_LIST);
    return atomic_load(&c->stop);
}

static int list(struct cache *c, struct err *e)
{
    struct kube_select sel = {c->conf.labels, c->conf.fields};
    pthread_mutex_lock(&c->mu);
    c->mark++;
    pthread_mutex_unlock(&c->mu);
    char *version = NULL;
    if (kube_list(c->kube, c->conf.res, c->conf.ns, &sel, 0, on_item, c, &version, e)) {
        free(version);
        if (e->cls == ERR_NOTFOUND && *c->conf.res->group) {
            err_set(e, ERR_NOTFOUND,
                "%s.%s is not installed in the cluster: apply the CustomResourceDefinition (crds/ or the chart)",
                c->conf.res->plural, c->conf.res->group);
        }
        return -1;
    }
    uint64_t rv = strtoull(version, NULL, 10);
    pthread_mutex_lock(&c->mu);
    cleanup_keys char **stale = store_unmarked(c->store, c->mark, rv);
    pthread_mutex_unlock(&c->mu);
    for (size_t i = 0; stale[i]; i++)
        gone(c, stale[i], "", rv);
    pthread_mutex_lock(&c->mu);
    c->passed = MAX(c->passed, rv);
    pthread_mutex_unlock(&c->mu);
    free(c->version);
    c->version = version;
#if !defined(__SANITIZE_ADDRESS__) \
    && !defined(__SANITIZE_THREAD__) /* under which glibc's own malloc was never set up */
    malloc_trim(0);                  /* pages of a list are large, and gone now */
#endif
    atomic_store(&c->synced, true);
    return 0;
}

static int on_event(void *user, enum kube_event_type type, json_t *object_take)
{
    struct cache *c = user;
    if (c->troubled)
        trouble(c, &(struct err)ERR_INIT);
    free(c->version);
    c->version = xstrdup(jget_str(object_take, "metadata.resourceVersion", ""));
    switch (type) {
    case KUBE_ADDED:
    case KUBE_MODIFIED:
        put(c, object_take, FROM_WATCH);
        break;
    case KUBE_DELETED: {
        cleanup_free char *key = kube_key_of(object_take);
        gone(c, key, kube_uid(object_take), kube_rv(object_take));
        json_decref(object_take);
        break;
    }
    case KUBE_BOOKMARK:
        pthread_mutex_lock(&c->mu);
        c->passed = MAX(c->passed, kube_rv(object_take));
        pthread_mutex_unlock(&c->mu);
        json_decref(object_take);
        break;
    }
    return atomic_load(&c->stop);
}

static int watch(struct cache *c, struct err *e)
{
    struct kube_select sel = {c->conf.labels, c->conf.fields};
    /* on_event replaces c->version while the request runs */
    cleanup_free char *from = xstrdup(c->version);
    struct kube_watch w = {
        .sel = &sel,
        .version = from,
        .timeout_ns = WATCH_MIN + (int64_t)(random() % WATCH_MIN),
        .cancel = &c->stop,
        .event = on_event,
        .user = c,
    };
    return kube_watch(c->kube, c->conf.res, c->conf.ns, &w, e);
}

static void *follow(void *user)
{
    struct cache *c = user;
    int64_t backoff = RETRY_MIN;
    bool listed = false;
    while (!atomic_load(&c->stop)) {
        struct err e = ERR_INIT;
        int64_t begun = clock_mono_ns();
        if (!listed && list(c, &e) == 0) {
            listed = true;
            trouble(c, &(struct err)ERR_INIT);
            continue;
        }
        bool quiet = listed && watch(c, &e) == 0;
        bool expired = listed && e.cls == ERR_CONFLICT && e.sys == ESTALE;
        if (expired)
            listed = false;
        if (clock_mono_ns() - begun > 10 * NS_PER_S) /* it worked for a while */
            backoff = RETRY_MIN;
        if (quiet && clock_mono_ns() - begun > NS_PER_S)
            continue;
        if (!quiet && !expired)
            trouble(c, &e);
        wait_for(c, jitter(backoff));
        backoff = MIN(backoff * 2, RETRY_MAX);
    }
    return NULL;
}

int cache_start(struct cache *c, struct err *e)
{
    int rc = pthread_create(&c->thread, NULL, follow, c);
    if (rc)
        return err_sys(e, rc, "thread of the cache of %s", c->conf.res->plural);
    c->running = true;
    return 0;
}

void cache_cancel(struct cache *c)
{
    pthread_mutex_lock(&c->mu);
    atomic_store(&c->stop, true);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mu);
}

void cache_stop(struct cache *c)
{
    if (!c->running)
        return;
    cache_cancel(c);
    pthread_join(c->thread, NULL);
    c->running = false;
}

/* ---- reading ---- */

struct obj *cache_get(struct cache *c, const char *key)
{
    pthread_mutex_lock(&c->mu);
    const struct stored *have = store_get(c->store, key);
    struct obj *o = have ? obj_ref(have->o) : NULL;
    pthread_mutex_unlock(&c->mu);
    return obj_unfold(o);
}

static int by_key(const void *a, const void *b)
{
    const json_t *x = obj_json(*(struct obj *const *)a), *y = obj_json(*(struct obj *const *)b);
    int d = strcmp(kube_namespace(x), kube_namespace(y));
    return d ? d : strcmp(kube_name(x), kube_name(y));
}

static struct objs readable(struct objs l)
{
    for (size_t i = 0; i < l.n; i++)
        l.v[i] = obj_unfold(l.v[i]);
    if (l.n > 1)
        qsort(l.v, l.n, sizeof *l.v, by_key);
    return l;
}

struct objs cache_all(struct cache *c)
{
    pthread_mutex_lock(&c->mu);
    struct objs l = store_all(c->store);
    pthread_mutex_unlock(&c->mu);
    return readable(l);
}

struct objs cache_by(struct cache *c, const char *index, const char *value)
{
    pthread_mutex_lock(&c->mu);
    struct objs l = store_by(c->store, index, value);
    pthread_mutex_unlock(&c->mu);
    return readable(l);
}

char **cache_keys(struct cache *c, const char *index, const char *value)
{
    pthread_mutex_lock(&c->mu);
    char **keys = store_keys(c->store, index, value);
    pthread_mutex_unlock(&c->mu);
    return keys;
}

void cache_keys_free(char ***keys)
{
    for (size_t i = 0; *keys && (*keys)[i]; i++)
        free((*keys)[i]);
    free(*keys);
    *keys = NULL;
}

size_t cache_count(struct cache *c)
{
    pthread_mutex_lock(&c->mu);
    size_t n = store_count(c->store);
    pthread_mutex_unlock(&c->mu);
    return n;
}

void objs_free(struct objs *l)
{
    for (size_t i = 0; i < l->n; i++)
        obj_unref(l->v[i]);
    free(l->v);
    *l = (struct objs){NULL, 0};
}
