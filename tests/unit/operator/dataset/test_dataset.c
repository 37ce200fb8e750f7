/* SPDX-License-Identifier: Apache-2.0 */
/* Dataset and DataLoad: json → struct, what is made of it, and that the programs can read what they
 * are told. */
#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/conf.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/dataload.h"
#include "operator/api/dataset.h"
#include "operator/dataset/cache_pod.h"
#include "operator/dataset/observed.h"
#include "operator/dataset/report_news.h"
#include "operator/render/meta.h"
#include "operator/render/pod.h"
#include "operator/render/volume.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct render_env env = {
    .image = "example.org/millrace:1", .pull_policy = "", .pull_secrets = "one,two"};

static json_t *cr_of(const char *name, const char *spec)
{
    struct err e = ERR_INIT;
    json_t *s = json_parse(spec, strlen(spec), &e);
    if (!s)
        fail_msg("%s in %s", e.msg, spec);
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:i}, s:o}", "apiVersion", NAME_API_VERSION,
        "kind", "Dataset", "metadata", "name", name, "namespace", "team", "uid", "0b8f3c1e",
        "generation", 3, "spec", s);
}

static void test_defaults(void **state)
{
    (void)state;
    const char *reason = NULL;
    struct err e = ERR_INIT;
    cleanup_json json_t *cr = cr_of("mnist", "{\"mounts\":[{\"mountPoint\":\"s3://b\"}]}");
    cleanup_dataset struct dataset *d = dataset_parse(cr, NULL, &reason, &e);
    assert_non_null(d);
    assert_string_equal(d->mounts[0].path, "/");
    assert_true(d->read_only);
    assert_int_equal(d->replicas, 1);
    assert_int_equal(d->tiers.n, 1);
    assert_int_equal(d->tiers.tier[0].medium, CONF_SSD);
    assert_true(d->tiers.tier[0].quota == INT64_C(10) << 30);
    assert_int_equal(d->tiers.memory, 0);
    assert_int_equal(d->mounts[0].immutable, -1);
    assert_int_equal(d->nrules, 0);
    assert_int_equal(d->generation, 3);
}

/* They go to the pods in one variable, which has a limit. */
static void test_options_too_long(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        const char *reason = NULL;
        struct err e = ERR_INIT;
        char certs[30001];
        memset(certs, 'x', sizeof certs - 1);
        certs[sizeof certs - 1] = '\0';
        cleanup_json json_t *cr = cr_of("mnist", "{\"mounts\":[]}");
        for (int i = 0; i < n; i++)
            json_array_append_new(json_object_get(json_object_get(cr, "spec"), "mounts"),
                json_pack("{s:s, s:o, s:{s:s}}", "mountPoint", "s3://b", "path",
                    json_sprintf("/%d", i), "options", "ca-cert", certs));
        cleanup_dataset struct dataset *d = dataset_parse(cr, NULL, &reason, &e);
        assert_int_equal(d != NULL, n <= 3);
        if (n > 3)
            assert_non_null(strstr(e.msg, "give certificates by caBundle"));
    }
}

