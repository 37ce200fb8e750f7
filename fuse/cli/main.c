/* SPDX-License-Identifier: Apache-2.0 */
/* millrace — datasets on a machine without Kubernetes, and a look at stores and mounts. */
#include "fuse/cli/cli.h"

#include "lib/base/log.h"
#include "lib/base/program.h"

#include <signal.h>
#include <string.h>

int main(int argc, char **argv)
{
    log_init("millrace", LOG_WARN);
    log_plain();
    cli_called(argv[0]);
    program_limits();
    signal(SIGPIPE, SIG_DFL); /* `millrace ls … | head` ends quietly */
    if (argc < 2) {
        help_overview(stderr);
        return CLI_MISUSE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0)
        name = "version";
    const struct verb *v = verb_find(name);
    if (v)
        return cli_finish(v->run(v, argc - 1, argv + 1));
    return verb_unknown(name);
}
