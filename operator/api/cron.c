/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/api/cron.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define DAY_S     86400
#define DAYS_MOST (8 * 366)

/* ---- one field ---- */

struct cron_field {
    const char *name;
    unsigned low, high;
    const char *const *names; /* of the values from low on; NULL: none */
    size_t nnames;
};

static const char *const month_names[] = {
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
static const char *const weekday_names[] = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

static const struct cron_field cron_fields[] = {
    {"the minute", 0, 59, NULL, 0},
    {"the hour", 0, 23, NULL, 0},
    {"the day of the month", 1, 31, NULL, 0},
    {"the month", 1, 12, month_names, ARRAY_LEN(month_names)},
    {"the day of the week", 0, 7, weekday_names, ARRAY_LEN(weekday_names)},
};

/* false: none stands there */
static bool take_count(const char **p, unsigned *out)
{
    size_t n = strspn(*p, "0123456789");
    if (n == 0 || n > 2)
        return false;
    for (*out = 0; n; n--, ++*p)
        *out = *out * 10 + (unsigned)(**p - '0');
    return true;
}

static bool take_value(const struct cron_field *f, const char **p, unsigned *out)
{
    for (size_t i = 0; i < f->nnames; i++)
        if (strncasecmp(*p, f->names[i], 3) == 0) {
            *p += 3;
            *out = f->low + (unsigned)i;
            return true;
        }
    return take_count(p, out) && *out >= f->low && *out <= f->high;
}

/* "*", "5", "1-5", each with "/2" behind it: false if it is none */
static bool take_range(const struct cron_field *f, const char **p, uint64_t *bits)
{
    unsigned low = f->low, high = f->high, step = 1;
    bool one = **p != '*' && **p != '?';
    if (!one)
        ++*p;
    else if (!take_value(f, p, &low))
        return false;
    if (one && **p == '-') {
        one = false;
        ++*p;
        if (!take_value(f, p, &high) || high < low)
            return false;
    }
    if (**p == '/') {
        one = false;
        ++*p;
        if (!take_count(p, &step) || step == 0)
            return false;
    }
    for (unsigned v = low; v <= (one ? low : high); v += step)
        *bits |= UINT64_C(1) << v;
    return true;
}

/* One field of len bytes at text, all of it. */
static bool take_field(const struct cron_field *f, const char *text, size_t len, uint64_t *bits)
{
    const char *p = text;
    *bits = 0;
    do {
        if (!take_range(f, &p, bits))
            return false;
    } while (*p == ',' && p++ < text + len);
    return p == text + len;
}

/* ---- the whole ---- */

static const char *cron_written_out(const char *text)
{
    static const char *const words[][2] = {{"@hourly", "0 * * * *"}, {"@daily", "0 0 * * *"},
        {"@midnight", "0 0 * * *"}, {"@weekly", "0 0 * * 0"}, {"@monthly", "0 0 1 * *"},
        {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(text, words[i][0]) == 0)
            return words[i][1];
    return text;
}

/* What other schedulers take, and this one does not. */
static int refuse_dialect(const char *text, struct err *e)
{
    if (strncmp(text, "TZ=", 3) == 0 || strncmp(text, "CRON_TZ=", 8) == 0)
        return err_set(e, ERR_INVALID,
            "'%.60s': schedules are in UTC: leave the time zone out, and write the hour of UTC",
            text);
    if (*text == '@')
        return err_set(e, ERR_INVALID,
            "'%.60s': write @hourly, @daily, @weekly, @monthly or @yearly, or five fields like '*/15 * * * *'",
            text);
    return 0;
}

static int refuse_field(
    const char *text, const char *p, size_t n, const struct cron_field *f, struct err *e)
{
    cleanup_free char *names = f->nnames ? xasprintf(", a name like %s", f->names[f->nnames - 1])
                                         : xstrdup("");
    return err_set(e, ERR_INVALID,
        "'%.60s': '%.*s' is not %s: write %u to %u%s, or *; a range goes upwards, like %u-%u", text,
        (int)MIN(n, 40), p, f->name, f->low, f->high, names, f->low, f->low + 4);
}

int cron_parse(const char *text, struct cron *out, struct err *e)
{
    *out = (struct cron){.minutes = 0};
    uint64_t *const bits[] = {&out->minutes, &out->hours, &out->days, &out->months, &out->weekdays};
    const char *p = cron_written_out(text);
    if (refuse_dialect(p, e))
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(cron_fields); i++) {
        p += strspn(p, " ");
        size_t n = strcspn(p, " ");
        if (n == 0)
            return err_set(e, ERR_INVALID,
                "'%.60s' has %zu fields: write minute, hour, day of the month, month and day of the week, like '0 3 * * *'",
                text, i);
        if (!take_field(&cron_fields[i], p, n, bits[i]))
            return refuse_field(text, p, n, &cron_fields[i], e);
        out->any_day |= i == 2 && (*p == '*' || *p == '?');
        out->any_weekday |= i == 4 && (*p == '*' || *p == '?');
        p += n;
    }
    if (p[strspn(p, " ")])
        return err_set(e, ERR_INVALID,
            "'%.60s' has more than five fields: there are no seconds and no years", text);
    if (out->weekdays & (UINT64_C(1) << 7)) /* Sunday, too */
        out->weekdays |= 1;
    if (cron_next(out, 0) < 0)
        return err_set(e, ERR_INVALID, "'%.60s' is a day that never comes", text);
    return 0;
}

static bool cron_has(uint64_t bits, int value) { return bits >> value & 1; }

static bool cron_is_day(const struct cron *c, int64_t day)
{
    struct tm t;
    time_t at = (time_t)(day * DAY_S);
    gmtime_r(&at, &t);
    bool of_month = cron_has(c->days, t.tm_mday), of_week = cron_has(c->weekdays, t.tm_wday);
    if (!cron_has(c->months, t.tm_mon + 1))
        return false;
    return c->any_day || c->any_weekday ? of_month && of_week : of_month || of_week;
}

/* The first minute from s on, in this direction, that is one of them: seconds. */
static int64_t cron_find(const struct cron *c, int64_t s, int step)
{
    int64_t day = s / DAY_S;
    int minute = (int)(s % DAY_S / 60);
    for (int i = 0; i < DAYS_MOST && day >= 0; i++, day += step) {
        for (; cron_is_day(c, day) && minute >= 0 && minute < DAY_S / 60; minute += step)
            if (cron_has(c->hours, minute / 60) && cron_has(c->minutes, minute % 60))
                return day * DAY_S + minute * 60;
        minute = step > 0 ? 0 : DAY_S / 60 - 1;
    }
    return -1;
}

int64_t cron_next(const struct cron *c, int64_t after_ns)
{
    int64_t s = cron_find(c, (after_ns / NS_PER_S / 60 + 1) * 60, 1);
    return s < 0 ? -1 : s * NS_PER_S;
}

int64_t cron_last(const struct cron *c, int64_t until_ns)
{
    int64_t s = cron_find(c, until_ns / NS_PER_S, -1);
    return s < 0 ? -1 : s * NS_PER_S;
}
