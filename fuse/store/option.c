/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a mount: checked against the table of its kind of store, and looked up in Secrets,
 * options and environment. */
#include "fuse/store/impl.h"

#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

#define SECRET_MAX (64u << 10) /* bytes of one secret file */
#define ORIGIN_MAX 400

static bool same_name(const struct store_option *o, const char *key)
{
    if (strcmp(o->name, key) == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(o->aliases) && o->aliases[i]; i++)
        if (strcmp(o->aliases[i], key) == 0)
            return true;
    return false;
}

const struct store_option *store_option_find(const struct store_option *table, const char *key)
{
    for (const struct store_option *o = table; o->name; o++)
        if (same_name(o, key))
            return o;
    return NULL;
}

static int err_unknown_option(const struct store_params *p, const char *key, struct err *e)
{
    cleanup_buf struct buf known = BUF_INIT(ORIGIN_MAX);
    for (const struct store_option *o = p->options; o->name; o++)
        buf_addf(&known, "%s%s", o == p->options ? "" : ", ", o->name);
    return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
        ": unknown option '%s'; %s%s", key, known.len ? "the options are " : "it takes no options",
        buf_str(&known));
}

static int check_value(
    const struct store_params *p, const struct store_option *o, const char *value, struct err *e)
{
    switch (o->kind) {
    case STORE_OPTION_STRING:
    case STORE_OPTION_SECRET:
        return 0;
    case STORE_OPTION_BOOL:
        if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
            return 0;
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": option %s is '%s'; write \"true\" or \"false\"", o->name, value);
    case STORE_OPTION_URL:
        if ((strncmp(value, "http://", 7) == 0 && value[7])
            || (strncmp(value, "https://", 8) == 0 && value[8]))
            return 0;
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": option %s is '%s'; write a URL, for example https://s3.example.com:9000", o->name,
            value);
    }
    return 0;
}

int option_check_all(const struct store_params *p, struct err *e)
{
    const struct conf_mount *m = p->mount;
    for (size_t i = 0; i < m->noptions; i++) {
        const struct store_option *o = store_option_find(p->options, m->options[i].key);
        if (!o)
            return err_unknown_option(p, m->options[i].key, e);
        if (check_value(p, o, m->options[i].value, e))
            return -1;
    }
    for (size_t i = 0; i < m->nsecrets; i++)
        if (!store_option_find(p->options, m->secrets[i].key))
            return err_unknown_option(p, m->secrets[i].key, e);
    return 0;
}

static const struct conf_pair *find_pair(
    const struct conf_pair *pairs, size_t n, const struct store_option *o)
{
    for (size_t i = 0; i < n; i++)
        if (same_name(o, pairs[i].key))
            return &pairs[i];
    return NULL;
}

static int read_secret(const struct store_params *p, const struct store_option *o,
    const struct conf_pair *secret, char **out, struct err *e)
{
    if (!p->secrets_dir)
        return store_err(e, ERR_INVALID, 0, REASON_SECRET_MISSING, p->url,
            ": option %s comes from a secret, but no directory of "
            "secrets was given (--secrets-dir)",
            o->name);
    cleanup_free char *path = path_join(p->secrets_dir, secret->value);
    struct err inner = ERR_INIT;
    char *text = file_read(path, SECRET_MAX, NULL, &inner);
    const struct conf_pair *name = find_pair(p->mount->secret_names, p->mount->nsecret_names, o);
    const char *full = name ? name->value : secret->value;
    int secret_len = (int)strcspn(full, ":");
    const char *key = full[secret_len] ? full + secret_len + 1 : "";
    if (!text && inner.cls == ERR_NOTFOUND)
        return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, p->url,
            ": option %s comes from key '%s' of Secret %.*s, which is not there: create the Secret with that key",
            o->name, key, secret_len, full);
    if (!text)
        return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, p->url,
            ": option %s, from key '%s' of Secret %.*s: %s", o->name, key, secret_len, full,
            inner.msg);
    size_t n = strlen(text);
    while (n && strchr("\r\n", text[n - 1])) /* `echo key | base64` leaves one */
        text[--n] = '\0';
    if (!*text) {
        free(text);
        return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, p->url,
            ": key '%s' of Secret %.*s is empty", key, secret_len, full);
    }
    *out = text;
    return 0;
}

int option_get(const struct store_params *p, const char *name, char **out, struct err *e)
{
    *out = NULL;
    const struct store_option *o = store_option_find(p->options, name);
    const struct conf_pair *secret = find_pair(p->mount->secrets, p->mount->nsecrets, o);
    const struct conf_pair *plain = find_pair(p->mount->options, p->mount->noptions, o);
    if (secret) {
        if (read_secret(p, o, secret, out, e))
            return -1;
    } else if (plain) {
        *out = xstrdup(plain->value);
    } else if (!p->secrets_dir) {
        for (size_t i = 0; i < ARRAY_LEN(o->env) && o->env[i] && !*out; i++) {
            const char *value = getenv(o->env[i]);
            *out = value && *value ? xstrdup(value) : NULL;
        }
    }
    if (*out && o->kind == STORE_OPTION_SECRET)
        log_redact(*out);
    if (*out && check_value(p, o, *out, e)) {
        free(*out);
        *out = NULL;
        return -1;
    }
    return 0;
}

char *option_origin(const struct store_params *p, const char *const *names)
{
    cleanup_buf struct buf keys = BUF_INIT(ORIGIN_MAX), plain = BUF_INIT(ORIGIN_MAX),
                           env = BUF_INIT(ORIGIN_MAX);
    const char *secret = NULL;
    int secret_len = 0;
    for (; *names; names++) {
        const struct store_option *o = store_option_find(p->options, *names);
        const struct conf_pair *s = find_pair(p->mount->secret_names, p->mount->nsecret_names, o);
        if (s) {
            secret = s->value;
            secret_len = (int)strcspn(s->value, ":");
            const char *key = s->value + secret_len;
            buf_addf(&keys, "%s%s", keys.len ? ", " : "", *key ? key + 1 : "?");
        } else if (find_pair(p->mount->options, p->mount->noptions, o)) {
            buf_addf(&plain, "%s%s", plain.len ? ", " : "", o->name);
        } else if (o->env[0]) {
            buf_addf(&env, "%s%s", env.len ? ", " : "", o->env[0]);
        }
    }
    if (secret)
        return xasprintf("Secret %.*s (keys %s)", secret_len, secret, buf_str(&keys));
    if (plain.len)
        return xasprintf("the options %s", buf_str(&plain));
    return p->secrets_dir ? xstrdup("the mount's encryptOptions")
                          : xasprintf("the environment (%s)", buf_str(&env));
}
