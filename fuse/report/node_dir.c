/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/report/node_dir.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <string.h>

/* "/" NAME_DRIVER "/" in the path of the volume, as its file system has it. */
static const char *plugin_part(const char *root)
{
    static const char part[] = "/" NAME_DRIVER "/";
    const char *found = strstr(root, part);
    return found ? found + 1 : NULL;
}

char *node_dir_of(const struct mountinfo *m, const char *dir)
{
    const struct mount_entry *at = mountinfo_above(m, dir);
    const char *ours = at ? plugin_part(at->root) : NULL;
    if (!ours)
        return NULL;
    size_t point = strcmp(at->point, "/") == 0 ? 0 : strlen(at->point);
    return xasprintf("%s%s", ours, dir + point);
}
