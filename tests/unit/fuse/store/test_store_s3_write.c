/* SPDX-License-Identifier: Apache-2.0 */
/* The S3 store against a server that misbehaves while it is written to. */
#include "tests/unit/fuse/store/s3_fixture.h"

#include "lib/base/progress.h"

static void check_object(struct fixture *w, const char *key, unsigned seed, size_t want)
{
    size_t len = 0;
    cleanup_free unsigned char *data = fake_s3_get(w->server, key, &len);
    assert_non_null(data);
    assert_int_equal(len, want);
    assert_true(content_same(seed, 0, data, len));
}

static void uploads_survive_faults(void **state)
{
    struct fixture *w = *state;
    static const char *const kinds[] = {"error", "slowdown", "reset", "lost"};
    cleanup_fd int fd = content_fd(4, 700000);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct err e = ERR_INIT;
        struct store_stat st;
        cleanup_free char *path = xasprintf("up/%s", kinds[i]),
                          *key = xasprintf("set/up/%s", kinds[i]);
        fake_s3_fault(w->server, "PUT", kinds[i], 1);
        ok(store_put(w->s, path, PUT(fd, 700000), &st, &e), &e);
        assert_int_equal(st.size, 700000);
        check_object(w, key, 4, 700000);
        fake_s3_clear(w->server);
    }
}

static struct s3 *small_parts(struct fixture *w)
{
    struct store_params p = {.url = "s3://data/set",
        .rest = "data/set",
        .mount = &w->m->conf,
        .kind = &store_s3.kind,
        .secrets_dir = w->dir,
        .deadline_ns = PATIENT,
        .max_connections = 8};
    struct err e = ERR_INIT;
    struct s3 *s = store_s3.open(&p, &e);
    assert_non_null(s);
    s->single_put_max = s->part_size = s->copy_part_size = s->single_copy_max = 100000;
    return s;
}

