/* SPDX-License-Identifier: Apache-2.0 */
/* Symbolic links in every kind of store that has them; and in buckets, what they cost. */
#include "tests/lib/unit.h"

#include "fuse/store/s3.h"
#include "tests/unit/fuse/store/store_kinds.h"

static struct store_stat asked(struct store *s, const char *path)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    ok(store_stat_path(s, path, &st, &e), &e);
    ok(store_ask(s, path, &st, &e), &e);
    assert_false(st.unasked);
    return st;
}

static struct store_stat put(struct store *s, const char *path, uint64_t len)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    cleanup_fd int fd = content_fd(1, len);
    ok(store_put(s, path, PUT(fd, len), &st, &e), &e);
    assert_false(st.is_link || st.unasked);
    return st;
}

static struct store_stat make(struct store *s, const char *path, const char *target)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    ok(store_symlink(s, path, target, &st, &e), &e);
    assert_true(st.is_link && !st.unasked && !st.is_dir);
    assert_int_equal(st.size, strlen(target));
    return st;
}

static void leads_to(struct store *s, const char *path, const char *target)
{
    struct err e = ERR_INIT;
    struct store_stat st = asked(s, path);
    char now[STORE_LINK_MAX + 1] = "";
    assert_true(st.is_link);
    assert_int_equal(st.size, strlen(target));
    ok(store_read(s, path, st.version, 0, st.size, now, NULL, &e), &e);
    assert_string_equal(now, target);
}

static void listed(struct store *s, const char *dir, bool tree, const char *want)
{
    struct err e = ERR_INIT;
    struct names l;
    ok(names_list(s, dir, tree, &l, &e), &e);
    cleanup_free char *got = names_join(&l);
    assert_string_equal(got, want);
}

static void a_link(struct store *s)
{
    struct err e = ERR_INIT;
    struct store_stat st, made;
    char longest[STORE_LINK_MAX + 2] = "", buf[8];
    ok(store_mkdir(s, "d", 0, &e), &e);
    ok(store_mkdir(s, "e", 0, &e), &e);
    put(s, "f", 3);
    made = make(s, "d/l", "../f");
    leads_to(s, "d/l", "../f");
    assert_string_equal(asked(s, "d/l").version, made.version);
    ok(store_read(s, "d/l", "", 1, 2, buf, NULL, &e), &e);
    assert_memory_equal(buf, "./", 2);
    fails(store_read(s, "d/l", made.version, 0, 5, buf, NULL, &e), &e, ERR_INVALID, 0);
    fails(store_symlink(s, "d/l", "../f", &st, &e), &e, ERR_CONFLICT, EEXIST);
    fails(store_symlink(s, "f", "d", &st, &e), &e, ERR_CONFLICT, EEXIST);
    leads_to(s, "d/l", "../f");
    assert_false(asked(s, "f").is_link);
    listed(s, "d", false, "l:4");
    listed(s, "d", true, "l:4");
    listed(s, "", true, "d/l:4 f:3");
    memset(longest, 'x', STORE_LINK_MAX);
    make(s, "d/long", longest);
    leads_to(s, "d/long", longest);
    longest[STORE_LINK_MAX] = 'x';
    fails(store_symlink(s, "g", longest, &st, &e), &e, ERR_INVALID, ENAMETOOLONG);
    fails(store_symlink(s, "g", "", &st, &e), &e, ERR_INVALID, ENOENT);
    ok(store_remove(s, "d/long", &e), &e);
    ok(store_rename(s, "d/l", "e/m", made.version, &st, &e), &e);
    leads_to(s, "e/m", "../f");
    listed(s, "d", false, "");
    listed(s, "e", false, "m:4");
    ok(store_rename(s, "e/m", "f", NULL, &st, &e), &e); /* over a file */
    leads_to(s, "f", "../f");
    put(s, "f", 5); /* and a file over it */
    assert_false(asked(s, "f").is_link);
    make(s, "e/n", "to");
    ok(store_remove(s, "e/n", &e), &e);
    fails(store_stat_path(s, "e/n", &st, &e), &e, ERR_NOTFOUND, 0);
    ok(store_rmdir(s, "d", &e), &e);
    ok(store_rmdir(s, "e", &e), &e);
    listed(s, "", false, "f:5");
}

