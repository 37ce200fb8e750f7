/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/report/status.h"

#include "fuse/cache/cache.h"
#include "fuse/file/passthrough.h"
#include "fuse/file/upload.h"
#include "fuse/index/index.h"
#include "fuse/peers/peers.h"
#include "fuse/prefetch/hint.h"
#include "fuse/report/stall.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/http/health.h"
#include "lib/http/metric.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STALLS_MAX (64u << 10) /* bytes of text about callers */

struct status {
    pthread_mutex_t mu;
    const struct conf *conf;              /* mu */
    struct status_sources from;           /* mu: all or none */
    struct backings *backings;            /* mu */
    const char *profile;                  /* mu; NULL: not chosen yet */
    struct report_problem whole, *mounts; /* mu */
    bool ready, serving;                  /* mu */
    int64_t began_ns;                     /* monotonic */
    struct health health;
    struct http_server *server;
};

struct status *status_new(void)
{
    struct status *s = xcalloc(1, sizeof *s);
    s->began_ns = clock_mono_ns();
    pthread_mutex_init(&s->mu, NULL);
    return s;
}

void status_free(struct status *s)
{
    if (!s)
        return;
    if (s->server)
        serve_stop(s->server);
    pthread_mutex_destroy(&s->mu);
    free(s->mounts);
    free(s);
}

void status_conf(struct status *s, const struct conf *conf)
{
    pthread_mutex_lock(&s->mu);
    s->conf = conf;
    free(s->mounts);
    s->mounts = conf ? xcalloc(conf->nmounts, sizeof *s->mounts) : NULL;
    pthread_mutex_unlock(&s->mu);
}

void status_data(struct status *s, const struct status_sources *from)
{
    pthread_mutex_lock(&s->mu);
    s->from = from ? *from : (struct status_sources){0};
    pthread_mutex_unlock(&s->mu);
}

void status_profile(struct status *s, bool sealed, struct backings *backings)
{
    pthread_mutex_lock(&s->mu);
    s->profile = sealed ? "sealed" : "open";
    s->backings = backings;
    pthread_mutex_unlock(&s->mu);
}

void status_fail(struct status *s, const char *reason, const char *message)
{
    pthread_mutex_lock(&s->mu);
    report_problem_set(&s->whole, reason, message);
    s->ready = false;
    pthread_mutex_unlock(&s->mu);
}

void status_mount(struct status *s, size_t mount, const char *reason, const char *message)
{
    pthread_mutex_lock(&s->mu);
    report_problem_set(&s->mounts[mount], reason, message);
    pthread_mutex_unlock(&s->mu);
}

void status_ready(struct status *s)
{
    pthread_mutex_lock(&s->mu);
    report_problem_set(&s->whole, "", "");
    s->ready = true;
    pthread_mutex_unlock(&s->mu);
}

void status_serving(struct status *s, bool serving)
{
    pthread_mutex_lock(&s->mu);
    s->serving = serving;
    pthread_mutex_unlock(&s->mu);
}

/* What to tell of the whole: its own problem, a mount's, or a full disk (which does not make it
 * unready). */
static const struct report_problem *status_worst(const struct status *s)
{
    mutex_assert_held(&s->mu);
    static const struct report_problem none,
        unwritten = {"CacheDiskFull",
            "the disk of the cache directory is full: written files cannot be staged; make room on the node or lower spec.cache.tiers[].quota"},
        uncached = {"CacheDiskFull", CACHE_FULL_MESSAGE};
    struct upload_stats w;
    struct cache_stats c = {0};
    if (*s->whole.reason)
        return &s->whole;
    for (size_t i = 0; s->conf && i < s->conf->nmounts; i++)
        if (*s->mounts[i].reason)
            return &s->mounts[i];
    upload_stats(&w);
    if (w.disk_full)
        return &unwritten;
    if (s->from.cache)
        cache_stats(s->from.cache, &c);
    return c.disk_full ? &uncached : &none;
}

