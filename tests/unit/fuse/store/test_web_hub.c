/* SPDX-License-Identifier: Apache-2.0 */
/* Repositories of the Hugging Face Hub: their URLs, pages of the tree API, and a store over a
 * server that keeps large files at another one. */
#include "tests/lib/unit.h"

#include "fuse/store/web_hub.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/http/serve.h"
#include "tests/lib/mount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHA1   "a2c0f5d0a9e8b7c6d5e4f3a2b1c0d9e8f7a6b5c4"
#define SHA256 "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define REPO   "/datasets/team/images/resolve/main"

/* -- pure -------------------------------------------------------------------------------------- */

static void urls(void **state)
{
    (void)state;
    static const struct {
        const char *base, *dir, *asked;
    } cases[] = {
        {"https://hf.co/datasets/team/images/resolve/main/", "",
            "https://hf.co/api/datasets/team/images/tree/main?recursive=false"},
        {"https://hf.co/team/model/resolve/v1.0/sub/", "a b",
            "https://hf.co/api/models/team/model/tree/v1.0/sub/a%20b?recursive=false"},
        {"http://hf.co:80/gpt2/resolve/refs%2Fpr%2F1/", "x",
            "http://hf.co:80/api/models/gpt2/tree/refs%2Fpr%2F1/x?recursive=false"},
        {"https://hf.co/datasets/squad/resolve/main/", "",
            "https://hf.co/api/datasets/squad/tree/main?recursive=false"},
        {"https://hf.co/a/b/c/resolve/main/", "", NULL},
        {"https://hf.co/resolve/main/", "", NULL},
        {"https://hf.co/a/b/resolve/", "", NULL},
        {"https://hf.co/", "", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct web_hub *h = web_hub_new(cases[i].base);
        cleanup_free char *url = h ? web_hub_url(h, cases[i].dir, false) : NULL;
        web_hub_free(h);
        if (!cases[i].asked)
            assert_null(url);
        else
            assert_string_equal(url, cases[i].asked);
    }
}

static void next_pages(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"<https://h/x?cursor=1,2>; rel=\"next\"", "https://h/x?cursor=1,2"},
        {"<https://h/a>; rel=\"prev\", <https://h/b>; rel=\"next\"", "https://h/b"},
        {"<https://h/a>; rel=\"prev\"", NULL}, {"<https://h/a", NULL}, {"", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_free char *next = web_next_page(cases[i][0]);
        if (!cases[i][1])
            assert_null(next);
        else
            assert_string_equal(next, cases[i][1]);
    }
}

static int note_entry(void *user, const struct store_entry *entry)
{
    buf_addf(user, "%s:%s%llu:%.5s ", entry->name, entry->st.is_dir ? "d" : "",
        (unsigned long long)entry->st.size, entry->st.version);
    return 0;
}

static void pages(void **state)
{
    (void)state;
    static const char page[] =
        "[{\"type\":\"directory\",\"oid\":\"" SHA1 "\",\"size\":0,\"path\":\"s b/x\"},"
        "{\"type\":\"file\",\"oid\":\"" SHA1 "\",\"size\":5,\"path\":\"s b/small\"},"
        "{\"type\":\"file\",\"oid\":\"" SHA1 "\",\"size\":7,\"path\":\"s b/large\","
        "\"lfs\":{\"oid\":\"" SHA256 "\",\"size\":70,\"pointerSize\":134}},"
        "{\"type\":\"file\",\"oid\":\"x\",\"size\":5,\"path\":\"s b/../../etc\"},"
        "{\"type\":\"file\",\"oid\":\"x\",\"size\":5,\"path\":\"elsewhere\"},"
        "{\"type\":\"link\",\"path\":\"s b/l\"}]";
    static const char *const bad[] = {"", "{}", "[1]", "[{\"type\":\"file\",\"path\":\"s b/a\"}]",
        "[{\"type\":\"file\",\"path\":\"s b/a\",\"size\":-1}]", "[{\"type\":\"file\",\"size\":1}]"};
    struct err e = ERR_INIT;
    cleanup_buf struct buf out = BUF_INIT(4096);
    struct web_hub *h = web_hub_new("https://h/t/m/resolve/main/s%20b/");
    assert_int_equal(web_hub_page(page, sizeof page - 1, h, "", note_entry, &out, &e), 0);
    assert_string_equal(buf_str(&out), "x:d0: small:5:a2c0f large:70:9f86d ");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(web_hub_page(bad[i], strlen(bad[i]), h, "", note_entry, &out, &e), -1);
    web_hub_free(h);
}

/* -- a server ---------------------------------------------------------------------------------- */