static void in_every_kind(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct subject t = {0};
        print_message("# %s\n", kinds[i].name);
        kinds[i].open(&t);
        a_link(t.s);
        subject_close(&t);
    }
}

static void a_directory_is_never_followed(void **state)
{
    (void)state;
    struct subject t = {0};
    struct err e = ERR_INIT;
    struct store_stat st;
    char buf[4];
    open_local(&t);
    ok(store_mkdir(t.s, "d", 0, &e), &e);
    put(t.s, "d/f", 3);
    make(t.s, "in", "d");
    make(t.s, "out", "/tmp");
    static const char *const paths[] = {"in/f", "out/f"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        cleanup_fd int fd = content_fd(1, 3);
        fails(store_stat_path(t.s, paths[i], &st, &e), &e, ERR_NOTFOUND, ENOENT);
        fails(store_read(t.s, paths[i], "", 0, 3, buf, NULL, &e), &e, ERR_NOTFOUND, ENOENT);
        fails(store_put(t.s, paths[i], PUT(fd, 3), &st, &e), &e, ERR_NOTFOUND, ENOENT);
        fails(store_symlink(t.s, paths[i], "x", &st, &e), &e, ERR_NOTFOUND, ENOENT);
        fails(store_remove(t.s, paths[i], &e), &e, ERR_NOTFOUND, ENOENT);
    }
    listed(t.s, "", false, "d/ in:1 out:4");
    subject_close(&t);
}

static int count_unasked(void *user, const struct store_entry *entry)
{
    *(unsigned *)user += entry->st.unasked;
    return 0;
}

static unsigned unasked(struct store *s, const char *dir)
{
    struct err e = ERR_INIT;
    unsigned n = 0;
    char *cursor = NULL;
    do
        ok(store_list(s, dir, &cursor, count_unasked, &n, &e), &e);
    while (cursor);
    return n;
}

/* Only where links were made, or others may make them, small objects are asked for. */
static void what_buckets_leave_unasked(void **state)
{
    (void)state;
    struct subject t = {0};
    struct err e = ERR_INIT;
    size_t len;
    open_s3(&t);
    put(t.s, "d/small", 10);
    put(t.s, "d/large", 5000);
    put(t.s, "d/empty", 0);
    unsigned heads = fake_s3_requests(t.server, "HEAD");
    assert_int_equal(unasked(t.s, "d"), 0);
    make(t.s, "d/l", "small");
    assert_int_equal(unasked(t.s, "d"), 2);
    assert_int_equal(unasked(t.s, ""), 0);
    assert_int_equal(fake_s3_requests(t.server, "HEAD"), heads + 1); /* for the note */
    cleanup_free void *note = fake_s3_get(t.server, "set/d/" S3_LINKS_NOTE, &len);
    assert_true(note && len == 0);
    listed(t.s, "d", false, "empty:0 l:5 large:5000 small:10");
    struct store_stat st;
    fails(store_rename(t.s, "d/l", "d/" S3_LINKS_NOTE, NULL, &st, &e), &e, ERR_INVALID, EINVAL);
    /* each of many links does not ask for the note anew */
    make(t.s, "d/l2", "small");
    make(t.s, "d/l3", "small");
    assert_int_equal(fake_s3_requests(t.server, "HEAD"), heads + 1);
    make(t.s, "top", "d");
    assert_int_equal(unasked(t.s, ""), 1);
    store_free(t.s);
    mount_option(t.m, S3_OPTION_S3FS, "true");
    open_at(&t, "s3://data/set");
    fake_s3_put(t.server, "set/e/small", "x", 1);
    assert_int_equal(unasked(t.s, "e"), 1);
    subject_close(&t);
}

