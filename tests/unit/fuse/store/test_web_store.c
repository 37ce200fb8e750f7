/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a web server, against one that counts, refuses, fails for one file alone and leads
 * elsewhere. Real ones: tests/integration/web_store.sh. */
#include "tests/lib/unit.h"

#include "fuse/store/web.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/http/serve.h"
#include "tests/lib/mount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASIC "Basic dXNlcjpwdw==" /* user:pw */

struct site {
    struct http_server *server, *other;
    char dir[64]; /* secrets */
    struct mount *m;
    atomic_int lists, same, seen; /* lists sent whole; 304; credentials that other has got */
};

static void ok(int rc, const struct err *e)
{
    if (rc)
        fail_msg("%s", e->msg);
}

static void answer_text(struct serve_resp *resp, const char *type, const char *text)
{
    resp->content_type = type;
    buf_adds(&resp->body, text);
}

static void on_page(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)user;
    if (strcmp(req->path, "/index/one/") == 0) {
        answer_text(resp, "text/plain", "hi");
        return;
    }
    if (strcmp(req->path, "/index/") != 0)
        resp->status = 404;
    answer_text(resp, "text/html",
        "<a href=\"../\">..</a><a href=\"one\">1</a><a href=\"bad\">2</a><a href=\"closed\">3</a>"
        "<a href=\"a%2Fb\">4</a><a href=\"x%0Ay\">5</a><a href=\"sub/\">6</a><a href=\"gone\">7</a>");
}

static void on_file(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    const char *name = strrchr(req->path, '/') + 1;
    (void)user;
    resp->status = strcmp(name, "bad") == 0 ? 500
        : strcmp(name, "closed") == 0       ? 403
        : strcmp(name, "busy") == 0         ? 503
        : strcmp(name, "gone") == 0         ? 404
                                            : 200;
    answer_text(resp, "application/octet-stream", "12345");
}

static void on_busy(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)user;
    (void)req;
    answer_text(resp, "text/html", "<a href=one>1</a><a href=busy>2</a>");
}

static void on_unlisted(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)user;
    (void)req;
    resp->status = 403;
}

static void on_list(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct site *w = user;
    char value[64];
    if (serve_header(req, "if-none-match", value, sizeof value) && strcmp(value, "\"v1\"") == 0) {
        w->same++;
        resp->status = 304;
        return;
    }
    w->lists++;
    buf_adds(&resp->headers, "ETag: \"v1\"\r\n");
    resp->content_type = "text/plain";
    buf_addf(&resp->body, "files/a/one 5\nhttp://127.0.0.1:%d/files/b/two%%20and\n",
        serve_port(w->server));
}

static void on_closed(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    char value[64];
    (void)user;
    if (!serve_header(req, "authorization", value, sizeof value) || strcmp(value, BASIC) != 0)
        resp->status = 401;
    else
        answer_text(resp, "text/html", "<a href=sub/>1</a>");
}

static void on_moved(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct site *w = user;
    (void)req;
    resp->status = 302;
    buf_addf(&resp->headers, "Location: http://127.0.0.1:%d/elsewhere\r\n", serve_port(w->other));
}

/* As to a bucket, with a token in the signature. */
static void on_far(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct site *w = user;
    (void)req;
    resp->status = 302;
    buf_addf(&resp->headers,
        "Location: http://127.0.0.1:%d/elsewhere?X-Amz-Security-Token=%05000d\r\n",
        serve_port(w->other), 1);
}

/* Where to is in the path; whatever it is, nothing that begins with "hush" is to be seen. */
static void on_signed(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct site *w = user;
    const char *way = strrchr(req->path, '/') + 1;
    static const char query[] = "?X-Amz-Signature=hushsignature#hushfragment";
    resp->status = 302;
    if (strcmp(way, "scheme") == 0)
        buf_addf(&resp->headers, "Location: ftp://user:hushword@h.example/p%s\r\n", query);
    else if (strcmp(way, "slash") == 0)
        buf_addf(&resp->headers, "Location: ftp://user:hush/word@h.example/p%s\r\n", query);
    else if (strcmp(way, "dead") == 0)
        buf_addf(&resp->headers, "Location: http://user:hushword@127.0.0.1:1/p%s\r\n", query);
    else
        buf_addf(&resp->headers, "Location: http://user:hushword@127.0.0.1:%d/signed/round%s\r\n",
            serve_port(w->server), query);
}

