/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/uninstall.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"
#include "operator/api/dataload.h"
#include "operator/api/tfjob.h"

#include <string.h>

#define NAMESPACES_MAX 30 /* that are told by name: kubelet keeps the end of a log only */
#define NAMES_MAX      5  /* of one kind in one namespace */

static bool always(const json_t *object)
{
    (void)object;
    return true;
}

static bool load_runs(const json_t *load) { return !dataload_finished(load); }
static bool job_runs(const json_t *job)
{
    const json_t *conditions = jget_arr(job, "status.conditions");
    return !cond_is_true(conditions, TFJOB_SUCCEEDED) && !cond_is_true(conditions, TFJOB_FAILED);
}

struct uninstall_kind {
    const struct kube_res *res;
    const char *many;
    bool (*counts)(const json_t *object);
};

struct uninstall_listing {
    const struct uninstall_kind *kind;
    const char *ns; /* ours; NULL: all are */
    json_t *found;  /* namespace → kind → names */
};

/* Whoever watches one namespace only now may have worked for more before. */
static bool is_left_by_us(const struct uninstall_listing *l, const json_t *item)
{
    size_t i;
    json_t *name;
    if (!l->ns || strcmp(kube_namespace(item), l->ns) == 0)
        return true;
    json_array_foreach (jget_arr(item, "metadata.finalizers"), i, name)
        if (json_is_string(name) && strcmp(json_string_value(name), FINALIZER_DATASET) == 0)
            return true;
    return false;
}

static int add_object(void *user, json_t *item_take)
{
    const struct uninstall_listing *l = user;
    cleanup_json json_t *item = item_take;
    const char *ns = kube_namespace(item);
    if (!is_left_by_us(l, item) || !l->kind->counts(item))
        return 0;
    json_t *kinds = json_object_get(l->found, ns);
    if (!kinds)
        json_object_set_new(l->found, ns, kinds = json_object());
    json_t *names = json_object_get(kinds, l->kind->many);
    if (!names)
        json_object_set_new(kinds, l->kind->many, names = json_array());
    json_array_append_new(names, json_string(kube_name(item)));
    return 0;
}

static void add_kind(struct buf *out, const char *many, const json_t *names)
{
    size_t n = json_array_size(names);
    buf_addf(out, " %zu %s (", n, many);
    for (size_t i = 0; i < n && i < NAMES_MAX; i++)
        buf_addf(out, "%s%s", i ? ", " : "", json_string_value(json_array_get(names, i)));
    buf_adds(out, n > NAMES_MAX ? ", …)" : ")");
}

static void add_namespaces(struct buf *out, const json_t *found)
{
    const char *ns, *many;
    json_t *kinds, *names;
    size_t told = 0;
    json_object_foreach ((json_t *)found, ns, kinds) {
        if (told++ == NAMESPACES_MAX) {
            buf_addf(out, "  and %zu more namespaces\n", json_object_size(found) - NAMESPACES_MAX);
            break;
        }
        buf_addf(out, "  namespace %s:", ns);
        json_object_foreach (kinds, many, names)
            add_kind(out, many, names);
        buf_adds(out, "\n");
    }
}

int uninstall_check(
    struct kube *k, const struct uninstall_scope *scope, struct buf *out, struct err *e)
{
    const struct uninstall_kind kinds[] = {{&kube_datasets, "Datasets", always},
        {&kube_dataloads, "DataLoads that have not ended", load_runs},
        {&kube_tfjobs, "TFJobs that have not ended", job_runs}};
    cleanup_json json_t *found = json_object();
    for (size_t i = 0; i < (scope->tfjobs ? ARRAY_LEN(kinds) : ARRAY_LEN(kinds) - 1); i++) {
        struct uninstall_listing l = {&kinds[i], scope->ns, found};
        /* no such kind: no objects of it */
        if (kube_list(k, kinds[i].res, NULL, NULL, 0, add_object, &l, NULL, e)
            && e->cls != ERR_NOTFOUND)
            return -1;
    }
    if (json_object_size(found) == 0)
        return 0;
    buf_adds(out,
        "Millrace is in use and is not uninstalled: without the operator these volumes cannot be cleaned up, and these jobs stand still:\n");
    add_namespaces(out, found);
    buf_addf(out,
        "Ask their owners, or delete them yourself; data in stores stays:\n"
        "  kubectl delete %sdataloads." NAME_GROUP ",datasets." NAME_GROUP " --all -n NAMESPACE\n"
        "Then uninstall again. In spite of them: helm uninstall --no-hooks. To keep the release, which runs on:\n"
        "  %s\n",
        scope->tfjobs ? "tfjobs.kubeflow.org," : "",
        *scope->keep
            ? scope->keep
            : "helm rollback RELEASE REVISION, which helm history RELEASE shows as uninstalling");
    return 0;
}
