/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/report/stall.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/unit/fuse/cache/cache_fake.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"0::/kubepods/besteffort/pod0f9e7d6c-1111-2222-3333-444455556666/0123456789ab\n",
            "0f9e7d6c-1111-2222-3333-444455556666"},
        {"0::/kubepods.slice/kubepods-pod0f9e7d6c_1111_2222_3333_444455556666.slice/cri-containerd-01.scope\n",
            "0f9e7d6c-1111-2222-3333-444455556666"},
        {"12:cpu:/../../pod0f9e7d6c-1111-2222-3333-444455556666/ab\n11:memory:/x\n",
            "0f9e7d6c-1111-2222-3333-444455556666"},
        {"0::/user.slice/user-0.slice/session-1.scope\n",
            "/user.slice/user-0.slice/session-1.scope"},
        {"12:cpu:/\n11:memory:/jobs/a\n0::/\n", "/jobs/a"},
        {"0::/tripod/podcast/pod0f9e7d6c-1111\n", "/tripod/podcast/pod0f9e7d6c-1111"},
        {"0::/\n", CALLER_UNKNOWN},
        {"", CALLER_UNKNOWN},
        {"no colon\n", CALLER_UNKNOWN},
        {"0::/aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhhhhhhhhhiiiiiiiiiijjjjjjjjjjkkkkkkkkkkllllllllll0123456789\n",
            "aaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhhhhhhhhhiiiiiiiiiijjjjjjjjjjkkkkkkkkkkllllllllll0123456789"},
    };
    char out[CALLER_MAX];
    for (size_t i = 0; i < ARRAY_LEN(cases) - 1; i++) {
        caller_of_cgroup(cases[i].text, out);
        assert_string_equal(out, cases[i].want);
    }
    caller_of_cgroup(cases[ARRAY_LEN(cases) - 1].text, out); /* the end of a long one */
    assert_true(strlen(out) < CALLER_MAX);
    assert_string_equal(out + strlen(out) - 20, "llllllllll0123456789");
    caller_of_pid(0, out);
    assert_string_equal(out, CALLER_UNKNOWN);
    caller_of_pid(getpid(), out);
    assert_true(out[0] == '/' || strlen(out) == 36 || strcmp(out, CALLER_UNKNOWN) == 0);
}

static unsigned asked;

static void who(void *user, pid_t pid, char out[CALLER_MAX])
{
    (void)user;
    asked++;
    snprintf(out, CALLER_MAX, "job-%d", (int)pid / 10);
}

static void find_times(void *user, const struct stall_times *t)
{
    struct stall_times *want = user;
    if (strcmp(t->caller, want->caller) == 0)
        *want = *t;
}

static struct stall_times times_of(struct stalls *s, const char *caller)
{
    struct stall_times t = {0};
    snprintf(t.caller, sizeof t.caller, "%s", caller);
    stalls_each(s, find_times, &t);
    return t;
}

static void test_callers(void **state)
{
    (void)state;
    struct stalls *s = stalls_new(who, NULL);
    asked = 0;
    int64_t began = clock_mono_ns();
    struct stall_caller *a = stalls_begin(s, 11), *b = stalls_begin(s, 12);
    assert_ptr_equal(a, b);
    clock_sleep_ns(20 * NS_PER_MS);
    stalls_end(s, a);
    stalls_end(s, b);
    struct stall_times t = times_of(s, "job-1");
    assert_int_equal(t.reads, 2);
    assert_true(t.waiting_ns >= 20 * NS_PER_MS);
    assert_true(t.waiting_ns <= (uint64_t)(clock_mono_ns() - began)); /* of two at a time, once */
    assert_int_equal(t.store_ns + t.worker_ns + t.disk_ns, 0);
    for (int i = 0; i < 100; i++)
        stalls_end(s, stalls_begin(s, 11));
    assert_int_equal(asked, 2); /* once for each pid */
    stalls_end(s, stalls_begin(s, 0));
    assert_int_equal(times_of(s, CALLER_UNKNOWN).reads, 1);
    /* far more than are kept: those of long ago give way */
    for (pid_t pid = 1000; pid < 3000; pid += 10)
        stalls_end(s, stalls_begin(s, pid));
    assert_int_equal(times_of(s, "job-299").reads, 1);
    assert_int_equal(times_of(s, "job-1").reads, 0);
    assert_int_equal(times_of(s, "job-100").reads, 0);
    stalls_free(s);
}

/* One whose place was given to somebody else meanwhile is asked for again: his waits are not the
 * other's. */
