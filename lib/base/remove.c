/* SPDX-License-Identifier: Apache-2.0 */
/* file_remove_tree: removes a tree that another process may be changing meanwhile, which may write
 * in it and nowhere else. Every name is looked up in a directory that is held open, links are never
 * followed, and other mounts are not entered. Directories that are found deeper are moved up first,
 * so that a tree of any depth costs two descriptors and no path is ever longer than a name. */
#include "lib/base/file.h"

#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* An owner who makes directories as fast as they are removed does not keep us for ever. */
#define MOVES_MAX 10000000u

struct removal {
    int top; /* what is to be emptied */
    unsigned moved;
    int errnum; /* the first failure */
};

static int open_dir_at(int at, const char *name)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
    return (int)syscall(SYS_openat2, at, name, &how, sizeof how);
}

static void failed(struct removal *r, int errnum)
{
    if (errnum != ENOENT && !r->errnum)
        r->errnum = errnum;
}

static bool next_name(DIR *d, struct dirent **out)
{
    while ((*out = readdir(d)))
        if (strcmp((*out)->d_name, ".") != 0 && strcmp((*out)->d_name, "..") != 0)
            return true;
    return false;
}

/* Gone, or noted as what cannot go; false: a directory. */
static bool unlink_at(int at, const char *name, struct removal *r)
{
    struct stat st;
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return true;
    int errnum =
        errno; /* POSIX says EPERM of a directory; so does Linux of a file that is immutable */
    if (errnum == EISDIR
        || (errnum == EPERM && fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0
            && S_ISDIR(st.st_mode)))
        return false;
    failed(r, errnum);
    return true;
}

/* Files go, directories are moved up. */
static void flatten(int at, const char *name, struct removal *r)
{
    int fd = open_dir_at(at, name);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *de;
    if (!d) {
        if (errno != ELOOP && errno != ENOTDIR) /* it is no directory any more */
            failed(r, errno);
        if (fd >= 0)
            close(fd);
        return;
    }
    while (next_name(d, &de)) {
        char up[32];
        if (unlink_at(dirfd(d), de->d_name, r))
            continue;
        int errnum;
        do {
            snprintf(up, sizeof up, ".removing-%u", r->moved++);
            errnum = renameat2(dirfd(d), de->d_name, r->top, up, RENAME_NOREPLACE) ? errno : 0;
        } while (errnum == EEXIST && r->moved < MOVES_MAX);
        /* what cannot be moved, for example a mount, will not be removed by looking at it again */
        failed(r, r->moved >= MOVES_MAX ? ELOOP : errnum ? errnum : ENOENT);
    }
    closedir(d);
}

static int empty(struct removal *r)
{
    DIR *d = fdopendir(r->top);
    struct dirent *de;
    if (!d) {
        r->errnum = errno;
        close(r->top);
        return -1;
    }
    for (bool found = true; found && !r->errnum;) {
        found = false;
        rewinddir(d);
        while (!r->errnum && next_name(d, &de)) {
            found = true;
            if (unlink_at(r->top, de->d_name, r))
                continue;
            flatten(r->top, de->d_name, r);
            if (unlinkat(r->top, de->d_name, AT_REMOVEDIR) && errno != ENOENT && errno != ENOTDIR
                && errno != ENOTEMPTY && errno != EEXIST)
                failed(r, errno);
            r->moved += r->moved < MOVES_MAX; /* it may have been filled again */
            if (r->moved >= MOVES_MAX)
                failed(r, ELOOP);
        }
    }
    closedir(d);
    return r->errnum ? -1 : 0;
}

int file_remove_tree(const char *path, struct err *e)
{
    struct removal r = {.top = -1};
    const char *slash = strrchr(path, '/');
    cleanup_free char *parent = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
    const char *name = slash ? slash + 1 : path;
    cleanup_fd int above = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0)
        return errno == ENOENT ? 0 : err_sys(e, errno, "open %s", parent);
    if (unlink_at(above, name, &r))
        return r.errnum ? err_sys(e, r.errnum, "remove %s", path) : 0;
    r.top = open_dir_at(above, name);
    if (r.top < 0)
        return errno == ENOENT ? 0 : err_sys(e, errno, "open %s", path);
    if (empty(&r))
        return err_sys(e, r.errnum, "remove %s", path);
    return unlinkat(above, name, AT_REMOVEDIR) && errno != ENOENT
        ? err_sys(e, errno, "remove %s", path)
        : 0;
}
