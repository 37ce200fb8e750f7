/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/report/status_metrics.h"

#include "fuse/cache/cache.h"
#include "fuse/file/upload.h"
#include "fuse/index/index.h"
#include "fuse/peers/peers.h"
#include "fuse/prefetch/hint.h"
#include "fuse/report/stall.h"
#include "lib/base/mem.h"
#include "lib/http/metric.h"

#define STALLS_MAX (64u << 10) /* bytes of text about callers */

METRIC_GAUGE(ready_gauge, "millrace_ready", "", "1 when every store of the dataset answers.");
METRIC_GAUGE(serving_gauge, "millrace_serving", "", "1 while a mount is served.");
METRIC_COUNTER(read_bytes, "millrace_read_bytes_total", "from", "Bytes read, by where they were.");
METRIC_COUNTER(worker_hedged, "millrace_worker_hedged_total", "",
    "Times the store was asked beside a slow worker.");
METRIC_COUNTER(worker_corrupt, "millrace_worker_corrupt_blocks_total", "",
    "Blocks from a cache worker that were not as its checksums say, and were read from the store.");
METRIC_GAUGE(workers_down, "millrace_workers_down", "", "Cache workers that do not answer.");
METRIC_GAUGE(cache_used, "millrace_cache_used_bytes", "", "Bytes in the cache.");
METRIC_GAUGE(cache_capacity, "millrace_cache_capacity_bytes", "", "Quota of all tiers.");
METRIC_GAUGE(cache_files, "millrace_cache_files", "", "Files with bytes in the cache.");
METRIC_GAUGE(cache_pinned_bytes, "millrace_cache_pinned_bytes", "",
    "Room in the cache that pinned files have.");
METRIC_GAUGE(cache_pinned_files, "millrace_cache_pinned_files", "", "Pinned files.");
METRIC_COUNTER(
    cache_evicted, "millrace_cache_evicted_bytes_total", "", "Bytes evicted from the cache.");
METRIC_COUNTER(
    cache_corrupt, "millrace_cache_corrupt_blocks_total", "", "Blocks whose checksum was wrong.");
METRIC_COUNTER(cache_scrubbed, "millrace_cache_scrubbed_bytes_total", "",
    "Cached bytes read again in the background and compared with their checksums.");
METRIC_COUNTER(cache_rotten, "millrace_cache_rotten_blocks_total", "",
    "Blocks whose bytes in the cache changed by themselves, as scrubbing found.");
METRIC_COUNTER(upload_bytes, "millrace_upload_bytes_total", "", "Bytes uploaded.");
METRIC_COUNTER(uploads, "millrace_uploads_total", "result", "Uploads of written files.");
METRIC_GAUGE(
    pending_files, "millrace_pending_files", "", "Written files that the store does not have yet.");
METRIC_GAUGE(kept_files, "millrace_kept_files", "",
    "Written files that went to no store and are kept on the node.");
METRIC_GAUGE(
    kept_bytes, "millrace_kept_bytes", "", "Bytes of written files that went to no store.");
METRIC_GAUGE(index_inodes, "millrace_index_inodes", "", "Names known.");
METRIC_GAUGE(hint_lists, "millrace_hint_lists", "", "Lists of hints that are followed now.");
METRIC_COUNTER(hint_entries, "millrace_hint_entries_total", "result",
    "Entries of hinted lists, by what became of them.");
METRIC_COUNTER(hint_bytes, "millrace_hint_bytes_total", "", "Bytes made ready ahead of readers.");
METRIC_COUNTER(read_waiting, "millrace_read_waiting_seconds_total", "caller",
    "Time in which at least one read of this caller waited for data.");
METRIC_COUNTER(read_waits, "millrace_read_wait_seconds_total", "caller,for",
    "Time that reads waited, all of a caller together, by what they waited for.");

static void set_value(struct metric *m, uint64_t value) { metric_set(m, (int64_t)value); }

