/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/poll.h"

#include "lib/base/clock.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/task.h"
#include "lib/conf/report.h"
#include "lib/http/http.h"
#include "lib/json/jget.h"
#include "operator/ctl/queue.h"
#include "operator/ctl/recent.h"
#include "operator/dataset/cache_pod.h"
#include "operator/dataset/informers.h"
#include "operator/dataset/poll_ask.h"
#include "operator/dataset/report_news.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define THREADS       8 /* of a lane */
#define SOON_NS       (2 * NS_PER_S)
#define LATER_NS      (15 * NS_PER_S)
#define COUNTS_NS     (30 * NS_PER_S) /* between counters of a Dataset that are told */
#define PROGRESS_NS   (10 * NS_PER_S) /* and of a DataLoad */
#define MAX_LISTENERS 4
#define RECENT        2048 /* one busy Dataset on a thousand nodes, and some more */

/* The pods of a Dataset: their counters are told together. */
struct poll_group {
    char *dataset_uid;
    struct poll_entry *first;
    struct poll_reads retired; /* of those that are gone */
    int64_t counted_ns;        /* mono, when counters were told last; 0: never */
    bool counts_pending;       /* an entry has some */
    bool forgotten;            /* its Dataset is gone: nothing is retired any more */
};

struct poll_entry {
    struct poll_target t;
    struct poll_group *group;
    struct poll_entry *next, **back; /* in the group's list */
    char *ip;                        /* "" while it does not run */
    struct obj *report;              /* folded, as it was told; or NULL */
    struct obj *pending;             /* folded, a newer one with other counters; or NULL */
    struct poll_reads counted;       /* by the newer of them */
    int64_t counted_ns;              /* of a DataLoad's: as of the group */
    bool is_silent; /* did not answer: it is asked where only such pods wait for one another */
    bool signs;     /* it has signed an answer: one that is not signed is not its */
};

enum { LANE_PROMPT, LANE_SILENT, LANES };

struct poll_lane {
    struct poll *poll;
    struct queue *queue; /* pod uids; has a lock of its own; poll.mu: NULL while we do not lead */
    struct task threads[THREADS];
};

struct poll {
    pthread_mutex_t mu;  /* entries, groups, the lanes' queues; a leaf */
    struct map *entries; /* pod uid → struct poll_entry */
    struct map *groups;  /* dataset uid → struct poll_group, while it has entries or a Dataset */
    struct poll_lane lanes[LANES];
    struct recent *recent; /* reports that plans look at again and again */
    struct informer *datasets;
    struct http *http;
    const struct manager *mgr;     /* borrowed */
    const struct sign_key *master; /* the manager's, from when we lead; NULL: nothing is signed */
    atomic_bool stop;              /* cancels their requests */
    poll_listener listeners[MAX_LISTENERS];
    void *listener_user[MAX_LISTENERS];
    size_t nlisteners;
};

static void target_free(struct poll_target *t)
{
    char *const all[] = {
        t->uid, t->ns, t->name, t->component, t->dataset, t->dataset_uid, t->dataload};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
}

static void target_copy(struct poll_target *to, const struct poll_target *t)
{
    *to = (struct poll_target){xstrdup(t->uid), xstrdup(t->ns), xstrdup(t->name),
        xstrdup(t->component), xstrdup(t->dataset), xstrdup(t->dataset_uid), xstrdup(t->dataload)};
}

static void poll_entry_free(void *v)
{
    struct poll_entry *e = v;
    *e->back = e->next;
    if (e->next)
        e->next->back = e->back;
    target_free(&e->t);
    free(e->ip);
    obj_unref(e->report);
    obj_unref(e->pending);
    free(e);
}

static void poll_group_free(void *v)
{
    struct poll_group *g = v;
    free(g->dataset_uid);
    free(g);
}

