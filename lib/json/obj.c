/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/obj.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/json/dump.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct obj {
    atomic_int refs;
    json_t *root; /* owned; never changed, never incref'ed; NULL: folded */
    char *text;   /* owned; of a folded one */
};

struct obj *obj_take(json_t *root)
{
    struct obj *o = xcalloc(1, sizeof *o);
    atomic_init(&o->refs, 1);
    o->root = root;
    return o;
}

struct obj *obj_fold(const json_t *root)
{
    struct obj *o = obj_take(NULL);
    o->text = json_dump(root, false);
    return o;
}

struct obj *obj_unfold(struct obj *o_take)
{
    if (!o_take || !o_take->text)
        return o_take;
    json_t *root = json_loads(o_take->text, 0, NULL);
    if (!root)
        abort(); /* only OOM: the text is our own */
    obj_unref(o_take);
    return obj_take(root);
}

struct obj *obj_ref(struct obj *o)
{
    if (o)
        atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return o;
}

void obj_unref(struct obj *o)
{
    if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1)
        return;
    json_decref(o->root);
    free(o->text);
    free(o);
}

const json_t *obj_json(const struct obj *o) { return o ? o->root : NULL; }
void cleanup_objp(struct obj **o) { obj_unref(*o); }
void cleanup_jsonp(json_t **j) { json_decref(*j); }

json_t *json_parse(const char *text, size_t len, struct err *e)
{
    json_error_t at;
    json_t *j = json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);
    if (!j)
        err_set(e, ERR_INVALID, "json, line %d column %d: %s", at.line, at.column, at.text);
    return j;
}

char *json_text(const json_t *j) { return json_dump(j, true); }

uint64_t json_hash(const json_t *j)
{
    cleanup_free char *text = json_text(j);
    return hash64(text, strlen(text));
}
