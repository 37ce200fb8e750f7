/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a mount: checked against the table of its kind of store, and looked up in Secrets,
 * options and environment. */
#include "fuse/store/impl.h"

#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define CA_BUNDLE_MAX (1u << 20) /* bytes of a ConfigMap */
#define ORIGIN_MAX    400
#define OPTIONS_MAX   800 /* bytes of the names of all options */

static int err_unknown_option(const struct store_params *p, const char *key, struct err *e)
{
    cleanup_buf struct buf known = BUF_INIT(OPTIONS_MAX);
    for (const struct store_option *o = p->kind->options; o->name; o++)
        buf_addf(&known, "%s%s", o == p->kind->options ? "" : ", ", o->name);
    return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
        ": unknown option '%s'; %s%s", key, known.len ? "the options are " : "it takes no options",
        buf_str(&known));
}

/* What to write instead of that value; NULL: it is of the option's kind. */
static const char *mend_value(const struct store_option *o, const char *value)
{
    switch (o->kind) {
    case STORE_OPTION_STRING:
    case STORE_OPTION_SECRET:
        return NULL;
    case STORE_OPTION_CERTS:
        return strstr(value, "-----BEGIN CERTIFICATE-----")
            ? NULL
            : "it takes the text of a PEM file, -----BEGIN CERTIFICATE----- and so on";
    case STORE_OPTION_BOOL:
        return strcmp(value, "true") == 0 || strcmp(value, "false") == 0
            ? NULL
            : "write \"true\" or \"false\"";
    case STORE_OPTION_URL:
        return (strncmp(value, "http://", 7) == 0 && value[7])
                || (strncmp(value, "https://", 8) == 0 && value[8])
            ? NULL
            : "write a URL, for example https://s3.example.com:9000";
    }
    return NULL;
}

static int check_value(const struct store_params *p, const struct store_option *o,
    const char *value, const char *shown, struct err *e)
{
    if (o->kind != STORE_OPTION_CERTS && text_has_unseen(value, strlen(value)))
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": option %s holds an invisible character, or a blank that is none (zero-width, no-break), as text from web pages and chats does: type it anew",
            o->name);
    const char *mend = mend_value(o, value);
    if (!mend)
        return 0;
    if (o->kind == STORE_OPTION_CERTS)
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": option %s has no certificate in it; %s", o->name, mend);
    return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url, ": option %s is %s; %s",
        o->name, shown, mend);
}

static int check_pairs(
    const struct store_params *p, const struct conf_pair *pairs, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        const struct store_option *o = store_option_find(p->kind->options, pairs[i].key);
        if (!o)
            return err_unknown_option(p, pairs[i].key, e);
        cleanup_free char *shown = xasprintf("'%s'", pairs[i].value);
        if (check_value(p, o, pairs[i].value, shown, e))
            return -1;
    }
    return 0;
}

/* Is one option there twice, by its names or in options and secrets? Which counts would be a guess.
 */
static int option_given_once(
    const struct store_params *p, const struct store_option *o, struct err *e)
{
    const struct conf_mount *m = p->mount;
    const char *said[2] = {NULL, NULL};
    size_t n = 0;
    for (size_t i = 0; i < m->noptions && n < 2; i++)
        if (store_option_find(p->kind->options, m->options[i].key) == o)
            said[n++] = m->options[i].key;
    bool plain = n == 2;
    for (size_t i = 0; i < m->nsecrets && n < 2; i++)
        if (store_option_find(p->kind->options, m->secrets[i].key) == o)
            said[n++] = m->secrets[i].key;
    if (n < 2)
        return 0;
    return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
        ": option %s is given twice, %s%s and %s%s: keep one of them", o->name,
        plain || !m->noptions || !option_pair(m->options, m->noptions, o) ? "as "
                                                                          : "in options as ",
        said[0], plain ? "as " : "from a Secret as ", said[1]);
}

