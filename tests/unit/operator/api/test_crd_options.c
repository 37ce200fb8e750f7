/* SPDX-License-Identifier: Apache-2.0 */
/* The names of options in the rules of the Dataset's CRD are those of the stores' own tables. */
#include "tests/lib/unit.h"

#include "fuse/store/store.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/conf/option_name.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/dataset.h"
#include "operator/api/dataset_kind.h"

#include <stdlib.h>
#include <string.h>

typedef bool (*option_filter)(const struct store_option *o);

static char *crd_text(void)
{
    const char *source = getenv("MILLRACE_SOURCE");
    assert_non_null(source);
    cleanup_free char *path = path_join(source, "crds/millrace.dev_datasets.yaml");
    char *text = file_read(path, 1 << 20, NULL, NULL);
    assert_non_null(text);
    return text;
}

/* The list behind the next "in [" that has this name in the first place, as an array of strings;
 * *at moves behind it. NULL: no more. Caller owns. */
static json_t *next_list(const char **at, const char *first)
{
    cleanup_free char *begin = xasprintf("in ['%s'", first);
    const char *p = strstr(*at, begin);
    if (!p)
        return NULL;
    const char *end = strchr(p, ']');
    assert_non_null(end);
    json_t *names = json_array();
    for (p = strchr(p, '\''); p && p < end; p = strchr(p, '\'')) {
        size_t n = strcspn(++p, "'");
        json_array_append_new(names, json_stringn(p, n));
        p += n + 1;
    }
    *at = end;
    return names;
}

static void expect_name(const json_t *names, const char *name, size_t *found)
{
    size_t i;
    json_t *v;
    json_array_foreach ((json_t *)names, i, v)
        if (!strcmp(json_string_value(v), name)) {
            ++*found;
            return;
        }
    fail_msg("crds/millrace.dev_datasets.yaml does not know the option %s", name);
}

static void compare(const json_t *names, const struct store_option *table, option_filter wanted)
{
    size_t found = 0;
    for (const struct store_option *o = table; o->name; o++) {
        if (!wanted(o))
            continue;
        expect_name(names, o->name, &found);
        for (size_t i = 0; i < ARRAY_LEN(o->aliases) && o->aliases[i]; i++)
            expect_name(names, o->aliases[i], &found);
    }
    if (found != json_array_size(names))
        fail_msg("crds/millrace.dev_datasets.yaml knows %zu options, the store %zu",
            json_array_size(names), found);
}

static bool any_option(const struct store_option *o)
{
    (void)o;
    return true;
}

/* Those that must not be seen. The id of a key says nothing without the key. */
static bool is_credential(const struct store_option *o)
{
    return o->kind == STORE_OPTION_SECRET && strcmp(o->name, "access-key-id") != 0;
}

/* Compares each such list of the CRD, and returns how many there are. */
static size_t compare_all(const char *url, const char *first, option_filter wanted)
{
    cleanup_free char *text = crd_text();
    const struct store_kind *kind = store_kind_of(url);
    assert_non_null(kind);
    size_t n = 0;
    const char *at = text;
    for (;; n++) {
        cleanup_json json_t *names = next_list(&at, first);
        if (!names)
            return n;
        compare(names, kind->options, wanted);
    }
}

static void test_lists(void **state)
{
    (void)state;
    /* a rule and its message, for options and for encryptOptions */
    assert_int_equal(compare_all("s3://b", "endpoint", any_option), 4);
    assert_int_equal(compare_all("s3://b", "secret-access-key", is_credential), 1);
    assert_int_equal(compare_all("gs://b", "workload-provider", any_option), 4);
    assert_int_equal(compare_all("gs://b", "credentials", is_credential), 1);
    assert_int_equal(compare_all("file:///d", "can-hang", any_option), 1);
    assert_int_equal(compare_all("https://h", "manifest", any_option), 4);
    assert_int_equal(compare_all("https://h", "header", is_credential), 1);
    assert_int_equal(compare_all("hdfs://h", "name-nodes", any_option), 4);
    assert_int_equal(compare_all("hdfs://h", "delegation-token", is_credential), 1);
}

/* The rules name each kind that the operator's table has. */
static void test_kinds(void **state)
{
    (void)state;
    cleanup_free char *text = crd_text(), *forms = dataset_kind_forms();
    cleanup_free char *use = xasprintf("unknown URL scheme: use %s\"", forms);
    assert_non_null(strstr(text, use));
}

