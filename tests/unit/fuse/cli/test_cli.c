/* SPDX-License-Identifier: Apache-2.0 */
/* The CLI without a store: URLs, configurations, and the pages made of its tables. */
#include "fuse/cli/cli.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/lib/unit.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int odd_verb(const struct verb *v, int argc, char **argv)
{
    (void)v, (void)argc, (void)argv;
    return CLI_DONE;
}

/* -- URLs and configurations ----------------------------------------------------------------- */

static void test_url_split(void **state)
{
    (void)state;
    static const struct {
        const char *url, *root, *path;
    } cases[] = {
        {"s3://bucket", "s3://bucket", ""},
        {"s3://bucket/", "s3://bucket", ""},
        {"s3://bucket/a", "s3://bucket", "a"},
        {"s3://bucket/a/b/", "s3://bucket/a", "b"},
        {"s3://bucket/a/b//", "s3://bucket/a", "b"},
        {"file:///", "file:///", ""},
        {"file:///x", "file:///", "x"},
        {"file:///x/y z", "file:///x", "y z"},
        {"s3://", "s3://", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        char *root, *path;
        assert_int_equal(url_split(cases[i].url, false, &root, &path, &e), 0);
        assert_string_equal(root, cases[i].root);
        assert_string_equal(path, cases[i].path);
        free(root);
        free(path);
        assert_int_equal(url_split(cases[i].url, true, &root, &path, &e), 0);
        assert_string_equal(path, "");
        free(root);
        free(path);
    }
}

static void test_what_is_no_url(void **state)
{
    (void)state;
    static const char *const bad[] = {"/mnt/fuse", "", "x", "s3:/bucket", "bucket/key", "/"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        for (int whole = 0; whole < 2; whole++) {
            struct err e = ERR_INIT;
            struct args a = {0};
            cleanup_target struct target t = {0};
            assert_false(is_url(bad[i]));
            assert_int_equal(target_open(&t, &a, bad[i], whole, true, &e), -1);
            assert_int_equal(e.cls, ERR_INVALID);
            assert_non_null(strstr(e.msg, "is not a URL: write s3://"));
        }
}

static void test_targets(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct args a = {0};
    cleanup_target struct target t = {0};
    assert_int_equal(target_open(&t, &a, "file:///tmp/x", false, true, &e), 0);
    assert_string_equal(t.path, "x");
    assert_string_equal(t.conf->mounts[0].mount_point, "file:///tmp");
    assert_true(t.conf->mounts[0].read_only);
}

static void test_secrets(void **state)
{
    (void)state;
    char dir[] = "/tmp/millrace-cli.XXXXXX";
    assert_non_null(mkdtemp(dir));
    cleanup_free char *file = path_join(dir, "access-key-id");
    assert_int_equal(file_write_atomic(file, "key", 3, 0600, NULL), 0);
    struct conf_request w = {.url = "s3://bucket/x"};
    struct err e = ERR_INIT;
    struct args a = {.secrets_dir = dir};
    cleanup_free char *text = conf_text(&a, &w, &e);
    assert_non_null(text);
    cleanup_conf struct conf *conf = conf_parse(text, strlen(text), &e);
    assert_non_null(conf);
    assert_int_equal(conf->mounts[0].nsecrets, 1);
    assert_string_equal(conf->mounts[0].secrets[0].key, "access-key-id");
    assert_int_equal(file_remove_tree(dir, NULL), 0);

    a = (struct args){.options = {{(char *)"secret-access-key", (char *)"hush"}}, .noptions = 1};
    assert_null(conf_text(&a, &w, &e));
    assert_int_equal(e.cls, ERR_INVALID);
    assert_non_null(strstr(e.msg, "secrets do not belong there"));
    assert_non_null(strstr(e.msg, "AWS_SECRET_ACCESS_KEY"));
    assert_null(strstr(e.msg, "hush"));
}

/* Options and secrets with a path are of the store there, the others of the first one. */
static void test_also(void **state)
{
    (void)state;
    char dir[] = "/tmp/millrace-cli.XXXXXX";
    assert_non_null(mkdtemp(dir));
    cleanup_free char *own = path_join(dir, "secret-access-key"), *below = path_join(dir, "b/c"),
                      *file = path_join(below, "access-key-id");
    assert_int_equal(file_write_atomic(own, "key", 3, 0600, NULL), 0);
    assert_int_equal(file_mkdirs(below, 0700, NULL), 0);
    assert_int_equal(file_write_atomic(file, "key", 3, 0600, NULL), 0);
    struct conf_request w = {.url = "s3://first/x", .immutable = CONF_IMMUTABLE_FALSE};
    struct err e = ERR_INIT;
    struct args a = {.secrets_dir = dir,
        .options = {{(char *)"region", (char *)"one"}, {(char *)"/b/c:region", (char *)"two"},
            {(char *)"/d/:profile", (char *)"three"}},
        .noptions = 3,
        .also = {{(char *)"s3://second", (char *)"/b/c/"}, {(char *)"s3://third", (char *)"/d"}},
        .nalso = 2};
    cleanup_free char *text = conf_text(&a, &w, &e);
    cleanup_conf struct conf *conf = text ? conf_parse(text, strlen(text), &e) : NULL;
    assert_non_null(conf);
    static const struct {
        const char *url, *path, *option, *value, *secret, *file;
    } expected[] = {
        {"s3://first/x", "/", "region", "one", "secret-access-key", "secret-access-key"},
        {"s3://second", "/b/c", "region", "two", "access-key-id", "b/c/access-key-id"},
        {"s3://third", "/d", "profile", "three", NULL, NULL},
    };
    assert_int_equal(conf->nmounts, ARRAY_LEN(expected));
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        const struct conf_mount *m = &conf->mounts[i];
        assert_string_equal(m->mount_point, expected[i].url);
        assert_string_equal(m->path, expected[i].path);
        assert_int_equal(m->noptions, 1);
        assert_string_equal(m->options[0].key, expected[i].option);
        assert_string_equal(m->options[0].value, expected[i].value);
        assert_int_equal(m->nsecrets, expected[i].secret ? 1 : 0);
        assert_int_equal(conf_mount_has_secrets(conf, i), expected[i].secret != NULL);
        if (expected[i].secret) {
            assert_string_equal(m->secrets[0].key, expected[i].secret);
            assert_string_equal(m->secrets[0].value, expected[i].file);
        }
        assert_int_equal(m->immutable, CONF_IMMUTABLE_FALSE);
    }
    a.options[1].key = (char *)"/b:region";
    assert_null(conf_text(&a, &w, &e));
    assert_non_null(strstr(e.msg, "there is no --also URL=/b"));
    a.options[1].key = (char *)"/b/c:secret-access-key";
    assert_null(conf_text(&a, &w, &e));
    assert_non_null(strstr(e.msg, "secrets do not belong there"));
    assert_int_equal(file_remove_tree(dir, NULL), 0);
}

static void test_rules_and_immutable(void **state)
{
    (void)state;
    struct args a = {0};
    struct err e = ERR_INIT;
    struct conf_request w = {.url = "s3://bucket/x",
        .read_only = true,
        .write_type = "CacheThrough",
        .rules = "/logs=Through,/logs/a=b/=CacheThrough,/ckpt=AsyncThrough",
        .immutable = CONF_IMMUTABLE_TRUE};
    cleanup_free char *text = conf_text(&a, &w, &e);
    cleanup_conf struct conf *conf = conf_parse(text, strlen(text), &e);
    assert_non_null(conf);
    assert_int_equal(conf->mounts[0].immutable, CONF_IMMUTABLE_TRUE);
    assert_int_equal(conf_write_of(conf, "/file"), CONF_CACHE_THROUGH);
    assert_int_equal(conf_write_of(conf, "/logs/file"), CONF_THROUGH);
    assert_int_equal(conf_write_of(conf, "/logs/a=b/file"), CONF_CACHE_THROUGH);
    assert_int_equal(conf_write_of(conf, "/ckpt/file"), CONF_ASYNC_THROUGH);
    w.immutable = CONF_IMMUTABLE_UNSET;
    cleanup_free char *undecided = conf_text(&a, &w, &e);
    assert_null(strstr(undecided, "immutable"));
    static const char *const bad[] = {
        "", "Through", "logs=Through", "/logs", "/a=Through,", "/\xff=x"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        w.rules = bad[i];
        if (conf_text(&a, &w, &e))
            fail_msg("%s", bad[i]);
        assert_non_null(strstr(e.msg, "--rule '"));
    }
    w.rules = "/logs=Sometimes"; /* the client says so */
    cleanup_free char *wrong = conf_text(&a, &w, &e);
    assert_null(conf_parse(wrong, strlen(wrong), &e));
    assert_non_null(strstr(e.msg, "\"Sometimes\" is none of Through, CacheThrough, AsyncThrough"));
}

/* Refused before anything is asked or mounted. */
static void test_mount_misuse(void **state)
{
    (void)state;
    static const char *const lines[][4] = {{"--immutable", "--read-only=false"},
        {"--rule", "/a=Through", "--rule=/b=Through"}, {"--metadata-sync", "0"},
        {"--metadata-sync=500ms"}, {"--immutable=yes"}, {"--write-type", "through"}};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        char *argv[8] = {(char *)"mount", (char *)"file:///nowhere", (char *)"/nowhere"};
        int argc = 3;
        for (size_t k = 0; k < 4 && lines[i][k]; k++)
            argv[argc++] = (char *)lines[i][k];
        assert_int_equal(verb_mount(verb_find("mount"), argc, argv), CLI_MISUSE);
    }
}