static void on_elsewhere(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct site *w = user;
    char value[64];
    if (serve_header(req, "authorization", value, sizeof value)
        || serve_header(req, "x-api-key", value, sizeof value))
        w->seen++;
    answer_text(resp, "application/octet-stream", "hello");
}

static struct http_server *start(struct site *w)
{
    const struct serve_route routes[] = {{"GET", "/", on_file, w}, {"GET", "/page/", on_file, w},
        {"GET", "/index/", on_page, w}, {"GET", "/list", on_list, w},
        {"GET", "/unlisted/", on_unlisted, w}, {"GET", "/closed/", on_closed, w},
        {"GET", "/moved", on_moved, w}, {"GET", "/far", on_far, w},
        {"GET", "/signed/", on_signed, w}, {"GET", "/signed/scheme", on_signed, w},
        {"GET", "/signed/slash", on_signed, w}, {"GET", "/signed/dead", on_signed, w},
        {"GET", "/signed/round", on_signed, w}, {"GET", "/busy/", on_busy, w},
        {"GET", "/elsewhere", on_elsewhere, w}, {"GET", "/index/one", on_file, w},
        {"GET", "/index/bad", on_file, w}, {"GET", "/index/closed", on_file, w},
        {"GET", "/index/gone", on_file, w}, {"GET", "/busy/one", on_file, w},
        {"GET", "/busy/busy", on_file, w}};
    struct err e = ERR_INIT;
    struct http_server *s = serve_start(
        &(struct serve_conf){
            .address = "127.0.0.1:0", .routes = routes, .nroutes = ARRAY_LEN(routes)},
        &e);
    assert_non_null(s);
    return s;
}

