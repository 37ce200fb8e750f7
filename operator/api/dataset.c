/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/api/dataset.h"

#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_URL    "InvalidURL"
#define REASON_OPTION "InvalidOption"
#define REASON_NAME   "NameTooLong"
#define REASON_SPEC   "InvalidSpec"

static bool in_list(const char *word, const char *const *list)
{
    while (*list && strcmp(*list, word) != 0)
        list++;
    return *list != NULL;
}

/* Names of objects, and of files in our volumes: letters, digits and the given others, not
 * beginning with a dot. */
static bool plain_name(const char *s, const char *others)
{
    if (!*s || *s == '.')
        return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9')
                || strchr(others, *s)))
            return false;
    return true;
}

/* "/", or "/a/b": no empty names, no "." and "..", nothing at the end. */
static bool plain_path(const char *path)
{
    if (strcmp(path, "/") == 0)
        return true;
    if (*path != '/')
        return false;
    for (const char *s = path; *s;) {
        size_t n = strcspn(++s, "/");
        if (n == 0 || n > 255 || (n == 1 && *s == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
            return false;
        s += n;
    }
    return true;
}

static int check_name(const struct dataset *d, const char **reason, struct err *e)
{
    size_t len = strlen(d->name);
    *reason = REASON_NAME;
    if (len > DATASET_NAME_MAX)
        return err_set(e, ERR_INVALID,
            "metadata.name: %zu characters are too many, because the names of pods and services are made from it: use at most %d",
            len, DATASET_NAME_MAX);
    *reason = REASON_SPEC;
    bool ok = len && d->name[0] >= 'a' && d->name[0] <= 'z' && d->name[len - 1] != '-';
    for (const char *s = d->name; *s && ok; s++)
        ok = (*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') || *s == '-';
    if (!ok)
        return err_set(e, ERR_INVALID,
            "metadata.name: \"%s\" must begin with a letter and hold only a-z, 0-9 and '-', because a Service is named after it",
            d->name);
    if (!*d->uid || !*d->ns)
        return err_set(e, ERR_INVALID,
            "metadata.uid and metadata.namespace are missing: this is not an object of the API server");
    return 0;
}

static int parse_mount_point(struct dataset *d, struct dataset_mount *m, size_t i, struct err *e)
{
    const char *url = m->mount_point, *rest = strstr(url, "://");
    if (!rest)
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu].mountPoint: \"%s\" is no URL: use s3://bucket/prefix or pvc://claim/directory",
            i, url);
    if (strncmp(url, "s3://", 5) == 0)
        m->scheme = DATASET_S3;
    else if (strncmp(url, "pvc://", 6) == 0)
        m->scheme = DATASET_PVC;
    else
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu].mountPoint: \"%s\": unknown URL scheme \"%.*s\": use s3://bucket/prefix or pvc://claim/directory",
            i, url, (int)(rest - url), url);
    rest += 3;
    size_t n = strcspn(rest, "/");
    for (const char *s = url; *s; s++)
        if ((unsigned char)*s <= ' ' || *s == 0x7f || *s == '?' || *s == '#')
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu].mountPoint must not hold spaces, control characters, '?' or '#'",
                i);
    if (n == 0)
        return err_set(e, ERR_INVALID, "spec.mounts[%zu].mountPoint: \"%s\" names no %s after %.*s",
            i, url, m->scheme == DATASET_S3 ? "bucket" : "claim", (int)(rest - url), url);
    if (m->scheme == DATASET_S3)
        return 0;
    m->claim = xstrndup(rest, n);
    m->claim_path = xstrdup(strcmp(rest + n, "/") == 0 ? "" : rest + n);
    size_t len = strlen(m->claim_path);
    if (len > 1 && m->claim_path[len - 1] == '/')
        m->claim_path[len - 1] = '\0';
    if (!plain_name(m->claim, "-.") || (*m->claim_path && !plain_path(m->claim_path)))
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu].mountPoint: \"%s\" is not like pvc://claim/directory", i, url);
    if (strcmp(m->claim, d->name) == 0)
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu].mountPoint: \"%s\" is the volume of this Dataset itself: name another claim",
            i, url);
    return 0;
}

