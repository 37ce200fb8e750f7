/* SPDX-License-Identifier: Apache-2.0 */
/* Where the data is: spec.mounts. */
#include "operator/api/dataset_priv.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/api/dataset_kind.h"

#include <string.h>

#define OPTIONS_MOST (96 << 10) /* bytes: Linux takes 128 KiB a variable, and there is more */

static int err_mount_option(
    const char *field, const char *name, const struct dataset_mount *m, size_t i, struct err *e)
{
    cleanup_free char *known = option_names_of(m->kind->options);
    return err_set(e, ERR_INVALID, "spec.mounts[%zu].%s: unknown option %s: %s:// takes %s", i,
        field, name, m->kind->scheme, known);
}

/* The name by which m->options has the option, be it another one; NULL: they have not. */
static const char *plain_name(const struct dataset_mount *m, const char *option)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)m->options, key, value)
        if (strcmp(option_proper_name(key), option_proper_name(option)) == 0)
            return key;
    return NULL;
}

static int parse_options(const json_t *j, struct dataset_mount *m, size_t i, struct err *e)
{
    m->options = jget_obj(j, "options");
    if (jget(j, "options") && !m->options)
        return err_set(e, ERR_INVALID, "spec.mounts[%zu].options must be a map of strings", i);
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)m->options, key, value) {
        if (!json_is_string(value))
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu].options.%s must be a string: put it in quotes", i, key);
        if (!option_is_of(key, m->kind->options))
            return err_mount_option("options", key, m, i, e);
        if (option_is_credential(key))
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu].options.%s is a credential: put it into a Secret and name that in spec.mounts[%zu].secretRef",
                i, key, i);
        const char *before = plain_name(m, key);
        if (strcmp(before, key) != 0)
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu].options: %s and %s are names of one option: keep one of them", i,
                before, key);
    }
    return 0;
}

/* Which of two would count is nobody's to guess. */
static int mount_option_once(
    const struct dataset_mount *m, size_t i, const char *option, struct err *e)
{
    const char *plain = plain_name(m, option), *proper = option_proper_name(option);
    bool same = plain && strcmp(plain, option) == 0;
    if (plain)
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu]: the option %s is given in options%s%s and in encryptOptions%s%s: keep one of them",
            i, proper, same ? "" : " as ", same ? "" : plain, same ? "" : " as ",
            same ? "" : option);
    for (size_t k = 0; k < m->nsecrets; k++) {
        const char *other = m->secrets[k].option;
        if (strcmp(other, option) == 0)
            return err_set(
                e, ERR_INVALID, "spec.mounts[%zu].encryptOptions: %s is there twice", i, option);
        if (strcmp(option_proper_name(other), proper) == 0)
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu].encryptOptions: %s and %s are names of one option: keep one of them",
                i, other, option);
    }
    return 0;
}

static int parse_secrets(const json_t *j, struct dataset_mount *m, size_t i, struct err *e)
{
    const json_t *list = jget_arr(j, "encryptOptions");
    if (json_array_size(list) > DATASET_SECRETS_MAX)
        return err_set(e, ERR_INVALID, "spec.mounts[%zu].encryptOptions: at most %d are possible",
            i, DATASET_SECRETS_MAX);
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t *o = json_array_get(list, k);
        struct dataset_secret s;
        if (jget_str_req(o, "name", &s.option, e)
            || jget_str_req(o, "valueFrom.secretKeyRef.name", &s.secret, e)
            || jget_str_req(o, "valueFrom.secretKeyRef.key", &s.key, e))
            return err_wrap(e, "spec.mounts[%zu].encryptOptions[%zu]", i, k);
        if (!dataset_plain_name(s.option, "._-") || !dataset_plain_name(s.secret, "-.")
            || strspn(s.key, "/") || strchr(s.key, '/') || *s.key == '\0')
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu].encryptOptions[%zu]: name, secretKeyRef.name and secretKeyRef.key must hold only letters, digits, '.', '_' and '-'",
                i, k);
        if (!m->kind->takes_no_secret && !option_is_of(s.option, m->kind->options))
            return err_mount_option("encryptOptions", s.option, m, i, e);
        if (mount_option_once(m, i, s.option, e))
            return -1;
        m->secrets[m->nsecrets++] = s;
    }
    return 0;
}

/* A name below `key`, of an object of the namespace; *out stays NULL where there is none. */
static int parse_ref(const json_t *j, const char *key, size_t i, const char **out, struct err *e)
{
    if (!jget(j, key))
        return 0;
    if (jget_str_req(j, key, out, e))
        return err_wrap(e, "spec.mounts[%zu]", i);
    if (!dataset_plain_name(*out, "-._"))
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu].%s: \"%s\" must hold only letters, digits, '.', '_' and '-'", i, key,
            *out);
    return 0;
}

