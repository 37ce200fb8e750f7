/* SPDX-License-Identifier: Apache-2.0 */
/* Which names are taken from index pages and lists of web servers, and which are not. */
#include "tests/lib/unit.h"

#include "fuse/store/web_index.h"
#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

static int collect(void *names, const char *name)
{
    buf_addf(names, "%s|", name);
    return 0;
}

static void expect_names(const char *text, const char *names)
{
    cleanup_buf struct buf got = BUF_INIT(4096);
    const struct web_index_fns fns = {collect, NULL, &got};
    web_index_names(text, strlen(text), "https://h:1/a/b/", &fns);
    assert_string_equal(buf_str(&got), names);
}

static void pages_of_servers(void **state)
{
    (void)state;
    static const char *const pages[][2] = {{"nginx", "deeper/|a b%41&c.txt|"},
        {"apache", "one&two.txt|absolute|"}, {"python", "deep/|one|"}};
    const char *source = getenv("MILLRACE_SOURCE");
    assert_non_null(source);
    for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
        cleanup_free char *path = xasprintf(
            "%s/tests/fuzz/corpus/web_index/%s", source, pages[i][0]);
        cleanup_free char *text = file_read(path, 1 << 20, NULL, NULL);
        assert_non_null(text);
        expect_names(text, pages[i][1]);
    }
}

static void links_elsewhere(void **state)
{
    (void)state;
    expect_names("<a href=\"https://h:1/a/b/c\"><a href='./d/'><a href=e>", "c|d/|e|");
    expect_names("<a href=\"https://other/a/b/c\"><a href=\"//h:1/a/b/c\"><a href=\"/a/x\">", "");
    expect_names("<a href=\"../\"><a href=\"..\"><a href=\".\"><a href=\"\"><a href=\"/\">", "");
    expect_names("<a href=\"x/y\"><a href=\"%2e%2e/\"><a href=\"a%2fb\"><a href=\"a%00b\">", "");
    expect_names("<a href=\"?C=N\"><a href=\"f?x\"><a href=\"#top\"><a href=\"mailto:a@b\">", "");
    expect_names("<abbr href=\"x\"><a data-href=\"y\"><a name=z><a href=\"unclosed", "");
}

static void expect_line(const char *text, const char *path, uint64_t size, bool bad)
{
    const char *line = text;
    char *got;
    uint64_t bytes;
    bool is_bad;
    assert_true(web_manifest_line(&line, text + strlen(text), &got, &bytes, &is_bad));
    cleanup_free char *own = got;
    assert_int_equal(is_bad, bad);
    if (!path) {
        assert_null(got);
        return;
    }
    assert_string_equal(got, path);
    assert_int_equal(bytes, size);
}

static void lists(void **state)
{
    (void)state;
    expect_line("a/b\n", "a/b", UINT64_MAX, false);
    expect_line("a/b\t12\r\n", "a/b", 12, false);
    expect_line("with space 7", "with space", 7, false);
    expect_line("12", "12", UINT64_MAX, false); /* a name */
    expect_line("# x\n", NULL, 0, false);
    expect_line("\n", NULL, 0, false);
    expect_line("../x", "../x", UINT64_MAX, true);
    expect_line("/etc/x 1", "/etc/x", 1, true);
    const char *none = "";
    char *path;
    uint64_t size;
    bool bad;
    assert_false(web_manifest_line(&none, none, &path, &size, &bad));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pages_of_servers),
        cmocka_unit_test(links_elsewhere), cmocka_unit_test(lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
