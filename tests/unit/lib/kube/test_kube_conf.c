/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/conf.h"
#include "lib/kube/yaml.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64];

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/test_kube_conf.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return file_remove_tree(dir, NULL);
}

static void put(const char *name, const char *text)
{
    cleanup_free char *path = path_join(dir, name);
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, NULL), 0);
}

static const struct kube_where anywhere;

static struct kube_conf *parse(const char *text, struct err *e)
{
    return kube_conf_parse(text, strlen(text), dir, NULL, e);
}

#define CLUSTER(extra) \
    "clusters:\n- name: c\n  cluster:\n    server: https://10.0.0.1:6443/\n" extra
#define CONTEXT \
    "contexts:\n- name: x\n  context: {cluster: c, user: u, namespace: team}\ncurrent-context: x\n"
#define USER(what) "users:\n- name: u\n  user:\n" what

static void tokens_and_certificates(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    put("ca.pem", "CA TEXT\n");
    put("key.pem", "KEY TEXT\n");
    struct kube_conf *c = parse(
        "apiVersion: v1\nkind: Config\n" CLUSTER("    certificate-authority: ca.pem\n") CONTEXT USER(
            "    client-certificate-data: Q0VSVA==\n    client-key: key.pem\n    token: abcdef-secret\n"),
        &e);
    assert_non_null(c);
    assert_string_equal(c->server, "https://10.0.0.1:6443");
    assert_string_equal(kube_conf_namespace(c), "team");
    assert_string_equal(c->ca_pem, "CA TEXT\n");
    assert_string_equal(c->cert_pem, "CERT");
    assert_string_equal(c->key_pem, "KEY TEXT\n");
    assert_false(c->insecure);
    cleanup_free char *token = kube_conf_token(c, false);
    assert_string_equal(token, "abcdef-secret");
    assert_null(c->cert_file); /* half of it cannot change */
    kube_conf_free(c);
    put("cert.pem", "CERT TEXT\n");
    c = parse("apiVersion: v1\nkind: Config\n" CLUSTER("")
                  CONTEXT USER("    client-certificate: cert.pem\n    client-key: key.pem\n"),
        &e);
    assert_non_null(c);
    assert_string_equal(strrchr(c->cert_file, '/'), "/cert.pem");
    assert_string_equal(strrchr(c->key_file, '/'), "/key.pem");
    kube_conf_free(c);
}

static void json_is_as_good(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct kube_conf *c = parse(
        " {\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"http://h:1\",\"insecure-skip-tls-verify\":true}}],"
        "\"contexts\":[{\"name\":\"x\",\"context\":{\"cluster\":\"c\"}}],\"current-context\":\"x\"}",
        &e);
    assert_non_null(c);
    assert_true(c->insecure);
    assert_string_equal(kube_conf_namespace(c), "default");
    assert_null(kube_conf_token(c, true));
    kube_conf_free(c);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"a: [1", "yaml, line"},
        {"- 1\n- 2\n", "not a kubeconfig"},
        {"{\"a\":", "json, line"},
        {CLUSTER("") USER("    token: t\n"), "current-context"},
        {"current-context: y\n" CLUSTER(""), "contexts has no entry \"y\""},
        {"contexts:\n- name: x\n  context: {cluster: d}\ncurrent-context: x\n" CLUSTER(""),
            "context \"x\": clusters has no entry \"d\""},
        {CONTEXT CLUSTER(""), "users has no entry \"u\""},
        {CONTEXT "clusters:\n- name: c\n  cluster: {}\n", "cluster \"c\": server is missing"},
        {CONTEXT "clusters:\n- name: c\n  cluster: {server: 'ftp://x'}\n",
            "must begin with https://"},
        {CONTEXT CLUSTER("    certificate-authority-data: '!!'\n"),
            "certificate-authority-data is not base64"},
        {CONTEXT CLUSTER("    certificate-authority: missing.pem\n"), "missing.pem"},
        {CONTEXT CLUSTER("    proxy-url: http://p\n"), "\"proxy-url\" is not supported"},
        {CONTEXT CLUSTER("    tls-server-name: kubernetes\n"),
            "\"tls-server-name\" is not supported: start `kubectl proxy` and use --server"},
        {CONTEXT CLUSTER("") USER("    exec: {command: aws}\n"), "\"exec\" is not supported"},
        {CONTEXT CLUSTER("") USER("    client-key-data: S0VZ\n"), "must come together"},
        {CONTEXT CLUSTER("") USER("    tokenFile: none\n"), "none"},
        {CONTEXT CLUSTER("") USER("    token: a\n    token: b\n"), "\"token\" is given twice"},
        {"a: &x 1\n", "anchors"},
        {"a: *x\n", "alias"},
        {"a: 1\n---\nb: 2\n", "one document"},
        {"? [a, b]\n: 1\n", "a key must be"},
        {"", "one document"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        assert_null(parse(cases[i].text, &e));
        if (!strstr(e.msg, cases[i].says))
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, e.msg, cases[i].says);
        assert_true(e.cls == ERR_INVALID || e.cls == ERR_NOTFOUND);
    }
}

