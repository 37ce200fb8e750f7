/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the handoff, small and without libfuse, for the node plugin's own tests: it serves
 * one file, "f", 1 MiB, from the cache directory, by passthrough if the plugin registers it. It
 * does the whole contract: INIT saved and replayed, resent requests, the fd returned to a restarted
 * plugin. handoff_client --socket PATH --cache-dir DIR [--secrets-dir DIR] Environment:
 * FAKE_FAIL=TEXT: says that it cannot serve; FAKE_SLEEP_MS: each READ takes so long;
 * FAKE_SLEEP_OPEN_MS: each OPEN; FAKE_TRACE=FILE: appends a line per event; FAKE_DIE_WITH_PARENT:
 * does; FAKE_OLD: knows no pings; FAKE_DEAF: does not answer them. */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/handoff/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILE_BYTES   (1u << 20)
#define BUFFER_BYTES (FILE_BYTES + 65536)
/* newer than Debian 12's linux/fuse.h */
#define INIT2_PASSTHROUGH (1u << 5)
#define INIT2_RESEND      (1u << 7)
#define OPEN_PASSTHROUGH  (1u << 7)
/* as ours opens for reading: who is killed does not wait for a FLUSH */
#define OPEN_NOFLUSH   (1u << 5)
#define NOTIFY_RESEND  7
#define INIT_EXT       (1u << 30)
#define AT_STACK_DEPTH 36 /* of fuse_init_out … */
/* … and fuse_open_out: their names depend on the header's age */
#define AT_BACKING_ID 12

static const char *socket_path, *cache_dir;
static int sock = -1, fuse = -1, file = -1;
static int64_t backing;
static FILE *trace_file;

static void trace(const char *what, int64_t value)
{
    if (!trace_file)
        return;
    fprintf(trace_file, "%d %s %lld\n", (int)getpid(), what, (long long)value);
    fflush(trace_file);
}

static void reply(uint64_t unique, int error, const void *data, size_t len)
{
    struct fuse_out_header h = {
        .len = (uint32_t)(sizeof h + len), .error = error, .unique = unique};
    struct iovec v[2] = {{&h, sizeof h}, {(void *)(uintptr_t)data, len}};
    if (writev(fuse, v, len ? 2 : 1) < 0)
        trace("reply", errno);
}

static void attr_of(uint64_t node, struct fuse_attr *a)
{
    *a = (struct fuse_attr){
        .ino = node, .nlink = 1, .blksize = 4096, .mode = S_IFREG | 0644, .size = FILE_BYTES};
    if (node == FUSE_ROOT_ID)
        a->mode = S_IFDIR | 0755;
}

static void do_init(const struct fuse_in_header *in, size_t len)
{
    const struct fuse_init_in *i = (const void *)(in + 1);
    struct err e = ERR_INIT;
    if (handoff_send(sock, HANDOFF_INIT, in, len, -1, &e))
        trace("init not sent", 0);
    struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
        .minor = FUSE_KERNEL_MINOR_VERSION,
        .max_readahead = i->max_readahead,
        .flags = FUSE_ASYNC_READ | FUSE_MAX_PAGES | INIT_EXT,
        .max_background = 16,
        .congestion_threshold = 12,
        .max_write = FILE_BYTES,
        .time_gran = 1,
        .max_pages = 256};
    if ((i->flags & INIT_EXT) && (i->flags2 & INIT2_PASSTHROUGH)) {
        out.flags2 |= INIT2_PASSTHROUGH | INIT2_RESEND;
        memcpy((char *)&out + AT_STACK_DEPTH, &(uint32_t){2}, sizeof(uint32_t));
    }
    reply(in->unique, 0, &out, sizeof out);
}

static bool pong(void)
{
    struct err e = ERR_INIT;
    return getenv("FAKE_DEAF") || handoff_send(sock, HANDOFF_PONG, NULL, 0, -1, &e) == 0;
}

