/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of an informer: a list, then watches, and a list again where a watch cannot go on. No
 * object's content stops it. */
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/http/metric.h"
#include "lib/json/jget.h"
#include "operator/ctl/indexer.h"
#include "operator/ctl/informer_priv.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_MIN (200 * NS_PER_MS) /* wait after the first failure of a list or watch; doubles */
#define RETRY_MAX (30 * NS_PER_S)
/* a watch lasts between this and twice this, so that they do not all end at once */
#define WATCH_MIN   (300 * NS_PER_S)
#define LIST_AGAIN  (60 * NS_PER_S)
#define SKIPPED_MAX 10000 /* objects that cannot be read, and are told of */

METRIC_COUNTER(watch_restarts, "millrace_watch_restarts_total", "resource",
    "Times a watch was begun anew: every 5 to 10 minutes is normal.");
METRIC_COUNTER(objects_skipped, "millrace_objects_skipped_total", "resource",
    "Versions of objects that could not be read, and were passed over.");

static int64_t jitter(int64_t ns) { return ns / 2 + (int64_t)(random() % (ns / 2 + 1)); }

/* Records the error, and logs it when it begins, when its class changes, and when it is over. */
static void record_error(struct informer *inf, const struct err *e)
{
    pthread_mutex_lock(&inf->mu);
    bool changed = strcmp(inf->error.msg, e->msg) != 0,
         other = !inf->failing || inf->error.cls != e->cls;
    inf->error = *e;
    if (e->cls == ERR_NONE)
        inf->failing_since = 0;
    else if (!inf->failing_since)
        inf->failing_since = clock_mono_ns();
    pthread_mutex_unlock(&inf->mu);
    bool over = inf->failing && e->cls == ERR_NONE;
    inf->failing = e->cls != ERR_NONE;
    if (atomic_load(&inf->task.stop))
        return;
    if (over)
        log_kv(LOG_INFO, "cache follows the API server again", "resource", inf->conf.res->plural,
            "selector", inf->conf.labels, NULL);
    else if (inf->failing && changed)
        log_kv(other ? LOG_WARN : LOG_DEBUG, "cache cannot follow the API server, will keep trying",
            "resource", inf->conf.res->plural, "selector", inf->conf.labels, "error", e->msg, NULL);
}

/* ---- objects that cannot be read ---- */

/* True unless this version of it was reported before. *first: none of it was. */
static bool is_news(struct informer *inf, const char *key, const char *version, bool *first)
{
    const char *before = map_get(inf->skipped, key);
    *first = !before;
    if (before && strcmp(before, version) == 0)
        return false;
    if (map_len(inf->skipped) >= SKIPPED_MAX)
        return false;
    map_put(inf->skipped, key, xstrdup(version));
    return true;
}

/* It stays as it was before; a list that has it in it does not take it for gone. */
static int on_unreadable(void *user, json_t *known_take)
{
    struct informer *inf = user;
    cleanup_json json_t *known = known_take;
    cleanup_free char *key = kube_key_of(known);
    bool named = *kube_name(known), first;
    pthread_mutex_lock(&inf->mu);
    if (named)
        indexer_mark(inf->indexer, key, inf->mark);
    pthread_mutex_unlock(&inf->mu);
    inf->nameless |= !named;
    if (is_news(inf, key, jget_str(known, "metadata.resourceVersion", ""), &first)) {
        log_kv(LOG_WARN, "an object cannot be read, going on without it", "resource",
            inf->conf.res->plural, "object", named ? key : "unknown", "version",
            jget_str(known, "metadata.resourceVersion", ""), "error",
            jget_str(known, "message", ""), NULL);
        metric_add(metric_of(&objects_skipped, inf->conf.res->plural), 1);
        if (named && first && inf->unreadable)
            inf->unreadable(inf->unreadable_user, inf->conf.res, known);
    }
    return atomic_load(&inf->task.stop);
}

/* It can be read (again), or is gone. */
static void forget_unreadable(struct informer *inf, const json_t *object)
{
    if (!map_len(inf->skipped))
        return;
    cleanup_free char *key = kube_key_of(object);
    map_del(inf->skipped, key);
}

/* ---- list and watch ---- */

static int on_item(void *user, json_t *item_take)
{
    struct informer *inf = user;
    forget_unreadable(inf, item_take);
    informer_put(inf, item_take, FROM_LIST);
    return atomic_load(&inf->task.stop);
}

