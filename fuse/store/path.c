/* SPDX-License-Identifier: Apache-2.0 */
/* Which names and paths a file system can show. */
#include "fuse/store/impl.h"

#include <string.h>

#define PATH_BYTES_MAX 4095

bool store_name_ok(const char *name, size_t len)
{
    if (len == 0 || len > 255 || memchr(name, '/', len) || memchr(name, '\0', len))
        return false;
    return !(name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

bool store_path_ok(const char *path)
{
    if (!*path)
        return true;
    if (strlen(path) > PATH_BYTES_MAX)
        return false;
    for (;;) {
        size_t n = strcspn(path, "/");
        if (!store_name_ok(path, n))
            return false;
        if (!path[n])
            return true;
        path += n + 1;
    }
}