static int64_t ask_backing(void)
{
    struct err e = ERR_INIT;
    struct handoff_msg m;
    int fd;
    int64_t id = -EIO;
    if (sock >= 0 && handoff_send(sock, HANDOFF_BACKING_OPEN, NULL, 0, file, &e) == 0) {
        int rc = handoff_recv(sock, NULL, &m, &fd, &e);
        while (rc == 1 && m.type == HANDOFF_PING && pong())
            rc = handoff_recv(sock, NULL, &m, &fd, &e);
        if (rc == 1 && m.type == HANDOFF_BACKING)
            memcpy(&id, m.payload, sizeof id);
    }
    trace("backing", id);
    return id;
}

static void do_open(const struct fuse_in_header *in)
{
    struct fuse_open_out out = {.fh = 7, .open_flags = FOPEN_KEEP_CACHE | OPEN_NOFLUSH};
    const char *ms = getenv("FAKE_SLEEP_OPEN_MS");
    if (ms) {
        trace("opening", 0);
        clock_sleep_ns(atoll(ms) * NS_PER_MS);
    }
    if (backing == 0)
        backing = ask_backing();
    if (backing > 0) {
        out.open_flags = OPEN_PASSTHROUGH;
        memcpy((char *)&out + AT_BACKING_ID, &(int32_t){(int32_t)backing}, sizeof(int32_t));
    }
    reply(in->unique, 0, &out, sizeof out);
}

static void do_read(const struct fuse_in_header *in)
{
    const struct fuse_read_in *r = (const void *)(in + 1);
    const char *ms = getenv("FAKE_SLEEP_MS");
    if (ms) {
        trace("reading", (int64_t)r->offset);
        clock_sleep_ns(atoll(ms) * NS_PER_MS);
    }
    cleanup_free char *data = xmalloc(r->size + 1);
    ssize_t n = pread(file, data, r->size, (off_t)r->offset);
    trace("read", (int64_t)r->offset);
    reply(in->unique, n < 0 ? -EIO : 0, data, n < 0 ? 0 : (size_t)n);
}

static void do_readdir(const struct fuse_in_header *in)
{
    const struct fuse_read_in *r = (const void *)(in + 1);
    struct {
        struct fuse_dirent d;
        char name[8];
    } entry = {.d = {.ino = 2, .off = 1, .namelen = 1, .type = S_IFREG >> 12}, .name = "f"};
    reply(in->unique, 0, &entry, r->offset == 0 ? sizeof entry : 0);
}

static void handle(const struct fuse_in_header *in, size_t len)
{
    const char *arg = (const char *)(in + 1);
    struct fuse_entry_out entry = {.nodeid = 2, .entry_valid = 3600, .attr_valid = 3600};
    struct fuse_attr_out attr = {.attr_valid = 3600};
    struct fuse_open_out opened = {0};
    struct fuse_statfs_out fs = {.st = {.blocks = 1000,
                                     .bfree = 400,
                                     .bavail = 400,
                                     .files = 10,
                                     .ffree = 5,
                                     .bsize = 4096,
                                     .namelen = 255}};
    if (in->unique >> 63)
        trace("resent", in->opcode);
    switch (in->opcode) {
    case FUSE_INIT:
        do_init(in, len);
        return;
    case FUSE_LOOKUP:
        attr_of(2, &entry.attr);
        reply(in->unique, strcmp(arg, "f") ? -ENOENT : 0, &entry,
            strcmp(arg, "f") ? 0 : sizeof entry);
        return;
    case FUSE_GETATTR:
        attr_of(in->nodeid, &attr.attr);
        reply(in->unique, 0, &attr, sizeof attr);
        return;
    case FUSE_OPEN:
        do_open(in);
        return;
    case FUSE_OPENDIR:
        reply(in->unique, 0, &opened, sizeof opened);
        return;
    case FUSE_READ:
        do_read(in);
        return;
    case FUSE_READDIR:
        do_readdir(in);
        return;
    case FUSE_STATFS:
        reply(in->unique, 0, &fs, sizeof fs);
        return;
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_FLUSH:
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR:
    case FUSE_SYNCFS:
        reply(in->unique, 0, NULL, 0);
        return;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        return;
    default:
        reply(in->unique, -ENOSYS, NULL, 0);
    }
}

