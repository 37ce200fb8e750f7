/* SPDX-License-Identifier: Apache-2.0 */
/*
 * newroot — newroot COMMAND…: makes this process's root directory the root of its mount namespace,
 * which must be its own, and runs COMMAND.
 *
 * In a chroot the two differ: whoever enters the mount namespace then, as runc does for `kubectl
 * exec`, comes out at the namespace's root, that is outside of the chroot and of every container
 * that was started in it. The root directory must be a mount point.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int failed(const char *what)
{
    fprintf(stderr, "newroot: %s: %s\n", what, strerror(errno));
    return 1;
}

static int mount_of_root(struct statx *st)
{
    return statx(AT_FDCWD, "/", 0, STATX_INO | STATX_MNT_ID, st);
}

int main(int argc, char **argv)
{
    struct statx before, after;
    if (argc < 2) {
        fputs("usage: newroot COMMAND…\n", stderr);
        return 2;
    }
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
        ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (root < 0 || ns < 0 || mount_of_root(&before))
        return failed("look at the root directory");
    if (setns(ns, CLONE_NEWNS) || mount_of_root(&after)) /* the namespace's root is now ours */
        return failed("enter the mount namespace that this is in");
    if (before.stx_mnt_id != after.stx_mnt_id || before.stx_ino != after.stx_ino) {
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || fchdir(root))
            return failed("go back to the root directory");
        if (syscall(SYS_pivot_root, ".", "."))
            return failed(
                "make the root directory the mount namespace's (it must be a mount point: mount --bind DIR DIR before chroot)");
        if (umount2(".", MNT_DETACH))
            return failed("leave what was the root before");
    }
    if (chdir("/"))
        return failed("/");
    execv(argv[1], argv + 1);
    return failed(argv[1]);
}
