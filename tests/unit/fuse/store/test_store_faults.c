/* SPDX-License-Identifier: Apache-2.0 */
/* What all stores that speak HTTP do when it fails: what is read is right, what was said to be
 * written is there, what fails says why, and nothing outlasts its deadline. Each against a server
 * that misbehaves. */
#include "tests/lib/unit.h"

#include "fuse/store/store.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "tests/fake/fake_files.h"
#include "tests/fake/fake_s3.h"
#include "tests/lib/mount.h"
#include "tests/unit/fuse/store/gs_lender.h"

#include <errno.h>
#include <sys/wait.h>

#define LEN     300000u
#define PATIENT (90 * NS_PER_S) /* a machine that stops for seconds is no fault of the store */
#define BRIEF   (3 * NS_PER_S)  /* what goes wrong goes on for so long */
#define TRIES   8 /* where the machine stops during the last one, the deadline is what went wrong */

struct rig {
    const struct flavour *of;
    struct fake_s3 *s3;
    struct fake_files *files;
    struct http_server *lender; /* of tokens: Google's metadata server */
    struct mount *m;
    struct store *s;
    char dir[64]; /* secrets */
    unsigned made;
};

struct flavour {
    const char *name;
    void (*open)(struct rig *w);
    const char *reads, *writes; /* where faults of these happen; writes NULL: it is read-only */
    bool content;               /* what it sends is the content */
};

static void ok(int rc, const struct err *e)
{
    if (rc)
        print_error("%s\n", e->msg);
    assert_int_equal(rc, 0);
}

/* -- servers -------------------------------------------------------------------------------------
 */

static void give_token(const struct rig *w, const char *token)
{
    struct err e = ERR_INIT;
    cleanup_free char *path = path_join(w->dir, "token");
    ok(file_write_atomic(path, token, strlen(token), 0600, &e), &e);
}

static void open_s3(struct rig *w)
{
    struct err e = ERR_INIT;
    cleanup_free char *key = path_join(w->dir, "key");
    ok(file_write_atomic(key, "secretsecret", 12, 0600, &e), &e);
    w->s3 = fake_s3_start(0);
    w->m = mount_new("s3://data/set");
    cleanup_free char *endpoint = xasprintf("http://127.0.0.1:%d", fake_s3_port(w->s3));
    mount_option(w->m, "endpoint", endpoint);
    mount_secret(w->m, "access-key-id", "token", "creds:accessKey");
    mount_secret(w->m, "secret-access-key", "key", "creds:secretKey");
}

static void open_gs(struct rig *w)
{
    w->lender = gs_lender_start(w->dir);
    w->s3 = fake_s3_start(0);
    fake_s3_google(w->s3, "good1");
    w->m = mount_new("gs://data/set");
    cleanup_free char *endpoint = xasprintf("http://127.0.0.1:%d", fake_s3_port(w->s3));
    mount_option(w->m, "endpoint", endpoint);
    mount_option(w->m, "tls-verify", "false"); /* tokens go by http:// */
    mount_option(w->m, "instance-metadata", "true");
}

static void open_files(struct rig *w, const char *scheme, const char *token)
{
    w->files = fake_files_start();
    cleanup_free char *url = xasprintf("%s://127.0.0.1:%d/set", scheme, fake_files_port(w->files));
    w->m = mount_new(url);
    mount_secret(w->m, token, "token", "creds:token");
    fake_files_token(w->files, "good1");
}

static void open_web(struct rig *w)
{
    open_files(w, "http", "bearer-token");
    mount_option(w->m, "tls-verify", "false");
}

static void open_hdfs(struct rig *w) { open_files(w, "webhdfs", "delegation-token"); }

static const struct flavour flavours[] = {
    {"S3", open_s3, "GET", "PUT", true},
    {"Cloud Storage", open_gs, "GET", "PUT", true},
    {"web", open_web, "web", NULL, true},
    {"HDFS' name node", open_hdfs, "name", "name", false},
    {"HDFS' data node", open_hdfs, "data", "data", true},
};

static void fault(struct rig *w, const char *where, const char *kind, unsigned count)
{
    if (w->files)
        fake_files_fault(w->files, where, kind, count);
    else
        assert_int_equal(
            fake_s3_fault(w->s3, where, strcmp(kind, "busy") == 0 ? "slowdown" : kind, count), 0);
}