static void test_flags_that_were_given(void **state)
{
    (void)state;
    static const struct {
        char *argv[4];
        bool given, value;
    } cases[] = {{{(char *)"mount", (char *)"x"}, false, false},
        {{(char *)"mount", (char *)"--immutable", (char *)"x"}, true, true},
        {{(char *)"mount", (char *)"x", (char *)"--immutable=false"}, true, false},
        {{(char *)"mount", (char *)"--", (char *)"--immutable"}, false, false},
        {{(char *)"mount", (char *)"-r", (char *)"x"}, false, false}};
    static const struct verb v = {.name = "mount", .args = "X", .about = "X.", .max_pos = 2};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool immutable = false, recursive = false;
        const struct opt table[] = {{"immutable", OPT_BOOL, &immutable, NULL, "x"},
            {"recursive", OPT_BOOL, &recursive, NULL, "x"}};
        int argc = 0;
        while (argc < 4 && cases[i].argv[argc])
            argc++;
        cleanup_args struct args a;
        assert_int_equal(args_parse(&a, &v, table, 2, argc, (char **)cases[i].argv), -1);
        assert_int_equal(args_given(&a, "immutable"), cases[i].given);
        assert_int_equal(immutable, cases[i].value);
        assert_false(args_given(&a, "imm"));
        assert_int_equal(recursive, i == 4); /* in one letter, too */
    }
}

