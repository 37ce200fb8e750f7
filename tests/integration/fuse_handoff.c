/* SPDX-License-Identifier: Apache-2.0 */
/* A node plugin for tests: mounts, lends the fd to one client at a time, keeps INIT and backing
 * ids. As root. fuse_handoff MOUNTPOINT SOCKET [ro]       prints what the client says: "serving",
 * "failed TEXT", "backing", "returned" SIGUSR1: forgets everything, as if it had been restarted;
 * the client must hand the fd back. SIGTERM: unmounts and ends. */
#include "lib/handoff/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct backing_map {
    int32_t fd;
    uint32_t flags;
    uint64_t padding;
};
#define BACKING_OPEN  _IOW(229, 1, struct backing_map)
#define BACKING_CLOSE _IOW(229, 2, uint32_t)
#define MAX_FILES     1000

static volatile sig_atomic_t forget, stop;
static int fuse_fd = -1;
static struct handoff_welcome welcome = {.version = HANDOFF_VERSION};
static struct {
    dev_t dev;
    ino_t ino;
    int64_t id;
} files[MAX_FILES];
static int nfiles;

static void on_signal(int sig)
{
    if (sig == SIGUSR1)
        forget = 1;
    else
        stop = 1;
}

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

static int64_t backing(int fd)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return -EBADF;
    for (int i = 0; i < nfiles; i++)
        if (files[i].dev == st.st_dev && files[i].ino == st.st_ino)
            return files[i].id;
    struct backing_map map = {.fd = fd};
    int id = ioctl(fuse_fd, BACKING_OPEN, &map);
    if (id <= 0 || nfiles == MAX_FILES)
        return id < 0 ? -errno : -EMFILE;
    files[nfiles].dev = st.st_dev;
    files[nfiles].ino = st.st_ino;
    files[nfiles++].id = id;
    say("backing");
    return id;
}

static void close_backing(int64_t id)
{
    uint32_t value = (uint32_t)id;
    for (int i = 0; i < nfiles; i++)
        if (files[i].id == id) {
            ioctl(fuse_fd, BACKING_CLOSE, &value);
            files[i] = files[--nfiles];
            return;
        }
}

static void handle(int conn, struct handoff_msg *m, int *fd)
{
    struct err e = ERR_INIT;
    int64_t id;
    struct handoff_caller caller = {.name = "whom the plugin knows"};
    switch (m->type) {
    case HANDOFF_HELLO:
        if (fuse_fd >= 0)
            handoff_send(conn, HANDOFF_WELCOME, &welcome, sizeof welcome, fuse_fd, &e);
        break;
    case HANDOFF_INIT:
        memcpy(welcome.init, m->payload, m->len);
        welcome.init_len = m->len;
        break;
    case HANDOFF_SERVING:
        say("serving");
        break;
    case HANDOFF_FAILED:
        printf("failed %.*s\n", (int)m->len, (char *)m->payload), fflush(stdout);
        break;
    case HANDOFF_BACKING_OPEN:
        id = backing(*fd);
        handoff_send(conn, HANDOFF_BACKING, &id, sizeof id, -1, &e);
        break;
    case HANDOFF_BACKING_CLOSE:
        memcpy(&id, m->payload, sizeof id);
        close_backing(id);
        break;
    case HANDOFF_WHO:
        memcpy(&caller.pid, m->payload, sizeof caller.pid);
        handoff_send(conn, HANDOFF_CALLER, &caller, sizeof caller, -1, &e);
        break;
    case HANDOFF_RETURN_FD:
        if (fuse_fd < 0) {
            fuse_fd = *fd;
            *fd = -1;
            say("returned");
        }
        break;
    default:
        break;
    }
}

static void serve(int conn)
{
    static struct handoff_msg m;
    struct pollfd p = {.fd = conn, .events = POLLIN};
    while (!stop && !forget) {
        int fd = -1;
        struct err e = ERR_INIT;
        if (poll(&p, 1, 100) <= 0)
            continue;
        if (handoff_recv(conn, NULL, &m, &fd, &e) <= 0)
            return;
        handle(conn, &m, &fd);
        if (fd >= 0)
            close(fd);
    }
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    char options[200];
    if (argc < 3)
        return 2;
    struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    bool ro = argc > 3;
    welcome.read_only = ro;
    fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options,
        "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions", fuse_fd);
    if (fuse_fd < 0
        || mount("millrace", argv[1], "fuse.millrace", MS_NOSUID | MS_NODEV | (ro ? MS_RDONLY : 0),
            options)) {
        perror("mount");
        return 1;
    }
    int listener = handoff_listen(argv[2], &e);
    if (listener < 0) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    struct pollfd p = {.fd = listener, .events = POLLIN};
    while (!stop) {
        if (forget) {
            forget = 0;
            close(fuse_fd);
            fuse_fd = -1;
            nfiles = 0;
            memset(&welcome, 0, sizeof welcome);
            welcome.version = HANDOFF_VERSION;
        }
        int conn = poll(&p, 1, 100) > 0 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (conn < 0)
            continue;
        serve(conn);
        close(conn);
    }
    umount2(argv[1], MNT_DETACH);
    return 0;
}
