/* SPDX-License-Identifier: Apache-2.0 */
/* read — a Dataset as its pods are made of it. Pure. */
#ifndef MILLRACE_OPERATOR_RENDER_READ_H
#define MILLRACE_OPERATOR_RENDER_READ_H

#include "lib/base/err.h"
#include "operator/api/dataset.h"
#include "operator/render/pod.h"

#include <jansson.h>

/* As dataset_parse(), with env's defaults and at most as many workers as env says. NULL, too, where
 * it is more than a pod's environment takes: no such pod could start. */
struct dataset *render_read(
    const json_t *cr, const struct render_env *env, const char **reason, struct err *e);

#endif
