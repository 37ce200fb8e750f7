/* SPDX-License-Identifier: Apache-2.0 */
/* obj — an immutable json document shared between threads. jansson's own refcount is not safe to
 * change from two threads, so a document is frozen inside an obj with an atomic count; readers
 * borrow the json_t and never incref it or parts of it: what must outlive the obj, or change, is
 * copied with json_deep_copy(). */
#ifndef MILLRACE_LIB_JSON_OBJ_H
#define MILLRACE_LIB_JSON_OBJ_H

#include "lib/base/err.h"

#include <jansson.h>
#include <stdint.h>

/* opaque; whole, or folded: its text only, a tenth of the memory, but it cannot be read */
struct obj;
struct obj *obj_take(json_t *root); /* steals the only reference */
struct obj *obj_ref(struct obj *o); /* NULL stays NULL */
void obj_unref(struct obj *o);
struct obj *obj_fold(const json_t *root); /* a folded copy */
/* of a folded one, a whole one; else, and for NULL, the same */
struct obj *obj_unfold(struct obj *o_take);
const json_t *obj_json(const struct obj *o); /* borrowed, NULL for NULL; o is whole */
void cleanup_objp(struct obj **o);
#define cleanup_obj __attribute__((cleanup(cleanup_objp)))

void cleanup_jsonp(json_t **j);
#define cleanup_json __attribute__((cleanup(cleanup_jsonp))) /* json_decref */

/* INVALID with line and column; rejects duplicate keys and NULs */
json_t *json_parse(const char *text, size_t len, struct err *e);
/* compact, keys sorted; caller frees: equal documents give equal text */
char *json_text(const json_t *j);
uint64_t json_hash(const json_t *j); /* of json_text: for ANNOTATION_HASH */

#endif
