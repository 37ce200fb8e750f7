/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/observed.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/tfjob/names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The slot that an object's labels and name say it belongs to; NULL if none that is wanted. */
static struct tfjob_replica *slot_of(
    const struct tfjob *j, struct tfjob_replicas *v, const json_t *object)
{
    enum tfjob_type t;
    const char *text = kube_label(object, TFJOB_LABEL_INDEX);
    if (!tfjob_type_parse(kube_label(object, TFJOB_LABEL_TYPE), &t)
        || !isdigit((unsigned char)*text))
        return NULL;
    char *end;
    long index = strtol(text, &end, 10);
    if (*end || index >= j->spec[t].replicas)
        return NULL;
    char name[TFJOB_CHILD_NAME_LEN];
    tfjob_child_name(j, t, (int)index, name);
    return strcmp(name, kube_name(object)) ? NULL : &v->slot[t][index];
}

bool tfjob_node_is_dead(const struct tfjob_observed *o, const json_t *pod)
{
    const char *name = jget_str(pod, "spec.nodeName", "");
    if (!*name)
        return false; /* never scheduled: nobody has to say that it has ended */
    for (size_t i = 0; i < o->nnodes; i++) {
        const json_t *node = o->nodes[i];
        if (!strcmp(kube_name(node), name))
            return !cond_is_true(jget_arr(node, "status.conditions"), "Ready")
                || jget_len(node, "spec.taints");
    }
    return true;
}

void tfjob_replicas_make(
    const struct tfjob_observed *o, const struct tfjob *j, struct tfjob_replicas *out)
{
    *out = (struct tfjob_replicas){0};
    for (int t = 0; t < TFJOB_TYPES; t++)
        out->slot[t] = xcalloc((size_t)j->spec[t].replicas + 1, sizeof *out->slot[t]);
    out->extra_pods = xcalloc(o->npods + 1, sizeof *out->extra_pods);
    out->extra_services = xcalloc(o->nservices + 1, sizeof *out->extra_services);

    for (size_t i = 0; i < o->npods; i++) {
        struct tfjob_replica *s = slot_of(j, out, o->pods[i]);
        if (s) {
            s->pod = o->pods[i];
            s->is = tfjob_pod_read(s->pod, j->uid);
        } else if (kube_controlled_by(o->pods[i], j->uid)) {
            out->extra_pods[out->nextra_pods++] = o->pods[i];
        }
    }
    for (size_t i = 0; i < o->nservices; i++) {
        struct tfjob_replica *s = slot_of(j, out, o->services[i]);
        bool ours = kube_controlled_by(o->services[i], j->uid);
        if (s) {
            s->service = o->services[i];
            s->service_foreign = !ours;
        } else if (ours
            && strcmp(kube_label(o->services[i], LABEL_COMPONENT), COMPONENT_TENSORBOARD)) {
            out->extra_services[out->nextra_services++] = o->services[i];
        }
    }
}

void tfjob_replicas_free(struct tfjob_replicas *v)
{
    for (int t = 0; t < TFJOB_TYPES; t++)
        free(v->slot[t]);
    free(v->extra_pods);
    free(v->extra_services);
    *v = (struct tfjob_replicas){0};
}
