/* SPDX-License-Identifier: Apache-2.0 */
/* dump — inside lib/json: a document as compact text. As json_dumps, but a real number is written
 * with as few digits as read back to the same one: 0.1 stays 0.1, as the user wrote it. */
#ifndef MILLRACE_LIB_JSON_DUMP_H
#define MILLRACE_LIB_JSON_DUMP_H

#include <jansson.h>
#include <stdbool.h>

char *json_dump(
    const json_t *j, bool sort_keys); /* any value; caller frees; aborts without memory */

#endif
