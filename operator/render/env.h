/* SPDX-License-Identifier: Apache-2.0 */
/* env — what the operator's configuration file says of all pods of datasets:
 * {"env": {name: value}, "labels": {}, "annotations": {}, "caBundle": "PEM", "priorityClassName":
 * "", "openshift": false, "cacheKeepFree": 15, "ingress": [], "endpoints": [], "pluginHash": "",
 * "gpuResources": [], "pluginNodes": [], "pluginTolerations": [], "defaults": {…}}; each may be
 * absent. Pure. */
#ifndef MILLRACE_OPERATOR_RENDER_ENV_H
#define MILLRACE_OPERATOR_RENDER_ENV_H

#include "lib/base/err.h"
#include "operator/render/pod.h"

#include <jansson.h>

/* NULL: there is no file. Borrows; image and the like are the caller's to fill in. */
struct render_env render_env_of(const json_t *config);
/* INVALID names the field: before anything else looks at the file. */
int render_env_check(const json_t *config, struct err *e);

#endif