static void add_stall(void *user, const struct stall_times *t)
{
    struct buf *out = user;
    const struct report_member members[] = {
        {REPORT_STALL_CALLER, REPORT_TEXT, 0, t->caller},
        {REPORT_STALL_READS, REPORT_COUNT, t->reads, NULL},
        {REPORT_STALL_WAITING_MS, REPORT_COUNT, t->waiting_ns / NS_PER_MS, NULL},
        {REPORT_STALL_STORE_MS, REPORT_COUNT, t->store_ns / NS_PER_MS, NULL},
        {REPORT_STALL_WORKER_MS, REPORT_COUNT, t->worker_ns / NS_PER_MS, NULL},
        {REPORT_STALL_DISK_MS, REPORT_COUNT, t->disk_ns / NS_PER_MS, NULL},
    };
    buf_adds(out, out->data[out->len - 1] == '[' ? "{" : ",{");
    report_add(out, members, ARRAY_LEN(members));
    buf_addc(out, '}');
}

static void add_hints_and_index(const struct status *s, struct buf *out)
{
    struct hints_stats h = {0};
    struct inodes_stats ix = {0};
    if (s->from.hints)
        hints_stats(s->from.hints, &h);
    if (s->from.inodes)
        inodes_stats(s->from.inodes, &ix);
    const struct report_member members[] = {
        {REPORT_HINTS_LISTS, REPORT_COUNT, h.lists, NULL},
        {REPORT_HINTS_ENTRIES, REPORT_COUNT, h.entries, NULL},
        {REPORT_HINTS_DONE, REPORT_COUNT, h.done, NULL},
        {REPORT_HINTS_BYTES, REPORT_COUNT, h.bytes, NULL},
        {REPORT_HINTS_FOLLOWED, REPORT_COUNT, h.followed, NULL},
        {REPORT_HINTS_MISSING, REPORT_COUNT, h.missing, NULL},
        {REPORT_HINTS_REFUSED, REPORT_COUNT, h.refused, NULL},
        {REPORT_HINTS_FAILED, REPORT_COUNT, h.failed, NULL},
        {REPORT_HINTS_FIRST_MISSING, REPORT_TEXT, 0, h.first_missing},
        {REPORT_INDEX_INODES, REPORT_COUNT, ix.inodes, NULL},
        {REPORT_INDEX_NAME_BYTES, REPORT_COUNT, ix.name_bytes, NULL},
    };
    report_add(out, members, ARRAY_LEN(members));
}

void status_json(struct status *s, struct buf *out)
{
    struct cache_stats c = {0};
    struct upload_stats w;
    struct peers_stats r = {0};
    upload_stats(&w);
    pthread_mutex_lock(&s->mu);
    if (s->from.cache)
        cache_stats(s->from.cache, &c);
    if (s->from.peers)
        peers_stats(s->from.peers, &r);
    report_begin(out,
        &(struct report_common){.component = COMPONENT_CLIENT,
            .ready = s->ready,
            .serving = s->serving,
            .problem = status_worst(s),
            .conf = s->conf,
            .mounts = s->mounts,
            .checked = true,
            .all_ready = s->ready,
            .cache = {c.used_bytes, c.capacity_bytes, c.files, c.complete_files, c.pinned_bytes,
                c.pinned_most, c.pinned_files},
            .reads = {c.hit_bytes, r.worker_bytes, r.store_bytes},
            .writes = {w.bytes, w.pending}});
    const struct report_member members[] = {
        {REPORT_PROFILE, REPORT_TEXT, 0, s->profile ? s->profile : ""},
        {REPORT_BACKING_FILES, REPORT_COUNT, s->backings ? backings_count(s->backings) : 0, NULL},
        {REPORT_UP_MS, REPORT_COUNT, (uint64_t)(clock_mono_ns() - s->began_ns) / NS_PER_MS, NULL},
    };
    report_add(out, members, ARRAY_LEN(members));
    buf_adds(out, ",\"" REPORT_STALLS "\":[");
    if (s->from.stalls)
        stalls_each(s->from.stalls, add_stall, out);
    buf_addc(out, ']');
    add_hints_and_index(s, out);
    buf_adds(out, "}\n");
    pthread_mutex_unlock(&s->mu);
}

