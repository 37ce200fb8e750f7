/* SPDX-License-Identifier: Apache-2.0 */
/* Where the value of an option may stand: in a list of a mount's configuration, in a file. */
#include "fuse/store/impl.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"

#include <stdlib.h>
#include <string.h>

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

const struct conf_pair *option_pair(
    const struct conf_pair *pairs, size_t n, const struct store_option *o)
{
    for (size_t i = 0; i < n; i++)
        if (same_name(o, pairs[i].key))
            return &pairs[i];
    return NULL;
}

bool option_is_explicit(const struct store_params *p, const struct store_option *o)
{
    return option_pair(p->mount->secrets, p->mount->nsecrets, o)
        || option_pair(p->mount->options, p->mount->noptions, o);
}

/* One line, or those of an option that has several. What an editor or a shell of Windows adds (a
 * byte-order mark, two bytes for each letter) is invisible, and a line end inside would end a
 * header. */
static bool is_plain_text(const struct store_option *o, const char *text, size_t n)
{
    bool lines = o->lines || o->kind == STORE_OPTION_CERTS;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool space = c == '\n' || c == '\r' || c == '\t';
        if ((c < 0x20 && !(space && lines)) || c == 0x7f)
            return false;
    }
    return o->kind == STORE_OPTION_CERTS || !text_has_unseen(text, n);
}

char *option_read_file(const struct store_params *p, const struct store_option *o, const char *file,
    size_t max, const char *what, const char *name, struct err *e)
{
    enum reason reason = strcmp(what, "Secret") == 0 ? REASON_SECRET_MISSING
                                                     : REASON_CONFIG_MAP_MISSING;
    if (!p->secrets_dir) {
        store_err(e, ERR_INVALID, 0, reason, p->url,
            ": option %s comes from a %s, but no directory of them was given (--secrets-dir)",
            o->name, what);
        return NULL;
    }
    cleanup_free char *path = path_join(p->secrets_dir, file);
    struct err inner = ERR_INIT;
    size_t n = 0;
    cleanup_free char *text = file_read(path, max, &n, &inner);
    int len = (int)strcspn(name, ":");
    const char *key = name[len] ? name + len + 1 : "";
    if (!text && inner.cls == ERR_NOTFOUND) {
        store_err(e, ERR_DENIED, 0, reason, p->url,
            ": option %s comes from key '%s' of %s %.*s, which is not there: create the %s with that key",
            o->name, key, what, len, name, what);
        return NULL;
    }
    if (!text) {
        store_err(e, ERR_DENIED, 0, reason, p->url, ": option %s, from key '%s' of %s %.*s: %s",
            o->name, key, what, len, name, inner.msg);
        return NULL;
    }
    if (n && o->file)
        return steal(&path);
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r')) /* `echo key | base64` leaves one */
        text[--n] = '\0';
    if (n && is_plain_text(o, text, n))
        return steal(&text);
    if (n)
        store_err(e, ERR_DENIED, 0, REASON_INVALID_OPTION, p->url,
            ": key '%s' of %s %.*s is not one line of plain text (a line end or a tab in it, a byte-order mark or another invisible character, or UTF-16?): write the value of option %s again",
            key, what, len, name, o->name);
    else
        store_err(e, ERR_DENIED, 0, reason, p->url, ": key '%s' of %s %.*s is empty", key, what,
            len, name);
    return NULL;
}