/* What lib/conf says of names is what the stores' tables say. */
static void test_option_names(void **state)
{
    (void)state;
    static const char *const urls[] = {"s3://b", "gs://b", "file:///d", "http://h", "https://h",
        "hdfs://h", "webhdfs://h", "swebhdfs://h"};
    static const enum option_source sources[] = {OPTION_OF_S3, OPTION_OF_GS, OPTION_OF_FILES,
        OPTION_OF_WEB, OPTION_OF_WEB, OPTION_OF_HDFS, OPTION_OF_HDFS, OPTION_OF_HDFS};
    for (size_t u = 0; u < ARRAY_LEN(urls); u++) {
        for (size_t other = 0; other < ARRAY_LEN(urls); other++)
            for (const struct store_option *o = store_kind_of(urls[other])->options; o->name; o++)
                assert_int_equal(option_is_of(o->name, sources[u]),
                    store_option_find(store_kind_of(urls[u])->options, o->name) != NULL);
        for (const struct store_option *o = store_kind_of(urls[u])->options; o->name; o++) {
            assert_string_equal(option_proper_name(o->name), o->name);
            assert_int_equal(option_is_credential(o->name), is_credential(o));
            enum option_shape shape = option_shape_of(o->name);
            assert_int_not_equal(shape, OPTION_UNKNOWN);
            assert_int_equal(shape == OPTION_BOOL, o->kind == STORE_OPTION_BOOL);
            assert_int_equal(shape == OPTION_URL, o->kind == STORE_OPTION_URL);
            assert_int_equal(shape == OPTION_CERTS, o->kind == STORE_OPTION_CERTS);
            for (size_t i = 0; i < ARRAY_LEN(o->aliases) && o->aliases[i]; i++) {
                assert_string_equal(option_proper_name(o->aliases[i]), o->name);
                assert_int_equal(option_is_credential(o->aliases[i]), is_credential(o));
                assert_true(option_is_of(o->aliases[i], sources[u]));
            }
        }
    }
    cleanup_free char *names = option_names_of(OPTION_OF_WEB);
    assert_string_equal(names, "ca-cert, tls-verify, manifest and user");
}

/* Is it in a list of options whose values a rule looks at? */
static bool has_a_shape(const char *text, const char *name)
{
    static const char rule[] = "].all(k, !(k in self)";
    for (const char *end = text; (end = strstr(end, rule)); end++) {
        const char *p = end;
        size_t n = strlen(name);
        while (*p != '[')
            p--;
        for (; (p = strstr(p, name)) && p < end; p++)
            if (strchr("'\"", p[-1]) && p[-1] == p[n])
                return true;
    }
    return false;
}

/* What nobody sees in a value is refused when it is written, not by a pod a minute later. */
static void test_shapes(void **state)
{
    (void)state;
    static const char *const urls[] = {"s3://b", "gs://b", "file:///d", "https://h", "hdfs://h"};
    cleanup_free char *text = crd_text();
    for (size_t u = 0; u < ARRAY_LEN(urls); u++)
        for (const struct store_option *o = store_kind_of(urls[u])->options; o->name; o++) {
            if (is_credential(o) || o->kind == STORE_OPTION_CERTS)
                continue;
            for (size_t i = 0; i <= ARRAY_LEN(o->aliases); i++) {
                const char *name = i ? o->aliases[i - 1] : o->name;
                if (name && !has_a_shape(text, name))
                    fail_msg("crds/millrace.dev_datasets.yaml takes any value of %s", name);
            }
        }
}

/* One option by two of its names is refused: the rule has them all. */
static void test_names_of_one_option(void **state)
{
    (void)state;
    static const char *const urls[] = {"s3://b", "file:///d", "https://h", "hdfs://h", "gs://b"};
    cleanup_free char *text = crd_text();
    for (size_t u = 0; u < ARRAY_LEN(urls); u++)
        for (const struct store_option *o = store_kind_of(urls[u])->options; o->name; o++) {
            cleanup_free char *names = xasprintf("['%s'", o->name);
            for (size_t i = 0; i < ARRAY_LEN(o->aliases) && o->aliases[i]; i++) {
                char *more = xasprintf("%s, '%s'", names, o->aliases[i]);
                free(names);
                names = more;
            }
            cleanup_free char *group = xasprintf("%s]", names);
            if (o->aliases[0] && !strstr(text, group))
                fail_msg("crds/millrace.dev_datasets.yaml has no group %s", group);
        }
}

