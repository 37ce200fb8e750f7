/* SPDX-License-Identifier: Apache-2.0 */
/* Text from elsewhere on a person's terminal: messages of Events, conditions, names of files. */
#include "fuse/cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Bytes of the character at p that a terminal would obey instead of showing: controls, and what
 * turns the direction of writing; 0: it is none. */
static size_t obeyed(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    if ((u[0] < ' ' && u[0] != '\n' && u[0] != '\t') || u[0] == 0x7f)
        return 1;
    if (u[0] == 0xc2 && u[1] >= 0x80 && u[1] <= 0x9f)
        return 2;
    bool turns = u[0] == 0xe2
        && ((u[1] == 0x80 && ((u[2] >= 0xaa && u[2] <= 0xae) || u[2] == 0x8e || u[2] == 0x8f))
            || (u[1] == 0x81 && u[2] >= 0xa6 && u[2] <= 0xa9));
    return turns ? 3 : 0;
}

void cli_put(FILE *out, const char *text)
{
    for (const char *p = text; *p;) {
        size_t n = obeyed(p);
        fputc(n ? '?' : *p, out);
        p += n ? n : 1;
    }
}

void cli_put_name(const char *name)
{
    if (isatty(STDOUT_FILENO))
        cli_put(stdout, name);
    else
        fputs(name, stdout);
}

/* The signal itself is ignored where servers are asked: it may be of their connections. */
void cli_end_if_closed(int sys)
{
    if (sys != EPIPE)
        return;
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

void cli_end_if_unread(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (ferror(stdout) && poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP)))
        cli_end_if_closed(EPIPE);
}
