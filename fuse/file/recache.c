/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/recache.h"

#include "fuse/file/cached.h"
#include "fuse/file/read.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

void file_attach_cached(struct file *f)
{
    struct err e = ERR_INIT;
    pthread_rwlock_wrlock(&f->data_lock);
    if (file_attach(f, &e))
        log_kv(LOG_DEBUG, "a file cannot be opened before it is changed", "error", e.msg, NULL);
    pthread_rwlock_unlock(&f->data_lock);
}

void file_recache(struct file *f)
{
    const struct files_conf *c = file_conf(f);
    struct err e = ERR_INIT;
    struct inode n;
    char path[INODE_PATH_MAX];
    struct cache_key key;
    mutex_assert_held(&f->state_lock);
    if (inodes_get(c->inodes, f->ino, &n))
        return;
    pthread_rwlock_wrlock(&f->data_lock);
    if (f->cf) {
        cleanup_fd int fd = cache_complete_fd(f->cf);
        if (fd >= 0 && file_key(c->tree, &n, path, &key, &e) == 0
            && cache_adopt(c->cache, &key, fd, &e))
            log_kv(LOG_DEBUG, "a file that was changed leaves the cache", "path", path, "error",
                e.msg, NULL);
        cache_close(f->cf);
        f->cf = NULL;
    }
    pthread_rwlock_unlock(&f->data_lock);
}
