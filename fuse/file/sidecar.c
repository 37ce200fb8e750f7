/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/sidecar.h"

#include "lib/base/mem.h"

#include <string.h>

char *sidecar_format(const struct sidecar *s)
{
    return xasprintf("%u\n%s\n%s\n", s->mount, s->version, s->path);
}

/* Digits up to the line's end; what is too large for an unsigned is no mount. */
static bool take_mount(const char *text, const char *end, size_t nmounts, unsigned *mount)
{
    uint64_t n = 0;
    for (const char *p = text; p < end; p++) {
        if (*p < '0' || *p > '9' || n >= nmounts)
            return false;
        n = n * 10 + (uint64_t)(*p - '0');
    }
    *mount = (unsigned)n;
    return end > text && n < nmounts;
}

int sidecar_parse(const char *text, size_t len, size_t nmounts, const char *what,
    struct sidecar *out, struct err *e)
{
    const char *end = text + len, *v = memchr(text, '\n', len),
               *p = v ? memchr(v + 1, '\n', (size_t)(end - v - 1)) : NULL;
    /* with its line end */
    size_t version = p ? (size_t)(p - v - 1) : 0, path = p ? (size_t)(end - p - 1) : 0;
    if (!p || path < 2 || path > INODE_PATH_MAX || end[-1] != '\n' || version >= STORE_VERSION_MAX
        || memchr(text, '\0', len) || !take_mount(text, v, nmounts, &out->mount))
        return err_set(e, ERR_INVALID, "%s says nothing that could be used", what);
    memcpy(out->version, v + 1, version);
    out->version[version] = '\0';
    memcpy(out->path, p + 1, path - 1);
    out->path[path - 1] = '\0';
    if (!store_path_ok(out->path))
        return err_set(e, ERR_INVALID, "%s names no file", what);
    return 0;
}
