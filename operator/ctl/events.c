/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/events.h"

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/base/task.h"
#include "lib/base/text.h"
#include "lib/http/metric.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EQUAL_NS    (600 * NS_PER_S) /* how long an Event is remembered after it was last seen */
#define UPDATE_NS   (10 * NS_PER_S)  /* between two writes of one Event */
#define RECORDS_MAX 20000            /* more are dropped: something is very wrong then */
#define MESSAGE_MAX 1024             /* the server's own limit */
#define FLUSH_NS    (2 * NS_PER_S)
#define PACE_NS     (NS_PER_S / EVENT_PACE)
#define COMBINED    "(combined from similar events): "

/* One Event, in the server or on its way there. */
struct event_record {
    char *key; /* what makes it the same Event */
    const struct kube_res *res;
    char *ns, *name, *uid, *reason, *message;
    bool warning;
    char *event_name;          /* in the server; NULL before it was written */
    int64_t first_ns, last_ns; /* real time */
    int64_t seen_ns, due_ns;   /* mono: last post; next write allowed */
    unsigned count;
    bool queued;
    struct event_record *next; /* in the list that waits */
};

struct event_list { /* of records that wait to be written, oldest first */
    struct event_record *first, **last;
};

struct event_subject { /* an object, for EVENT_BURST */
    int64_t since_ns;
    unsigned kinds;
};

struct events {
    struct kube *kube;
    char *component, *instance;
    pthread_mutex_t mu;                 /* a leaf */
    struct task writer;                 /* woken under mu */
    struct map *records;                /* mu: key → owned record */
    struct map *subjects;               /* mu: uid or name → owned subject */
    struct event_list normal, warnings; /* mu */
    size_t waiting;                     /* mu: records in both */
    /* mu: when the last Normal one would have been written at an even pace */
    int64_t paced_ns;
    int64_t cleaned_ns; /* mu */
    struct metric *dropped, *written;
};

static void event_record_free(void *p)
{
    struct event_record *r = p;
    free(r->key);
    free(r->ns);
    free(r->name);
    free(r->uid);
    free(r->reason);
    free(r->message);
    free(r->event_name);
    free(r);
}

/* ---- posting ---- */

static void cut_message(char *message)
{
    size_t n = strlen(message);
    if (n <= MESSAGE_MAX)
        return;
    n = text_whole(message, n, MESSAGE_MAX - 3);
    memcpy(message + n, "...", sizeof "...");
}

/* True if this object has had its share of different Events. */
static bool too_many_locked(struct events *ev, const char *subject, int64_t now)
{
    struct event_subject *s = map_get(ev->subjects, subject);
    if (!s) {
        s = xcalloc(1, sizeof *s);
        map_put(ev->subjects, subject, s);
        s->since_ns = now;
    }
    if (now - s->since_ns > EQUAL_NS)
        *s = (struct event_subject){now, 0};
    return s->kinds++ >= EVENT_BURST;
}

static void enqueue_locked(struct events *ev, struct event_record *r)
{
    if (r->queued)
        return;
    r->queued = true;
    ev->waiting++;
    r->next = NULL;
    struct event_list *l = r->warning ? &ev->warnings : &ev->normal;
    *l->last = r;
    l->last = &r->next;
    task_wake(&ev->writer);
}

static struct event_record *record_locked(struct events *ev, const char *key,
    const struct event_about *about, bool warning, const char *reason, const char *message)
{
    struct event_record *r = xcalloc(1, sizeof *r);
    r->key = xstrdup(key);
    r->res = about->res;
    r->ns = xstrdup(about->ns && *about->ns ? about->ns : "");
    r->name = xstrdup(about->name);
    r->uid = xstrdup(about->uid ? about->uid : "");
    r->reason = xstrdup(reason);
    r->message = xstrdup(message);
    r->warning = warning;
    r->first_ns = clock_real_ns();
    map_put(ev->records, key, r);
    return r;
}

/* The last message, marked as one of several. */
static void combine(struct event_record *r, const char *message)
{
    if (strcmp(r->message, message) == 0)
        return;
    free(r->message);
    r->message = xasprintf(COMBINED "%s", message);
    cut_message(r->message);
}

/* The record of an object's events of one reason, whatever they say. */
static struct event_record *combined_locked(struct events *ev, const char *subject,
    const struct event_about *about, bool warning, const char *reason, const char *message)
{
    cleanup_free char *key = xasprintf("%s|%d|%s", subject, warning, reason);
    struct event_record *r = map_get(ev->records, key);
    if (!r && map_len(ev->records) < RECORDS_MAX)
        return record_locked(ev, key, about, warning, reason, message);
    if (r)
        combine(r, message);
    return r;
}