int option_check_all(const struct store_params *p, struct err *e)
{
    const struct conf_mount *m = p->mount;
    if (check_pairs(p, m->options, m->noptions, e)
        || check_pairs(p, m->default_options, m->ndefault_options, e))
        return -1;
    for (size_t i = 0; i < m->nsecrets; i++)
        if (!store_option_find(p->kind->options, m->secrets[i].key))
            return err_unknown_option(p, m->secrets[i].key, e);
    for (const struct store_option *o = p->kind->options; o->name; o++)
        if (option_given_once(p, o, e))
            return -1;
    return 0;
}

static char *read_single(const struct store_params *p, const struct store_option *o,
    const struct conf_pair *secret, struct err *e)
{
    const struct conf_pair *name = option_pair(p->mount->secret_names, p->mount->nsecret_names, o);
    return option_read_file(
        p, o, secret->value, OPTION_SECRET_MAX, "Secret", name ? name->value : secret->value, e);
}

static char *from_environment(const struct store_option *o)
{
    for (size_t i = 0; i < ARRAY_LEN(o->env) && o->env[i]; i++) {
        const char *value = getenv(o->env[i]);
        if (value && *value)
            return xstrdup(value);
    }
    return NULL;
}

/* Messages of servers that cannot be reached name hosts, paths and users that options gave. */
static void redact_value(const char *value)
{
    cleanup_free char *host = xstrdup(value); /* as it is in URLs */
    for (char *c = host; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    log_redact(value);
    log_redact(host);
}

/* From the first source that has it. hidden: a Secret has. */
static int find_value(const struct store_params *p, const struct store_option *o, char **out,
    bool *hidden, struct err *e)
{
    const struct conf_mount *m = p->mount;
    const struct conf_pair *secret = option_pair(m->secrets, m->nsecrets, o);
    const struct conf_pair *plain = option_pair(m->options, m->noptions, o);
    const struct conf_pair *usual = option_pair(m->default_options, m->ndefault_options, o);
    *hidden = secret != NULL;
    if (secret)
        return (*out = read_single(p, o, secret, e)) ? 0 : -1;
    if (plain) {
        *out = xstrdup(plain->value);
        return 0;
    }
    if (m->secret_dir && option_from_whole(p, o, out, e))
        return -1;
    *hidden = *out != NULL;
    if (!*out && m->ca_bundle && o->kind == STORE_OPTION_CERTS)
        return (*out = option_read_file(
                    p, o, m->ca_bundle, CA_BUNDLE_MAX, "ConfigMap", m->ca_bundle_name, e))
            ? 0
            : -1;
    if (!*out && usual)
        *out = xstrdup(usual->value);
    if (!*out && !p->secrets_dir)
        *out = from_environment(o);
    return 0;
}

char *option_shown(const struct store_params *p, const char *name, const char *value)
{
    const struct conf_mount *m = p->mount;
    const struct store_option *o = store_option_find(p->kind->options, name);
    const struct conf_pair *key = option_pair(m->secret_names, m->nsecret_names, o);
    if (option_pair(m->secrets, m->nsecrets, o)) {
        int len = key ? (int)strcspn(key->value, ":") : 0;
        return key && key->value[len]
            ? xasprintf("what key %s of Secret %.*s says", key->value + len + 1, len, key->value)
            : xstrdup("what a Secret says");
    }
    if (m->secret_dir && !option_pair(m->options, m->noptions, o)) {
        const struct conf_pair *usual = option_pair(m->default_options, m->ndefault_options, o);
        if (!usual || strcmp(usual->value, value) != 0)
            return m->secret_dir_name ? xasprintf("what Secret %s says", m->secret_dir_name)
                                      : xstrdup("what a Secret says");
    }
    return o->kind == STORE_OPTION_SECRET ? xstrdup("not shown") : xasprintf("'%s'", value);
}

int option_err(const struct store_params *p, const char *name, const char *value, const char *mend,
    struct err *e)
{
    cleanup_free char *shown = option_shown(p, name, value);
    return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url, ": option %s is %s; %s",
        name, shown, mend);
}

