/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/volume_json.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_VERSION 1
#define RECORD_MAX     ((size_t)4 << 20)

static void add_member(struct buf *b, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    buf_addf(b, ",\"%s\":", key);
    buf_add_json_string(b, value);
}

char *volume_to_json(const struct volume *v)
{
    struct buf b = BUF_INIT(RECORD_MAX);
    buf_addf(&b, "{\"version\":%d,\"readOnly\":%s,\"mode\":%d,\"created\":%s,\"capacity\":%" PRId64,
        RECORD_VERSION, v->read_only ? "true" : "false", v->mode, v->created ? "true" : "false",
        v->capacity);
    add_member(&b, "id", v->id);
    add_member(&b, "kind", volume_kind_name(v->context.kind));
    add_member(&b, "namespace", v->context.ns);
    add_member(&b, "uid", v->context.uid);
    add_member(&b, "dataset", v->context.name);
    add_member(&b, "pod", v->context.pod);
    add_member(&b, "staging", v->staging);
    add_member(&b, "name", v->name);
    buf_adds(&b, ",\"targets\":[");
    for (size_t i = 0; i < v->ntargets; i++) {
        buf_addf(&b, "%s{\"readOnly\":%s,\"mode\":%d", i ? "," : "",
            v->targets[i].read_only ? "true" : "false", v->targets[i].mode);
        add_member(&b, "path", v->targets[i].path);
        buf_addc(&b, '}');
    }
    buf_adds(&b, "],\"parameters\":[");
    for (size_t i = 0; i < v->nparams; i++) {
        buf_adds(&b, i ? ",[" : "[");
        buf_add_json_string(&b, v->params[i].key);
        buf_addc(&b, ',');
        buf_add_json_string(&b, v->params[i].value);
        buf_addc(&b, ']');
    }
    buf_adds(&b, "]}\n");
    return buf_take(&b);
}

/* An optional member that becomes part of a path, or a name that people see. */
static int take_member(const json_t *j, const char *key, bool (*valid)(const char *), bool required,
    char *out, size_t cap, struct err *e)
{
    const char *value = jget_str(j, key, "");
    if (!*value && !required)
        return 0;
    if (strlen(value) >= cap || !valid(value))
        return err_set(e, ERR_INVALID, "'%s' cannot be '%.64s'", key, value);
    memcpy(out, value, strlen(value) + 1);
    return 0;
}

static int read_context(const json_t *j, struct volume_context *s, struct err *e)
{
    if (volume_kind_parse(jget_str(j, "kind", ""), &s->kind))
        return err_set(e, ERR_INVALID, "'kind' is unknown");
    bool (*uid)(const char *) = s->kind == VOLUME_KIND_PROCESS ? volume_is_id : volume_is_label;
    return take_member(j, "namespace", volume_is_label, true, s->ns, sizeof s->ns, e)
            || take_member(j, "uid", uid, true, s->uid, sizeof s->uid, e)
            || take_member(j, "dataset", volume_is_subdomain, false, s->name, sizeof s->name, e)
            || take_member(j, "pod", volume_is_subdomain, s->kind == VOLUME_KIND_WORKER, s->pod,
                sizeof s->pod, e)
        ? -1
        : 0;
}

static int read_lists(const json_t *j, struct volume *v, struct err *e)
{
    for (size_t i = 0; i < jget_len(j, "targets"); i++) {
        char at[3][64];
        snprintf(at[0], sizeof at[0], "targets[%zu].path", i);
        snprintf(at[1], sizeof at[1], "targets[%zu].readOnly", i);
        snprintf(at[2], sizeof at[2], "targets[%zu].mode", i);
        const char *path = jget_str(j, at[0], "");
        if (!volume_is_path(path))
            return err_set(e, ERR_INVALID, "'%s' is not an absolute path", at[0]);
        volume_target_add(v, path, jget_bool(j, at[1], false), (int)jget_int(j, at[2], 0));
    }
    for (size_t i = 0; i < jget_len(j, "parameters"); i++) {
        char key[64], value[64];
        snprintf(key, sizeof key, "parameters[%zu][0]", i);
        snprintf(value, sizeof value, "parameters[%zu][1]", i);
        volume_param_add(v, jget_str(j, key, ""), jget_str(j, value, ""));
    }
    return 0;
}

struct volume *volume_from_json(const char *text, size_t len, struct err *e)
{
    cleanup_json json_t *j = json_parse(text, len, e);
    if (!j)
        return NULL;
    struct volume *v = xcalloc(1, sizeof *v);
    char id[VOLUME_ID_MAX + 1] = "";
    if (jget_int(j, "version", 0) != RECORD_VERSION) {
        err_set(e, ERR_INVALID, "'version' is not %d", RECORD_VERSION);
    } else if (take_member(j, "id", volume_is_id, true, id, sizeof id, e) == 0
        && read_context(j, &v->context, e) == 0 && read_lists(j, v, e) == 0) {
        const char *staging = jget_str(j, "staging", NULL);
        v->id = xstrdup(id);
        v->staging = staging && volume_is_path(staging) ? xstrdup(staging) : NULL;
        v->name = xstrdup(jget_str(j, "name", NULL));
        v->read_only = jget_bool(j, "readOnly", false);
        v->mode = (int)jget_int(j, "mode", 0);
        v->created = jget_bool(j, "created", false);
        v->capacity = jget_int(j, "capacity", 0);
        return v;
    }
    volume_free(v);
    return NULL;
}