struct hub_site {
    struct http_server *hub, *far;
    char dir[64]; /* secrets */
    struct mount *m;
    struct store *s;
    atomic_bool changed, astray, closed;
    const char *_Atomic code; /* X-Error-Code of what is refused; NULL: none */
    atomic_int refuses;       /* with that status */
    atomic_int seen, heads;   /* credentials that far got; HEAD of files */
};

static bool is_refused(struct hub_site *w, struct serve_resp *resp)
{
    if (!atomic_load(&w->refuses))
        return false;
    resp->status = atomic_load(&w->refuses);
    if (atomic_load(&w->code))
        buf_addf(&resp->headers, "X-Error-Code: %s\r\n", atomic_load(&w->code));
    return true;
}

/* Two pages of the root, one of "sub". */
static void on_tree(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct hub_site *w = user;
    char value[64];
    resp->content_type = "application/json";
    if (is_refused(w, resp))
        return;
    if (!serve_header(req, "authorization", value, sizeof value)
        || strcmp(value, "Bearer hf_token") != 0)
        resp->status = 401;
    else if (atomic_load(&w->closed))
        resp->status = 403;
    else if (strstr(req->path, "/main/sub"))
        buf_addf(&resp->body,
            "[{\"type\":\"file\",\"oid\":\"" SHA1 "\",\"size\":5,\"path\":\"sub/small\"}]");
    else if (strstr(req->path, "/main/"))
        resp->status = 404;
    else if (strstr(req->query, "cursor=two"))
        buf_adds(&resp->body,
            "[{\"type\":\"file\",\"oid\":\"x\",\"size\":9,\"path\":\"large\","
            "\"lfs\":{\"oid\":\"" SHA256 "\",\"size\":10}}]");
    else {
        buf_adds(&resp->body, "[{\"type\":\"directory\",\"oid\":\"x\",\"path\":\"sub\"}]");
        buf_addf(&resp->headers, "Link: <http://127.0.0.1:%d/api%s>; rel=\"next\"\r\n",
            serve_port(atomic_load(&w->astray) ? w->far : w->hub),
            "/datasets/team/images/tree/main?recursive=false&cursor=two");
    }
}

static void on_resolve(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct hub_site *w = user;
    const char *name = strrchr(req->path, '/') + 1;
    w->heads += strcmp(req->method, "HEAD") == 0;
    if (is_refused(w, resp))
        return;
    if (strcmp(name, "small") == 0) {
        buf_adds(&resp->headers, "ETag: W/\"" SHA1 "\"\r\n");
        buf_adds(&resp->body, "small");
    } else if (strcmp(name, "large") == 0) {
        resp->status = 302;
        buf_addf(&resp->headers,
            "X-Linked-ETag: \"%s\"\r\nX-Linked-Size: 10\r\nLocation: http://127.0.0.1:%d/blob\r\n",
            atomic_load(&w->changed) ? SHA1 : SHA256, serve_port(w->far));
    } else
        resp->status = 404;
}

static void on_blob(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct hub_site *w = user;
    char value[64];
    w->seen += serve_header(req, "authorization", value, sizeof value) != NULL;
    if (serve_header(req, "if-match", value, sizeof value))
        resp->status = 412;
    buf_adds(&resp->headers, "ETag: \"another\"\r\n");
    buf_adds(&resp->body, "0123456789");
}

/* Of servers that have such a path by chance. */
static void on_index(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)user;
    (void)req;
    resp->content_type = "text/html";
    buf_adds(&resp->body, "<a href=\"small\">1</a><a href=\"dir/\">2</a>");
}

