/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/rename.h"

#include "fuse/file/read.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

void file_attach_for_rename(struct file *f)
{
    struct err e = ERR_INIT;
    pthread_rwlock_wrlock(&f->data_lock);
    if (file_attach(f, &e))
        log_kv(LOG_DEBUG, "a file that is to be renamed cannot be opened", "error", e.msg, NULL);
    pthread_rwlock_unlock(&f->data_lock);
}

void file_renamed(struct file *f)
{
    struct err e = ERR_INIT;
    struct inode n;
    if (inodes_get(file_conf(f)->inodes, f->ino, &n))
        return;
    pthread_rwlock_wrlock(&f->data_lock);
    if (f->cf) {
        struct cache_file *old = f->cf;
        f->cf = NULL;
        cleanup_fd int fd = cache_complete_fd(old);
        char path[INODE_PATH_MAX];
        struct store *store;
        unsigned mount;
        if (fd >= 0 && tree_where(file_conf(f)->tree, f->ino, &store, &mount, path, &e) == 0) {
            struct cache_key key = {mount, path, n.version, n.size};
            if (cache_adopt(file_conf(f)->cache, &key, fd, &e))
                log_kv(LOG_DEBUG, "a renamed file leaves the cache", "path", path, "error", e.msg,
                    NULL);
        }
        cache_close(old);
    }
    pthread_rwlock_unlock(&f->data_lock);
}
