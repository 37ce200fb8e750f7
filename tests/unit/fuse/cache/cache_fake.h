/* SPDX-License-Identifier: Apache-2.0 */
/* cache_fake — a source of bytes for the cache's tests: the content follows from path, version and
 * offset, so that every byte read can be checked; it can fail, be slow, and counts what it is asked
 * for. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_CACHE_CACHE_FAKE_H
#define MILLRACE_TESTS_UNIT_FUSE_CACHE_CACHE_FAKE_H

#include "fuse/cache/cache.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake {
    atomic_uint fetches, fail_percent, delay_us, running, most_running;
    _Atomic uint64_t bytes, largest; /* asked for: in all, and at a time */
    atomic_uint fail_next;           /* that many fetches fail, whatever fail_percent says */
    /* bytes from this offset on do not come while `gate` is closed */
    _Atomic uint64_t slow_from;
    atomic_bool gate;
    atomic_uint origin; /* of all bytes */
    atomic_uint salt;   /* not 0: all are other bytes than they were */
    atomic_size_t part; /* bytes; 0: as the cache does it */
    char gone[64];      /* fetches of this version fail with CONFLICT */
};

static inline uint64_t fake_seed(const char *path, const char *version)
{
    return hash64_mix(hash64(path, strlen(path)), hash64(version, strlen(version)));
}

/* Much of a test's time would go here: not instrumented. */
__attribute__((no_sanitize("thread", "address", "undefined"), optimize("O2"))) static inline void
fake_fill(uint64_t seed, uint64_t off, void *buf, size_t len)
{
    unsigned char *p = buf;
    if (off % 8 == 0)
        for (; len >= 8; off += 8, len -= 8, p += 8) {
            uint64_t word = (seed + off / 8) * 0x9e3779b97f4a7c15u;
            word ^= word >> 29;
            __builtin_memcpy(p, &word, 8);
        }
    while (len) {
        uint64_t word = (seed + off / 8) * 0x9e3779b97f4a7c15u;
        word ^= word >> 29;
        size_t in = off % 8, n = 8 - in < len ? 8 - in : len;
        memcpy(p, (unsigned char *)&word + in, n);
        p += n;
        off += n;
        len -= n;
    }
}

static inline int fake_check(
    const char *path, const char *version, uint64_t off, const void *buf, size_t len)
{
    unsigned char *want = malloc(len);
    fake_fill(fake_seed(path, version), off, want, len);
    int rc = memcmp(want, buf, len);
    free(want);
    return rc;
}

/* In pieces of many sizes, as they come from a network. */
static inline int fake_give(struct fake *f, const struct cache_key *key, uint64_t off, size_t len,
    struct cache_sink *sink, const atomic_bool *cancel, struct err *e)
{
    static __thread char piece[128u << 10];
    uint64_t seed = fake_seed(key->path, key->version) + f->salt;
    sink->origin = f->origin;
    for (size_t n; len; off += n, len -= n) {
        n = 1 + hash64_mix(seed, off) % sizeof piece;
        n = n < len ? n : len;
        while (f->slow_from && off >= f->slow_from && !f->gate && !atomic_load(cancel))
            clock_sleep_ns(NS_PER_MS);
        fake_fill(seed, off, piece, n);
        if (sink->take(sink->user, piece, n)) {
            err_set(e, ERR_RETRY, "cancelled");
            e->sys = ECANCELED;
            return -1;
        }
    }
    return 0;
}

static inline int fake_answer(struct fake *f, unsigned n, const struct cache_key *key, uint64_t off,
    size_t len, struct cache_sink *sink, const atomic_bool *cancel, struct err *e)
{
    unsigned left = f->fail_next;
    while (left && !atomic_compare_exchange_weak(&f->fail_next, &left, left - 1))
        ;
    if (left || hash64_mix(n, 7) % 100 < f->fail_percent) {
        /* a body cut in the middle */
        return fake_give(f, key, off, len / 2, sink, cancel, e)
            ? -1
            : err_set(e, ERR_RETRY, "the fake source fails on purpose");
    }
    if (f->gone[0] && strcmp(f->gone, key->version) == 0) {
        err_set(e, ERR_CONFLICT, "%s has another version now", key->path);
        e->sys = ESTALE;
        return -1;
    }
    if (off + len > key->size)
        return err_set(e, ERR_INVALID, "asked past the end of %s", key->path);
    return fake_give(f, key, off, len, sink, cancel, e);
}

static inline int fake_fetch(void *user, const struct cache_key *key, uint64_t off, size_t len,
    struct cache_sink *sink, const atomic_bool *cancel, struct err *e)
{
    struct fake *f = user;
    unsigned n = atomic_fetch_add(&f->fetches, 1), now = atomic_fetch_add(&f->running, 1) + 1,
             most = f->most_running;
    while (now > most && !atomic_compare_exchange_weak(&f->most_running, &most, now))
        ;
    atomic_fetch_add(&f->bytes, len);
    uint64_t largest = f->largest;
    while (len > largest && !atomic_compare_exchange_weak(&f->largest, &largest, len))
        ;
    if (f->delay_us)
        clock_sleep_ns((int64_t)f->delay_us * 1000);
    int rc = fake_answer(f, n, key, off, len, sink, cancel, e);
    atomic_fetch_sub(&f->running, 1);
    return rc;
}

static inline size_t fake_part(void *user, uint32_t mount)
{
    (void)mount;
    return ((struct fake *)user)->part;
}

/* An empty directory of this test's own below $TMPDIR; removed by fake_dir_free. */
static inline char *fake_dir(void)
{
    const char *tmp = getenv("TMPDIR");
    char path[256];
    snprintf(path, sizeof path, "%s/millrace-cache.XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(path) ? strdup(path) : NULL;
}

#endif
