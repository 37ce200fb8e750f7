/* SPDX-License-Identifier: Apache-2.0 */
/* Which mount a path is on, and what its client says in extended attributes. */
#include "fuse/cli/cli.h"

#include "lib/base/mem.h"
#include "lib/base/mountinfo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define STATUS_MAX (64u << 10)

/* The attribute of path, or of the closest directory above that has it (the mount's root); caller
 * frees. */
char *read_xattr(const char *path, const char *name)
{
    char *value = xcalloc(1, STATUS_MAX + 1);
    if (getxattr(path, name, value, STATUS_MAX) > 0)
        return value;
    free(value);
    return NULL;
}

/* The file system that path is on: its type and where it is mounted; caller frees *point. NULL if
 * unknown. */
static char *mount_of(const char *path, char **point)
{
    cleanup_free char *real = realpath(path, NULL);
    cleanup_mountinfo struct mountinfo all = {NULL, 0};
    struct err e = ERR_INIT;
    const struct mount_entry *m = real && mountinfo_read(&all, &e) == 0
        ? mountinfo_above(&all, real)
        : NULL;
    *point = m ? xstrdup(m->point) : NULL;
    return m ? xstrdup(m->type) : NULL;
}

int mount_point_of(const char *path, char **point, struct err *e)
{
    struct stat st;
    *point = NULL;
    if (stat(path, &st))
        return errno == ENOTCONN
            ? err_set(e, ERR_NOTFOUND,
                "%s: the file system there is not served any more; millrace umount %s", path, path)
            : err_sys(e, errno, "%s", path);
    cleanup_free char *type = mount_of(path, point);
    if (!type || strcmp(type, CLI_MOUNT_TYPE) != 0)
        return err_set(e, ERR_INVALID, "%s is not on a mount of millrace (it is on %s)", path,
            type ? type : "an unknown file system");
    return 0;
}
