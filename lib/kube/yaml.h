/* SPDX-License-Identifier: Apache-2.0 */
/* yaml — one YAML document as json. Plain scalars become null, booleans and whole numbers where
 * they read so; everything else is a string. Refused: anchors and aliases, duplicate keys, keys
 * that are no scalars, more than YAML_DEPTH levels, a second document. */
#ifndef MILLRACE_LIB_KUBE_YAML_H
#define MILLRACE_LIB_KUBE_YAML_H

#include "lib/base/err.h"

#include <jansson.h>
#include <stddef.h>

#define YAML_DEPTH 32

/* INVALID with the line; caller owns */
json_t *yaml_parse(const char *text, size_t len, struct err *e);

#endif
