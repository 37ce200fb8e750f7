/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay — the cluster's API on the host's loopback. The API server listens in a network namespace
 * that nobody outside can reach; a listening socket made outside and inherited by a process inside
 * is the door. relay listen PORT-FILE COMMAND…   listens on a free port of 127.0.0.1, writes its
 * number, runs COMMAND with the socket as descriptor 3 relay serve HOST PORT             accepts on
 * descriptor 3 and joins each connection with one to HOST:PORT
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LISTEN_FD = 3 };

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* One direction of a connection: what was read and is not written yet. */
struct flow {
    int from, to;
    size_t begin, end;
    bool eof; /* FROM has ended, and TO was told */
    char data[64 * 1024];
};

/* Moves what can be moved without waiting. False: the connection is broken. */
static bool flow_move(struct flow *f)
{
    if (f->begin == f->end && !f->eof) {
        ssize_t n = recv(f->from, f->data, sizeof(f->data), MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0) {
            f->eof = true;
            return shutdown(f->to, SHUT_WR) == 0;
        }
        f->begin = 0;
        f->end = (size_t)n;
    }
    while (f->begin < f->end) {
        ssize_t n = send(f->to, f->data + f->begin, f->end - f->begin, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        f->begin += (size_t)n;
    }
    return true;
}

static void flow_wants(const struct flow *f, struct pollfd *from, struct pollfd *to)
{
    if (f->begin < f->end)
        to->events |= POLLOUT;
    else if (!f->eof)
        from->events |= POLLIN;
}

/* Joins the two sockets until both directions have ended, or one breaks. */
static void join(int a, int b)
{
    static struct flow there, back; /* this process serves one connection */
    there = (struct flow){.from = a, .to = b};
    back = (struct flow){.from = b, .to = a};
    while (!there.eof || !back.eof) {
        struct pollfd fds[2] = {{.fd = a}, {.fd = b}};
        flow_wants(&there, &fds[0], &fds[1]);
        flow_wants(&back, &fds[1], &fds[0]);
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return;
        if (!flow_move(&there) || !flow_move(&back))
            return;
        if (((fds[0].revents | fds[1].revents) & (POLLERR | POLLNVAL)) != 0)
            return;
    }
}

static int dial(const struct sockaddr_in *to)
{
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)) != 0)
        fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static int serve(const char *host, const char *port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1)
        fail(host);
    signal(SIGCHLD, SIG_IGN); /* nobody waits for the connections' processes */
    for (;;) {
        int on = 1;
        int fd = accept(LISTEN_FD, NULL, NULL);
        if (fd < 0) {
            if (errno == EBADF || errno == ENOTSOCK)
                fail("accept");
            continue; /* that connection is gone */
        }
        if (fork() == 0) {
            close(LISTEN_FD);
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
            join(fd, dial(&to));
            _exit(0);
        }
        close(fd);
    }
}

static int listen_and_run(const char *file, char **command)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) != 0 || listen(fd, 256) != 0
        || getsockname(fd, (struct sockaddr *)&at, &len) != 0)
        fail("a listening socket on 127.0.0.1");
    if (fd != LISTEN_FD && (dup2(fd, LISTEN_FD) != LISTEN_FD || close(fd) != 0))
        fail("dup2");
    FILE *out = fopen(file, "w");
    if (out == NULL || fprintf(out, "%d\n", ntohs(at.sin_port)) < 0 || fclose(out) != 0)
        fail(file);
    execvp(command[0], command);
    fail(command[0]);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "listen") == 0)
        return listen_and_run(argv[2], argv + 3);
    if (argc == 4 && strcmp(argv[1], "serve") == 0)
        return serve(argv[2], argv[3]);
    fputs("usage: relay listen PORT-FILE COMMAND… | relay serve HOST PORT\n", stderr);
    return 2;
}
