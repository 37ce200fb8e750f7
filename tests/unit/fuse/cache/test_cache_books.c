/* SPDX-License-Identifier: Apache-2.0 */
/* What the cache takes it gives back, what it does not know to be right it does not trust, and what
 * is spared from eviction stays. */
#include "tests/unit/fuse/cache/cache_unit.h"

#include "fuse/cache/priv.h"

#include <ftw.h>
#include <sys/wait.h>

static struct cache *open_tiers(
    const struct conf_tier *tiers, size_t ntiers, unsigned fetch_threads)
{
    struct cache_conf conf = {.dir = dir,
        .tiers = tiers,
        .ntiers = ntiers,
        .buffer_budget = 64 << 20,
        .fetch_threads = fetch_threads,
        .source = {fake_fetch, &fake}};
    struct err e = ERR_INIT;
    struct cache *c = cache_new(&conf, &e);
    assert_non_null(c);
    return c;
}

static off_t rot_at, rot_size;
static unsigned rotted;

static int rot(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)walk;
    char b;
    if (type != FTW_F || !strstr(path, "/ssd/") || st->st_size != rot_size)
        return 0;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &b, 1, rot_at), 1);
    b ^= 0x40;
    assert_int_equal(pwrite(fd, &b, 1, rot_at), 1);
    assert_int_equal(futimens(fd, (struct timespec[]){st->st_atim, st->st_mtim}), 0);
    close(fd);
    rotted++;
    return 0;
}

static void rot_file(off_t size, off_t at)
{
    rot_at = at;
    rot_size = size;
    rotted = 0;
    nftw(dir, rot, 16, FTW_PHYS);
    assert_int_equal(rotted, 1);
}

#define SOUND (MIB + MIB / 2)

/* Its checksum would not be looked at again: memory is trusted. */
static void test_a_move_copies_no_bad_block(void **state)
{
    (void)state;
    struct cache *c = open_cache(16 << 20, 128 << 20);
    struct cache_file *f;
    for (unsigned i = 0; i < 16; i++) { /* memory is full: what comes next is on disk */
        char path[16];
        snprintf(path, sizeof path, "f%u", i);
        f = open_file(c, path, "1", MIB);
        wait_complete(f);
        cache_close(f);
    }
    f = open_file(c, "hot", "1", 2 * MIB);
    wait_complete(f);
    cache_close(f);
    f = open_file(c, "sound", "1", SOUND);
    wait_complete(f);
    cache_close(f);
    rot_file(2 * MIB, MIB + 70);
    /* the one that is sound moves, so the other one was tried: it is always the first of both */
    bool moved = false;
    int mem = media_of(c, CONF_MEM);
    for (int i = 0; i < 3000 && !moved; i++) {
        f = open_file(c, "hot", "1", 2 * MIB);
        read_check(f, "hot", "1", 0, 4096);
        cache_close(f);
        f = open_file(c, "sound", "1", SOUND);
        read_check(f, "sound", "1", 0, 4096);
        moved = f->o->tier == mem;
        cache_close(f);
        clock_sleep_ns(10 * NS_PER_MS);
    }
    assert_true(moved);
    f = open_file(c, "hot", "1", 2 * MIB);
    assert_int_not_equal(f->o->tier, mem);
    read_check(f, "hot", "1", MIB, MIB);
    cache_close(f);
    cache_free(c);
}

static void test_spared_from_eviction(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 400 << 20);
    struct cache_key key = {0, "pinned", "1", 70 * MIB};
    struct err e = ERR_INIT;
    struct cache_span span;
    struct cache_file *f = cache_pin(c, &key, 0, MIB, &e);
    assert_non_null(f);
    assert_int_equal(cache_fill(f, 0, MIB, &e), 0);
    assert_int_equal(block_evict_seg(f->o, 0), -1);
    assert_int_equal(cache_cached(f, 0, MIB), MIB);
    cache_unpin(c, &key);
    assert_int_equal(cache_hold_span(f, 0, MIB, &span, &e), 1);
    assert_int_equal(block_evict_seg(f->o, 0), -1);
    cache_release_span(&span);
    assert_int_equal(block_evict_seg(f->o, 0), 0);
    cache_close(f);
    /* somebody may still read it through its descriptor */
    f = open_file(c, "given", "1", 3 * MIB);
    wait_complete(f);
    int fd = cache_complete_fd(f);
    assert_true(fd >= 0);
    assert_true(block_invalidate(f->o, 1, false));
    assert_int_equal(block_evict_seg(f->o, 0), -1);
    close(fd);
    cache_close(f);
    cache_free(c);
}