static int parse_refs(const json_t *j, struct dataset_mount *m, size_t i, struct err *e)
{
    if (jget(j, "secretRef") && !jget(j, "secretRef.name"))
        return err_set(e, ERR_INVALID, "spec.mounts[%zu].secretRef.name is missing", i);
    if (jget(j, "caBundle")
        && (!jget(j, "caBundle.configMapKeyRef.name") || !jget(j, "caBundle.configMapKeyRef.key")))
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu].caBundle: write caBundle: {configMapKeyRef: {name: …, key: …}}", i);
    if (parse_ref(j, "secretRef.name", i, &m->secret_ref, e)
        || parse_ref(j, "caBundle.configMapKeyRef.name", i, &m->ca_configmap, e)
        || parse_ref(j, "caBundle.configMapKeyRef.key", i, &m->ca_key, e))
        return -1;
    if (m->ca_configmap && m->options && json_object_get(m->options, "ca-cert"))
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu]: certificates are given in options.ca-cert and in caBundle: keep one of them",
            i);
    if (m->kind->takes_no_secret && (m->secret_ref || m->ca_configmap || m->nsecrets))
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu]: %s takes no credentials and no certificates: leave out secretRef, encryptOptions and caBundle",
            i, m->kind->takes_no_secret);
    return 0;
}

/* Those of the administrator: what a Dataset says goes before. */
static int parse_default_options(
    const json_t *options, struct dataset_mount *m, size_t i, struct err *e)
{
    const char *key;
    json_t *value;
    m->default_options = jget_obj(options, m->kind->defaults);
    json_object_foreach ((json_t *)m->default_options, key, value) {
        if (!json_is_string(value))
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu]: the cluster's default of the option %s must be a string: ask its administrator to put it in quotes",
                i, key);
        if (option_is_credential(key))
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu]: the cluster's default of the option %s is a credential, which belongs into a Secret: ask its administrator to take it out",
                i, key);
    }
    return 0;
}

static int parse_immutable(
    const struct dataset *d, const json_t *j, struct dataset_mount *m, size_t i, struct err *e)
{
    m->immutable = jget(j, "immutable") ? jget_bool(j, "immutable", false) : -1;
    if (m->immutable == 1 && !d->read_only && !m->read_only)
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu].immutable: nothing is written to a source that nobody changes: add readOnly: true, or leave immutable out",
            i);
    return 0;
}

/* What a store cannot do is said where it is asked for, not by the first write. */
static int parse_read_only(
    const struct dataset *d, const json_t *j, struct dataset_mount *m, size_t i, struct err *e)
{
    m->read_only = jget_bool(j, "readOnly", false);
    if (m->kind->takes_no_writes && !d->read_only && !m->read_only)
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu]: nothing can be written to %s: add readOnly: true to this mount, or leave accessModes out",
            i, m->kind->takes_no_writes);
    return 0;
}

static int dataset_parse_mount(struct dataset *d, const json_t *j, size_t i, const json_t *options,
    const char **reason, struct err *e)
{
    struct dataset_mount *m = &d->mounts[d->nmounts++];
    *reason = REASON_URL;
    if (jget_str_req(j, "mountPoint", &m->mount_point, e))
        return err_wrap(e, "spec.mounts[%zu]", i);
    if (dataset_kind_parse(d, m, i, e))
        return -1;
    *reason = REASON_OPTION;
    if (parse_options(j, m, i, e) || parse_default_options(options, m, i, e)
        || parse_secrets(j, m, i, e) || parse_refs(j, m, i, e))
        return -1;
    *reason = REASON_SPEC;
    m->path = jget_str(j, "path", "/");
    if (parse_read_only(d, j, m, i, e) || parse_immutable(d, j, m, i, e))
        return -1;
    if (!dataset_plain_path(m->path))
        return err_set(
            e, ERR_INVALID, "spec.mounts[%zu].path: \"%s\" must be like /a/b", i, m->path);
    for (size_t k = 0; k < i; k++)
        if (strcmp(d->mounts[k].path, m->path) == 0)
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu].path: \"%s\" is the path of spec.mounts[%zu] too: give each its own",
                i, m->path, k);
    return 0;
}

/* All of them go to the pods in one variable of the environment. */
static int check_options_size(const struct dataset *d, struct err *e)
{
    size_t all = 0;
    for (size_t i = 0; i < d->nmounts; i++)
        all += json_dumpb(d->mounts[i].options, NULL, 0, JSON_COMPACT);
    return all <= OPTIONS_MOST
        ? 0
        : err_set(e, ERR_INVALID,
            "spec.mounts: their options have %zu bytes together, of %d at most: give certificates by caBundle instead of options.ca-cert",
            all, OPTIONS_MOST);
}

int dataset_parse_mounts(
    struct dataset *d, const json_t *options, const char **reason, struct err *e)
{
    const json_t *mounts = jget_arr(d->cr, "spec.mounts");
    size_t n = json_array_size(mounts);
    *reason = REASON_SPEC;
    if (n == 0 || n > DATASET_MOUNTS_MAX)
        return err_set(
            e, ERR_INVALID, "spec.mounts must have from 1 to %d mounts", DATASET_MOUNTS_MAX);
    for (size_t i = 0; i < n; i++)
        if (dataset_parse_mount(d, json_array_get(mounts, i), i, options, reason, e))
            return -1;
    return check_options_size(d, e);
}
