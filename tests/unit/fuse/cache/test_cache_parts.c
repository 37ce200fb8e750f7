/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the cache that need no cache: the eviction policy on traces, records on disk, the
 * budget, the pool. */
#include "tests/lib/unit.h"

#include "fuse/cache/budget.h"
#include "fuse/cache/cache.h"
#include "fuse/cache/meta.h"
#include "fuse/cache/s3fifo.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/pool.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- S3-FIFO against LRU -- */

#define UNITS 20000

static struct s3f_unit units[UNITS];
static struct s3f_unit *unit_at(void *user, uint32_t id)
{
    (void)user;
    return &units[id];
}

struct policy {
    struct s3f p;
    uint32_t capacity, used;
    uint64_t hits, hits_lru;
    uint32_t prev[UNITS], next[UNITS], head, tail, lru_used; /* LRU beside it */
    bool in_lru[UNITS];
};
static struct policy pol;

static void policy_init(uint32_t capacity)
{
    memset(units, 0, sizeof units);
    memset(&pol, 0, sizeof pol);
    struct s3f_ops ops = {unit_at, NULL, NULL};
    s3f_init(&pol.p, capacity, &ops);
    pol.capacity = capacity;
    pol.head = pol.tail = S3F_NONE;
}

static void lru_unlink(uint32_t id)
{
    if (pol.prev[id] != S3F_NONE)
        pol.next[pol.prev[id]] = pol.next[id];
    else
        pol.head = pol.next[id];
    if (pol.next[id] != S3F_NONE)
        pol.prev[pol.next[id]] = pol.prev[id];
    else
        pol.tail = pol.prev[id];
}

static void lru_access(uint32_t id)
{
    if (pol.in_lru[id]) {
        pol.hits_lru++;
        lru_unlink(id);
    } else if (pol.lru_used == pol.capacity) {
        uint32_t victim = pol.tail;
        lru_unlink(victim);
        pol.in_lru[victim] = false;
    } else {
        pol.lru_used++;
    }
    pol.in_lru[id] = true;
    pol.prev[id] = S3F_NONE;
    pol.next[id] = pol.head;
    if (pol.head != S3F_NONE)
        pol.prev[pol.head] = id;
    else
        pol.tail = id;
    pol.head = id;
}

static void access_unit(uint32_t id)
{
    lru_access(id);
    if (units[id].queue != S3F_OUT) {
        pol.hits++;
        s3f_touch(&pol.p, id, 1);
        return;
    }
    while (pol.used >= pol.capacity) {
        uint32_t victim = s3f_victim(&pol.p);
        assert_int_not_equal(victim, S3F_NONE);
        s3f_evicted(&pol.p, victim, victim + 1);
        pol.used--;
    }
    s3f_insert(&pol.p, id, 1, id + 1);
    pol.used++;
}

static uint64_t rnd_state = 12345;
static uint64_t rnd(void) { return hash64_mix(rnd_state++, 77); }

/* What training does: all files once an epoch, each epoch in another random order. */
static void test_shuffled_epochs(void **state)
{
    (void)state;
    static uint32_t order[UNITS];
    for (uint32_t percent = 10; percent <= 90; percent += 20) {
        policy_init(UNITS * percent / 100);
        for (uint32_t i = 0; i < UNITS; i++)
            order[i] = i;
        for (int epoch = 0; epoch < 8; epoch++) {
            if (epoch == 1)
                pol.hits = pol.hits_lru = 0;
            for (uint32_t i = UNITS - 1; i > 0; i--) {
                uint32_t j = (uint32_t)(rnd() % (i + 1)), was = order[i];
                order[i] = order[j];
                order[j] = was;
            }
            for (uint32_t i = 0; i < UNITS; i++)
                access_unit(order[i]);
        }
        double n = 7.0 * UNITS, ours = (double)pol.hits / n, lru = (double)pol.hits_lru / n;
        print_message("shuffled epochs, %u %% of the data cached: S3-FIFO hits %.3f, LRU %.3f\n",
            percent, ours, lru);
        assert_true(ours > lru);
        if (percent <= 50)
            assert_true(ours > 2 * lru);
        s3f_fini(&pol.p);
    }
}

