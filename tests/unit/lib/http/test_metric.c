/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "lib/base/clock.h"
#include "lib/http/metric.h"

#include <pthread.h>
#include <string.h>

static void text_format(void **state)
{
    (void)state;
    struct metric *a = metric_counter("t_bytes_total", "tier=\"ssd\"", "Bytes.");
    struct metric *other = metric_gauge("t_open", "", "Open files.");
    struct metric *b = metric_counter("t_bytes_total", "tier=\"mem\"", "Bytes.");
    assert_ptr_equal(a, metric_counter("t_bytes_total", "tier=\"ssd\"", "Bytes."));
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
    struct metric *h = metric_histogram("t_latency_seconds", "op=\"read\"", "Latency.");
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

static void *adder(void *user)
{
    for (int i = 0; i < 10000; i++)
        metric_add(user, 1);
    metric_counter("t_threads_total", "", "Registered by many.");
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    struct metric *m = metric_counter("t_threads_total", "", "Registered by many.");
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
        cmocka_unit_test(histogram_buckets_add_up), cmocka_unit_test(many_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
