/* SPDX-License-Identifier: Apache-2.0 */
/* meta — metadata of the objects we make: names, labels, owners. Pure. */
#ifndef MILLRACE_OPERATOR_RENDER_META_H
#define MILLRACE_OPERATOR_RENDER_META_H

#include "lib/kube/kube.h"
#include "operator/api/dataset.h"

#include <jansson.h>

/* Names of the children of a dataset; the caller frees each. */
char *render_pv_name(const char *dataset_uid);
/* the uid in such a name, borrowed; NULL if it is none */
const char *render_pv_dataset_uid(const char *pv_name);
char *render_service_name(const char *dataset);
char *render_worker_name(const char *dataset, int index);
char *render_client_name(const char *dataset, const char *node);
char *render_loader_name(const char *dataload);
char *render_preloader_name(const char *dataset);
/* the value of LABEL_NODE_HASH, as in the client's name */
char *render_node_hash(const char *node);

/* An object with apiVersion, kind and metadata: name, our labels. component NULL: none. Caller owns
 * it. */
json_t *render_object(const struct kube_res *res, const char *ns, const char *name,
    const char *dataset, const char *dataset_uid, const char *component);
void render_label(json_t *object, const char *label, const char *value);
/* Makes `owner` the controlling owner: the garbage collector takes the object along. */
void render_owner(json_t *object, const struct kube_res *res, const json_t *owner);

#endif
