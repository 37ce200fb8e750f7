/* SPDX-License-Identifier: Apache-2.0 */
/* hint: hands a list of paths over to the mount. */
#include "fuse/cli/cli.h"

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/ioctl.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hint_sender {
    int dir_fd;
    const char *dir;
    char *real; /* dir as an absolute path, with a slash at the end; NULL if unknown */
    struct hint_msg msg;
    uint64_t paths;
};

static int send_message(struct hint_sender *s, struct err *e)
{
    if (s->msg.len && ioctl(s->dir_fd, HINT_IOCTL, &s->msg))
        return errno == ENOTTY ? err_set(e, ERR_INVALID, "%s is not on a mount of millrace", s->dir)
            : errno == ENOSPC || errno == ENOMEM ? err_set(e, ERR_EXHAUSTED,
                  "the client of %s has no room for more of the list (%" PRIu64
                  " paths so far): give it in parts, as the "
                  "job goes on",
                  s->dir, s->paths)
                                                 : err_sys(e, errno, "hand the list to %s", s->dir);
    s->msg.len = 0;
    return 0;
}

static int send_text(struct hint_sender *s, const char *text, size_t len, struct err *e)
{
    while (len) {
        size_t part = MIN(len, sizeof s->msg.text - s->msg.len);
        memcpy(s->msg.text + s->msg.len, text, part);
        s->msg.len += (uint32_t)part;
        text += part;
        len -= part;
        if (s->msg.len == sizeof s->msg.text && send_message(s, e))
            return -1;
    }
    return 0;
}

/* A path that begins with the directory is taken for one below it. */
static const char *path_below(const struct hint_sender *s, const char *line)
{
    size_t dir = strlen(s->dir), real = s->real ? strlen(s->real) : 0;
    if (*line != '/')
        return line;
    if (real && strncmp(line, s->real, real) == 0)
        return line + real;
    return *s->dir == '/' && strncmp(line, s->dir, dir) == 0 && line[dir] == '/' ? line + dir + 1
                                                                                 : line;
}

static int send_list(struct hint_sender *s, FILE *in, const char *name, struct err *e)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int rc = 0;
    while (rc == 0 && (n = getline(&line, &cap, in)) > 0) {
        if (line[n - 1] == '\n')
            n--;
        const char *path = path_below(s, line);
        rc = send_text(s, path, (size_t)n - (size_t)(path - line), e) || send_text(s, "\n", 1, e)
            ? -1
            : 0;
        s->paths += n > 0;
    }
    free(line);
    if (rc == 0 && ferror(in))
        rc = err_sys(e, errno, "read %s", name);
    return rc || send_message(s, e) ? -1 : 0;
}

static int hint_open(struct hint_sender *s, const char *dir, struct err *e)
{
    uint64_t seed[2] = {(uint64_t)clock_real_ns(), (uint64_t)getpid()};
    s->dir = dir;
    s->msg.list = hash64(seed, sizeof seed);
    s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir_fd < 0)
        return err_sys(e, errno, "%s", dir);
    cleanup_free char *real = realpath(dir, NULL);
    s->real = real ? xasprintf("%s%s", real, strcmp(real, "/") == 0 ? "" : "/") : NULL;
    return 0;
}

int verb_hint(const struct verb *v, int argc, char **argv)
{
    cleanup_args struct args a;
    int rc = args_parse(&a, v, NULL, 0, argc, argv);
    if (rc >= 0)
        return rc;
    struct err e = ERR_INIT;
    struct hint_sender *s = xcalloc(1, sizeof *s);
    bool from_stdin = strcmp(a.pos[1], "-") == 0;
    cleanup_file FILE *file = from_stdin ? NULL : fopen(a.pos[1], "re");
    s->dir_fd = -1;
    if (!from_stdin && !file)
        rc = err_sys(&e, errno, "%s", a.pos[1]);
    else
        rc = hint_open(s, a.pos[0], &e) || send_list(s, file ? file : stdin, a.pos[1], &e) ? -1 : 0;
    if (rc == 0)
        printf("%" PRIu64 " paths\n", s->paths);
    if (s->dir_fd >= 0)
        close(s->dir_fd);
    free(s->real);
    free(s);
    return rc ? cli_failed(&e) : CLI_DONE;
}
