/* SPDX-License-Identifier: Apache-2.0 */
/* cron — schedules of five fields (minute, hour, day of the month, month, day of the week), in UTC:
 * *, lists, ranges, steps, names like MON and JAN; @hourly, @daily, @weekly, @monthly, @yearly.
 * Where both kinds of days are named, either of them will do. Pure. */
#ifndef MILLRACE_OPERATOR_API_CRON_H
#define MILLRACE_OPERATOR_API_CRON_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct cron {
    uint64_t minutes, hours, days, months, weekdays; /* a bit a value */
    bool any_day, any_weekday;
};

/* -1: INVALID says what is wrong; also of one that never comes true. */
int cron_parse(const char *text, struct cron *out, struct err *e);
/* Nanoseconds since the epoch: the first time after; the last one until, itself included. -1: none
 * in eight years. */
int64_t cron_next(const struct cron *c, int64_t after_ns);
int64_t cron_last(const struct cron *c, int64_t until_ns);

#endif
