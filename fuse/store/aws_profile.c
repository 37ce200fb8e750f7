/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/aws_profile.h"

#include "lib/base/mem.h"

#include <string.h>

struct span {
    const char *at;
    size_t len;
};

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static struct span trim(struct span s)
{
    while (s.len && is_blank(s.at[0])) {
        s.at++;
        s.len--;
    }
    while (s.len && is_blank(s.at[s.len - 1]))
        s.len--;
    return s;
}

static bool is_span(struct span s, const char *word)
{
    return s.len == strlen(word) && memcmp(s.at, word, s.len) == 0;
}

static bool file_line(struct span *rest, struct span *line)
{
    if (!rest->len)
        return false;
    const char *end = memchr(rest->at, '\n', rest->len);
    line->at = rest->at;
    line->len = end ? (size_t)(end - rest->at) : rest->len;
    size_t used = line->len + (end != NULL);
    rest->at += used;
    rest->len -= used;
    return true;
}

/* What stands in "[…]"; false: the line opens no section. */
static bool section_name(struct span line, struct span *name)
{
    if (!line.len || line.at[0] != '[')
        return false;
    const char *end = memchr(line.at, ']', line.len);
    *name = trim((struct span){line.at + 1, end ? (size_t)(end - line.at) - 1 : 0});
    return true;
}

static bool names_profile(const struct aws_file *f, struct span name, const char *profile)
{
    static const char prefix[] = "profile";
    size_t n = sizeof prefix - 1;
    if (!f->config)
        return is_span(name, profile);
    if (name.len > n && memcmp(name.at, prefix, n) == 0 && is_blank(name.at[n]))
        return is_span(trim((struct span){name.at + n, name.len - n}), profile);
    return is_span(name, "default") && strcmp(profile, "default") == 0;
}

/* A comment may follow a value after a blank. */
static struct span without_comment(struct span value)
{
    for (size_t i = 1; i < value.len; i++)
        if ((value.at[i] == '#' || value.at[i] == ';') && is_blank(value.at[i - 1]))
            value.len = i;
    return trim(value);
}

static bool setting(struct span line, struct span *key, struct span *value)
{
    const char *is = line.len ? memchr(line.at, '=', line.len) : NULL;
    if (!is || is_blank(line.at[0]) || line.at[0] == '#' || line.at[0] == ';')
        return false;
    size_t n = (size_t)(is - line.at);
    *key = trim((struct span){line.at, n});
    *value = without_comment(trim((struct span){is + 1, line.len - n - 1}));
    return true;
}

/* key NULL: found when the profile has a section. */
static bool find_setting(
    const struct aws_file *f, const char *profile, const char *key, struct span *found)
{
    struct span rest = {f->text, f->text ? f->len : 0}, line, name, k, v;
    bool inside = false, any = false;
    while (file_line(&rest, &line)) {
        if (section_name(line, &name)) {
            inside = names_profile(f, name, profile);
            any |= inside && !key;
        } else if (inside && key && setting(line, &k, &v) && is_span(k, key)) {
            *found = v;
            any = true;
        }
    }
    return any;
}

char *aws_profile_get(const struct aws_file *f, const char *profile, const char *key)
{
    struct span v;
    if (!find_setting(f, profile, key, &v) || !v.len || memchr(v.at, '\0', v.len))
        return NULL;
    return xstrndup(v.at, v.len);
}

bool aws_profile_exists(const struct aws_file *f, const char *profile)
{
    struct span unused;
    return find_setting(f, profile, NULL, &unused);
}