static void empty_fields_are_as_good_as_none(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct kube_conf *c = parse(CONTEXT CLUSTER("    proxy-url: \"\"\n    tls-server-name: ''\n")
                                    USER("    token: t\n    username: ''\n"),
        &e);
    assert_non_null(c);
    assert_string_equal(c->server, "https://10.0.0.1:6443");
    kube_conf_free(c);
}

/* A program's answer; its question is kept. */
static json_t *asked;
static const char *exec_answer;

static json_t *answer_exec(const json_t *spec, const json_t *info, struct err *e)
{
    asked = json_pack("{s:O, s:O}", "spec", spec, "info", info);
    return json_parse(exec_answer, strlen(exec_answer), e);
}

static struct kube_conf *parse_exec(const char *version, const char *more, struct err *e)
{
    cleanup_free char *text = xasprintf(
        CONTEXT CLUSTER("    certificate-authority-data: Q0VSVA==\n")
            USER("    exec: {apiVersion: client.authentication.k8s.io/%s, command: aws%s}\n"),
        version, more);
    static const struct kube_where w = {.exec = answer_exec};
    return kube_conf_parse(text, strlen(text), dir, &w, e);
}

static void a_program_makes_credentials(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    exec_answer = "{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t-o-k-e-n-1\"}}";
    struct kube_conf *c = parse_exec("v1beta1", ", args: [eks, get-token]", &e);
    assert_non_null(c);
    cleanup_free char *token = kube_conf_token(c, false);
    assert_string_equal(token, "t-o-k-e-n-1");
    assert_null(jget(asked, "info.spec.cluster"));
    assert_string_equal(jget_str(asked, "spec.args[1]", ""), "get-token");
    kube_conf_free(c);
    json_decref(asked);

    exec_answer =
        "{\"status\":{\"clientCertificateData\":\"CERT\",\"clientKeyData\":\"KEY TEXT\"}}";
    c = parse_exec("v1", ", provideClusterInfo: true", &e);
    assert_non_null(c);
    assert_string_equal(c->cert_pem, "CERT");
    assert_string_equal(c->key_pem, "KEY TEXT");
    assert_string_equal(jget_str(asked, "info.apiVersion", ""), "client.authentication.k8s.io/v1");
    assert_string_equal(jget_str(asked, "info.spec.cluster.server", ""), "https://10.0.0.1:6443");
    assert_string_equal(
        jget_str(asked, "info.spec.cluster.\"certificate-authority-data\"", ""), "Q0VSVA==");
    kube_conf_free(c);
    json_decref(asked);

    exec_answer = "{\"status\":{}}";
    assert_null(parse_exec("v1", "", &e));
    assert_non_null(strstr(e.msg, "without a token"));
    json_decref(asked);
    assert_null(parse_exec("v1alpha1", "", &e));
    assert_non_null(strstr(e.msg, "exec.apiVersion"));
}

static void a_server_alone_is_enough(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct kube_conf *c = kube_conf_load(
        &(struct kube_where){.server = "http://127.0.0.1:8001/"}, &e);
    assert_non_null(c);
    assert_string_equal(c->server, "http://127.0.0.1:8001");
    assert_string_equal(kube_conf_namespace(c), "default");
    assert_null(kube_conf_token(c, false));
    kube_conf_free(c);
    assert_null(kube_conf_load(&(struct kube_where){.server = "127.0.0.1:8001"}, &e));
    assert_non_null(strstr(e.msg, "must begin with https://"));
}

