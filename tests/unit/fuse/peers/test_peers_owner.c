/* SPDX-License-Identifier: Apache-2.0 */
/* The cache workers of a dataset: who has what. */
#include "tests/lib/unit.h"

#include "fuse/peers/peers.h"
#include "lib/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void test_spread(void **state)
{
    (void)state;
    for (int n = 1; n <= 9; n++) {
        unsigned count[9] = {0};
        for (int file = 0; file < 2000; file++)
            for (uint64_t chunk = 0; chunk < 10; chunk++) {
                char path[32];
                snprintf(path, sizeof path, "train/%05d.tfrecord", file);
                int w = peers_owner("set-cache", n, "s3://b", path, chunk * PEERS_CHUNK + chunk);
                assert_in_range(w, 0, n - 1);
                count[w]++;
            }
        for (int w = 0; w < n; w++) /* within 8 % of even */
            assert_true(fabs(count[w] * (double)n / 20000 - 1) < 0.08);
    }
    assert_int_equal(peers_owner("x", 0, "m", "p", 0), -1);
}

static void test_one_worker_more_moves_its_share_only(void **state)
{
    (void)state;
    unsigned moved = 0, chunks = 20000;
    for (unsigned i = 0; i < chunks; i++) {
        char path[32];
        snprintf(path, sizeof path, "f%u", i);
        int before = peers_owner("set-cache", 4, "s3://b", path, 0),
            after = peers_owner("set-cache", 5, "s3://b", path, 0);
        if (before != after) {
            assert_int_equal(after, 4);
            moved++;
        }
    }
    assert_true(moved > chunks / 5 * 9 / 10 && moved < chunks / 5 * 11 / 10);
}

static void test_same_for_ever(void **state)
{
    (void)state; /* clients and workers of different releases must agree */
    static const int want[] = {0, 0, 1, 2, 2, 0};
    int got[6];
    for (unsigned i = 0; i < 6; i++)
        got[i] = peers_owner("mnist-cache", 3, "s3://datasets/mnist",
            i < 3 ? "train.tfrecord" : "a/b", i * PEERS_CHUNK);
    if (memcmp(got, want, sizeof got) != 0)
        print_error("{%d, %d, %d, %d, %d, %d}\n", got[0], got[1], got[2], got[3], got[4], got[5]);
    assert_memory_equal(got, want, sizeof got);
    assert_int_equal(peers_owner("mnist-cache", 3, "m", "p", 0),
        peers_owner("mnist-cache", 3, "m", "p", PEERS_CHUNK - 1));
}

static void test_names(void **state)
{
    (void)state;
    struct conf conf = {.worker_name = (char *)"mnist-cache",
        .worker_service = (char *)"mnist-cache.ns.svc",
        .worker_count = 2,
        .worker_port = 9400};
    cleanup_free char *url = peers_url(&conf, 1);
    assert_string_equal(url, "http://mnist-cache-1.mnist-cache.ns.svc:9400");
    struct cache_key key = {3, "a b/ü&?", "v\"1", 77};
    cleanup_free char *query = peers_query(&key);
    assert_string_equal(query, "mount=3&path=a%20b/%C3%BC%26%3F&version=v%221&size=77");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_one_worker_more_moves_its_share_only),
        cmocka_unit_test(test_same_for_ever),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
