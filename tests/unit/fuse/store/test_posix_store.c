/* SPDX-License-Identifier: Apache-2.0 */
/* A directory as a store. */
#include "tests/lib/unit.h"

#include "fuse/store/store.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "tests/lib/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    char dir[64];
    struct mount *m;
    struct store *s;
};

static int setup_with(void **state, const char *can_hang)
{
    struct fixture *w = xcalloc(1, sizeof *w);
    strcpy(w->dir, "/tmp/millrace-test.XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    cleanup_free char *in = path_join(w->dir, "in"), *out = path_join(w->dir, "out"),
                      *secret = path_join(w->dir, "out/secret");
    struct err e = ERR_INIT;
    assert_int_equal(mkdir(in, 0755), 0);
    assert_int_equal(mkdir(out, 0755), 0);
    assert_int_equal(file_write_atomic(secret, "secret", 6, 0644, &e), 0);
    cleanup_free char *url = xasprintf("file://%s/", in);
    w->m = mount_new(url);
    mount_option(w->m, "can-hang", can_hang);
    w->s = store_new(&(struct store_conf){.mount = &w->m->conf}, &e);
    assert_non_null(w->s);
    *state = w;
    return 0;
}

static int setup(void **state) { return setup_with(state, "false"); }
static int setup_guarded(void **state) { return setup_with(state, "true"); }

static int teardown(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    store_free(w->s);
    mount_free(w->m);
    file_remove_tree(w->dir, &e);
    free(w);
    return 0;
}

static void ok(int rc, const struct err *e)
{
    if (rc)
        print_error("%s\n", e->msg);
    assert_int_equal(rc, 0);
}

static struct store_stat put(struct fixture *w, const char *path, unsigned seed, uint64_t len)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    cleanup_fd int fd = content_fd(seed, len);
    ok(store_put(w->s, path, PUT(fd, len), &st, &e), &e);
    return st;
}

static char *listing(struct fixture *w, const char *dir, bool tree)
{
    struct err e = ERR_INIT;
    struct names l;
    ok(names_list(w->s, dir, tree, &l, &e), &e);
    return names_join(&l);
}

#define assert_listing(w, dir, tree, text)              \
    do {                                                \
        cleanup_free char *got = listing(w, dir, tree); \
        assert_string_equal(got, text);                 \
    } while (0)

