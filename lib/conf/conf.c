/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/conf/conf.h"

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/conf/option_name.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MAX_MOUNTS    250 /* an inode keeps the index of its mount in one byte */
#define MAX_TIERS     8
#define MAX_RULES     64
#define MAX_ENDPOINTS 100

/* Rejects fields that no code reads: a typing error must not be a silent default. */
static int check_fields(
    const json_t *obj, const char *where, const char *const *known, struct err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)obj, key, value) {
        const char *const *k = known;
        while (*k && strcmp(*k, key) != 0)
            k++;
        if (*k)
            continue;
        cleanup_buf struct buf list = BUF_INIT(512);
        for (k = known; *k; k++)
            buf_addf(&list, "%s%s", k == known ? "" : ", ", *k);
        return err_set(e, ERR_INVALID, "%s%s%s: unknown field; known here: %s", where,
            *where ? "." : "", key, buf_str(&list));
    }
    return 0;
}

static int get_bool(const json_t *obj, const char *where, const char *key, bool *out, struct err *e)
{
    const json_t *v = json_object_get(obj, key);
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_boolean(v))
        return err_set(
            e, ERR_INVALID, "%s%s%s: must be true or false", where, *where ? "." : "", key);
    *out = json_is_true(v);
    return 0;
}

static int get_immutable(
    const json_t *obj, const char *where, enum conf_immutable *out, struct err *e)
{
    const json_t *v = json_object_get(obj, "immutable");
    bool yes = false;
    if (get_bool(obj, where, "immutable", &yes, e))
        return -1;
    if (v && !json_is_null(v))
        *out = yes ? CONF_IMMUTABLE_TRUE : CONF_IMMUTABLE_FALSE;
    return 0;
}

/* Absent: *out is a copy of dflt (NULL stays NULL). */
static int get_str(const json_t *obj, const char *where, const char *key, const char *dflt,
    char **out, struct err *e)
{
    const json_t *v = json_object_get(obj, key);
    if (v && !json_is_null(v) && !json_is_string(v))
        return err_set(e, ERR_INVALID, "%s%s%s: must be a string", where, *where ? "." : "", key);
    *out = xstrdup(json_is_string(v) ? json_string_value(v) : dflt);
    return 0;
}

static int parse_pairs(const json_t *obj, const char *where, const char *key,
    struct conf_pair **out, size_t *n, struct err *e)
{
    const json_t *map = json_object_get(obj, key);
    *out = NULL;
    *n = 0;
    if (!map || json_is_null(map))
        return 0;
    if (!json_is_object(map))
        return err_set(e, ERR_INVALID, "%s.%s: must be an object of strings", where, key);
    *out = xcalloc(json_object_size(map) + 1, sizeof **out);
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)map, name, value) {
        if (!json_is_string(value))
            return err_set(e, ERR_INVALID,
                "%s.%s.%s: must be a string (put numbers and booleans in quotes)", where, key,
                name);
        (*out)[*n].key = xstrdup(name);
        (*out)[(*n)++].value = xstrdup(json_string_value(value));
    }
    return 0;
}

/* Secrets are files below a directory of ours: a path must not climb out of it. */
static int check_inside(const char *p, const char *where, const char *key, struct err *e)
{
    bool bad = !*p || *p == '/';
    for (const char *s = p; *s && !bad; s += strcspn(s, "/"), s += *s == '/')
        bad = strncmp(s, "..", 2) == 0 && (s[2] == '/' || !s[2]);
    if (bad)
        return err_set(e, ERR_INVALID, "%s.%s: \"%s\" must be a path inside the secrets directory",
            where, key, p);
    return 0;
}

static int check_secret_paths(const struct conf_mount *m, const char *where, struct err *e)
{
    for (size_t i = 0; i < m->nsecrets; i++) {
        cleanup_free char *key = xasprintf("secrets.%s", m->secrets[i].key);
        if (check_inside(m->secrets[i].value, where, key, e))
            return -1;
    }
    if (m->secret_dir && check_inside(m->secret_dir, where, "secretDir", e))
        return -1;
    return m->ca_bundle ? check_inside(m->ca_bundle, where, "caBundle", e) : 0;
}