static int hub_setup(void **state)
{
    struct hub_site *w = xcalloc(1, sizeof *w);
    struct err e = ERR_INIT;
    const struct serve_route routes[] = {{"GET", "/api/datasets/team/images/tree/", on_tree, w},
        {"GET", REPO "/", on_resolve, w}, {"GET", "/blob", on_blob, w},
        {"GET", "/a/resolve/b/small", on_resolve, w}, {"GET", "/a/resolve/b/", on_index, w},
        {"GET", "/a/b/resolve/c/small", on_resolve, w}, {"GET", "/a/b/resolve/c/", on_index, w},
        {"GET", "/api/models/a/b/", on_index, w}};
    const struct serve_conf conf = {
        .address = "127.0.0.1:0", .routes = routes, .nroutes = ARRAY_LEN(routes)};
    strcpy(w->dir, "/tmp/millrace-test.XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    cleanup_free char *token = path_join(w->dir, "token");
    assert_int_equal(file_write_atomic(token, "hf_token", 8, 0600, &e), 0);
    w->hub = serve_start(&conf, &e);
    w->far = serve_start(&conf, &e);
    assert_true(w->hub && w->far);
    cleanup_free char *url = xasprintf("http://127.0.0.1:%d" REPO, serve_port(w->hub));
    w->m = mount_new(url);
    mount_option(w->m, "tls-verify", "false"); /* the token goes by http:// */
    mount_secret(w->m, "bearer-token", "token", "hub:token");
    w->s = store_new(&(struct store_conf){.mount = &w->m->conf, .secrets_dir = w->dir}, &e);
    assert_non_null(w->s);
    *state = w;
    return 0;
}

static int hub_teardown(void **state)
{
    struct hub_site *w = *state;
    struct err e = ERR_INIT;
    store_free(w->s);
    mount_free(w->m);
    serve_stop(w->hub);
    serve_stop(w->far);
    assert_int_equal(file_remove_tree(w->dir, &e), 0);
    free(w);
    return 0;
}

static int list_all(struct hub_site *w, const char *dir, struct buf *out, struct err *e)
{
    char *cursor = NULL;
    int rc;
    do
        rc = store_list(w->s, dir, &cursor, note_entry, out, e);
    while (rc == 0 && cursor);
    free(cursor);
    return rc;
}

static void it_is_listed_in_pages(void **state)
{
    struct hub_site *w = *state;
    struct err e = ERR_INIT;
    cleanup_buf struct buf out = BUF_INIT(4096);
    if (store_check(w->s, &e) || list_all(w, "", &out, &e) || list_all(w, "sub", &out, &e))
        fail_msg("%s", e.msg);
    assert_string_equal(buf_str(&out), "sub:d0: large:10:9f86d small:5:a2c0f ");
    assert_int_equal(w->heads, 0);
    assert_int_equal(list_all(w, "none", &out, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
}

static void a_page_elsewhere_is_not_asked_for(void **state)
{
    struct hub_site *w = *state;
    struct err e = ERR_INIT;
    cleanup_buf struct buf out = BUF_INIT(4096);
    atomic_store(&w->astray, true);
    assert_int_equal(list_all(w, "", &out, &e), -1);
    assert_non_null(strstr(e.msg, "the next page of the listing is at another server"));
}

/* What stat and read say is what a listing says, wherever the bytes lie. */
static void files_have_the_versions_of_the_listing(void **state)
{
    struct hub_site *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    char data[10];
    if (store_stat_path(w->s, "large", &st, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(st.size, 10);
    assert_string_equal(st.version, SHA256);
    if (store_read(w->s, "large", SHA256, 2, 5, data, NULL, &e))
        fail_msg("%s", e.msg);
    assert_memory_equal(data, "23456", 5);
    assert_int_equal(w->seen, 0);
    if (store_stat_path(w->s, "sub/small", &st, &e)
        || store_read(w->s, "sub/small", st.version, 0, 5, data, NULL, &e))
        fail_msg("%s", e.msg);
    assert_string_equal(st.version, SHA1);
    assert_memory_equal(data, "small", 5);
    if (store_stat_path(w->s, "sub", &st, &e))
        fail_msg("%s", e.msg);
    assert_true(st.is_dir);
    assert_int_equal(store_stat_path(w->s, "none", &st, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
}

/* A listing that is refused says nothing of what there is. */
static void a_directory_that_cannot_be_asked_for(void **state)
{
    struct hub_site *w = *state;
    struct err e = ERR_INIT;
    struct store_stat st;
    atomic_store(&w->closed, true);
    assert_int_equal(store_stat_path(w->s, "sub", &st, &e), -1);
    assert_int_equal(e.cls, ERR_DENIED);
    assert_int_equal(err_errno(&e), EACCES);
}

static void lists(struct store *s, const char *want)
{
    cleanup_buf struct buf out = BUF_INIT(4096);
    cleanup_free char *cursor = NULL;
    struct err e = ERR_INIT;
    if (store_list(s, "", &cursor, note_entry, &out, &e))
        fail_msg("%s", e.msg);
    assert_string_equal(buf_str(&out), want);
}

/* Not all that looks like a repository is one: what has no tree API, or pages for people where that
 * would be, is read by its index pages, whatever is asked for first. */
static void a_path_like_that_of_a_repository(void **state)
{
    struct hub_site *w = *state;
    static const char *const paths[] = {"/a/resolve/b", "/a/b/resolve/c"};
    for (size_t i = 0; i < 2 * ARRAY_LEN(paths); i++) {
        struct err e = ERR_INIT;
        struct store_stat st;
        char data[5];
        cleanup_free char *url = xasprintf(
            "http://127.0.0.1:%d%s", serve_port(w->hub), paths[i / 2]);
        struct mount *m = mount_new(url);
        struct store *s = store_new(&(struct store_conf){.mount = &m->conf}, &e);
        assert_non_null(s);
        if ((i % 2 && store_check(s, &e)) || store_stat_path(s, "small", &st, &e)
            || store_read(s, "small", st.version, 0, 5, data, NULL, &e))
            fail_msg("%s", e.msg);
        assert_int_equal(st.size, 5);
        assert_int_equal(*st.version, '~'); /* it has no strong ETag */
        assert_memory_equal(data, "small", 5);
        lists(s, "dir:d0: small:5:~5-0 ");
        store_free(s);
        mount_free(m);
    }
}

/* As long as neither answers, it may still turn out to be one. */
static void a_repository_that_is_closed_at_first(void **state)
{
    struct hub_site *w = *state;
    struct err e = ERR_INIT;
    cleanup_buf struct buf out = BUF_INIT(4096);
    atomic_store(&w->closed, true);
    assert_int_equal(store_check(w->s, &e), -1);
    assert_int_equal(e.cls, ERR_DENIED);
    atomic_store(&w->closed, false);
    if (store_check(w->s, &e) || list_all(w, "sub", &out, &e))
        fail_msg("%s", e.msg);
    assert_string_equal(buf_str(&out), "small:5:a2c0f ");
}

static void a_file_that_was_replaced(void **state)
{
    struct hub_site *w = *state;
    struct err e = ERR_INIT;
    char data[10];
    atomic_store(&w->changed, true);
    assert_int_equal(store_read(w->s, "large", SHA256, 0, 5, data, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    assert_int_equal(e.sys, ESTALE);
}

/* What a hub refuses, and what is to be done about it: of the listing and of a file. */
static void refusals(void **state)
{
    struct hub_site *w = *state;
    static const struct {
        int status;
        const char *code;
        bool token;
        enum err_class cls;
        const char *words;
    } cases[] = {
        {401, "GatedRepo", false, ERR_DENIED,
            "(401): the repository is gated: ask for access on its page"},
        {403, "GatedRepo", true, ERR_DENIED,
            "(403): the repository is gated, and the account of the token has no access"},
        {401, "RepoNotFound", false, ERR_DENIED,
            "(401): there is no such repository, or it is private: check the URL, or give a token"},
        {404, "RepoNotFound", true, ERR_NOTFOUND,
            "(404): there is no such repository, or the account of the token may not see it"},
        {404, "RevisionNotFound", true, ERR_NOTFOUND, "(404): the repository has no such revision"},
        {401, NULL, false, ERR_DENIED,
            "(401): no credentials were given: a private or gated repository needs a token"},
        {401, NULL, true, ERR_DENIED,
            "(401): the server does not take the token: is it a token of this very server"},
        {403, NULL, true, ERR_DENIED, "(403): the token may not read this repository"},
        {403, "Odd%s\x1b[1m", true, ERR_DENIED, "(403): the token may not read this repository"},
        {404, NULL, true, ERR_NOTFOUND, "(404): the server has no such "},
    };
    struct mount *open = mount_new(w->m->conf.mount_point);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT, e2 = ERR_INIT;
        struct store_stat st;
        char c;
        struct store *s = store_new(
            &(struct store_conf){
                .mount = cases[i].token ? &w->m->conf : &open->conf, .secrets_dir = w->dir},
            &e);
        assert_non_null(s);
        atomic_store(&w->code, cases[i].code);
        atomic_store(&w->refuses, cases[i].status);
        assert_int_equal(store_check(s, &e), -1);
        assert_int_equal(store_stat_path(s, "small", &st, &e2), -1);
        if (e.cls != cases[i].cls || !strstr(e.msg, cases[i].words) || strstr(e.msg, "hf_token"))
            fail_msg("case %zu: %s", i, e.msg);
        if (e2.cls != cases[i].cls || !strstr(e2.msg, cases[i].words))
            fail_msg("case %zu, a file: %s", i, e2.msg);
        e = (struct err)ERR_INIT;
        assert_int_equal(store_read(s, "small", "", 0, 1, &c, NULL, &e), -1);
        if (e.cls != cases[i].cls || !strstr(e.msg, cases[i].words))
            fail_msg("case %zu, a read: %s", i, e.msg);
        store_free(s);
    }
    mount_free(open);
}

#define with_hub(test) cmocka_unit_test_setup_teardown(test, hub_setup, hub_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(urls), cmocka_unit_test(next_pages),
        cmocka_unit_test(pages), with_hub(it_is_listed_in_pages),
        with_hub(a_page_elsewhere_is_not_asked_for),
        with_hub(files_have_the_versions_of_the_listing),
        with_hub(a_directory_that_cannot_be_asked_for), with_hub(a_path_like_that_of_a_repository),
        with_hub(a_repository_that_is_closed_at_first), with_hub(a_file_that_was_replaced),
        with_hub(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