static void test_two_fetches_of_one_block(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 64 << 20);
    struct cache_file *f = open_file(c, "f", "1", 3 * MIB);
    struct fill first, second;
    char *block = malloc(MIB);
    fake_fill(fake_seed("f", "1"), 0, block, MIB);
    assert_int_equal(fill_begin(&first, f->o, 0), 0);
    assert_int_equal(fill_begin(&second, f->o, 0), 0);
    assert_int_equal(fill_write(&first, block, MIB), 0);
    assert_int_equal(fill_write(&second, block, MIB), 0);
    assert_int_equal(fill_end(&first, false), 0);
    assert_int_equal(fill_end(&second, false), 0);
    assert_int_equal(stats(c).used_bytes, MIB);
    read_check(f, "f", "1", 0, MIB);
    free(block);
    cache_close(f);
    cache_free(c);
}

static void test_a_cut_read_ahead_gives_its_memory_back(void **state)
{
    (void)state;
    static const struct conf_tier tier = {CONF_SSD, 128 << 20};
    struct cache *c = open_tiers(&tier, 1, 1);
    struct cache_file *f = open_file(c, "f", "1", 40 * MIB);
    struct err e = ERR_INIT;
    fake.delay_us = 20000;
    assert_int_equal(cache_prefetch(f, 0, 40 * MIB, &e), 0);
    read_check(f, "f", "1", 36 * MIB, 4096);
    read_check(f, "f", "1", 32 * MIB, 4096);
    read_check(f, "f", "1", 20 * MIB, 4096);
    wait_complete(f);
    cache_close(f);
    eventually(stats(c).buffer_bytes == 0);
    cache_free(c);
}

static void test_a_pin_grows_to_the_limit(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 40 << 20); /* pins: half of it */
    struct cache_key key = {0, "f", "1", 15 * MIB};
    struct err e = ERR_INIT;
    struct cache_file *f = cache_pin(c, &key, 0, 8 * MIB, &e),
                      *g = cache_pin(c, &key, 0, 15 * MIB, &e);
    assert_non_null(f);
    assert_non_null(g);
    assert_int_equal(stats(c).pinned_bytes, 15 * MIB);
    cache_close(f);
    cache_close(g);
    cache_free(c);
}

/* A killed process leaves the table as it is. */
static void test_of_two_versions_a_restart_finds_the_new_one(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct cache *c = open_cache(0, 64 << 20);
        wait_complete(open_file(c, "f", "1", 2 * MIB)); /* its reader has it open */
        wait_complete(open_file(c, "f", "2", 2 * MIB));
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    struct cache *c = open_cache(0, 64 << 20);
    struct cache_file *f = open_file(c, "f", "2", 2 * MIB);
    read_check(f, "f", "2", 0, 2 * MIB);
    assert_int_equal(fake.fetches, 0);
    cache_close(f);
    cache_free(c);
}

static void test_closing_verifies_nothing(void **state)
{
    (void)state;
    struct cache *c = open_cache(0, 64 << 20);
    struct cache_file *f = open_file(c, "f", "1", 70 * MIB); /* a part of it is here */
    struct err e = ERR_INIT;
    assert_int_equal(cache_fill(f, MIB, MIB, &e) || cache_fill(f, 5 * MIB, MIB, &e), 0);
    cache_close(f);
    cache_free(c);
    rot_file(70 * MIB, 5 * MIB + 9);
    /* touched by another program: nothing in it is trusted */
    clock_sleep_ns(20 * NS_PER_MS);
    cleanup_free char *touch = xasprintf("find %s -path '*/ssd/*' -type f -exec touch {} +", dir);
    assert_int_equal(system(touch), 0);
    c = open_cache(0, 64 << 20);
    f = open_file(c, "f", "1", 70 * MIB);
    read_check(f, "f", "1", MIB, 4096);
    cache_close(f);
    f = open_file(c, "f", "1", 70 * MIB);
    read_check(f, "f", "1", 5 * MIB, 4096);
    assert_int_equal(stats(c).corrupt_blocks, 1);
    cache_close(f);
    cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_a_move_copies_no_bad_block),
        T(test_spared_from_eviction), T(test_two_fetches_of_one_block),
        T(test_a_cut_read_ahead_gives_its_memory_back), T(test_a_pin_grows_to_the_limit),
        T(test_of_two_versions_a_restart_finds_the_new_one), T(test_closing_verifies_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
