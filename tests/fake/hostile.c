/* SPDX-License-Identifier: Apache-2.0 */
/* hostile — what a pod that has a volume of the driver may try against the node plugin, from a
 * container without any rights; tests/e2e/35_hostile_pods.sh. Each says what it has begun and goes
 * on until it is killed, so that nothing of it ends too early. */
#include "lib/handoff/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif
#define LINGER_S  1000000
#define SWAPS     40 /* directories that turn into links and back */
#define DEPTH     30 /* names of 200 bytes: deeper than PATH_MAX */
#define NAME_LEN  200
#define FLOODERS  16
#define PAUSE_NS  1000000
#define FULL_PIPE 65536

static void fatal(const char *what)
{
    printf("cannot: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void begun(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void begun(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("begun: ");
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout);
}

static void rest(void)
{
    const struct timespec t = {0, PAUSE_NS};
    nanosleep(&t, NULL);
}

/* ---- sockets ---- */

static int unix_socket(const char *path, bool listens, int type)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int s = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (listens) {
        unlink(path);
        if (bind(s, (struct sockaddr *)&a, sizeof a) || listen(s, 1))
            fatal(path);
        return s;
    }
    while (connect(s, (struct sockaddr *)&a, sizeof a)) /* whoever listens comes when it likes */
        rest();
    return s;
}

static int tcp_to(const char *host, const char *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
        fatal(host);
    if (connect(s, (struct sockaddr *)&a, sizeof a) == 0)
        return s;
    close(s);
    return -1;
}

static bool send_fd(int sock, const void *bytes, size_t len, int fd, int flags)
{
    struct iovec io = {(void *)(uintptr_t)bytes, len};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof fd)];
    } control = {0};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return sendmsg(sock, &m, flags | MSG_NOSIGNAL) >= 0;
}

static int receive_fd(int sock)
{
    char byte;
    int fd;
    struct iovec io = {&byte, 1};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof fd)];
    } control;
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(sock, &m, 0) <= 0 || !CMSG_FIRSTHDR(&m))
        fatal("receive a descriptor");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

static bool tell(int sock, uint32_t type, const void *payload, size_t len, int fd, int flags)
{
    struct handoff_msg m = {.type = type, .len = (uint32_t)len};
    memcpy(m.payload, payload, len);
    return send_fd(sock, &m, offsetof(struct handoff_msg, payload) + len, fd, flags);
}

static int hello(const char *path)
{
    uint32_t version = HANDOFF_VERSION;
    int sock = unix_socket(path, false, SOCK_SEQPACKET);
    tell(sock, HANDOFF_HELLO, &version, sizeof version, -1, 0);
    return sock;
}

/* ---- descriptors whose close waits ---- */

static void sink(
    char **argv) /* PORT: takes connections and never reads; they outlive who made them */
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[0]))};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(s, (struct sockaddr *)&a, sizeof a) || listen(s, 100))
        fatal("listen");
    begun("sink");
    for (;;)
        if (accept(s, NULL, NULL) < 0)
            rest();
}

static int slow_to_close(const char *host, const char *port)
{
    static char zeros[FULL_PIPE];
    struct linger l = {1, LINGER_S};
    int s;
    while ((s = tcp_to(host, port)) < 0)
        rest();
    setsockopt(s, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    fcntl(s, F_SETFL, O_NONBLOCK);
    while (write(s, zeros, sizeof zeros) > 0)
        ;
    fcntl(s, F_SETFL, 0);
    return s;
}

static void linger(char **argv) /* SOCKET HOST PORT: the last reference is in the message */
{
    static const uint32_t types[] = {HANDOFF_HELLO, HANDOFF_BACKING_OPEN, HANDOFF_RETURN_FD};
    uint32_t version = HANDOFF_VERSION;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        int sock = types[i] == HANDOFF_HELLO ? unix_socket(argv[0], false, SOCK_SEQPACKET)
                                             : hello(argv[0]);
        int fd = slow_to_close(argv[1], argv[2]);
        tell(sock, types[i], &version, sizeof version, fd, 0);
        shutdown(sock, SHUT_WR);
        close(fd);
    }
    begun("linger");
}

