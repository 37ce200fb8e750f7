/* SPDX-License-Identifier: Apache-2.0 */
/* delay_relay — a distant server: TCP connections to it take MS milliseconds for a round trip. Each
 * direction holds what it read back for half of that; what a new connection says first waits a
 * round trip more, as a handshake would take. The rate is not limited; up to 8 MiB a direction are
 * on their way. delay_relay ADDRESS PORT TO-ADDRESS TO-PORT MS   serves until it is killed. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PARTS = 512, PART = 16 * 1024 };

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

struct part {
    int64_t due; /* us */
    size_t begin, end;
    char data[PART];
};

/* One direction of a connection. */
struct flow {
    int from, to;
    int64_t delay, first; /* us; nothing is due before FIRST */
    unsigned head, tail;  /* parts head … tail - 1 are on their way */
    bool eof, told;       /* FROM has ended; TO was told */
    int64_t eof_due;
    struct part parts[PARTS];
};

static int64_t due_now(const struct flow *f)
{
    int64_t due = now_us() + f->delay;
    return due > f->first ? due : f->first;
}

/* False: the connection is broken. */
static bool flow_read(struct flow *f)
{
    if (f->eof || f->tail - f->head == PARTS)
        return true;
    struct part *p = &f->parts[f->tail % PARTS];
    ssize_t n = recv(f->from, p->data, PART, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0) {
        f->eof = true;
        f->eof_due = due_now(f);
        return true;
    }
    p->begin = 0;
    p->end = (size_t)n;
    p->due = due_now(f);
    f->tail++;
    return true;
}

static bool flow_write(struct flow *f)
{
    while (f->head != f->tail) {
        struct part *p = &f->parts[f->head % PARTS];
        if (p->due > now_us())
            return true;
        ssize_t n = send(f->to, p->data + p->begin, p->end - p->begin, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        p->begin += (size_t)n;
        if (p->begin == p->end)
            f->head++;
    }
    if (!f->eof || f->told || f->eof_due > now_us())
        return true;
    f->told = true;
    return shutdown(f->to, SHUT_WR) == 0;
}

/* What to poll for, and the earlier of UNTIL and when something of the flow is due. */
static int64_t flow_wants(
    const struct flow *f, struct pollfd *from, struct pollfd *to, int64_t until)
{
    int64_t due = INT64_MAX;
    if (!f->eof && f->tail - f->head < PARTS)
        from->events |= POLLIN;
    if (f->head != f->tail)
        due = f->parts[f->head % PARTS].due;
    else if (f->eof && !f->told)
        due = f->eof_due;
    if (due > now_us())
        return due < until ? due : until;
    if (due != INT64_MAX)
        to->events |= POLLOUT;
    return until;
}

static void join(int a, int b, int64_t round_us)
{
    static struct flow there, back; /* this process serves one connection */
    there = (struct flow){.from = a, .to = b, .delay = round_us / 2};
    back = (struct flow){.from = b, .to = a, .delay = round_us / 2};
    there.first = now_us() + round_us + round_us / 2;
    while (!there.told || !back.told) {
        struct pollfd fds[2] = {{.fd = a}, {.fd = b}};
        int64_t until = flow_wants(&there, &fds[0], &fds[1], INT64_MAX);
        until = flow_wants(&back, &fds[1], &fds[0], until);
        int64_t wait = until == INT64_MAX ? -1 : until - now_us();
        struct timespec t = {wait > 0 ? wait / 1000000 : 0, wait > 0 ? wait % 1000000 * 1000 : 0};
        if (ppoll(fds, 2, until == INT64_MAX ? NULL : &t, NULL) < 0 && errno != EINTR)
            return;
        if (!flow_read(&there) || !flow_read(&back) || !flow_write(&there) || !flow_write(&back))
            return;
        if (((fds[0].revents | fds[1].revents) & (POLLERR | POLLNVAL)) != 0)
            return;
    }
}

static struct sockaddr_in address(const char *host, const char *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, host, &at.sin_addr) != 1)
        fail(host);
    return at;
}

static int socket_new(void)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fputs("usage: delay_relay ADDRESS PORT TO-ADDRESS TO-PORT MS\n", stderr);
        return 2;
    }
    struct sockaddr_in at = address(argv[1], argv[2]), to = address(argv[3], argv[4]);
    int64_t round_us = (int64_t)(atof(argv[5]) * 1000);
    int listener = socket_new();
    if (bind(listener, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(listener, 256) != 0)
        fail("listen");
    signal(SIGCHLD, SIG_IGN); /* nobody waits for the connections' processes */
    for (;;) {
        int on = 1, fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue; /* that connection is gone */
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(listener);
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
            int out = socket_new();
            if (connect(out, (const struct sockaddr *)&to, sizeof(to)) != 0)
                fail("connect");
            join(fd, out, round_us);
            _exit(0);
        }
        close(fd);
    }
}