static struct poll_group *group_of(struct poll *p, const char *dataset_uid)
{
    struct poll_group *g = map_get(p->groups, dataset_uid);
    if (!g) {
        g = xcalloc(1, sizeof *g);
        g->dataset_uid = xstrdup(dataset_uid);
        map_put(p->groups, dataset_uid, g);
    }
    return g;
}

static struct poll_entry *poll_entry_new(struct poll *p, const json_t *pod)
{
    struct poll_entry *e = xcalloc(1, sizeof *e);
    e->t = (struct poll_target){xstrdup(kube_uid(pod)), xstrdup(kube_namespace(pod)),
        xstrdup(kube_name(pod)), xstrdup(kube_label(pod, LABEL_COMPONENT)),
        xstrdup(kube_label(pod, LABEL_DATASET)), xstrdup(kube_label(pod, LABEL_DATASET_UID)),
        xstrdup(kube_label(pod, LABEL_DATALOAD))};
    e->group = group_of(p, e->t.dataset_uid);
    e->next = e->group->first;
    e->back = &e->group->first;
    if (e->next)
        e->next->back = &e->next;
    e->group->first = e;
    map_put(p->entries, e->t.uid, e);
    return e;
}

static void add_reads(struct poll_reads *r, const char *component, const json_t *report)
{
    cache_pod_add_count(report, REPORT_READS_STORE, &r->store);
    if (strcmp(component, COMPONENT_CLIENT) != 0)
        return;
    cache_pod_add_count(report, REPORT_READS_CACHE, &r->cache);
    cache_pod_add_count(report, REPORT_READS_WORKER, &r->worker);
    cache_pod_add_count(report, REPORT_READS_STORE, &r->direct);
    cache_pod_add_count(report, REPORT_WRITES_BYTES, &r->written);
}

static void add_bytes(int64_t *sum, int64_t n)
{
    if (__builtin_add_overflow(*sum, n, sum))
        *sum = INT64_MAX;
}

/* Adds the counters of a pod to those of its dataset. poll.mu held. */
static void poll_count(struct poll_reads *sum, const struct poll_entry *e)
{
    add_bytes(&sum->cache, e->counted.cache);
    add_bytes(&sum->worker, e->counted.worker);
    add_bytes(&sum->store, e->counted.store);
    add_bytes(&sum->direct, e->counted.direct);
    add_bytes(&sum->written, e->counted.written);
}

static const char *pod_ip(const json_t *pod)
{
    const char *phase = jget_str(pod, "status.phase", "");
    return strcmp(phase, "Running") == 0 ? jget_str(pod, "status.podIP", "") : "";
}

/* Others may have our labels, too. */
static bool is_made_by_us(const json_t *pod)
{
    return *kube_label(pod, LABEL_DATALOAD)
        ? strcmp(jget_str(kube_controller_of(pod), "kind", ""), "DataLoad") == 0
        : kube_controlled_by(pod, kube_label(pod, LABEL_DATASET_UID));
}

/* The pod is gone: its counters stay, as long as its Dataset does. poll.mu held. */
static void poll_retire(struct poll *p, struct poll_entry *e)
{
    static const struct poll_reads none;
    struct poll_group *g = e->group;
    if (!g->forgotten)
        poll_count(&g->retired, e);
    map_del(p->entries, e->t.uid);
    if (!g->first && (g->forgotten || memcmp(&g->retired, &none, sizeof none) == 0))
        map_del(p->groups, g->dataset_uid);
}

