/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "lib/base/clock.h"
#include "lib/http/metric.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

METRIC_COUNTER(t_bytes, "t_bytes_total", "tier", "Bytes.");
METRIC_GAUGE(t_open, "t_open", "", "Open files.");
METRIC_SECONDS(t_latency, "t_latency_seconds", "op", "Latency.");
METRIC_COUNTER(t_threads, "t_threads_total", "", "Registered by many.");
METRIC_COUNTER(t_waits, "t_waits_total", "caller,for", "Waits.");

static void text_format(void **state)
{
    (void)state;
    struct metric *a = metric_of(&t_bytes, "ssd");
    struct metric *other = metric_of(&t_open);
    struct metric *b = metric_of(&t_bytes, "mem");
    assert_ptr_equal(a, metric_of(&t_bytes, "ssd"));
    metric_add(a, 5);
    metric_add(b, 7);
    metric_set(other, -3);
    struct buf out = BUF_INIT(1 << 20);
    metric_write(&out);
    const char *text = buf_str(&out);
    assert_non_null(strstr(text,
        "# HELP t_bytes_total Bytes.\n# TYPE t_bytes_total counter\n"
        "t_bytes_total{tier=\"ssd\"} 5\nt_bytes_total{tier=\"mem\"} 7\n"));
    assert_non_null(strstr(text, "# TYPE t_open gauge\nt_open -3\n"));
    assert_non_null(strstr(text, "\nprocess_resident_memory_bytes "));
    assert_null(strstr(text, "process_resident_memory_bytes 0\n"));
    assert_non_null(strstr(text, "\nprocess_cpu_seconds_total "));
    buf_free(&out);
}

static void histogram_buckets_add_up(void **state)
{
    (void)state;
    struct metric *h = metric_of(&t_latency, "read");
    metric_add(h, NS_PER_MS);
    metric_add(h, 20 * NS_PER_MS);
    metric_add(h, 100 * NS_PER_S);
    struct buf out = BUF_INIT(1 << 20);
    metric_write(&out);
    const char *text = buf_str(&out);
    static const char *const lines[] = {"t_latency_seconds_bucket{op=\"read\",le=\"0.001\"} 1\n",
        "{op=\"read\",le=\"0.01\"} 1\n", "{op=\"read\",le=\"0.025\"} 2\n",
        "{op=\"read\",le=\"60\"} 2\n", "{op=\"read\",le=\"+Inf\"} 3\n",
        "t_latency_seconds_sum{op=\"read\"} 100.021000000\n",
        "t_latency_seconds_count{op=\"read\"} 3\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_non_null(strstr(text, lines[i]));
    buf_free(&out);
}

/* What is not kept, and a value that has to be escaped. */
static void samples(void **state)
{
    (void)state;
    cleanup_buf struct buf out = BUF_INIT(1 << 20);
    metric_head(&out, &t_waits);
    metric_sample(&out, &t_waits, 1.5, "a \"pod\\\"\n", "disk");
    metric_sample(&out, &t_waits, 12345678901234, "b", "store");
    assert_string_equal(buf_str(&out),
        "# HELP t_waits_total Waits.\n# TYPE t_waits_total counter\n"
        "t_waits_total{caller=\"a \\\"pod\\\\\\\" \",for=\"disk\"} 1.5\n"
        "t_waits_total{caller=\"b\",for=\"store\"} 12345678901234\n");
}

/* Every definition of the program, used or not, in the order of its names. */
static void test_list(void **state)
{
    (void)state;
    char path[] = "/tmp/millrace-metrics.XXXXXX", text[4096] = "";
    int fd = mkstemp(path), old = dup(STDOUT_FILENO);
    assert_true(fd >= 0 && old >= 0);
    fflush(stdout);
    dup2(fd, STDOUT_FILENO);
    int rc = metric_list();
    dup2(old, STDOUT_FILENO);
    assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
    close(fd);
    close(old);
    unlink(path);
    assert_int_equal(rc, 0);
    assert_string_equal(text,
        "process_cpu_seconds_total\tcounter\t\tTotal user and system CPU time spent in seconds.\n"
        "process_resident_memory_bytes\tgauge\t\tResident memory size in bytes.\n"
        "t_bytes_total\tcounter\ttier\tBytes.\n"
        "t_latency_seconds\thistogram\top\tLatency.\n"
        "t_open\tgauge\t\tOpen files.\n"
        "t_threads_total\tcounter\t\tRegistered by many.\n"
        "t_waits_total\tcounter\tcaller,for\tWaits.\n");
}

static void *adder(void *user)
{
    for (int i = 0; i < 10000; i++)
        metric_add(user, 1);
    metric_of(&t_threads);
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    struct metric *m = metric_of(&t_threads);
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, adder, m), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    struct buf out = BUF_INIT(1 << 20);
    metric_write(&out);
    assert_non_null(strstr(buf_str(&out), "\nt_threads_total 40000\n"));
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(text_format),
        cmocka_unit_test(histogram_buckets_add_up), cmocka_unit_test(samples),
        cmocka_unit_test(test_list), cmocka_unit_test(many_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