static void a_directory_as_a_store(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st, again;
    ok(store_check(w->s, &e), &e);
    assert_true(store_caps(w->s) & STORE_CAP_DIRS);
    ok(store_mkdir(w->s, "d", 0, &e), &e);
    assert_int_equal(store_mkdir(w->s, "d", 0, &e), -1);
    assert_int_equal(e.cls, ERR_EXISTS);
    st = put(w, "d/f", 1, 3000000);
    ok(store_stat_path(w->s, "d/f", &again, &e), &e);
    assert_string_equal(st.version, again.version);
    assert_int_equal(again.size, 3000000);
    cleanup_free unsigned char *buf = malloc(3000000);
    ok(store_read(w->s, "d/f", st.version, 0, 3000000, buf, NULL, &e), &e);
    assert_true(content_same(1, 0, buf, 3000000));
    ok(store_read(w->s, "d/f", "", 2999990, 10, buf, NULL, &e), &e);
    assert_int_equal(store_read(w->s, "d/f", "", 2999990, 11, buf, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_INVALID);
    put(w, "d/f", 2, 3000000);
    assert_int_equal(store_read(w->s, "d/f", st.version, 0, 10, buf, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_int_equal(e.sys, ESTALE);
    put(w, "top", 3, 0);
    assert_listing(w, "", false, "d/ top:0");
    assert_listing(w, "", true, "d/f:3000000 top:0");
    assert_listing(w, "d", true, "f:3000000");
    assert_int_equal(store_rmdir(w->s, "d", &e), -1);
    assert_int_equal(err_errno(&e), ENOTEMPTY);
    ok(store_rename(w->s, "d/f", "top", NULL, &st, &e), &e);
    ok(store_rename(w->s, "d", "e", NULL, &st, &e), &e);
    assert_true(st.is_dir);
    ok(store_rmdir(w->s, "e", &e), &e);
    ok(store_remove(w->s, "top", &e), &e);
    assert_int_equal(store_remove(w->s, "top", &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    assert_string_equal(store_reason(&e), "NotFound");
    assert_listing(w, "", false, "");
}

static void links_do_not_lead_out(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    char buf[6];
    cleanup_free char *in = path_join(w->dir, "in");
    cleanup_fd int dir = open(in, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put(w, "inside", 1, 6);
    ok(store_mkdir(w->s, "sub", 0, &e), &e);
    cleanup_free char *absolute = path_join(w->dir, "out");
    assert_int_equal(symlinkat("../out/secret", dir, "rel"), 0);
    assert_int_equal(symlinkat(absolute, dir, "abs"), 0);
    assert_int_equal(symlinkat("inside", dir, "good"), 0);
    assert_int_equal(symlinkat(".", dir, "loop"), 0);
    assert_int_equal(symlinkat("../../in/../out/secret", dir, "sub/tricky"), 0);
    assert_int_equal(mkfifoat(dir, "pipe", 0644), 0);
    static const char *const paths[] = {"abs/secret", "loop/loop/rel", "loop/inside"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        assert_int_equal(store_read(w->s, paths[i], "", 0, sizeof buf, buf, NULL, &e), -1);
        assert_int_equal(e.cls, ERR_NOTFOUND);
        assert_int_equal(store_stat_path(w->s, paths[i], &st, &e), -1);
    }
    static const char *const links[] = {"rel", "abs", "sub/tricky", "good", "loop"};
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        ok(store_stat_path(w->s, links[i], &st, &e), &e);
        assert_true(st.is_link && !st.is_dir);
    }
    ok(store_read(w->s, "rel", "", 0, sizeof buf, buf, NULL, &e), &e);
    assert_memory_equal(buf, "../out", 6);
    cleanup_fd int fd = content_fd(1, 5);
    assert_int_equal(store_put(w->s, "abs/new", PUT(fd, 5), &st, &e), -1);
    assert_int_equal(store_remove(w->s, "abs/secret", &e), -1);
    assert_int_equal(store_mkdir(w->s, "abs/x", 0, &e), -1);
    assert_int_equal(store_rename(w->s, "abs/secret", "stolen", NULL, &st, &e), -1);
    cleanup_free char *secret = path_join(absolute, "secret");
    assert_int_equal(access(secret, F_OK), 0);
    /* and does not wait for a writer */
    assert_int_equal(store_read(w->s, "pipe", "", 0, 6, buf, NULL, &e), -1);
    assert_listing(w, "", false, "abs:29 good:6 inside:6 loop:1 rel:13 sub/");
    assert_listing(w, "", true, "abs:29 good:6 inside:6 loop:1 rel:13 sub/tricky:22");
}

static void a_directory_that_is_not_there(void **state)
{
    (void)state;
    struct mount *m = mount_new("file:///nonexistent/dir");
    struct err e = ERR_INIT;
    struct store *s = store_new(&(struct store_conf){.mount = &m->conf}, &e);
    assert_non_null(s);
    assert_int_equal(store_check(s, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    assert_string_equal(store_reason(&e), "NotFound");
    assert_string_equal(
        e.msg, "file:///nonexistent/dir: NotFound: open the directory: No such file or directory");
    store_free(s);
    mount_free(m);
}

static void a_failed_put_leaves_what_was_there(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st = put(w, "f", 1, 100);
    cleanup_fd int fd = content_fd(2, 50);
    assert_int_equal(store_put(w->s, "f", PUT(fd, 60), &st, &e), -1); /* shorter than promised */
    char buf[100];
    ok(store_read(w->s, "f", "", 0, 100, buf, NULL, &e), &e);
    assert_true(content_same(1, 0, (unsigned char *)buf, 100));
    cleanup_free char *in = path_join(w->dir, "in");
    assert_listing(w, "", true, "f:100");
    cleanup_free char *all = xasprintf("test $(ls -A %s | wc -l) = 1", in);
    assert_int_equal(system(all), 0); /* no temporary file either */
}

/* A file that is rewritten stays as private as it was; a link is replaced itself. */
static void what_is_rewritten_keeps_its_mode(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct stat st;
    cleanup_free char *file = xasprintf("%s/in/d/f", w->dir), *link = xasprintf("%s/in/l", w->dir);
    ok(store_mkdir(w->s, "d", 0, &e), &e);
    put(w, "d/f", 1, 100);
    assert_int_equal(chmod(file, 0600), 0);
    assert_int_equal(chown(file, getuid() ? getuid() : 1234, getgid() ? getgid() : 4321), 0);
    struct store_stat old = put(w, "d/f", 2, 100);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_uid, getuid() ? getuid() : 1234);
    assert_int_equal(st.st_gid, getgid() ? getgid() : 4321);
    assert_int_equal(symlink("d/f", link), 0);
    cleanup_fd int fd = content_fd(4, 100);
    struct store_stat now;
    assert_int_equal(store_put(w->s, "l", PUT_OVER(fd, 100, old.version), &now, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    put(w, "l", 3, 100); /* what it leads to stays as it is */
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    char buf[100];
    ok(store_read(w->s, "d/f", "", 0, 100, buf, NULL, &e), &e);
    assert_true(content_same(2, 0, (unsigned char *)buf, 100));
}

struct tearing {
    const char *file; /* written to in place when the first piece has come */
    size_t got;
};

static int tear(void *user, const void *data, size_t len)
{
    struct tearing *t = user;
    assert_true(content_same(1, t->got, data, len)); /* never of the other */
    if (t->got == 0) {
        cleanup_fd int fd = open(t->file, O_WRONLY | O_CLOEXEC);
        struct stat before, now;
        assert_int_equal(fstat(fd, &before), 0);
        do { /* until the file system's clock has gone on */
            assert_int_equal(pwrite(fd, "other", 5, 1500000), 5);
            assert_int_equal(fstat(fd, &now), 0);
        } while (clock_of_timespec(now.st_mtim) == clock_of_timespec(before.st_mtim));
    }
    t->got += len;
    return 0;
}

/* A file that is written to while it is read: what comes after that is not given out as of the
 * version that was begun with. */
static void a_read_is_of_one_version(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    cleanup_free char *file = xasprintf("%s/in/f", w->dir);
    static const char *const versions[] = {"", NULL};
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        struct store_stat st = put(w, "f", 1, 2000000);
        struct tearing t = {.file = file};
        assert_int_equal(store_stream(w->s, "f", versions[i] ? versions[i] : st.version, 0, 2000000,
                             tear, &t, NULL, &e),
            -1);
        assert_int_equal(e.cls, ERR_CONFLICT);
        assert_true(t.got < 1500000);
    }
}

static int stop_at_three(void *user, const struct store_entry *entry)
{
    (void)entry;
    return ++*(int *)user == 3;
}

/* More entries than one batch has. */
static void large_directories(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    cleanup_free char *in = path_join(w->dir, "in");
    cleanup_fd int root = open(in, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok(store_mkdir(w->s, "a", 0, &e), &e);
    ok(store_mkdir(w->s, "a/b", 0, &e), &e);
    for (int i = 0; i < 2000; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%d", i % 2 ? "a/" : "a/b/", i);
        assert_int_equal(close(openat(root, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)), 0);
    }
    static const struct {
        const char *dir;
        bool tree;
        size_t entries;
    } cases[] = {{"", false, 1}, {"a", false, 1001}, {"a/b", false, 1000}, {"", true, 2000},
        {"a/b", true, 1000}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct names l;
        ok(names_list(w->s, cases[i].dir, cases[i].tree, &l, &e), &e);
        assert_int_equal(l.n, cases[i].entries);
        for (size_t k = 1; k < l.n; k++)
            assert_string_not_equal(l.name[k - 1], l.name[k]);
        names_free(&l);
    }
    char *cursor = NULL;
    int seen = -600;
    ok(store_list_tree(w->s, "", &cursor, stop_at_three, &seen, &e), &e);
    assert_int_equal(seen, 3);
    free(cursor);
}

static struct store_stat set_attr(struct fixture *w, const char *path, struct store_attr a)
{
    struct err e = ERR_INIT;
    struct store_stat st, again;
    ok(store_set_attr(w->s, path, NULL, &a, &st, &e), &e);
    ok(store_stat_path(w->s, path, &again, &e), &e);
    assert_string_equal(st.version, again.version);
    assert_true(again.attr_known);
    return again;
}

static int take_attr(void *user, const struct store_entry *entry)
{
    struct store_stat *st = user;
    assert_true(entry->st.attr_known);
    if (strcmp(entry->name, "f") == 0)
        *st = entry->st;
    return 0;
}

static struct store_attr listed_attr(struct fixture *w, const char *dir)
{
    struct err e = ERR_INIT;
    struct store_stat st = {0};
    char *cursor = NULL;
    ok(store_list(w->s, dir, &cursor, take_attr, &st, &e), &e);
    assert_true(*st.version);
    return st.attr;
}

/* Owner and mode are told by stat and listing, stay with a file that is written anew or renamed,
 * and the file's own follow them, but for what the client needs, and what would let a program run
 * as another user. */
static void attributes(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    struct stat own;
    struct store_attr a;
    cleanup_free char *f = path_join(w->dir, "in/f"), *g = path_join(w->dir, "in/d/f");
    st = put(w, "f", 1, 10);
    cleanup_free char *version = xstrdup(st.version);
    assert_int_equal(st.attr.has, 0);
    assert_int_equal(listed_attr(w, "").has, 0);
    st = set_attr(w, "f", (struct store_attr){.has = STORE_MODE, .mode = 0140});
    assert_int_equal(st.attr.has, STORE_MODE);
    assert_int_equal(st.attr.mode, 0140);
    assert_int_equal(stat(f, &own), 0);
    assert_int_equal(own.st_mode & 07777, 0740);
    st = set_attr(w, "f",
        (struct store_attr){.has = STORE_OWNER | STORE_MTIME,
            .uid = 12,
            .gid = 34,
            .mtime_ns = 1500000000123456789});
    a = listed_attr(w, "");
    assert_true(
        a.has == (STORE_MODE | STORE_OWNER) && a.mode == 0140 && a.uid == 12 && a.gid == 34);
    assert_int_equal(st.mtime_ns, 1500000000123456789);
    assert_int_equal(store_set_attr(w->s, "f", version, &a, &st, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    a = (struct store_attr){
        .has = STORE_MODE | STORE_MTIME, .mode = 06755, .mtime_ns = -1500000000};
    cleanup_fd int fd = content_fd(2, 20);
    struct store_put again = *PUT(fd, 20);
    again.attr = &a;
    ok(store_put(w->s, "f", &again, &st, &e), &e);
    assert_true(st.attr_known && st.attr.has == (STORE_MODE | STORE_OWNER | STORE_MTIME));
    assert_int_equal(st.mtime_ns, -1500000000);
    assert_int_equal(stat(f, &own), 0);
    assert_int_equal(own.st_mode & 07777, 0755);
    ok(store_mkdir(w->s, "d", 0, &e), &e);
    st = set_attr(w, "d", (struct store_attr){.has = STORE_MODE, .mode = 01500});
    assert_true(st.is_dir && st.attr.mode == 01500);
    ok(store_rename(w->s, "f", "d/f", NULL, &st, &e), &e);
    a = listed_attr(w, "d");
    assert_true(a.has == (STORE_MODE | STORE_OWNER) && a.mode == 0755 && a.uid == 12);
    assert_int_equal(stat(g, &own), 0);
    assert_int_equal(own.st_uid, geteuid() ? geteuid() : 12);
    assert_int_equal(store_set_attr(w->s, "none", NULL, &a, &st, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    ok(store_symlink(w->s, "l", "d", &st, &e), &e);
    a.has = STORE_MODE | STORE_OWNER;
    assert_int_equal(store_set_attr(w->s, "l", NULL, &a, &st, &e), -1);
    assert_int_equal(err_errno(&e), EOPNOTSUPP);
    a = (struct store_attr){.has = STORE_OWNER | STORE_MTIME, .mtime_ns = 5000};
    ok(store_set_attr(w->s, "l", NULL, &a, &st, &e), &e); /* as much as can be */
    assert_true(st.is_link && st.mtime_ns == 5000 && st.attr.has == STORE_MTIME);
}

/* A mode as the mount shows it, open to all, opens no file to writers who use the directory without
 * us; what a directory's new files inherit from it stays; no set-ID bit goes along with content of
 * ours. */
static void own_modes(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    struct stat own;
    cleanup_free char *f = path_join(w->dir, "in/f"), *d = path_join(w->dir, "in/d"),
                      *set_id = path_join(w->dir, "in/set-id");
    struct store_attr a = {.has = STORE_MODE, .mode = 0777};
    cleanup_fd int fd = content_fd(2, 20);
    struct store_put open_to_all = *PUT(fd, 20);
    open_to_all.attr = &a;
    umask(022);
    ok(store_put(w->s, "f", &open_to_all, &st, &e), &e);
    assert_true(st.attr.has == STORE_MODE && st.attr.mode == 0777);
    assert_int_equal(stat(f, &own), 0);
    assert_int_equal(own.st_mode & 07777, 0755);
    set_attr(w, "f", (struct store_attr){.has = STORE_MODE, .mode = 0666});
    assert_int_equal(stat(f, &own), 0);
    assert_int_equal(own.st_mode & 07777, 0644);
    assert_int_equal(chmod(f, 0664), 0); /* whose directory it is may */
    set_attr(w, "f", (struct store_attr){.has = STORE_MODE, .mode = 0767});
    assert_int_equal(stat(f, &own), 0);
    assert_int_equal(own.st_mode & 07777, 0765);
    assert_int_equal(chmod(f, 06755), 0);
    put(w, "f", 3, 30);
    assert_int_equal(stat(f, &own), 0);
    assert_int_equal(own.st_mode & 07777, 0745);
    put(w, "set-id", 3, 30);
    assert_int_equal(chmod(set_id, 06755), 0);
    put(w, "set-id", 4, 30);
    assert_int_equal(stat(set_id, &own), 0);
    assert_int_equal(own.st_mode & 07777, 0755);
    ok(store_mkdir(w->s, "d", 0, &e), &e);
    assert_int_equal(chmod(d, 02775), 0);
    set_attr(w, "d", (struct store_attr){.has = STORE_MODE, .mode = 0777});
    assert_int_equal(stat(d, &own), 0);
    assert_int_equal(own.st_mode & 07777, 02777 & ~02);
}

/* What is so already is no change: whoever has the file cached keeps it. */
static void attributes_as_they_are(void **state)
{
    struct fixture *w = *state;
    const struct store_attr a = {.has = STORE_MODE | STORE_OWNER | STORE_MTIME,
        .mode = 0640,
        .uid = geteuid(),
        .gid = getegid(),
        .mtime_ns = 1500000000};
    put(w, "f", 1, 10);
    struct store_stat first = set_attr(w, "f", a);
    clock_sleep_ns(20 * NS_PER_MS); /* else both may be in one tick of ctime */
    struct store_stat second = set_attr(w, "f", a);
    assert_string_equal(first.version, second.version);
    assert_int_equal(second.attr.has, STORE_MODE | STORE_OWNER);
}

#define with_fixture(test)                                  \
    cmocka_unit_test_setup_teardown(test, setup, teardown), \
        cmocka_unit_test_setup_teardown(test, setup_guarded, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {with_fixture(a_directory_as_a_store),
        with_fixture(links_do_not_lead_out), cmocka_unit_test(a_directory_that_is_not_there),
        with_fixture(a_failed_put_leaves_what_was_there), with_fixture(large_directories),
        with_fixture(what_is_rewritten_keeps_its_mode), with_fixture(attributes),
        with_fixture(own_modes), with_fixture(attributes_as_they_are),
        /* of one that may hang the bytes are given on when all have come */
        cmocka_unit_test_setup_teardown(a_read_is_of_one_version, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
