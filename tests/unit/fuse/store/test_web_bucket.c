/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a web server, of buckets that list themselves to anybody: by an S3 server that is
 * asked without a signature, and by one that is a bucket itself. */
#include "tests/lib/unit.h"

#include "fuse/store/store.h"
#include "fuse/store/web_words.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/serve.h"
#include "tests/fake/fake_s3.h"
#include "tests/lib/mount.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int note_entry(void *user, const struct store_entry *entry)
{
    buf_addf(user, "%s:%s%llu ", entry->name, entry->st.is_dir ? "d" : "",
        (unsigned long long)entry->st.size);
    return 0;
}

static struct store *open_url(struct mount **m, const char *url)
{
    struct err e = ERR_INIT;
    *m = mount_new(url);
    struct store *s = store_new(
        &(struct store_conf){.mount = &(*m)->conf, .deadline_ns = 60 * NS_PER_S}, &e);
    if (!s)
        print_error("%s\n", e.msg);
    assert_non_null(s);
    return s;
}

static void close_url(struct store *s, struct mount *m)
{
    store_free(s);
    mount_free(m);
}

static void lists(struct store *s, const char *dir, bool tree, const char *want)
{
    struct err e = ERR_INIT;
    cleanup_buf struct buf out = BUF_INIT(1 << 20);
    char *cursor = NULL;
    int rc;
    do
        rc = (tree ? store_list_tree : store_list)(s, dir, &cursor, note_entry, &out, &e);
    while (rc == 0 && cursor);
    free(cursor);
    if (rc)
        fail_msg("%s", e.msg);
    assert_string_equal(buf_str(&out), want);
}

static int count_entry(void *user, const struct store_entry *entry)
{
    (void)entry;
    ++*(unsigned *)user;
    return 0;
}

static int note_version(void *user, const struct store_entry *entry)
{
    if (strcmp(entry->name, "one") == 0)
        *(struct store_stat *)user = entry->st;
    return 0;
}

