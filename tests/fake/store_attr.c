/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes in a store in memory: kept, with a new version of the object, where a test asks for
 * it. */
#include "tests/fake/store_inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int fake_set_attr(void *impl, const char *path, const char *expect,
    const struct store_attr *attr, struct store_stat *st, struct err *e)
{
    struct fake_store *f = impl;
    int rc = -1;
    pthread_mutex_lock(&f->mu);
    f->on[FAKE_SET_ATTR].calls++;
    for (size_t i = 0; i < f->n && rc; i++) {
        struct fake_object *o = &f->objects[i];
        if (strcmp(o->path, path) != 0)
            continue;
        if (expect && !o->st.is_dir && strcmp(expect, o->st.version) != 0)
            break;
        unsigned has = o->st.attr.has | attr->has;
        o->st.attr_known = true;
        o->st.attr = *attr;
        o->st.attr.has = has;
        if (attr->has & STORE_MTIME)
            o->st.mtime_ns = attr->mtime_ns;
        if (!o->st.is_dir)
            snprintf(o->st.version, sizeof o->st.version, "v%u", ++f->versions);
        *st = o->st;
        rc = 0;
    }
    pthread_mutex_unlock(&f->mu);
    return rc ? store_err(e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, path, ": it is another one")
              : 0;
}

void fake_store_keep_attr(struct fake_store *f) { f->ops.set_attr = fake_set_attr; }
