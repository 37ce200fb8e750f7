/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker says of itself over HTTP: health and status, and metrics on a port of their own. */
#include "fuse/worker/server.h"

#include "fuse/peers/known.h"
#include "lib/base/mem.h"
#include "lib/http/metric.h"

static void serve_status(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    static const struct report_problem full = {"CacheDiskFull", CACHE_FULL_MESSAGE};
    struct server *s = user;
    struct buf *out = &resp->body;
    struct cache *cache = atomic_load(&s->cache);
    struct cache_stats c = {0};
    char request[SIGN_REQUEST_MAX + 1];
    bool known = known_asker(s->key, req, request);
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
            .to_stranger = !known,
            .checked = s->checked,
            .cache = {c.used_bytes, c.capacity_bytes, c.files, c.complete_files, c.pinned_bytes,
                c.pinned_most, c.pinned_files, c.evicted_bytes},
            .reads = {.cache = c.hit_bytes, .store = c.fetched_bytes}});
    const struct report_member inventory[] = {
        {REPORT_INVENTORY_BYTES, REPORT_COUNT, s->inventory.bytes, NULL},
        {REPORT_INVENTORY_FILES, REPORT_COUNT, s->inventory.files, NULL},
        {REPORT_INVENTORY_COMPLETE, REPORT_BOOL, s->inventory.complete, NULL},
    };
    if (s->has_inventory)
        report_add(out, inventory, ARRAY_LEN(inventory));
    const struct report_member since[] = {
        {REPORT_STARTED, REPORT_COUNT, s->started_ms, NULL},
        {REPORT_EVICTED_LOADED, REPORT_COUNT, c.evicted_loaded_bytes, NULL},
    };
    report_add(out, since, ARRAY_LEN(since));
    if (s->more)
        s->more(s->more_user, known, out);
    pthread_mutex_unlock(&s->mu);
    buf_adds(out, "}\n");
    if (known)
        known_sign(s->key, request, resp);
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

METRIC_GAUGE(ready, "millrace_ready", "", "1 when every store of the dataset answers.");
METRIC_COUNTER(read_bytes, "millrace_read_bytes_total", "from", "Bytes read, by where they were.");
METRIC_COUNTER(served_bytes, "millrace_served_bytes_total", "", "Bytes sent to clients.");
METRIC_COUNTER(requests, "millrace_requests_total", "result", "Requests for data.");
METRIC_GAUGE(used, "millrace_cache_used_bytes", "", "Bytes in the cache.");
METRIC_GAUGE(capacity, "millrace_cache_capacity_bytes", "", "Quota of all tiers.");
METRIC_GAUGE(files, "millrace_cache_files", "", "Files with bytes in the cache.");
METRIC_GAUGE(
    pinned_bytes, "millrace_cache_pinned_bytes", "", "Room in the cache that pinned files have.");
METRIC_GAUGE(pinned_files, "millrace_cache_pinned_files", "", "Pinned files.");
METRIC_GAUGE(buffer_bytes, "millrace_cache_buffer_bytes", "", "Memory set aside for fetches.");
METRIC_COUNTER(evicted, "millrace_cache_evicted_bytes_total", "", "Bytes evicted from the cache.");
METRIC_COUNTER(evicted_loaded, "millrace_cache_evicted_loaded_bytes_total", "",
    "Bytes evicted of what spec.cache.preload names.");
METRIC_COUNTER(moved, "millrace_cache_moved_bytes_total", "", "Bytes moved between tiers.");
METRIC_COUNTER(full, "millrace_cache_full_total", "", "Times a tier had no room.");
METRIC_COUNTER(
    corrupt, "millrace_cache_corrupt_blocks_total", "", "Blocks whose checksum was wrong.");
METRIC_COUNTER(scrubbed, "millrace_cache_scrubbed_bytes_total", "",
    "Cached bytes read again in the background and compared with their checksums.");
METRIC_COUNTER(rotten, "millrace_cache_rotten_blocks_total", "",
    "Blocks whose bytes in the cache changed by themselves, as scrubbing found.");

static void set_metric(struct metric *m, uint64_t value) { metric_set(m, (int64_t)value); }

static void collect_worker_metrics(void *user, struct buf *out)
{
    struct server *s = user;
    struct cache *cache = atomic_load(&s->cache);
    struct cache_stats c = {0};
    (void)out;
    if (cache)
        cache_stats(cache, &c);
    set_metric(metric_of(&ready), server_ready(s));
    set_metric(metric_of(&read_bytes, "store"), c.fetched_bytes);
    set_metric(metric_of(&read_bytes, "cache"), c.hit_bytes);
    set_metric(metric_of(&served_bytes), s->served_bytes);
    set_metric(metric_of(&requests, "ok"), s->requests - s->failed_requests);
    set_metric(metric_of(&requests, "failed"), s->failed_requests);
    set_metric(metric_of(&used), c.used_bytes);
    set_metric(metric_of(&capacity), c.capacity_bytes);
    set_metric(metric_of(&files), c.files);
    set_metric(metric_of(&pinned_bytes), c.pinned_bytes);
    set_metric(metric_of(&pinned_files), c.pinned_files);
    set_metric(metric_of(&buffer_bytes), c.buffer_bytes);
    set_metric(metric_of(&evicted), c.evicted_bytes);
    set_metric(metric_of(&evicted_loaded), c.evicted_loaded_bytes);
    set_metric(metric_of(&moved), c.moved_bytes);
    set_metric(metric_of(&full), c.full);
    set_metric(metric_of(&corrupt), c.corrupt_blocks);
    set_metric(metric_of(&scrubbed), c.scrubbed_bytes);
    set_metric(metric_of(&rotten), c.rotten_blocks);
}

void status_routes(struct server *s, struct serve_route out[STATUS_ROUTES])
{
    s->health = (struct health){.ready = server_health_ready, .user = s};
    s->scrape = (struct scrape){.collect = collect_worker_metrics, .user = s};
    health_routes(&s->health, out);
    out[HEALTH_ROUTES] = (struct serve_route){"GET", "/status", serve_status, s};
}
