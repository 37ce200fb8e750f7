/* SPDX-License-Identifier: Apache-2.0 */
/* The Secret of a Dataset's key, and the pods that mount it. */
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/render/meta.h"
#include "operator/render/pod.h"
#include "operator/render/volume.h"
#include "tests/lib/unit.h"

#include <string.h>

/* The name of the Secret that its worker mounts; *stamp: the worker's hash. */
static char *key_of_worker(const struct dataset *d, const struct sign_key *master, char **stamp)
{
    const struct render_env with = {
        .image = "i", .pull_policy = "", .pull_secrets = "", .master = master};
    cleanup_json json_t *pod = render_worker(d, &with, 0, NULL), *key = render_key(d, master);
    const json_t *volumes = jget_arr(pod, "spec.volumes"), *v;
    size_t i;
    *stamp = xstrdup(kube_annotation(pod, ANNOTATION_HASH));
    json_array_foreach (volumes, i, v)
        if (strcmp(jget_str(v, "name", ""), "cache-key") == 0) {
            assert_string_equal(jget_str(v, "secret.secretName", ""), kube_name(key));
            return xstrdup(kube_name(key));
        }
    fail_msg("no key is mounted");
    return NULL;
}

/* An operator that is installed anew may have another: its pods then mount another Secret, and
 * those that have the old one are replaced. */
static void another_master_is_another_secret(void **state)
{
    (void)state;
    const char *reason = NULL;
    struct err e = ERR_INIT;
    const struct sign_key one = {.bytes = {1}}, other = {.bytes = {2}};
    cleanup_json json_t *cr = json_pack("{s:{s:s, s:s, s:s}, s:{s:[{s:s}]}}", "metadata", "name",
        "mnist", "namespace", "team", "uid", "u", "spec", "mounts", "mountPoint", "s3://b");
    cleanup_dataset struct dataset *d = dataset_parse(cr, NULL, &reason, &e);
    cleanup_free char *hash = NULL, *same_hash = NULL, *other_hash = NULL;
    cleanup_free char *name = key_of_worker(d, &one, &hash),
                      *same = key_of_worker(d, &one, &same_hash),
                      *another = key_of_worker(d, &other, &other_hash);
    assert_string_equal(name, same);
    assert_string_equal(hash, same_hash);
    assert_string_not_equal(name, another);
    assert_string_not_equal(hash, other_hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(another_master_is_another_secret)};
    return cmocka_run_group_tests_name("key", tests, NULL, NULL);
}
