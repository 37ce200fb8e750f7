/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: what they mean, what is refused, and that both directions agree. */
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "operator/api/cron.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

static int64_t at(const char *text)
{
    int64_t ns;
    assert_int_equal(clock_parse_rfc3339(text, &ns), 0);
    return ns;
}

static void check_next(const char *schedule, const char *after, const char *want)
{
    struct cron c;
    struct err e = ERR_INIT;
    char text[CLOCK_RFC3339_LEN];
    if (cron_parse(schedule, &c, &e))
        fail_msg("%s: %s", schedule, e.msg);
    int64_t next = cron_next(&c, at(after));
    assert_true(next > at(after));
    clock_rfc3339(next, text);
    if (strcmp(text, want) != 0)
        fail_msg("%s after %s is %s, not %s", schedule, after, text, want);
    assert_true(cron_last(&c, next) == next);
    assert_true(cron_last(&c, next - 1) <= at(after));
}

static void test_times(void **state)
{
    (void)state;
    check_next("0 3 * * *", "2026-01-31T02:59:59Z", "2026-01-31T03:00:00Z");
    check_next("0 3 * * *", "2026-01-31T03:00:00Z", "2026-02-01T03:00:00Z");
    check_next("*/15 * * * *", "2026-01-31T23:50:00Z", "2026-02-01T00:00:00Z");
    check_next("5/20 4 * * *", "2026-01-31T04:06:00Z", "2026-01-31T04:25:00Z");
    check_next("0 0 29 2 *", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z");
    check_next("30 1-5/2 * * *", "2026-01-31T01:30:00Z", "2026-01-31T03:30:00Z");
    check_next("0 9 * * mon-FRI", "2026-01-30T09:00:00Z", "2026-02-02T09:00:00Z"); /* a Friday */
    check_next("0 9 * * 7", "2026-01-31T09:00:00Z", "2026-02-01T09:00:00Z");
    check_next("0 0 13 * 5", "2026-02-01T00:00:00Z", "2026-02-06T00:00:00Z");  /* either */
    check_next("0 0 */2 * 1", "2026-02-01T00:00:00Z", "2026-02-09T00:00:00Z"); /* both */
    check_next("0 0 1 JAN,jul *", "2026-01-02T00:00:00Z", "2026-07-01T00:00:00Z");
    check_next("@weekly", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z");
    check_next("@yearly", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z");
    check_next("59 23 31 12 ?", "2025-12-31T23:59:00Z", "2026-12-31T23:59:00Z");
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"", "0 fields"}, {"* * * *", "4 fields"},
        {"* * * * * *", "more than five"}, {"60 * * * *", "minute"}, {"* 24 * * *", "hour"},
        {"* * 0 * *", "day of the month"}, {"* * * 13 *", "month"}, {"* * * FOO *", "month"},
        {"* * * * 8", "day of the week"}, {"*/0 * * * *", "minute"}, {"5-1 * * * *", "minute"},
        {"1, * * * *", "minute"}, {"1x * * * *", "minute"}, {"-1 * * * *", "minute"},
        {"0 0 30 2 *", "never comes"}, {"@reboot", "write @hourly"}, {"@every 1h", "write @hourly"},
        {"TZ=UTC 0 3 * * *", "in UTC"}, {"CRON_TZ=UTC 0 3 * * *", "in UTC"},
        {"* 22-3 * * *", "goes upwards"}, {"* * * * MONDAY", "a name like SAT"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct cron c;
        struct err e = ERR_INIT;
        if (cron_parse(bad[i][0], &c, &e) != -1)
            fail_msg("'%s' is taken", bad[i][0]);
        assert_int_equal(e.cls, ERR_INVALID);
        if (!strstr(e.msg, bad[i][1]) && strcmp(bad[i][0], "@reboot") != 0)
            fail_msg("'%s': %s", bad[i][0], e.msg);
    }
}

/* The table that the CRD's rules are compared with, too. */
static void test_table(void **state)
{
    (void)state;
    cleanup_free char *path = path_join(getenv("MILLRACE_SOURCE"), "tests/lib/schedules.txt");
    cleanup_free char *text = file_read(path, 1 << 20, NULL, NULL);
    assert_non_null(text);
    size_t taken = 0, refused = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (!*line || *line == '#')
            continue;
        const char *schedule = strrchr(line, '|') + 1;
        bool good = strncmp(line, "ok|", 3) == 0;
        struct cron c;
        struct err e = ERR_INIT;
        if ((cron_parse(schedule, &c, &e) == 0) != good)
            fail_msg("'%s': %s", schedule, good ? e.msg : "is taken");
        taken += good;
        refused += !good;
    }
    assert_true(taken > 20 && refused > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times), cmocka_unit_test(test_refused), cmocka_unit_test(test_table)};
    return cmocka_run_group_tests_name("cron", tests, NULL, NULL);
}