/* An informer handler: must not block. */
static void pod_changed(void *user, const json_t *was, const json_t *now)
{
    struct poll *p = user;
    const char *uid = kube_uid(now ? now : was);
    if (!*kube_label(now ? now : was, LABEL_COMPONENT))
        return;
    pthread_mutex_lock(&p->mu);
    struct poll_entry *e = map_get(p->entries, uid);
    if (!now) {
        if (e)
            poll_retire(p, e);
        pthread_mutex_unlock(&p->mu);
        return;
    }
    if (!e && *pod_ip(now) && is_made_by_us(now))
        e = poll_entry_new(p, now);
    bool ask = e && *pod_ip(now);
    if (e) {
        e->is_silent &= strcmp(e->ip ? e->ip : "", pod_ip(now)) == 0;
        free(e->ip);
        e->ip = xstrdup(pod_ip(now));
    }
    struct queue *q = e ? p->lanes[e->is_silent ? LANE_SILENT : LANE_PROMPT].queue : NULL;
    if (ask && q)
        queue_add(q, uid);
    pthread_mutex_unlock(&p->mu);
}

/* What is kept of it. A pod that does not answer keeps its last report, marked. */
static json_t *merge_report(const struct poll_entry *e, json_t *fresh_take)
{
    json_t *why = json_object_get(fresh_take, REPORT_UNREACHABLE), *merged;
    cleanup_obj struct obj *known = why ? obj_unfold(obj_ref(e->pending ? e->pending : e->report))
                                        : NULL;
    if (known) {
        merged = json_deep_copy(obj_json(known));
        json_object_set(merged, REPORT_UNREACHABLE, why);
    } else {
        merged = report_kept(fresh_take);
    }
    if (why && !json_object_get(merged, REPORT_SILENT_SINCE))
        json_object_set_new(merged, REPORT_SILENT_SINCE, json_integer(clock_real_ns() / NS_PER_S));
    json_decref(fresh_take);
    return merged;
}

static bool tell_counts(struct poll_entry *e)
{
    if (!e->pending)
        return false;
    obj_unref(e->report);
    e->report = steal(&e->pending);
    return true;
}

/* Counters are told all at once, and not again for a while. true: some were. poll.mu held. */
static bool tell_due_counts(struct poll_entry *e)
{
    bool alone = *e->t.dataload, told = false;
    int64_t now = clock_mono_ns(), *at = alone ? &e->counted_ns : &e->group->counted_ns;
    if ((*at && now - *at < (alone ? PROGRESS_NS : COUNTS_NS))
        || !(alone ? e->pending != NULL : e->group->counts_pending))
        return false;
    *at = now;
    if (alone)
        return tell_counts(e);
    e->group->counts_pending = false;
    for (struct poll_entry *x = e->group->first; x; x = x->next)
        if (!*x->t.dataload)
            told |= tell_counts(x);
    return told;
}

/* Keeps the answer. If there is anything to tell, *t is the pod's (the caller frees it). */
static enum report_news poll_store(
    struct poll *p, const char *uid, json_t *fresh_take, bool signs, struct poll_target *t)
{
    enum report_news news = REPORT_NEWS_NONE;
    pthread_mutex_lock(&p->mu);
    struct poll_entry *e = map_get(p->entries, uid);
    if (e) {
        e->is_silent = json_object_get(fresh_take, REPORT_UNREACHABLE);
        e->signs = signs;
        cleanup_json json_t *fresh = merge_report(e, fresh_take);
        cleanup_obj struct obj *told = obj_unfold(obj_ref(e->report));
        news = report_compare(obj_json(told), fresh);
        e->counted = (struct poll_reads){0};
        add_reads(&e->counted, e->t.component, fresh);
        obj_unref(e->pending);
        e->pending = NULL;
        if (news == REPORT_NEWS_COUNTS) {
            e->pending = obj_fold(fresh);
            e->group->counts_pending = true;
        } else {
            obj_unref(e->report);
            e->report = obj_fold(fresh);
        }
        if (tell_due_counts(e) && news != REPORT_NEWS_REAL)
            news = REPORT_NEWS_COUNTS;
        else if (news == REPORT_NEWS_COUNTS)
            news = REPORT_NEWS_NONE;
        if (news != REPORT_NEWS_NONE)
            target_copy(t, &e->t);
    } else {
        json_decref(fresh_take);
    }
    pthread_mutex_unlock(&p->mu);
    return news;
}