/* Answers what it takes to open a file, and never FLUSH. */
static void serve_without_flush(int fd)
{
    static char b[1 << 21];
    for (;;) {
        ssize_t n = read(fd, b, sizeof b);
        if (n < 0 && errno != EINTR)
            _exit(0);
        const struct fuse_in_header *h = (const void *)b;
        struct {
            struct fuse_out_header h;
            union {
                struct fuse_init_out init;
                struct fuse_attr_out attr;
                struct fuse_entry_out entry;
                struct fuse_open_out open;
            };
        } out = {.h.unique = h->unique};
        size_t len;
        if (h->opcode == FUSE_INIT) {
            out.init = (struct fuse_init_out){.major = 7, .minor = 31, .max_write = 65536};
            len = sizeof out.init;
        } else if (h->opcode == FUSE_GETATTR) {
            out.attr.attr_valid = 99;
            out.attr.attr.mode = h->nodeid == 1 ? S_IFDIR | 0755 : S_IFREG | 0644;
            out.attr.attr.nlink = 1;
            len = sizeof out.attr;
        } else if (h->opcode == FUSE_LOOKUP) {
            out.entry = (struct fuse_entry_out){.nodeid = 2,
                .attr_valid = 99,
                .entry_valid = 99,
                .attr = {.ino = 2, .mode = S_IFREG | 0644, .nlink = 1}};
            len = sizeof out.entry;
        } else if (h->opcode == FUSE_OPEN) {
            len = sizeof out.open;
        } else {
            continue;
        }
        out.h.len = (uint32_t)(sizeof out.h + len);
        if (write(fd, &out, out.h.len) < 0)
            _exit(0);
    }
}

static void hang(char **argv) /* SOCKET DIRECTORY */
{
    char options[100], file[300];
    int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fuse < 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS)) {
        begun("hang cannot be tried: %s: %s", fuse < 0 ? "/dev/fuse" : "a user namespace",
            strerror(errno)); /* then no pod can do it here */
        return;
    }
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
    if (mount("x", argv[1], "fuse", MS_NOSUID | MS_NODEV, options)) {
        begun("hang cannot be tried: mount: %s", strerror(errno));
        return;
    }
    if (fork() == 0)
        serve_without_flush(fuse);
    snprintf(file, sizeof file, "%s/f", argv[1]);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    tell(hello(argv[0]), HANDOFF_BACKING_OPEN, "", 0, fd, 0);
    begun("hang");
}

/* ---- what the plugin finds when it removes or makes something ---- */