/* "/a/b/" → "/a/b"; refuses what is no plain absolute path. */
static int check_path(char *path, const char *where, struct err *e)
{
    size_t len = strlen(path);
    if (*path != '/')
        return err_set(e, ERR_INVALID, "%s.path: \"%s\" must begin with \"/\"", where, path);
    while (len > 1 && path[len - 1] == '/')
        path[--len] = '\0';
    for (const char *s = path; len > 1 && *s;) {
        size_t n = strcspn(++s, "/");
        if (n == 0 || (n == 1 && *s == '.') || (n == 2 && s[0] == '.' && s[1] == '.') || n > 255)
            return err_set(e, ERR_INVALID,
                "%s.path: \"%s\" has an empty, \".\", \"..\" or too long name in it", where, path);
        s += n;
    }
    return 0;
}

static int parse_mount_sources(
    const json_t *j, const char *where, struct conf_mount *m, struct err *e)
{
    if (parse_pairs(j, where, "options", &m->options, &m->noptions, e)
        || parse_pairs(j, where, "defaultOptions", &m->default_options, &m->ndefault_options, e)
        || parse_pairs(j, where, "secrets", &m->secrets, &m->nsecrets, e)
        || parse_pairs(j, where, "secretNames", &m->secret_names, &m->nsecret_names, e)
        || get_str(j, where, "secretDir", NULL, &m->secret_dir, e)
        || get_str(j, where, "secretDirName", "", &m->secret_dir_name, e)
        || get_str(j, where, "caBundle", NULL, &m->ca_bundle, e)
        || get_str(j, where, "caBundleName", "", &m->ca_bundle_name, e))
        return -1;
    return check_secret_paths(m, where, e);
}

static int parse_mount(const json_t *j, size_t i, struct conf_mount *m, struct err *e)
{
    static const char *const known[] = {"mountPoint", "path", "readOnly", "immutable", "options",
        "defaultOptions", "secrets", "secretNames", "secretDir", "secretDirName", "caBundle",
        "caBundleName", NULL};
    char where[32];
    snprintf(where, sizeof where, "mounts[%zu]", i);
    if (!json_is_object(j))
        return err_set(e, ERR_INVALID, "%s: must be an object", where);
    if (check_fields(j, where, known, e)
        || get_str(j, where, "mountPoint", NULL, &m->mount_point, e)
        || get_str(j, where, "path", "/", &m->path, e)
        || get_bool(j, where, "readOnly", &m->read_only, e)
        || get_immutable(j, where, &m->immutable, e))
        return -1;
    if (!m->mount_point || !*m->mount_point)
        return err_set(e, ERR_INVALID,
            "%s.mountPoint: is missing: say where the data is, e.g. \"s3://bucket/prefix\"", where);
    if (!strstr(m->mount_point, "://"))
        return err_set(e, ERR_INVALID,
            "%s.mountPoint: \"%s\" has no scheme: write e.g. s3://bucket/prefix or file:///directory",
            where, m->mount_point);
    if (check_path(m->path, where, e))
        return -1;
    return parse_mount_sources(j, where, m, e);
}

static int check_conf_mount(const struct conf *c, size_t i, struct err *e)
{
    const struct conf_mount *m = &c->mounts[i];
    if (m->immutable == CONF_IMMUTABLE_TRUE && !m->read_only)
        return err_set(e, ERR_INVALID,
            "mounts[%zu].immutable: nothing is written to a source that does not change: set readOnly, or immutable to false",
            i);
    for (size_t k = 0; k < i; k++)
        if (strcmp(c->mounts[k].path, m->path) == 0)
            return err_set(e, ERR_INVALID,
                "mounts[%zu].path: \"%s\" is the path of mounts[%zu] too", i, m->path, k);
    return 0;
}