static void multipart_uploads_survive_faults(void **state)
{
    struct fixture *w = *state;
    struct s3 *s = small_parts(w);
    cleanup_fd int fd = content_fd(5, 1050000);
    static const struct {
        const char *method, *kind;
        unsigned fine;
    } cases[] = {{"PUT", "error", 3}, {"PUT", "lost", 1}, {"POST", "error", 0},
        {"POST", "error", 1}, {"POST", "ok200", 1}, {"PUT", "reset", 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        struct store_stat st;
        cleanup_free char *path = xasprintf("big%zu", i), *key = xasprintf("set/big%zu", i);
        fake_s3_fault(w->server, cases[i].method, "fine", cases[i].fine);
        fake_s3_fault(w->server, cases[i].method, cases[i].kind, 2);
        ok(store_s3.put(s, path, PUT(fd, 1050000), &st, &e), &e);
        check_object(w, key, 5, 1050000);
        assert_int_equal(fake_s3_uploads(w->server), 0);
        fake_s3_clear(w->server);
    }
    struct err e = ERR_INIT;
    struct store_stat st;
    fake_s3_fault(w->server, "PUT", "denied", 1000);
    assert_int_equal(store_s3.put(s, "never", PUT(fd, 1050000), &st, &e), -1);
    assert_int_equal(e.cls, ERR_DENIED);
    /* aborted: nothing lies about and costs money */
    assert_int_equal(fake_s3_uploads(w->server), 0);
    size_t len;
    assert_null(fake_s3_get(w->server, "set/never", &len));
    store_s3.close(s);
}

/* Who waits for an upload sees that it gets on: with each part, whichever thread sends it, and with
 * each attempt. */
static void an_upload_gets_on(void **state)
{
    struct fixture *w = *state;
    struct s3 *s = small_parts(w);
    struct err e = ERR_INIT;
    struct store_stat st;
    const struct progress_things it = {.a = 77, .b = 77}, other = {.a = 78, .b = 78};
    const size_t size = 5 << 20; /* parts of 1 MiB */
    cleanup_fd int fd = content_fd(5, size);
    uint64_t before = progress_count(&it), others = progress_count(&other);
    progress_of(77, 77);
    ok(store_s3.put(s, "progress", PUT(fd, size), &st, &e), &e);
    uint64_t steps = progress_count(&it) - before;
    assert_true(steps >= 5 + (size >> 17)); /* the attempts, and their bytes in pieces */
    fake_s3_fault(w->server, "PUT", "error", 3);
    before = progress_count(&it);
    ok(store_s3.put(s, "again", PUT(fd, 50000), &st, &e), &e);
    assert_true(progress_count(&it) - before >= 3 + 2);
    assert_int_equal(progress_count(&other), others);
    progress_of(0, 0);
    fake_s3_clear(w->server);
    store_s3.close(s);
}

static void *set_soon(void *flag)
{
    clock_sleep_ns(NS_PER_S);
    atomic_store((atomic_bool *)flag, true);
    return NULL;
}

/* By a person who waits no longer: at once, and no parts stay that cost money. */
static void a_put_that_is_cancelled(void **state)
{
    struct fixture *w = *state;
    struct s3 *s = small_parts(w);
    cleanup_fd int fd = content_fd(5, 1050000);
    size_t len;
    for (unsigned fine = 0; fine < 2; fine++) { /* of one piece; in parts */
        struct err e = ERR_INIT;
        struct store_stat st;
        pthread_t thread;
        atomic_bool cancel = false;
        uint64_t size = fine ? 1050000 : 50000;
        struct store_put put = {.fd = fd, .len = size, .cancel = &cancel};
        if (fine)
            fake_s3_fault(w->server, "PUT", "fine", 1);
        fake_s3_fault(w->server, "PUT", "hang", 1000);
        int64_t began = clock_mono_ns();
        assert_int_equal(pthread_create(&thread, NULL, set_soon, &cancel), 0);
        assert_int_equal(store_s3.put(s, "half", &put, &st, &e), -1);
        pthread_join(thread, NULL);
        assert_int_equal(e.sys, ECANCELED);
        assert_true(clock_mono_ns() - began < PATIENT / 2);
        assert_null(fake_s3_get(w->server, "set/half", &len));
        assert_int_equal(fake_s3_uploads(w->server), 0);
        fake_s3_clear(w->server);
    }
    store_s3.close(s);
}

struct until_there {
    struct fake_s3 *server;
    atomic_bool cancel;
};

static void *cancel_when_there(void *user)
{
    struct until_there *u = user;
    void *got;
    for (size_t len; !(got = fake_s3_get(u->server, "set/sent", &len));)
        clock_sleep_ns(NS_PER_MS);
    free(got);
    atomic_store(&u->cancel, true);
    return NULL;
}

/* Whose caller has to know whether it is there: what is on its way as a whole is waited for, and
 * what an earlier attempt may have done is not told as nothing. */
static void a_put_that_is_cancelled_for_certain(void **state)
{
    struct fixture *w = *state;
    struct s3 *s = small_parts(w);
    cleanup_fd int fd = content_fd(5, 50000);
    size_t len;
    struct err e = ERR_INIT;
    struct store_stat st;
    struct until_there u = {w->server, true};
    struct store_put put = {.fd = fd, .len = 50000, .cancel = &u.cancel, .certain = true};
    pthread_t thread;
    assert_int_equal(store_s3.put(s, "not-begun", &put, &st, &e), -1);
    assert_int_equal(e.sys, ECANCELED);
    assert_null(fake_s3_get(w->server, "set/not-begun", &len));
    for (int empty = 0; empty < 2; empty++) { /* that one is sent with its headers */
        put.len = empty ? 0 : 50000;
        atomic_store(&u.cancel, false);
        fake_s3_fault(w->server, "PUT", "slow", 1);
        assert_int_equal(pthread_create(&thread, NULL, cancel_when_there, &u), 0);
        ok(store_s3.put(s, "sent", &put, &st, &e), &e);
        pthread_join(thread, NULL);
        ok(store_s3.remove(s, "sent", &e), &e);
    }
    store_s3.close(s);
}

/* One part is refused, another one waits for an answer: nobody waits for that, whether or not the
 * caller could cancel it. */
static void a_part_that_fails_ends_the_others(void **state)
{
    struct fixture *w = *state;
    struct s3 *s = small_parts(w);
    cleanup_fd int fd = content_fd(5, 1050000);
    atomic_bool never = false;
    const atomic_bool *const cancels[] = {NULL, &never};
    for (size_t i = 0; i < ARRAY_LEN(cancels); i++) {
        struct err e = ERR_INIT;
        struct store_stat st;
        struct store_put put = {.fd = fd, .len = 1050000, .cancel = cancels[i]};
        fake_s3_fault(w->server, "PUT", "hang", 1);
        fake_s3_fault(w->server, "PUT", "denied", 1);
        int64_t began = clock_mono_ns();
        assert_int_equal(store_s3.put(s, "half", &put, &st, &e), -1);
        assert_int_equal(e.cls, ERR_DENIED);
        assert_true(clock_mono_ns() - began < 8 * NS_PER_S); /* a silent server has 15 */
        assert_int_equal(fake_s3_uploads(w->server), 0);
        fake_s3_clear(w->server);
    }
    store_s3.close(s);
}

/* The answer to the last request of an upload is lost; the server does not know the upload when
 * asked again. */
static void a_lost_completion_is_recognised(void **state)
{
    struct fixture *w = *state;
    struct s3 *s = small_parts(w);
    struct err e = ERR_INIT;
    struct store_stat st;
    cleanup_fd int fd = content_fd(6, 450000);
    fake_s3_fault(w->server, "POST", "fine", 1);
    fake_s3_fault(w->server, "POST", "lost", 1);
    ok(store_s3.put(s, "f", PUT(fd, 450000), &st, &e), &e);
    check_object(w, "set/f", 6, 450000);
    fake_s3_clear(w->server);
    store_s3.close(s);
}

/* The answer to a conditional request is lost; the object that it meets when it is sent again is
 * its own, an empty one, too. */
static void a_lost_condition_is_recognised(void **state)
{
    struct fixture *w = *state;
    struct s3 *s = small_parts(w);
    struct err e = ERR_INIT;
    struct store_stat st, again;
    cleanup_fd int fd = content_fd(6, 450000);
    static const uint64_t lens[] = {0, 50000, 450000};
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        cleanup_free char *path = xasprintf("once%zu", i);
        const char *method = lens[i] > 100000 ? "POST" : "PUT";
        fake_s3_fault(w->server, method, "fine", lens[i] > 100000);
        fake_s3_fault(w->server, method, "lost", 1);
        ok(store_s3.put(s, path, PUT_OVER(fd, lens[i], ""), &st, &e), &e);
        assert_int_equal(fake_s3_faults(w->server, "lost"), i + 1);
        assert_int_equal(store_s3.put(s, path, PUT_OVER(fd, lens[i], ""), &again, &e), -1);
        assert_int_equal(e.cls, ERR_CONFLICT);
        fake_s3_clear(w->server);
    }
    fake_s3_fault(w->server, "PUT", "lost", 1);
    ok(store_s3.mkdir(s, "d", 0, &e), &e);
    assert_int_equal(store_s3.mkdir(s, "d", 0, &e), -1);
    assert_int_equal(e.cls, ERR_EXISTS);
    assert_int_equal(fake_s3_uploads(w->server), 0);
    store_s3.close(s);
}

