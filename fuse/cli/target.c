/* SPDX-License-Identifier: Apache-2.0 */
/* From a URL on the command line to a store: the configuration of a dataset with one mount. */
#include "fuse/cli/cli.h"

#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/json/obj.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool is_url(const char *text) { return strstr(text, "://") != NULL; }

static int err_secret(const struct store_kind *kind, const char *name, struct err *e)
{
    cleanup_free char *env = page_secrets(kind);
    return err_set(e, ERR_INVALID,
        "--option %s: a command line is for all to see, so secrets do not belong there; use the "
        "environment (%s) or a file %s in --secrets-dir",
        name, env, name);
}

/* The path of the store of --also that an option "/PATH:NAME" is of, as long as that is; 0: it is
 * of the main one. */
static size_t option_path_len(const char *key)
{
    const char *colon = *key == '/' ? strrchr(key, ':') : NULL;
    return colon ? (size_t)(colon - key) : 0;
}

/* Paths may end in a slash, or not. */
static bool same_path(const char *path, const char *other, size_t n)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    while (n > 1 && other[n - 1] == '/')
        n--;
    return len == n && strncmp(path, other, n) == 0;
}

/* The name by which the option is there already; NULL: it is not. */
static const char *given_as(
    const struct store_kind *kind, json_t *options, const struct store_option *known)
{
    const char *name;
    json_t *value;
    json_object_foreach (options, name, value)
        if (known && store_option_find(kind->options, name) == known)
            return name;
    return NULL;
}

/* Those of the store at path; "/" is the main one. */
static int add_options(
    const struct args *a, const char *url, const char *path, json_t *options, struct err *e)
{
    const struct store_kind *kind = store_kind_of(url);
    for (size_t i = 0; i < a->noptions; i++) {
        const struct conf_pair *o = &a->options[i];
        size_t n = option_path_len(o->key);
        const char *name = n ? o->key + n + 1 : o->key;
        if (!same_path(path, n ? o->key : "/", n ? n : 1))
            continue;
        const struct store_option *known = kind ? store_option_find(kind->options, name) : NULL;
        if (known && known->kind == STORE_OPTION_SECRET)
            return err_secret(kind, name, e);
        const char *before = given_as(kind, options, known);
        if (before)
            return err_set(e, ERR_INVALID,
                "--option %s: option %s is given twice, as %s and as %s: keep one of them", o->key,
                known->name, before, name);
        json_t *value = json_string(o->value);
        if (!value || json_object_set_new(options, name, value))
            return err_set(
                e, ERR_INVALID, "--option %s: name and value must be UTF-8 text", o->key);
    }
    return 0;
}

static int check_option_paths(const struct args *a, struct err *e)
{
    for (size_t i = 0; i < a->noptions; i++) {
        const char *key = a->options[i].key;
        size_t n = option_path_len(key), k = 0;
        while (n && k < a->nalso && !same_path(a->also[k].value, key, n))
            k++;
        if (n && k == a->nalso)
            return err_set(e, ERR_INVALID,
                "--option %s: there is no --also URL=%.*s; options of the first store have no path",
                key, (int)n, key);
    }
    return 0;
}

/* Every file there is named like the option it gives; those of a store of --also are in the
 * directory that is called like its path. */
static int add_secrets(const struct args *a, const char *url, const char *path, json_t *secrets,
    json_t *names, struct err *e)
{
    struct stat st;
    if (!a->secrets_dir)
        return 0;
    if (stat(a->secrets_dir, &st))
        return err_set(
            e, ERR_NOTFOUND, "--secrets-dir %s: there is no such directory", a->secrets_dir);
    if (st.st_mode & 077)
        log_warn("--secrets-dir %s is open to other users; chmod 700 it", a->secrets_dir);
    const struct store_kind *kind = store_kind_of(url);
    path += strspn(path, "/");
    for (const struct store_option *o = kind ? kind->options : NULL; o && o->name; o++) {
        cleanup_free char *name = *path ? path_join(path, o->name) : xstrdup(o->name),
                          *file = path_join(a->secrets_dir, name);
        if (access(file, F_OK))
            continue;
        cleanup_free char *shown = xasprintf("directory %s:%s", a->secrets_dir, name);
        json_object_set_new(secrets, o->name, json_string(name));
        json_object_set_new(names, o->name, json_string(shown));
    }
    return 0;
}

/* "/path=Through,/other=CacheThrough" */
static int add_rules(json_t *rules, const char *text, struct err *e)
{
    cleanup_free char *copy = xstrdup(text);
    char *rest = copy;
    for (char *rule; (rule = strsep(&rest, ","));) {
        char *equals = strrchr(rule, '=');
        if (*rule != '/' || !equals)
            return err_set(e, ERR_INVALID,
                "--rule '%s': write a path of the mount and a type, for example /logs=Through",
                rule);
        *equals = '\0';
        json_t *one = json_pack("{s:s, s:s}", "path", rule, "writeType", equals + 1);
        if (!one)
            return err_set(e, ERR_INVALID, "--rule '%s': it must be UTF-8 text", text);
        json_array_append_new(rules, one);
    }
    return 0;
}

