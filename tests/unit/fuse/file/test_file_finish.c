/* SPDX-License-Identifier: Apache-2.0 */
/* Somebody opens a file for reading in the moment in which the last close lets its staging file go:
 * he does not wait for an upload, so that the lock which a close holds does not keep him out. */
#include "tests/unit/fuse/file/file_fixture.h"

#include <pthread.h>

int __real_pthread_rwlock_wrlock(pthread_rwlock_t *lock);
int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t *lock);

static struct fx *watched; /* NULL: nothing is done */
static struct fx_handle reader;

int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
    struct fx *x = watched;
    struct inode n;
    if (x) {
        watched = NULL;
        if (inodes_get(x->inodes, reader.ino, &n) || n.opens || (n.flags & INODE_DIRTY))
            watched = x; /* the upload's own */
        else
            assert_int_equal(fx_open(x, "main/a", O_RDONLY, &reader), 0);
    }
    return __real_pthread_rwlock_wrlock(lock);
}

static void test_opened_meanwhile(void **state)
{
    (void)state;
    struct fx *x = fx_new(NULL);
    struct fx_handle writer;
    assert_int_equal(fx_create(x, "main/a", O_WRONLY, false, &writer), 0);
    assert_int_equal(fx_write(x, writer.ino, 0, "text"), 0);
    reader.ino = writer.ino;
    watched = x;
    assert_int_equal(fx_close(x, &writer), 0);
    assert_null(watched);
    fx_store_is(x, "main/a", "text");
    struct inode n = fx_inode(x, reader.ino);
    assert_int_equal(n.opens, 1);
    assert_true(n.flags & INODE_STAGED);
    fx_is(x, reader.ino, "text");
    fx_close(x, &reader);
    assert_int_equal(fx_staged(x), 0);
    fx_path_is(x, "main/a", "text");
    fx_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_opened_meanwhile)};
    return cmocka_run_group_tests_name("file_finish", tests, NULL, NULL);
}
