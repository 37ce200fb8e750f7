/* SPDX-License-Identifier: Apache-2.0 */
/* cache_unit — what the programs that test the cache share: a directory of its own for each test,
 * and reads that check every byte. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_CACHE_CACHE_UNIT_H
#define MILLRACE_TESTS_UNIT_FUSE_CACHE_CACHE_UNIT_H

#include "tests/lib/unit.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/lib/eventually.h"
#include "tests/unit/fuse/cache/cache_fake.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1u << 20)

static struct fake fake;
static char *dir;

static inline int setup(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    dir = fake_dir();
    return dir ? 0 : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    file_remove_tree(dir, NULL);
    free(dir);
    return 0;
}

static inline struct cache *open_cache(int64_t mem, int64_t ssd)
{
    struct conf_tier tiers[2];
    size_t n = 0;
    if (mem)
        tiers[n++] = (struct conf_tier){CONF_MEM, mem};
    if (ssd)
        tiers[n++] = (struct conf_tier){CONF_SSD, ssd};
    struct cache_conf conf = {.dir = ssd ? dir : NULL,
        .tiers = tiers,
        .ntiers = n,
        .buffer_budget = 64 << 20,
        .fetch_threads = 8,
        .source = {fake_fetch, &fake, fake_part}};
    struct err e = ERR_INIT;
    struct cache *c = cache_new(&conf, &e);
    if (!c)
        print_error("%s\n", e.msg);
    assert_non_null(c);
    return c;
}

static inline struct cache_file *open_file(
    struct cache *c, const char *path, const char *version, uint64_t size)
{
    struct cache_key key = {0, path, version, size};
    struct err e = ERR_INIT;
    struct cache_file *f = cache_open(c, &key, &e);
    assert_non_null(f);
    return f;
}

static inline void read_check(
    struct cache_file *f, const char *path, const char *version, uint64_t off, size_t len)
{
    char *buf = malloc(len);
    struct err e = ERR_INIT;
    ssize_t n = cache_read(f, buf, len, off, &e);
    if (n < 0)
        print_error("%s\n", e.msg);
    assert_int_equal(n, len);
    assert_int_equal(fake_check(path, version, off, buf, len), 0);
    free(buf);
}

static inline void wait_complete(struct cache_file *f)
{
    struct err e = ERR_INIT;
    if (cache_fill(f, 0, cache_size(f), &e))
        print_error("%s\n", e.msg);
    assert_true(cache_complete(f));
}

static inline struct cache_stats stats(struct cache *c)
{
    struct cache_stats s;
    cache_stats(c, &s);
    return s;
}

/* A thread that wrote the last block may hold the file for a moment longer than its readers. */
static inline bool empties(struct cache *c)
{
    for (int i = 0; i < 30000 && stats(c).used_bytes; i++)
        clock_sleep_ns(NS_PER_MS);
    return stats(c).used_bytes == 0;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
