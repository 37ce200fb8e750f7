/* SPDX-License-Identifier: Apache-2.0 */
/* umount. */
#include "fuse/cli/mounting.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/mountinfo.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define SAVE_MAX_NS (600 * NS_PER_S) /* umount waits no longer */

/* Users other than root may not call umount(2): libfuse has a helper for them. */
static int fusermount(const char *dir, bool lazy, struct err *e)
{
    char *argv[] = {(char *)"fusermount3", (char *)"-u", (char *)(lazy ? "-z" : "-q"), (char *)"--",
        (char *)dir, NULL};
    pid_t pid;
    int status = 0, rc = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    if (rc)
        return err_sys(e, rc, "start fusermount3 (Debian: apt install fuse3)");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(e, ERR_CONFLICT,
        "%s cannot be unmounted: it is in use (see fuser -vm %s), or it is not yours", dir, dir);
}

static int unmount(const char *point, const char *dir, bool lazy, struct err *e)
{
    if (geteuid() != 0)
        return fusermount(point, lazy, e);
    if (umount2(point, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0)
        return 0;
    if (errno == EBUSY)
        return err_set(e, ERR_CONFLICT,
            "%s is in use: close what uses it (see fuser -vm %s), or --lazy", dir, dir);
    return err_sys(e, errno, "unmount %s", dir);
}

/* Where what is mounted at dir is in the mount table: also if nobody serves it any more, so that
 * dir itself cannot be looked at. Caller frees. */
static char *absolute_point(const char *dir, struct err *e)
{
    char *real = realpath(dir, NULL);
    if (real || errno == ENOENT || errno == ENOTDIR) {
        if (!real)
            err_sys(e, errno, "%s", dir);
        return real;
    }
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    cleanup_free char *copy = xstrndup(dir, n);
    char *slash = strrchr(copy, '/'), *name = slash ? slash + 1 : copy;
    if (slash)
        *slash = '\0';
    cleanup_free char *parent = realpath(!slash ? "." : *copy ? copy : "/", NULL);
    if (!parent)
        err_sys(e, errno, "%s", dir);
    return parent ? path_join(parent, name) : NULL;
}

/* The point of a mount of ours; caller frees. NULL: there is none, or it is another's. */
static char *mount_of_ours(const char *dir, struct err *e)
{
    cleanup_free char *point = absolute_point(dir, e);
    cleanup_mountinfo struct mountinfo all = {NULL, 0};
    if (!point || mountinfo_read(&all, e))
        return NULL;
    const struct mount_entry *m = mountinfo_find(&all, point);
    if (m && strcmp(m->type, CLI_MOUNT_TYPE) == 0)
        return steal(&point);
    if (m)
        err_set(e, ERR_INVALID,
            "%s is no mount of millrace, but of %s: it is left alone (umount(8) unmounts others)",
            dir, m->type);
    else
        err_set(e, ERR_NOTFOUND, "nothing is mounted at %s", dir);
    return NULL;
}

/* The process that serves the mount, to wait for its end: it saves what was written first. -1: it
 * cannot be told. */
static int open_server(const char *dir)
{
    struct err e = ERR_INIT;
    cleanup_free char *text = read_xattr(dir, XATTR_STATUS);
    cleanup_json json_t *j = text ? json_parse(text, strlen(text), &e) : NULL;
    int64_t pid = j ? jget_int(j, REPORT_PID, 0) : 0;
    if (pid <= 1 || pid > INT_MAX)
        return -1;
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    cleanup_free char *comm = xasprintf("/proc/%d/comm", (int)pid),
                      *name = fd >= 0 ? file_read(comm, 64, NULL, &e) : NULL;
    if (name && strcmp(name, MOUNTING_CLIENT "\n") == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int wait_for_server(const char *dir, int fd, struct err *e)
{
    int64_t began = clock_mono_ns();
    for (bool said = false;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (fd < 0 || poll(&p, 1, 1000) > 0)
            return 0;
        if (clock_mono_ns() - began > SAVE_MAX_NS)
            return err_set(e, ERR_RETRY,
                "%s is unmounted, but what was written there is not all saved yet: its process goes on",
                dir);
        if (!said && clock_mono_ns() - began > 2 * NS_PER_S)
            fprintf(stderr, "saving what was written…\n");
        said |= clock_mono_ns() - began > 2 * NS_PER_S;
    }
}

int mounting_end(const char *dir, bool lazy, struct err *e)
{
    cleanup_free char *point = mount_of_ours(dir, e);
    if (!point)
        return -1;
    cleanup_fd int server = lazy ? -1 : open_server(point);
    return unmount(point, dir, lazy, e) || wait_for_server(dir, server, e) ? -1 : 0;
}

int verb_umount(const struct verb *v, int argc, char **argv)
{
    bool lazy = false;
    const struct opt table[] = {{"lazy", OPT_BOOL, &lazy, NULL,
        "detach it at once; processes that use it keep it until they are done"}};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct err e = ERR_INIT;
    return mounting_end(a.pos[0], lazy, &e) ? cli_failed(&e) : CLI_DONE;
}
