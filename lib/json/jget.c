/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/jget.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Takes the next step of a path off *path: a key (copied into key) or an index. Returns 'k', 'i', 0
 * at the end, '!' if malformed. */
static char next_step(const char **path, char *key, size_t cap, size_t *index)
{
    const char *p = *path;
    if (*p == '.')
        p++;
    if (!*p)
        return 0;
    if (*p == '[') {
        char *end;
        *index = strtoul(p + 1, &end, 10);
        if (end == p + 1 || *end != ']')
            return '!';
        *path = end + 1;
        return 'i';
    }
    bool quoted = *p == '"';
    if (quoted)
        p++;
    size_t len = quoted ? strcspn(p, "\"") : strcspn(p, ".[");
    if (len >= cap || (quoted && p[len] != '"'))
        return '!';
    memcpy(key, p, len);
    key[len] = '\0';
    *path = p + len + (quoted ? 1 : 0);
    return 'k';
}

const json_t *jget(const json_t *j, const char *path)
{
    char key[320];
    size_t index = 0;
    while (j) {
        switch (next_step(&path, key, sizeof key, &index)) {
        case 0:
            return json_is_null(j) ? NULL : j;
        case 'k':
            j = json_object_get(j, key);
            break;
        case 'i':
            j = json_array_get(j, index);
            break;
        default:
            abort(); /* the path is a literal of ours */
        }
    }
    return NULL;
}

const char *jget_str(const json_t *j, const char *path, const char *dflt)
{
    const json_t *v = jget(j, path);
    return json_is_string(v) ? json_string_value(v) : dflt;
}

int64_t jget_int(const json_t *j, const char *path, int64_t dflt)
{
    const json_t *v = jget(j, path);
    return json_is_integer(v) ? json_integer_value(v) : dflt;
}

bool jget_bool(const json_t *j, const char *path, bool dflt)
{
    const json_t *v = jget(j, path);
    return json_is_boolean(v) ? json_is_true(v) : dflt;
}

const json_t *jget_arr(const json_t *j, const char *path)
{
    const json_t *v = jget(j, path);
    return json_is_array(v) ? v : NULL;
}

const json_t *jget_obj(const json_t *j, const char *path)
{
    const json_t *v = jget(j, path);
    return json_is_object(v) ? v : NULL;
}

size_t jget_len(const json_t *j, const char *path) { return json_array_size(jget_arr(j, path)); }

int jget_str_req(const json_t *j, const char *path, const char **out, struct err *e)
{
    const json_t *v = jget(j, path);
    if (!v)
        return err_set(e, ERR_INVALID, "%s is missing", path);
    if (!json_is_string(v) || !*json_string_value(v))
        return err_set(e, ERR_INVALID, "%s must be a non-empty string", path);
    *out = json_string_value(v);
    return 0;
}

int jget_int_req(
    const json_t *j, const char *path, int64_t min, int64_t max, int64_t *out, struct err *e)
{
    const json_t *v = jget(j, path);
    if (!v)
        return err_set(e, ERR_INVALID, "%s is missing", path);
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
        return err_set(e, ERR_INVALID, "%s must be a whole number from %" PRId64 " to %" PRId64,
            path, min, max);
    *out = json_integer_value(v);
    return 0;
}