static bool status_is_ready(void *user, struct buf *out)
{
    struct status *s = user;
    pthread_mutex_lock(&s->mu);
    const struct report_problem *p = status_worst(s);
    bool ready = s->ready;
    if (!ready)
        buf_addf(out, "%s: %s\n", *p->reason ? p->reason : "Starting",
            *p->message ? p->message : "the store is being looked at");
    pthread_mutex_unlock(&s->mu);
    return ready;
}

static void answer_status(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)req;
    resp->content_type = "application/json";
    status_json(user, &resp->body);
}

static void set_gauge(const char *name, const char *labels, const char *help, uint64_t value)
{
    metric_set(metric_gauge(name, labels, help), (int64_t)value);
}

static void set_counter(const char *name, const char *labels, const char *help, uint64_t value)
{
    metric_set(metric_counter(name, labels, help), (int64_t)value);
}

static void set_hints(const struct hints_stats *h)
{
    static const char help[] = "Entries of hinted lists, by what became of them.";
    set_gauge("millrace_hint_lists", "", "Lists of hints that are followed now.", h->lists);
    set_counter("millrace_hint_entries_total", "result=\"given\"", help, h->entries);
    set_counter("millrace_hint_entries_total", "result=\"done\"", help, h->done);
    set_counter("millrace_hint_entries_total", "result=\"followed\"", help, h->followed);
    set_counter("millrace_hint_entries_total", "result=\"missing\"", help, h->missing);
    set_counter("millrace_hint_entries_total", "result=\"refused\"", help, h->refused);
    set_counter("millrace_hint_entries_total", "result=\"failed\"", help, h->failed);
    set_counter("millrace_hint_bytes_total", "", "Bytes made ready ahead of readers.", h->bytes);
}

/* Written here and not kept as metrics: callers come and go. */
struct stall_text {
    struct buf *waiting, *waits;
};

static void write_stall(void *user, const struct stall_times *t)
{
    struct stall_text *out = user;
    char caller[CALLER_MAX];
    size_t n = 0;
    for (const char *p = t->caller; *p; p++)
        caller[n++] = *p < 0x20 || *p == '"' || *p == '\\' ? '_' : *p;
    caller[n] = '\0';
    buf_addf(out->waiting, "millrace_read_waiting_seconds_total{caller=\"%s\"} %.3f\n", caller,
        (double)t->waiting_ns / 1e9);
    const struct {
        const char *what;
        uint64_t ns;
    } waits[] = {{"store", t->store_ns}, {"worker", t->worker_ns}, {"disk", t->disk_ns}};
    for (size_t i = 0; i < ARRAY_LEN(waits); i++)
        buf_addf(out->waits, "millrace_read_wait_seconds_total{caller=\"%s\",for=\"%s\"} %.3f\n",
            caller, waits[i].what, (double)waits[i].ns / 1e9);
}

static void write_stalls(const struct status *s, struct buf *out)
{
    cleanup_buf struct buf waits = BUF_INIT(STALLS_MAX);
    struct stall_text text = {out, &waits};
    if (!s->from.stalls)
        return;
    buf_adds(out,
        "# HELP millrace_read_waiting_seconds_total Time in which at least one read of this caller waited for data.\n"
        "# TYPE millrace_read_waiting_seconds_total counter\n");
    buf_adds(&waits,
        "# HELP millrace_read_wait_seconds_total Time that reads waited, all of a caller together, by what they waited for.\n"
        "# TYPE millrace_read_wait_seconds_total counter\n");
    stalls_each(s->from.stalls, write_stall, &text);
    buf_add(out, waits.data, waits.len);
}

