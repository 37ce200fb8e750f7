/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/report/mount_why.h"

#include "lib/base/clock.h"
#include "lib/base/human.h"

#include <stdio.h>
#include <string.h>

#define WAITS_MUCH 5 /* percent of the time */

/* "10 minutes", "40 seconds" */
static void add_time(struct buf *out, int64_t ns)
{
    int64_t s = (ns + NS_PER_S - 1) / NS_PER_S;
    if (s >= 120)
        buf_addf(out, "%lld minutes", (long long)((s + 59) / 60));
    else
        buf_addf(out, "%lld second%s", (long long)s, s == 1 ? "" : "s");
}

/* Without csi.callers no pod of a cluster is known from another. */
static const char *whose(const struct mount_facts *f)
{
    if (f->own)
        return "your reads";
    if (strcmp(f->recent.caller, CALLER_UNKNOWN) == 0)
        return "reads of this mount";
    return "reads of the busiest reader";
}

/* Where the bytes of reads came from, as far as the client saw them. */
static void add_shares(const struct mount_facts *f, struct buf *out)
{
    uint64_t all = f->cache.hit_bytes + f->reads.worker_bytes + f->reads.store_bytes;
    if (!all)
        return;
    buf_addf(out,
        ": %u%% of what was read came from this node's cache, %u%% from cache workers, %u%% from the store",
        (unsigned)(100 * (double)f->cache.hit_bytes / (double)all),
        (unsigned)(100 * (double)f->reads.worker_bytes / (double)all),
        (unsigned)(100 * (double)f->reads.store_bytes / (double)all));
}

static void add_store(const struct mount_facts *f, struct buf *out)
{
    char cache[HUMAN_BYTES_LEN], evicted[HUMAN_BYTES_LEN];
    if (f->cache.evicted_bytes)
        buf_addf(out,
            "the store: the cache of this node has %s, and %s had to leave it: a second epoch reads the "
            "store again; raise spec.cache.tiers[].quota or spec.cache.replicas, or preload and pin what "
            "is read again",
            human_bytes(f->cache.capacity_bytes, cache),
            human_bytes(f->cache.evicted_bytes, evicted));
    else
        buf_adds(out,
            "the store: this data is read for the first time here; preload it (spec.cache.preload), or "
            "send the order of reading (`millrace hint`)");
}

static void add_cause(const struct mount_facts *f, struct buf *out)
{
    const struct stall_times *t = &f->recent;
    if (t->store_ns >= t->worker_ns && t->store_ns >= t->disk_ns && t->store_ns)
        add_store(f, out);
    else if (t->worker_ns >= t->disk_ns && t->worker_ns && f->reads.down)
        buf_addf(
            out, "cache workers, of which %d of %d do not answer", f->reads.down, f->reads.workers);
    else if (t->worker_ns >= t->disk_ns && t->worker_ns)
        buf_adds(
            out, "cache workers: raise spec.cache.replicas, or the quota of the nodes' own tiers");
    else if (t->disk_ns)
        buf_adds(out,
            "the disk of this node's cache: add a Memory tier, or put the cache on a faster disk");
    else
        buf_adds(out, "a read that is under way");
}

static unsigned waited_percent(const struct mount_facts *f)
{
    double share = f->window_ns > 0 ? 100 * (double)f->recent.waiting_ns / (double)f->window_ns : 0;
    return share > 100 ? 100 : (unsigned)share;
}

void mount_why(const struct mount_facts *f, struct buf *out)
{
    unsigned percent = waited_percent(f);
    if (*f->message) {
        buf_addf(out, "%s: %s", f->reason, f->message);
    } else if (!f->ready) {
        buf_adds(out, "the mount has just begun: the store is being asked");
    } else if (f->error) {
        buf_addf(out, "a file failed ");
        add_time(out, f->error_age_ns);
        buf_addf(out, " ago: %s", f->error);
    } else if (percent >= WAITS_MUCH) {
        buf_addf(out, "%s waited %u%% of the last ", whose(f), percent);
        add_time(out, f->window_ns);
        buf_adds(out, " for ");
        add_cause(f, out);
    } else if (f->pending_files) {
        buf_addf(out, "reads do not wait; %llu written files are not in the store yet",
            (unsigned long long)f->pending_files);
    } else if (!f->recent.reads) {
        buf_adds(out, "no read has waited here in the last ");
        add_time(out, f->window_ns);
        buf_adds(out, " (the kernel has the data itself, or nothing was read)");
        add_shares(f, out);
    } else {
        buf_addf(out, "nothing waits (%u%% of the last ", percent);
        add_time(out, f->window_ns);
        buf_addc(out, ')');
        add_shares(f, out);
    }
}
