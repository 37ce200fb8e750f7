/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts that come, go and change their order while the kernel knows ids. */
#include "tests/unit/fuse/index/index_unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const uint32_t *servers; /* of the mounts; NULL: nobody says */

static struct inodes *open_with(const uint64_t *mounts, unsigned n, bool resume, bool *fresh)
{
    uint64_t identity = 1;
    for (unsigned i = 0; i < n; i++)
        identity = identity * 31 + mounts[i];
    struct inodes_conf c = {.path = path,
        .identity = identity,
        .mounts = mounts,
        .servers = servers,
        .nmounts = n,
        .resume = resume,
        .dir_mode = 0755,
        .file_mode = 0644};
    struct err e = ERR_INIT;
    return inodes_open(&c, fresh, &e);
}

static uint64_t add_root(struct inodes *ix, const char *name, unsigned mount)
{
    struct inode like = {.flags = INODE_DIR, .mode = S_IFDIR | 0755, .mount = INODE_NO_MOUNT}, n;
    struct err e = ERR_INIT;
    assert_int_equal(inodes_create(ix, INODE_ROOT, name, &like, &n, &e), 0);
    assert_int_equal(inodes_mount(ix, n.ino, mount), 0);
    inodes_ref(ix, n.ino);
    return n.ino;
}

static uint64_t add_file(struct inodes *ix, uint64_t root, const char *name)
{
    struct store_stat st = file_stat(5, "v1");
    uint64_t ino = put(ix, root, name, &st, 10, INODES_NEW);
    inodes_ref(ix, ino);
    return ino;
}

static unsigned mount_of(struct inodes *ix, uint64_t ino)
{
    char at[INODE_PATH_MAX];
    unsigned mount = 1000;
    struct err e = ERR_INIT;
    struct inode n;
    assert_int_equal(inodes_path(ix, ino, at, &mount, &e), 0);
    assert_int_equal(inodes_get(ix, ino, &n), 0);
    assert_int_equal(n.mount, mount);
    return mount;
}

static void test_another_order(void **state)
{
    (void)state;
    bool fresh;
    struct inodes *ix = open_with((uint64_t[]){11, 22}, 2, false, &fresh);
    assert_true(fresh);
    uint64_t a = add_file(ix, add_root(ix, "a", 0), "f"), b_root = add_root(ix, "b", 1),
             b = add_file(ix, b_root, "f"), *gone;
    inodes_close(ix, false);
    ix = open_with((uint64_t[]){33, 22, 11}, 3, true, &fresh);
    assert_non_null(ix);
    assert_false(fresh);
    assert_int_equal(mount_of(ix, a), 2);
    assert_int_equal(mount_of(ix, b), 1);
    assert_int_equal(inodes_gone_mounts(ix, &gone), 0);
    free(gone);
    uint64_t c = add_file(ix, add_root(ix, "c", 0), "f");
    assert_int_equal(mount_of(ix, add_file(ix, b_root, "g")), 1); /* new names, too */
    inodes_close(ix, false);
    ix = open_with((uint64_t[]){33}, 1, true, &fresh);
    assert_int_equal(mount_of(ix, c), 0);
    assert_int_equal(inodes_gone_mounts(ix, &gone), 2);
    for (int i = 0; i < 2; i++) {
        struct inode n;
        assert_int_equal(inodes_get(ix, gone[i], &n), 0);
        assert_int_equal(n.mount, INODE_NO_MOUNT);
        inodes_abandon(ix, gone[i]);
    }
    free(gone);
    struct err e = ERR_INIT;
    char at[INODE_PATH_MAX];
    assert_int_equal(inodes_path(ix, a, at, NULL, &e), -1);
    assert_int_equal(err_errno(&e), ESTALE);
    inodes_close(ix, true);
    /* a mount anew does not begin with an edited one */
    ix = open_with((uint64_t[]){33}, 1, false, &fresh);
    assert_true(fresh);
    inodes_close(ix, true);
    ix = open_with((uint64_t[]){33}, 1, false, &fresh);
    assert_false(fresh);
    inodes_close(ix, true);
}

