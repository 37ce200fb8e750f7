/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/feature.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/handoff/fuse_kernel.h"
#include "lib/http/metric.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/utsname.h>
#include <unistd.h>

#define ANSWER_MS    2000
#define REQUEST_ROOM (64u << 10) /* the kernel refuses a smaller buffer */

METRIC_GAUGE(feature_gauge, "millrace_csi_feature", "name,kernel",
    "1: the kernel of this node has this feature of FUSE; 0: it has not.");

bool features_parse(struct features *f, const void *request, size_t len)
{
    struct {
        struct fuse_in_header h;
        struct fuse_init_in in;
    } r = {0};
    memcpy(&r, request, MIN(len, sizeof r));
    if (len < sizeof r.h + offsetof(struct fuse_init_in, flags2) || r.h.opcode != FUSE_INIT)
        return false;
    uint32_t flags2 = r.in.flags & FUSE_INIT_EXT ? r.in.flags2 : 0;
    f->passthrough = flags2 & FUSE_KERNEL_PASSTHROUGH;
    f->resend = flags2 & FUSE_KERNEL_HAS_RESEND;
    return true;
}

/* A super block of FUSE without a place in any tree; its file descriptor, which ends it. */
static int detached_fuse(int fuse_fd, struct err *e)
{
    char number[16];
    snprintf(number, sizeof number, "%d", fuse_fd);
    const char *const options[][2] = {
        {"fd", number}, {"rootmode", "40000"}, {"user_id", "0"}, {"group_id", "0"}};
    cleanup_fd int fs = fsopen("fuse", FSOPEN_CLOEXEC);
    if (fs < 0)
        return err_sys(e, errno, "make a FUSE file system");
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0))
            return err_sys(e, errno, "set %s of a FUSE file system", options[i][0]);
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
        return err_sys(e, errno, "create a FUSE file system");
    int out = fs;
    fs = -1;
    return out;
}

int features_ask(struct features *f, struct err *e)
{
    struct utsname name;
    *f = (struct features){0};
    if (uname(&name) == 0)
        snprintf(f->kernel, sizeof f->kernel, "%s", name.release);
    cleanup_fd int fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fuse_fd < 0)
        return err_sys(e, errno, "open /dev/fuse (is the kernel module fuse loaded on this node?)");
    cleanup_fd int fs = detached_fuse(fuse_fd, e);
    if (fs < 0)
        return -1;
    struct pollfd p = {.fd = fuse_fd, .events = POLLIN};
    cleanup_free char *request = xmalloc(REQUEST_ROOM);
    ssize_t n = poll(&p, 1, ANSWER_MS) > 0 ? read(fuse_fd, request, REQUEST_ROOM) : -1;
    if (n < 0 || !features_parse(f, request, (size_t)n))
        return err_set(e, ERR_FATAL, "the kernel sends no FUSE_INIT");
    return 0;
}

void features_tell(void)
{
    struct features f;
    struct err e = ERR_INIT;
    if (features_ask(&f, &e)) {
        log_kv(LOG_WARN, "the features of this node's kernel are not known", "error", e.msg, NULL);
        return;
    }
    metric_set(metric_of(&feature_gauge, "passthrough", f.kernel), f.passthrough);
    metric_set(metric_of(&feature_gauge, "resend", f.kernel), f.resend);
    if (!f.passthrough || !f.resend)
        log_kv(LOG_WARN, "this node's kernel is older than Linux 6.9: mounts are slower here",
            "kernel", f.kernel, "passthrough", f.passthrough ? "yes" : "no", "resend",
            f.resend ? "yes" : "no", NULL);
}
