/* SPDX-License-Identifier: Apache-2.0 */
/* Options from a Secret that a mount names as a whole: its keys as people and other systems spell
 * them, and what to tell where none of them fits. */
#include "fuse/store/impl.h"

#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#define KEYS_TOLD 10  /* of a Secret, in messages */
#define KEYS_ROOM 200 /* bytes of their names */

static bool has_key(const struct store_params *p, const char *key)
{
    if (!key)
        return false;
    cleanup_free char *dir = path_join(p->secrets_dir, p->mount->secret_dir);
    cleanup_free char *path = path_join(dir, key);
    return access(path, F_OK) == 0;
}

/* That spelling of the option is there and may count. */
static bool is_spelled(const struct store_params *p, const struct store_option *o, size_t spelling)
{
    return o->secret_keys[spelling] && has_key(p, o->secret_keys[spelling]);
}

/* Both halves of a pair are there in that spelling; wanted: but for those that are given otherwise.
 */
static bool has_pair(const struct store_params *p, size_t spelling, bool wanted)
{
    if (p->kind->spellings[spelling].together)
        wanted = false;
    for (const struct store_option *o = p->kind->options; o->name; o++)
        if (o->paired && !(wanted && option_is_explicit(p, o)) && !is_spelled(p, o, spelling))
            return false;
    return true;
}

/* The first spelling that has what is wanted; nspellings: none has. */
static size_t choose_spelling(const struct store_params *p)
{
    size_t i = 0;
    while (i < p->kind->nspellings && !has_pair(p, i, true))
        i++;
    return i;
}

/* The key of this half where no spelling has both: the only one there is; NULL: none or several. n:
 * how many. */
static const char *only_key(const struct store_params *p, const struct store_option *o, size_t *n)
{
    const char *found = NULL;
    *n = 0;
    for (size_t i = 0; i < p->kind->nspellings; i++) {
        if (p->kind->spellings[i].together || !is_spelled(p, o, i))
            continue;
        ++*n;
        found = o->secret_keys[i];
    }
    return *n == 1 ? found : NULL;
}

/* -- what is in it --------------------------------------------------------------------------- */

static bool is_known_key(const struct store_params *p, const char *key)
{
    if (store_option_find(p->kind->options, key))
        return true;
    for (const struct store_option *o = p->kind->options; o->name; o++) {
        for (size_t i = 0; i < ARRAY_LEN(o->env) && o->env[i]; i++)
            if (strcmp(o->env[i], key) == 0)
                return true;
        for (size_t i = 0; o->secret_keys && i < p->kind->nspellings; i++)
            if (o->secret_keys[i] && strcmp(o->secret_keys[i], key) == 0)
                return true;
    }
    return false;
}

/* "foo, bar" of the keys that are there; strange: only of those that mean nothing to us. */
static void list_keys(const struct store_params *p, bool strange, struct buf *out)
{
    cleanup_free char *path = path_join(p->secrets_dir, p->mount->secret_dir);
    DIR *dir = opendir(path);
    size_t n = 0;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        /* "..data" and the like are kubelet's; no key begins with two dots */
        if (strcmp(d->d_name, ".") == 0 || strncmp(d->d_name, "..", 2) == 0
            || (strange && is_known_key(p, d->d_name)))
            continue;
        if (++n <= KEYS_TOLD)
            buf_addf(out, "%s%s", n > 1 ? ", " : "", d->d_name);
    }
    if (n > KEYS_TOLD)
        buf_addf(out, " and %zu more", n - KEYS_TOLD);
    if (dir)
        closedir(dir);
}

void option_log_strange_keys(const struct store_params *p)
{
    if (!p->mount->secret_dir || !p->secrets_dir)
        return;
    cleanup_buf struct buf keys = BUF_INIT(KEYS_ROOM);
    list_keys(p, true, &keys);
    if (keys.len)
        log_debug("%s: of Secret %s, these keys mean nothing here: %s", p->url,
            p->mount->secret_dir_name, buf_str(&keys));
}

/* -- refusals -------------------------------------------------------------------------------- */

/* "access-key-id and secret-access-key, or AWS_ACCESS_KEY_ID and …" */
static void add_spellings(const struct store_params *p, struct buf *out)
{
    if (!p->kind->nspellings && p->kind->secret_help)
        buf_adds(out, p->kind->secret_help);
    for (size_t i = 0; i < MIN(p->kind->nspellings, (size_t)2); i++) {
        const char *between = i ? ", or " : "";
        for (const struct store_option *o = p->kind->options; o->name; o++)
            if (o->paired) {
                buf_addf(out, "%s%s", between, o->secret_keys[i]);
                between = " and ";
            }
    }
}

static int err_empty(const struct store_params *p, struct err *e)
{
    cleanup_buf struct buf names = BUF_INIT(KEYS_ROOM);
    add_spellings(p, &names);
    return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, p->url,
        ": Secret %s is not there or has no keys: create it with the keys %s; or leave secretRef out for what everybody may read",
        p->mount->secret_dir_name, buf_str(&names));
}