/* A hot set and a long scan through it: the scan must not flush the hot set. */
static void test_scan_resistance(void **state)
{
    (void)state;
    policy_init(2000);
    for (int round = 0; round < 20; round++)
        for (uint32_t i = 0; i < 1000; i++)
            access_unit(i);
    uint32_t scan = 1000;
    uint64_t hot = 0, hot_hits = 0, lru_hits = 0;
    for (int i = 0; i < 200000; i++) {
        bool is_hot = rnd() % 10 < 2;
        uint64_t before = pol.hits, before_lru = pol.hits_lru;
        access_unit(is_hot ? (uint32_t)(rnd() % 1000) : scan);
        if (!is_hot)
            scan = scan + 1 == UNITS ? 1000 : scan + 1;
        hot += is_hot;
        hot_hits += is_hot && pol.hits > before;
        lru_hits += is_hot && pol.hits_lru > before_lru;
    }
    print_message("hot set under a scan: S3-FIFO %.3f, LRU %.3f\n", (double)hot_hits / (double)hot,
        (double)lru_hits / (double)hot);
    assert_true(hot_hits * 100 > hot * 95);
    assert_true(hot_hits > lru_hits);
    s3f_fini(&pol.p);
}

static void test_zipf(void **state)
{
    (void)state;
    static double sum[UNITS];
    double total = 0;
    for (int i = 0; i < UNITS; i++)
        sum[i] = total += 1.0 / (i + 1);
    policy_init(UNITS / 20);
    for (int i = 0; i < 300000; i++) {
        double x = (double)(rnd() >> 11) / 9007199254740992.0 * total;
        uint32_t lo = 0, hi = UNITS - 1;
        while (lo < hi) {
            uint32_t mid = (lo + hi) / 2;
            if (sum[mid] < x)
                lo = mid + 1;
            else
                hi = mid;
        }
        access_unit(lo);
    }
    print_message(
        "zipf: S3-FIFO %.3f, LRU %.3f\n", (double)pol.hits / 300000, (double)pol.hits_lru / 300000);
    assert_true(pol.hits >= pol.hits_lru);
    s3f_fini(&pol.p);
}

static void test_queue_counts(void **state)
{
    (void)state;
    policy_init(100);
    for (uint32_t i = 0; i < 50; i++)
        s3f_insert(&pol.p, i, i, i);
    s3f_weigh(&pol.p, 10, 1000);
    s3f_remove(&pol.p, 11);
    s3f_remove(&pol.p, 11);
    s3f_skip(&pol.p, 12);
    uint64_t weight = 0, count = 0;
    for (int q = S3F_SMALL; q <= S3F_MAIN; q++) {
        uint32_t n = 0;
        uint64_t w = 0;
        for (uint32_t id = pol.p.lists[q].head, before = S3F_NONE; id != S3F_NONE;
             before = id, id = units[id].next) {
            assert_int_equal(units[id].prev, before);
            assert_int_equal(units[id].queue, q);
            w += units[id].weight;
            n++;
        }
        assert_int_equal(n, pol.p.lists[q].count);
        assert_int_equal(w, pol.p.lists[q].weight);
        weight += w;
        count += n;
    }
    assert_int_equal(count, 49);
    assert_int_equal(weight, 49 * 50 / 2 - 10 - 11 + 1000);
    for (int i = 0; i < 49; i++) {
        uint32_t v = s3f_victim(&pol.p);
        assert_int_not_equal(v, S3F_NONE);
        s3f_evicted(&pol.p, v, v);
    }
    assert_int_equal(s3f_victim(&pol.p), S3F_NONE);
    s3f_fini(&pol.p);
}

/* -- records -- */