/* -- the tables ------------------------------------------------------------------------------ */

static void test_verbs(void **state)
{
    (void)state;
    for (const struct verb *v = verbs; v->name; v++) {
        assert_ptr_equal(verb_find(v->name), v); /* so it stands once */
        assert_non_null(v->args);
        assert_true(islower((unsigned char)v->brief[0]));
        assert_true(v->brief[strlen(v->brief) - 1] != '.');
        assert_true(isupper((unsigned char)v->about[0]));
        assert_true(v->about[strlen(v->about) - 1] == '.');
        assert_true(v->min_pos <= v->max_pos);
        assert_int_equal(v->max_pos == 0, *v->args == '\0');
    }
    assert_ptr_equal(verb_find("copyFromLocal"), verb_find("cp"));
    assert_null(verb_find("frobnicate"));
    assert_null(verb_find(""));
}

static const struct opt *rows;
static size_t nrows;
static struct opt kept[32];

static void keep_rows(FILE *out, const struct verb *v, const struct opt *table, size_t n)
{
    (void)out, (void)v;
    assert_true(n <= ARRAY_LEN(kept));
    memcpy(kept, table, n * sizeof *table);
    rows = kept;
    nrows = n;
}

static char *page_of(const struct verb *v, page_fn format)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_int_equal(help_page(v, format, out), CLI_DONE);
    fclose(out);
    return text;
}

