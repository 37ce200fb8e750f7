/* SPDX-License-Identifier: Apache-2.0 */
/* docs/reference/metrics.md is what the programs print with --list-metrics, and the chart's rules
 * and dashboard use nothing else. With MILLRACE_UPDATE_GOLDEN=1 the page is written anew. */
#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/lib/unit.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METRICS_MAX 256

struct line {
    char *name, *type, *labels, *help;
    struct buf by; /* components, with commas between them */
};

static struct line metrics[METRICS_MAX];
static size_t nmetrics;

static char *source(const char *path)
{
    const char *root = getenv("MILLRACE_SOURCE");
    assert_non_null(root);
    return path_join(root, path);
}

static struct line *find(const char *name, size_t len)
{
    for (size_t i = 0; i < nmetrics; i++)
        if (strlen(metrics[i].name) == len && memcmp(metrics[i].name, name, len) == 0)
            return &metrics[i];
    return NULL;
}

/* The same name means the same in every program, and stands once in each. */
static void add(char *text, const char *component)
{
    char *name = strsep(&text, "\t"), *type = strsep(&text, "\t"), *labels = strsep(&text, "\t");
    assert_non_null(text);
    struct line *m = find(name, strlen(name));
    if (!m) {
        assert_true(nmetrics < METRICS_MAX);
        m = &metrics[nmetrics++];
        *m = (struct line){
            xstrdup(name), xstrdup(type), xstrdup(labels), xstrdup(text), BUF_INIT(256)};
        buf_adds(&m->by, component);
        return;
    }
    if (strcmp(m->type, type) != 0 || strcmp(m->labels, labels) != 0 || strcmp(m->help, text) != 0)
        fail_msg("%s is something else in %s than in %s", name, component, buf_str(&m->by));
    if (strstr(buf_str(&m->by), component))
        fail_msg("%s is defined twice in %s", name, component);
    buf_addf(&m->by, ", %s", component);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct line *)a)->name, ((const struct line *)b)->name);
}

static int setup(void **state)
{
    (void)state;
    static const char *const programs[][2] = {{"millrace-operator", "operator"},
        {"millrace-csi", "csi"}, {"millrace-fuse", "client"}, {"millrace-worker", "worker"}};
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        const char *program = getenv(programs[i][0]);
        if (!program)
            return -1;
        cleanup_free char *command = xasprintf("'%s' --list-metrics", program);
        FILE *f = popen(command, "r");
        char line[1024];
        while (f && fgets(line, sizeof line, f)) {
            line[strcspn(line, "\n")] = '\0';
            add(line, programs[i][1]);
        }
        if (!f || pclose(f))
            return -1;
    }
    qsort(metrics, nmetrics, sizeof *metrics, by_name);
    return nmetrics > 50 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < nmetrics; i++) {
        char *const all[] = {metrics[i].name, metrics[i].type, metrics[i].labels, metrics[i].help};
        for (size_t k = 0; k < ARRAY_LEN(all); k++)
            free(all[k]);
        buf_free(&metrics[i].by);
    }
    return 0;
}

static void write_page(struct buf *out)
{
    buf_adds(out,
        "# Metrics\n"
        "\n"
        "Every pod of Millrace serves them at `:9402/metrics`, in Prometheus' text format. The port has nothing else; it asks for no\n"
        "credentials. Durations are histograms in seconds, from 1 ms to 60 s. [Monitoring](../operations/monitoring.md) tells how to scrape\n"
        "them, which alerts the chart has, and what to do at each.\n"
        "\n"
        "This page is made of the programs' own lists, `millrace-operator --list-metrics` and so on; a test compares. Loaders have the\n"
        "metrics of workers. What is counted of a pod begins anew with its process. The `millrace_dataset_…` are told by the operator that\n"
        "leads, of all pods of a Dataset together.\n"
        "\n"
        "| metric | type | labels | of | meaning |\n"
        "|---|---|---|---|---|\n");
    for (size_t i = 0; i < nmetrics; i++) {
        struct line *m = &metrics[i];
        cleanup_buf struct buf labels = BUF_INIT(256);
        for (const char *p = m->labels; *p;) {
            size_t n = strcspn(p, ",");
            buf_addf(&labels, "%s`%.*s`", labels.len ? ", " : "", (int)n, p);
            p += n + (p[n] == ',');
        }
        buf_addf(out, "| `%s` | %s | %s | %s | %s |\n", m->name, m->type, buf_str(&labels),
            strcmp(buf_str(&m->by), "operator, csi, client, worker") == 0 ? "all" : buf_str(&m->by),
            m->help);
    }
}

static void test_page(void **state)
{
    (void)state;
    cleanup_buf struct buf want = BUF_INIT(1 << 20);
    write_page(&want);
    cleanup_free char *path = source("docs/reference/metrics.md");
    if (getenv("MILLRACE_UPDATE_GOLDEN")) {
        struct err e = ERR_INIT;
        assert_int_equal(file_write_atomic(path, want.data, want.len, 0644, &e), 0);
    }
    cleanup_free char *page = file_read(path, 1 << 20, NULL, NULL);
    assert_non_null(page);
    assert_string_equal(page, buf_str(&want));
}

static void test_conventions(void **state)
{
    (void)state;
    for (size_t i = 0; i < nmetrics; i++) {
        const struct line *m = &metrics[i];
        size_t n = strlen(m->name);
        bool counter = strcmp(m->type, "counter") == 0,
             total = n > 6 && strcmp(m->name + n - 6, "_total") == 0;
        if (counter != total)
            fail_msg("%s: counters, and they alone, end in _total", m->name);
        if (strcmp(m->type, "histogram") == 0 && !strstr(m->name, "_seconds"))
            fail_msg("%s: a histogram is one of seconds", m->name);
        if (!m->help[0] || m->help[strlen(m->help) - 1] != '.' || islower((unsigned char)*m->help))
            fail_msg("%s: the help is a sentence", m->name);
    }
}

/* Every name of a metric in the file is one that exists. */
static void check_names(const char *file)
{
    static const char *const suffixes[] = {"", "_bucket", "_sum", "_count"};
    cleanup_free char *path = source(file), *text = file_read(path, 1 << 20, NULL, NULL);
    size_t found = 0;
    assert_non_null(text);
    for (const char *p = text; (p = strstr(p, "millrace_"));) {
        size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_");
        bool inside = p > text
            && (isalnum((unsigned char)p[-1]) || p[-1] == '_'); /* another word */
        const struct line *m = NULL;
        for (size_t i = 0; i < ARRAY_LEN(suffixes) && !m; i++) {
            size_t cut = strlen(suffixes[i]);
            if (n > cut && memcmp(p + n - cut, suffixes[i], cut) == 0)
                m = find(p, n - cut);
            if (m && cut && strcmp(m->type, "histogram") != 0)
                m = NULL;
        }
        if (!m && !inside)
            fail_msg("%s: there is no metric %.*s", file, (int)n, p);
        found += m != NULL;
        p += n;
    }
    assert_true(found > 5);
}

static void test_chart(void **state)
{
    (void)state;
    check_names("charts/millrace/files/rules.yaml");
    check_names("charts/millrace/files/dashboard.json");
    check_names("docs/operations/monitoring.md");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_page),
        cmocka_unit_test(test_conventions), cmocka_unit_test(test_chart)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
