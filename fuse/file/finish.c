/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of staged content that the store has, or that nobody wants any more. */
#include "fuse/file/stage.h"
#include "fuse/file/upload.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* path is within the mount's store */
static bool stays_cached(const struct conf *conf, unsigned mount, const char *path)
{
    const char *at = conf->mounts[mount].path;
    cleanup_free char *full = xasprintf("%s/%s", strcmp(at, "/") == 0 ? "" : at, path);
    return conf_write_of(conf, full) != CONF_THROUGH;
}

/* Nobody has it open, or nobody knows; and whoever may have it open can do with what the store has.
 */
static bool may_finish(const struct inode *n)
{
    return !n->opens
        || (n->flags & (INODE_MISCOUNTED | INODE_UNLINKED | INODE_ORPHANED)) == INODE_MISCOUNTED;
}

void file_finish(struct file *f)
{
    const struct files_conf *c = file_conf(f);
    struct inode n, now;
    struct err e = ERR_INIT;
    char path[INODE_PATH_MAX];
    struct store *store;
    unsigned mount;
    mutex_assert_held(&f->state_lock);
    /* removed, and this was its last use */
    if (file_inode(f, &n, NULL)) {
        atomic_store(&f->saved, atomic_load(&f->written));
        stage_remove_files(f);
        return;
    }
    if (!(n.flags & INODE_STAGED) || !may_finish(&n))
        return;
    pthread_rwlock_wrlock(&f->data_lock);
    /* who opens it for reading does not wait for state_lock */
    bool opened = file_inode(f, &now, NULL) == 0 && !may_finish(&now);
    if (opened || (file_is_dirty(f) && !(n.flags & INODE_UNLINKED))) {
        pthread_rwlock_unlock(&f->data_lock);
        return;
    }
    atomic_store(&f->saved, atomic_load(&f->written));
    struct stat content;
    if (f->stage_fd >= 0 && !(n.flags & INODE_UNLINKED) && fstat(f->stage_fd, &content) == 0
        && (uint64_t)content.st_size == n.size
        && tree_where(c->tree, f->ino, &store, &mount, path, &e) == 0
        && stays_cached(c->conf, mount, path)) {
        struct cache_key key = {mount, path, n.version, n.size};
        if (cache_adopt(c->cache, &key, f->stage_fd, &e))
            log_kv(LOG_DEBUG, "a written file does not stay in the cache", "path", path, "error",
                e.msg, NULL);
    }
    inodes_set(c->inodes, f->ino, 0, NULL, 0, INODE_STAGED);
    if (f->stage_fd >= 0)
        close(f->stage_fd);
    f->stage_fd = -1;
    f->no_backing = false;
    stage_remove_files(f);
    pthread_rwlock_unlock(&f->data_lock);
}
