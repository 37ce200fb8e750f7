/* SPDX-License-Identifier: Apache-2.0 */
/* Words, names and paths of a spec. */
#include "operator/api/dataset_priv.h"

#include <string.h>

const char *dataset_medium_name(enum conf_medium medium)
{
    switch (medium) {
    case CONF_MEM:
        return "Memory";
    case CONF_SSD:
        return "SSD";
    case CONF_HDD:
        return "HDD";
    }
    return "";
}

bool dataset_word_in(const char *word, const char *const *list)
{
    while (*list && strcmp(*list, word) != 0)
        list++;
    return *list != NULL;
}

bool dataset_plain_name(const char *s, const char *others)
{
    if (!*s || *s == '.')
        return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9')
                || strchr(others, *s)))
            return false;
    return true;
}

bool dataset_plain_path(const char *path)
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