/* http://server/bucket/set: the bucket begins above the URL. */
static void a_bucket_below_a_server(void **state)
{
    (void)state;
    struct fake_s3 *f = fake_s3_start(0);
    fake_s3_put(f, "set/one", "12345", 5);
    fake_s3_put(f, "set/d r/two +%", "12", 2);
    fake_s3_put(f, "set/d r/deep/three", "123", 3);
    fake_s3_put(f, "set/marked/", "", 0);
    fake_s3_put(f, "set/odd/../x", "1", 1);
    fake_s3_put(f, "other", "1", 1);
    cleanup_free char *url = xasprintf("http://127.0.0.1:%d/data/set", fake_s3_port(f));
    struct mount *m;
    struct err e = ERR_INIT;
    struct store_stat st, listed = {0};
    char c[5];
    cleanup_free char *cursor = NULL;
    struct store *s = open_url(&m, url);
    if (store_check(s, &e))
        fail_msg("%s", e.msg);
    lists(s, "", false, "d r:d0 marked:d0 odd:d0 one:5 ");
    lists(s, "d r", false, "deep:d0 two +%:2 ");
    lists(s, "", true, "d r/deep/three:3 d r/two +%:2 one:5 ");
    lists(s, "marked", false, "");
    assert_int_equal(store_list(s, "none", &cursor, note_entry, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    /* what a listing says of a file is what the file says */
    assert_int_equal(store_list(s, "", &cursor, note_version, &listed, &e), 0);
    assert_int_equal(store_stat_path(s, "one", &st, &e), 0);
    assert_string_equal(st.version, listed.version);
    assert_int_equal(st.size, listed.size);
    assert_int_equal(store_read(s, "one", listed.version, 0, 5, c, NULL, &e), 0);
    assert_memory_equal(c, "12345", 5);
    close_url(s, m);

    /* a directory is one before anything was listed, too */
    s = open_url(&m, url);
    assert_int_equal(store_stat_path(s, "d r", &st, &e), 0);
    assert_true(st.is_dir);
    assert_int_equal(store_stat_path(s, "d", &st, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    close_url(s, m);
    fake_s3_stop(f);
}

static void pages_go_on(void **state)
{
    (void)state;
    struct fake_s3 *f = fake_s3_start(0);
    for (int i = 0; i < 2500; i++) {
        char key[32];
        snprintf(key, sizeof key, "many/f%04d", i);
        fake_s3_put(f, key, "1", 1);
    }
    cleanup_free char *url = xasprintf("http://127.0.0.1:%d/data", fake_s3_port(f));
    struct mount *m;
    struct err e = ERR_INIT;
    struct store *s = open_url(&m, url);
    unsigned n = 0, pages = 0;
    char *cursor = NULL;
    do {
        if (store_list(s, "many", &cursor, count_entry, &n, &e))
            fail_msg("%s", e.msg);
        pages++;
    } while (cursor);
    assert_int_equal(n, 2500);
    assert_int_equal(pages, 3);
    unsigned heads = fake_s3_requests(f, "HEAD");
    assert_int_equal(heads, 0); /* no file was asked for */
    close_url(s, m);
    fake_s3_stop(f);
}

/* https://bucket.server/a b/: the whole server is the bucket, and says 404 to what is no key. */
struct whole {
    bool xml;
    atomic_uint asked;
};

static void on_server(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct whole *w = user;
    w->asked++;
    resp->content_type = "application/xml";
    if (strcmp(req->path, "/") != 0 || !w->xml) {
        resp->status = 404;
        buf_adds(&resp->body, "<Error><Code>NoSuchKey</Code></Error>");
    } else if (strstr(req->query, "prefix=a%20b%2F&")) {
        buf_adds(&resp->body,
            "<?xml version=\"1.0\"?><ListBucketResult><Contents><Key>a b/f</Key>"
            "<LastModified>2024-01-02T03:04:05.000Z</LastModified><ETag>&quot;e1&quot;</ETag>"
            "<Size>7</Size></Contents><IsTruncated>false</IsTruncated></ListBucketResult>");
    } else {
        buf_adds(
            &resp->body, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>");
    }
}

static void a_server_that_is_a_bucket(void **state)
{
    (void)state;
    struct whole w = {.xml = true};
    struct err e = ERR_INIT;
    struct mount *m;
    const struct serve_route route = {"GET", "/", on_server, &w};
    struct http_server *server = serve_start(
        &(struct serve_conf){.address = "127.0.0.1:0", .routes = &route, .nroutes = 1}, &e);
    assert_non_null(server);
    cleanup_free char *url = xasprintf("http://127.0.0.1:%d/a%%20b", serve_port(server));
    struct store *s = open_url(&m, url);
    lists(s, "", false, "f:7 ");
    close_url(s, m);
    /* where nothing lists itself, the words are those of before, and it is asked about once */
    w.xml = false;
    s = open_url(&m, url);
    assert_int_equal(store_check(s, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
    assert_non_null(strstr(e.msg, "the server has no such directory"));
    unsigned before = w.asked;
    assert_int_equal(store_check(s, &e), -1);
    assert_int_equal(w.asked - before, 2); /* and whether it is a file */
    close_url(s, m);
    serve_stop(server);
}

/* How buckets are written that people know by the addresses of their browsers. */
static void addresses_of_buckets(void **state)
{
    (void)state;
    static const struct {
        const char *url, *bucket;
        bool page;
    } table[] = {
        {"https://my-bucket.s3.eu-west-1.amazonaws.com/a/b", "s3://my-bucket/a/b", false},
        {"https://my.bucket.s3.amazonaws.com", "s3://my.bucket", false},
        {"https://s3.my.s3.dualstack.eu-west-1.amazonaws.com/", "s3://s3.my", false},
        {"http://b.s3-accelerate.amazonaws.com/a", "s3://b/a", false},
        {"https://s3.cn-north-1.amazonaws.com.cn/my-bucket/a", "s3://my-bucket/a", false},
        {"https://s3-eu-west-1.amazonaws.com:443/my-bucket", "s3://my-bucket", false},
        {"https://S3.amazonaws.com/", NULL, false},
        {"https://storage.googleapis.com/my-bucket/a", "gs://my-bucket/a", false},
        {"https://my-bucket.storage.googleapis.com/a", "gs://my-bucket/a", false},
        {"https://s3.console.aws.amazon.com/s3/buckets/b?region=eu-west-1", "s3://b", true},
        {"https://eu-west-1.console.aws.amazon.com/s3/object/b?prefix=a", "s3://b", true},
        {"https://console.aws.amazon.com/s3/home", "s3://BUCKET/PREFIX", true},
        {"https://console.cloud.google.com/storage/browser/b/a;tab=objects", "gs://b/a", true},
        {"https://storage.cloud.google.com/b/a", "gs://b/a", true},
        {"https://storage.cloud.google.com", "gs://BUCKET/PREFIX", true},
        {"https://lambda.eu-west-1.amazonaws.com/a", NULL, false},
        {"https://console.aws.amazon.com.example/s3/buckets/b", NULL, false},
        {"https://notstorage.googleapis.com/b", NULL, false},
        {"https://example.com/s3/buckets/b", NULL, false},
        {"https://am/", NULL, false},
        {"s3://b.s3.amazonaws.com", NULL, false},
        {"", NULL, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        bool page = !table[i].page;
        cleanup_free char *bucket = web_bucket_of(table[i].url, &page);
        if (page != table[i].page || !bucket != !table[i].bucket
            || (bucket && strcmp(bucket, table[i].bucket) != 0))
            fail_msg("%s: %s, page %d", table[i].url, bucket ? bucket : "none", page);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_bucket_below_a_server),
        cmocka_unit_test(addresses_of_buckets), cmocka_unit_test(pages_go_on),
        cmocka_unit_test(a_server_that_is_a_bucket)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