static int parse_options(const json_t *j, struct dataset_mount *m, size_t i, struct err *e)
{
    static const char *const credentials[] = {
        "secret-access-key", "secret-key", "aws.secretKey", "session-token", NULL};
    m->options = jget_obj(j, "options");
    if (jget(j, "options") && !m->options)
        return err_set(e, ERR_INVALID, "spec.mounts[%zu].options must be a map of strings", i);
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)m->options, key, value) {
        if (!json_is_string(value))
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu].options.%s must be a string: put it in quotes", i, key);
        if (in_list(key, credentials))
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu].options.%s is a credential: put it into a Secret and name that in spec.mounts[%zu].encryptOptions",
                i, key, i);
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
        if (!plain_name(s.option, "._-") || !plain_name(s.secret, "-.") || strspn(s.key, "/")
            || strchr(s.key, '/') || *s.key == '\0')
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu].encryptOptions[%zu]: name, secretKeyRef.name and secretKeyRef.key must hold only letters, digits, '.', '_' and '-'",
                i, k);
        if (m->options && json_object_get(m->options, s.option))
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu]: the option %s is given in options and in encryptOptions: keep one of them",
                i, s.option);
        for (size_t o2 = 0; o2 < m->nsecrets; o2++)
            if (strcmp(m->secrets[o2].option, s.option) == 0)
                return err_set(e, ERR_INVALID, "spec.mounts[%zu].encryptOptions: %s is there twice",
                    i, s.option);
        m->secrets[m->nsecrets++] = s;
    }
    return 0;
}

static int dataset_parse_mount(
    struct dataset *d, const json_t *j, size_t i, size_t n, const char **reason, struct err *e)
{
    struct dataset_mount *m = &d->mounts[d->nmounts++];
    *reason = REASON_URL;
    if (jget_str_req(j, "mountPoint", &m->mount_point, e))
        return err_wrap(e, "spec.mounts[%zu]", i);
    if (parse_mount_point(d, m, i, e))
        return -1;
    *reason = REASON_OPTION;
    if (parse_options(j, m, i, e) || parse_secrets(j, m, i, e))
        return -1;
    *reason = REASON_SPEC;
    m->name = jget_str(j, "name", "");
    m->read_only = jget_bool(j, "readOnly", false);
    const char *path = jget_str(j, "path", NULL);
    if (!path && !*m->name && n > 1)
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu]: with more than one mount each needs a path (or a name)", i);
    m->path = path ? xstrdup(path) : xasprintf("/%s", m->name);
    if (!plain_path(m->path))
        return err_set(
            e, ERR_INVALID, "spec.mounts[%zu].path: \"%s\" must be like /a/b", i, m->path);
    for (size_t k = 0; k < i; k++)
        if (strcmp(d->mounts[k].path, m->path) == 0)
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu].path: \"%s\" is the path of spec.mounts[%zu] too: give each its own",
                i, m->path, k);
    return 0;
}

static int dataset_parse_mounts(struct dataset *d, const char **reason, struct err *e)
{
    const json_t *mounts = jget_arr(d->cr, "spec.mounts");
    size_t n = json_array_size(mounts);
    *reason = REASON_SPEC;
    if (n == 0 || n > DATASET_MOUNTS_MAX)
        return err_set(
            e, ERR_INVALID, "spec.mounts must have from 1 to %d mounts", DATASET_MOUNTS_MAX);
    for (size_t i = 0; i < n; i++)
        if (dataset_parse_mount(d, json_array_get(mounts, i), i, n, reason, e))
            return -1;
    return 0;
}

static int parse_access(struct dataset *d, struct err *e)
{
    static const char *const known[] = {"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", NULL};
    d->read_only = true;
    if (jget_len(d->cr, "spec.accessModes"))
        d->access_modes = jget_arr(d->cr, "spec.accessModes");
    for (size_t i = 0; i < json_array_size(d->access_modes); i++) {
        const char *mode = json_string_value(json_array_get(d->access_modes, i));
        if (!mode || !in_list(mode, known))
            return err_set(e, ERR_INVALID,
                "spec.accessModes[%zu] must be ReadOnlyMany, ReadWriteMany or ReadWriteOnce", i);
        d->read_only = d->read_only && strcmp(mode, "ReadOnlyMany") == 0;
    }
    return 0;
}

/* A quantity field: a number or a string. -1 if it is neither or malformed. */
static int quantity_of(const json_t *q, int64_t *bytes)
{
    if (json_is_integer(q)) {
        *bytes = json_integer_value(q);
        return *bytes < 0 ? -1 : 0;
    }
    return json_is_string(q) ? quantity_parse(json_string_value(q), bytes) : -1;
}

static int parse_tiers(struct dataset *d, struct err *e)
{
    static const char *const media[] = {"Memory", "SSD", "HDD"};
    const json_t *tiers = jget_arr(d->cr, "spec.cache.tiers");
    if (json_array_size(tiers) > DATASET_TIERS_MAX)
        return err_set(
            e, ERR_INVALID, "spec.cache.tiers: at most %d tiers are possible", DATASET_TIERS_MAX);
    for (size_t i = 0; i < json_array_size(tiers); i++) {
        const json_t *j = json_array_get(tiers, i);
        const char *medium = jget_str(j, "medium", "");
        struct conf_tier *t = &d->tiers[d->ntiers++];
        size_t m = 0;
        while (m < ARRAY_LEN(media) && strcmp(media[m], medium) != 0)
            m++;
        if (m == ARRAY_LEN(media))
            return err_set(e, ERR_INVALID,
                "spec.cache.tiers[%zu].medium: \"%s\" must be Memory, SSD or HDD", i, medium);
        t->medium = (enum conf_medium)m;
        if (quantity_of(jget(j, "quota"), &t->quota) || t->quota < 1 << 20
            || t->quota > INT64_MAX / 4)
            return err_set(e, ERR_INVALID,
                "spec.cache.tiers[%zu].quota must be a quantity of at least 1Mi, like 10Gi", i);
        for (size_t k = 0; k < i; k++)
            if (d->tiers[k].medium == t->medium)
                return err_set(
                    e, ERR_INVALID, "spec.cache.tiers[%zu].medium: %s is there twice", i, medium);
        if (t->medium == CONF_MEM)
            d->memory = t->quota;
    }
    if (d->ntiers == 0)
        d->tiers[d->ntiers++] = (struct conf_tier){CONF_SSD, (int64_t)10 << 30};
    return 0;
}

