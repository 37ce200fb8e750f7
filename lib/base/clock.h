/* SPDX-License-Identifier: Apache-2.0 */
/* clock — time in int64 nanoseconds; a struct clock where tests must turn the hands. */
#ifndef MILLRACE_LIB_BASE_CLOCK_H
#define MILLRACE_LIB_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_S  INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

int64_t clock_mono_ns(void); /* CLOCK_MONOTONIC */
int64_t clock_real_ns(void); /* CLOCK_REALTIME, since the epoch */
void clock_sleep_ns(int64_t ns);
static inline int64_t clock_of_timespec(struct timespec t)
{
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* A condition variable whose timed waits are on CLOCK_MONOTONIC. */
void clock_cond_init(pthread_cond_t *c);
/* 0 (woken, perhaps for no reason) or ETIMEDOUT */
int clock_cond_wait(pthread_cond_t *c, pthread_mutex_t *mu, int64_t until_mono_ns);
/* 0 (the caller holds mu) or ETIMEDOUT */
int clock_mutex_lock(pthread_mutex_t *mu, int64_t until_mono_ns);
int clock_rwlock_rdlock(pthread_rwlock_t *lock, int64_t until_mono_ns);

struct clock {
    int64_t (*mono_ns)(const struct clock *c);
    int64_t (*real_ns)(const struct clock *c);
};
extern const struct clock clock_system;

#define CLOCK_RFC3339_LEN       21 /* "2026-01-31T23:59:59Z" + NUL: metav1.Time */
#define CLOCK_RFC3339_MICRO_LEN 28 /* "2026-01-31T23:59:59.123456Z" + NUL: metav1.MicroTime */
void clock_rfc3339(int64_t real_ns, char out[CLOCK_RFC3339_LEN]);
void clock_rfc3339_micro(int64_t real_ns, char out[CLOCK_RFC3339_MICRO_LEN]);
/* with or without fraction, Z or ±hh:mm; -1 if neither */
int clock_parse_rfc3339(const char *text, int64_t *real_ns);
int clock_parse_http_date(const char *text, int64_t *real_ns); /* "Sun, 06 Nov 1994 08:49:37 GMT" */

#endif
