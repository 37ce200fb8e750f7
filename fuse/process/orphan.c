/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/process/orphan.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define MNT_ID_UNIQUE 0x4000U /* STATX_MNT_ID_UNIQUE, which this C library does not know yet */

/* 0: nothing is mounted there. */
static dev_t mounted_at(const char *point)
{
    struct err e = ERR_INIT;
    cleanup_mountinfo struct mountinfo all = {0};
    const struct mount_entry *m = mountinfo_read(&all, &e) ? NULL : mountinfo_find(&all, point);
    return m ? makedev(m->major, m->minor) : 0;
}

/* What no other mount has, ever; the number of a device goes to the next mount as soon as it is
 * free. 0: this kernel has none (Linux 6.8). Asks nobody who serves the mount. */
static uint64_t mount_id(const char *point)
{
    struct statx x;
    return statx(AT_FDCWD, point, AT_STATX_DONT_SYNC | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
               MNT_ID_UNIQUE, &x)
            || !(x.stx_mask & MNT_ID_UNIQUE)
        ? 0
        : x.stx_mnt_id;
}

/* Root may do without fusectl. It is not unmounted if it is in use, only aborted. */
static void abort_orphan(int control, const char *point, dev_t dev, uint64_t id)
{
    if (control >= 0 && write(control, "1", 1) == 1)
        return;
    if (control < 0 && mounted_at(point) == dev && mount_id(point) == id
        && umount2(point, UMOUNT_NOFOLLOW | MNT_FORCE))
        return; /* nobody hears of it */
}

static _Noreturn void orphan_main(int life, const char *point, dev_t dev, uint64_t id)
{
    char byte;
    sigset_t all;
    sigfillset(&all); /* it ends by itself, and then at once */
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_NAME, "millrace-orphan");
    cleanup_free char *path = xasprintf("/sys/fs/fuse/connections/%u/abort", minor(dev));
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int control = open(path, O_WRONLY | O_CLOEXEC);
    if (chdir("/") || null < 0 || dup2(null, STDERR_FILENO) < 0 || dup2(life, STDIN_FILENO) < 0
        || dup2(control < 0 ? null : control, STDOUT_FILENO) < 0)
        _exit(1);
    control = control < 0 ? -1 : STDOUT_FILENO;
    if (close_range(STDERR_FILENO + 1, ~0u, 0))
        for (int fd = (int)sysconf(_SC_OPEN_MAX); fd > STDERR_FILENO; fd--)
            close(fd);
    while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
        continue;
    abort_orphan(control, point, dev, id);
    _exit(0);
}

int orphan_watch(const char *point)
{
    int life[2], status = 0;
    dev_t dev = mounted_at(point);
    uint64_t id = dev ? mount_id(point) : 0;
    if (!dev || pipe2(life, O_CLOEXEC))
        return -1;
    pid_t pid = fork();
    if (pid == 0) { /* its parent shall not have to wait for it */
        close(life[1]);
        pid = fork();
        if (pid == 0)
            orphan_main(life[0], point, dev, id);
        _exit(pid < 0);
    }
    int saved = errno;
    close(life[0]);
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
        return life[1];
    log_kv(LOG_WARN, "nobody ends the mount if all of its processes are killed", "error",
        strerror(saved), NULL);
    close(life[1]);
    return -1;
}