static void test_paths(void **state)
{
    (void)state;
    static const struct {
        const char *mounts, *first, *second;
    } cases[] = {
        {"{\"mountPoint\":\"s3://b\"}", "/", NULL},
        {"{\"mountPoint\":\"s3://b\",\"path\":\"/train\"}", "/train", NULL},
        {"{\"mountPoint\":\"s3://b\",\"path\":\"/x\"},{\"mountPoint\":\"pvc://c/d/\",\"path\":\"/y/z\"}",
            "/x", "/y/z"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_free char *spec = xasprintf("{\"mounts\":[%s]}", cases[i].mounts);
        const char *reason;
        cleanup_json json_t *cr = cr_of("a", spec);
        cleanup_dataset struct dataset *d = dataset_parse(cr, NULL, &reason, NULL);
        assert_non_null(d);
        assert_string_equal(d->mounts[0].path, cases[i].first);
        assert_int_equal(d->nmounts, cases[i].second ? 2 : 1);
        if (cases[i].second)
            assert_string_equal(d->mounts[1].path, cases[i].second);
    }
}

/* Each names the field and says something of the remedy. */
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *spec, *reason, *says;
    } cases[] = {
        {"a", "{}", "InvalidSpec", "spec.mounts"},
        {"a", "{\"mounts\":7}", "InvalidSpec", "spec.mounts"},
        {"a", "{\"mounts\":[7]}", "InvalidURL", "spec.mounts[0]"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"file:///data\"}]}", "InvalidURL",
            "pvc://claim/directory"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"s3://\"}]}", "InvalidURL", "names no bucket"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"s3://b/c\\td\"}]}", "InvalidURL",
            "control characters"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"pvc://c/../x\"}]}", "InvalidURL",
            "pvc://claim/directory"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"pvc://a/x\"}]}", "InvalidURL", "itself"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"s3://b\",\"path\":\"/x/\"}]}", "InvalidSpec",
            "spec.mounts[0].path"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"s3://b\"},{\"mountPoint\":\"s3://c\"}]}",
            "InvalidSpec", "give each its own"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"s3://b\",\"secretRef\":{}}]}", "InvalidOption",
            "secretRef.name is missing"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"s3://b\",\"secretRef\":{\"name\":\"../x\"}}]}",
            "InvalidOption", "secretRef.name"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"s3://b\",\"caBundle\":{}}]}", "InvalidOption",
            "configMapKeyRef"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"s3://b\",\"options\":{\"session-token\":\"x\"}}]}",
            "InvalidOption", "Secret"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"s3://b\",\"options\":[]}]}", "InvalidOption",
            "map of strings"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"s3://b\",\"encryptOptions\":[{\"name\":\"k\"}]}]}",
            "InvalidOption", "secretKeyRef.name"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"s3://b\"}],\"accessModes\":[\"Any\"]}", "InvalidSpec",
            "spec.accessModes[0]"},
        {"a", "{\"mounts\":[{\"mountPoint\":\"s3://b\"}],\"cache\":{\"replicas\":-1}}",
            "InvalidSpec", "spec.cache.replicas"},
        {"a",
            "{\"mounts\":[{\"mountPoint\":\"s3://b\"}],\"cache\":{\"rules\":[{\"path\":\"/\",\"writeType\":\"MustCache\"}]}}",
            "InvalidSpec", "spec.cache.rules[0].writeType"},
        {"a",
            "{\"mounts\":[{\"mountPoint\":\"s3://b\"}],\"cache\":{\"tiers\":[{\"medium\":\"Tape\",\"quota\":\"1Gi\"}]}}",
            "InvalidSpec", "medium"},
        {"a",
            "{\"mounts\":[{\"mountPoint\":\"s3://b\"}],\"cache\":{\"tiers\":[{\"medium\":\"SSD\",\"quota\":\"1Ki\"}]}}",
            "InvalidSpec", "1Mi"},
        {"a",
            "{\"mounts\":[{\"mountPoint\":\"s3://b\"}],\"cache\":{\"worker\":{\"resources\":{\"limits\":{\"cpu\":\"fast\"}}}}}",
            "InvalidSpec", "spec.cache.worker.resources.limits.cpu"},
        {"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeee",
            "{\"mounts\":[{\"mountPoint\":\"s3://b\"}]}", "NameTooLong", "at most 46"},
        {"a.b", "{\"mounts\":[{\"mountPoint\":\"s3://b\"}]}", "InvalidSpec", "metadata.name"},
        {"a-", "{\"mounts\":[{\"mountPoint\":\"s3://b\"}]}", "InvalidSpec", "metadata.name"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *reason = "none";
        struct err e = ERR_INIT;
        cleanup_json json_t *cr = cr_of(cases[i].name, cases[i].spec);
        cleanup_dataset struct dataset *d = dataset_parse(cr, NULL, &reason, &e);
        if (d || strcmp(reason, cases[i].reason) != 0 || !strstr(e.msg, cases[i].says))
            fail_msg("%s: %s: %s", cases[i].spec, reason, d ? "accepted" : e.msg);
    }
}

