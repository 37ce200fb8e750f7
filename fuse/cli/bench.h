/* SPDX-License-Identifier: Apache-2.0 */
/* bench — what this machine gets from a store: what is read, how, and how fast that was. */
#ifndef MILLRACE_FUSE_CLI_BENCH_H
#define MILLRACE_FUSE_CLI_BENCH_H

#include "fuse/cli/cli.h"
#include "fuse/cli/progress.h"

#define BENCH_SMALL_MAX (1u << 20)  /* bytes of what counts as a small file */
#define BENCH_PIECE     (8u << 20)  /* bytes of one raw read */
#define BENCH_OWN_SMALL (64u << 10) /* bytes of a small file of its own */

struct bench_file {
    char *name; /* in the store */
    struct store_stat st;
};

/* One measurement. Speeds are bytes and files by seconds: nothing is extrapolated. */
struct bench_result {
    const char *op;    /* "read", "write" */
    const char *what;  /* "large": of one file, or "small": of several */
    const char *how;   /* "raw": by the store layer alone, or "mounted" */
    const char *cache; /* "cold", "warm"; NULL: none is in the way */
    unsigned parallel; /* reads at a time */
    uint64_t files;    /* 0: it is of one file, perhaps not all of it */
    uint64_t bytes;
    double seconds;
};
#define BENCH_RESULTS_MAX 10

struct bench {
    const struct args *args; /* borrowed */
    const char *url;         /* as it was written; borrowed */
    char *root;              /* URL of the store: the directory that files are named in */
    struct target at;
    /* flags */
    int64_t size, files, parallel, limit_ns;
    const char *own; /* --write: the directory of its own files; NULL: it reads what is there */
    const char *cache_base;
    bool mounted;
    /* bench_files.c: what is read */
    struct bench_file large; /* name NULL: there is none */
    struct bench_file *small;
    size_t nsmall;
    uint64_t seen, empty; /* files that were looked at; of those, empty ones */
    bool own_made;
    /* what was measured */
    struct bench_result results[BENCH_RESULTS_MAX];
    size_t nresults;
};

/* bench_files.c: finds what there is to read, or, with own, makes it (which is measured). NOTFOUND:
 * there is nothing. */
int bench_find(struct bench *b, struct err *e);
int bench_make(struct bench *b, struct err *e);
/* Removes what bench_make() and bench_mounted() have made; fine if that is nothing. */
int bench_remove(struct bench *b, struct err *e);
void bench_files_free(struct bench *b);
/* Names of its own files: "OWN/large", "OWN/small-7"; of those written through a mount,
 * "OWN/mounted-large". Caller frees. */
char *bench_own_name(const struct bench *b, bool mounted, const char *what, size_t i);

/* bench_run.c: what is measured. */
int bench_raw(struct bench *b, struct err *e);
int bench_mounted(struct bench *b, struct err *e); /* by a mount of its own, which ends with it */
/* bench_measure.c: one piece of work for each index below n, on so many threads; bytes: what it was
 * about. No more are begun once the limit is over (the first always is), after a failure, or
 * Ctrl-C. */
struct bench_work {
    size_t n;
    unsigned parallel;
    int64_t limit_ns; /* 0: none */
    /* -1: it failed; else *bytes were moved */
    int (*fn)(void *user, size_t i, uint64_t *bytes, struct err *e);
    void *user;
    bool files;     /* each piece is a file; else all of them are one */
    uint64_t bytes; /* of all pieces, for the progress that is shown */
};
/* as: what it is called; the rest is filled in and becomes a result. */
int bench_measure(
    struct bench *b, const struct bench_work *w, const struct bench_result *as, struct err *e);

/* bench_show.c */
void bench_print(const struct bench *b);
void bench_print_json(const struct bench *b);

#endif
