/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/volume_context.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = {[VOLUME_KIND_DATASET] = "dataset",
    [VOLUME_KIND_CLIENT] = VOL_KIND_CLIENT,
    [VOLUME_KIND_WORKER] = VOL_KIND_WORKER,
    [VOLUME_KIND_PROCESS] = "child"};

const char *volume_kind_name(enum volume_kind k) { return kind_names[k]; }

int volume_kind_parse(const char *text, enum volume_kind *out)
{
    for (size_t i = 0; i < ARRAY_LEN(kind_names); i++)
        if (strcmp(text, kind_names[i]) == 0) {
            *out = (enum volume_kind)i;
            return 0;
        }
    return -1;
}

static bool lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

static bool is_label(const char *s, size_t n)
{
    if (n == 0 || n > VOLUME_LABEL_MAX || !lower_or_digit(s[0]) || !lower_or_digit(s[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!lower_or_digit(s[i]) && s[i] != '-')
            return false;
    return true;
}

bool volume_is_label(const char *s) { return is_label(s, strlen(s)); }

bool volume_is_subdomain(const char *s)
{
    if (strlen(s) > VOLUME_NAME_MAX)
        return false;
    for (;; s++) {
        size_t n = strcspn(s, ".");
        if (!is_label(s, n))
            return false;
        s += n;
        if (!*s)
            return true;
    }
}

bool volume_is_id(const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n > VOLUME_ID_MAX || s[0] == '.')
        return false;
    for (; *s; s++)
        if (!lower_or_digit(*s) && !(*s >= 'A' && *s <= 'Z') && !strchr("._-", *s))
            return false;
    return true;
}

bool volume_is_path(const char *s)
{
    if (s[0] != '/' || strlen(s) >= PATH_MAX)
        return false;
    while (*s) {
        while (*s == '/')
            s++;
        size_t n = strcspn(s, "/");
        if ((n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
            return false;
        s += n;
    }
    return true;
}

const char *volume_pair_value(const struct volume_pair *p, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(p[i].key, key) == 0)
            return p[i].value;
    return NULL;
}

bool volume_context_is_inline(const struct volume_pair *p, size_t n)
{
    const char *v = volume_pair_value(p, n, VOL_EPHEMERAL);
    return v && strcmp(v, "true") == 0;
}

/* Copies a value that becomes part of a path. */
static int take_attribute(const struct volume_pair *p, size_t n, const char *key,
    bool (*valid)(const char *), const char *shape, char *out, size_t cap, struct err *e)
{
    const char *v = volume_pair_value(p, n, key);
    if (!v || !*v)
        return err_set(e, ERR_INVALID, "volume attribute %s is missing", key);
    if (!valid(v) || strlen(v) >= cap)
        return err_set(e, ERR_INVALID, "volume attribute %s: '%.64s' is not %s", key, v, shape);
    memcpy(out, v, strlen(v) + 1);
    return 0;
}

int volume_context_persistent(
    const struct volume_pair *p, size_t n, struct volume_context *out, struct err *e)
{
    *out = (struct volume_context){.kind = VOLUME_KIND_DATASET, .read_only = -1};
    if (take_attribute(
            p, n, VOL_DATASET_NAMESPACE, volume_is_label, "a namespace", out->ns, sizeof out->ns, e)
        || take_attribute(
            p, n, VOL_DATASET_UID, volume_is_label, "a uid", out->uid, sizeof out->uid, e)
        || take_attribute(p, n, VOL_DATASET_NAME, volume_is_subdomain, "the name of a Dataset",
            out->name, sizeof out->name, e))
        return err_wrap(e, "this PersistentVolume was not made by the Millrace operator");
    const char *ro = volume_pair_value(p, n, VOL_READ_ONLY);
    if (ro && strcmp(ro, "true") != 0 && strcmp(ro, "false") != 0)
        return err_set(e, ERR_INVALID, "volume attribute %s: '%.64s' is neither true nor false",
            VOL_READ_ONLY, ro);
    if (ro)
        out->read_only = ro[0] == 't';
    return 0;
}

int volume_context_inline(
    const struct volume_pair *p, size_t n, struct volume_context *out, struct err *e)
{
    *out = (struct volume_context){.read_only = 0};
    const char *kind = volume_pair_value(p, n, VOL_KIND);
    if (!kind || volume_kind_parse(kind, &out->kind)
        || (out->kind != VOLUME_KIND_CLIENT && out->kind != VOLUME_KIND_WORKER))
        return err_set(e, ERR_INVALID,
            "an inline volume of %s needs the attribute %s, %s or %s; datasets are mounted by their PersistentVolumeClaim",
            NAME_DRIVER, VOL_KIND, VOL_KIND_CLIENT, VOL_KIND_WORKER);
    if (take_attribute(
            p, n, VOL_POD_NAMESPACE, volume_is_label, "a namespace", out->ns, sizeof out->ns, e)
        || take_attribute(p, n, VOL_POD_NAME, volume_is_subdomain, "the name of a pod", out->pod,
            sizeof out->pod, e))
        return err_wrap(e, "kubelet sends this when the CSIDriver object has podInfoOnMount: true");
    return take_attribute(
        p, n, VOL_DATASET_UID, volume_is_label, "a uid", out->uid, sizeof out->uid, e);
}

void volume_context_title(const struct volume_context *s, char *out, size_t cap)
{
    if (s->kind == VOLUME_KIND_PROCESS)
        snprintf(out, cap, "volume %s", s->uid);
    else if (s->name[0])
        snprintf(out, cap, "dataset %s/%s", s->ns, s->name);
    else
        snprintf(out, cap, "dataset with uid %s in namespace %s", s->uid, s->ns);
}