#define WHOLE                                                                                                                                                                      \
    "{\"mounts\":[{\"mountPoint\":\"s3://b/p\",\"path\":\"/x\",\"immutable\":false,\"secretRef\":{\"name\":\"s3\"},\"options\":{\"endpoint\":\"http://h:1\"},\"encryptOptions\":[" \
    "{\"name\":\"access-key-id\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"creds\",\"key\":\"accessKey\"}}},"                                                                    \
    "{\"name\":\"secret-access-key\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"creds\",\"key\":\"secretKey\"}}}]},"                                                              \
    "{\"mountPoint\":\"pvc://labels/v1\",\"path\":\"/l\",\"readOnly\":true}],\"accessModes\":[\"ReadWriteMany\"],"                                                                 \
    "\"cache\":{\"replicas\":3,\"tiers\":[{\"medium\":\"Memory\",\"quota\":\"1Gi\"},{\"medium\":\"HDD\",\"quota\":5000000000}],"                                                   \
    "\"rules\":[{\"path\":\"/\",\"writeType\":\"Through\"}],\"metadataSyncSeconds\":30}}"

/* What the operator writes, the client reads: the two ends of lib/conf/conf.h. */
static void test_config(void **state)
{
    (void)state;
    const char *reason;
    struct err e = ERR_INIT;
    cleanup_json json_t *cr = cr_of("mnist", WHOLE), *keep_free = json_integer(18),
                        *endpoints = json_pack("[s, s]", "aws", "https://minio.example");
    cleanup_dataset struct dataset *d = dataset_parse(cr, NULL, &reason, &e);
    assert_non_null(d);
    cleanup_free char *text = render_config(d, &d->client.tiers, keep_free, endpoints);
    cleanup_conf struct conf *c = conf_parse(text, strlen(text), &e);
    if (!c)
        fail_msg("%s: %s", e.msg, text);
    assert_string_equal(c->namespace_, "team");
    assert_string_equal(c->name, "mnist");
    assert_string_equal(c->uid, "0b8f3c1e");
    assert_false(c->read_only);
    assert_int_equal(c->nmounts, 2);
    assert_string_equal(c->mounts[0].mount_point, "s3://b/p");
    assert_string_equal(c->mounts[0].path, "/x");
    assert_int_equal(c->mounts[0].noptions, 1);
    assert_int_equal(c->mounts[0].nsecrets, 2);
    assert_string_equal(c->mounts[0].secrets[1].value, "keys/0/secret-access-key");
    assert_string_equal(c->mounts[0].secret_names[1].value, "creds:secretKey");
    assert_string_equal(c->mounts[1].mount_point, "file:///mnt/claims/1/v1");
    assert_true(c->mounts[1].read_only);
    assert_int_equal(c->ntiers, 2);
    assert_int_equal(c->tiers[1].medium, CONF_HDD);
    assert_true(c->tiers[1].quota == 5000000000);
    assert_int_equal(conf_write_of(c, "/x/y"), CONF_THROUGH);
    assert_int_equal(c->mounts[0].immutable, CONF_IMMUTABLE_FALSE);
    assert_int_equal(c->mounts[1].immutable, CONF_IMMUTABLE_UNSET);
    assert_string_equal(c->mounts[0].secret_dir, "secret-0");
    assert_int_equal(c->keep_free, 18);
    assert_int_equal(c->mounts[1].nendpoints, 2);
    assert_string_equal(c->mounts[1].endpoints[1], "https://minio.example");
    assert_string_equal(c->worker_count_file, POD_INFO_DIR "/" POD_INFO_WORKERS);
    assert_string_equal(c->worker_service, "mnist-cache.team.svc");
    assert_string_equal(c->worker_name, "mnist-cache");
    assert_int_equal(c->worker_port, PORT_HTTP);
}

