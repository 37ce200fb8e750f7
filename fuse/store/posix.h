/* SPDX-License-Identifier: Apache-2.0 */
/* posix — inside of the directory store: the plain calls on the directory (posix_dir.c,
 * posix_walk.c, posix_change.c, posix_attr.c), which take as long as its file system does, and the
 * store that makes them, on threads of their own where that may be for ever (posix.c). Nothing
 * outside of the directory can be reached, whatever links lie in it: every name is resolved by
 * openat2(RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS) from the directory's own descriptor. A symbolic
 * link is a name like a file's, whose content is its target: whoever reads it follows it, never we.
 */
#ifndef MILLRACE_FUSE_STORE_POSIX_H
#define MILLRACE_FUSE_STORE_POSIX_H

#include "fuse/store/impl.h"

#include <sys/stat.h>

struct posix_dir {
    const char *url, *dir; /* as the user wrote it, for messages; and its path */
    bool read_only;
};

/* Is its file system one that answers by itself, without a server that may be gone? False if that
 * cannot be told. */
bool posix_dir_is_local(const struct posix_dir *s);

/* -- what the calls share (posix_dir.c) ------------------------------------------------------ */

/* Of what is being made: not shown, and removed with its directory. The prefix and 16 hex digits,
 * also where a mount of ours makes it, which may be the directory of another one. */
#define POSIX_TEMP_PREFIX ".millrace-put-"
bool posix_is_temp(const char *name);

/* Fills e from errnum, which action on path ended with; returns -1. */
int posix_fail(
    const struct posix_dir *s, int errnum, const char *path, const char *action, struct err *e);
/* openat2 that does not leave root; errno is set */
int posix_open_beneath(int root, const char *path, uint64_t flags);
/* Opened anew for each call, so that a directory that is mounted or made later is found. */
int posix_open_root(const struct posix_dir *s, struct err *e);
int posix_open_path(
    const struct posix_dir *s, const char *path, uint64_t flags, const char *action, struct err *e);
void posix_stat_of(const struct stat *st, struct store_stat *out);
/* Size, mtime and inode are the same. Versions have the ctime as well, so that a change whose mtime
 * was set back is seen when the file is looked at again; but chmod and new hard links change it,
 * too, and who has the file open for reading or writing is not to fail for those. */
bool posix_same_content(const char *version, const char *other);
/* A file, a directory or a link; sockets, devices and pipes do not exist. */
bool posix_is_shown(const struct stat *st);

/* -- attributes (posix_attr.c) --------------------------------------------------------------- */

#define POSIX_ATTR_MAX 64
/* "mode=0644 owner=1000:1000", either or both; pure. False: it is not that. */
bool posix_attr_parse(const char *text, struct store_attr *out);
void posix_attr_format(const struct store_attr *attr, char text[POSIX_ATTR_MAX]);
/* Is anything in the directory known to have some? */
bool posix_attr_noted(int dir);
/* What moves from one to the other may have some. */
void posix_attr_note_moved(int from, int to);
/* Those of what fd (O_PATH, too) is, or of a name in dir that st is of. */
void posix_attr_of(int fd, const struct stat *st, struct store_stat *out);
void posix_attr_at(int dir, const char *name, const struct stat *st, struct store_stat *out);
/* Of a new file that nobody sees yet, which gets the name in dir. */
void posix_attr_put(int fd, int dir, const char *name, const struct store_attr *attr);

/* -- calls: as the functions of struct store_ops (posix_dir.c, posix_change.c) ---------------- */

int posix_dir_check(const struct posix_dir *s, struct err *e);
int posix_dir_stat(
    const struct posix_dir *s, const char *path, struct store_stat *out, struct err *e);
int posix_dir_read(const struct posix_dir *s, const char *path, const char *version, uint64_t off,
    size_t len, sink_fn sink, void *user, const atomic_bool *cancel, struct err *e);
/* Does not appear any more once *cancel (or NULL) is set. */
int posix_dir_put(const struct posix_dir *s, const char *path, const struct store_put *put,
    const atomic_bool *cancel, struct store_stat *out, struct err *e);
int posix_dir_symlink(const struct posix_dir *s, const char *path, const char *target,
    struct store_stat *out, struct err *e);
int posix_dir_set_attr(const struct posix_dir *s, const char *path, const char *expect,
    const struct store_attr *attr, struct store_stat *out, struct err *e);
int posix_dir_remove(const struct posix_dir *s, const char *path, struct err *e);
int posix_dir_mkdir(const struct posix_dir *s, const char *path, uint64_t mark, struct err *e);
int posix_dir_rmdir(const struct posix_dir *s, const char *path, struct err *e);
int posix_dir_sync(const struct posix_dir *s, const char *path, struct err *e);
int posix_dir_rename(const struct posix_dir *s, const char *from, const char *to,
    const char *expect, struct store_stat *out, struct err *e);

/* -- listings (posix_walk.c) ----------------------------------------------------------------- */

/* A listing that is under way; of all files below it (tree), or of what is in it. Not for two
 * threads at once. */
struct posix_walk; /* opaque */
struct posix_walk *posix_walk_open(
    const struct posix_dir *s, const char *path, bool tree, struct err *e);
/* 1; 0: the end; -1 */
int posix_walk_next(
    const struct posix_dir *s, struct posix_walk *w, struct store_entry *out, struct err *e);
void posix_walk_close(struct posix_walk *w);

#endif