/* Is that a pod of a Dataset that there is? Others may have its labels, too. */
static bool poll_may_ask(struct poll *p, const char *dataset_uid, const char *ns)
{
    cleanup_objs struct objs found = informer_by(p->datasets, "uid", dataset_uid);
    return found.n && strcmp(kube_namespace(obj_json(found.v[0])), ns) == 0;
}

/* Has a worker not counted anything yet? It will have in a moment, and people look at the size. */
static bool counts_soon(const json_t *report)
{
    return jget(report, REPORT_INVENTORY) && !jget_bool(report, REPORT_INVENTORY_COMPLETE, false)
        && jget_int(report, REPORT_INVENTORY_FILES, 0) == 0;
}

/* Asks one pod; returns the time until the next request, -1 if the pod is gone. */
static int64_t poll_once(struct poll *p, const char *uid)
{
    pthread_mutex_lock(&p->mu);
    struct poll_entry *e = map_get(p->entries, uid);
    cleanup_free char *ip = xstrdup(e ? e->ip : NULL);
    cleanup_free char *dataset = xstrdup(e ? e->t.dataset_uid : NULL),
                      *ns = xstrdup(e ? e->t.ns : NULL);
    bool signs = e && e->signs;
    bool loader = e && strcmp(e->t.component, COMPONENT_LOADER) == 0;
    pthread_mutex_unlock(&p->mu);
    if (!ip || !*ip)
        return -1;
    if (!poll_may_ask(p, dataset, ns))
        return LATER_NS;
    const struct poll_question ask = {p->http, p->master, ip, dataset, &p->stop};
    json_t *report = poll_ask(&ask, &signs);
    if (atomic_load(&p->stop)) {
        json_decref(report);
        return -1;
    }
    bool ready = jget_bool(report, REPORT_READY, false)
        && (!loader || jget_bool(report, REPORT_LOAD_COMPLETE, false)) && !counts_soon(report);
    struct poll_target t;
    enum report_news news = poll_store(p, uid, report, signs, &t);
    if (news != REPORT_NEWS_NONE) {
        for (size_t i = 0; i < p->nlisteners; i++)
            p->listeners[i](p->listener_user[i], &t, news == REPORT_NEWS_COUNTS);
        target_free(&t);
    }
    return ready ? LATER_NS : SOON_NS;
}

static struct queue *lane_of(struct poll *p, const char *uid)
{
    pthread_mutex_lock(&p->mu);
    const struct poll_entry *e = map_get(p->entries, uid);
    struct queue *q = p->lanes[e && e->is_silent ? LANE_SILENT : LANE_PROMPT].queue;
    pthread_mutex_unlock(&p->mu);
    return q;
}

static void poll_thread(void *arg)
{
    const struct poll_lane *lane = arg;
    bool resync;
    for (char *uid; (uid = queue_get(lane->queue, &resync)); free(uid)) {
        int64_t next = poll_once(lane->poll, uid);
        queue_done(lane->queue, uid);
        if (next >= 0)
            queue_add_after(lane_of(lane->poll, uid), uid, next);
    }
}

static int poll_start(void *user, struct err *e)
{
    struct poll *p = user;
    const struct queue_backoff backoff = {SOON_NS, LATER_NS};
    atomic_store(&p->stop, false);
    p->master = p->mgr->master; /* known since we lead */
    pthread_mutex_lock(&p->mu);
    for (size_t i = 0; i < LANES; i++)
        p->lanes[i] = (struct poll_lane){.poll = p, .queue = queue_new(&backoff, NULL)};
    const char *uid;
    void *entry;
    for (size_t i = 0; map_next(p->entries, &i, &uid, &entry);)
        queue_add(p->lanes[LANE_PROMPT].queue, uid);
    pthread_mutex_unlock(&p->mu);
    int rc = 0;
    for (size_t i = 0; i < LANES * THREADS && !rc; i++)
        rc = task_start(
            &p->lanes[i % LANES].threads[i / LANES], "poll", poll_thread, &p->lanes[i % LANES], e);
    return rc;
}