/* Pod Security, profile restricted, as far as it concerns pods like ours. */
static void check_restricted(const json_t *pod)
{
    static const char *const allowed[] = {"configMap", "csi", "downwardAPI", "emptyDir",
        "ephemeral", "persistentVolumeClaim", "projected", "secret"};
    const json_t *spec = jget(pod, "spec"), *volumes = jget_arr(spec, "volumes"),
                 *containers = jget_arr(spec, "containers");
    assert_true(jget_bool(spec, "securityContext.runAsNonRoot", false));
    assert_string_equal(
        jget_str(spec, "securityContext.seccompProfile.type", ""), "RuntimeDefault");
    assert_null(jget(spec, "hostNetwork"));
    assert_null(jget(spec, "hostPID"));
    assert_false(jget_bool(spec, "automountServiceAccountToken", true));
    for (size_t i = 0; i < json_array_size(containers); i++) {
        const json_t *sc = jget(json_array_get(containers, i), "securityContext");
        assert_false(jget_bool(sc, "allowPrivilegeEscalation", true));
        assert_true(jget_bool(sc, "readOnlyRootFilesystem", false));
        assert_string_equal(jget_str(sc, "capabilities.drop[0]", ""), "ALL");
        assert_null(jget(sc, "capabilities.add"));
        assert_null(jget(json_array_get(containers, i), "ports[0].hostPort"));
    }
    for (size_t i = 0; i < json_array_size(volumes); i++) {
        const json_t *v = json_array_get(volumes, i);
        bool ok = false;
        for (size_t k = 0; k < ARRAY_LEN(allowed); k++)
            ok |= json_object_get(v, allowed[k]) != NULL;
        assert_true(ok);
    }
    assert_int_equal(json_array_size(containers), 1);
}

static void test_pods(void **state)
{
    (void)state;
    const char *reason;
    cleanup_json json_t *cr = cr_of("mnist", WHOLE), *paths = json_array();
    const struct render_place beside[] = {{"g1", 100}, {"g2", 80}};
    const struct render_places gpus = {beside, 2, "g1 g2"};
    cleanup_json json_t *load = json_pack(
        "{s:{s:s, s:s, s:s}}", "metadata", "name", "warm", "namespace", "team", "uid", "l1");
    cleanup_dataset struct dataset *d = dataset_parse(cr, NULL, &reason, NULL);
    cleanup_json json_t *worker = render_worker(d, &env, 2, NULL),
                        *hinted = render_worker(d, &env, 2, &gpus),
                        *client = render_client(d, &env, "node-1"),
                        *elsewhere = render_client(d, &env, "node-2"),
                        *loader = render_loader(
                            d, &env, load, &(struct loader_words){.paths = paths, .pin = -1});
    check_restricted(worker);
    check_restricted(hinted);
    check_restricted(client);
    check_restricted(loader);

    assert_string_equal(kube_name(worker), "mnist-cache-2");
    assert_true(render_same(worker, hinted)); /* nodes come and go: no reason to replace a worker */
    assert_false(json_equal(worker, hinted));
    assert_int_equal(
        jget_len(
            hinted, "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"),
        2);
    assert_string_not_equal(kube_name(client), kube_name(elsewhere));
    assert_string_equal(kube_label(loader, LABEL_DATALOAD), "warm");
    assert_string_equal(jget_str(loader, "spec.containers[0].command[2]", ""), "/");
    assert_string_equal(
        jget_str(client, "spec.containers[0].resources.requests.memory", ""), "1088Mi");
    assert_string_equal(
        jget_str(client, "spec.containers[0].resources.limits.memory", ""), "1280Mi");
    assert_string_equal(
        jget_str(loader, "spec.containers[0].resources.limits.memory", ""), "256Mi");
    assert_string_equal(jget_str(client, "spec.imagePullSecrets[1].name", ""), "two");
    assert_null(jget(client, "spec.containers[0].imagePullPolicy"));
    assert_null(jget(client, "spec.nodeName"));
    assert_string_equal(
        jget_str(client, "spec.volumes[0].csi.volumeAttributes.\"" VOL_KIND "\"", ""),
        VOL_KIND_CLIENT);
    assert_true(jget_bool(client, "spec.volumes[1].projected.sources[0].secret.optional", false));

    struct render_env newer = env;
    newer.image = "example.org/millrace:2";
    cleanup_json json_t *upgraded = render_worker(d, &newer, 2, &gpus);
    assert_false(render_same(upgraded, worker));
}

