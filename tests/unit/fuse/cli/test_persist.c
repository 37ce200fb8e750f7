/* SPDX-License-Identifier: Apache-2.0 */
/* persist: only a client that says so has a file saved; one that does not answer has said nothing.
 */
#include "fuse/cli/cli.h"

#include "lib/base/file.h"
#include "lib/base/ioctl.h"
#include "lib/base/mem.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char work[PATH_MAX]; /* a mount of ours, as far as persist knows */
static int dead;            /* what its client answers with; 0: an answer */
static int asked;
static int dies_after; /* answers */
static bool unsaved;   /* the file "a", and it cannot be saved */

int __wrap_mount_point_of(const char *path, char **point, struct err *e);
int __wrap_ioctl(int fd, unsigned long op, ...);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_mount_point_of(const char *path, char **point, struct err *e)
{
    (void)path, (void)e;
    *point = xstrdup(work);
    return 0;
}

int __wrap_fsync(int fd)
{
    if (!unsaved)
        return __real_fsync(fd);
    errno = EIO;
    return -1;
}

int __wrap_ioctl(int fd, unsigned long op, ...)
{
    (void)fd;
    va_list list;
    va_start(list, op);
    struct pin_msg *m = va_arg(list, struct pin_msg *);
    va_end(list);
    assert_int_equal(op, PIN_IOCTL);
    if (dead && asked++ >= dies_after) {
        errno = dead;
        return -1;
    }
    m->state = unsaved && strcmp(m->name, "a") == 0 ? PIN_UNSAVED : 0;
    return 0;
}

static int persists(const char *name)
{
    const struct verb *v = verb_find("persist");
    cleanup_free char *path = *name ? path_join(work, name) : xstrdup(work);
    char verb[] = "persist", json[] = "--json";
    char *argv[] = {verb, json, path, NULL};
    assert_non_null(v);
    return v->run(v, 3, argv);
}

static int set_up(void **state)
{
    (void)state;
    dead = asked = dies_after = 0;
    unsaved = false;
    snprintf(work, sizeof work, "/tmp/millrace-persist.XXXXXX");
    assert_non_null(mkdtemp(work));
    for (const char *name = "ab"; *name; name++) {
        char one[2] = {*name, '\0'};
        cleanup_free char *path = path_join(work, one);
        assert_int_equal(file_write_atomic(path, "x", 1, 0600, NULL), 0);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return file_remove_tree(work, NULL);
}

static void test_a_client_that_says_so(void **state)
{
    (void)state;
    assert_int_equal(persists("a"), CLI_DONE);
    assert_int_equal(persists(""), CLI_DONE);
}

static void test_a_client_that_does_not_answer(void **state)
{
    (void)state;
    static const int errors[] = {ENOTCONN, EIO, ENOTTY, ENOMEM};
    for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
        dead = errors[i];
        assert_int_equal(persists("a"), CLI_FAILED);
        assert_int_equal(persists(""), CLI_FAILED);
    }
}

static void test_a_client_that_dies_meanwhile(void **state)
{
    (void)state;
    unsaved = true;
    dead = ENOTCONN;
    dies_after = 1;
    assert_int_equal(persists("a"), CLI_FAILED);
    assert_int_equal(asked, 2);
}

/* Of a tree; a file that was named has to be there. */
static void test_what_is_gone_meanwhile(void **state)
{
    (void)state;
    dead = ENOENT;
    assert_int_equal(persists(""), CLI_DONE);
    assert_int_equal(persists("a"), CLI_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_client_that_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_client_that_does_not_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_client_that_dies_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_gone_meanwhile, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
