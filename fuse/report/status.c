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
#include "lib/base/names.h"
#include "lib/http/metric.h"
#include "lib/http/serve.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STALLS_MAX (64u << 10) /* bytes of text about callers */

struct trouble {
    char reason[32], message[sizeof((struct err *)0)->msg];
};

struct status {
    pthread_mutex_t mu;
    const struct conf *conf;       /* mu */
    struct status_sources from;    /* mu: all or none */
    struct backings *backings;     /* mu */
    const char *profile;           /* mu; NULL: not chosen yet */
    struct trouble whole, *mounts; /* mu */
    bool ready, serving;           /* mu */
    int64_t began_ns;              /* monotonic */
    struct serve *server;
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

static void set_trouble(struct trouble *t, const char *reason, const char *message)
{
    snprintf(t->reason, sizeof t->reason, "%s", reason);
    snprintf(t->message, sizeof t->message, "%s", message);
    log_redact_text(t->message);
}

void status_fail(struct status *s, const char *reason, const char *message)
{
    pthread_mutex_lock(&s->mu);
    set_trouble(&s->whole, reason, message);
    s->ready = false;
    pthread_mutex_unlock(&s->mu);
}

void status_mount(struct status *s, size_t mount, const char *reason, const char *message)
{
    pthread_mutex_lock(&s->mu);
    set_trouble(&s->mounts[mount], reason, message);
    pthread_mutex_unlock(&s->mu);
}

void status_ready(struct status *s)
{
    pthread_mutex_lock(&s->mu);
    set_trouble(&s->whole, "", "");
    s->ready = true;
    pthread_mutex_unlock(&s->mu);
}

void status_serving(struct status *s, bool serving)
{
    pthread_mutex_lock(&s->mu);
    s->serving = serving;
    pthread_mutex_unlock(&s->mu);
}

/* What to tell of the whole: its own trouble, a mount's, or a full disk (which does not make it
 * unready). */
static const struct trouble *worst(const struct status *s)
{
    static const struct trouble none,
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

static void add_mounts(const struct status *s, struct buf *out)
{
    buf_adds(out, ",\"mounts\":[");
    for (size_t i = 0; s->conf && i < s->conf->nmounts; i++) {
        buf_adds(out, i ? ",{\"mountPoint\":" : "{\"mountPoint\":");
        buf_add_json_string(out, s->conf->mounts[i].mount_point);
        buf_adds(out, ",\"path\":");
        buf_add_json_string(out, s->conf->mounts[i].path);
        buf_addf(
            out, ",\"ready\":%s,\"reason\":", s->ready || !*s->mounts[i].reason ? "true" : "false");
        buf_add_json_string(out, s->mounts[i].reason);
        buf_adds(out, ",\"message\":");
        buf_add_json_string(out, s->mounts[i].message);
        buf_addc(out, '}');
    }
    buf_addc(out, ']');
}

static void add_stall(void *user, const struct stall_times *t)
{
    struct buf *out = user;
    buf_adds(out, out->data[out->len - 1] == '[' ? "{\"caller\":" : ",{\"caller\":");
    buf_add_json_string(out, t->caller);
    buf_addf(out,
        ",\"reads\":%" PRIu64 ",\"waitingMs\":%" PRIu64 ",\"storeMs\":%" PRIu64
        ",\"workerMs\":%" PRIu64 ",\"diskMs\":%" PRIu64 "}",
        t->reads, t->waiting_ns / 1000000, t->store_ns / 1000000, t->worker_ns / 1000000,
        t->disk_ns / 1000000);
}

static void add_stalls(const struct status *s, struct buf *out)
{
    buf_addf(
        out, ",\"upMs\":%" PRId64 ",\"stalls\":[", (clock_mono_ns() - s->began_ns) / NS_PER_MS);
    if (s->from.stalls)
        stalls_each(s->from.stalls, add_stall, out);
    buf_addc(out, ']');
}

static void add_hints(const struct status *s, struct buf *out)
{
    struct hints_stats h = {0};
    if (s->from.hints)
        hints_stats(s->from.hints, &h);
    buf_addf(out,
        ",\"hints\":{\"lists\":%" PRIu64 ",\"entries\":%" PRIu64 ",\"done\":%" PRIu64
        ",\"bytes\":%" PRIu64 ",\"followed\":%" PRIu64 ",\"missing\":%" PRIu64
        ",\"refused\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"firstMissing\":",
        h.lists, h.entries, h.done, h.bytes, h.followed, h.missing, h.refused, h.failed);
    buf_add_json_string(out, h.first_missing);
    buf_addc(out, '}');
}

void status_json(struct status *s, struct buf *out)
{
    struct cache_stats c = {0};
    struct upload_stats w;
    struct inodes_stats ix = {0};
    struct peers_stats r = {0};
    upload_stats(&w);
    pthread_mutex_lock(&s->mu);
    if (s->from.cache)
        cache_stats(s->from.cache, &c);
    if (s->from.inodes)
        inodes_stats(s->from.inodes, &ix);
    if (s->from.peers)
        peers_stats(s->from.peers, &r);
    const struct trouble *t = worst(s);
    buf_addf(out, "{\"component\":\"" COMPONENT_CLIENT "\",\"ready\":%s,\"reason\":",
        s->ready ? "true" : "false");
    buf_add_json_string(out, t->reason);
    buf_adds(out, ",\"message\":");
    buf_add_json_string(out, t->message);
    buf_addf(out, ",\"serving\":%s", s->serving ? "true" : "false");
    buf_addf(out, ",\"profile\":\"%s\",\"backingFiles\":%zu", s->profile ? s->profile : "",
        s->backings ? backings_count(s->backings) : 0);
    add_mounts(s, out);
    buf_addf(out,
        ",\"cache\":{\"usedBytes\":%" PRIu64 ",\"capacityBytes\":%" PRIu64 ",\"files\":%" PRIu64
        ",\"completeFiles\":%" PRIu64 ",\"pinnedBytes\":%" PRIu64 ",\"pinnedMost\":%" PRIu64
        ",\"pinnedFiles\":%" PRIu64 "}",
        c.used_bytes, c.capacity_bytes, c.files, c.complete_files, c.pinned_bytes, c.pinned_most,
        c.pinned_files);
    buf_addf(out,
        ",\"reads\":{\"cacheBytes\":%" PRIu64 ",\"workerBytes\":%" PRIu64 ",\"storeBytes\":%" PRIu64
        "}",
        c.hit_bytes, r.worker_bytes, r.store_bytes);
    buf_addf(out, ",\"writes\":{\"bytes\":%" PRIu64 ",\"pendingFiles\":%" PRIu64 "}", w.bytes,
        w.pending);
    add_stalls(s, out);
    add_hints(s, out);
    buf_addf(out, ",\"index\":{\"inodes\":%" PRIu64 ",\"nameBytes\":%" PRIu64 "}}\n", ix.inodes,
        ix.name_bytes);
    pthread_mutex_unlock(&s->mu);
}

static void on_healthz(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)user;
    (void)req;
    buf_adds(&resp->body, "ok\n");
}

static void on_readyz(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct status *s = user;
    (void)req;
    pthread_mutex_lock(&s->mu);
    const struct trouble *t = worst(s);
    resp->status = s->ready ? 200 : 503;
    if (s->ready)
        buf_adds(&resp->body, "ok\n");
    else
        buf_addf(&resp->body, "%s: %s\n", *t->reason ? t->reason : "Starting",
            *t->message ? t->message : "the store is being looked at");
    pthread_mutex_unlock(&s->mu);
}

static void on_status(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)req;
    resp->content_type = "application/json";
    status_json(user, &resp->body);
}

