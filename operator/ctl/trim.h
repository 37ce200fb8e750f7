/* SPDX-License-Identifier: Apache-2.0 */
/* trim — what an informer need not keep of an object. Pure. */
#ifndef MILLRACE_OPERATOR_CTL_TRIM_H
#define MILLRACE_OPERATOR_CTL_TRIM_H

#include <jansson.h>
#include <stddef.h>

/* Of an object (NULL: none) only the members of these names stay. */
void trim_to(json_t *object, const char *const *names, size_t n);
/* the same of each element of an array */
void trim_each_to(json_t *array, const char *const *names, size_t n);

#endif
