/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/ctl/indexer.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *pod(
    const char *name, int rv, const char *owner1, const char *owner2, const char *node)
{
    cleanup_free char *version = xasprintf("%d", rv);
    json_t *j = json_pack("{s:{s:s,s:s,s:s,s:[],s:{s:s}},s:{s:s}}", "metadata", "name", name,
        "namespace", "n", "resourceVersion", version, "ownerReferences", "labels", "app", name,
        "spec", "nodeName", node);
    json_t *owners = json_object_get(json_object_get(j, "metadata"), "ownerReferences");
    if (owner1)
        json_array_append_new(owners, json_pack("{s:s}", "uid", owner1));
    if (owner2)
        json_array_append_new(owners, json_pack("{s:s}", "uid", owner2));
    return j;
}

static void put(struct indexer *s, const char *name, int rv, const char *owner1, const char *owner2,
    const char *node, uint64_t mark)
{
    cleanup_free char *key = xasprintf("n/%s", name);
    cleanup_json json_t *object = pod(name, rv, owner1, owner2, node);
    indexer_put(s, key, obj_fold(object), object, mark);
}

static size_t by(struct indexer *s, const char *index, const char *value)
{
    cleanup_objs struct objs l = indexer_by(s, index, value);
    return l.n;
}

/* An object has as many values as it has owners. */
static void owners(
    const char *arg, const json_t *object, void (*emit)(void *, const char *), void *to)
{
    (void)arg;
    const json_t *owner;
    size_t i;
    json_array_foreach (jget_arr(object, "metadata.ownerReferences"), i, owner)
        emit(to, jget_str(owner, "uid", ""));
}
static const struct informer_index by_owner = {"owner", owners, NULL};

static void indexes_follow_their_objects(void **state)
{
    (void)state;
    const struct informer_index indexes[] = {by_owner,
        INFORMER_BY_FIELD("namespace", "metadata.namespace"), INFORMER_BY_LABEL("app", "app"),
        by_owner, INFORMER_BY_FIELD("node", "spec.nodeName")};
    struct indexer *s = indexer_new();
    for (size_t i = 0; i < ARRAY_LEN(indexes); i++)
        indexer_add_index(s, &indexes[i]);
    put(s, "a", 1, "x", NULL, "n1", 0);
    put(s, "b", 2, "x", "y", "n1", 0);
    put(s, "c", 3, "y", "y", "n2", 0); /* the same owner twice counts once */
    assert_int_equal(by(s, "owner", "x"), 2);
    assert_int_equal(by(s, "owner", "y"), 2);
    assert_int_equal(by(s, "namespace", "n"), 3);
    assert_int_equal(by(s, "app", "a"), 1);
    assert_int_equal(by(s, "node", "n1"), 2);
    put(s, "b", 4, "z", NULL, "n2", 0);
    assert_int_equal(by(s, "owner", "x"), 1);
    assert_int_equal(by(s, "owner", "y"), 1);
    assert_int_equal(by(s, "owner", "z"), 1);
    assert_int_equal(by(s, "node", "n2"), 2);
    struct obj *o = indexer_del(s, "n/a");
    assert_non_null(o);
    obj_unref(o);
    assert_null(indexer_del(s, "n/a"));
    assert_int_equal(by(s, "owner", "x"), 0);
    assert_int_equal(by(s, "namespace", "n"), 2);
    indexer_free(s);
}

static void what_a_list_left_out_is_found(void **state)
{
    (void)state;
    struct indexer *s = indexer_new();
    put(s, "old", 5, NULL, NULL, "", 1);
    put(s, "new", 15, NULL, NULL, "", 1); /* written after the list was made */
    put(s, "kept", 5, NULL, NULL, "", 1);
    indexer_mark(s, "n/kept", 2);
    char **keys = indexer_unmarked(s, 2, 10);
    assert_string_equal(keys[0], "n/old");
    assert_null(keys[1]);
    free(keys[0]);
    free(keys);
    indexer_free(s);
}

/* Random changes, compared with a plain table. */
static void indexes_hold_under_random_changes(void **state)
{
    (void)state;
    enum { PODS = 40, OWNERS = 6 };
    const struct informer_index indexes[] = {by_owner, INFORMER_BY_FIELD("node", "spec.nodeName")};
    int owner_of[PODS][2];
    unsigned seed = 7;
    struct indexer *s = indexer_new();
    indexer_add_index(s, &indexes[0]);
    indexer_add_index(s, &indexes[1]);
    memset(owner_of, -1, sizeof owner_of);
    for (int step = 0; step < 5000; step++) {
        int i = rand_r(&seed) % PODS;
        char name[8], owner[2][8];
        snprintf(name, sizeof name, "p%d", i);
        if (rand_r(&seed) % 4 == 0) {
            cleanup_free char *key = xasprintf("n/%s", name);
            obj_unref(indexer_del(s, key));
            owner_of[i][0] = owner_of[i][1] = -1;
        } else {
            for (int k = 0; k < 2; k++) {
                owner_of[i][k] = rand_r(&seed) % OWNERS;
                snprintf(owner[k], sizeof owner[k], "o%d", owner_of[i][k]);
            }
            put(s, name, step, owner[0], owner[1], "node", 0);
        }
        int o = rand_r(&seed) % OWNERS;
        size_t want = 0, alive = 0;
        for (int p = 0; p < PODS; p++) {
            want += owner_of[p][0] == o || owner_of[p][1] == o;
            alive += owner_of[p][0] >= 0;
        }
        snprintf(name, sizeof name, "o%d", o);
        assert_int_equal(by(s, "owner", name), want);
        assert_int_equal(by(s, "node", "node"), alive);
        assert_int_equal(indexer_count(s), alive);
    }
    indexer_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indexes_follow_their_objects),
        cmocka_unit_test(what_a_list_left_out_is_found),
        cmocka_unit_test(indexes_hold_under_random_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
