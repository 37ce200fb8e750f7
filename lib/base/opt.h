/* SPDX-License-Identifier: Apache-2.0 */
/* opt — command-line flags from one table: parser, --help and error texts. Flags are --name VALUE
 * or --name=VALUE; bools are --name or --name=false. Everything after the flags (or --) is
 * positional. */
#ifndef MILLRACE_LIB_BASE_OPT_H
#define MILLRACE_LIB_BASE_OPT_H

#include "lib/base/buf.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum opt_type {
    OPT_STRING,
    OPT_INT,
    OPT_BOOL,
    OPT_BYTES /* quantity, or as human_bytes() prints it → int64 */,
    OPT_SECONDS /* "90", "1m30s", "200ms" → int64 ns */
};

struct opt {
    const char *name; /* without dashes */
    enum opt_type type;
    void *value;      /* const char ** | int64_t * | bool *; holds the default */
    const char *arg;  /* placeholder in --help, as "DIR"; of "a|b" one is taken; NULL for bools */
    const char *help; /* one line; the default is appended by opt_help */
};

/* Parses argv[1..argc). *first_positional: index of the first positional argument. INVALID names
 * the flag and the remedy. String values point into argv. `--help` is not handled here: the caller
 * lists it as a bool. */
int opt_parse(
    const struct opt *table, size_t n, int argc, char **argv, int *first_positional, struct err *e);
/* " (default X)", if it has one that is worth a word */
void opt_add_default(struct buf *out, const struct opt *o);
/* caller frees */
char *opt_help(const struct opt *table, size_t n, const char *usage, const char *about);

#endif