static void clear(struct rig *w)
{
    if (w->files)
        fake_files_clear(w->files);
    else
        fake_s3_clear(w->s3);
}

static unsigned struck(struct rig *w, const char *kind)
{
    return w->files ? fake_files_struck(w->files)
                    : fake_s3_faults(w->s3, strcmp(kind, "busy") == 0 ? "slowdown" : kind);
}

static void place(struct rig *w, const char *name, unsigned seed)
{
    cleanup_free unsigned char *data = malloc(LEN);
    cleanup_free char *path = xasprintf("%sset/%s", w->files ? "/" : "", name);
    for (size_t i = 0; i < LEN; i++)
        data[i] = content(seed, i);
    if (w->files)
        fake_files_put(w->files, path, data, LEN);
    else
        fake_s3_put(w->s3, path, data, LEN);
}

static void is_there(struct rig *w, const char *name, unsigned seed)
{
    size_t len = 0;
    cleanup_free char *path = xasprintf("%sset/%s", w->files ? "/" : "", name);
    cleanup_free unsigned char *data = w->files ? fake_files_get(w->files, path, &len)
                                                : fake_s3_get(w->s3, path, &len);
    assert_non_null(data);
    assert_int_equal(len, LEN);
    assert_true(content_same(seed, 0, data, len));
}

static struct store *open_for(struct rig *w, int64_t deadline_ns)
{
    struct err e = ERR_INIT;
    struct store *s = store_new(
        &(struct store_conf){
            .mount = &w->m->conf, .secrets_dir = w->dir, .deadline_ns = deadline_ns},
        &e);
    ok(s ? 0 : -1, &e);
    return s;
}

static const struct flavour *flavour; /* of this process */