static int setup(void **state)
{
    struct site *w = xcalloc(1, sizeof *w);
    strcpy(w->dir, "/tmp/millrace-test.XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    w->server = start(w);
    w->other = start(w);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct site *w = *state;
    struct err e = ERR_INIT;
    serve_stop(w->server);
    serve_stop(w->other);
    assert_int_equal(file_remove_tree(w->dir, &e), 0);
    free(w);
    return 0;
}

static struct store *open_below(struct site *w, const char *path)
{
    struct err e = ERR_INIT;
    cleanup_free char *url = xasprintf("http://127.0.0.1:%d%s", serve_port(w->server), path);
    struct mount *m = w->m ? w->m : mount_new(url);
    if (w->m) {
        free(m->conf.mount_point);
        m->conf.mount_point = xstrdup(url);
    }
    w->m = m;
    struct store *s = store_new(
        &(struct store_conf){
            .mount = &m->conf, .secrets_dir = w->dir, .deadline_ns = 60 * NS_PER_S},
        &e);
    if (!s)
        print_error("%s\n", e.msg);
    assert_non_null(s);
    return s;
}

static void shut(struct site *w, struct store *s)
{
    store_free(s);
    mount_free(w->m);
    w->m = NULL;
}

static void write_secret(const struct site *w, const char *name, const char *value)
{
    cleanup_free char *path = path_join(w->dir, name);
    struct err e = ERR_INIT;
    assert_int_equal(file_write_atomic(path, value, strlen(value), 0600, &e), 0);
}

static void one_file_spoils_no_listing(void **state)
{
    struct site *w = *state;
    struct err e = ERR_INIT;
    struct names l;
    uint64_t before = store_left_out_count();
    struct store *s = open_below(w, "/index");
    ok(names_list(s, "", false, &l, &e), &e);
    cleanup_free char *text = names_join(&l);
    assert_string_equal(text, "one:5 sub/");
    /* bad, closed, a%2Fb, x%0Ay; gone is gone */
    assert_int_equal(store_left_out_count() - before, 4);
    shut(w, s);
}

static void a_busy_server_is_no_empty_one(void **state)
{
    struct site *w = *state;
    struct err e = ERR_INIT;
    struct names l;
    struct store *s = open_below(w, "/busy");
    assert_int_equal(names_list(s, "", false, &l, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    assert_non_null(strstr(e.msg, "the server answers 503"));
    shut(w, s);
}

static void refusals_in_words(void **state)
{
    struct site *w = *state;
    static const char *const cases[][2] = {
        {"/unlisted", "AccessDenied (403): the server does not list this directory"},
        {"/closed", "AccessDenied (401): no credentials were given"},
        {"/index/gone", "NotFound (404): the server has no such directory"},
        {"/index/one", "shows no index page"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        struct store *s = open_below(w, cases[i][0]);
        assert_int_equal(store_check(s, &e), -1);
        if (!strstr(e.msg, cases[i][1]))
            fail_msg("%s: %s", cases[i][0], e.msg);
        shut(w, s);
    }
}

/* Until the credentials that are in the directory now have been seen. */
static int check_until(struct store *s, enum err_class cls, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < 600; i++) {
        *e = (struct err)ERR_INIT;
        rc = store_check(s, e);
        if (rc ? e->cls == cls : cls == ERR_NONE)
            return rc;
        clock_sleep_ns(100 * NS_PER_MS);
    }
    fail_msg("after a minute: %s", rc ? e->msg : "no error");
    return -1;
}

static void credentials_are_read_again(void **state)
{
    struct site *w = *state;
    struct err e = ERR_INIT;
    write_secret(w, "user", "user\n");
    w->m = mount_new("http://x");
    mount_option(w->m, "tls-verify", "false");
    mount_secret(w->m, "user", "user", "creds:username");
    mount_secret(w->m, "password", "password", "creds:password");
    struct store *s = open_below(w, "/closed");
    assert_int_equal(store_check(s, &e), -1);
    assert_string_equal(store_reason(&e), "SecretMissing");
    write_secret(w, "password", "pw");
    check_until(s, ERR_NONE, &e);
    write_secret(w, "password", "another");
    check_until(s, ERR_DENIED, &e);
    assert_non_null(strstr(e.msg, "AccessDenied (401): check the user and password"));
    write_secret(w, "password", "pw\n");
    check_until(s, ERR_NONE, &e);
    shut(w, s);
}

static void read_moved(struct store *s, int rc, struct err *e)
{
    char text[5];
    *e = (struct err)ERR_INIT;
    assert_int_equal(store_read(s, "moved", "", 0, 5, text, NULL, e), rc);
    if (rc == 0)
        assert_memory_equal(text, "hello", 5);
}

static void credentials_stay_with_their_server(void **state)
{
    struct site *w = *state;
    struct err e = ERR_INIT;
    write_secret(w, "header", "X-Api-Key: 1234");
    write_secret(w, "token", "abc");
    w->m = mount_new("http://x");
    mount_option(w->m, "tls-verify", "false");
    mount_secret(w->m, "header", "header", "creds:header");
    mount_secret(w->m, "bearer-token", "token", "creds:token");
    struct store *s = open_below(w, "");
    read_moved(s, 0, &e);
    assert_int_equal(w->seen, 0);
    char own[5];
    ok(store_read(s, "elsewhere", "", 0, 5, own, NULL, &e), &e);
    assert_int_equal(w->seen, 1); /* its own server gets them */
    cleanup_free char *allowed = xasprintf("http://127.0.0.1:%d/", serve_port(w->other));
    char *list[] = {(char *)"https://minio.example", allowed};
    w->m->conf.endpoints = list;
    w->m->conf.nendpoints = 1;
    read_moved(s, -1, &e);
    assert_int_equal(e.cls, ERR_DENIED);
    assert_non_null(strstr(e.msg, "which this cluster does not allow"));
    w->m->conf.nendpoints = 2;
    read_moved(s, 0, &e);
    assert_int_equal(w->seen, 1);
    w->m->conf.nendpoints = 0;
    shut(w, s);
}

static void redirects_may_be_long(void **state)
{
    struct site *w = *state;
    struct err e = ERR_INIT;
    struct store *s = open_below(w, "");
    char text[5];
    ok(store_read(s, "far", "", 0, 5, text, NULL, &e), &e);
    assert_memory_equal(text, "hello", 5);
    shut(w, s);
}

static void redirects_tell_no_credentials(void **state)
{
    struct site *w = *state;
    static const char *const cases[][2] = {
        {"signed/scheme", "to where is not followed: ftp://h.example/p"},
        {"signed/slash", "to where is not followed: …@h.example/p"},
        {"signed/dead", "GET http://127.0.0.1:1/p: "},
        {"signed/round", "on and on: http://127.0.0.1"},
        {"signed/round", "the server leads to http://127.0.0.1"}};
    char *list[] = {(char *)"https://minio.example"};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        char byte;
        cleanup_free char *url = xasprintf("http://127.0.0.1:%d/", serve_port(w->server));
        w->m = mount_new(url);
        w->m->conf.endpoints = list;
        w->m->conf.nendpoints = i + 1 == ARRAY_LEN(cases);
        struct store *s = store_new(
            &(struct store_conf){
                .mount = &w->m->conf, .secrets_dir = w->dir, .deadline_ns = NS_PER_S},
            &e);
        assert_non_null(s);
        assert_int_equal(store_read(s, cases[i][0], "", 0, 1, &byte, NULL, &e), -1);
        if (!strstr(e.msg, cases[i][1]) || strstr(e.msg, "hush"))
            fail_msg("%s: %s", cases[i][0], e.msg);
        w->m->conf.nendpoints = 0;
        shut(w, s);
    }
}

static void wrong_credentials(void **state)
{
    struct site *w = *state;
    static const char *const cases[][3] = {{"header", "X-Key", "option header must be one line"},
        {"header", "Host: x", "option header must be"}, {"password", "x", "user is not"},
        {"user", "x", "password is not"},
        {"bearer-token", "a b", "option bearer-token has blanks"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        write_secret(w, "wrong", cases[i][1]);
        w->m = mount_new("http://x");
        mount_secret(w->m, cases[i][0], "wrong", "creds:wrong");
        struct store *s = open_below(w, "/closed");
        assert_int_equal(store_check(s, &e), -1);
        assert_string_equal(store_reason(&e), "InvalidOption");
        if (!strstr(e.msg, cases[i][2]))
            fail_msg("%s: %s", cases[i][0], e.msg);
        shut(w, s);
    }
}

static char *list_below(struct store *s, const char *dir, bool tree)
{
    struct err e = ERR_INIT;
    struct names l;
    ok(names_list(s, dir, tree, &l, &e), &e);
    return names_join(&l);
}

static void a_list_is_asked_for_once(void **state)
{
    struct site *w = *state;
    w->m = mount_new("http://x");
    mount_option(w->m, "manifest", "list");
    struct store *s = open_below(w, "");
    for (int round = 0; round < 3; round++) {
        cleanup_free char *root = list_below(s, "", false), *a = list_below(s, "files/a", false),
                          *all = list_below(s, "", true);
        assert_string_equal(root, "files/");
        assert_string_equal(a, "one:5");
        assert_string_equal(all, "files/a/one:5 files/b/two and:5");
    }
    assert_int_equal(w->lists, 1);
    for (int i = 0; i < 600 && !w->same; i++) {
        cleanup_free char *root = list_below(s, "", false);
        assert_string_equal(root, "files/");
        clock_sleep_ns(100 * NS_PER_MS);
    }
    assert_true(w->same > 0); /* it was asked for again, by its ETag */
    assert_int_equal(w->lists, 1);
    shut(w, s);
}

#define with_site(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_site(one_file_spoils_no_listing),
        with_site(a_busy_server_is_no_empty_one),
        with_site(refusals_in_words),
        with_site(credentials_are_read_again),
        with_site(credentials_stay_with_their_server),
        with_site(redirects_may_be_long),
        with_site(redirects_tell_no_credentials),
        with_site(wrong_credentials),
        with_site(a_list_is_asked_for_once),
    };
    return cmocka_run_group_tests_name("web_store", tests, NULL, NULL);
}
