/* SPDX-License-Identifier: Apache-2.0 */
/* store_kinds — an empty store of each kind, for tests of what all of them promise. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_STORE_STORE_KINDS_H
#define MILLRACE_TESTS_UNIT_FUSE_STORE_STORE_KINDS_H

#include "fuse/store/store.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "tests/fake/fake_s3.h"
#include "tests/fake/store.h"
#include "tests/lib/mount.h"

#include <errno.h>

struct subject {
    struct store *s;
    struct mount *m;
    char dir[64];           /* of a directory */
    struct fake_s3 *server; /* of S3 */
    struct fake_store *fake;
};

static inline void open_at(struct subject *t, const char *url)
{
    struct err e = ERR_INIT;
    if (!t->m)
        t->m = mount_new(url);
    t->s = store_new(&(struct store_conf){.mount = &t->m->conf, .deadline_ns = 60 * NS_PER_S}, &e);
    if (!t->s)
        print_error("%s\n", e.msg);
    assert_non_null(t->s);
}

static inline void open_directory(struct subject *t, const char *can_hang)
{
    strcpy(t->dir, "/tmp/millrace-test.XXXXXX");
    assert_non_null(mkdtemp(t->dir));
    cleanup_free char *url = xasprintf("file://%s", t->dir);
    t->m = mount_new(url);
    mount_option(t->m, "can-hang", can_hang);
    open_at(t, url);
}

static inline void open_local(struct subject *t) { open_directory(t, "false"); }
static inline void open_remote(struct subject *t) { open_directory(t, "true"); }

static inline void open_s3(struct subject *t)
{
    t->server = fake_s3_start(0);
    t->m = mount_new("s3://data/set");
    cleanup_free char *endpoint = xasprintf("http://127.0.0.1:%d", fake_s3_port(t->server));
    mount_option(t->m, "endpoint", endpoint);
    open_at(t, "s3://data/set");
}

static inline void open_gs(struct subject *t)
{
    t->server = fake_s3_start(0);
    fake_s3_google(t->server, "");
    t->m = mount_new("gs://data/set");
    cleanup_free char *endpoint = xasprintf("http://127.0.0.1:%d", fake_s3_port(t->server));
    mount_option(t->m, "endpoint", endpoint);
    mount_option(t->m, "anonymous", "true");
    open_at(t, "gs://data/set");
}

static inline void open_fake(struct subject *t, unsigned caps)
{
    t->fake = fake_store_new(STORE_CAP_WRITE | caps);
    t->s = fake_store(t->fake);
}

static inline void open_memory(struct subject *t)
{
    open_fake(t, STORE_CAP_RENAME_DIR | STORE_CAP_DIRS);
}

static inline void open_flat_memory(struct subject *t) { open_fake(t, 0); }

static const struct {
    const char *name;
    void (*open)(struct subject *t);
} kinds[] = {
    {"a local directory", open_local},
    {"a directory that may hang", open_remote},
    {"S3", open_s3},
    {"Cloud Storage", open_gs},
    {"memory", open_memory},
    {"memory without directories", open_flat_memory},
};

static inline void subject_close(struct subject *t)
{
    if (t->fake)
        fake_store_free(t->fake);
    else
        store_free(t->s);
    if (t->m)
        mount_free(t->m);
    if (t->server)
        fake_s3_stop(t->server);
    if (*t->dir)
        file_remove_tree(t->dir, NULL);
}

static inline void ok(int rc, const struct err *e)
{
    if (rc)
        print_error("%s\n", e->msg);
    assert_int_equal(rc, 0);
}

/* A call that must fail, and has said why in the ways that others rely on. */
static inline void fails(int rc, const struct err *e, enum err_class cls, int sys)
{
    assert_int_equal(rc, -1);
    if (e->cls != cls || (sys && err_errno(e) != sys))
        print_error("%s\n", e->msg);
    assert_int_equal(e->cls, cls);
    if (sys)
        assert_int_equal(err_errno(e), sys);
    assert_true(strlen(e->msg) > 5);
    if (cls == ERR_NOTFOUND)
        assert_string_equal(store_reason(e), "NotFound");
}

/* -- of a store that a test has started -- */

static inline bool is_hdfs(void)
{
    const char *url = getenv("MILLRACE_STORE_URL");
    return url && strstr(url, "hdfs://");
}

/* A directory for the promise, where such must be made. */
static inline void make_own(const char *url, const char *name)
{
    struct subject all = {0};
    struct err e = ERR_INIT;
    open_at(&all, url);
    if (store_caps(all.s) & STORE_CAP_DIRS)
        ok(store_mkdir(all.s, name, 0, &e), &e);
    subject_close(&all);
}

/* One that the store cannot have: it is not there, and is not made. */
static inline void refuses_name(struct store *s, const char *name)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    struct names l;
    cleanup_fd int fd = content_fd(1, 1);
    fails(store_stat_path(s, name, &st, &e), &e, ERR_NOTFOUND, ENOENT);
    fails(store_put(s, name, PUT(fd, 1), &st, &e), &e, ERR_INVALID, EINVAL);
    fails(store_mkdir(s, name, 0, &e), &e, ERR_INVALID, EINVAL);
    ok(names_list(s, "", false, &l, &e), &e);
    assert_int_equal(l.n, 0);
}

#endif
