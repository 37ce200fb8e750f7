/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the tree share: an index of the test's own over stores in memory, and what the
 * tree says to the kernel and to the request loop. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_TREE_FIXTURE_H
#define MILLRACE_TESTS_UNIT_FUSE_TREE_FIXTURE_H

#include "tests/lib/unit.h"

#include "fuse/tree/tree.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/fake/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FX_MOUNTS    2
#define FX_MOUNTED_S 1000 /* so long ago */

struct fx {
    char dir[64];
    struct fake_store *fake[FX_MOUNTS];
    struct store *stores[FX_MOUNTS];
    struct conf_mount mounts[FX_MOUNTS];
    struct conf conf;
    struct inodes *inodes;
    struct tree *tree;
    char changed[512]; /* what the kernel was told: "dir/name " for each, the directory as a number
                        */
};

extern unsigned fx_blocked; /* how often the tree said that it will block */

/* paths: where the mounts are, NULL after the last one. */
struct fx *fx_new(const char *const *paths, bool read_only);
void fx_free(struct fx *x);

/* errno; 0: it is there. Names from the root. */
int fx_lookup(struct fx *x, const char *path, struct inode *n);
/* The time at which it was last seen in the store is so many seconds ago: a name, or a listing. */
void fx_age(struct fx *x, uint64_t ino, unsigned seconds);
void fx_age_listing(struct fx *x, uint64_t dir, unsigned seconds);
/* Children in the order of the index, each with a space after it. */
const char *fx_children(struct fx *x, uint64_t dir);

#endif
