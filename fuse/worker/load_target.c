/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of which mount a path of the dataset's tree is. */
#include "fuse/worker/load_pass.h"

#include "lib/base/mem.h"
#include "lib/base/text.h"

#include <stdlib.h>
#include <string.h>

/* Is dir the same as path or above it? Both begin with "/" and have no trailing one but "/" itself.
 * *rest: what is below. */
static bool is_above(const char *dir, const char *path, const char **rest)
{
    size_t n = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
    if (strncmp(dir, path, n) != 0 || (path[n] != '/' && path[n] != '\0'))
        return false;
    *rest = path + n + (path[n] == '/');
    return true;
}

struct load_target *load_targets(const struct conf *conf, const char *text, size_t *n)
{
    cleanup_free char *path = xasprintf("%s%s", text[0] == '/' ? "" : "/", text);
    for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
        path[len - 1] = '\0';
    struct load_target *t = xcalloc(conf->nmounts + 1, sizeof *t);
    const char *rest;
    *n = 0;
    size_t best = SIZE_MAX, best_len = 0;
    for (size_t i = 0; i < conf->nmounts; i++) { /* the deepest mount at or above the path */
        if (is_above(conf->mounts[i].path, path, &rest)
            && (best == SIZE_MAX || strlen(conf->mounts[i].path) > best_len)) {
            best = i;
            best_len = strlen(conf->mounts[i].path);
        }
    }
    if (best != SIZE_MAX) {
        is_above(conf->mounts[best].path, path, &rest);
        t[(*n)++] = (struct load_target){best, xstrdup(rest)};
    }
    for (size_t i = 0; i < conf->nmounts; i++)
        if (i != best && strcmp(conf->mounts[i].path, path) != 0
            && is_above(path, conf->mounts[i].path, &rest))
            t[(*n)++] = (struct load_target){i, xstrdup("")};
    if (*n)
        return t;
    free(t);
    return NULL;
}

void load_targets_free(struct load_target *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(t[i].dir);
    free(t);
}

int load_set_empty(const struct load *l, const struct load_path *path, struct err *e)
{
    const struct conf *conf = l->s->conf;
    size_t n = 0;
    struct load_target *t = load_targets(conf, path->path, &n);
    const char *url = n ? conf->mounts[t[0].mount].mount_point : "", *dir = n ? t[0].dir : "";
    size_t len = strlen(url);
    cleanup_free char *more = n > 1 ? xasprintf(", nor in %zu more mounts", n - 1) : xstrdup("");
    err_set(e, ERR_NOTFOUND, "%s: there is no file in %s%s%s%s", path->path, url,
        *dir && len && url[len - 1] != '/' ? "/" : "", dir, more);
    load_targets_free(t, n);
    return -1;
}

const char *load_path_hint(const char *path)
{
    if (text_has_unseen(path, strlen(path)))
        return " (it holds an invisible character, or a blank that is none: is that meant?)";
    return strpbrk(path, "*?{[")
        ? " (paths are names, no patterns: write the directory, and all below it is meant)"
        : "";
}