int option_get(const struct store_params *p, const char *name, char **out, struct err *e)
{
    *out = NULL;
    const struct store_option *o = store_option_find(p->kind->options, name);
    bool hidden;
    if (find_value(p, o, out, &hidden, e))
        return -1;
    if (*out && o->kind == STORE_OPTION_SECRET && !o->file)
        log_redact(*out);
    if (*out && o->kind == STORE_OPTION_STRING && hidden)
        redact_value(*out);
    if (!*out || !mend_value(o, *out))
        return 0;
    cleanup_free char *value = steal(out), *shown = option_shown(p, name, value);
    return check_value(p, o, value, shown, e);
}

int option_is_true(const struct store_params *p, const char *name, bool *out, struct err *e)
{
    cleanup_free char *value = NULL;
    if (option_get(p, name, &value, e))
        return -1;
    *out = value && strcmp(value, "true") == 0;
    return 0;
}

const char *option_env(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

int option_no_secret(
    const struct store_params *p, const char *name, const char *what, struct err *e)
{
    const struct conf_mount *m = p->mount;
    const struct store_option *o = store_option_find(p->kind->options, name);
    cleanup_free char *value = NULL;
    if (!m->nendpoints)
        return 0;
    bool said = option_pair(m->secrets, m->nsecrets, o) != NULL;
    if (!said && !option_pair(m->options, m->noptions, o) && m->secret_dir) {
        if (option_from_whole(p, o, &value, e))
            return -1;
        said = value != NULL;
    }
    return said
        ? store_err(e, ERR_DENIED, 0, REASON_INVALID_OPTION, p->url,
            ": a Secret says option %s, but this cluster allows only some %s: write it in the mount's options (value limits.endpoints)",
            name, what)
        : 0;
}

char *option_origin(const struct store_params *p, const char *const *names)
{
    cleanup_buf struct buf keys = BUF_INIT(ORIGIN_MAX), plain = BUF_INIT(ORIGIN_MAX),
                           env = BUF_INIT(ORIGIN_MAX);
    const char *secret = NULL, *whole = NULL;
    int secret_len = 0;
    for (; *names; names++) {
        const struct store_option *o = store_option_find(p->kind->options, *names);
        const struct conf_pair *s = option_pair(p->mount->secret_names, p->mount->nsecret_names, o);
        if (s) {
            secret = s->value;
            secret_len = (int)strcspn(s->value, ":");
            const char *key = s->value + secret_len;
            buf_addf(&keys, "%s%s", keys.len ? ", " : "", *key ? key + 1 : "?");
        } else if (option_pair(p->mount->options, p->mount->noptions, o)) {
            buf_addf(&plain, "%s%s", plain.len ? ", " : "", o->name);
        } else if (p->mount->secret_dir) {
            whole = p->mount->secret_dir_name;
        } else if (o->env[0] && getenv(o->env[0])) {
            buf_addf(&env, "%s%s", env.len ? ", " : "", o->env[0]);
        }
    }
    if (secret)
        return xasprintf("Secret %.*s (keys %s)", secret_len, secret, buf_str(&keys));
    if (whole)
        return xasprintf("Secret %s", whole);
    if (plain.len)
        return xasprintf("the options %s", buf_str(&plain));
    if (p->secrets_dir)
        return xstrdup("the mount's encryptOptions");
    return env.len ? xasprintf("the environment (%s)", buf_str(&env)) : xstrdup("the environment");
}

struct http *option_http(const struct store_params *p, bool *insecure, struct err *e)
{
    cleanup_free char *verify = NULL, *ca = NULL;
    if (option_get(p, "tls-verify", &verify, e) || option_get(p, "ca-cert", &ca, e))
        return NULL;
    const char *cluster = getenv(ENV_CA_BUNDLE); /* what this mount names is trusted instead */
    const struct http_conf conf = {
        .ca_pem = ca              ? ca
            : cluster && *cluster ? cluster
                                  : NULL,
        .insecure = verify && strcmp(verify, "false") == 0,
        .no_metadata = true,
        .connect_ns = MIN(p->deadline_ns, 5 * NS_PER_S),
        .max_idle = p->max_connections,
        .user_agent = "millrace/" MILLRACE_VERSION,
    };
    if (insecure)
        *insecure = conf.insecure;
    return http_new(&conf, e);
}