/* Links of a directory that is moved, object by object, are links where they go to. */
static void notes_go_along(void **state)
{
    (void)state;
    struct subject t = {0};
    struct err e = ERR_INIT;
    struct store_stat st;
    open_s3(&t);
    make(t.s, "d/l", "to");
    ok(store_copy(t.s, "d/l", "e/l", NULL, &st, &e), &e);
    assert_int_equal(unasked(t.s, "e"), 1);
    leads_to(t.s, "e/l", "to");
    put(t.s, "d/large", 5000);
    put(t.s, "p/small", 10);
    ok(store_copy(t.s, "d/large", "g/large", NULL, &st, &e), &e);
    ok(store_copy(t.s, "p/small", "g/small", NULL, &st, &e), &e);
    assert_int_equal(unasked(t.s, "g"), 0);
    /* a note by itself keeps no directory from going */
    ok(store_remove(t.s, "e/l", &e), &e);
    ok(store_rmdir(t.s, "e", &e), &e);
    fails(store_stat_path(t.s, "e", &st, &e), &e, ERR_NOTFOUND, 0);
    make(t.s, "e/again", "to"); /* and is made anew */
    assert_int_equal(unasked(t.s, "e"), 1);
    subject_close(&t);
}

static void what_may_not_be_asked_is_a_file(void **state)
{
    (void)state;
    struct subject t = {0};
    struct err e = ERR_INIT;
    struct store_stat st, old;
    open_s3(&t);
    make(t.s, "l", "to");
    ok(store_stat_path(t.s, "l", &st, &e), &e);
    assert_true(st.unasked);
    old = st;
    fake_s3_fault(t.server, "HEAD", "denied", 1);
    ok(store_ask(t.s, "l", &st, &e), &e);
    assert_false(st.is_link || st.unasked);
    fake_s3_clear(t.server);
    put(t.s, "l", 2);
    fails(store_ask(t.s, "l", &old, &e), &e, ERR_CONFLICT, ESTALE);
    ok(store_remove(t.s, "l", &e), &e);
    fails(store_ask(t.s, "l", &old, &e), &e, ERR_NOTFOUND, ENOENT);
    subject_close(&t);
}

static void lost_answers(void **state)
{
    (void)state;
    struct subject t = {0};
    open_s3(&t);
    put(t.s, "d/x", 1);
    fake_s3_fault(t.server, "PUT", "lost", 2); /* of the note, and of the link */
    make(t.s, "d/l", "to");
    leads_to(t.s, "d/l", "to");
    subject_close(&t);
}

static void modes_as_text(void **state)
{
    (void)state;
    assert_true(s3_mode_is_link("41471") && s3_mode_is_link("40960"));
    /* files, directories, octal numbers of others, and no numbers */
    static const char *const none[] = {"33188", "16877", "0120777", "120777", "41471 ", " 41471",
        "-24065", "+41471", "", "l", "9999999999999999999999"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        assert_false(s3_mode_is_link(none[i]));
}

static void a_store_without_links(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct store_stat st;
    struct mount *m = mount_new("hdfs://name.example:8020/data");
    mount_option(m, "user", "me");
    struct store *s = store_new(&(struct store_conf){.mount = &m->conf}, &e);
    if (!s)
        print_error("%s\n", e.msg);
    assert_non_null(s);
    fails(store_symlink(s, "l", "to", &st, &e), &e, ERR_INVALID, EOPNOTSUPP);
    store_free(s);
    mount_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_every_kind),
        cmocka_unit_test(a_directory_is_never_followed),
        cmocka_unit_test(what_buckets_leave_unasked),
        cmocka_unit_test(notes_go_along),
        cmocka_unit_test(what_may_not_be_asked_is_a_file),
        cmocka_unit_test(lost_answers),
        cmocka_unit_test(modes_as_text),
        cmocka_unit_test(a_store_without_links),
    };
    return cmocka_run_group_tests_name("store_links", tests, NULL, NULL);
}
