/* SPDX-License-Identifier: Apache-2.0 */
/* program — what every program of ours does before its own work: flags, --help and --version, the
 * log, signals. */
#ifndef MILLRACE_LIB_BASE_PROGRAM_H
#define MILLRACE_LIB_BASE_PROGRAM_H

#include "lib/base/opt.h"

#include <signal.h>

#define PROGRAM_MISUSE 2

struct program {
    const char *name;          /* "millrace-worker" */
    const char *component;     /* in the log */
    const char *usage, *about; /* of --help */
    bool arguments;            /* some may follow the flags */
};

/* Parses the flags of the table, and --log-level, --version and --help, which are added to it;
 * starts the log. -1: go on; else the status to exit with, when all is said: 0 or PROGRAM_MISUSE.
 * *first: as opt_parse's; NULL where arguments is false. */
int program_flags(
    const struct program *p, const struct opt *table, size_t n, int argc, char **argv, int *first);
/* Writes "NAME: …" to stderr; returns PROGRAM_MISUSE. */
int program_misuse(const struct program *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Before any thread starts: blocks SIGTERM and SIGINT, for one thread to take them from *stop,
 * ignores SIGPIPE, and keeps malloc to few arenas: our threads are many and idle mostly, an arena
 * each would only scatter the heap. program_limits(), too. */
void program_start(sigset_t *stop);
/* For this process and those that it starts: no core dumps, unless ENV_CORE_DUMPS says so, and as
 * many descriptors as it may have. What starts containers gives them 1024 at first, for programs
 * that call select(); we need some for each volume, cached file and connection. */
void program_limits(void);

#endif