int option_require_whole(const struct store_params *p, struct err *e)
{
    cleanup_buf struct buf keys = BUF_INIT(KEYS_ROOM);
    if (!p->mount->secret_dir || !p->secrets_dir)
        return 0;
    list_keys(p, false, &keys);
    return keys.len ? 0 : err_empty(p, e);
}

int option_fail_strange(const struct store_params *p, struct err *e)
{
    cleanup_buf struct buf keys = BUF_INIT(KEYS_ROOM), names = BUF_INIT(KEYS_ROOM);
    list_keys(p, false, &keys);
    add_spellings(p, &names);
    return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, p->url,
        ": Secret %s has keys %s, and no credentials that are known here: name them %s",
        p->mount->secret_dir_name, buf_str(&keys), buf_str(&names));
}

/* found: how many keys may be this half. */
static int err_no_such_key(
    const struct store_params *p, const struct store_option *o, size_t found, struct err *e)
{
    cleanup_buf struct buf keys = BUF_INIT(KEYS_ROOM), names = BUF_INIT(KEYS_ROOM);
    const char *secret = p->mount->secret_dir_name;
    list_keys(p, false, &keys);
    add_spellings(p, &names);
    if (!keys.len)
        return err_empty(p, e);
    return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, p->url,
        ": Secret %s has keys %s; %s the %s: name them %s", secret, buf_str(&keys),
        found ? "it is not clear which of them is" : "none of them is", o->help, buf_str(&names));
}

/* One key may not be this half in the chosen spelling and the other half in another complete one.
 */
static bool is_clear(const struct store_params *p, const struct store_option *o, size_t chosen)
{
    for (size_t i = 0; i < p->kind->nspellings; i++)
        for (const struct store_option *other = p->kind->options; other->name; other++)
            if (other != o && other->paired && i != chosen && other->secret_keys[i]
                && strcmp(other->secret_keys[i], o->secret_keys[chosen]) == 0
                && has_pair(p, i, false))
                return false;
    return true;
}

/* -- values ---------------------------------------------------------------------------------- */

static int read_key(const struct store_params *p, const struct store_option *o, const char *key,
    char **out, struct err *e)
{
    cleanup_free char *file = path_join(p->mount->secret_dir, key);
    cleanup_free char *name = xasprintf("%s:%s", p->mount->secret_dir_name, key);
    *out = option_read_file(p, o, file, OPTION_SECRET_MAX, "Secret", name, e);
    return *out ? 0 : -1;
}

static int half_of_pair(
    const struct store_params *p, const struct store_option *o, char **out, struct err *e)
{
    size_t chosen = choose_spelling(p), found = 2;
    const char *key = NULL;
    if (chosen == p->kind->nspellings)
        key = only_key(p, o, &found);
    else if (is_clear(p, o, chosen))
        key = o->secret_keys[chosen];
    return key ? read_key(p, o, key, out, e) : err_no_such_key(p, o, found, e);
}

/* What goes with a pair and may be absent: in the pair's spelling, or in any where the Secret has
 * no other pair that it may belong to. */
static int beside_pair(
    const struct store_params *p, const struct store_option *o, char **out, struct err *e)
{
    bool explicit = true;
    for (const struct store_option *other = p->kind->options; other->name; other++)
        explicit &= !other->paired || option_is_explicit(p, other);
    size_t n = p->kind->nspellings, chosen = explicit ? n : choose_spelling(p), other = n;
    if (chosen < n && is_spelled(p, o, chosen))
        return read_key(p, o, o->secret_keys[chosen], out, e);
    for (size_t i = n; i-- > 0;) {
        if (i != chosen && has_pair(p, i, false))
            return 0;
        other = is_spelled(p, o, i) ? i : other;
    }
    return other < n ? read_key(p, o, o->secret_keys[other], out, e) : 0;
}

int option_from_whole(
    const struct store_params *p, const struct store_option *o, char **out, struct err *e)
{
    *out = NULL;
    if (!p->secrets_dir)
        return store_err(e, ERR_INVALID, 0, REASON_SECRET_MISSING, p->url,
            ": options come from Secret %s, but no directory of secrets was given (--secrets-dir)",
            p->mount->secret_dir_name);
    if (o->secret_keys)
        return o->paired ? half_of_pair(p, o, out, e) : beside_pair(p, o, out, e);
    const char *keys[1 + ARRAY_LEN(o->env) + ARRAY_LEN(o->aliases)] = {o->name};
    memcpy(keys + 1, o->env, sizeof o->env);
    memcpy(keys + 1 + ARRAY_LEN(o->env), o->aliases, sizeof o->aliases);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (has_key(p, keys[i]))
            return read_key(p, o, keys[i], out, e);
    return 0;
}
