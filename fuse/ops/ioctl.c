/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of lib/base/ioctl.h: pins and hints. */
#include "fuse/ops/ops.h"

#include "fuse/ops/pin.h"
#include "lib/base/log.h"

#include <errno.h>

static void ioctl_pin(fuse_req_t req, uint64_t ino, bool dir, const struct pin_msg *in)
{
    struct err e = ERR_INIT;
    struct pin_msg m = *in;
    int rc = pin_do(ops_fs(req), &ino, dir, &m, &e);
    /* an answer, not a fault: any user of the mount may ask for more than there is */
    if (rc && err_errno(&e) == ENOSPC) {
        log_kv(LOG_DEBUG, "a request was refused", "op", "pin", "error", e.msg, NULL);
        fuse_reply_err(req, ENOSPC);
    } else if (rc)
        ops_fail(req, ino, "pin", &e);
    else
        fuse_reply_ioctl(req, 0, &m, sizeof m);
}

void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg, struct fuse_file_info *fi,
    unsigned flags, const void *in, size_t in_size, size_t out_size)
{
    (void)arg;
    (void)fi;
    struct err e = ERR_INIT;
    if (cmd == PIN_IOCTL && in_size == sizeof(struct pin_msg) && out_size == sizeof(struct pin_msg))
        ioctl_pin(req, ino, flags & FUSE_IOCTL_DIR, in);
    else if (cmd != HINT_IOCTL || !(flags & FUSE_IOCTL_DIR) || in_size != sizeof(struct hint_msg))
        fuse_reply_err(req, ENOTTY);
    else if (hints_add(ops_fs(req)->hints, ino, in, &e))
        ops_fail(req, ino, "hint", &e);
    else
        fuse_reply_ioctl(req, 0, NULL, 0);
}