static void test_records(void **state)
{
    (void)state;
    struct meta_file f = {.path = {1, 2},
                         .version = 3,
                         .size = 10 << 20,
                         .mtime_ns = -5,
                         .valid = 7,
                         .pages = 1000,
                         .crc0 = 9,
                         .medium = 1,
                         .flags = META_PINNED},
                     g;
    unsigned char r[META_RECORD], zero[META_RECORD] = {0};
    meta_record_put(r, &f);
    assert_true(meta_record_get(r, &g));
    assert_memory_equal(f.path, g.path, sizeof f.path);
    assert_true(f.version == g.version && f.size == g.size && f.mtime_ns == g.mtime_ns);
    assert_true(f.valid == g.valid && f.pages == g.pages && f.crc0 == g.crc0);
    assert_true(f.medium == g.medium && f.flags == g.flags);
    assert_false(meta_record_get(zero, &g));
    for (unsigned i = 0; i < META_RECORD * 8; i++) { /* no single bit may flip */
        r[i / 8] ^= (unsigned char)(1 << i % 8);
        assert_false(meta_record_get(r, &g));
        r[i / 8] ^= (unsigned char)(1 << i % 8);
    }
    f.valid = 11; /* more blocks than the file has */
    meta_record_put(r, &f);
    assert_false(meta_record_get(r, &g));
    char boot[META_BOOT_LEN] = "0b1c-boot";
    meta_header_put(r, boot);
    assert_true(meta_header_get(r, boot));
    assert_string_equal(boot, "0b1c-boot");
    r[20] ^= 1;
    assert_false(meta_header_get(r, boot));
}

static void test_sidecar(void **state)
{
    (void)state;
    struct meta_file f = {.path = {1, 2}, .version = 3, .size = 10 << 20}, other = f;
    other.version = 4;
    static unsigned char h[META_SIDECAR_HEADER];
    char *longest = malloc(9000);
    memset(longest, 'x', 8999);
    longest[8999] = '\0';
    meta_sidecar_header_put(h, &f, "s3://bucket", longest, "v"); /* cut, not overflowing */
    assert_true(meta_sidecar_header_get(h, &f));
    assert_false(meta_sidecar_header_get(h, &other));
    free(longest);
    unsigned char r[META_SIDECAR_RECORD], zero[META_SIDECAR_RECORD] = {0};
    uint32_t crc;
    for (uint32_t b = 0; b < 10; b++) {
        meta_sidecar_put(r, &f, b, 0xdeadbeef + b);
        assert_true(meta_sidecar_get(r, &f, b, &crc));
        assert_int_equal(crc, 0xdeadbeef + b);
        /* a record of another block, of another version, or none */
        assert_false(meta_sidecar_get(r, &f, b + 1, &crc));
        assert_false(meta_sidecar_get(r, &other, b, &crc));
        assert_false(meta_sidecar_get(zero, &f, b, &crc));
    }
}

static void test_path_hashes_differ(void **state)
{
    (void)state;
    uint64_t a[2], b[2];
    static const char *const pairs[][4] = {
        {"m", "a", "m", "b"},
        {"m1", "a", "m2", "a"},
        {"m", "", "m", "a"},
        {"m", "ab", "ma", "b"},
        {"m", "a/b", "m", "a//b"},
    };
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        meta_hash_path(pairs[i][0], pairs[i][1], a);
        meta_hash_path(pairs[i][2], pairs[i][3], b);
        assert_int_not_equal(a[0], b[0]);
        assert_int_not_equal(a[1], b[1]);
    }
}

/* -- budget -- */

static void put_file(const char *root, const char *path, const char *text)
{
    cleanup_free char *full = path_join(root, path), *dir = xstrdup(full);
    *strrchr(dir, '/') = '\0';
    assert_int_equal(file_mkdirs(dir, 0755, NULL), 0);
    assert_int_equal(file_write_atomic(full, text, strlen(text), 0644, NULL), 0);
}

