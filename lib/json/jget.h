/* SPDX-License-Identifier: Apache-2.0 */
/* jget — typed reads from json by path. A path is dotted keys, "[n]" for array elements, and may
 * hold keys with dots in double quotes: "metadata.annotations.\"millrace.dev/hash\"",
 * "spec.mounts[0].mountPoint". The plain readers return a default when the value is absent, null or
 * of another type: for objects the API server has validated. The _req readers report INVALID with
 * the full path: for everything else. Results borrow from j. */
#ifndef MILLRACE_LIB_JSON_JGET_H
#define MILLRACE_LIB_JSON_JGET_H

#include "lib/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* NULL if absent or null */
const json_t *jget(const json_t *j, const char *path);
const char *jget_str(const json_t *j, const char *path, const char *dflt);
int64_t jget_int(const json_t *j, const char *path, int64_t dflt);
bool jget_bool(const json_t *j, const char *path, bool dflt);
/* NULL unless an array */
const json_t *jget_arr(const json_t *j, const char *path);
/* NULL unless an object */
const json_t *jget_obj(const json_t *j, const char *path);
/* elements of an array, else 0 */
size_t jget_len(const json_t *j, const char *path);

/* a non-empty string */
int jget_str_req(const json_t *j, const char *path, const char **out, struct err *e);
int jget_int_req(
    const json_t *j, const char *path, int64_t min, int64_t max, int64_t *out, struct err *e);

#endif