static void collect_client_metrics(void *user, struct buf *out)
{
    struct status *s = user;
    struct cache_stats c = {0};
    struct upload_stats w;
    struct inodes_stats ix = {0};
    struct peers_stats r = {0};
    struct hints_stats h = {0};
    upload_stats(&w);
    pthread_mutex_lock(&s->mu);
    if (s->from.cache) {
        hints_stats(s->from.hints, &h);
        cache_stats(s->from.cache, &c);
        inodes_stats(s->from.inodes, &ix);
        peers_stats(s->from.peers, &r);
    }
    write_stalls(s, out);
    set_gauge("millrace_ready", "", "1 when every store of the dataset answers.", s->ready);
    set_gauge("millrace_serving", "", "1 while a mount is served.", s->serving);
    pthread_mutex_unlock(&s->mu);
    static const char read_help[] = "Bytes read, by where they were.";
    set_counter("millrace_read_bytes_total", "from=\"cache\"", read_help, c.hit_bytes);
    set_counter("millrace_read_bytes_total", "from=\"worker\"", read_help, r.worker_bytes);
    set_counter("millrace_read_bytes_total", "from=\"store\"", read_help, r.store_bytes);
    set_counter("millrace_worker_hedged_total", "",
        "Times the store was asked beside a slow worker.", r.hedged);
    set_gauge("millrace_workers_down", "", "Cache workers that do not answer.", (uint64_t)r.down);
    set_gauge("millrace_cache_used_bytes", "", "Bytes in the cache.", c.used_bytes);
    set_gauge("millrace_cache_capacity_bytes", "", "Quota of all tiers.", c.capacity_bytes);
    set_gauge("millrace_cache_files", "", "Files with bytes in the cache.", c.files);
    set_gauge("millrace_cache_pinned_bytes", "", "Room in the cache that pinned files have.",
        c.pinned_bytes);
    set_gauge("millrace_cache_pinned_files", "", "Pinned files.", c.pinned_files);
    set_counter(
        "millrace_cache_evicted_bytes_total", "", "Bytes evicted from the cache.", c.evicted_bytes);
    set_counter("millrace_cache_corrupt_blocks_total", "", "Blocks whose checksum was wrong.",
        c.corrupt_blocks);
    set_counter("millrace_upload_bytes_total", "", "Bytes uploaded.", w.bytes);
    set_counter("millrace_uploads_total", "result=\"ok\"", "Uploads of written files.", w.files);
    set_counter(
        "millrace_uploads_total", "result=\"failed\"", "Uploads of written files.", w.failed);
    set_gauge(
        "millrace_pending_files", "", "Written files that the store does not have yet.", w.pending);
    set_gauge("millrace_index_inodes", "", "Names known.", ix.inodes);
    set_hints(&h);
}

void status_listen(struct status *s, const char *address)
{
    struct serve_route routes[HEALTH_ROUTES + 1];
    s->health = (struct health){status_is_ready, collect_client_metrics, s};
    health_routes(&s->health, routes);
    routes[HEALTH_ROUTES] = (struct serve_route){"GET", "/status", answer_status, s};
    char any6[32], any4[32];
    snprintf(any6, sizeof any6, "[::]:%d", PORT_HTTP);
    snprintf(any4, sizeof any4, "0.0.0.0:%d", PORT_HTTP);
    const char *tries[] = {address ? address : any6, address ? NULL : any4};
    struct err e = ERR_INIT;
    for (size_t i = 0; i < ARRAY_LEN(tries) && tries[i] && !s->server; i++) {
        struct serve_conf conf = {
            .address = tries[i], .routes = routes, .nroutes = ARRAY_LEN(routes), .max_threads = 4};
        s->server = serve_start(&conf, &e);
    }
    if (!s->server)
        log_kv(LOG_ERROR, "health and status are not served", "error", e.msg, NULL);
}