/* Jobs are placed beside bytes that stay. */
static void test_holds(void **state)
{
    (void)state;
    cleanup_json json_t *report = json_pack("{s:{s:i}}", "cache", "usedBytes", 4096),
                        *worker = json_pack("{s:{s:s, s:{s:s}}}", "metadata", "name", "w", "labels",
                            LABEL_COMPONENT, COMPONENT_WORKER),
                        *client = json_pack("{s:{s:s, s:s, s:{s:s}}}", "metadata", "name", "c",
                            "deletionTimestamp", "2026-01-31T12:00:00Z", "labels", LABEL_COMPONENT,
                            COMPONENT_CLIENT);
    assert_int_equal(cache_pod_holds(&(struct cache_pod){worker, report}), 4096);
    assert_int_equal(cache_pod_holds(&(struct cache_pod){client, report}), 4096);
    assert_int_equal(cache_pod_holds(&(struct cache_pod){worker, NULL}), 0);
    json_object_set_new(json_object_get(worker, "metadata"), "deletionTimestamp",
        json_string("2026-01-31T12:00:00Z"));
    assert_int_equal(cache_pod_holds(&(struct cache_pod){worker, report}), 0);
}

/* Every derived name is a valid label of at most 63 characters, even for the longest name. */
static void test_names(void **state)
{
    (void)state;
    char name[DATASET_NAME_MAX + 1];
    memset(name, 'a', DATASET_NAME_MAX);
    name[DATASET_NAME_MAX] = '\0';
    cleanup_free char *worker = render_worker_name(name, DATASET_REPLICAS_MAX - 1),
                      *client = render_client_name(name, "some.node"),
                      *service = render_service_name(name);
    assert_true(strlen(worker) <= 63);
    assert_true(strlen(client) <= 63);
    assert_true(strlen(service) <= 63);
    char load[DATALOAD_NAME_MAX + 1];
    memset(load, 'b', DATALOAD_NAME_MAX);
    load[DATALOAD_NAME_MAX] = '\0';
    cleanup_free char *loader = render_loader_name(load);
    assert_true(strlen(loader) <= 63);
}

/* NAME-cache-0.NAME-cache.NAMESPACE.svc.NAMESPACE.svc.cluster.local has at most 253 characters. */
static void test_names_for_dns(void **state)
{
    (void)state;
    static const struct {
        int name, ns, replicas;
        const char *says; /* NULL: it fits */
    } rows[] = {{46, 61, 1, NULL}, {46, 62, 1, "at most 45 instead of 46"}, {44, 63, 10, NULL},
        {45, 63, 1, "at most 44 instead of 45"}, {46, 63, 1, "at most 44 instead of 46"},
        {44, 63, 11, "at most 43 instead of 44"}, {43, 63, 1000, NULL}, {46, 63, 0, NULL}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char name[64], ns[64], words[DATASET_WORDS_LEN] = "";
        snprintf(name, sizeof name, "%0*d", rows[i].name, 0);
        snprintf(ns, sizeof ns, "%0*d", rows[i].ns, 0);
        const struct dataset d = {.name = name, .ns = ns, .replicas = rows[i].replicas};
        assert_int_equal(dataset_unresolvable(&d, words), rows[i].says != NULL);
        if (rows[i].says && !strstr(words, rows[i].says))
            fail_msg("row %zu: %s", i, words);
    }
}

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        const char *start, *want;
    } cases[] = {{"2026-01-31T11:59:58Z", "2s"}, {"2026-01-31T11:58:57Z", "1m3s"},
        {"2026-01-31T09:57:56Z", "2h2m4s"}, {"2026-01-31T12:00:05Z", "0s"}};
    cleanup_json json_t *conditions = json_array();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_json json_t *cr = json_object();
        const struct dataload_status s = {.phase = DATALOAD_COMPLETE,
            .conditions = conditions,
            .started = cases[i].start,
            .finished = true,
            .now_ns = INT64_C(1769860800) * 1000000000};
        cleanup_json json_t *status = dataload_status_json(cr, &s);
        assert_string_equal(jget_str(status, "completionTime", ""), "2026-01-31T12:00:00Z");
        assert_string_equal(jget_str(status, "duration", ""), cases[i].want);
    }
}

/* A message that does not fit is cut between characters: what is left is still UTF-8 and can become
 * json. */