static int parse_mounts(const json_t *j, struct conf *c, struct err *e)
{
    const json_t *arr = json_object_get(j, "mounts");
    size_t n = json_array_size(arr);
    if (!json_is_array(arr) || n == 0)
        return err_set(e, ERR_INVALID, "mounts: must be a list with at least one mount");
    if (n > MAX_MOUNTS)
        return err_set(
            e, ERR_INVALID, "mounts: has %zu entries; at most %d are possible", n, MAX_MOUNTS);
    c->mounts = xcalloc(n, sizeof *c->mounts);
    for (size_t i = 0; i < n; i++) {
        c->nmounts = i + 1;
        if (parse_mount(json_array_get(arr, i), i, &c->mounts[i], e))
            return -1;
        c->mounts[i].read_only |= c->read_only;
        if (check_conf_mount(c, i, e))
            return -1;
    }
    return 0;
}

/* A quarter of what the process may use: the cgroup's limit, else the machine's memory. */
static int64_t default_memory_quota(void)
{
    int64_t limit = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
    static const char *const files[] = {
        "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        cleanup_file FILE *f = fopen(files[i], "re");
        long long v;
        if (f && fscanf(f, "%lld", &v) == 1 && v > 0 && v < limit)
            limit = v;
    }
    return MAX(limit / 4, (int64_t)64 << 20);
}

static int parse_tier(const json_t *j, size_t i, struct conf_tier *t, struct err *e)
{
    static const char *const known[] = {"medium", "quota", NULL};
    char where[40];
    snprintf(where, sizeof where, "cache.tiers[%zu]", i);
    if (!json_is_object(j))
        return err_set(e, ERR_INVALID, "%s: must be an object", where);
    if (check_fields(j, where, known, e))
        return -1;
    const char *medium = jget_str(j, "medium", "");
    if (strcasecmp(medium, "MEM") == 0 || strcasecmp(medium, "Memory") == 0)
        t->medium = CONF_MEM;
    else if (strcasecmp(medium, "SSD") == 0)
        t->medium = CONF_SSD;
    else if (strcasecmp(medium, "HDD") == 0)
        t->medium = CONF_HDD;
    else
        return err_set(e, ERR_INVALID, "%s.medium: \"%s\" is none of MEM, SSD, HDD", where, medium);
    const json_t *q = json_object_get(j, "quota");
    t->quota = json_is_integer(q) ? json_integer_value(q) : 0;
    if (t->quota <= 0)
        return err_set(e, ERR_INVALID, "%s.quota: must be a number of bytes greater than 0", where);
    return 0;
}

static int conf_tiers(const json_t *cache, struct conf *c, struct err *e)
{
    const json_t *tiers = jget(cache, "tiers");
    if (tiers && (!json_is_array(tiers) || json_array_size(tiers) > MAX_TIERS))
        return err_set(
            e, ERR_INVALID, "cache.tiers: must be a list of at most %d tiers", MAX_TIERS);
    c->tiers = xcalloc(MAX(json_array_size(tiers), (size_t)1), sizeof *c->tiers);
    for (size_t i = 0; i < json_array_size(tiers); i++)
        if (parse_tier(json_array_get(tiers, i), i, &c->tiers[c->ntiers++], e))
            return -1;
    if (c->ntiers == 0)
        c->tiers[c->ntiers++] = (struct conf_tier){CONF_MEM, default_memory_quota()};
    return 0;
}

static int parse_rule(const json_t *j, size_t i, struct conf_rule *r, struct err *e)
{
    static const char *const known[] = {"path", "writeType", NULL};
    char where[40];
    snprintf(where, sizeof where, "cache.rules[%zu]", i);
    if (!json_is_object(j))
        return err_set(e, ERR_INVALID, "%s: must be an object", where);
    if (check_fields(j, where, known, e) || get_str(j, where, "path", "", &r->path, e)
        || check_path(r->path, where, e))
        return -1;
    const char *write = jget_str(j, "writeType", "CacheThrough");
    if (strcmp(write, "Through") == 0)
        r->write = CONF_THROUGH;
    else if (strcmp(write, "CacheThrough") == 0)
        r->write = CONF_CACHE_THROUGH;
    else if (strcmp(write, "AsyncThrough") == 0)
        r->write = CONF_ASYNC_THROUGH;
    else
        return err_set(e, ERR_INVALID,
            "%s.writeType: \"%s\" is none of Through, CacheThrough, AsyncThrough", where, write);
    return 0;
}

