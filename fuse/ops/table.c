/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests are answered, and what is agreed with the kernel before the first. */
#include "fuse/ops/ops.h"

static void op_init(void *user, struct fuse_conn_info *conn)
{
    (void)user;
    conn->max_write = 1 << 20;
    conn->max_background = 256;
    conn->congestion_threshold = 192;
    conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE
        | FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_FLOCK_LOCKS
        | FUSE_CAP_POSIX_LOCKS);
    /* A version has its own inode, so what the kernel has of an inode is never out of date by
     * itself. */
    conn->want |= conn->capable
        & (unsigned)(FUSE_CAP_ASYNC_READ | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_PARALLEL_DIROPS
            | FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO
            | FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_CACHE_SYMLINKS);
}

/* flock, fcntl locks, access and copy_file_range are left out: the kernel does them, or their
 * fallback, better. */
const struct fuse_lowlevel_ops fs_ops = {
    .init = op_init,
    .lookup = op_lookup,
    .forget = op_forget,
    .forget_multi = op_forget_multi,
    .getattr = op_getattr,
    .setattr = op_setattr,
    .readlink = op_readlink,
    .mknod = op_mknod,
    .mkdir = op_mkdir,
    .unlink = op_unlink,
    .rmdir = op_rmdir,
    .symlink = op_symlink,
    .rename = op_rename,
    .link = op_link,
    .open = op_open,
    .read = op_read,
    .write = op_write,
    .fallocate = op_fallocate,
    .lseek = op_lseek,
    .flush = op_flush,
    .release = op_release,
    .fsync = op_fsync,
    .opendir = op_opendir,
    .readdir = op_readdir,
    .readdirplus = op_readdirplus,
    .fsyncdir = op_fsyncdir,
    .statfs = op_statfs,
    .setxattr = op_setxattr,
    .getxattr = op_getxattr,
    .listxattr = op_listxattr,
    .removexattr = op_removexattr,
    .create = op_create,
    .ioctl = op_ioctl,
};