static void test_flags_of_verbs(void **state)
{
    (void)state;
    for (const struct verb *v = verbs; v->name; v++) {
        assert_int_equal(help_page(v, keep_rows, NULL), CLI_DONE);
        assert_true(nrows >= 1);
        for (size_t i = 0; i < nrows; i++) {
            assert_int_equal(rows[i].type == OPT_BOOL, rows[i].arg == NULL);
            assert_true(strlen(rows[i].help) > 3);
            for (size_t k = 0; k < i; k++)
                assert_string_not_equal(rows[i].name, rows[k].name);
        }
        assert_string_equal(rows[nrows - 1].name, "help");
    }
}

/* Every flag of every verb is on its man page and in each completion script. */
static void test_pages_are_complete(void **state)
{
    (void)state;
    for (const struct verb *v = verbs; v->name; v++) {
        cleanup_free char *man = page_of(v, man_page);
        cleanup_free char *head = xasprintf("\nmillrace\\-%s \\- %s\n", v->name, v->brief);
        assert_non_null(strstr(man, head));
        assert_int_equal(help_page(v, keep_rows, NULL), CLI_DONE);
        for (size_t i = 0; i < nrows; i++) {
            /* up to a "-" of its own, which is "\-" there */
            cleanup_free char *roff = xasprintf(
                "\\fB\\-\\-%.*s", (int)strcspn(rows[i].name, "-"), rows[i].name);
            assert_non_null(strstr(man, roff));
            for (const struct completion *c = completions; c->shell; c++) {
                cleanup_free char *script = page_of(v, c->page);
                assert_non_null(strstr(script, rows[i].name));
                assert_non_null(strstr(script, v->name));
            }
        }
    }
}

/* No line of text or of a flag's help begins with "." or "'" in roff, nor breaks a bash word. */
static void test_roff_escapes(void **state)
{
    (void)state;
    static const struct verb odd = {"odd", "A|B", "x",
        ".begins with a dot\n\n'quote, back\\slash and `--code-here` or --flag-there.", 0, 0, false,
        odd_verb};
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    man_page(out, &odd, NULL, 0);
    fclose(out);
    assert_non_null(strstr(text, "\n\\&.begins with a dot\n.PP\n\\&'quote, back\\eslash"));
    assert_non_null(strstr(text, "\\fB\\-\\-code\\-here\\fR or \\fB\\-\\-flag\\-there\\fR."));
    free(text);
}

/* docs/reference/cli.md is what the program prints: `millrace help --markdown` writes it anew. */
static void test_reference_page(void **state)
{
    (void)state;
    const char *source = getenv("MILLRACE_SOURCE");
    assert_non_null(source);
    cleanup_free char *path = path_join(source, "docs/reference/cli.md");
    cleanup_free char *page = file_read(path, 1 << 20, NULL, NULL);
    assert_non_null(page);
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_int_equal(help_markdown(out), CLI_DONE);
    fclose(out);
    assert_string_equal(page, text);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_url_split),
        cmocka_unit_test(test_what_is_no_url),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_also),
        cmocka_unit_test(test_rules_and_immutable),
        cmocka_unit_test(test_mount_misuse),
        cmocka_unit_test(test_flags_that_were_given),
        cmocka_unit_test(test_verbs),
        cmocka_unit_test(test_flags_of_verbs),
        cmocka_unit_test(test_pages_are_complete),
        cmocka_unit_test(test_roff_escapes),
        cmocka_unit_test(test_reference_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