/* The object changes while its parts are sent, or its upload is ended by somebody else. */
static void a_late_upload_replaces_nothing(void **state)
{
    struct fixture *w = *state;
    struct s3 *s = small_parts(w);
    struct err e = ERR_INIT;
    struct store_stat st;
    cleanup_fd int fd = content_fd(6, 450000);
    ok(store_stat_path(w->s, "file", &st, &e), &e);
    cleanup_free char *version = xstrdup(st.version);
    fake_s3_put(w->server, "set/file", "newer", 5);
    assert_int_equal(store_s3.put(s, "file", PUT_OVER(fd, 450000, version), &st, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_int_equal(err_errno(&e), ESTALE);
    assert_int_equal(fake_s3_uploads(w->server), 0);
    fake_s3_fault(w->server, "POST", "fine", 1);
    fake_s3_fault(w->server, "POST", "forgotten", 1);
    assert_int_equal(store_s3.put(s, "file", PUT(fd, 450000), &st, &e), -1);
    assert_int_equal(fake_s3_faults(w->server, "forgotten"), 1);
    size_t len = 0;
    cleanup_free char *kept = fake_s3_get(w->server, "set/file", &len);
    assert_int_equal(len, 5);
    assert_memory_equal(kept, "newer", 5);
    store_s3.close(s);
}

/* A server that refuses conditions is asked before instead, and not tried with them again. */
static void servers_without_conditions(void **state)
{
    struct fixture *w = *state;
    struct s3 *s = small_parts(w);
    struct err e = ERR_INIT;
    struct store_stat st;
    cleanup_fd int fd = content_fd(6, 450000);
    static const uint64_t lens[] = {50000, 450000};
    fake_s3_unconditional(w->server);
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        cleanup_free char *path = xasprintf("f%zu", i);
        ok(store_s3.put(s, path, PUT_OVER(fd, lens[i], ""), &st, &e), &e);
        assert_int_equal(store_s3.put(s, path, PUT_OVER(fd, lens[i], ""), &st, &e), -1);
        assert_int_equal(err_errno(&e), EEXIST);
        assert_int_equal(store_s3.put(s, path, PUT_OVER(fd, lens[i], "other"), &st, &e), -1);
        assert_int_equal(err_errno(&e), ESTALE);
    }
    ok(store_s3.mkdir(s, "d", 0, &e), &e);
    assert_int_equal(store_s3.mkdir(s, "d", 0, &e), -1);
    unsigned before = fake_s3_requests(w->server, "PUT");
    ok(store_s3.put(s, "g", PUT_OVER(fd, 50000, ""), &st, &e), &e);
    assert_int_equal(fake_s3_requests(w->server, "PUT"), before + 1);
    store_s3.close(s);
}

struct scribble {
    int fd;
    atomic_bool stop;
};

#define SCRIBBLED (16u << 20)

static void *scribble_thread(void *user)
{
    struct scribble *w = user;
    for (uint64_t n = 0; !atomic_load(&w->stop); n++)
        if (pwrite(w->fd, &n, sizeof n, (off_t)(n * 40961 % (SCRIBBLED - 8))) != sizeof n)
            abort();
    return NULL;
}

/* In one request and in parts: a file that somebody goes on writing to. */
static void files_that_are_written_to(void **state)
{
    struct fixture *w = *state;
    struct s3 *s = small_parts(w);
    s->part_size = 8 << 20;
    struct err e = ERR_INIT;
    struct store_stat st;
    cleanup_fd int fd = content_fd(6, SCRIBBLED);
    struct scribble writer = {.fd = fd};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, scribble_thread, &writer), 0);
    static const struct {
        uint64_t single;
        unsigned requests;
    } cases[] = {{SCRIBBLED, 1}, {100000, 2}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        unsigned before = fake_s3_requests(w->server, "PUT");
        s->single_put_max = cases[i].single;
        ok(store_s3.put(s, "f", PUT(fd, SCRIBBLED), &st, &e), &e);
        assert_int_equal(st.size, SCRIBBLED);
        /* once more at most, with bytes that stay as they are */
        assert_true(fake_s3_requests(w->server, "PUT") - before <= 2 * cases[i].requests);
    }
    atomic_store(&writer.stop, true);
    pthread_join(thread, NULL);
    store_s3.close(s);
}