static void poll_stop(void *user)
{
    struct poll *p = user;
    struct queue *queues[LANES];
    atomic_store(&p->stop, true);
    if (!p->lanes[0].queue)
        return;
    for (size_t i = 0; i < LANES; i++)
        queue_stop(p->lanes[i].queue);
    for (size_t i = 0; i < LANES * THREADS; i++)
        task_stop(&p->lanes[i % LANES].threads[i / LANES]);
    pthread_mutex_lock(&p->mu);
    for (size_t i = 0; i < LANES; i++) {
        queues[i] = p->lanes[i].queue;
        p->lanes[i].queue = NULL;
    }
    pthread_mutex_unlock(&p->mu);
    for (size_t i = 0; i < LANES; i++)
        queue_free(queues[i]);
}

struct poll *poll_shared(struct manager *mgr, struct err *e)
{
    if (mgr->poll)
        return mgr->poll;
    struct poll *p = xcalloc(1, sizeof *p);
    const struct http_conf conf = {.direct = true,
        .connect_ns = POLL_TIMEOUT_NS,
        .max_idle = 64,
        .user_agent = NAME_FIELD_MANAGER};
    p->http = http_new(&conf, e);
    if (!p->http) {
        free(p);
        return NULL;
    }
    pthread_mutex_init(&p->mu, NULL);
    p->recent = recent_new(RECENT);
    p->mgr = mgr;
    p->datasets = informers_datasets(mgr);
    p->entries = map_new(poll_entry_free);
    p->groups = map_new(poll_group_free);
    informer_on_change(informers_cache_pods(mgr), pod_changed, p);
    manager_on_lead(mgr, poll_start, poll_stop, p);
    return mgr->poll = p;
}

void poll_listen(struct poll *p, poll_listener fn, void *user)
{
    if (p->nlisteners == MAX_LISTENERS)
        abort(); /* one a controller */
    p->listeners[p->nlisteners] = fn;
    p->listener_user[p->nlisteners++] = user;
}

struct obj *poll_report(struct poll *p, const char *pod_uid)
{
    pthread_mutex_lock(&p->mu);
    struct poll_entry *e = map_get(p->entries, pod_uid);
    struct obj *report = e ? obj_ref(e->report) : NULL;
    pthread_mutex_unlock(&p->mu);
    return recent_whole(p->recent, report);
}

void poll_retired(struct poll *p, const char *dataset_uid, struct poll_reads *out)
{
    pthread_mutex_lock(&p->mu);
    const struct poll_group *g = map_get(p->groups, dataset_uid);
    *out = g ? g->retired : (struct poll_reads){0};
    pthread_mutex_unlock(&p->mu);
}

struct map *poll_reads_all(struct poll *p)
{
    struct map *sums = map_new(free);
    const char *uid;
    void *v;
    pthread_mutex_lock(&p->mu);
    for (size_t i = 0; map_next(p->groups, &i, &uid, &v);) {
        const struct poll_group *g = v;
        struct poll_reads *sum = xmalloc(sizeof *sum);
        *sum = g->retired;
        for (const struct poll_entry *e = g->first; e; e = e->next)
            poll_count(sum, e);
        map_put(sums, uid, sum);
    }
    pthread_mutex_unlock(&p->mu);
    return sums;
}

void poll_forget(struct poll *p, const char *dataset_uid)
{
    pthread_mutex_lock(&p->mu);
    struct poll_group *g = map_get(p->groups, dataset_uid);
    if (g && !g->first)
        map_del(p->groups, dataset_uid);
    else if (g)
        g->forgotten = true;
    pthread_mutex_unlock(&p->mu);
}
