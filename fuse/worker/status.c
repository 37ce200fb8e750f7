/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker says of itself over HTTP: health, status, metrics. */
#include "fuse/worker/server.h"

#include "lib/base/mem.h"
#include "lib/http/metric.h"

static void serve_status(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    static const struct report_problem full = {"CacheDiskFull", CACHE_FULL_MESSAGE};
    struct server *s = user;
    struct buf *out = &resp->body;
    struct cache *cache = atomic_load(&s->cache);
    struct cache_stats c = {0};
    (void)req;
    if (cache)
        cache_stats(cache, &c);
    resp->content_type = "application/json";
    pthread_mutex_lock(&s->mu);
    const struct report_problem *p = server_worst(s);
    bool ready = !*p->reason;
    report_begin(out,
        &(struct report_common){.component = s->component,
            .ready = ready,
            .serving = cache != NULL,
            .problem = ready && c.disk_full ? &full : p, /* it serves all the same */
            .conf = s->conf,
            .mounts = s->mounts,
            .checked = s->checked,
            .cache = {c.used_bytes, c.capacity_bytes, c.files, c.complete_files, c.pinned_bytes,
                c.pinned_most, c.pinned_files},
            .reads = {.cache = c.hit_bytes, .store = c.fetched_bytes}});
    const struct report_member inventory[] = {
        {REPORT_INVENTORY_BYTES, REPORT_COUNT, s->inventory.bytes, NULL},
        {REPORT_INVENTORY_FILES, REPORT_COUNT, s->inventory.files, NULL},
        {REPORT_INVENTORY_COMPLETE, REPORT_BOOL, s->inventory.complete, NULL},
    };
    if (s->has_inventory)
        report_add(out, inventory, ARRAY_LEN(inventory));
    pthread_mutex_unlock(&s->mu);
    if (s->more)
        s->more(s->more_user, out);
    buf_adds(out, "}\n");
}

static bool server_health_ready(void *user, struct buf *out)
{
    struct server *s = user;
    pthread_mutex_lock(&s->mu);
    struct report_problem p = *server_worst(s);
    pthread_mutex_unlock(&s->mu);
    if (*p.reason)
        buf_addf(out, "%s: %s\n", p.reason, p.message);
    return !*p.reason;
}

static void set_metric(struct metric *m, uint64_t value) { metric_set(m, (int64_t)value); }

static void collect_worker_metrics(void *user, struct buf *out)
{
    static const char from[] = "Bytes read, by where they were.";
    struct server *s = user;
    struct cache *cache = atomic_load(&s->cache);
    struct cache_stats c = {0};
    (void)out;
    if (cache)
        cache_stats(cache, &c);
    set_metric(metric_gauge("millrace_ready", "", "1 when every store of the dataset answers."),
        server_ready(s));
    set_metric(
        metric_counter("millrace_read_bytes_total", "from=\"store\"", from), c.fetched_bytes);
    set_metric(metric_counter("millrace_read_bytes_total", "from=\"cache\"", from), c.hit_bytes);
    set_metric(metric_counter("millrace_served_bytes_total", "", "Bytes sent to clients."),
        s->served_bytes);
    set_metric(metric_counter("millrace_requests_total", "result=\"ok\"", "Requests for data."),
        s->requests - s->failed_requests);
    set_metric(metric_counter("millrace_requests_total", "result=\"failed\"", "Requests for data."),
        s->failed_requests);
    set_metric(metric_gauge("millrace_cache_used_bytes", "", "Bytes in the cache."), c.used_bytes);
    set_metric(
        metric_gauge("millrace_cache_capacity_bytes", "", "Quota of all tiers."), c.capacity_bytes);
    set_metric(metric_gauge("millrace_cache_files", "", "Files with bytes in the cache."), c.files);
    set_metric(metric_gauge(
                   "millrace_cache_pinned_bytes", "", "Room in the cache that pinned files have."),
        c.pinned_bytes);
    set_metric(metric_gauge("millrace_cache_pinned_files", "", "Pinned files."), c.pinned_files);
    set_metric(metric_gauge("millrace_cache_buffer_bytes", "", "Memory set aside for fetches."),
        c.buffer_bytes);
    set_metric(
        metric_counter("millrace_cache_evicted_bytes_total", "", "Bytes evicted from the cache."),
        c.evicted_bytes);
    set_metric(metric_counter("millrace_cache_moved_bytes_total", "", "Bytes moved between tiers."),
        c.moved_bytes);
    set_metric(
        metric_counter("millrace_cache_full_total", "", "Times a tier had no room."), c.full);
    set_metric(metric_counter(
                   "millrace_cache_corrupt_blocks_total", "", "Blocks whose checksum was wrong."),
        c.corrupt_blocks);
}

void status_routes(struct server *s, struct serve_route out[STATUS_ROUTES])
{
    s->health = (struct health){server_health_ready, collect_worker_metrics, s};
    health_routes(&s->health, out);
    out[HEALTH_ROUTES] = (struct serve_route){"GET", "/status", serve_status, s};
}
