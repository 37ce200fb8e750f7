/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the index share: an index file in a directory of the program's own. */
#ifndef TESTS_UNIT_FUSE_INDEX_UNIT_H
#define TESTS_UNIT_FUSE_INDEX_UNIT_H

#include "tests/lib/unit.h"

#include "fuse/index/index.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/millrace-index.XXXXXX";
static char path[64];

static inline struct inodes *open_index(uint64_t identity, bool resume, bool *fresh)
{
    struct inodes_conf c = {.path = path,
        .identity = identity,
        .resume = resume,
        .uid = 7,
        .gid = 8,
        .dir_mode = 0755,
        .file_mode = 0644};
    struct err e = ERR_INIT;
    bool f;
    struct inodes *ix = inodes_open(&c, fresh ? fresh : &f, &e);
    if (!ix && !resume)
        fail_msg("%s", e.msg);
    return ix;
}

static inline int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/index", dir);
    unlink(path);
    return 0;
}

static inline struct store_stat file_stat(uint64_t size, const char *version)
{
    struct store_stat st = {.size = size, .mtime_ns = 1000};
    snprintf(st.version, sizeof st.version, "%s", version);
    return st;
}

static inline uint64_t put(struct inodes *ix, uint64_t d, const char *name,
    const struct store_stat *st, uint32_t now, enum inodes_change want)
{
    struct inode n;
    struct err e = ERR_INIT;
    enum inodes_change change;
    if (inodes_put(ix, d, name, st, INODES_NOW, now, &n, &change, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(change, want);
    return n.ino;
}

static inline int count_all(
    void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    (void)name;
    (void)child;
    (void)cookie;
    ++*(unsigned *)user;
    return 0;
}

static inline int run_index_tests(const struct CMUnitTest *tests, size_t n)
{
    if (!mkdtemp(dir))
        return 1;
    int rc = _cmocka_run_group_tests("index", tests, n, NULL, NULL);
    file_remove_tree(dir, NULL);
    return rc;
}

#endif
