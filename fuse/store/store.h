/* SPDX-License-Identifier: Apache-2.0 */
/* store — an under store (S3, HDFS, HTTP, a directory) behind one table of functions. Paths are
 * relative to the mount point, begin without "/", use "/" between names, "" is the root. Threads:
 * any, all calls block. Every call has the deadline of the store's options (a listing for each page
 * or batch), whatever the store does meanwhile: a file system that does not answer, too; retries
 * with back-off and jitter happen inside (RETRY left over after that means it is really down). What
 * was given up may still happen later. Errors carry a reason for people and conditions in
 * store_reason(). */
#ifndef MILLRACE_FUSE_STORE_STORE_H
#define MILLRACE_FUSE_STORE_STORE_H

#include "lib/base/err.h"
#include "lib/base/sink.h"
#include "lib/conf/conf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store; /* opaque */

#define STORE_VERSION_MAX 80 /* ETag without quotes, or "size-mtime-inode-ctime"; NUL included */

enum store_attr_field {
    STORE_MODE = 1,
    STORE_OWNER = 2,
    STORE_MTIME = 4,
};
/* Attributes that users have set. Of those that are not in .has the mount decides. */
struct store_attr {
    unsigned has;  /* enum store_attr_field, or'ed */
    uint32_t mode; /* bits of STORE_MODE_BITS */
    uint32_t uid, gid;
    int64_t mtime_ns; /* since the epoch; of a stat, .mtime_ns of that has it */
};
/* Not those of set-user-ID and set-group-ID: who may write to a store must not make programs that
 * run as another user where others see it. */
#define STORE_MODE_BITS 01777

struct store_stat {
    bool is_dir;
    bool is_link; /* symbolic; its content, as of a file, is its target */
    /* a file may be a link all the same, which only store_ask() tells */
    bool unasked;
    uint64_t size;                   /* bytes; 0 for directories */
    int64_t mtime_ns;                /* since the epoch; 0 unknown */
    char version[STORE_VERSION_MAX]; /* changes whenever the content does; "" for directories */
    bool attr_known;                 /* .attr is all that there is */
    struct store_attr attr;
};

struct store_entry {
    const char *name; /* one path component, borrowed during the callback */
    struct store_stat st;
};
/* Non-zero stops the listing. Entries come in the store's order, not necessarily sorted; a name may
 * come twice (an object and a prefix of the same name: the directory wins). */
typedef int (*store_list_fn)(void *user, const struct store_entry *entry);

enum store_cap {
    STORE_CAP_WRITE = 1, /* put, remove, mkdir, rename */
    STORE_CAP_RENAME_DIR = 4,
    /* directories exist by themselves (else they are prefixes with marker objects) */
    STORE_CAP_DIRS = 8,
};

/* -- kinds of stores ------------------------------------------------------------------------- */

enum store_option_kind {
    STORE_OPTION_STRING,
    STORE_OPTION_BOOL,  /* "true" | "false" */
    STORE_OPTION_URL,   /* http://… | https://… */
    STORE_OPTION_CERTS, /* PEM text; a mount's caBundle gives it, too */
    /* never shown; from a Secret, the environment or, if it must be, the options */
    STORE_OPTION_SECRET,
};

/* How people spell the keys of a Secret that holds credentials: by whom, and whether its access key
 * and secret key count only where both are there (because one of the names means the other half
 * elsewhere). */
struct store_spelling {
    const char *whose;
    bool together;
};

/* One row makes the parser, the error texts and the CLI's help. A table ends with a row without a
 * name. */
struct store_option {
    const char *name;
    enum store_option_kind kind;
    /* environment variables that give it where there is no secrets directory */
    const char *env[3];
    const char *aliases[3]; /* names other systems' users write */
    const char *help;
    /* credentials: names of the key in a Secret that is given as a whole, one for each spelling of
     * the kind of store, NULL: it has none. Other options go by name, env and aliases there. */
    const char *const *secret_keys;
    /* it is half of a pair: both halves are of one spelling, or there is but one to choose */
    bool paired;
    bool lines; /* its value may have several; certificates always do */
    bool file;  /* its value is the path of a file; of a Secret: of the key's */
};