static int conf_rules(const json_t *cache, struct conf *c, struct err *e)
{
    const json_t *rules = jget(cache, "rules");
    size_t n = json_array_size(rules);
    if (rules && (!json_is_array(rules) || n > MAX_RULES))
        return err_set(
            e, ERR_INVALID, "cache.rules: must be a list of at most %d rules", MAX_RULES);
    c->rules = xcalloc(MAX(n, (size_t)1), sizeof *c->rules);
    for (size_t i = 0; i < n; i++) {
        c->nrules = i + 1;
        if (parse_rule(json_array_get(rules, i), i, &c->rules[i], e))
            return -1;
        for (size_t k = 0; k < i; k++)
            if (strcmp(c->rules[k].path, c->rules[i].path) == 0)
                return err_set(e, ERR_INVALID,
                    "cache.rules[%zu].path: \"%s\" is the path of cache.rules[%zu] too", i,
                    c->rules[i].path, k);
    }
    return 0;
}

static int parse_cache(const json_t *j, struct conf *c, struct err *e)
{
    static const char *const known[] = {"tiers", "rules", "keepFree", NULL};
    const json_t *cache = json_object_get(j, "cache");
    if (cache && !json_is_object(cache))
        return err_set(e, ERR_INVALID, "cache: must be an object");
    if (cache && check_fields(cache, "cache", known, e))
        return -1;
    const json_t *keep = json_object_get(cache, "keepFree");
    c->keep_free = CONF_KEEP_FREE;
    if (keep
        && (!json_is_integer(keep) || json_integer_value(keep) < 0
            || json_integer_value(keep) > CONF_KEEP_FREE_MAX))
        return err_set(e, ERR_INVALID, "cache.keepFree: must be a percentage from 0 to %d",
            CONF_KEEP_FREE_MAX);
    if (keep)
        c->keep_free = (unsigned)json_integer_value(keep);
    return conf_tiers(cache, c, e) || conf_rules(cache, c, e) ? -1 : 0;
}

/* Is path the directory, or below it? */
static bool path_is_in(const char *path, const char *dir)
{
    size_t n = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
    return strncmp(path, dir, n) == 0 && (path[n] == '/' || !path[n]);
}

enum conf_write conf_write_of(const struct conf *c, const char *path)
{
    const struct conf_rule *best = NULL;
    for (size_t i = 0; i < c->nrules; i++)
        if (path_is_in(path, c->rules[i].path)
            && (!best || strlen(c->rules[i].path) > strlen(best->path)))
            best = &c->rules[i];
    return best ? best->write : CONF_CACHE_THROUGH;
}

static int parse_workers(const json_t *j, struct conf *c, struct err *e)
{
    static const char *const known[] = {"service", "name", "count", "countFile", "port", NULL};
    const json_t *w = json_object_get(j, "workers");
    if (!json_is_object(w))
        return !w || json_is_null(w) ? 0 : err_set(e, ERR_INVALID, "workers: must be an object");
    const char *service, *name, *file = jget_str(w, "countFile", NULL);
    int64_t count = 0, port;
    if (check_fields(w, "workers", known, e) || jget_str_req(w, "service", &service, e)
        || jget_str_req(w, "name", &name, e) || jget_int_req(w, "port", 1, 65535, &port, e)
        || (!file && jget_int_req(w, "count", 0, CONF_WORKERS_MAX, &count, e)))
        return err_wrap(e, "workers");
    if (json_object_get(w, "countFile") && (!file || *file != '/' || json_object_get(w, "count")))
        return err_set(e, ERR_INVALID, "workers.countFile: an absolute path, instead of count");
    c->worker_service = xstrdup(service);
    c->worker_name = xstrdup(name);
    c->worker_count = (int)count;
    c->worker_port = (int)port;
    c->worker_count_file = file ? xstrdup(file) : NULL;
    return 0;
}