static void set(const char *name, const char *labels, const char *help, uint64_t value)
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
    set("millrace_hint_lists", "", "Lists of hints that are followed now.", h->lists);
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

static void on_metrics(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct status *s = user;
    struct cache_stats c = {0};
    struct upload_stats w;
    struct inodes_stats ix = {0};
    struct peers_stats r = {0};
    struct hints_stats h = {0};
    (void)req;
    upload_stats(&w);
    pthread_mutex_lock(&s->mu);
    if (s->from.cache) {
        hints_stats(s->from.hints, &h);
        cache_stats(s->from.cache, &c);
        inodes_stats(s->from.inodes, &ix);
        peers_stats(s->from.peers, &r);
    }
    write_stalls(s, &resp->body);
    set("millrace_ready", "", "1 when every store of the dataset answers.", s->ready);
    set("millrace_serving", "", "1 while a mount is served.", s->serving);
    pthread_mutex_unlock(&s->mu);
    static const char read_help[] = "Bytes read, by where they were.";
    set_counter("millrace_read_bytes_total", "from=\"cache\"", read_help, c.hit_bytes);
    set_counter("millrace_read_bytes_total", "from=\"worker\"", read_help, r.worker_bytes);
    set_counter("millrace_read_bytes_total", "from=\"store\"", read_help, r.store_bytes);
    set_counter("millrace_worker_hedged_total", "",
        "Times the store was asked beside a slow worker.", r.hedged);
    set("millrace_workers_down", "", "Cache workers that do not answer.", (uint64_t)r.down);
    set("millrace_cache_used_bytes", "", "Bytes in the cache.", c.used_bytes);
    set("millrace_cache_capacity_bytes", "", "Quota of all tiers.", c.capacity_bytes);
    set("millrace_cache_files", "", "Files with bytes in the cache.", c.files);
    set("millrace_cache_pinned_bytes", "", "Room in the cache that pinned files have.",
        c.pinned_bytes);
    set("millrace_cache_pinned_files", "", "Pinned files.", c.pinned_files);
    set_counter(
        "millrace_cache_evicted_bytes_total", "", "Bytes evicted from the cache.", c.evicted_bytes);
    set_counter("millrace_cache_corrupt_blocks_total", "", "Blocks whose checksum was wrong.",
        c.corrupt_blocks);
    set_counter("millrace_upload_bytes_total", "", "Bytes uploaded.", w.bytes);
    set_counter("millrace_uploads_total", "result=\"ok\"", "Uploads of written files.", w.files);
    set_counter(
        "millrace_uploads_total", "result=\"failed\"", "Uploads of written files.", w.failed);
    set("millrace_pending_files", "", "Written files that the store does not have yet.", w.pending);
    set("millrace_index_inodes", "", "Names known.", ix.inodes);
    set_hints(&h);
    resp->content_type = "text/plain; version=0.0.4";
    metric_write(&resp->body);
}

void status_listen(struct status *s, const char *address)
{
    const struct serve_route routes[] = {
        {"GET", "/healthz", on_healthz, s},
        {"GET", "/readyz", on_readyz, s},
        {"GET", "/status", on_status, s},
        {"GET", "/metrics", on_metrics, s},
    };
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
