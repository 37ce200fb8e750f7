/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of stores' options are what the documents and the CRD say. */
#include "tests/lib/unit.h"

#include "fuse/cli/cli.h"
#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

static char *source_file(const char *name)
{
    const char *source = getenv("MILLRACE_SOURCE");
    assert_non_null(source);
    cleanup_free char *path = path_join(source, name);
    char *text = file_read(path, 1 << 20, NULL, NULL);
    if (!text)
        fail_msg("%s is not there", path);
    return text;
}

static void test_page(void **state)
{
    (void)state;
    cleanup_free char *page = source_file("docs/reference/options.md");
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    options_markdown(out);
    fclose(out);
    assert_string_equal(page, text);
    free(text);
}

/* Each option has a row, its aliases are no other option's, and each spelling of a pair is whole.
 */
static void test_tables(void **state)
{
    (void)state;
    const struct store_kind *k;
    for (size_t i = 0; (k = store_kind_at(i)); i++) {
        for (const struct store_option *o = k->options; o->name; o++) {
            assert_true(strlen(o->help) > 3);
            assert_ptr_equal(store_option_find(k->options, o->name), o);
            for (size_t n = 0; n < ARRAY_LEN(o->aliases) && o->aliases[n]; n++)
                assert_ptr_equal(store_option_find(k->options, o->aliases[n]), o);
            for (size_t n = 0; o->paired && n < k->nspellings; n++)
                assert_non_null(o->secret_keys[n]);
        }
    }
}

static void test_text(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    options_text(out);
    fclose(out);
    assert_non_null(strstr(text, "\noptions of s3://bucket/prefix:\n  endpoint "));
    assert_non_null(strstr(text, "(environment: AWS_REGION)\n"));
    assert_non_null(strstr(text, "they come from the environment (AWS_ACCESS_KEY_ID, "));
    assert_non_null(strstr(text, "\noptions of file:///directory:\n  can-hang "));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page), cmocka_unit_test(test_tables), cmocka_unit_test(test_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
