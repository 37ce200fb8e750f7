/* SPDX-License-Identifier: Apache-2.0 */
/* observed — what the plan of one DataLoad looks at. Borrowed and immutable while the plan is made.
 */
#ifndef MILLRACE_OPERATOR_DATALOAD_OBSERVED_H
#define MILLRACE_OPERATOR_DATALOAD_OBSERVED_H

#include "operator/ctl/plan.h"
#include "operator/dataset/cache_pod.h"
#include "operator/render/pod.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define DATALOAD_TRIES 4 /* runs of the loader: the first one and three more */

struct dataload_observed {
    const json_t *cr;             /* NULL: there is none (any more) */
    const json_t *dataset;        /* the Dataset it names; NULL: there is none */
    const struct cache_pod *pods; /* our pods with the DataLoad's label */
    size_t npods;
    const json_t *const *pod_nodes; /* that of each pod, NULL: it is gone; or not looked up */
    const json_t *said;             /* of ctl/verdicts, of the DataLoad's pod; may be NULL */
    int64_t now_ns;                 /* since the epoch */
    struct render_env env;
};

void dataload_plan(const struct dataload_observed *o, struct plan *p);

#endif