static void test_places(void **state)
{
    (void)state;
    struct stalls *s = stalls_new(who, NULL);
    stalls_end(s, stalls_begin(s, 11));
    for (pid_t pid = 2000; pid < 2640; pid += 10) /* as many others as there are places */
        stalls_end(s, stalls_begin(s, pid));
    assert_int_equal(times_of(s, "job-1").reads, 0);
    stalls_end(s, stalls_begin(s, 11));
    assert_int_equal(times_of(s, "job-1").reads, 1);
    for (pid_t pid = 2010; pid < 2640; pid += 10) {
        char name[32];
        snprintf(name, sizeof name, "job-%d", (int)pid / 10);
        assert_int_equal(times_of(s, name).reads, 1);
    }
    stalls_free(s);
}

/* Puts the file's pages out of memory, as far as its file system can, and says whether any is.
 * Looks without reading: even a read that does not wait would begin to bring them back. */
static bool put_out(struct cache_file *f)
{
    int fd = cache_complete_fd(f);
    assert_true(fd >= 0);
    assert_int_equal(fdatasync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    size_t pages = CACHE_BLOCK / (size_t)sysconf(_SC_PAGESIZE), resident = 0;
    unsigned char *in = malloc(pages);
    void *at = mmap(NULL, CACHE_BLOCK, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(in && at != MAP_FAILED);
    assert_int_equal(mincore(at, CACHE_BLOCK, in), 0);
    for (size_t i = 0; i < pages; i++)
        resident += in[i] & 1;
    munmap(at, CACHE_BLOCK);
    free(in);
    close(fd);
    return resident < pages;
}

static void read_as(struct stalls *s, pid_t pid, struct cache_file *f, char *buf)
{
    struct err e = ERR_INIT;
    struct stall_caller *caller = stalls_begin(s, pid);
    assert_int_equal(cache_read(f, buf, CACHE_BLOCK, 0, &e), CACHE_BLOCK);
    stalls_end(s, caller);
}

/* Not every file system can say whether a read would wait (tmpfs can't); then each is taken for a
 * wait. */
static bool can_tell(struct cache_file *f)
{
    char byte;
    struct iovec iov = {&byte, 1};
    int fd = cache_complete_fd(f);
    assert_true(fd >= 0);
    ssize_t got = preadv2(fd, &iov, 1, 0, RWF_NOWAIT);
    bool can = got == 1 || errno != EOPNOTSUPP;
    close(fd);
    return can;
}

/* Only what was not in memory is a wait for the disk. A disk can be there first, while the reader
 * has no processor: then no read waited, and it is tried again. */
static void read_from_disk(struct stalls *s, struct cache_file *f, char *buf)
{
    bool out = true, waits = !can_tell(f);
    assert_int_equal(times_of(s, "job-2").disk_ns > 0, waits);
    for (int i = 0; i < 50 && out && !times_of(s, "job-3").disk_ns; i++) {
        out = put_out(f);
        read_as(s, 30, f, buf);
    }
    assert_int_equal(times_of(s, "job-3").disk_ns > 0, waits || out);
}

/* What a read of the cache waits for is told apart. */
static void test_waits(void **state)
{
    (void)state;
    struct fake fake = {.delay_us = 20000};
    char *dir = fake_dir(), *buf = malloc(CACHE_BLOCK);
    const struct conf_tier tier = {CONF_SSD, 64 << 20};
    struct cache_conf cc = {.dir = dir, .tiers = &tier, .ntiers = 1, .source = {fake_fetch, &fake}};
    struct err e = ERR_INIT;
    struct cache *c = cache_new(&cc, &e);
    struct stalls *s = stalls_new(who, NULL);
    assert_non_null(c);
    for (unsigned origin = 0; origin < 2; origin++) {
        fake.origin = origin;
        struct cache_key key = {.path = origin ? "b" : "a", .version = "1", .size = CACHE_BLOCK};
        struct cache_file *f = cache_open(c, &key, &e);
        read_as(s, 10 * (pid_t)origin, f, buf);
        assert_int_equal(cache_fill(f, 0, cache_size(f), &e), 0);
        read_as(s, 20, f, buf);
        if (origin == 1)
            read_from_disk(s, f, buf);
        cache_close(f);
    }
    struct stall_times store = times_of(s, CALLER_UNKNOWN), worker = times_of(s, "job-1"),
                       memory = times_of(s, "job-2"), disk = times_of(s, "job-3");
    assert_true(store.store_ns >= 20 * NS_PER_MS && !store.worker_ns);
    assert_true(worker.worker_ns >= 20 * NS_PER_MS && !worker.store_ns);
    assert_true(!memory.store_ns && !memory.worker_ns);
    assert_true(!disk.store_ns && !disk.worker_ns);
    assert_true(store.waiting_ns >= store.store_ns);
    stalls_free(s);
    cache_free(c);
    file_remove_tree(dir, NULL);
    free(dir);
    free(buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_callers),
        cmocka_unit_test(test_places), cmocka_unit_test(test_waits)};
    return cmocka_run_group_tests_name("stall", tests, NULL, NULL);
}
