/* SPDX-License-Identifier: Apache-2.0 */
/* s3_fixture — what the programs share that test the S3 store against a server that misbehaves:
 * such a server, with one object in it, and a store with credentials from a directory. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_STORE_S3_FIXTURE_H
#define MILLRACE_TESTS_UNIT_FUSE_STORE_S3_FIXTURE_H

#include "tests/lib/unit.h"

#include "fuse/store/s3.h"
#include "lib/base/file.h"
#include "tests/fake/fake_s3.h"
#include "tests/lib/mount.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define LEN     300000u
#define PATIENT (60 * NS_PER_S) /* a machine that stops for seconds is no fault of the store */
/* what goes wrong goes on for so long: time for an answer at least */
#define BRIEF (3 * NS_PER_S)
/* where the machine stops during the last one, the deadline is what went wrong */
#define TRIES 8

struct fixture {
    struct fake_s3 *server;
    struct mount *m;
    struct store *s;
    char dir[64]; /* secrets */
};

static inline void write_secret(const struct fixture *w, const char *name, const char *value)
{
    cleanup_free char *path = path_join(w->dir, name);
    struct err e = ERR_INIT;
    assert_int_equal(file_write_atomic(path, value, strlen(value), 0600, &e), 0);
}

static inline struct store *open_store(
    const struct mount *m, const char *secrets, int64_t deadline_ns)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(
        &(struct store_conf){.mount = &m->conf, .secrets_dir = secrets, .deadline_ns = deadline_ns},
        &e);
    if (!s)
        print_error("%s\n", e.msg);
    assert_non_null(s);
    return s;
}

static inline int setup(void **state)
{
    struct fixture *w = xcalloc(1, sizeof *w);
    strcpy(w->dir, "/tmp/millrace-test.XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    write_secret(w, "id", "good\n");
    write_secret(w, "key", "secretsecret");
    w->server = fake_s3_start(0);
    w->m = mount_new("s3://data/set");
    cleanup_free char *endpoint = xasprintf("http://127.0.0.1:%d", fake_s3_port(w->server));
    mount_option(w->m, "endpoint", endpoint);
    mount_secret(w->m, "access-key-id", "id", "creds:accessKey");
    mount_secret(w->m, "secret-access-key", "key", "creds:secretKey");
    w->s = open_store(w->m, w->dir, PATIENT);
    unsigned char *data = malloc(LEN);
    for (size_t i = 0; i < LEN; i++)
        data[i] = content(1, i);
    fake_s3_put(w->server, "set/file", data, LEN);
    free(data);
    *state = w;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    store_free(w->s);
    mount_free(w->m);
    fake_s3_stop(w->server);
    file_remove_tree(w->dir, &e);
    free(w);
    return 0;
}

static inline void ok(int rc, const struct err *e)
{
    if (rc)
        print_error("%s\n", e->msg);
    assert_int_equal(rc, 0);
}

#define with_fixture(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
