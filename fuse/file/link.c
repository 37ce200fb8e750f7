/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/link.h"

#include "fuse/file/cached.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

int files_readlink(struct files *fs, uint64_t ino, char target[STORE_LINK_MAX + 1], struct err *e)
{
    const struct files_conf *c = files_config(fs);
    struct inode n;
    if (inodes_get(c->inodes, ino, &n) || (n.flags & INODE_UNLINKED))
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)ino);
    if (!S_ISLNK(n.mode))
        return err_sys(e, EINVAL, "it is no symbolic link");
    if (n.size > STORE_LINK_MAX)
        return err_sys(e, EIO, "a symbolic link to %llu bytes", (unsigned long long)n.size);
    struct cache_file *f = file_cached(c->tree, c->cache, &n, e);
    if (!f)
        return -1;
    size_t got = 0;
    ssize_t len = 1;
    while (got < n.size && (len = cache_read(f, target + got, n.size - got, got, e)) > 0)
        got += (size_t)len;
    cache_close(f);
    if (len < 0)
        return -1;
    target[got] = '\0';
    if (got < n.size || strlen(target) < got)
        return err_sys(e, EIO, "the target of a symbolic link is no path");
    return 0;
}
