/* SPDX-License-Identifier: Apache-2.0 */
/* The verb: Datasets of a namespace, or of all, one after another. */
#include "fuse/cli/status.h"

#include "fuse/cli/cli.h"
#include "fuse/cli/kind.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <string.h>

#define TEXT_MAX (16u << 20)

/* Adds the documents of the Datasets of a namespace to out; only NULL: all of them. */
static int status_namespace(
    struct cluster *c, const char *ns, const char *only, json_t *out, struct err *e)
{
    cleanup_json json_t *pods = NULL;
    cleanup_facts struct facts f = {0};
    const json_t *dataset;
    size_t i;
    if (cluster_list(c, &kube_pods, ns, NULL, &pods, e) || facts_fetch(c, ns, pods, &f, e))
        return -1;
    json_array_foreach (f.datasets, i, dataset)
        if (!only || strcmp(kube_name(dataset), only) == 0)
            json_array_append_new(out, status_document(dataset, &f, pods));
    return 0;
}

/* The namespaces that have Datasets, each once. */
static json_t *namespaces_of(const json_t *datasets)
{
    json_t *names = json_object();
    const json_t *dataset;
    size_t i;
    json_array_foreach (datasets, i, dataset)
        json_object_set_new(names, kube_namespace(dataset), json_true());
    return names;
}

/* ns NULL: of all namespaces. */
static int datasets_status(
    struct cluster *c, const char *ns, const char *only, json_t *out, struct err *e)
{
    cleanup_json json_t *datasets = NULL;
    if ((only && cluster_check_name("Dataset", only, e))
        || cluster_list(c, &kube_datasets, ns, NULL, &datasets, e))
        return -1;
    if (!datasets)
        return cluster_no_datasets(c, ns, e);
    cleanup_json json_t *names = namespaces_of(datasets);
    const char *name;
    json_t *unused;
    json_object_foreach (names, name, unused)
        if (status_namespace(c, name, only, out, e))
            return -1;
    const char *near = only ? similar_name(datasets, only) : NULL;
    if (only && !json_array_size(out))
        return err_set(e, ERR_NOTFOUND, "there is no Dataset %s in %s%s%s%s%s", only,
            ns ? "namespace " : "the cluster", ns ? ns : "", near ? ": did you mean " : "",
            near ? near : "", near ? "?" : "");
    return 0;
}

static void print_documents(const json_t *documents, bool json, const char *ns)
{
    if (json) {
        cleanup_json json_t *whole = json_pack("{s:O}", "datasets", documents);
        cleanup_free char *text = json_dumps(whole, JSON_INDENT(2));
        puts(text);
        return;
    }
    const json_t *d;
    size_t i;
    cleanup_buf struct buf text = BUF_INIT(TEXT_MAX);
    json_array_foreach (documents, i, d) {
        if (i)
            buf_addc(&text, '\n');
        status_print(d, &text);
    }
    if (!text.len)
        buf_addf(&text, "there is no Dataset in %s%s\n", ns ? "namespace " : "the cluster",
            ns ? ns : "");
    cli_put(stdout, buf_str(&text));
}

/* "mds/imagenet" → "imagenet" */
static int dataset_named(const char *what, const char **name, struct err *e)
{
    enum cli_kind kind;
    if (cli_kind_split(what, &kind, name, e))
        return -1;
    if (kind == CLI_KIND_ANY || kind == CLI_KIND_DATASET)
        return 0;
    return err_set(
        e, ERR_INVALID, "status tells of Datasets: of %s, `%s why %s`", what, cli_name(), what);
}

int verb_status(const struct verb *v, int argc, char **argv)
{
    struct cluster_flags flags = {0};
    bool all = false, json = false;
    const struct opt table[] = {CLUSTER_FLAGS(flags),
        {"all-namespaces", OPT_BOOL, &all, NULL, "of all namespaces (-A)"},
        {"json", OPT_BOOL, &json, NULL, "print it as JSON"}};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct err e = ERR_INIT;
    cleanup_cluster struct cluster c = {0};
    cleanup_json json_t *documents = json_array();
    cleanup_free char *what = a.npos
        ? xasprintf("%s%s%s", a.pos[0], a.npos > 1 ? "/" : "", a.npos > 1 ? a.pos[1] : "")
        : NULL;
    const char *only = NULL;
    if ((what && dataset_named(what, &only, &e)) || cluster_open(&c, &flags, &e)
        || datasets_status(&c, all ? NULL : c.ns, only, documents, &e))
        return cli_failed(&e);
    print_documents(documents, json, all ? NULL : c.ns);
    cluster_say_skipped(&c, stderr);
    return CLI_DONE;
}
