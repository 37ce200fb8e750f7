/* SPDX-License-Identifier: Apache-2.0 */
/* cli — what the verbs of `millrace` share. Exit statuses: 0 done, 1 failed, 2 misuse; of `why`, 3:
 * something waits, is slow or fails. */
#ifndef MILLRACE_FUSE_CLI_CLI_H
#define MILLRACE_FUSE_CLI_CLI_H

#include "fuse/store/store.h"
#include "lib/base/err.h"
#include "lib/base/opt.h"
#include "lib/conf/conf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum cli_exit { CLI_DONE = 0, CLI_FAILED = 1, CLI_MISUSE = 2, CLI_FOUND = 3 };

/* How we were called, for what a person is to type: "millrace", "kubectl millrace". */
const char *cli_name(void);
void cli_called(const char *argv0);
/* The text with "millrace VERB" in it as a person has to type that. Caller frees. */
char *cli_words(const char *text);

/* "millrace: TEXT" on stderr, as we were called; returns CLI_FAILED (CLI_MISUSE with cli_misuse).
 */
int cli_failed(const struct err *e);
/* At the end of a verb: what it printed is out, or why not is told and it has failed. */
int cli_finish(int status);
int cli_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* terminal.c: text from elsewhere, for people: what a terminal would obey is a "?" */
void cli_put(FILE *out, const char *text);
void cli_put_name(const char *name); /* on stdout; as it is, if that is no terminal */
/* Writing to stdout has failed: where nobody reads it any more, the process ends by SIGPIPE. */
void cli_end_if_closed(int sys);
/* The same of what stdio could not write so far: whoever prints long lists asks now and then. */
void cli_end_if_unread(void);

/* -- verbs (verbs.c) ------------------------------------------------------------------------- */

/* One row makes the dispatcher, usage, help, man page and completion. Flags are in a table of
 * struct opt in the verb's function. Texts may have `code` in them, and blank lines between
 * paragraphs. */
struct verb {
    const char *name;
    const char *args;  /* "SRC DST"; FILE, DIR and PATH are completed as such, "a|b" as words */
    const char *brief; /* half a line, without a full stop */
    const char *about; /* sentences */
    int min_pos, max_pos;
    bool store; /* takes --option and --secrets-dir */
    /* argv[0] is the verb; returns an exit status */
    int (*run)(const struct verb *v, int argc, char **argv);
};
extern const struct verb verbs[];               /* up to one without a name */
const struct verb *verb_find(const char *name); /* NULL: none; help.c */
/* "there is no verb 'mout'; mount is one"; CLI_MISUSE */
int verb_unknown(const char *name);
/* similar.c: letters to insert, remove or replace to get from a to b */
unsigned name_edits(const char *a, const char *b);

/* -- command lines (args.c) ------------------------------------------------------------------ */

struct args {
    const char *secrets_dir;      /* --secrets-dir, or NULL */
    struct conf_pair options[32]; /* --option key=value; both point into one owned string */
    size_t noptions;
    struct conf_pair also[16]; /* --also URL=PATH, likewise; of verbs whose table has it */
    size_t nalso;
    char **pos; /* positional arguments, borrowed from argv */
    int npos;
    char **order; /* owned */
};

/* Flags may stand anywhere, and --option may be repeated. Returns -1 to go on, else the exit
 * status: 0 after --help, 2 after an error, which has been printed. args_free() in any case. */
int args_parse(
    struct args *a, const struct verb *v, const struct opt *table, size_t n, int argc, char **argv);
/* How often did this flag stand there? Of a bool, absent is not always the same as false. */
unsigned args_given(const struct args *a, const char *name);
void args_free(struct args *a);
#define cleanup_args __attribute__((cleanup(args_free)))

/* -- pages: what a verb can do, in several formats ------------------------------------------- */

typedef void (*page_fn)(FILE *out, const struct verb *v, const struct opt *table, size_t n);
/* What args_parse prints for --help; NULL: text on stdout. */
void page_format(page_fn fn, FILE *out);
void page_print(const struct verb *v, const struct opt *table, size_t n);
/* "millrace NAME [flags] ARGS"; caller frees. n: rows in its table. */
char *page_usage(const struct verb *v, size_t n);
/* "AWS_ACCESS_KEY_ID, …": secrets of a kind of store that the environment gives; caller frees. */
char *page_secrets(const struct store_kind *kind);

