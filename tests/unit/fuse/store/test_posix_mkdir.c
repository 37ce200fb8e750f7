/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of a directory store is never there without the mark by which its maker knows it
 * again: he may be killed at any moment. */
#include "tests/lib/unit.h"

#include "lib/base/file.h"
#include "tests/lib/mount.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

/* In what the kernel has told: the directory was made elsewhere, and then moved here. */
static bool was_moved(int seen, const char *name)
{
    _Alignas(struct inotify_event) char buf[4096];
    bool moved = false;
    ssize_t n = read(seen, buf, sizeof buf);
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *ev = (const struct inotify_event *)(buf + at);
        bool named = strcmp(ev->name, name) == 0;
        assert_false(named && ev->mask & IN_CREATE);
        moved |= named && ev->mask & IN_MOVED_TO;
        at += (ssize_t)sizeof *ev + ev->len;
    }
    return moved;
}

static void test_comes_with_its_mark(void **state)
{
    (void)state;
    char dir[] = "/tmp/millrace-test.XXXXXX";
    assert_non_null(mkdtemp(dir));
    cleanup_free char *url = xasprintf("file://%s", dir);
    cleanup_free char *left = path_join(dir, "d/.millrace-put-0123456789abcdef");
    struct mount *m = mount_new(url);
    struct err e = ERR_INIT;
    struct store *s = store_new(&(struct store_conf){.mount = &m->conf}, &e);
    assert_non_null(s);
    cleanup_fd int seen = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    assert_true(inotify_add_watch(seen, dir, IN_CREATE | IN_MOVED_TO) > 0);
    assert_int_equal(store_mkdir(s, "d", 7, &e), 0);
    assert_true(was_moved(seen, "d"));
    assert_int_equal(store_mkdir(s, "d", 8, &e), -1);
    assert_int_equal(err_errno(&e), EEXIST);
    assert_int_equal(store_mkdir(s, "d", 7, &e), 0);
    /* what one who was killed has left there is in nobody's way */
    assert_int_equal(mkdir(left, 0755), 0);
    assert_int_equal(store_rmdir(s, "d", &e), 0);
    store_free(s);
    mount_free(m);
    assert_int_equal(rmdir(dir), 0); /* nor have the others left anything */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_comes_with_its_mark)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