struct store_kind {
    const char *scheme;                 /* "s3" */
    const char *url_help;               /* "s3://bucket/prefix" */
    const struct store_option *options; /* up to one without a name */
    unsigned caps;
    const struct store_spelling *spellings; /* of keys in Secrets, the first wins; may be NULL */
    size_t nspellings;
    const char *secret_help; /* where there are none: which keys, in words */
    size_t part; /* bytes of a large file to ask for at a time; 0: it makes no difference */
};
const struct store_kind *store_kind_at(size_t i);        /* NULL: no more */
const struct store_kind *store_kind_of(const char *url); /* NULL: no URL, or an unknown scheme */
size_t store_part(const char *url);                      /* the kind's; 0: unknown */
/* by its name or an alias; NULL: none */
const struct store_option *store_option_find(const struct store_option *table, const char *name);

/* -- one store ------------------------------------------------------------------------------- */

struct store_conf {
    const struct conf_mount *mount; /* borrowed until store_free */
    /* NULL: credentials from options or environment (AWS_*), for laptops */
    const char *secrets_dir;
    /* of one call incl. retries; 0: 30 s; a second more for each MiB it moves */
    int64_t deadline_ns;
    unsigned max_connections; /* 0: 64 */
};
/* INVALID: unknown scheme or option, malformed URL. Does not touch the network: store_check does.
 */
struct store *store_new(const struct store_conf *conf, struct err *e);
void store_free(struct store *s);
unsigned store_caps(const struct store *s);
bool store_keeps_attr(const struct store *s); /* store_set_attr() may succeed */
/* "", or names of 1 to 255 bytes (not "." or "..") with single slashes between, 4095 bytes at most
 */
bool store_path_ok(const char *path);

/* Where it is asked and as whom, for people; the caller frees both. server: "https://host:port",
 * several with blanks between, of which one must answer; NULL: it has none. who: "profile x of the
 * AWS files"; NULL: it is not known before the first call, or makes no difference. */
void store_contact(struct store *s, char **server, char **who);
/* All calls since its last answer have failed, one of them for a whole deadline: what nobody waits
 * for should spare it. While that is so, 64 calls at a time wait for it, others fail at once. */
bool store_is_silent(const struct store *s);
/* Is it there and may we read it? NOTFOUND (no such bucket, directory), DENIED (403, bad keys),
 * INVALID, RETRY (network, DNS). */
int store_check(struct store *s, struct err *e);
int store_stat_path(struct store *s, const char *path, struct store_stat *st, struct err *e);
/* What a listing or store_stat_path() left unasked of a file: *st is what that said. CONFLICT (sys
 * ESTALE): the object has another version now; NOTFOUND. */
int store_ask(struct store *s, const char *path, struct store_stat *st, struct err *e);
/* One page of the direct children of dir. *cursor NULL starts; on return NULL means the end, else
 * pass it again (owned by the caller, freed by the next call or by free()). */
int store_list(
    struct store *s, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e);
/* All files below dir, any depth, with names relative to dir; same paging. Stores without a cheap
 * way walk. */
int store_list_tree(
    struct store *s, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e);
/* How many entries the listings of this process have left out so far, because no file can be called
 * so (a key with an empty name in it, "..", …) or because the store fails for them alone; each is
 * warned of in the log. */
uint64_t store_left_out_count(void);
/* Gives exactly len bytes at off of the given version ("" = any, but of one) to sink, in order,
 * each once, on this thread. What it was given before an error is good. CONFLICT (sys ESTALE): the
 * object has another version now; INVALID: past its end; NOTFOUND; RETRY (sys ECANCELED): the sink
 * takes no more, or *cancel, which may be NULL. */
int store_stream(struct store *s, const char *path, const char *version, uint64_t off, size_t len,
    sink_fn sink, void *user, const atomic_bool *cancel, struct err *e);
/* The same of an object of that size: where all of it is wanted, its bytes are compared with the
 * checksum that the store keeps beside it, if it does and was told to. */
int store_stream_of(struct store *s, const char *path, const char *version, uint64_t size,
    uint64_t off, size_t len, sink_fn sink, void *user, const atomic_bool *cancel, struct err *e);
/* store_stream() into memory. */
int store_read(struct store *s, const char *path, const char *version, uint64_t off, size_t len,
    void *buf, const atomic_bool *cancel, struct err *e);