/* man.c, markdown.c, completion.c: of one verb; begin and end: of all of them */
void man_page(FILE *out, const struct verb *v, const struct opt *table, size_t n);
void man_main_page(FILE *out);
void markdown_begin(FILE *out);
void markdown_page(FILE *out, const struct verb *v, const struct opt *table, size_t n);
void markdown_cell(FILE *out, const char *text); /* "|" would end it */
/* options.c: what stores take */
void options_text(FILE *out);
void options_markdown(FILE *out); /* docs/reference/options.md */
struct completion {
    const char *shell;
    void (*begin)(FILE *out);
    page_fn page;
    void (*end)(FILE *out);
};
extern const struct completion completions[]; /* up to one without a shell */

/* -- stores (target.c) ----------------------------------------------------------------------- */

bool is_url(const char *text);
/* The JSON of lib/conf/conf.h for one store, and those of --also; caller frees. NULL: a secret is
 * on the command line, or the like (INVALID). An option "/PATH:NAME" is of the store of --also
 * there, whose secrets are files in PATH below --secrets-dir. */
struct conf_request {
    const char *url, *name;
    bool read_only;
    int64_t memory, disk;   /* quotas in bytes, 0: none */
    int64_t keep_free;      /* percent of the disk that is left to others */
    const char *write_type; /* NULL: default */
    const char *rules;      /* "/path=Through,…"; NULL: none */
    enum conf_immutable immutable;
    int64_t metadata_sync_ns; /* 0: default */
};
char *conf_text(const struct args *a, const struct conf_request *w, struct err *e);

/* "s3://bucket/a/b/" → "s3://bucket/a" and "b"; "s3://bucket" and "file:///" have no last
 * component, and with whole, or a "/" at the end of http://…, the root is all of it. Caller frees
 * both. INVALID: it is no URL. */
int url_split(const char *url, bool whole, char **root, char **path, struct err *e);

struct target {
    struct conf *conf;
    struct store *store;
    char *path; /* of the object within the store; "" for all of it */
};
/* whole: the URL is the store's root; else its last component is the path. */
int target_open(struct target *t, const struct args *a, const char *url, bool whole, bool read_only,
    struct err *e);
/* Does the URL name something, and is it a directory? The root of a store always is one; that costs
 * a look as well. */
int target_stat(struct target *t, struct store_stat *st, struct err *e);
void target_close(struct target *t);
#define cleanup_target __attribute__((cleanup(target_close)))

/* -- mounts (mount_point.c) ------------------------------------------------------------------ */

#define CLI_MOUNT_TYPE "fuse.millrace" /* in the mount table */
/* Where the mount of millrace is that path is on; caller frees *point. */
int mount_point_of(const char *path, char **point, struct err *e);
/* An extended attribute; caller frees. NULL: there is none. */
char *read_xattr(const char *path, const char *name);

/* -- the verbs ------------------------------------------------------------------------------- */

int verb_mount(const struct verb *v, int argc, char **argv);
int verb_umount(const struct verb *v, int argc, char **argv);
int verb_ls(const struct verb *v, int argc, char **argv);
int verb_cat(const struct verb *v, int argc, char **argv);
int verb_head(const struct verb *v, int argc, char **argv);
int verb_tail(const struct verb *v, int argc, char **argv);
int verb_mkdir(const struct verb *v, int argc, char **argv);
int verb_rm(const struct verb *v, int argc, char **argv);
int verb_mv(const struct verb *v, int argc, char **argv);
int verb_cp(const struct verb *v, int argc, char **argv);
int verb_du(const struct verb *v, int argc, char **argv);
int verb_count(const struct verb *v, int argc, char **argv);
int verb_persist(const struct verb *v, int argc, char **argv);
int verb_checksum(const struct verb *v, int argc, char **argv);
int verb_stat(const struct verb *v, int argc, char **argv);
int verb_location(const struct verb *v, int argc, char **argv);
int verb_why(const struct verb *v, int argc, char **argv);
int verb_status(const struct verb *v, int argc, char **argv);
int verb_doctor(const struct verb *v, int argc, char **argv);
int verb_bench(const struct verb *v, int argc, char **argv);
int verb_hint(const struct verb *v, int argc, char **argv);
int verb_load(const struct verb *v, int argc, char **argv);
int verb_pin(const struct verb *v, int argc, char **argv);
int verb_unpin(const struct verb *v, int argc, char **argv);
int verb_free(const struct verb *v, int argc, char **argv);
int verb_help(const struct verb *v, int argc, char **argv);
int verb_completion(const struct verb *v, int argc, char **argv);
int verb_version(const struct verb *v, int argc, char **argv);

/* help.c: return an exit status */
void help_overview(FILE *out);
int help_page(const struct verb *v, page_fn format, FILE *out); /* format NULL: text */
int help_markdown(FILE *out);                                   /* docs/reference/cli.md */
int help_completion(const struct completion *c, FILE *out);

#endif
