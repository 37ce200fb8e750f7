/* SPDX-License-Identifier: Apache-2.0 */
/* place — what a verb is about, written either way: a URL of a store, or a path, which may be on a
 * mount. Names of what is in a directory are relative to it, "a/b"; "" is the place itself. Errors
 * name what was written. Threads: once it was looked at (place_stat), reads and changes of names in
 * it may come from many. */
#ifndef MILLRACE_FUSE_CLI_PLACE_H
#define MILLRACE_FUSE_CLI_PLACE_H

#include "fuse/cli/cli.h"

#include <sys/types.h>

struct cli_place {
    const char *said; /* borrowed */
    bool url;
    const struct args *args; /* borrowed */
    bool read_only;
    struct target at;          /* of a URL: the directory above, with the last name as path */
    struct target inside;      /* of a URL that is a directory: that */
    const atomic_bool *cancel; /* ends reads of a URL (ECANCELED); borrowed; NULL: nothing does */
    char *point;               /* of a path that is there: the mount of ours it is on; NULL: none */
};

/* What is there; of a path, more than a store tells. */
struct place_entry {
    const char *name; /* relative, borrowed */
    struct store_stat st;
    mode_t mode; /* of a path; 0: of a URL */
    uid_t uid;
    gid_t gid;
    bool other; /* neither file nor directory: a link, a socket */
};
/* Non-zero stops the listing. */
typedef int (*place_fn)(void *user, const struct place_entry *entry);
/* Of a directory that cannot be read, while a tree is gone through: it goes on. */
typedef void (*place_error_fn)(void *user, const struct err *e);

/* A URL is not asked yet; INVALID: it is none, NOTFOUND: of a path, nothing can be there. */
int place_open(
    struct cli_place *p, const struct args *a, const char *said, bool read_only, struct err *e);
void place_close(struct cli_place *p);
#define cleanup_place __attribute__((cleanup(place_close)))

/* What is there. name borrows from what was written. */
int place_stat(struct cli_place *p, struct place_entry *out, struct err *e);
/* Of a directory that place_stat() has seen: what is in it. */
int place_list(struct cli_place *p, place_fn fn, void *user, struct err *e);
/* All files below it, any depth; of a path the directories, too, before what is in them, and what
 * is neither. */
int place_walk(struct cli_place *p, place_fn fn, place_error_fn failed, void *user, struct err *e);

/* A directory that need not be there: files may be put into it then. */
int place_make_root(struct cli_place *p, struct err *e);
int place_stat_at(struct cli_place *p, const char *name, struct store_stat *st, struct err *e);
/* len bytes at off of what place_stat() has seen; ESTALE: it was changed meanwhile. */
int place_read(struct cli_place *p, const char *name, const struct store_stat *st, uint64_t off,
    uint64_t len, sink_fn sink, void *user, struct err *e);
/* The same in pieces, the first of at most that many bytes, later ones of PLACE_PIECE: no request
 * is under way while the sink works, which may take as long as it likes. But for web servers, which
 * may know no ranges. */
#define PLACE_PIECE (8u << 20)
int place_read_slowly(struct cli_place *p, const char *name, const struct store_stat *st,
    uint64_t off, uint64_t len, size_t first, sink_fn sink, void *user, struct err *e);
/* EXISTS */
int place_mkdir(struct cli_place *p, const char *name, struct err *e);
int place_remove(struct cli_place *p, const char *name, struct err *e);
int place_rmdir(struct cli_place *p, const char *name, struct err *e);

/* The part of the path that a copy of it is called by; caller frees. "" of a store's root. */
char *place_name(const char *said);

/* -- place_local.c: of paths ----------------------------------------------------------------- */

/* Of a call that failed; on a mount, its client's own words. -1 */
int local_failed(const char *path, int errnum, struct err *e);
int local_stat(const char *path, const char *name, struct place_entry *out, struct err *e);
/* failed NULL: the direct entries */
int local_list(const char *path, place_fn fn, place_error_fn failed, void *user, struct err *e);
int local_read(const char *path, const struct store_stat *st, uint64_t off, uint64_t len,
    sink_fn sink, void *user, struct err *e);

#endif