static json_t *requested_cache(const struct conf_request *w, struct err *e)
{
    cleanup_json json_t *cache = json_object();
    json_t *tiers = json_array(), *rules = json_array();
    json_object_set_new(cache, "tiers", tiers);
    json_object_set_new(cache, "rules", rules);
    if (w->memory)
        json_array_append_new(
            tiers, json_pack("{s:s, s:I}", "medium", "MEM", "quota", (json_int_t)w->memory));
    if (w->disk)
        json_array_append_new(
            tiers, json_pack("{s:s, s:I}", "medium", "SSD", "quota", (json_int_t)w->disk));
    if (w->write_type)
        json_array_append_new(
            rules, json_pack("{s:s, s:s}", "path", "/", "writeType", w->write_type));
    if (w->disk)
        json_object_set_new(cache, "keepFree", json_integer(w->keep_free));
    return w->rules && add_rules(rules, w->rules, e) ? NULL : steal(&cache);
}

/* One store at a path of the tree. */
static json_t *requested_mount(const struct args *a, const struct conf_request *w, const char *url,
    const char *path, struct err *e)
{
    cleanup_json json_t *options = json_object(), *secrets = json_object(), *names = json_object();
    if (add_options(a, url, path, options, e) || add_secrets(a, url, path, secrets, names, e))
        return NULL;
    json_t *mount = json_pack("{s:s, s:s, s:b, s:O, s:O, s:O}", "mountPoint", url, "path", path,
        "readOnly", w->read_only, "options", options, "secrets", secrets, "secretNames", names);
    if (!mount)
        err_set(e, ERR_INVALID, "%s: URL and path must be UTF-8 text", url);
    else if (w->immutable != CONF_IMMUTABLE_UNSET)
        json_object_set_new(mount, "immutable", json_boolean(w->immutable == CONF_IMMUTABLE_TRUE));
    return mount;
}

char *conf_text(const struct args *a, const struct conf_request *w, struct err *e)
{
    cleanup_json json_t *mounts = json_array(), *cache = NULL;
    if (check_option_paths(a, e))
        return NULL;
    for (size_t i = 0; i <= a->nalso; i++) {
        json_t *mount = i == 0 ? requested_mount(a, w, w->url, "/", e)
                               : requested_mount(a, w, a->also[i - 1].key, a->also[i - 1].value, e);
        if (!mount || json_array_append_new(mounts, mount))
            return NULL;
    }
    if (!(cache = requested_cache(w, e)))
        return NULL;
    cleanup_json json_t *conf = json_pack("{s:s, s:b, s:O, s:O}", "name", w->name ? w->name : "",
        "readOnly", w->read_only, "mounts", mounts, "cache", cache);
    if (w->metadata_sync_ns)
        json_object_set_new(
            conf, "metadataSync", json_integer(MAX(w->metadata_sync_ns / INT64_C(1000000000), 1)));
    return json_text(conf);
}

/* -- targets --------------------------------------------------------------------------------- */

int url_split(const char *url, bool whole, char **root, char **path, struct err *e)
{
    *root = *path = NULL;
    if (!is_url(url))
        return err_set(e, ERR_INVALID,
            "%s is not a URL: write s3://bucket/prefix, or file:///directory for a directory of this machine",
            url);
    size_t n = strlen(url);
    const char *rest = strstr(url, "://") + 3;
    whole |= strncmp(url, "http", 4) == 0 && url[n - 1] == '/'; /* as web servers mean it */
    while (n && url + n - 1 > rest && url[n - 1] == '/')
        n--;
    cleanup_free char *clean = xstrndup(url, n);
    char *slash = strrchr(clean + (rest - url), '/');
    if (whole || !slash || !slash[1]) {
        *root = steal(&clean);
        *path = xstrdup("");
        return 0;
    }
    *path = xstrdup(slash + 1);
    bool at_root = slash == clean + (rest - url); /* "file:///x" */
    slash[at_root] = '\0';
    *root = steal(&clean);
    return 0;
}

int target_open(struct target *t, const struct args *a, const char *url, bool whole, bool read_only,
    struct err *e)
{
    *t = (struct target){0};
    cleanup_free char *root = NULL;
    if (url_split(url, whole, &root, &t->path, e))
        return -1;
    struct conf_request w = {.url = root, .read_only = read_only};
    cleanup_free char *text = conf_text(a, &w, e);
    if (!text)
        return -1;
    t->conf = conf_parse(text, strlen(text), e);
    if (!t->conf)
        return -1;
    t->store = store_new(
        &(struct store_conf){.mount = &t->conf->mounts[0], .secrets_dir = a->secrets_dir}, e);
    return t->store ? 0 : -1;
}

int target_stat(struct target *t, struct store_stat *st, struct err *e)
{
    if (*t->path)
        return store_stat_path(t->store, t->path, st, e);
    *st = (struct store_stat){.is_dir = true};
    return store_check(t->store, e);
}

void target_close(struct target *t)
{
    store_free(t->store);
    conf_free(t->conf);
    free(t->path);
    *t = (struct target){0};
}