static void a_pod_reads_its_service_account(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_null(kube_conf_pod(dir, "10.96.0.1", "443", &e));
    assert_non_null(strstr(e.msg, "service account"));
    put("token", "first-token\n");
    put("ca.crt", "CA");
    put("namespace", "millrace-system");
    struct kube_conf *c = kube_conf_pod(dir, "fd00::1", "443", &e);
    assert_non_null(c);
    assert_string_equal(c->server, "https://[fd00::1]:443");
    assert_string_equal(kube_conf_namespace(c), "millrace-system");
    assert_string_equal(c->ca_pem, "CA");
    assert_string_equal(strrchr(c->ca_file, '/'), "/ca.crt"); /* kubelet writes a new one there */

    put("token", "second-token");
    cleanup_free char *still = kube_conf_token(c, false);
    assert_string_equal(still, "first-token"); /* read a moment ago */
    c->token_at -= CONF_TOKEN_NS + 1;
    cleanup_free char *later = kube_conf_token(c, false);
    assert_string_equal(later, "second-token");
    put("token", "third-token");
    cleanup_free char *fresh = kube_conf_token(c, true);
    assert_string_equal(fresh, "third-token");
    put("token", "");
    cleanup_free char *kept = kube_conf_token(c, true);
    assert_string_equal(kept, "third-token");
    kube_conf_free(c);
}

static void files_are_merged(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    put("ca.pem", "CA");
    put("one", "contexts:\n- {name: x, context: {cluster: c}}\n");
    put("two", "current-context: x\n" CLUSTER("    certificate-authority: ca.pem\n"));
    put("three",
        "current-context: z\nclusters:\n- {name: c, cluster: {server: 'https://other'}}\n");
    cleanup_free char *list = xasprintf("%s/one:%s/none:%s/two:%s/three", dir, dir, dir, dir);
    setenv("KUBECONFIG", list, 1);
    struct kube_conf *c = kube_conf_load(&anywhere, &e);
    assert_non_null(c);
    assert_string_equal(c->server, "https://10.0.0.1:6443");
    assert_string_equal(c->ca_pem, "CA");
    assert_string_equal(strrchr(c->ca_file, '/'), "/ca.pem"); /* it may be another one later */
    kube_conf_free(c);
    unsetenv("KUBECONFIG");
    cleanup_free char *none = xasprintf("%s/none", dir);
    assert_null(kube_conf_load(&(struct kube_where){.file = none}, &e));
    assert_non_null(strstr(e.msg, none));
    setenv("HOME", dir, 1);
    unsetenv("KUBERNETES_SERVICE_HOST");
    assert_null(kube_conf_load(&anywhere, &e));
    assert_int_equal(e.cls, ERR_NOTFOUND);
}

static void yaml_becomes_json(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *json;
    } cases[] = {
        {"a: 1\nb: true\nc: null\nd: '1'\ne: \"true\"\nf: 007\ng: 1.5\nh: -3\ni:\n",
            "{\"a\":1,\"b\":true,\"c\":null,\"d\":\"1\",\"e\":\"true\",\"f\":\"007\",\"g\":\"1.5\",\"h\":-3,\"i\":null}"},
        {"- a\n- [b, c]\n- {d: [e]}\n- |\n  two\n  lines\n- >\n  one\n  line\n",
            "[\"a\",[\"b\",\"c\"],{\"d\":[\"e\"]},\"two\\nlines\\n\",\"one line\\n\"]"},
        {"# only\nx: y # z\n", "{\"x\":\"y\"}"},
        {"x: 99999999999999999999\n", "{\"x\":\"99999999999999999999\"}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        json_t *j = yaml_parse(cases[i].yaml, strlen(cases[i].yaml), &e);
        assert_non_null(j);
        cleanup_free char *text = json_text(j);
        assert_string_equal(text, cases[i].json);
        json_decref(j);
    }
    struct err e = ERR_INIT;
    char deep[200];
    memset(deep, '[', sizeof deep);
    assert_null(yaml_parse(deep, sizeof deep, &e));
    assert_non_null(strstr(e.msg, "too many levels"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_fields_are_as_good_as_none),
        cmocka_unit_test_setup_teardown(tokens_and_certificates, setup, teardown),
        cmocka_unit_test_setup_teardown(json_is_as_good, setup, teardown),
        cmocka_unit_test_setup_teardown(mistakes_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pod_reads_its_service_account, setup, teardown),
        cmocka_unit_test_setup_teardown(files_are_merged, setup, teardown),
        cmocka_unit_test_setup_teardown(a_program_makes_credentials, setup, teardown),
        cmocka_unit_test(a_server_alone_is_enough),
        cmocka_unit_test(yaml_becomes_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
