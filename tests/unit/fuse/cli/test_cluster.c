/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of an API server, what is gone without, and what a terminal gets of its answers. */
#include "fuse/cli/cluster.h"

#include "fuse/cli/cli.h"
#include "fuse/cli/kind.h"
#include "lib/base/mem.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void what_may_not_be_read_is_named_once(void **state)
{
    (void)state;
    const struct kube_res *const refused[] = {
        &kube_tfjobs, &kube_jobs, &kube_csinodes, &kube_nodes, &kube_jobs, &kube_access_reviews};
    struct cluster c = {.skipped = BUF_INIT(1024)};
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct err e = ERR_INIT;
        err_set(&e, ERR_DENIED, "no: Forbidden (403)");
        assert_int_equal(cluster_skip(&c, refused[i], &e), 0);
        assert_int_equal(e.cls, ERR_NONE);
    }
    assert_string_equal(
        buf_str(&c.skipped), "tfjobs, jobs, csinodes, nodes, selfsubjectaccessreviews");
    cluster_close(&c);
}

static void what_is_wrong_is_no_reason_to_go_on(void **state)
{
    (void)state;
    struct cluster c = {.skipped = BUF_INIT(1024)};
    struct err e = ERR_INIT;
    err_set(&e, ERR_DENIED, "Unauthorized (401)");
    assert_int_equal(cluster_skip(&c, &kube_pods, &e), -1);
    err_set(&e, ERR_RETRY, "timeout");
    assert_int_equal(cluster_skip(&c, &kube_pods, &e), -1);
    err_set(&e, ERR_NOTFOUND, "no such kind");
    assert_int_equal(cluster_skip(&c, &kube_pods, &e), 0);
    assert_int_equal(c.skipped.len, 0);
    cluster_close(&c);
}

static void odd_names_are_refused(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "train-0", "my.dataset", "0-x"},
                             *const bad[] = {"", ".", "..", "../x", "a/b", "a b", "A", "a?x=1",
                                 "a%2f", "a\x1b[31m", "-a", "\xc3\xa4"};
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_int_equal(cluster_check_name("pod", good[i], &e), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        e = (struct err)ERR_INIT;
        assert_int_equal(cluster_check_name("pod", bad[i], &e), -1);
        assert_non_null(strstr(e.msg, "is no name of a pod: those have lower-case letters"));
    }
}

static void kinds_are_spelled_as_kubectl_takes_them(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        enum cli_kind kind;
    } cases[] = {{"x", CLI_KIND_ANY}, {"pod/x", CLI_KIND_POD}, {"pods/x", CLI_KIND_POD},
        {"po/x", CLI_KIND_POD}, {"Pod/x", CLI_KIND_POD}, {"dataset/x", CLI_KIND_DATASET},
        {"datasets/x", CLI_KIND_DATASET}, {"mds/x", CLI_KIND_DATASET},
        {"dataset.millrace.dev/x", CLI_KIND_DATASET},
        {"datasets.v1alpha1.millrace.dev/x", CLI_KIND_DATASET}, {"dataload/x", CLI_KIND_DATALOAD},
        {"dataloads/x", CLI_KIND_DATALOAD}, {"mdl/x", CLI_KIND_DATALOAD}, {"tfjob/x", CLI_KIND_JOB},
        {"TFJobs/x", CLI_KIND_JOB}, {"job/x", CLI_KIND_JOB}, {"jobs.batch/x", CLI_KIND_JOB},
        {"deploy/x", CLI_KIND_JOB}};
    static const char *const unknown[] = {"service/x", "po-d/x", "/x", "datase/x", "podss/x"};
    enum cli_kind kind;
    const char *name;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        assert_int_equal(cli_kind_split(cases[i].what, &kind, &name, &e), 0);
        assert_int_equal(kind, cases[i].kind);
        assert_string_equal(name, "x");
    }
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
        struct err e = ERR_INIT;
        assert_int_equal(cli_kind_split(unknown[i], &kind, &name, &e), -1);
        assert_non_null(strstr(e.msg, "write pod, job, tfjob, dataset or dataload"));
    }
}

static void a_terminal_is_not_commanded(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"plain, t\xc3\xa4glich \xe2\x86\x92 \xe4\xb8\xad \xf0\x9f\x98\x80\n\tx",
            "plain, t\xc3\xa4glich \xe2\x86\x92 \xe4\xb8\xad \xf0\x9f\x98\x80\n\tx"},
        {"\x1b[31mred", "?[31mred"},
        {"\x1b]0;title\x07", "?]0;title?"},
        {"a\rb\bc\x7f", "a?b?c?"},
        {"\xc2\x9b"
         "31m",
            "?31m"},
        {"x\xe2\x80\xae"
         "cod.exe\xe2\x81\xa6",
            "x?cod.exe?"},
        {"\xc2", "\xc2"}, /* ends within a character */
        {"\xe2\x80", "\xe2\x80"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_free char *text = NULL;
        size_t len;
        FILE *out = open_memstream(&text, &len);
        cli_put(out, cases[i].text);
        fclose(out);
        assert_string_equal(text, cases[i].shown);
    }
}

/* It may be meant for a Dataset, a namespace or a pod: the words name the verbs for these. */
static void doctor_takes_no_name(void **state)
{
    (void)state;
    char words[4096] = "", *argv[] = {(char *)"doctor", (char *)"imagenet", NULL};
    FILE *out = tmpfile();
    int keep = dup(STDERR_FILENO);
    assert_true(dup2(fileno(out), STDERR_FILENO) >= 0);
    int rc = verb_doctor(verb_find("doctor"), 2, argv);
    dup2(keep, STDERR_FILENO);
    close(keep);
    rewind(out);
    words[fread(words, 1, sizeof words - 1, out)] = '\0';
    fclose(out);
    assert_int_equal(rc, CLI_MISUSE);
    assert_non_null(strstr(words, "status imagenet` of a Dataset"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_may_not_be_read_is_named_once),
        cmocka_unit_test(what_is_wrong_is_no_reason_to_go_on),
        cmocka_unit_test(odd_names_are_refused),
        cmocka_unit_test(kinds_are_spelled_as_kubectl_takes_them),
        cmocka_unit_test(doctor_takes_no_name),
        cmocka_unit_test(a_terminal_is_not_commanded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
