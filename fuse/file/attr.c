/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/attr.h"

#include "lib/base/log.h"

#include <string.h>

void attr_of_inode(const struct inode *n, struct store_attr *out)
{
    *out = (struct store_attr){.has = n->attr,
        .mode = n->mode & STORE_MODE_BITS,
        .uid = n->uid,
        .gid = n->gid,
        .mtime_ns = n->mtime_ns};
}

void attr_told(struct inodes *ix, uint64_t ino, const struct store_stat *st)
{
    struct inode n;
    if (!st->attr_known || inodes_get(ix, ino, &n))
        return;
    n.untold &= (uint8_t)~st->attr.has;
    inodes_set(ix, ino, INODES_ATTR, &n, 0, 0);
}

void attr_tell(struct files *fs, struct inode *n)
{
    const struct files_conf *c = files_config(fs);
    struct store *store;
    struct store_stat st;
    struct store_attr attr;
    struct err e = ERR_INIT;
    unsigned mount;
    char path[INODE_PATH_MAX];
    attr_of_inode(n, &attr);
    attr.has = n->untold;
    if (tree_where(c->tree, n->ino, &store, &mount, path, &e)
        || store_set_attr(store, path, *n->version ? n->version : NULL, &attr, &st, &e)) {
        log_kv(LOG_DEBUG, "attributes stay on this node", "error", e.msg, NULL);
        return;
    }
    struct inode set = {.mtime_ns = st.mtime_ns};
    memcpy(set.version, st.version, sizeof set.version);
    bool timed = (st.attr.has & attr.has & STORE_MTIME) && st.mtime_ns;
    inodes_set(c->inodes, n->ino,
        (n->flags & INODE_DIR ? 0 : INODES_VERSION) | (timed ? INODES_MTIME : 0), &set, 0,
        timed ? INODE_ATTR : 0);
    attr_told(c->inodes, n->ino, &st);
    inodes_get(c->inodes, n->ino, n);
}