/* The operator refuses the same credentials, where a CRD is older than it is. */
static void test_credentials_in_options(void **state)
{
    (void)state;
    const struct store_kind *kind = store_kind_of("s3://b");
    for (const struct store_option *o = kind->options; o->name; o++) {
        const char *reason = "";
        struct err e = ERR_INIT;
        cleanup_json json_t *cr = json_pack("{s:{s:s, s:s, s:s}, s:{s:[{s:s, s:{s:s}}]}}",
            "metadata", "name", "d", "namespace", "ns", "uid", "u", "spec", "mounts", "mountPoint",
            "s3://b", "options", o->name, "x");
        cleanup_dataset struct dataset *d = dataset_parse(cr, NULL, &reason, &e);
        assert_int_equal(d == NULL, is_credential(o));
        if (!d)
            assert_string_equal(reason, "InvalidOption");
    }
}

static bool is_no_secret(const struct store_option *o) { return o->kind != STORE_OPTION_SECRET; }

/* Those of the chart's value defaults.options, which a Secret has no part in. */
static void test_defaults_of_chart(void **state)
{
    (void)state;
    static const char *const of[][2] = {{"s3", "s3://b"}, {"gs", "gs://b"}, {"pvc", "file:///d"},
        {"web", "https://h"}, {"hdfs", "hdfs://h"}};
    cleanup_free char *path = path_join(
        getenv("MILLRACE_SOURCE"), "charts/millrace/values.schema.json");
    cleanup_free char *text = file_read(path, 1 << 20, NULL, NULL);
    cleanup_json json_t *schema = json_loads(text, 0, NULL);
    for (size_t i = 0; i < ARRAY_LEN(of); i++) {
        cleanup_free char *where = xasprintf(
            "properties.defaults.properties.options.properties.%s.properties", of[i][0]);
        cleanup_json json_t *names = json_array();
        const char *name;
        json_t *unused;
        json_object_foreach ((json_t *)jget_obj(schema, where), name, unused)
            json_array_append_new(names, json_string(name));
        compare(names, store_kind_of(of[i][1])->options, is_no_secret);
    }
}

/* Wrong defaults are told once, by the operator as it starts. */
/* JSON with ' for "; NULL: none */
static json_t *quoted(const char *text)
{
    cleanup_free char *copy = text ? xstrdup(text) : NULL;
    for (char *p = copy; p && *p; p++)
        *p = *p == '\'' ? '"' : *p;
    json_t *j = text ? json_loads(copy, 0, NULL) : NULL;
    assert_true(j || !text);
    return j;
}