static void test_memory_limits(void **state)
{
    (void)state;
    static const struct {
        const char *groups, *file, *text;
        int64_t want;
    } cases[] = {
        {"0::/kubepods/pod1/c1\n", "sys/fs/cgroup/kubepods/pod1/c1/memory.max", "1073741824\n",
            1073741824},
        /* a parent's counts */
        {"0::/kubepods/pod1/c1\n", "sys/fs/cgroup/kubepods/pod1/memory.max", "500000000\n",
            500000000},
        {"0::/kubepods/pod1/c1\n", "sys/fs/cgroup/kubepods/pod1/c1/memory.max", "max\n",
            INT64_C(8000000) << 10},
        /* a container's own root */
        {"0::/../../x\n", "sys/fs/cgroup/memory.max", "300000000\n", 300000000},
        {"5:memory:/a\n4:cpu:/\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "700000000\n",
            700000000},
        {"5:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n",
            INT64_C(8000000) << 10},
        {"", "sys/nothing", "", INT64_C(8000000) << 10},
        {"", "proc/meminfo", "MemTotal: 23372036854771712 kB\n", 1 << 30}, /* no machine has that */
        {"", "proc/meminfo", "MemTotal: -8000000 kB\n", 1 << 30},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char root[] = "/tmp/millrace-cgroup.XXXXXX";
        assert_non_null(mkdtemp(root));
        put_file(root, "proc/self/cgroup", cases[i].groups);
        put_file(root, "proc/meminfo", "MemFree: 1 kB\nMemTotal:        8000000 kB\n");
        put_file(root, cases[i].file, cases[i].text);
        assert_int_equal(budget_memory_limit(root), cases[i].want);
        file_remove_tree(root, NULL);
    }
    assert_true(budget_detect(0) >= 16 << 20);
    assert_true(budget_detect(0) <= 256 << 20);
    assert_int_equal(budget_detect(INT64_C(1) << 50), 16 << 20); /* never nothing */
}

static void test_budget(void **state)
{
    (void)state;
    struct budget b;
    budget_init(&b, 4 << 20);
    assert_true(budget_try(&b, 3 << 20));
    assert_false(budget_try(&b, 2 << 20));
    budget_force(&b, 2 << 20);
    assert_int_equal(b.peak, 5 << 20);
    budget_release(&b, 5 << 20);
    assert_true(budget_try(&b, 4 << 20));
    budget_release(&b, 4 << 20);
    void *x = budget_buffer(&b, 1000);
    memset(x, 1, 1 << 20);
    budget_buffer_put(&b, x, 1000);
    assert_ptr_equal(budget_buffer(&b, 1 << 20), x); /* used again */
    budget_buffer_put(&b, x, 1 << 20);
    void *y = budget_buffer(&b, (1 << 20) + 1);
    assert_ptr_not_equal(y, x);
    memset(y, 1, 2 << 20);
    budget_buffer_put(&b, y, (1 << 20) + 1);
    assert_int_equal(b.idle_bytes, 3 << 20);
    budget_trim(&b, 0);
    assert_int_equal(b.idle_bytes, 3 << 20);
    budget_trim(&b, INT64_MAX);
    assert_int_equal(b.idle_bytes, 0);
    budget_fini(&b);
}

/* The largest part that a source may be asked for has room in a buffer, and two have room of their
 * own. */
static void test_largest_buffers(void **state)
{
    (void)state;
    struct budget b;
    unsigned char *two[2];
    budget_init(&b, 256 << 20);
    for (int i = 0; i < 2; i++)
        assert_non_null(two[i] = budget_buffer(&b, CACHE_PART_MAX));
    for (int i = 0; i < 2; i++)
        memset(two[i], i + 1, CACHE_PART_MAX);
    for (size_t at = 0; at < CACHE_PART_MAX; at += 4096)
        assert_true(two[0][at] == 1 && two[1][at] == 2);
    for (int i = 0; i < 2; i++)
        budget_buffer_put(&b, two[i], CACHE_PART_MAX);
    assert_int_equal(b.idle_bytes, 2 * CACHE_PART_MAX);
    assert_null(budget_buffer(&b, BUDGET_BUFFER_MAX + 1));
    budget_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shuffled_epochs),
        cmocka_unit_test(test_scan_resistance),
        cmocka_unit_test(test_zipf),
        cmocka_unit_test(test_queue_counts),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_sidecar),
        cmocka_unit_test(test_path_hashes_differ),
        cmocka_unit_test(test_memory_limits),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_largest_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
