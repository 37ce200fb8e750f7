/* SPDX-License-Identifier: Apache-2.0 */
/* How long a turn of the attach controller takes for a Dataset in use on N nodes: at rest, and in
 * the middle of an update where no plugin is ready. Prints milliseconds of a processor, the best of
 * some turns: a busy machine changes little of it. */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/obj.h"
#include "operator/attach/observed.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TURNS 5

struct cluster {
    size_t n;
    const json_t **attachments, **nodes, **plugins;
    struct cache_pod *pods;
};

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return clock_of_timespec(t);
}

static json_t *is_ready(void)
{
    return json_pack("[{s:s, s:s}]", "type", "Ready", "status", "True");
}

static json_t *dataset_cr(void)
{
    return json_pack("{s:{s:s, s:s, s:s, s:i}, s:{s:[{s:s}], s:[s], s:{s:i, s:[{s:s, s:s}]}}}",
        "metadata", "name", "d", "namespace", "team", "uid", "u1", "generation", 1, "spec",
        "mounts", "mountPoint", "s3://b/p", "accessModes", "ReadWriteMany", "cache", "replicas", 1,
        "tiers", "medium", "SSD", "quota", "2Gi");
}

static void make_cluster(struct cluster *c, const struct dataset *d, const struct render_env *env)
{
    c->attachments = xcalloc(c->n, sizeof *c->attachments);
    c->nodes = xcalloc(c->n, sizeof *c->nodes);
    c->plugins = xcalloc(c->n, sizeof *c->plugins);
    c->pods = xcalloc(c->n, sizeof *c->pods);
    for (size_t i = 0; i < c->n; i++) {
        char node[32];
        snprintf(node, sizeof node, "node-%05zu", i);
        json_t *pod = render_client(d, env, node);
        json_object_set_new(json_object_get(pod, "spec"), "nodeName", json_string(node));
        json_object_set_new(
            pod, "status", json_pack("{s:s, s:o}", "phase", "Running", "conditions", is_ready()));
        c->pods[i].pod = pod;
        c->attachments[i] = json_pack("{s:{s:s}, s:{s:s, s:s, s:{s:s}}, s:{s:b}}", "metadata",
            "name", node, "spec", "attacher", NAME_DRIVER, "nodeName", node, "source",
            "persistentVolumeName", "millrace-u1", "status", "attached", 1);
        c->nodes[i] = json_pack("{s:{s:o}}", "status", "conditions", is_ready());
        c->plugins[i] = json_pack(
            "{s:{s:s}, s:{s:o}}", "spec", "nodeName", node, "status", "conditions", is_ready());
    }
}

static void measure(
    const char *what, const struct cluster *c, const json_t *cr, const struct render_env *env)
{
    const struct attach_observed o = {.pv = "millrace-u1",
        .cr = cr,
        .attachments = c->attachments,
        .nodes = c->nodes,
        .nattachments = c->n,
        .pods = c->pods,
        .npods = c->n,
        .plugins = c->plugins,
        .nplugins = c->n,
        .now_ns = clock_real_ns(),
        .env = *env};
    int64_t best = INT64_MAX;
    size_t actions = 0;
    for (int i = 0; i < TURNS; i++) {
        cleanup_plan struct plan p = PLAN_INIT;
        int64_t start = cpu_ns();
        attach_plan(&o, &p);
        best = MIN(best, cpu_ns() - start);
        actions = p.n;
    }
    printf("%zu nodes, %s: %.1f ms, %zu actions\n", c->n, what, (double)best / 1e6, actions);
}

int main(void)
{
    static const size_t sizes[] = {10, 100, 1000};
    const struct render_env env = {.image = "i:1", .pull_policy = "", .pull_secrets = ""},
                            newer = {.image = "i:2", .pull_policy = "", .pull_secrets = ""};
    const char *reason = NULL;
    struct err e = ERR_INIT;
    cleanup_json json_t *cr = dataset_cr();
    cleanup_dataset struct dataset *d = dataset_parse(cr, NULL, &reason, &e);
    if (!d) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct cluster c = {.n = sizes[i]}; /* never freed: the program ends */
        make_cluster(&c, d, &env);
        measure("at rest", &c, cr, &env);
        measure("in an update", &c, cr, &newer);
    }
    return 0;
}
