/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/program.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define FDS_MOST (1u << 20)

int program_misuse(const struct program *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cleanup_free char *text = xvasprintf(fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s: %s\n", p->name, text);
    return PROGRAM_MISUSE;
}

int program_flags(
    const struct program *p, const struct opt *table, size_t n, int argc, char **argv, int *first)
{
    bool help = false, version = false;
    const char *level_text = "info";
    const struct opt common[] = {
        {"log-level", OPT_STRING, &level_text, "LEVEL", "debug, info, warn or error"},
        {"version", OPT_BOOL, &version, NULL, "print the version"},
        {"help", OPT_BOOL, &help, NULL, "print this"},
    };
    struct err e = ERR_INIT;
    enum log_level level;
    int rest;
    size_t all = n + ARRAY_LEN(common);
    cleanup_free struct opt *opts = xcalloc(all, sizeof *opts);
    memcpy(opts, table, n * sizeof *opts);
    memcpy(opts + n, common, sizeof common);
    cleanup_free char *help_text = opt_help(opts, all, p->usage, p->about); /* of the defaults */
    if (opt_parse(opts, all, argc, argv, &rest, &e))
        return program_misuse(p, "%s", e.msg);
    if (help || version) {
        printf("%s%s", help ? help_text : p->name, help ? "" : " " MILLRACE_VERSION "\n");
        return 0;
    }
    if (!p->arguments && rest < argc)
        return program_misuse(p, "unexpected argument \"%s\"; --help lists the flags", argv[rest]);
    if (log_level_parse(level_text, &level))
        return program_misuse(p, "--log-level must be debug, info, warn or error");
    log_init(p->component, level);
    if (p->arguments)
        *first = rest;
    return -1;
}

void program_limits(void)
{
    /* credentials are in our memory, and a node keeps what crashes */
    const struct rlimit none = {0, 0};
    const char *dumps = getenv(ENV_CORE_DUMPS);
    if (!dumps || strcmp(dumps, "true") != 0)
        setrlimit(RLIMIT_CORE, &none);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FDS_MOST) {
        files.rlim_cur = MIN(files.rlim_max, (rlim_t)FDS_MOST);
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

void program_start(sigset_t *stop)
{
    program_limits();
    sigemptyset(stop);
    sigaddset(stop, SIGTERM);
    sigaddset(stop, SIGINT);
    pthread_sigmask(SIG_BLOCK, stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    mallopt(M_ARENA_MAX, 2);
}