static void renames_copy_and_delete(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    fake_s3_fault(w->server, "PUT", "ok200", 1); /* an error that arrives as a success */
    fake_s3_fault(w->server, "DELETE", "error", 1);
    ok(store_rename(w->s, "file", "moved", NULL, &st, &e), &e);
    assert_int_equal(st.size, LEN);
    check_object(w, "set/moved", 1, LEN);
    size_t len;
    assert_null(fake_s3_get(w->server, "set/file", &len));
    fake_s3_clear(w->server);
    struct s3 *s = small_parts(w);
    fake_s3_fault(w->server, "PUT", "error", 1);
    ok(store_s3.rename(s, "moved", "again", NULL, &st, &e), &e); /* in parts */
    check_object(w, "set/again", 1, LEN);
    assert_int_equal(fake_s3_uploads(w->server), 0);
    store_s3.close(s);
    fake_s3_clear(w->server);
    fake_s3_fault(w->server, "DELETE", "denied", 1000);
    assert_int_equal(store_rename(w->s, "again", "third", NULL, &st, &e), -1);
    assert_non_null(strstr(e.msg, "was copied to set/third, but not removed"));
    check_object(w, "set/again", 1, LEN);
}

/* A gateway that does not know copies takes one for an upload of nothing, and says that it is done.
 */