static void test_wrong_defaults(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"{'nope': {}}", "defaults.nope: there is no such field"},
        {"{'options': {'s4': {}}}", "defaults.options.s4: there is no such field"},
        {"{'options': {'s3': 'x'}}", "defaults.options.s3 must be an object"},
        {"{'options': {'s3': {'secret-access-key': 'x'}}}", "belongs into a Secret"},
        {"{'options': {'pvc': {'can-hang': true}}}", "can-hang must be a string"},
        {"{'cache': {'replicas': -3}}", "spec.cache.replicas must be from 0 to 1000"},
        {"{'cache': {'tiers': [{'medium': 'Tape', 'quota': '1Gi'}]}}", "\"Tape\" must be"},
        {"{'cache': {'worker': {'resources': {'limits': {'memory': 'lots'}}}}}", "a quantity"},
        {"{'options': {'s3': {'endpoint': 'minio:9000'}}}", "endpoint"},
        {"{'options': {'s3': {'path-style': 'yes'}}}", "path-style"},
        {"{'options': {'s3': {'endpoint': 'https://a', 'url': 'https://b'}}}", "url"},
        {"{'cache': {'worker': {'labels': {'team': 'my team'}}}}", "labels"},
        {"{'cache': {'worker': {'resources': {'limit': {'cpu': '1'}}}}}", "resources.limit"},
        {"{'cache': {'worker': {'resources': {'limits': {'nvidia.com/gpu': '1'}}}}}",
            "nvidia.com/gpu"},
        {"{'cache': {'worker': {'resources': {'limits': {'cpu': 1}, 'requests': {'cpu': 2}}}}}",
            "requests.cpu"},
        {"{'cache': {'client': {'resources': {'limits': {'memory': '1Gi'}, 'requests': {'memory': '2Gi'}}}}}",
            "requests.memory"},
        {"{'cache': {'worker': {'tolerations': [{'key': 'a', 'opertor': 'Exists'}]}}}", "opertor"},
        {"{'cache': {'worker': {'tolerations': [{'key': 'a', 'operator': 'Exists', 'value': 'x'}]}}}",
            "takes no value"},
        {"{'cache': {'worker': {'nodeAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': {}}}}}",
            "nodeAffinity"},
        {"{'cache': {'worker': {'nodeAffinity': {'required': {'nodeSelectorTerms': []}}}}}",
            "nodeSelectorTerms"},
        {"{'cache': {'worker': {'nodeAffinity': {'required': {'nodeSelectorTerms': [{'matchExpressions': [{'key': 'a', 'operator': 'in', 'values': ['b']}]}]}}}}}",
            "operator"},
        {"{'cache': {'worker': {'priorityClassName': 'No Such'}}}", "priorityClassName"},
        {"{'cache': {'worker': {'replicas': 3}}}", "replicas"},
        {"{'cache': {'client': {'tolerations': []}}}", "tolerations"},
        {"{'cache': {'loader': {'tiers': []}}}", "tiers"},
        {"{'options': {'s3': {'can-hang': 'true'}}}", "no such option"},
        {"{'options': {'s3': {'endpiont': 'https://a'}}}", "endpiont: there is no such option"},
        {"{'options': {'s3': {'ca-cert': 'x'}}}", "PEM"},
        {"{'options': {'pvc': {'region': 'x'}}}", "no such option"},
        {"{'cache': {'worker': {'labels': {'my team': 'a'}}}}", "my team"},
        {"{'cache': {'worker': {'annotations': {'/a': 'a'}}}}", "annotations"},
        {"{'cache': {'worker': {'resources': {'limits': {'cpu': '400m'}, 'requests': {'cpu': '0.5'}}}}}",
            "requests.cpu"},
        {"{'cache': {'worker': {'resources': []}}}", "resources must be an object"},
        {"{'cache': {'worker': {'tolerations': {}}}}", "tolerations must be a list"},
        {"{'cache': {'worker': {'tolerations': [{'value': 'x'}]}}}", "without a key"},
        {"{'cache': {'worker': {'tolerations': [{'key': 'a', 'effect': 'None'}]}}}", "effect"},
        {"{'cache': {'worker': {'tolerations': [{'key': 'a b'}]}}}", "of a taint"},
        {"{'cache': {'worker': {'tolerations': [{'key': 'a', 'tolerationSeconds': 3}]}}}",
            "NoExecute"},
        {"{'cache': {'worker': {'nodeAffinity': {'required': {'nodeSelectorTerms': [{'matchExpressions': [{'key': 'cpus', 'operator': 'Gt', 'values': ['many']}]}]}}}}}",
            "values[0] must be a whole number"},
        {"{'cache': {'worker': {'nodeAffinity': {'required': {'nodeSelectorTerms': [{}]}}}}}",
            "fits no node"},
        {"{'cache': {'worker': {'nodeAffinity': {'required': {'nodeSelectorTerms': [{'matchExpressions': [{'key': 'a b', 'operator': 'Exists'}]}]}}}}}",
            "name of a label"},
        {"{'cache': {'worker': {'nodeAffinity': {'required': {'nodeSelectorTerms': [{'matchExpressions': [{'key': 'a', 'operator': 'In', 'values': ['b c']}]}]}}}}}",
            "value of a label"},
        {"{'cache': {'worker': {'nodeAffinity': {'required': {'nodeSelectorTerms': [{'matchFields': [{'key': 'metadata.labels', 'operator': 'In', 'values': ['b']}]}]}}}}}",
            "metadata.name"},
        {"{'cache': {'rules': []}}", "defaults.cache.rules: there is no such field"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        cleanup_json json_t *defaults = quoted(wrong[i][0]);
        struct err e = ERR_INIT;
        assert_int_equal(dataset_check_defaults(defaults, &e), -1);
        if (!strstr(e.msg, wrong[i][1]))
            fail_msg("no '%s' in: %s", wrong[i][1], e.msg);
    }
    cleanup_json json_t *much = json_loads(
        "{\"cache\": {\"worker\": {\"labels\": {\"a.b/c\": \"\"}, \"annotations\": {\"a\": \"b c\"}, \"priorityClassName\": \"a-b\","
        " \"resources\": {\"requests\": {\"cpu\": \"0.5\", \"memory\": \"1Gi\"}, \"limits\": {\"cpu\": 1, \"memory\": \"1Gi\"}},"
        " \"tolerations\": [{\"operator\": \"Exists\"}, {\"key\": \"a\", \"value\": \"b\", \"effect\": \"NoExecute\", \"tolerationSeconds\": 1}],"
        " \"nodeAffinity\": {\"required\": {\"nodeSelectorTerms\": [{\"matchExpressions\": [{\"key\": \"a\", \"operator\": \"In\", \"values\": [\"b\"]}, {\"key\": \"n\", \"operator\": \"Gt\", \"values\": [\"-1\"]},"
        " {\"key\": \"e\", \"operator\": \"Exists\", \"values\": null}], \"matchFields\": null}]}}},"
        " \"loader\": {\"tolerations\": []}, \"client\": {}}}",
        0, NULL);
    assert_non_null(much);
    cleanup_json json_t *good = json_pack("{s:{s:{s:s}}, s:{s:i, s:[{s:s, s:s}]}}", "options", "s3",
        "region", "eu-west-1", "cache", "replicas", 0, "tiers", "medium", "SSD", "quota", "1Gi");
    struct err e = ERR_INIT;
    assert_int_equal(dataset_check_defaults(good, &e), 0);
    if (dataset_check_defaults(much, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(dataset_check_defaults(NULL, &e), 0);
}

static void test_defaults_within_limits(void **state)
{
    (void)state;
    static const struct {
        const char *defaults, *limits, *says; /* says NULL: they are */
    } cases[] = {{NULL, NULL, NULL}, {NULL, "{'replicas': 1, 'tierQuota': '10Gi'}", NULL},
        {NULL, "{'replicas': 0}", "limits.replicas is 0, and a Dataset that says nothing has 1 "},
        {"{'cache': {'replicas': 4}}", "{'replicas': 3}", "has 4 cache workers"},
        {"{'cache': {'replicas': 0}}", "{'replicas': 0}", NULL},
        {NULL, "{'tierQuota': '5Gi'}",
            "limits.tierQuota is 5Gi, and a Dataset that says nothing has a tier of 10.00GiB"},
        {"{'cache': {'tiers': [{'medium': 'SSD', 'quota': '5Gi'}]}}", "{'tierQuota': '5Gi'}", NULL},
        {"{'cache': {'worker': {'tiers': [{'medium': 'SSD', 'quota': '5Gi'}]}}}",
            "{'tierQuota': '5Gi'}", "10.00GiB"},
        {"{'cache': {'client': {'tiers': [{'medium': 'SSD', 'quota': 21474836480}]}}}",
            "{'tierQuota': '10Gi'}", "20.00GiB"},
        {NULL, "{'tierQuota': '5GB'}", "is no quantity"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_json json_t *defaults = quoted(cases[i].defaults),
                            *limits = quoted(cases[i].limits);
        struct err e = ERR_INIT;
        int rc = dataset_check_limits(defaults, limits, &e);
        if (!cases[i].says != (rc == 0) || (rc && !strstr(e.msg, cases[i].says)))
            fail_msg("row %zu: %s", i, e.msg);
    }
}

/* What a Dataset says of all its pods goes before what the cluster says of one kind of them. */
static void test_said_goes_before_usual(void **state)
{
    (void)state;
    const char *reason = "";
    struct err e = ERR_INIT;
    cleanup_json json_t *cr = json_pack(
        "{s:{s:s, s:s, s:s}, s:{s:[{s:s}], s:{s:[{s:s, s:s}], s:{s:[{s:s, s:s}]}}}}", "metadata",
        "name", "d", "namespace", "ns", "uid", "u", "spec", "mounts", "mountPoint", "s3://b",
        "cache", "tiers", "medium", "SSD", "quota", "5Gi", "worker", "tolerations", "key", "own",
        "operator", "Exists");
    cleanup_json json_t *defaults = json_loads(
        "{\"cache\": {\"worker\": {\"tiers\": [{\"medium\": \"Memory\", \"quota\": \"100Gi\"}], \"priorityClassName\": \"p\"},"
        " \"client\": {\"tiers\": [{\"medium\": \"Memory\", \"quota\": \"1Gi\"}]},"
        " \"loader\": {\"tolerations\": [{\"key\": \"usual\", \"operator\": \"Exists\"}]}}}",
        0, NULL);
    cleanup_dataset struct dataset *d = dataset_parse(cr, defaults, &reason, &e);
    assert_non_null(d);
    assert_int_equal(d->worker.tiers.memory, 0);
    assert_int_equal(d->client.tiers.memory, 0);
    assert_string_equal(d->worker.priority_class, "p");
    assert_ptr_equal(d->loader.tolerations, d->worker.tolerations);
    json_object_del(json_object_get(json_object_get(cr, "spec"), "cache"), "tiers");
    cleanup_dataset struct dataset *silent = dataset_parse(cr, defaults, &reason, &e);
    assert_non_null(silent);
    assert_true(silent->worker.tiers.memory == (int64_t)100 << 30);
}

/* Each taint that cache workers tolerate by themselves is held to what the node plugin does. */
static void test_hold_to_plugin(void **state)
{
    (void)state;
    static const struct {
        const char *config, *held;
    } table[] = {
        {"{'pluginTolerations': []}", "[]"},
        {"{'pluginTolerations': [{'key': 'a'}, {'key': 'nvidia.com/gpu', 'operator': 'Exists', "
         "'effect': 'NoExecute', 'tolerationSeconds': 9}]}",
            "[{'effect':'NoExecute','key':'nvidia.com/gpu','operator':'Exists'}]"},
        {"{'pluginTolerations': [{'key': 'amd.com/gpu', 'value': 'x'}]}",
            "[{'key':'amd.com/gpu','value':'x'}]"},
        {"{'pluginTolerations': [{'key': 'sku', 'value': 'gpu'}]}",
            "[{'key':'sku','operator':'Equal','value':'gpu'}]"},
        {"{'pluginTolerations': [{'key': 'sku', 'value': 'cpu'}]}", "[]"},
        {"{'pluginTolerations': [{'key': 'sku', 'operator': 'Exists'}]}",
            "[{'key':'sku','operator':'Equal','value':'gpu'}]"},
        {"{'pluginTolerations': [], 'defaults': {'cache': {'worker': {'tolerations': [{'key': "
         "'b'}]}}}}",
            "[{'key':'b'}]"},
        {"{'defaults': {}}", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct err e = ERR_INIT;
        cleanup_json json_t *config = quoted(table[i].config);
        dataset_hold_to_plugin(config);
        const json_t *held = jget(config, "defaults.cache.worker.tolerations");
        if (!table[i].held) {
            assert_null(held);
            continue;
        }
        cleanup_json json_t *expected = quoted(table[i].held);
        if (!json_equal(held, expected))
            fail_msg("%s: %s", table[i].config, json_dumps(held, JSON_COMPACT | JSON_SORT_KEYS));
        assert_int_equal(dataset_check_defaults(jget(config, "defaults"), &e), 0);
    }
    cleanup_json json_t *any = quoted(
        "{'pluginTolerations': [{'operator': 'Exists', 'effect': 'NoSchedule'}]}");
    dataset_hold_to_plugin(any);
    const json_t *held = jget(any, "defaults.cache.worker.tolerations");
    assert_int_equal(json_array_size(held), 8);
    for (size_t i = 0; i < 8; i++)
        assert_string_equal(jget_str(json_array_get(held, i), "effect", ""), "NoSchedule");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_hold_to_plugin),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_option_names),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_names_of_one_option),
        cmocka_unit_test(test_credentials_in_options),
        cmocka_unit_test(test_defaults_of_chart),
        cmocka_unit_test(test_wrong_defaults),
        cmocka_unit_test(test_defaults_within_limits),
        cmocka_unit_test(test_said_goes_before_usual),
    };
    return cmocka_run_group_tests_name("crd_options", tests, NULL, NULL);
}
