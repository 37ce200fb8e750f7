/* SPDX-License-Identifier: Apache-2.0 */
/* Whose uploads may wait, by the write type of their path. */
#include "fuse/file/commit.h"
#include "lib/base/mem.h"

#include <string.h>

bool commit_waits_at(const struct conf *conf, unsigned mount, const char *path)
{
    const char *at = conf->mounts[mount].path;
    cleanup_free char *full = xasprintf("%s/%s", strcmp(at, "/") == 0 ? "" : at, path);
    return conf_write_of(conf, full) == CONF_ASYNC_THROUGH;
}

bool commit_may_wait(const struct file *f)
{
    const struct files_conf *c = file_conf(f);
    char path[INODE_PATH_MAX];
    struct store *store;
    struct inode n;
    unsigned mount;
    return file_inode(f, &n, NULL) == 0 && !(n.flags & (INODE_UNLINKED | INODE_ORPHANED))
        && tree_where(c->tree, f->ino, &store, &mount, path, NULL) == 0
        && commit_waits_at(c->conf, mount, path);
}
