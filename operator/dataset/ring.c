/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/ring.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"

#include <string.h>

#define RING_MOST 64 /* mounts that are looked at: what is larger is not found */

char *ring_claim_of(const json_t *mount)
{
    const char *url = jget_str(mount, "mountPoint", "");
    if (strncmp(url, "pvc://", 6) != 0)
        return NULL;
    return xstrndup(url + 6, strcspn(url + 6, "/"));
}

static bool ring_reaches(
    struct informer *datasets, const char *ns, const char *from, const char *goal, unsigned *left)
{
    cleanup_free char *key = kube_key(ns, from);
    cleanup_obj struct obj *cr = informer_get(datasets, key);
    const json_t *mounts = jget_arr(obj_json(cr), "spec.mounts");
    for (size_t i = 0; *left && i < json_array_size(mounts); i++) {
        --*left;
        cleanup_free char *claim = ring_claim_of(json_array_get(mounts, i));
        if (claim && (strcmp(claim, goal) == 0 || ring_reaches(datasets, ns, claim, goal, left)))
            return true;
    }
    return false;
}

char *ring_claim(struct informer *datasets, const json_t *cr)
{
    const json_t *mounts = jget_arr(cr, "spec.mounts");
    unsigned left = RING_MOST;
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        cleanup_free char *claim = ring_claim_of(json_array_get(mounts, i));
        if (claim && strcmp(claim, kube_name(cr)) != 0
            && ring_reaches(datasets, kube_namespace(cr), claim, kube_name(cr), &left))
            return xstrdup(claim);
    }
    return NULL;
}
