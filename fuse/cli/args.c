/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cli/cli.h"

#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/json/obj.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE_MAX 24

int say_failed(const struct err *e)
{
    char text[sizeof e->msg];
    memcpy(text, e->msg, sizeof text);
    log_redact_text(text);
    fprintf(stderr, "millrace: %s\n", text);
    return CLI_FAILED;
}

int say_misuse(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("millrace: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputs("\n", stderr);
    va_end(ap);
    return CLI_MISUSE;
}

static const struct opt *find_opt(const struct opt *table, size_t n, const char *flag)
{
    size_t len = strcspn(flag, "=");
    for (size_t i = 0; i < n; i++)
        if (strlen(table[i].name) == len && strncmp(table[i].name, flag, len) == 0)
            return &table[i];
    return NULL;
}

static int add_option(struct args *a, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return say_misuse("--option %s: write --option name=value", text);
    if (a->noptions == ARRAY_LEN(a->options))
        return say_misuse("--option %s: more than %zu options", text, ARRAY_LEN(a->options));
    char *copy = xstrdup(text);
    copy[equals - text] = '\0';
    a->options[a->noptions++] = (struct conf_pair){copy, copy + (equals - text) + 1};
    return -1;
}

/* Flags first, then "--", then what is positional, so that opt_parse() sees the order it knows. */
static int sort_args(
    struct args *a, const struct usage *u, const struct opt *table, size_t n, int argc, char **argv)
{
    int nflags = 1, npos = 0, rc = -1;
    char **pos = xcalloc((size_t)argc + 1, sizeof *pos);
    a->order = xcalloc((size_t)argc + 3, sizeof *a->order);
    a->order[0] = argv[0];
    bool flags = true;
    for (int i = 1; i < argc && rc < 0; i++) {
        if (flags && strcmp(argv[i], "--") == 0) {
            flags = false;
        } else if (!flags || strncmp(argv[i], "--", 2) != 0) {
            pos[npos++] = argv[i];
        } else if (u->store && strncmp(argv[i], "--option=", 9) == 0) {
            rc = add_option(a, argv[i] + 9);
        } else if (u->store && strcmp(argv[i], "--option") == 0) {
            rc = i + 1 < argc ? add_option(a, argv[++i])
                              : say_misuse("--option needs a value: --option name=value");
        } else {
            const struct opt *o = find_opt(table, n, argv[i] + 2);
            a->order[nflags++] = argv[i];
            if (o && o->type != OPT_BOOL && !strchr(argv[i], '=') && i + 1 < argc)
                a->order[nflags++] = argv[++i];
        }
    }
    char *end = (char *)"--";
    a->order[nflags] = end;
    memcpy(&a->order[nflags + 1], pos, (size_t)npos * sizeof *pos);
    a->pos = &a->order[nflags + 1];
    a->npos = npos;
    free(pos);
    return rc;
}

static int print_help(const struct usage *u, const struct opt *table, size_t n)
{
    cleanup_free char *text = opt_help(table, n, u->line, u->about);
    fputs(text, stdout);
    if (u->store) {
        cleanup_free char *options = store_help();
        fputs(
            "  --option NAME=VALUE          an option of the store; may be given more than once\n",
            stdout);
        fputs(options, stdout);
        fputs(
            "\nSecrets are never given on a command line: they come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,\n"
            "AWS_SESSION_TOKEN) or from files in --secrets-dir that are named like the options.\n",
            stdout);
    }
    return CLI_DONE;
}

int args_parse(
    struct args *a, const struct usage *u, const struct opt *table, size_t n, int argc, char **argv)
{
    bool help = false;
    struct opt all[TABLE_MAX];
    *a = (struct args){0};
    if (n)
        memcpy(all, table, n * sizeof *table);
    if (u->store)
        all[n++] = (struct opt){"secrets-dir", OPT_STRING, &a->secrets_dir, "DIR",
            "directory of files with secrets, named like options"};
    all[n++] = (struct opt){"help", OPT_BOOL, &help, NULL, "print this"};
    int rc = sort_args(a, u, all, n, argc, argv);
    if (rc >= 0)
        return rc;
    struct err e = ERR_INIT;
    int first = 0;
    int flags = (int)(a->pos - a->order);
    if (opt_parse(all, n, flags, a->order, &first, &e))
        return say_misuse("%s", e.msg);
    if (help)
        return print_help(u, all, n);
    if (a->npos < u->min_pos || a->npos > u->max_pos)
        return say_misuse("usage: %s\nmillrace: --help tells more", u->line);
    return -1;
}

void args_free(struct args *a)
{
    for (size_t i = 0; i < a->noptions; i++)
        free(a->options[i].key); /* the value is in the same string */
    free(a->order);
    *a = (struct args){0};
}

/* -- configurations -------------------------------------------------------------------------- */

bool is_url(const char *text) { return strstr(text, "://") != NULL; }

static int add_options(const struct args *a, const char *url, json_t *options, struct err *e)
{
    for (size_t i = 0; i < a->noptions; i++) {
        const struct conf_pair *o = &a->options[i];
        if (store_option_is_secret(url, o->key))
            return err_set(e, ERR_INVALID,
                "--option %s: a command line is for all to see, so secrets do not belong there; use the "
                "environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) or a file %s in --secrets-dir",
                o->key, o->key);
        json_t *value = json_string(o->value);
        if (!value || json_object_set_new(options, o->key, value))
            return err_set(
                e, ERR_INVALID, "--option %s: name and value must be UTF-8 text", o->key);
    }
    return 0;
}

/* Every file there is named like the option it gives. */
static int add_secrets(
    const struct args *a, const char *url, json_t *secrets, json_t *names, struct err *e)
{
    struct stat st;
    if (!a->secrets_dir)
        return 0;
    if (stat(a->secrets_dir, &st))
        return err_set(
            e, ERR_NOTFOUND, "--secrets-dir %s: there is no such directory", a->secrets_dir);
    if (st.st_mode & 077)
        log_warn("--secrets-dir %s is open to other users; chmod 700 it", a->secrets_dir);
    const char *name;
    for (size_t i = 0; (name = store_option_name(url, i)); i++) {
        cleanup_free char *path = path_join(a->secrets_dir, name);
        if (access(path, F_OK))
            continue;
        cleanup_free char *shown = xasprintf("directory %s:%s", a->secrets_dir, name);
        json_object_set_new(secrets, name, json_string(name));
        json_object_set_new(names, name, json_string(shown));
    }
    return 0;
}

static json_t *cache_json(const struct conf_wish *w)
{
    json_t *cache = json_object(), *tiers = json_array();
    if (w->memory)
        json_array_append_new(
            tiers, json_pack("{s:s, s:I}", "medium", "MEM", "quota", (json_int_t)w->memory));
    if (w->disk)
        json_array_append_new(
            tiers, json_pack("{s:s, s:I}", "medium", "SSD", "quota", (json_int_t)w->disk));
    json_object_set_new(cache, "tiers", tiers);
    if (w->write_type)
        json_object_set_new(cache, "writeType", json_string(w->write_type));
    if (w->profile)
        json_object_set_new(cache, "profile", json_string(w->profile));
    return cache;
}

char *conf_text(const struct args *a, const struct conf_wish *w, struct err *e)
{
    cleanup_json json_t *options = json_object(), *secrets = json_object(), *names = json_object();
    if (add_options(a, w->url, options, e) || add_secrets(a, w->url, secrets, names, e))
        return NULL;
    cleanup_json json_t *conf = json_pack("{s:s, s:b, s:[{s:s, s:s, s:b, s:O, s:O, s:O}], s:o}",
        "name", w->name ? w->name : "", "readOnly", w->read_only, "mounts", "mountPoint", w->url,
        "path", "/", "readOnly", w->read_only, "options", options, "secrets", secrets,
        "secretNames", names, "cache", cache_json(w));
    if (!conf) {
        err_set(e, ERR_INVALID, "%s: the URL must be UTF-8 text", w->url);
        return NULL;
    }
    if (w->metadata_sync_ns)
        json_object_set_new(
            conf, "metadataSync", json_integer(MAX(w->metadata_sync_ns / INT64_C(1000000000), 1)));
    return json_text(conf);
}

/* -- targets --------------------------------------------------------------------------------- */

/* "s3://bucket/a/b/" → "s3://bucket/a" and "b"; "s3://bucket" and "file:///" have no last
 * component. */
static void split_url(const char *url, bool whole, char **root, char **path)
{
    size_t n = strlen(url);
    const char *rest = strstr(url, "://") + 3;
    while (n && url + n - 1 > rest && url[n - 1] == '/')
        n--;
    cleanup_free char *clean = xstrndup(url, n);
    char *slash = strrchr(clean + (rest - url), '/');
    if (whole || !slash || !slash[1]) {
        *root = steal(&clean);
        *path = xstrdup("");
        return;
    }
    *path = xstrdup(slash + 1);
    bool at_root = slash == clean + (rest - url); /* "file:///x" */
    slash[at_root] = '\0';
    *root = steal(&clean);
}

int target_open(struct target *t, const struct args *a, const char *url, bool whole, bool read_only,
    struct err *e)
{
    *t = (struct target){0};
    cleanup_free char *root = NULL;
    split_url(url, whole, &root, &t->path);
    struct conf_wish w = {.url = root, .read_only = read_only};
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

void target_close(struct target *t)
{
    store_free(t->store);
    conf_free(t->conf);
    free(t->path);
    *t = (struct target){0};
}