/* What was not saved is nobody's any more, and is not counted for ever. */
static void test_dirty_goes(void **state)
{
    (void)state;
    bool fresh;
    struct inode n;
    uint64_t *gone;
    struct inodes *ix = open_with((uint64_t[]){11}, 1, false, &fresh);
    uint64_t f = add_file(ix, add_root(ix, "a", 0), "f");
    inodes_set(ix, f, 0, &n, INODE_DIRTY | INODE_STAGED, 0);
    inodes_close(ix, false);
    ix = open_with((uint64_t[]){22}, 1, true, &fresh);
    assert_int_equal(inodes_gone_mounts(ix, &gone), 1);
    inodes_abandon(ix, gone[0]);
    free(gone);
    assert_int_equal(inodes_get(ix, f, &n), 0); /* the kernel knows it */
    assert_int_equal(n.flags & (INODE_DIRTY | INODE_STAGED | INODE_UNLINKED | INODE_ORPHANED),
        INODE_UNLINKED | INODE_ORPHANED);
    inodes_forget(ix, f, 1);
    assert_int_equal(inodes_get(ix, f, &n), -1);
    inodes_close(ix, true);
    ix = open_with((uint64_t[]){22}, 1, true, &fresh); /* it was closed in good order */
    assert_non_null(ix);
    inodes_close(ix, true);
}

/* More mounts than there are numbers, one after the other; only while all are in use there is none
 * left. */
static void test_numbers_are_used_again(void **state)
{
    (void)state;
    bool fresh;
    uint64_t *gone, ids[2] = {1, 1000};
    struct inodes *ix = open_with(ids, 2, false, &fresh);
    uint64_t stays = add_file(ix, add_root(ix, "stays", 0), "f"), last = add_root(ix, "r", 1);
    for (unsigned i = 0; i < 600; i++) {
        inodes_close(ix, false);
        ids[1] = 1001 + i;
        ix = open_with(ids, 2, true, &fresh);
        assert_non_null(ix);
        assert_int_equal(inodes_gone_mounts(ix, &gone), 1);
        assert_int_equal(gone[0], last);
        free(gone);
        inodes_abandon(ix, last);
        inodes_forget(ix, last, 1);
        last = add_root(ix, "r", 1);
        assert_int_equal(mount_of(ix, stays), 0);
        assert_int_equal(mount_of(ix, last), 1);
    }
    unsigned kept = 0;
    while (ix && kept < 300) { /* the kernel keeps all of these */
        inodes_close(ix, false);
        ids[1] = 5001 + kept;
        if (!(ix = open_with(ids, 2, true, &fresh)))
            break;
        inodes_gone_mounts(ix, &gone);
        inodes_abandon(ix, gone[0]);
        free(gone);
        add_root(ix, "r", 1);
        kept++;
    }
    assert_null(ix);
    assert_in_range(kept, 200, 254);
}

/* The same source on another server is another mount; an earlier version did not say which it was.
 */
static void test_another_server(void **state)
{
    (void)state;
    static const uint64_t id = 11;
    static const uint32_t a = 1, b = 2;
    bool fresh;
    uint64_t *gone;
    struct inodes *ix = open_with(&id, 1, false, &fresh);
    uint64_t root = add_root(ix, "m", 0);
    for (int i = 0; i < 2; i++) {
        inodes_close(ix, false);
        servers = &a;
        ix = open_with(&id, 1, true, &fresh);
        assert_non_null(ix);
        assert_int_equal(inodes_gone_mounts(ix, &gone), 0);
        free(gone);
    }
    inodes_close(ix, false);
    servers = &b;
    ix = open_with(&id, 1, true, &fresh);
    servers = NULL;
    assert_non_null(ix);
    assert_int_equal(inodes_gone_mounts(ix, &gone), 1);
    assert_int_equal(gone[0], root);
    free(gone);
    inodes_close(ix, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_another_order, setup),
        cmocka_unit_test_setup(test_another_server, setup),
        cmocka_unit_test_setup(test_dirty_goes, setup),
        cmocka_unit_test_setup(test_numbers_are_used_again, setup)};
    return run_index_tests(tests, sizeof tests / sizeof *tests);
}
