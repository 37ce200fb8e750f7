/* SPDX-License-Identifier: Apache-2.0 */
/* recorded — answers of an API server in YAML files beside the tests. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_CLI_RECORDED_H
#define MILLRACE_TESTS_UNIT_FUSE_CLI_RECORDED_H

#include <jansson.h>

/* NULL: it cannot be read, which was said. Caller owns. */
json_t *recorded_read(const char *name);
/* RFC 7386, in place: objects are merged, the rest is replaced, null removes. */
void recorded_change(json_t *to, const json_t *by);

#endif