static void give(char **argv) /* DIRECTORY SOCKET: to a pod that does not have it */
{
    int fd = open(argv[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        fatal(argv[0]);
    if (!send_fd(unix_socket(argv[1], false, SOCK_STREAM), "x", 1, fd, 0))
        fatal("give");
    begun("give");
}

static void race_rm(
    char **argv) /* SOCKET TARGET: directories turn into links while they are removed */
{
    char dir[16], link[16], file[32];
    int s = accept(unix_socket(argv[0], true, SOCK_STREAM), NULL, NULL), fd = receive_fd(s);
    for (int i = 0; i < SWAPS; i++) {
        snprintf(dir, sizeof dir, "d%d", i);
        snprintf(link, sizeof link, "s%d", i);
        if (mkdirat(fd, dir, 0700) || symlinkat(argv[1], fd, link))
            fatal("fill the directory");
        for (int k = 1; k <= SWAPS; k++) {
            snprintf(file, sizeof file, "%s/f%d", dir, k);
            close(openat(fd, file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        }
    }
    begun("race-rm");
    for (int i = 0;; i = (i + 1) % SWAPS) {
        snprintf(dir, sizeof dir, "d%d", i);
        snprintf(link, sizeof link, "s%d", i);
        syscall(SYS_renameat2, fd, dir, fd, link, RENAME_EXCHANGE);
    }
}

static void race_chmod(char **argv) /* DIRECTORY TARGET: a link in place of the plugin's socket */
{
    int fd = open(argv[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        fatal(argv[0]);
    begun("race-chmod%s", symlinkat(argv[1], fd, "x") ? " without a right to write there" : "");
    for (;;) {
        (void)!symlinkat(argv[1], fd, "x");
        renameat(fd, "x", fd, "fuse.sock");
    }
}

static void deep(char **argv) /* DIRECTORY: no path leads to the end of it */
{
    char name[NAME_LEN + 1];
    memset(name, 'a', NAME_LEN);
    name[NAME_LEN] = '\0';
    int fd = open(argv[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEPTH; i++) {
        if (mkdirat(fd, name, 0700))
            fatal("mkdir");
        int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = below;
    }
    begun("deep");
}

/* ---- too much of everything ---- */

static void drain(int sock)
{
    static char b[4096];
    while (recv(sock, b, sizeof b, MSG_DONTWAIT) > 0)
        ;
}

static void backing(char **argv) /* SOCKET FILE: the same one, again and again */
{
    int sock = hello(argv[0]), fd = open(argv[1], O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        fatal(argv[1]);
    begun("backing");
    for (;;) {
        if (!tell(sock, HANDOFF_BACKING_OPEN, "", 0, fd, MSG_DONTWAIT)) {
            rest();
            if (errno == EPIPE || errno == ECONNRESET) {
                close(sock);
                sock = hello(argv[0]);
            }
        }
        drain(sock);
    }
}

static void flood(char **argv) /* SOCKET: all that a message may be, on several connections */
{
    static const char text[400] = "what a client says goes to the log";
    int socks[FLOODERS];
    for (int i = 0; i < FLOODERS; i++)
        socks[i] = hello(argv[0]);
    begun("flood");
    for (unsigned n = 0;; n++) {
        int *sock = &socks[n % FLOODERS];
        uint32_t type = n / FLOODERS % 3 == 0 ? HANDOFF_FAILED
            : n / FLOODERS % 3 == 1           ? HANDOFF_WHO
                                              : HANDOFF_BACKING_CLOSE;
        int64_t pid = n % 300;
        bool sent = type == HANDOFF_FAILED ? tell(*sock, type, text, sizeof text, -1, MSG_DONTWAIT)
                                           : tell(*sock, type, &pid, sizeof pid, -1, MSG_DONTWAIT);
        if (!sent && (errno == EPIPE || errno == ECONNRESET)) {
            close(*sock);
            *sock = hello(argv[0]);
        }
        if (!sent)
            rest();
        drain(*sock);
    }
}

static void stall(char **argv) /* HOST PORT: heads of requests whose bodies never come */
{
    static const char head[] = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    int socks[FLOODERS];
    memset(socks, -1, sizeof socks);
    bool told = false;
    for (unsigned n = 0;; n++) {
        int *sock = &socks[n % FLOODERS];
        char b;
        if (*sock >= 0 && recv(*sock, &b, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN) {
            rest();
            continue;
        }
        if (*sock >= 0)
            close(*sock);
        *sock = tcp_to(argv[0], argv[1]);
        if (*sock >= 0 && send(*sock, head, sizeof head - 1, MSG_NOSIGNAL) > 0 && !told) {
            told = true;
            begun("stall");
        }
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int args;
        void (*run)(char **argv);
    } table[] = {{"sink", 1, sink}, {"linger", 3, linger}, {"hang", 2, hang}, {"give", 2, give},
        {"race-rm", 2, race_rm}, {"race-chmod", 2, race_chmod}, {"deep", 1, deep},
        {"backing", 2, backing}, {"flood", 1, flood}, {"stall", 2, stall}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (argc == table[i].args + 2 && strcmp(argv[1], table[i].name) == 0) {
            table[i].run(argv + 2);
            for (;;)
                pause();
        }
    printf(
        "usage: hostile sink PORT | linger SOCKET HOST PORT | hang SOCKET DIR | give DIR SOCKET | race-rm SOCKET TARGET |\n"
        "  race-chmod DIR TARGET | deep DIR | backing SOCKET FILE | flood SOCKET | stall HOST PORT\n");
    return 2;
}