static int parse_sync(const json_t *j, struct conf *c, struct err *e)
{
    const json_t *v = json_object_get(j, "metadataSync");
    if (!v || json_is_null(v))
        return 0;
    if (json_is_integer(v) && json_integer_value(v) > 0 && json_integer_value(v) < INT32_MAX)
        c->metadata_sync_ns = json_integer_value(v) * NS_PER_S;
    else
        return err_set(e, ERR_INVALID, "metadataSync: must be a number of seconds greater than 0");
    return 0;
}

static int parse_endpoints(const json_t *j, struct conf *c, struct err *e)
{
    const json_t *list = json_object_get(j, "endpoints");
    size_t n = json_array_size(list);
    if (list && (!json_is_array(list) || n > MAX_ENDPOINTS))
        return err_set(e, ERR_INVALID, "endpoints: must be a list of at most %d", MAX_ENDPOINTS);
    c->endpoints = xcalloc(n + 1, sizeof *c->endpoints);
    for (size_t i = 0; i < n; i++) {
        const json_t *url = json_array_get(list, i);
        if (!json_is_string(url))
            return err_set(e, ERR_INVALID, "endpoints[%zu]: must be a string", i);
        c->endpoints[c->nendpoints++] = xstrdup(json_string_value(url));
    }
    for (size_t i = 0; i < c->nmounts; i++) {
        c->mounts[i].endpoints = c->endpoints;
        c->mounts[i].nendpoints = c->nendpoints;
    }
    return 0;
}

struct conf *conf_parse(const char *json, size_t len, struct err *e)
{
    static const char *const known[] = {"namespace", "name", "uid", "readOnly", "mounts", "cache",
        "workers", "metadataSync", "endpoints", NULL};
    cleanup_json json_t *j = json_parse(json, len, e);
    if (!j) {
        err_wrap(e, "configuration");
        return NULL;
    }
    if (!json_is_object(j)) {
        err_set(e, ERR_INVALID, "configuration: must be a JSON object");
        return NULL;
    }
    cleanup_conf struct conf *c = xcalloc(1, sizeof *c);
    if (check_fields(j, "", known, e) || get_str(j, "", "namespace", "", &c->namespace_, e)
        || get_str(j, "", "name", "", &c->name, e) || get_str(j, "", "uid", "", &c->uid, e)
        || get_bool(j, "", "readOnly", &c->read_only, e) || parse_mounts(j, c, e)
        || parse_cache(j, c, e) || parse_workers(j, c, e) || parse_sync(j, c, e)
        || parse_endpoints(j, c, e)) {
        err_wrap(e, "configuration");
        return NULL;
    }
    return steal(&c);
}

static void free_pairs(struct conf_pair *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(p[i].key);
        free(p[i].value);
    }
    free(p);
}

void conf_free(struct conf *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->nmounts; i++) {
        struct conf_mount *m = &c->mounts[i];
        free(m->mount_point);
        free(m->path);
        free_pairs(m->options, m->noptions);
        free_pairs(m->secrets, m->nsecrets);
        free_pairs(m->secret_names, m->nsecret_names);
        free_pairs(m->default_options, m->ndefault_options);
        free(m->secret_dir);
        free(m->secret_dir_name);
        free(m->ca_bundle);
        free(m->ca_bundle_name);
    }
    free(c->mounts);
    free(c->tiers);
    for (size_t i = 0; i < c->nrules; i++)
        free(c->rules[i].path);
    free(c->rules);
    for (size_t i = 0; i < c->nendpoints; i++)
        free(c->endpoints[i]);
    free(c->endpoints);
    free(c->namespace_);
    free(c->name);
    free(c->uid);
    free(c->worker_service);
    free(c->worker_name);
    free(c->worker_count_file);
    free(c);
}

void cleanup_confp(struct conf **c) { conf_free(*c); }
