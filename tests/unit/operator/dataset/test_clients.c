/* SPDX-License-Identifier: Apache-2.0 */
/* How far clients are with an update, and what stops it. */
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/obj.h"
#include "operator/dataset/clients.h"
#include "operator/render/meta.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 4

static const struct render_env env = {.image = "i:2", .pull_policy = "", .pull_secrets = ""},
                               before = {.image = "i:1", .pull_policy = "", .pull_secrets = ""};

struct world {
    json_t *cr;
    struct dataset *d;
    json_t *attachments[NODES], *nodes[NODES], *client[NODES];
    struct cache_pod pods[NODES];
    size_t npods;
};

/* n1, n2, …: a letter each. R, r: ready, of the spec as it is, as it was; I: its image cannot be
 * pulled; s: starting, as it was; -: none */
static void make_world(struct world *w, const char *letters)
{
    const char *reason;
    *w = (struct world){.cr = json_pack("{s:{s:s, s:s, s:s, s:i}, s:{s:[{s:s}]}}", "metadata",
                            "name", "mnist", "namespace", "team", "uid", "u1", "generation", 1,
                            "spec", "mounts", "mountPoint", "s3://b")};
    w->d = dataset_parse(w->cr, NULL, &reason, NULL);
    assert_non_null(w->d);
    for (size_t i = 0; i < NODES; i++) {
        char node[8];
        snprintf(node, sizeof node, "n%zu", i + 1);
        w->attachments[i] = json_pack("{s:{s:s}, s:{s:s}, s:{s:b}}", "metadata", "name", node,
            "spec", "nodeName", node, "status", "attached", 1);
        w->nodes[i] = json_pack(
            "{s:{s:[{s:s, s:s}]}}", "status", "conditions", "type", "Ready", "status", "True");
        if (letters[i] == '-')
            continue;
        json_t *pod = w->client[i] = render_client(
            w->d, strchr("RI", letters[i]) ? &env : &before, node);
        json_object_set_new(pod, "status",
            json_pack("{s:[{s:s, s:s}]}", "conditions", "type", "Ready", "status",
                strchr("Rr", letters[i]) ? "True" : "False"));
        if (letters[i] == 'I')
            json_object_set_new(json_object_get(pod, "status"), "containerStatuses",
                json_pack("[{s:{s:{s:s}}}]", "state", "waiting", "reason", "ErrImagePull"));
        w->pods[w->npods++].pod = pod;
    }
}

static void free_world(struct world *w)
{
    for (size_t i = 0; i < NODES; i++) {
        json_decref(w->attachments[i]);
        json_decref(w->nodes[i]);
        json_decref(w->client[i]);
    }
    dataset_free(w->d);
    json_decref(w->cr);
}

static void look(const struct world *w, struct clients *c)
{
    const struct clients_observed o = {.d = w->d,
        .dataset = "mnist",
        .attachments = (const json_t *const *)w->attachments,
        .nattachments = NODES,
        .nodes = (const json_t *const *)w->nodes,
        .pods = w->pods,
        .npods = w->npods,
        .env = &env};
    clients_take(&o, c);
}

static void test_counts(void **state)
{
    (void)state;
    struct world w;
    make_world(&w, "Rrrs");
    cleanup_clients struct clients c;
    look(&w, &c);
    assert_int_equal(c.current, 1);
    assert_int_equal(c.outdated, 3);
    assert_string_equal(c.missing->node, "n4");
    assert_null(c.paused); /* it starts, of the old spec */
    free_world(&w);
}

static void test_paused(void **state)
{
    (void)state;
    struct world w;
    make_world(&w, "r-Ir");
    cleanup_clients struct clients c;
    look(&w, &c);
    assert_string_equal(c.missing->node, "n2");
    assert_string_equal(c.paused->node, "n3");
    assert_string_equal(c.paused->health.reason, "ImagePullFailed");
    free_world(&w);
}

/* What cannot start, but is the last one, stops no update. */
static void test_not_paused(void **state)
{
    (void)state;
    struct world w;
    make_world(&w, "RRIR");
    cleanup_clients struct clients c;
    look(&w, &c);
    assert_string_equal(c.missing->node, "n3");
    assert_null(c.paused);
    free_world(&w);
}

/* Nodes that are down, gone, or leave the volume are not waited for, nor counted. */
static void test_down(void **state)
{
    (void)state;
    struct world w;
    make_world(&w, "sI-r");
    json_object_set_new(w.nodes[0], "status", json_object());
    json_decref(w.nodes[1]);
    w.nodes[1] = NULL;
    json_object_set_new(json_object_get(w.attachments[2], "metadata"), "deletionTimestamp",
        json_string("2026-01-31T12:00:00Z"));
    cleanup_clients struct clients c;
    look(&w, &c);
    assert_null(c.missing);
    assert_null(c.paused);
    assert_int_equal(c.outdated, 1);
    assert_int_equal(c.current, 0);
    free_world(&w);
}

/* All nodes have one and the same stamp; one that no attachment asks for is extra. */
static void test_extra(void **state)
{
    (void)state;
    struct world w;
    make_world(&w, "RRRR");
    cleanup_free char *stamp = render_client_stamp(w.d, &env);
    for (size_t i = 0; i < NODES; i++)
        assert_string_equal(kube_annotation(w.client[i], ANNOTATION_HASH), stamp);
    json_object_set_new(json_object_get(w.attachments[3], "spec"), "nodeName", json_string("n9"));
    cleanup_clients struct clients c;
    look(&w, &c);
    assert_int_equal(c.nextra, 1);
    assert_ptr_equal(c.extra[0], w.client[3]);
    assert_int_equal(c.current, 3);
    free_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts), cmocka_unit_test(test_paused),
        cmocka_unit_test(test_not_paused), cmocka_unit_test(test_down),
        cmocka_unit_test(test_extra)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