void events_post(struct events *ev, const struct event_about *about, bool warning,
    const char *reason, const char *message)
{
    cleanup_free char *said = xstrdup(message);
    log_redact_text(said);
    cleanup_free char *text = text_legible(said, strlen(said), SIZE_MAX);
    cut_message(text);
    const char *ns = about->ns ? about->ns : "", *uid = about->uid ? about->uid : "";
    cleanup_free char *subject = xasprintf("%s %s/%s %s", about->res->plural, ns, about->name, uid);
    cleanup_free char *key = xasprintf("%s|%d|%s|%s", subject, warning, reason, text);
    int64_t now = clock_mono_ns();
    pthread_mutex_lock(&ev->mu);
    struct event_record *r = map_get(ev->records, key);
    bool many = !r && too_many_locked(ev, subject, now);
    if (many || (!r && ev->waiting >= EVENT_FLOOD))
        r = combined_locked(ev, subject, about, warning, reason, text);
    else if (!r && map_len(ev->records) < RECORDS_MAX)
        r = record_locked(ev, key, about, warning, reason, text);
    if (r && !atomic_load(&ev->writer.stop)) {
        r->count++;
        r->last_ns = clock_real_ns();
        r->seen_ns = now;
        enqueue_locked(ev, r);
    } else {
        metric_add(ev->dropped, 1);
    }
    pthread_mutex_unlock(&ev->mu);
}

/* ---- writing ---- */

static json_t *event_json(
    const struct events *ev, const struct event_record *r, const char *event_name, const char *ns)
{
    char first[CLOCK_RFC3339_LEN], last[CLOCK_RFC3339_LEN];
    clock_rfc3339(r->first_ns, first);
    clock_rfc3339(r->last_ns, last);
    cleanup_free char *version = kube_res_api_version(r->res);
    json_t *about = json_pack(
        "{s:s,s:s,s:s}", "apiVersion", version, "kind", r->res->kind, "name", r->name);
    if (*r->ns)
        json_object_set_new(about, "namespace", json_string(r->ns));
    if (*r->uid)
        json_object_set_new(about, "uid", json_string(r->uid));
    return json_pack("{s:s,s:s,s:{s:s,s:s},s:o,s:s,s:s,s:{s:s},s:s,s:s,s:i,s:s,s:s,s:s}",
        "apiVersion", "v1", "kind", "Event", "metadata", "name", event_name, "namespace", ns,
        "involvedObject", about, "reason", r->reason, "message", r->message, "source", "component",
        ev->component, "firstTimestamp", first, "lastTimestamp", last, "count", (int)r->count,
        "type", r->warning ? "Warning" : "Normal", "reportingComponent", ev->component,
        "reportingInstance", ev->instance);
}

/* A copy of what one write needs, so that no lock is held during it. */
struct event_write {
    char *key; /* of the record */
    char *event_name, *ns;
    bool exists; /* the server has it: only its count changes */
    unsigned count;
    json_t *body;
};

static struct event_write event_write_new(const struct events *ev, const struct event_record *r)
{
    struct event_write j = {
        .key = xstrdup(r->key), .count = r->count, .exists = r->event_name != NULL};
    j.ns = xstrdup(*r->ns ? r->ns : "default");
    if (j.exists) {
        char last[CLOCK_RFC3339_LEN];
        clock_rfc3339(r->last_ns, last);
        j.event_name = xstrdup(r->event_name);
        j.body = json_pack(
            "{s:i,s:s,s:s}", "count", (int)r->count, "lastTimestamp", last, "message", r->message);
    } else {
        /* unique and repeatable: a write whose answer was lost finds itself again */
        uint64_t h = hash64_mix(hash64(r->key, strlen(r->key)), (uint64_t)r->first_ns);
        j.event_name = xasprintf("%.200s.%016" PRIx64, r->name, h);
        j.body = event_json(ev, r, j.event_name, j.ns);
    }
    return j;
}

static void event_write_free(struct event_write *j)
{
    free(j->key);
    free(j->event_name);
    free(j->ns);
    json_decref(j->body);
}

/* 0: the server has it. -1: it has not, *e says why. */
static int event_write_run(struct events *ev, const struct event_write *j, struct err *e)
{
    if (j->exists)
        return kube_patch(
            ev->kube, &kube_events, j->ns, j->event_name, "", KUBE_PATCH_MERGE, j->body, NULL, e);
    if (kube_create(ev->kube, &kube_events, j->ns, j->body, NULL, e) == 0 || e->cls == ERR_EXISTS)
        return 0;
    return -1;
}

static void written_locked(
    struct events *ev, const struct event_write *j, int rc, const struct err *e)
{
    struct event_record *r = map_get(ev->records, j->key);
    if (!r)
        return;
    r->due_ns = clock_mono_ns() + UPDATE_NS;
    if (rc == 0) {
        metric_add(ev->written, 1);
        if (!r->event_name)
            r->event_name = xstrdup(j->event_name);
        if (r->count > j->count) /* seen again meanwhile */
            enqueue_locked(ev, r);
    } else if (j->exists && e->cls == ERR_NOTFOUND) { /* the server forgets Events after an hour */
        free(r->event_name);
        r->event_name = NULL;
        r->first_ns = r->last_ns;
        r->due_ns = 0;
        enqueue_locked(ev, r);
    } else if (e->cls == ERR_RETRY && !atomic_load(&ev->writer.stop)) {
        enqueue_locked(ev, r);
    } else {
        metric_add(ev->dropped, 1);
        log_kv(LOG_DEBUG, "an Event could not be written", "reason", r->reason, "object", r->name,
            "error", e->msg, NULL);
    }
}

