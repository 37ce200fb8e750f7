/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence of user.millrace.why, from facts; and what "lately" is. */
#include "fuse/report/mount_why.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#define MINUTES(n) ((n)*60 * NS_PER_S)
#define GIB        (UINT64_C(1) << 30)

static void check(const struct mount_facts *f, const char *expected)
{
    cleanup_buf struct buf out = BUF_INIT(4096);
    mount_why(f, &out);
    assert_string_equal(buf_str(&out), expected);
}

/* A mount that is ready, has read, and whose reader did not wait. */
static struct mount_facts well(void)
{
    return (struct mount_facts){.ready = true,
        .reason = "",
        .message = "",
        .window_ns = MINUTES(10) - 1,
        .recent = {.reads = 100, .waiting_ns = (uint64_t)(2 * NS_PER_S)},
        .own = true,
        .cache = {.hit_bytes = 90, .capacity_bytes = 10 * GIB},
        .reads = {.worker_bytes = 8, .store_bytes = 2, .workers = 3}};
}

static struct mount_facts waiting(uint64_t store, uint64_t worker, uint64_t disk)
{
    struct mount_facts f = well();
    f.recent.waiting_ns = (uint64_t)(186 * NS_PER_S);
    f.recent.store_ns = store;
    f.recent.worker_ns = worker;
    f.recent.disk_ns = disk;
    return f;
}

static void nothing_waits(void **state)
{
    (void)state;
    struct mount_facts f = well();
    check(&f,
        "nothing waits (0% of the last 10 minutes): 90% of what was read came from this node's cache, 8% from cache workers, 2% from the store");
    f.cache.hit_bytes = f.reads.worker_bytes = f.reads.store_bytes = 0;
    f.recent = (struct stall_times){0};
    f.window_ns = 40 * NS_PER_S;
    check(&f,
        "no read has waited here in the last 40 seconds (the kernel has the data itself, or nothing was read)");
    f.pending_files = 3;
    check(&f, "reads do not wait; 3 written files are not in the store yet");
}

static void readers_wait(void **state)
{
    (void)state;
    struct mount_facts f = waiting(100, 10, 5);
    check(&f,
        "your reads waited 31% of the last 10 minutes for the store: this data is read for the first time here; preload it (spec.cache.preload), or send the order of reading (`millrace hint`)");
    f.cache.evicted_bytes = 133 * GIB;
    check(&f,
        "your reads waited 31% of the last 10 minutes for the store: the cache of this node has 10.00GiB, and 133.00GiB had to leave it: a second epoch reads the store again; raise spec.cache.tiers[].quota or spec.cache.replicas, or preload and pin what is read again");
    f = waiting(10, 100, 5);
    f.own = false;
    check(&f,
        "reads of the busiest reader waited 31% of the last 10 minutes for cache workers: raise spec.cache.replicas, or the quota of the nodes' own tiers");
    f.reads.down = 2;
    check(&f,
        "reads of the busiest reader waited 31% of the last 10 minutes for cache workers, of which 2 of 3 do not answer");
    snprintf(f.recent.caller, sizeof f.recent.caller, CALLER_UNKNOWN); /* several pods, perhaps */
    check(&f,
        "reads of this mount waited 31% of the last 10 minutes for cache workers, of which 2 of 3 do not answer");
    f = waiting(0, 0, 5);
    check(&f,
        "your reads waited 31% of the last 10 minutes for the disk of this node's cache: add a Memory tier, or put the cache on a faster disk");
    f = waiting(0, 0, 0);
    f.recent.waiting_ns = (uint64_t)MINUTES(20);
    check(&f, "your reads waited 100% of the last 10 minutes for a read that is under way");
}

static void errors_come_first(void **state)
{
    (void)state;
    struct mount_facts f = waiting(100, 0, 0);
    f.error = "read train/a: s3://bucket answers 503";
    f.error_age_ns = 12 * NS_PER_S;
    check(&f, "a file failed 12 seconds ago: read train/a: s3://bucket answers 503");
    f.ready = false;
    check(&f, "the mount has just begun: the store is being asked");
    f.reason = "AccessDenied";
    f.message = "s3://bucket: the keys are refused";
    check(&f, "AccessDenied: s3://bucket: the keys are refused");
    f.ready = true; /* a full disk leaves it ready */
    f.reason = "CacheDiskFull";
    f.message = CACHE_FULL_MESSAGE;
    check(&f, "CacheDiskFull: " CACHE_FULL_MESSAGE);
}

static void lately_is_ten_minutes(void **state)
{
    (void)state;
    struct stall_window w = {0};
    struct stall_times t = {0};
    int64_t at = MINUTES(100) + 30 * NS_PER_S;
    stall_window_at(&w, at)->waiting_ns = 5;
    stall_window_at(&w, at + MINUTES(1))->waiting_ns += 7;
    stall_window_at(&w, at + MINUTES(1))->reads += 2;
    assert_int_equal(stall_window_sum(&w, at + MINUTES(9), &t), MINUTES(9) + 30 * NS_PER_S);
    assert_int_equal(t.waiting_ns, 12);
    stall_window_sum(&w, at + MINUTES(10), &t);
    assert_int_equal(t.waiting_ns, 7);
    assert_int_equal(t.reads, 2);
    stall_window_at(&w, at + MINUTES(11))->waiting_ns += 1; /* in the place of the second one */
    stall_window_sum(&w, at + MINUTES(11), &t);
    assert_int_equal(t.waiting_ns, 1);
    assert_int_equal(stall_window_sum(&w, MINUTES(3), &t), MINUTES(3)); /* the machine is new */
}

static void who(void *user, pid_t pid, char out[CALLER_MAX])
{
    (void)user;
    snprintf(out, CALLER_MAX, "job-%d", (int)pid);
}

static void the_caller_is_told_of_itself(void **state)
{
    (void)state;
    struct stalls *s = stalls_new(who, NULL);
    struct stall_times t;
    bool own;
    stalls_recent(s, 1, &t, &own);
    assert_false(own);
    assert_int_equal(t.reads, 0);
    stalls_end(s, stalls_begin(s, 1));
    struct stall_caller *slow = stalls_begin(s, 2); /* still waits */
    clock_sleep_ns(5 * NS_PER_MS);
    assert_true(stalls_recent(s, 1, &t, &own) >= MINUTES(9) || clock_mono_ns() < MINUTES(10));
    assert_true(own);
    assert_string_equal(t.caller, "job-1");
    stalls_recent(s, 3, &t, &own); /* read nothing itself */
    assert_false(own);
    assert_string_equal(t.caller, "job-2");
    assert_true(t.waiting_ns >= 5 * NS_PER_MS);
    stalls_end(s, slow);
    stalls_end(s, stalls_begin(s, 0)); /* of another namespace: perhaps not the one that asks */
    stalls_recent(s, 0, &t, &own);
    assert_false(own);
    assert_string_equal(t.caller, CALLER_UNKNOWN);
    stalls_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_waits),
        cmocka_unit_test(readers_wait),
        cmocka_unit_test(errors_come_first),
        cmocka_unit_test(lately_is_ten_minutes),
        cmocka_unit_test(the_caller_is_told_of_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
