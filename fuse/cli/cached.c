/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cli/cached.h"

#include "lib/base/ioctl.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The directory that path is in; its last name. */
static int enter_dir(struct cached_ask *a, const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    cleanup_free char *dir = !slash ? xstrdup(".")
        : slash == path             ? xstrdup("/")
                                    : xstrndup(path, (size_t)(slash - path));
    *name = slash ? slash + 1 : path;
    if (a->fd >= 0 && strcmp(a->dir, dir) == 0)
        return a->fd;
    cached_ask_end(a);
    a->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    a->dir = steal(&dir);
    return a->fd;
}

void cached_ask(struct cached_ask *a, const char *path, struct cached *out)
{
    const char *name;
    int fd = enter_dir(a, path, &name);
    struct pin_msg m = {.op = PIN_ASK, .len = INT64_MAX};
    *out = (struct cached){.errnum = errno};
    if (fd < 0)
        return;
    out->errnum = EINVAL;
    if (!*name || strlen(name) >= sizeof m.name)
        return;
    snprintf(m.name, sizeof m.name, "%s", name);
    if (ioctl(fd, PIN_IOCTL, &m)) {
        out->errnum = errno;
        return;
    }
    *out = (struct cached){.known = true,
        .size = m.size,
        .bytes = m.state & PIN_STAGED ? m.size : MIN(m.cached, m.size),
        .pinned = (m.state & PIN_PINNED) != 0,
        .persisted = !(m.state & PIN_UNSAVED)};
}

void cached_ask_end(struct cached_ask *a)
{
    if (a->fd >= 0)
        close(a->fd);
    free(a->dir);
    *a = (struct cached_ask)CACHED_ASK_INIT;
}

unsigned cached_percent(const struct cached *c)
{
    return c->bytes >= c->size ? 100 : (unsigned)((double)c->bytes / (double)c->size * 100);
}