static void a_rename_removes_nothing_that_is_not_copied(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    size_t len;
    fake_s3_fault(w->server, "PUT", "mute", 1);
    assert_int_equal(store_rename(w->s, "file", "moved", NULL, &st, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    assert_non_null(strstr(e.msg, "does not say that it has copied it"));
    check_object(w, "set/file", 1, LEN);
    assert_null(fake_s3_get(w->server, "set/moved", &len));
    struct s3 *s = small_parts(w);
    cleanup_fd int fd = content_fd(5, 1050000);
    fake_s3_clear(w->server);
    fake_s3_fault(w->server, "POST", "fine", 1);
    fake_s3_fault(w->server, "POST", "mute", 1);
    assert_int_equal(store_s3.put(s, "large", PUT(fd, 1050000), &st, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    assert_null(fake_s3_get(w->server, "set/large", &len));
    assert_int_equal(fake_s3_uploads(w->server), 0);
    store_s3.close(s);
}

/* The object changes between the look at it and the copy: what is copied is what was told. */
static void a_rename_is_of_one_version(void **state)
{
    struct fixture *w = *state;
    struct s3 *s = small_parts(w);
    struct err e = ERR_INIT;
    struct store_stat st;
    size_t len;
    static const bool in_parts[] = {false, true};
    for (size_t i = 0; i < ARRAY_LEN(in_parts); i++) {
        s->single_copy_max = in_parts[i] ? 100000 : 1 << 20;
        fake_s3_race(w->server, "PUT", "set/file", "newer", 5);
        assert_int_equal(store_s3.rename(s, "file", "moved", NULL, &st, &e), -1);
        assert_int_equal(e.cls, ERR_CONFLICT);
        assert_null(fake_s3_get(w->server, "set/moved", &len));
        cleanup_free char *kept = fake_s3_get(w->server, "set/file", &len);
        assert_int_equal(len, 5);
        unsigned char *data = xmalloc(LEN);
        for (size_t k = 0; k < LEN; k++)
            data[k] = content(1, k);
        fake_s3_put(w->server, "set/file", data, LEN);
        free(data);
    }
    assert_int_equal(fake_s3_uploads(w->server), 0);
    store_s3.close(s);
}

/* It is replaced once it was copied: the new one stays under the old name. */
static void a_rename_removes_what_it_copied(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    size_t len;
    fake_s3_race(w->server, "PUT", "set/file", "newer", 5);
    fake_s3_race_after(w->server);
    ok(store_rename(w->s, "file", "moved", NULL, &st, &e), &e);
    check_object(w, "set/moved", 1, LEN);
    cleanup_free char *kept = fake_s3_get(w->server, "set/file", &len);
    assert_non_null(kept);
    assert_int_equal(len, 5);
}

/* And that it did not copy stays also when it comes after the last look. */
static void a_removal_is_of_one_version(void **state)
{
    struct fixture *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    size_t len;
    fake_s3_race(w->server, "DELETE", "set/file", "newer", 5);
    ok(store_rename(w->s, "file", "moved", NULL, &st, &e), &e);
    check_object(w, "set/moved", 1, LEN);
    cleanup_free char *kept = fake_s3_get(w->server, "set/file", &len);
    assert_non_null(kept);
    assert_int_equal(len, 5);
    assert_int_equal(store_remove_version(w->s, "moved", "other", &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    check_object(w, "set/moved", 1, LEN);
    fake_s3_unconditional(w->server);
    ok(store_remove_version(w->s, "moved", st.version, &e), &e);
    assert_null(fake_s3_get(w->server, "set/moved", &len));
    assert_int_equal(store_remove_version(w->s, "moved", st.version, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
}

static void part_sizes(void **state)
{
    (void)state;
    const uint64_t mib = 1 << 20;
    assert_int_equal(s3_part_size(65 * mib, 16 * mib), 16 * mib);
    assert_int_equal(s3_part_size(160000 * mib, 16 * mib), 16 * mib);
    assert_int_equal(s3_part_size(160001 * mib, 16 * mib), 17 * mib);
    uint64_t huge = 5 * mib * mib; /* 5 TiB, S3's largest object */
    assert_true(huge / s3_part_size(huge, 16 * mib) <= 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {with_fixture(uploads_survive_faults),
        with_fixture(multipart_uploads_survive_faults), with_fixture(an_upload_gets_on),
        with_fixture(a_lost_completion_is_recognised), with_fixture(a_lost_condition_is_recognised),
        with_fixture(a_late_upload_replaces_nothing), with_fixture(servers_without_conditions),
        with_fixture(files_that_are_written_to), with_fixture(renames_copy_and_delete),
        with_fixture(a_put_that_is_cancelled), with_fixture(a_put_that_is_cancelled_for_certain),
        with_fixture(a_part_that_fails_ends_the_others),
        with_fixture(a_rename_removes_nothing_that_is_not_copied),
        with_fixture(a_rename_is_of_one_version), with_fixture(a_rename_removes_what_it_copied),
        with_fixture(a_removal_is_of_one_version), cmocka_unit_test(part_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