static void set_hints(const struct hints_stats *h)
{
    set_value(metric_of(&hint_lists), h->lists);
    set_value(metric_of(&hint_entries, "given"), h->entries);
    set_value(metric_of(&hint_entries, "done"), h->done);
    set_value(metric_of(&hint_entries, "followed"), h->followed);
    set_value(metric_of(&hint_entries, "missing"), h->missing);
    set_value(metric_of(&hint_entries, "refused"), h->refused);
    set_value(metric_of(&hint_entries, "failed"), h->failed);
    set_value(metric_of(&hint_bytes), h->bytes);
}

static void set_cache(const struct cache_stats *c)
{
    set_value(metric_of(&cache_used), c->used_bytes);
    set_value(metric_of(&cache_capacity), c->capacity_bytes);
    set_value(metric_of(&cache_files), c->files);
    set_value(metric_of(&cache_pinned_bytes), c->pinned_bytes);
    set_value(metric_of(&cache_pinned_files), c->pinned_files);
    set_value(metric_of(&cache_evicted), c->evicted_bytes);
    set_value(metric_of(&cache_corrupt), c->corrupt_blocks);
    set_value(metric_of(&cache_scrubbed), c->scrubbed_bytes);
    set_value(metric_of(&cache_rotten), c->rotten_blocks);
}

static void set_uploads(void)
{
    struct upload_stats w;
    upload_stats(&w);
    set_value(metric_of(&upload_bytes), w.bytes);
    set_value(metric_of(&uploads, "ok"), w.files);
    set_value(metric_of(&uploads, "failed"), w.failed);
    set_value(metric_of(&pending_files), w.pending);
}

void status_metrics_kept(uint64_t files, uint64_t bytes)
{
    set_value(metric_of(&kept_files), files);
    set_value(metric_of(&kept_bytes), bytes);
}

struct stall_text {
    struct buf *waiting, *waits;
};

static void write_stall(void *user, const struct stall_times *t)
{
    struct stall_text *out = user;
    metric_sample(out->waiting, &read_waiting, (double)t->waiting_ns / 1e9, t->caller);
    metric_sample(out->waits, &read_waits, (double)t->store_ns / 1e9, t->caller, "store");
    metric_sample(out->waits, &read_waits, (double)t->worker_ns / 1e9, t->caller, "worker");
    metric_sample(out->waits, &read_waits, (double)t->disk_ns / 1e9, t->caller, "disk");
}

static void write_stalls(struct stalls *stalls, struct buf *out)
{
    cleanup_buf struct buf waits = BUF_INIT(STALLS_MAX);
    struct stall_text text = {out, &waits};
    metric_head(out, &read_waiting);
    metric_head(&waits, &read_waits);
    stalls_each(stalls, write_stall, &text);
    buf_add(out, waits.data, waits.len);
}

void status_metrics_collect(
    const struct status_sources *from, bool ready, bool serving, struct buf *out)
{
    struct cache_stats c = {0};
    struct inodes_stats ix = {0};
    struct peers_stats r = {0};
    struct hints_stats h = {0};
    if (from->cache) {
        hints_stats(from->hints, &h);
        cache_stats(from->cache, &c);
        inodes_stats(from->inodes, &ix);
        peers_stats(from->peers, &r);
    }
    if (from->stalls)
        write_stalls(from->stalls, out);
    set_value(metric_of(&ready_gauge), ready);
    set_value(metric_of(&serving_gauge), serving);
    set_value(metric_of(&read_bytes, "cache"), c.hit_bytes);
    set_value(metric_of(&read_bytes, "worker"), r.worker_bytes);
    set_value(metric_of(&read_bytes, "store"), r.store_bytes);
    set_value(metric_of(&worker_hedged), r.hedged);
    set_value(metric_of(&worker_corrupt), r.corrupt);
    set_value(metric_of(&workers_down), (uint64_t)r.down);
    set_cache(&c);
    set_uploads();
    set_value(metric_of(&index_inodes), ix.inodes);
    set_hints(&h);
}