/* A container whose memory limit is below its Memory tier would be killed as soon as the cache
 * fills. */
static int check_resources(
    const struct dataset *d, const json_t *res, const char *who, struct err *e)
{
    static const char *const paths[] = {
        "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"};
    int64_t v = 0;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (jget(res, paths[i]) && quantity_of(jget(res, paths[i]), &v))
            return err_set(e, ERR_INVALID,
                "spec.cache.%s.resources.%s must be a quantity, like 500m or 1Gi", who, paths[i]);
    const json_t *limit = jget(res, "limits.memory");
    if (limit && quantity_of(limit, &v) == 0 && v < d->memory + (64 << 20))
        return err_set(e, ERR_INVALID,
            "spec.cache.%s.resources.limits.memory is too small for a Memory tier of %lld bytes: the tier's quota and 64Mi are needed",
            who, (long long)d->memory);
    return 0;
}

static int dataset_parse_cache(struct dataset *d, struct err *e)
{
    static const char *const writes[] = {"Through", "CacheThrough", NULL},
                             *const profiles[] = {"auto", "sealed", "open", NULL};
    const json_t *c = jget_obj(d->cr, "spec.cache");
    int64_t n = jget_int(c, "replicas", 1), sync = jget_int(c, "metadataSyncSeconds", 0);
    if (n < 0 || n > DATASET_REPLICAS_MAX)
        return err_set(
            e, ERR_INVALID, "spec.cache.replicas must be from 0 to %d", DATASET_REPLICAS_MAX);
    if (sync < 0 || sync > 31536000)
        return err_set(e, ERR_INVALID, "spec.cache.metadataSyncSeconds must be from 1 to 31536000");
    d->replicas = (int)n;
    d->metadata_sync = (int)sync;
    d->write_type = jget_str(c, "writeType", "CacheThrough");
    d->profile = jget_str(c, "profile", "auto");
    d->worker_resources = jget_obj(c, "worker.resources");
    d->client_resources = jget_obj(c, "client.resources");
    if (!in_list(d->write_type, writes))
        return err_set(e, ERR_INVALID,
            "spec.cache.writeType: \"%s\" must be Through or CacheThrough", d->write_type);
    if (!in_list(d->profile, profiles))
        return err_set(
            e, ERR_INVALID, "spec.cache.profile: \"%s\" must be auto, sealed or open", d->profile);
    if (strcmp(d->profile, "sealed") == 0 && !d->read_only)
        return err_set(e, ERR_INVALID,
            "spec.cache.profile: sealed is for data that nobody changes: use accessModes [ReadOnlyMany], or the profile auto or open");
    if (parse_tiers(d, e))
        return -1;
    return check_resources(d, d->worker_resources, "worker", e)
            || check_resources(d, d->client_resources, "client", e)
        ? -1
        : 0;
}

struct dataset *dataset_parse(const json_t *cr, const char **reason, struct err *e)
{
    cleanup_dataset struct dataset *d = xcalloc(1, sizeof *d);
    d->cr = cr;
    d->ns = kube_namespace(cr);
    d->name = kube_name(cr);
    d->uid = kube_uid(cr);
    d->generation = jget_int(cr, "metadata.generation", 0);
    d->deleting = kube_deleting(cr);
    if (check_name(d, reason, e) || dataset_parse_mounts(d, reason, e))
        return NULL;
    *reason = REASON_SPEC;
    if (parse_access(d, e) || dataset_parse_cache(d, e))
        return NULL;
    d->node_selector = jget_obj(cr, "spec.nodeAffinity.required");
    d->tolerations = jget_arr(cr, "spec.tolerations");
    return steal(&d);
}

void dataset_free(struct dataset *d)
{
    for (size_t i = 0; d && i < d->nmounts; i++) {
        free(d->mounts[i].path);
        free(d->mounts[i].claim);
        free(d->mounts[i].claim_path);
    }
    free(d);
}

void cleanup_datasetp(struct dataset **d) { dataset_free(*d); }
