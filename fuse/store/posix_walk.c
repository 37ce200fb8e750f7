/* SPDX-License-Identifier: Apache-2.0 */
/* Listings of the directory store: of one directory, or of all files below it. */
#include "fuse/store/posix.h"

#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 200u /* of a tree: one descriptor a level */

struct walk_level {
    DIR *d;
    bool noted; /* some in it have attributes */
    char *path; /* from the root */
};

struct posix_walk {
    int root;
    bool tree;
    size_t skip; /* bytes of the listed directory's own path and its slash */
    struct walk_level
        *levels; /* open ones, outermost first; it is at its end when there are none */
    unsigned n, room;
    char *path; /* of the entry that was looked at last */
};

void posix_walk_close(struct posix_walk *w)
{
    if (!w)
        return;
    for (unsigned i = 0; i < w->n; i++) {
        closedir(w->levels[i].d);
        free(w->levels[i].path);
    }
    if (w->root >= 0)
        close(w->root);
    free(w->levels);
    free(w->path);
    free(w);
}

static int walk_enter(
    const struct posix_dir *s, struct posix_walk *w, const char *path, struct err *e)
{
    int fd = posix_open_beneath(w->root, path, O_RDONLY | O_DIRECTORY);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        int saved = errno;
        if (fd >= 0)
            close(fd);
        return w->n && saved == ENOENT ? 0 : posix_fail(s, saved, path, "read the directory", e);
    }
    if (w->n == w->room)
        w->levels = xrealloc(w->levels, (w->room += 16) * sizeof *w->levels);
    w->levels[w->n++] = (struct walk_level){d, posix_attr_noted(fd), xstrdup(path)};
    return 0;
}

static void walk_leave(struct posix_walk *w)
{
    struct walk_level *l = &w->levels[--w->n];
    closedir(l->d);
    free(l->path);
}

struct posix_walk *posix_walk_open(
    const struct posix_dir *s, const char *path, bool tree, struct err *e)
{
    struct posix_walk *w = xcalloc(1, sizeof *w);
    w->tree = tree;
    w->skip = *path ? strlen(path) + 1 : 0;
    w->root = posix_open_root(s, e);
    if (w->root >= 0 && walk_enter(s, w, path, e) == 0)
        return w;
    posix_walk_close(w);
    return NULL;
}

int posix_walk_next(
    const struct posix_dir *s, struct posix_walk *w, struct store_entry *out, struct err *e)
{
    while (w->n) {
        const struct walk_level *l = &w->levels[w->n - 1];
        errno = 0;
        const struct dirent *de = readdir(l->d);
        if (!de && errno)
            return posix_fail(s, errno, l->path, "read the directory", e);
        if (!de) {
            walk_leave(w);
            continue;
        }
        struct stat st;
        if (!store_name_ok(de->d_name, strlen(de->d_name)) || posix_is_temp(de->d_name)
            || fstatat(dirfd(l->d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) || !posix_is_shown(&st))
            continue;
        free(w->path);
        w->path = *l->path ? xasprintf("%s/%s", l->path, de->d_name) : xstrdup(de->d_name);
        if (!w->tree || !S_ISDIR(st.st_mode)) {
            out->name = w->tree ? w->path + w->skip : de->d_name;
            posix_stat_of(&st, &out->st);
            out->st.attr_known = true;
            if (l->noted)
                posix_attr_at(dirfd(l->d), de->d_name, &st, &out->st);
            return 1;
        }
        if (w->n <= DEPTH_MAX && walk_enter(s, w, w->path, e))
            return -1;
    }
    return 0;
}