static void greet(bool have_fd)
{
    struct err e = ERR_INIT;
    struct handoff_hello hello = {HANDOFF_VERSION, getenv("FAKE_OLD") ? 0 : HANDOFF_CAN_PONG};
    if ((sock = handoff_connect(socket_path, &e)) < 0)
        return; /* tried again later: meanwhile the mount is served */
    handoff_send(
        sock, HANDOFF_HELLO, &hello, hello.can ? sizeof hello : sizeof hello.version, -1, &e);
    if (!have_fd)
        return;
    handoff_send(sock, HANDOFF_RETURN_FD, NULL, 0, fuse, &e);
    handoff_send(sock, HANDOFF_SERVING, NULL, 0, -1, &e);
    trace("returned", 0);
}

static bool on_socket(void)
{
    struct err e = ERR_INIT;
    struct handoff_msg m;
    int fd;
    if (handoff_recv(sock, NULL, &m, &fd, &e) != 1) {
        close(sock);
        sock = -1;
        return true;
    }
    if (m.type == HANDOFF_PING) {
        pong(); /* a plugin that has gone is connected to again */
        return true;
    }
    if (m.type == HANDOFF_LOST) {
        trace("lost", ((const struct handoff_lost *)(const void *)m.payload)->at_s);
        return true;
    }
    if (m.type != HANDOFF_WELCOME || fd < 0)
        return false;
    const char *fail = getenv("FAKE_FAIL");
    const struct handoff_welcome *w = (const void *)m.payload;
    trace("welcome", w->init_len);
    if (fail)
        return handoff_send(sock, HANDOFF_FAILED, fail, strlen(fail), -1, &e) == 0;
    fuse = fd;
    if (w->init_len) {
        struct fuse_out_header resend = {.len = sizeof resend, .error = NOTIFY_RESEND};
        if (write(fuse, &resend, sizeof resend) < 0)
            trace("resend", errno);
        handoff_send(sock, HANDOFF_SERVING, NULL, 0, -1, &e);
    }
    return true;
}

static void on_fuse(char *buffer)
{
    struct err e = ERR_INIT;
    ssize_t n = read(fuse, buffer, BUFFER_BYTES);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
        return;
    if (n < 0) { /* the mount is gone */
        trace("fuse", errno);
        close(fuse);
        fuse = -1;
        backing = 0;
        return;
    }
    const struct fuse_in_header *in = (const void *)buffer;
    handle(in, (size_t)n);
    if (in->opcode == FUSE_INIT)
        handoff_send(sock, HANDOFF_SERVING, NULL, 0, -1, &e);
}

static void open_file(void)
{
    cleanup_free char *path = xasprintf("%s/f", cache_dir);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    struct stat st;
    if (file < 0 || fstat(file, &st))
        exit(3);
    if (st.st_size == FILE_BYTES)
        return;
    cleanup_free char *data = xmalloc(FILE_BYTES);
    for (unsigned i = 0; i < FILE_BYTES; i++)
        data[i] = (char)(i * 2654435761u >> 24);
    if (pwrite(file, data, FILE_BYTES, 0) != FILE_BYTES)
        exit(3);
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--socket") == 0)
            socket_path = argv[i + 1];
        if (strcmp(argv[i], "--cache-dir") == 0)
            cache_dir = argv[i + 1];
    }
    if (!socket_path || !cache_dir)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    if (getenv("FAKE_DIE_WITH_PARENT"))
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getenv("FAKE_TRACE"))
        trace_file = fopen(getenv("FAKE_TRACE"), "ae");
    trace("started", 0);
    open_file();
    char *buffer = xmalloc(BUFFER_BYTES);
    for (;;) {
        if (sock < 0)
            greet(fuse >= 0);
        struct pollfd p[2] = {{.fd = sock, .events = POLLIN}, {.fd = fuse, .events = POLLIN}};
        poll(p, 2, sock < 0 ? 20 : -1);
        if (p[1].fd >= 0 && p[1].revents)
            on_fuse(buffer);
        if (sock >= 0 && p[0].revents && !on_socket())
            return 1;
    }
}
