/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/sidecar.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <string.h>

#define ID_LEN    16 /* digits */
#define MOUNT_LEN (2 * ID_LEN + 1)

void sidecar_set_mount(struct sidecar *s, const struct conf_mount *m)
{
    s->source = hash64(m->mount_point, strlen(m->mount_point));
    s->place = hash64(m->path, strlen(m->path));
}

int sidecar_find_mount(const struct sidecar *s, const struct conf *conf)
{
    int found = -1;
    size_t n = 0;
    for (size_t i = 0; i < conf->nmounts; i++) {
        struct sidecar like;
        sidecar_set_mount(&like, &conf->mounts[i]);
        if (like.source != s->source)
            continue;
        if (like.place == s->place)
            return (int)i;
        found = (int)i;
        n++;
    }
    return n == 1 ? found : -1;
}

char *sidecar_format(const struct sidecar *s)
{
    return xasprintf(
        "%016" PRIx64 "-%016" PRIx64 "\n%s\n%s\n", s->source, s->place, s->version, s->path);
}

static bool take_id(const char *text, uint64_t *id)
{
    *id = 0;
    for (size_t i = 0; i < ID_LEN; i++) {
        const char *digits = "0123456789abcdef", *d = strchr(digits, text[i]);
        if (!d || !*d)
            return false;
        *id = *id << 4 | (uint64_t)(d - digits);
    }
    return true;
}

static bool take_mount(const char *text, const char *end, struct sidecar *out)
{
    return end - text == MOUNT_LEN && text[ID_LEN] == '-' && take_id(text, &out->source)
        && take_id(text + ID_LEN + 1, &out->place);
}

int sidecar_parse(
    const char *text, size_t len, const char *what, struct sidecar *out, struct err *e)
{
    const char *end = text + len, *v = memchr(text, '\n', len),
               *p = v ? memchr(v + 1, '\n', (size_t)(end - v - 1)) : NULL;
    /* with its line end */
    size_t version = p ? (size_t)(p - v - 1) : 0, path = p ? (size_t)(end - p - 1) : 0;
    if (!p || path < 2 || path > INODE_PATH_MAX || end[-1] != '\n' || version >= STORE_VERSION_MAX
        || memchr(text, '\0', len) || !take_mount(text, v, out))
        return err_set(e, ERR_INVALID, "%s says nothing that could be used", what);
    memcpy(out->version, v + 1, version);
    out->version[version] = '\0';
    memcpy(out->path, p + 1, path - 1);
    out->path[path - 1] = '\0';
    if (!store_path_ok(out->path))
        return err_set(e, ERR_INVALID, "%s names no file", what);
    return 0;
}