struct store_put {
    int fd; /* len bytes of it, from 0 */
    uint64_t len;
    /* What may be replaced. NULL: whatever is there; "": nothing may be there; else that version
     * alone. */
    const char *expect;
    /* Not 0: with expect "", a number that no other put has. What was made with it is the caller's,
     * and no conflict, while nobody has written to it. */
    uint64_t mark;
    /* Kept with the content as far as the store can: st tells. Of what is replaced, those that are
     * not in .has stay, in a directory. NULL: none. */
    const struct store_attr *attr;
    /* Set meanwhile: RETRY (sys ECANCELED), and nothing half is left, unless it is as good as done;
     * a directory goes on. May be NULL. */
    const atomic_bool *cancel;
    /* ECANCELED is certain to be nothing at all: what the store may have got as a whole is waited
     * for. */
    bool certain;
};
/* Appears atomically; st is the new object's. CONFLICT: something else is there than was expected
 * (sys EEXIST where that was nothing, else ESTALE), and nothing has changed; the same content is no
 * conflict (unless it is empty): it is an earlier attempt whose answer was lost. Of two that put at
 * the same time, one wins: in S3 the server sees to that, where it knows conditional requests; in a
 * directory a new name is exclusive, and a version is looked at just before it is replaced, with
 * the directory locked (flock) against the other mounts of this machine. */
int store_put(struct store *s, const char *path, const struct store_put *put, struct store_stat *st,
    struct err *e);
#define STORE_LINK_MAX 4095 /* bytes of a link's target; there is at least one */
/* A symbolic link; st is its own. CONFLICT (sys EEXIST): something is there, and nothing has
 * changed; INVALID (sys EOPNOTSUPP): this kind of store has no links. */
int store_symlink(
    struct store *s, const char *path, const char *target, struct store_stat *st, struct err *e);
/* Sets those of attr->has of what is there, a directory, too; expect: that version alone, NULL:
 * any. st is what is there then: its version may be another one, its content is not; of attr->has,
 * st->attr.has are those that it has taken. In a directory the owner and the mode that users see
 * are in an extended attribute, as a client without rights cannot change owners; the file's own
 * follow as far as they may, and leave the client what it needs. CONFLICT; INVALID (sys
 * EOPNOTSUPP), DENIED: it has taken none, and nothing has changed. */
int store_set_attr(struct store *s, const char *path, const char *expect,
    const struct store_attr *attr, struct store_stat *st, struct err *e);
/* a file or a link; NOTFOUND if absent and the store tells (S3 does not) */
int store_remove(struct store *s, const char *path, struct err *e);
/* Of that version alone. CONFLICT: it is another by now, which stays, or none; or NOTFOUND: none.
 */
int store_remove_version(struct store *s, const char *path, const char *version, struct err *e);
/* EXISTS; without STORE_CAP_DIRS not for one that is there only because something is in it. mark,
 * if not 0: a number that no other call has, but one that is made again: what that made is the
 * caller's, and no error. A file system without extended attributes cannot tell: then it is EXISTS,
 * as it is for those who come second. */
int store_mkdir(struct store *s, const char *path, uint64_t mark, struct err *e);
/* must be empty: EXISTS, sys ENOTEMPTY; without STORE_CAP_DIRS one that is gone with its last file
 * is fine */
int store_rmdir(struct store *s, const char *path, struct err *e);
/* The store gives names like the last one of the path to what is being made: it shows them to
 * nobody and removes them with their directory. INVALID, sys EINVAL: what exists may not be called
 * so. */
int store_check_hidden(const struct store *s, const char *path, struct err *e);
/* Files; replaces. expect: the version of from that is renamed, NULL: any; CONFLICT: it is another
 * by now, and nothing has changed. */
int store_rename(struct store *s, const char *from, const char *to, const char *expect,
    struct store_stat *st, struct err *e);
/* The same, and from stays. Only without STORE_CAP_RENAME_DIR: others rename what is copied here.
 */
int store_copy(struct store *s, const char *from, const char *to, const char *expect,
    struct store_stat *st, struct err *e);
/* What was made, removed or renamed in the directory survives a power cut of the store. */
int store_sync_dir(struct store *s, const char *path, struct err *e);

/* CamelCase reason of the last failure class, for conditions: InvalidURL InvalidOption
 * SecretMissing
 * ConfigMapMissing AccessDenied ExpiredCredentials BucketNotFound NotFound NameNotResolved
 * Unreachable TLSFailed StoreError. From the text of e, set by stores with store_err();
 * "StoreError" if e came from elsewhere. */
const char *store_reason(const struct err *e);

#endif
