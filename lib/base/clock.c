/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t clock_now(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return clock_of_timespec(t);
}

int64_t clock_mono_ns(void) { return clock_now(CLOCK_MONOTONIC); }
int64_t clock_real_ns(void) { return clock_now(CLOCK_REALTIME); }

void clock_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

int clock_cond_wait(pthread_cond_t *c, pthread_mutex_t *mu, int64_t until_mono_ns)
{
    if (until_mono_ns == INT64_MAX) /* as seconds the kernel would take it, some libraries not */
        return pthread_cond_wait(c, mu);
    struct timespec at = {until_mono_ns / NS_PER_S, until_mono_ns % NS_PER_S};
    return pthread_cond_timedwait(c, mu, &at);
}

#ifdef __SANITIZE_THREAD__
static struct timespec real_until(int64_t until_mono_ns)
{
    int64_t left = until_mono_ns - clock_mono_ns(), until = clock_real_ns() + (left > 0 ? left : 0);
    return (struct timespec){until / NS_PER_S, until % NS_PER_S};
}
#endif

int clock_mutex_lock(pthread_mutex_t *mu, int64_t until_mono_ns)
{
#ifdef __SANITIZE_THREAD__ /* it does not see that pthread_mutex_clocklock locks */
    const struct timespec at = real_until(until_mono_ns);
    return pthread_mutex_timedlock(mu, &at);
#else
    struct timespec at = {until_mono_ns / NS_PER_S, until_mono_ns % NS_PER_S};
    return pthread_mutex_clocklock(mu, CLOCK_MONOTONIC, &at);
#endif
}

int clock_rwlock_rdlock(pthread_rwlock_t *lock, int64_t until_mono_ns)
{
#ifdef __SANITIZE_THREAD__ /* nor that pthread_rwlock_clockrdlock does */
    const struct timespec at = real_until(until_mono_ns);
    return pthread_rwlock_timedrdlock(lock, &at);
#else
    struct timespec at = {until_mono_ns / NS_PER_S, until_mono_ns % NS_PER_S};
    return pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &at);
#endif
}

void clock_sleep_ns(int64_t ns)
{
    struct timespec t = {ns / NS_PER_S, ns % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR) {
    }
}

static int64_t system_mono(const struct clock *c)
{
    (void)c;
    return clock_mono_ns();
}
static int64_t system_real(const struct clock *c)
{
    (void)c;
    return clock_real_ns();
}
const struct clock clock_system = {system_mono, system_real};

static int64_t floor_seconds(int64_t ns)
{
    return ns >= 0 ? ns / NS_PER_S : -((-ns + NS_PER_S - 1) / NS_PER_S);
}

void clock_rfc3339(int64_t real_ns, char out[CLOCK_RFC3339_LEN])
{
    time_t s = floor_seconds(real_ns);
    struct tm tm;
    gmtime_r(&s, &tm);
    if (strftime(out, CLOCK_RFC3339_LEN, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(out, CLOCK_RFC3339_LEN, "1970-01-01T00:00:00Z");
}

void clock_rfc3339_micro(int64_t real_ns, char out[CLOCK_RFC3339_MICRO_LEN])
{
    char base[CLOCK_RFC3339_LEN];
    clock_rfc3339(real_ns, base);
    unsigned micro = (unsigned)((real_ns - floor_seconds(real_ns) * NS_PER_S) / 1000);
    snprintf(out, CLOCK_RFC3339_MICRO_LEN, "%.19s.%06uZ", base, micro % 1000000u);
}

/* -1 for what nanoseconds in 64 bits cannot hold: before 1677, after 2262. */
static int to_ns(int64_t seconds, int64_t frac, int64_t *real_ns)
{
    if (seconds <= INT64_MIN / NS_PER_S || seconds >= INT64_MAX / NS_PER_S)
        return -1;
    *real_ns = seconds * NS_PER_S + frac;
    return 0;
}

int clock_parse_rfc3339(const char *text, int64_t *real_ns)
{
    struct tm tm = {0};
    const char *p = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!p)
        return -1;
    int64_t frac = 0;
    if (*p == '.') {
        int64_t unit = NS_PER_S / 10;
        for (p++; *p >= '0' && *p <= '9'; p++, unit /= 10)
            frac += (*p - '0') * unit;
    }
    int64_t offset = 0;
    if (*p == '+' || *p == '-') {
        int h, m, n = 0;
        if (sscanf(p + 1, "%2d:%2d%n", &h, &m, &n) != 2 || p[1 + n])
            return -1;
        offset = (h * 60 + m) * 60 * (*p == '-' ? -1 : 1);
    } else if (strcmp(p, "Z") != 0) {
        return -1;
    }
    return to_ns(timegm(&tm) - offset, frac, real_ns);
}

int clock_parse_http_date(const char *text, int64_t *real_ns)
{
    struct tm tm = {0};
    const char *p = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    if (!p || *p)
        return -1;
    return to_ns(timegm(&tm), 0, real_ns);
}