static void test_long_message(void **state)
{
    (void)state;
    for (int shift = 0; shift < 3; shift++) {
        cleanup_free char *text = xmalloc(2000);
        memset(text, 'x', 2000);
        for (int i = shift; i + 3 < 1990; i += 3)
            memcpy(text + i, "\xe2\x82\xac", 3);
        text[1990] = '\0';
        text[1990 - (1990 - shift) % 3] = '\0';
        cleanup_json json_t *pod = json_pack(
            "{s:{s:s}, s:{s:s}}", "metadata", "name", "p", "status", "phase", "Running");
        cleanup_json json_t *report = json_pack(
            "{s:b, s:s, s:s}", "ready", 0, "reason", "AccessDenied", "message", text);
        assert_non_null(report);
        struct cache_pod_health v;
        cache_pod_evaluate(&(struct cache_pod){pod, report}, NULL, 0, &v);
        assert_int_equal(v.state, CACHE_POD_PROBLEM);
        assert_true(strlen(v.message) > 400);
        cleanup_json json_t *back = json_string(v.message);
        assert_non_null(back);
    }
}

/* What differs in most reports is no news; and what no plan reads is not kept. */
static void test_report_news(void **state)
{
    (void)state;
    static const char before[] =
        "{\"ready\":true,\"reason\":\"\",\"upMs\":1,\"pid\":7,\"cache\":{\"usedBytes\":1,\"files\":2},"
        "\"load\":{\"missing\":0,\"failedFiles\":3},\"unreachable\":\"after 2001 ms\",\"kept\":{\"files\":0}}";
    static const struct {
        const char *was, *now;
        enum report_news news;
    } cases[] = {
        {"\"upMs\":1", "\"upMs\":2", REPORT_NEWS_NONE},
        {"\"files\":2", "\"files\":4", REPORT_NEWS_NONE},
        {"\"usedBytes\":1", "\"usedBytes\":2", REPORT_NEWS_COUNTS},
        {"\"usedBytes\":1", "\"usedBytes\":0", REPORT_NEWS_COUNTS},
        {"\"missing\":0", "\"missing\":1", REPORT_NEWS_REAL},
        {"\"failedFiles\":3", "\"failedFiles\":4", REPORT_NEWS_COUNTS},
        {"\"failedFiles\":3", "\"failedFiles\":0", REPORT_NEWS_REAL},
        {"2001 ms", "2002 ms", REPORT_NEWS_COUNTS},
        {"\"unreachable\"", "\"unknown\"", REPORT_NEWS_REAL},
        {"\"ready\":true", "\"ready\":false", REPORT_NEWS_REAL},
        {"\"kept\":{\"files\":0}", "\"kept\":{\"files\":1}", REPORT_NEWS_REAL},
        {"\"cache\":{\"usedBytes\":1,\"files\":2}", "\"cache\":7", REPORT_NEWS_COUNTS},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *at = strstr(before, cases[i].was);
        cleanup_free char *after = xasprintf(
            "%.*s%s%s", (int)(at - before), before, cases[i].now, at + strlen(cases[i].was));
        cleanup_json json_t *x = json_loads(before, 0, NULL), *y = json_loads(after, 0, NULL),
                            *was = report_kept(x), *now = report_kept(y);
        assert_non_null(y);
        assert_null(json_object_get(was, "pid"));
        if (report_compare(was, now) != cases[i].news)
            fail_msg("%s: %d", cases[i].now, report_compare(was, now));
        assert_int_equal(report_compare(NULL, now), REPORT_NEWS_REAL);
    }
}

/* It counts against the namespace's quota of storage, which a claim of a real size has to fit into
 * beside it. */
static void claims_ask_for_little(void **state)
{
    (void)state;
    int64_t bytes;
    assert_int_equal(quantity_parse(RENDER_CAPACITY, &bytes), 0);
    assert_in_range(bytes, 1, 1 << 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_ask_for_little),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_options_too_long),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_holds),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_names_for_dns),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_long_message),
        cmocka_unit_test(test_report_news),
    };
    return cmocka_run_group_tests_name("dataset", tests, NULL, NULL);
}