static int setup(void **state)
{
    struct rig *w = xcalloc(1, sizeof *w);
    w->of = flavour;
    strcpy(w->dir, "/tmp/millrace-test.XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    give_token(w, "good1");
    flavour->open(w);
    place(w, "file", 1);
    w->s = open_for(w, PATIENT);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct rig *w = *state;
    struct err e = ERR_INIT;
    store_free(w->s);
    mount_free(w->m);
    if (w->s3)
        fake_s3_stop(w->s3);
    if (w->files)
        fake_files_stop(w->files);
    if (w->lender)
        serve_stop(w->lender);
    file_remove_tree(w->dir, &e);
    free(w);
    return 0;
}

/* -- reading -------------------------------------------------------------------------------------
 */

/* Each byte comes once, whatever happens count times on the way. */
static void reads_through(struct rig *w, const char *kind, unsigned count)
{
    struct err e = ERR_INIT;
    struct store_stat st;
    struct taken t = {1000, UINT64_MAX};
    ok(store_stat_path(w->s, "file", &st, &e), &e);
    unsigned before = struck(w, kind);
    fault(w, w->of->reads, kind, count);
    int rc = store_stream(w->s, "file", st.version, 1000, LEN - 2000, take, &t, NULL, &e);
    if (rc)
        fail_msg("%s: %s", kind, e.msg);
    assert_int_equal(t.at, LEN - 1000);
    assert_true(struck(w, kind) > before);
    clear(w);
}

static void passing_faults(void **state)
{
    struct rig *w = *state;
    static const char *const kinds[] = {"error", "reset", "truncated", "short", "long"};
    reads_through(w, "busy", 1); /* Retry-After: 1 */
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (w->of->content || i < 2)
            reads_through(w, kinds[i], 2);
    reads_through(w, "stall", 1);
}

/* Fails with that class, with the words, and in time. */
static void fails_with(struct rig *w, const char *kind, enum err_class cls, const char *words,
    int (*call)(struct rig *w, struct err *e))
{
    struct err e;
    for (int k = 0; k < TRIES; k++) {
        int64_t began = clock_mono_ns();
        e = (struct err)ERR_INIT;
        if (call(w, &e) == 0)
            fail_msg("%s: it does not fail", kind);
        if (clock_mono_ns() - began > PATIENT / 2)
            fail_msg("%s: not in time", kind);
        if (e.cls == cls && strstr(e.msg, words))
            return;
    }
    fail_msg("%s: %s", kind, e.msg);
}

static int read_byte(struct rig *w, struct err *e)
{
    char c;
    return store_read(w->s, "file", "", 0, 1, &c, NULL, e);
}

static const struct {
    const char *kind, *words;
} lasting[] = {{"busy", "503"}, {"error", "500"}, {"reset", "mpty reply"}, {"hang", "timed out"}};

static void lasting_faults(void **state)
{
    struct rig *w = *state;
    store_free(w->s);
    w->s = open_for(w, BRIEF);
    for (size_t i = 0; i < ARRAY_LEN(lasting); i++) {
        fault(w, w->of->reads, lasting[i].kind, 100000);
        fails_with(w, lasting[i].kind, ERR_RETRY, lasting[i].words, read_byte);
        clear(w);
    }
}

static void redirects_in_a_circle(void **state)
{
    struct rig *w = *state;
    if (w->lender)
        fault(w, w->of->reads, "redirect", 100000);
    else if (w->s3)
        fake_s3_region(w->s3, "eu-west-9", FAKE_S3_TELLS_CIRCLE);
    else
        fault(w, w->of->reads, "circle", 100000);
    fails_with(w, "circle", ERR_INVALID, w->s3 ? "region" : "on and on", read_byte);
}

/* -- credentials ---------------------------------------------------------------------------------
 */

/* A web server without HEAD: how long a file is stands at the head of the answer, whose end, as of
 * a file of many gigabytes, does not come in time. */
static void a_length_without_head(void **state)
{
    struct rig *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    if (!w->files || strcmp(w->of->reads, "web") != 0)
        return;
    store_free(w->s);
    w->s = open_for(w, 2 * BRIEF);
    fault(w, "web", "nohead", 1);
    fault(w, "web", "stall", 1000);
    ok(store_stat_path(w->s, "file", &st, &e), &e);
    assert_int_equal(st.size, LEN);
    assert_false(st.is_dir);
}

/* A token that has just been lent is not given back for a refusal. */
static void let_token_age(const struct rig *w)
{
    if (w->lender)
        clock_sleep_ns(11 * NS_PER_S);
}

static void expire(struct rig *w, const char *now)
{
    let_token_age(w);
    if (w->lender)
        fake_s3_google(w->s3, now);
    else if (w->s3)
        fake_s3_expire(w->s3, "good1");
    else
        fake_files_token(w->files, now);
}

struct rotating {
    struct rig *w;
    struct taken t;
};

static int take_and_rotate(void *user, const void *data, size_t len)
{
    struct rotating *r = user;
    if (r->t.at == 0) {
        give_token(r->w, "good2");
        expire(r->w, "good2");
    }
    return take(&r->t, data, len);
}

static void expired_in_the_middle(void **state)
{
    struct rig *w = *state;
    struct err e = ERR_INIT;
    struct rotating r = {w, {0, UINT64_MAX}};
    fault(w, w->of->content ? w->of->reads : "data", "truncated", 1);
    ok(store_stream(w->s, "file", "", 0, LEN, take_and_rotate, &r, NULL, &e), &e);
    assert_int_equal(r.t.at, LEN);
}

static void expired_and_no_other(void **state)
{
    struct rig *w = *state;
    struct err e = ERR_INIT;
    ok(read_byte(w, &e), &e);
    expire(w, "good2");
    fails_with(w, "expired", ERR_DENIED,
        w->of->open == open_web || w->lender ? "AccessDenied (401" : "Expired", read_byte);
    give_token(w, "good2");
    let_token_age(w);
    ok(read_byte(w, &e), &e); /* at once */
}

/* -- writing -------------------------------------------------------------------------------------
 */

static int put_file(struct rig *w, const char *name, struct err *e)
{
    struct store_stat st;
    cleanup_fd int fd = content_fd(2, LEN);
    return store_put(w->s, name, PUT(fd, LEN), &st, e);
}

static int put_over(struct rig *w, struct err *e) { return put_file(w, "file", e); }

static void written_through_faults(void **state)
{
    struct rig *w = *state;
    static const char *const kinds[] = {"busy", "error", "reset", "lost"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        for (unsigned fine = 0; fine < (i == 3 ? 6 : 1); fine++) { /* each request of a write */
            struct err e = ERR_INIT;
            cleanup_free char *name = xasprintf("%s%u", kinds[i], fine);
            if (fine)
                fault(w, w->of->writes, "fine", fine);
            fault(w, w->of->writes, kinds[i], 1);
            ok(put_file(w, name, &e), &e);
            is_there(w, name, 2);
            clear(w);
        }
    if (w->files)
        assert_int_equal(fake_files_count(w->files), 1 + 3 + 6); /* nothing else lies about */
}

static void what_cannot_be_written(void **state)
{
    struct rig *w = *state;
    store_free(w->s);
    w->s = open_for(w, BRIEF);
    for (size_t i = 0; i < ARRAY_LEN(lasting); i++) {
        fault(w, w->of->writes, lasting[i].kind, 100000);
        fails_with(w, lasting[i].kind, ERR_RETRY, lasting[i].words, put_over);
        clear(w);
        is_there(w, "file", 1);
    }
    if (!w->files)
        return;
    fault(w, "data", "safemode", 100000);
    fails_with(w, "safemode", ERR_RETRY, "is in safe mode", put_over);
    clear(w);
    fault(w, "data", "short", 1);
    fails_with(w, "short", ERR_RETRY, "has kept 150000 of 300000 bytes", put_over);
    is_there(w, "file", 1);
}

/* HttpFS replaces nothing: what is there is removed first. If it fails from then on, the new
 * content is all that there is. */
static void half_replaced(void **state)
{
    struct rig *w = *state;
    struct err e = ERR_INIT;
    if (!w->files || strcmp(w->of->writes, "name") != 0)
        return;
    store_free(w->s);
    w->s = open_for(w, 2 * BRIEF);
    fake_files_httpfs(w->files);
    ok(put_over(w, &e), &e);
    is_there(w, "file", 2);
    place(w, "file", 1);
    /* two looks, CREATE, a look, RENAME, a look, DELETE, RENAME */
    fault(w, "name", "fine", 7);
    fault(w, "name", "hang", 1);
    assert_int_equal(put_over(w, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    clear(w);
    size_t len;
    assert_null(fake_files_get(w->files, "/set/file", &len));
    assert_int_equal(fake_files_count(w->files), 1);
    const char *temp = strstr(e.msg, "/set/.millrace-put-");
    assert_non_null(temp);
    cleanup_free char *name = xstrndup(temp + 5, strcspn(temp + 5, ": "));
    is_there(w, name, 2);
    ok(put_over(w, &e), &e);
    is_there(w, "file", 2);
}

static void expired_before_a_write(void **state)
{
    struct rig *w = *state;
    struct err e = ERR_INIT;
    ok(read_byte(w, &e), &e);
    give_token(w, "good2");
    expire(w, "good2");
    ok(put_over(w, &e), &e);
    is_there(w, "file", 2);
}

/* -- running -------------------------------------------------------------------------------------
 */

#define with_rig(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static int run_one(void)
{
    const struct CMUnitTest reads[] = {with_rig(passing_faults), with_rig(lasting_faults),
        with_rig(redirects_in_a_circle), with_rig(a_length_without_head),
        with_rig(expired_in_the_middle), with_rig(expired_and_no_other)};
    const struct CMUnitTest writes[] = {with_rig(written_through_faults),
        with_rig(what_cannot_be_written), with_rig(half_replaced),
        with_rig(expired_before_a_write)};
    int failed = cmocka_run_group_tests_name(flavour->name, reads, NULL, NULL);
    return flavour->writes ? failed + cmocka_run_group_tests_name(flavour->name, writes, NULL, NULL)
                           : failed;
}

/* They wait most of the time, so they do it side by side; each tells when it has ended. */
int main(void)
{
    FILE *told[ARRAY_LEN(flavours)];
    pid_t pid[ARRAY_LEN(flavours)];
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(flavours); i++) {
        told[i] = tmpfile();
        pid[i] = told[i] ? fork() : -1;
        if (pid[i] < 0)
            return 1;
        if (pid[i] == 0) {
            flavour = &flavours[i];
            dup2(fileno(told[i]), STDOUT_FILENO);
            return run_one() != 0;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(flavours); i++) {
        int status = 1;
        failed += waitpid(pid[i], &status, 0) != pid[i] || status != 0;
        rewind(told[i]);
        for (int c; (c = getc(told[i])) != EOF;)
            putchar(c);
        fclose(told[i]);
    }
    return failed != 0;
}