static void sooner(int64_t *wait_ns, int64_t ns)
{
    if (*wait_ns < 0 || ns < *wait_ns)
        *wait_ns = ns;
}

/* Takes the first record that may be written now off the list; else *wait_ns becomes how long until
 * there is one, if that is sooner (-1: none waits). */
static struct event_record *take_due_locked(
    struct events *ev, struct event_list *l, int64_t now, int64_t *wait_ns)
{
    for (struct event_record **at = &l->first; *at; at = &(*at)->next) {
        struct event_record *r = *at;
        if (r->due_ns > now && !atomic_load(&ev->writer.stop)) {
            sooner(wait_ns, r->due_ns - now);
            continue;
        }
        *at = r->next;
        ev->waiting--;
        if (l->last == &r->next)
            l->last = at;
        r->queued = false;
        return r;
    }
    return NULL;
}

/* Warnings go first, and at once; the others at a pace that leaves the server to the
 * controllers. */
static struct event_record *next_locked(struct events *ev, int64_t now, int64_t *wait_ns)
{
    *wait_ns = -1;
    struct event_record *r = take_due_locked(ev, &ev->warnings, now, wait_ns);
    if (r)
        return r;
    int64_t early = ev->paced_ns - now - EVENT_FLOOD * PACE_NS;
    if (ev->normal.first && early > 0 && !atomic_load(&ev->writer.stop)) {
        sooner(wait_ns, early);
        return NULL;
    }
    r = take_due_locked(ev, &ev->normal, now, wait_ns);
    if (r)
        ev->paced_ns = MAX(ev->paced_ns, now) + PACE_NS;
    return r;
}

static void forget_old_locked(struct events *ev, int64_t now)
{
    if (now - ev->cleaned_ns < 60 * NS_PER_S)
        return;
    ev->cleaned_ns = now;
    const char *key;
    void *p;
    for (size_t i = 0; map_next(ev->records, &i, &key, &p);)
        if (!((struct event_record *)p)->queued
            && now - ((struct event_record *)p)->seen_ns > EQUAL_NS)
            map_del(ev->records, ((struct event_record *)p)->key);
    for (size_t i = 0; map_next(ev->subjects, &i, &key, &p);)
        if (now - ((struct event_subject *)p)->since_ns > EQUAL_NS)
            map_del(ev->subjects, key);
}

static void events_thread(void *user)
{
    struct events *ev = user;
    int64_t stop_at = 0;
    pthread_mutex_lock(&ev->mu);
    for (;;) {
        int64_t now = clock_mono_ns(), wait_ns = -1;
        if (atomic_load(&ev->writer.stop) && !stop_at)
            stop_at = now + FLUSH_NS;
        struct event_record *r = stop_at && now > stop_at ? NULL : next_locked(ev, now, &wait_ns);
        if (!r && atomic_load(&ev->writer.stop))
            break;
        if (!r) {
            forget_old_locked(ev, now);
            task_wait(&ev->writer, now + (wait_ns < 0 ? 60 * NS_PER_S : wait_ns));
            continue;
        }
        struct event_write j = event_write_new(ev, r);
        pthread_mutex_unlock(&ev->mu);
        struct err e = ERR_INIT;
        int rc = event_write_run(ev, &j, &e);
        pthread_mutex_lock(&ev->mu);
        written_locked(ev, &j, rc, &e);
        event_write_free(&j);
    }
    pthread_mutex_unlock(&ev->mu);
}

METRIC_COUNTER(
    events_dropped, "millrace_events_dropped_total", "", "Events that were not written.");
METRIC_COUNTER(events_written, "millrace_events_written_total", "",
    "Event writes, repeated ones as updates of a count.");

struct events *events_new(struct kube *k, const char *component, const char *instance)
{
    struct events *ev = xcalloc(1, sizeof *ev);
    ev->kube = k;
    ev->component = xstrdup(component);
    ev->instance = xstrdup(instance);
    ev->records = map_new(event_record_free);
    ev->subjects = map_new(free);
    ev->normal.last = &ev->normal.first;
    ev->warnings.last = &ev->warnings.first;
    ev->dropped = metric_of(&events_dropped);
    ev->written = metric_of(&events_written);
    pthread_mutex_init(&ev->mu, NULL);
    if (task_start_with(&ev->writer, &ev->mu, "events", events_thread, ev, NULL))
        abort(); /* at start-up; no thread for it means no thread for anything */
    return ev;
}

void events_free(struct events *ev)
{
    if (!ev)
        return;
    task_stop(&ev->writer);
    map_free(ev->records);
    map_free(ev->subjects);
    free(ev->component);
    free(ev->instance);
    pthread_mutex_destroy(&ev->mu);
    free(ev);
}
