/* SPDX-License-Identifier: Apache-2.0 */
/* cli — what the verbs of `millrace` share. Exit statuses: 0 done, 1 failed, 2 misuse. */
#ifndef MILLRACE_FUSE_CLI_CLI_H
#define MILLRACE_FUSE_CLI_CLI_H

#include "fuse/store/store.h"
#include "lib/base/err.h"
#include "lib/base/opt.h"
#include "lib/conf/conf.h"

#include <stdbool.h>
#include <stddef.h>

enum cli_exit { CLI_DONE = 0, CLI_FAILED = 1, CLI_MISUSE = 2 };

/* -- command lines --------------------------------------------------------------------------- */

struct args {
    const char *secrets_dir;      /* --secrets-dir, or NULL */
    struct conf_pair options[32]; /* --option key=value; both point into one owned string */
    size_t noptions;
    char **pos; /* positional arguments, borrowed from argv */
    int npos;
    char **order; /* owned */
};

struct usage {
    const char *line; /* "millrace ls [flags] URL" */
    const char *about;
    int min_pos, max_pos;
    bool store; /* takes --option and --secrets-dir */
};

/* Flags may stand anywhere, and --option may be repeated. Returns -1 to go on, else the exit
 * status: 0 after --help, 2 after an error, which has been told. args_free() in any case. */
int args_parse(struct args *a, const struct usage *u, const struct opt *table, size_t n, int argc,
    char **argv);
void args_free(struct args *a);
#define cleanup_args __attribute__((cleanup(args_free)))

/* "millrace: TEXT" on stderr; returns CLI_FAILED (CLI_MISUSE with say_misuse). */
int say_failed(const struct err *e);
int say_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* -- stores ---------------------------------------------------------------------------------- */

bool is_url(const char *text);
/* The JSON of fuse/conf.h for one store; caller frees. NULL: a secret is on the command line, or
 * the like (INVALID). */
struct conf_wish {
    const char *url, *name;
    bool read_only;
    int64_t memory, disk;             /* quotas in bytes, 0: none */
    const char *write_type, *profile; /* NULL: default */
    int64_t metadata_sync_ns;         /* 0: default */
};
char *conf_text(const struct args *a, const struct conf_wish *w, struct err *e);

struct target {
    struct conf *conf;
    struct store *store;
    char *path; /* of the object within the store; "" for all of it */
};
/* whole: the URL is the store's root; else its last component is the path. */
int target_open(struct target *t, const struct args *a, const char *url, bool whole, bool read_only,
    struct err *e);
void target_close(struct target *t);
#define cleanup_target __attribute__((cleanup(target_close)))

/* -- verbs: argv[0] is the verb -------------------------------------------------------------- */

int verb_mount(int argc, char **argv);
int verb_umount(int argc, char **argv);
int verb_ls(int argc, char **argv);
int verb_cp(int argc, char **argv);
int verb_stat(int argc, char **argv);
int verb_check(int argc, char **argv);
int verb_hint(int argc, char **argv);
int verb_load(int argc, char **argv);
int verb_pin(int argc, char **argv);
int verb_unpin(int argc, char **argv);
int verb_free(int argc, char **argv);

#endif
