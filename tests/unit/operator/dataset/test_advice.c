/* SPDX-License-Identifier: Apache-2.0 */
/* What CacheFits advises is enough: the data is dealt out as clients deal it out, and no worker
 * comes to where it gives room away. */
#include "fuse/peers/peers.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/api/dataset.h"
#include "operator/dataset/observed.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE UINT64_C(4096)
#define MIB  (UINT64_C(1) << 20)
#define GIB  (UINT64_C(1) << 30)

/* of n caches, the fullest one's bytes, in whole pages */
static uint64_t fullest(int n, unsigned files, uint64_t size)
{
    cleanup_free uint64_t *used = xcalloc((size_t)n, sizeof *used);
    uint64_t most = 0;
    for (unsigned i = 0; i < files; i++) {
        char path[32];
        snprintf(path, sizeof path, "train/%08u.tar", i);
        for (uint64_t off = 0; off < size; off += PEERS_CHUNK) {
            int w = peers_owner("imagenet-cache", n, "s3://data", path, off);
            used[w] += (MIN(PEERS_CHUNK, size - off) + PAGE - 1) / PAGE * PAGE;
            most = MAX(most, used[w]);
        }
    }
    return most;
}

static json_t *dataset_with(int replicas, const char *quota)
{
    return json_pack("{s:{s:s, s:s, s:s, s:i}, s:{s:[{s:s}], s:{s:i, s:[{s:s, s:s}]}}}", "metadata",
        "name", "imagenet", "namespace", "team", "uid", "u1", "generation", 1, "spec", "mounts",
        "mountPoint", "s3://data", "cache", "replicas", replicas, "tiers", "medium", "SSD", "quota",
        quota);
}

static void advice_for(
    int replicas, const char *quota, unsigned files, uint64_t size, struct dataset_advice *a)
{
    struct err e = ERR_INIT;
    const char *reason = "";
    cleanup_json json_t *cr = dataset_with(replicas, quota);
    cleanup_dataset struct dataset *d = dataset_parse(cr, NULL, &reason, &e);
    if (!d)
        fail_msg("%s: %s", quota, e.msg);
    const struct dataset_observed o = {.cr = cr, .env = {.most_workers = 60}};
    const struct dataset_status s = {.spec = d,
        .has_ufs = true,
        .ufs_complete = true,
        .ufs_bytes = (int64_t)(files * size),
        .ufs_files = files};
    dataset_advise_cache(&o, &s, a);
}

/* The word behind, as in "quota to 85Gi, or"; "" if it is not there. */
static void word_after(const char *message, const char *before, char out[32])
{
    const char *at = strstr(message, before);
    snprintf(out, 32, "%.*s", at ? (int)strcspn(at + strlen(before), " ,") : 0,
        at ? at + strlen(before) : "");
}

static uint64_t bytes_of(const char *quota)
{
    char *unit;
    double n = strtod(quota, &unit);
    const char *units = "KMGT", *at = strchr(units, *unit);
    assert_true(at && *unit && strcmp(unit + 1, "i") == 0);
    for (long i = at - units; i >= 0; i--)
        n *= 1024;
    return (uint64_t)n;
}

static void check_enough(int replicas, const char *quota, unsigned files, uint64_t size)
{
    struct dataset_advice a, after;
    char set[32], more[32];
    advice_for(replicas, quota, files, size, &a);
    assert_string_equal(a.cond.reason, "CacheTooSmall");
    word_after(a.message, "quota to ", set);
    word_after(a.message, "spec.cache.replicas to ", more);
    uint64_t most = fullest(replicas, files, size);
    assert_true(most <= bytes_of(set) / 100 * 95);
    assert_true(bytes_of(set) < most * 2 + 2 * MIB); /* and no nonsense */
    advice_for(replicas, set, files, size, &after);
    assert_string_equal(after.cond.reason, "Fits");
    if (*more) {
        int workers = atoi(more);
        assert_true(workers > replicas && workers <= 60);
        assert_true(fullest(workers, files, size) <= bytes_of(quota) / 100 * 95);
        advice_for(workers, quota, files, size, &after);
        assert_string_equal(after.cond.reason, "Fits");
    }
}

static void test_enough(void **state)
{
    (void)state;
    check_enough(1, "1Gi", 1000, 2 * MIB);
    check_enough(1, "100Mi", 100000, 100);    /* pages of small files */
    check_enough(1, "16Mi", 20, MIB);         /* a few Mi, not 1Gi */
    check_enough(1, "1953Mi", 1000, 2 * MIB); /* just as much as there is data */
    check_enough(2, "1Gi", 12, 500 * MIB);    /* few large ones */
    check_enough(3, "20Gi", 100, GIB);
    check_enough(3, "10Gi", 400000, 110000);
    check_enough(8, "10Gi", 1000, 143 * MIB);
    check_enough(24, "10Gi", 5000, 150 * MIB);
}

static void test_units(void **state)
{
    (void)state;
    static const struct {
        unsigned files;
        uint64_t size;
        const char *quota;
    } cases[] = {{20, MIB, "22Mi"}, {400, MIB, "430Mi"}, {3 * 1024, MIB, "3.2Gi"},
        {75, GIB, "79Gi"}, {1100, GIB, "1.14Ti"}, {20000, GIB, "21Ti"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct dataset_advice a;
        char set[32];
        advice_for(1, "1Mi", cases[i].files, cases[i].size, &a);
        word_after(a.message, "quota to ", set);
        assert_string_equal(set, cases[i].quota);
    }
}

/* What nobody could write is not advised. */
static void test_out_of_reach(void **state)
{
    (void)state;
    struct dataset_advice a;
    advice_for(1, "1Gi", 2000000, GIB, &a); /* a tier has 1Pi at most */
    assert_null(strstr(a.message, "quota to"));
    assert_null(strstr(a.message, "replicas to"));
    assert_non_null(strstr(a.message, "again; preload paths that fit"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_enough),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_out_of_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