static int informer_list(struct informer *inf, struct err *e)
{
    struct kube_select sel = {inf->conf.labels, inf->conf.fields};
    struct kube_lister to = {on_item, on_unreadable, inf};
    pthread_mutex_lock(&inf->mu);
    inf->mark++;
    pthread_mutex_unlock(&inf->mu);
    inf->nameless = false;
    inf->listed_ns = clock_mono_ns();
    char *version = NULL;
    if (kube_list_readable(inf->kube, inf->conf.res, inf->conf.ns, &sel, &to, &version, e)) {
        free(version);
        if (e->cls == ERR_NOTFOUND && *inf->conf.res->group) {
            err_set(e, ERR_NOTFOUND,
                "%s.%s is not installed in the cluster: apply the CustomResourceDefinition (crds/ or the chart)",
                inf->conf.res->plural, inf->conf.res->group);
        }
        return -1;
    }
    uint64_t rv = strtoull(version, NULL, 10);
    pthread_mutex_lock(&inf->mu);
    cleanup_keys char **stale = indexer_unmarked(inf->indexer, inf->mark, rv);
    inf->passed = MAX(inf->passed, rv);
    pthread_mutex_unlock(&inf->mu);
    /* with a nameless one among the items nobody knows which is missing */
    for (size_t i = 0; stale[i] && !inf->nameless; i++)
        informer_del(inf, stale[i], "", rv);
    free(inf->version);
    inf->version = version;
#if !defined(__SANITIZE_ADDRESS__) \
    && !defined(__SANITIZE_THREAD__) /* under which glibc's own malloc was never set up */
    malloc_trim(0);                  /* pages of a list are large, and gone now */
#endif
    atomic_store(&inf->synced, true);
    return 0;
}

static int on_event(void *user, enum kube_event_type type, json_t *object_take)
{
    struct informer *inf = user;
    if (inf->failing)
        record_error(inf, &(struct err)ERR_INIT);
    free(inf->version);
    inf->version = xstrdup(jget_str(object_take, "metadata.resourceVersion", ""));
    if (type != KUBE_SKIPPED && type != KUBE_BOOKMARK)
        forget_unreadable(inf, object_take);
    switch (type) {
    case KUBE_ADDED:
    case KUBE_MODIFIED:
        informer_put(inf, object_take, FROM_WATCH);
        break;
    case KUBE_DELETED: {
        cleanup_free char *key = kube_key_of(object_take);
        informer_del(inf, key, kube_uid(object_take), kube_rv(object_take));
        json_decref(object_take);
        break;
    }
    case KUBE_BOOKMARK:
        pthread_mutex_lock(&inf->mu);
        inf->passed = MAX(inf->passed, kube_rv(object_take));
        pthread_mutex_unlock(&inf->mu);
        json_decref(object_take);
        break;
    case KUBE_SKIPPED:
        pthread_mutex_lock(&inf->mu);
        inf->passed = MAX(inf->passed, kube_rv(object_take));
        pthread_mutex_unlock(&inf->mu);
        return on_unreadable(inf, object_take);
    }
    return atomic_load(&inf->task.stop);
}

static int informer_watch(struct informer *inf, struct err *e)
{
    struct kube_select sel = {inf->conf.labels, inf->conf.fields};
    /* on_event replaces inf->version while the request runs */
    cleanup_free char *from = xstrdup(inf->version);
    struct kube_watch w = {
        .sel = &sel,
        .version = from,
        .timeout_ns = WATCH_MIN + (int64_t)(random() % WATCH_MIN),
        .cancel = &inf->task.stop,
        .event = on_event,
        .user = inf,
    };
    if (inf->watched)
        metric_add(metric_of(&watch_restarts, inf->conf.res->plural), 1);
    inf->watched = true;
    return kube_watch(inf->kube, inf->conf.res, inf->conf.ns, &w, e);
}

/* Whether the watch cannot go on where it was: its version is too old; or a line cannot be read and
 * does not say whose it is, then once a minute, as it may be there again. */
static bool must_list(const struct informer *inf, const struct err *e)
{
    return (e->cls == ERR_CONFLICT && e->sys == ESTALE)
        || (e->sys == EBADMSG && clock_mono_ns() - inf->listed_ns > LIST_AGAIN);
}

void informer_follow(void *user)
{
    struct informer *inf = user;
    int64_t backoff = RETRY_MIN;
    bool listed = false;
    while (!atomic_load(&inf->task.stop)) {
        struct err e = ERR_INIT;
        int64_t begun = clock_mono_ns();
        if (!listed && informer_list(inf, &e) == 0) {
            listed = true;
            record_error(inf, &(struct err)ERR_INIT);
            continue;
        }
        bool ended = listed && informer_watch(inf, &e) == 0;
        bool again = listed && !ended && must_list(inf, &e), expired = again && e.sys == ESTALE;
        if (again)
            listed = false;
        if (clock_mono_ns() - begun > 10 * NS_PER_S) /* it worked for a while */
            backoff = RETRY_MIN;
        if (ended && clock_mono_ns() - begun > NS_PER_S) {
            record_error(inf, &(struct err)ERR_INIT);
            continue;
        }
        if (!ended && !expired)
            record_error(inf, &e);
        task_wait(&inf->task, clock_mono_ns() + jitter(backoff));
        backoff = MIN(backoff * 2, RETRY_MAX);
    }
}
