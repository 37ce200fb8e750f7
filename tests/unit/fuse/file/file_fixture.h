/* SPDX-License-Identifier: Apache-2.0 */
/* file_fixture — the files of a mount without the mount: a real index, tree and cache in a
 * directory of the test's own, above stores in memory. Three mounts: "main", "other" and "ro",
 * which is read-only. Paths in these functions begin with one of them. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_FILE_FILE_FIXTURE_H
#define MILLRACE_TESTS_UNIT_FUSE_FILE_FILE_FIXTURE_H

#include "tests/lib/unit.h"

#include "fuse/file/commit.h"
#include "fuse/file/create.h"
#include "fuse/file/open.h"
#include "fuse/file/read.h"
#include "fuse/file/remove.h"
#include "fuse/file/rename.h"
#include "fuse/file/setattr.h"
#include "fuse/file/stage.h"
#include "fuse/file/upload.h"
#include "fuse/file/uploader.h"
#include "lib/base/mem.h"
#include "tests/fake/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FX_MOUNTS 3
#define FX_CAPS   (STORE_CAP_WRITE | STORE_CAP_DIRS | STORE_CAP_RENAME_DIR)

struct fx_conf {
    unsigned caps;         /* of the stores; 0: FX_CAPS */
    enum conf_write write; /* what becomes of written content */
    bool passthrough;      /* there is a kernel that reads by itself */
    bool memory; /* the cache's tier is memory, and that kernel takes files of disks only */
    unsigned max_idle;
    unsigned keep_free; /* percent of the disk */
};

struct fx {
    char *dir, *stage_dir, *index_path;
    struct fx_conf c;
    struct fake_store *fake[FX_MOUNTS];
    struct store *stores[FX_MOUNTS];
    struct conf_mount mounts[FX_MOUNTS];
    struct conf_tier tier;
    struct conf_rule rule;
    char root[2]; /* "/" */
    struct conf conf;
    struct cache *cache;
    struct inodes *inodes;
    struct tree *tree;
    struct backings *backings;
    struct files *files;
    /* of the kernel: ids given so far, ids that it has; the next registration fails with this */
    int32_t next_id;
    int registered;
    enum err_class refuse;
    _Atomic unsigned first_reads; /* files_conf.on_first_read */
    unsigned blocked;             /* files_conf.will_block */
    uint64_t request;             /* the latest */
};

/* A handle, as the kernel has it. */
struct fx_handle {
    uint64_t ino;
    bool write;
    int32_t backing;
};

struct fx *fx_new(const struct fx_conf *c); /* NULL: the defaults */
void fx_free(struct fx *x);
/* The process ends without any good-bye, and the next one begins: keep: with the same index; else
 * with a new one, as after a crash of the machine. */
void fx_restart(struct fx *x, bool keep);

/* 0 or errno; *n may be NULL. */
int fx_lookup(struct fx *x, const char *path, struct inode *n);
uint64_t fx_ino(struct fx *x, const char *path); /* it is there */
struct inode fx_inode(struct fx *x, uint64_t ino);
uint64_t fx_parent(struct fx *x, const char *path, const char **name);
/* Another user of the store writes it; it is looked at again when it is looked up. */
void fx_put(struct fx *x, const char *path, const char *text);
/* All of it comes into the cache. */
void fx_fill(struct fx *x, const char *path);
/* What is known of it is old: it is looked at again. */
void fx_expire(struct fx *x, const char *path);

/* open(2), as far as the kernel asks: 0 or errno. */
int fx_open(struct fx *x, const char *path, int flags, struct fx_handle *h);
int fx_create(struct fx *x, const char *path, int flags, bool resent, struct fx_handle *h);
int fx_close(struct fx *x, struct fx_handle *h); /* flush and release: 0 or errno of the flush */
int fx_write(struct fx *x, uint64_t ino, uint64_t off, const char *text);
int fx_unlink(struct fx *x, const char *path, bool resent);
int fx_rmdir(struct fx *x, const char *path, bool resent);
int fx_mkdir(struct fx *x, const char *path, bool resent);
int fx_rename(struct fx *x, const char *from, const char *to, unsigned flags, bool resent);
int fx_truncate(struct fx *x, uint64_t ino, uint64_t size, bool open);
/* Makes it with that content and closes it. */
void fx_make(struct fx *x, const char *path, const char *text);

/* All that is in an inode; caller frees; NULL: it cannot be read, *errnum why (may be NULL). */
char *fx_read(struct fx *x, uint64_t ino, int *errnum);
void fx_is(struct fx *x, uint64_t ino, const char *text);           /* asserts it */
void fx_path_is(struct fx *x, const char *path, const char *text);  /* likewise */
void fx_store_is(struct fx *x, const char *path, const char *text); /* NULL: not there */
/* Files in the staging directory; an inode's sidecar as "number of the mount\n
 * version\npath\n": caller frees, NULL: there is none. */
unsigned fx_staged(struct fx *x);
char *fx_staging_file(struct fx *x, uint64_t ino); /* its path; caller frees */
char *fx_sidecar(struct fx *x, uint64_t ino);
bool fx_fd_is(int fd, const char *end); /* the path that it was opened by ends so */
bool fx_is_dirty(struct fx *x, uint64_t ino);
uint64_t fx_pinned(struct fx *x); /* files that are pinned */

#endif
