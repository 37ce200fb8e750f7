/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_kernel — what client and plugin ask of the kernel's FUSE that Debian 12's linux/fuse.h does
 * not have yet. */
#ifndef MILLRACE_LIB_HANDOFF_FUSE_KERNEL_H
#define MILLRACE_LIB_HANDOFF_FUSE_KERNEL_H

#include <stdint.h>
#include <sys/ioctl.h>

#define FUSE_KERNEL_NOTIFY_RESEND 7 /* FUSE_NOTIFY_RESEND */
/* bits of INIT's flags2 */
#define FUSE_KERNEL_PASSTHROUGH (1u << 5) /* FUSE_PASSTHROUGH: 1 << 37 */
#define FUSE_KERNEL_HAS_RESEND  (1u << 7) /* FUSE_HAS_RESEND: 1 << 39 */

/* struct fuse_backing_map, FUSE_DEV_IOC_BACKING_* */
struct fuse_kernel_backing {
    int32_t fd;
    uint32_t flags;
    uint64_t padding;
};
#define FUSE_KERNEL_BACKING_OPEN  _IOW(229, 1, struct fuse_kernel_backing)
#define FUSE_KERNEL_BACKING_CLOSE _IOW(229, 2, uint32_t)

#endif
