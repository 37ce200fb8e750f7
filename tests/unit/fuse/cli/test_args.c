/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: flags of words and of letters, values, what is refused. */
#include "fuse/cli/cli.h"

#include "lib/base/mem.h"
#include "tests/lib/unit.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int no_verb(const struct verb *v, int argc, char **argv)
{
    (void)v, (void)argc, (void)argv;
    return CLI_DONE;
}
static const struct verb one = {"one", "URL", "do it", "Does it.", 1, 1, true, no_verb};
static const struct verb many = {
    "many", "PATH...", "do it", "Does it.", 1, INT_MAX, false, no_verb};

struct flags {
    bool yes;
    const char *name, *way;
    int64_t size, number, time_ns;
};

static int parse(const struct verb *v, const char *line, struct args *a, struct flags *f)
{
    static char copy[1024];
    static char *argv[32];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    char *rest = NULL;
    for (char *p = strtok_r(copy, " ", &rest); p; p = strtok_r(NULL, " ", &rest))
        argv[argc++] = p;
    *f = (struct flags){.size = 7};
    const struct opt table[] = {
        {"yes", OPT_BOOL, &f->yes, NULL, "agree"},
        {"name", OPT_STRING, &f->name, "NAME", "call it so"},
        {"way", OPT_STRING, &f->way, "up|down", "where to"},
        {"size", OPT_BYTES, &f->size, "SIZE", "how much"},
        {"number", OPT_INT, &f->number, "N", "how many"},
        {"time", OPT_SECONDS, &f->time_ns, "DURATION", "how long"},
    };
    return args_parse(a, v, table, ARRAY_LEN(table), argc, argv);
}

static void test_flags_stand_anywhere(void **state)
{
    (void)state;
    static const char *const lines[] = {"many --yes --name x a b", "many a --yes --name=x b",
        "many a b --name x --yes=true", "many --name x -- a b --yes"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        cleanup_args struct args a;
        struct flags f;
        assert_int_equal(parse(&many, lines[i], &a, &f), -1);
        bool literal = i + 1 == ARRAY_LEN(lines);
        assert_int_equal(a.npos, literal ? 3 : 2);
        assert_string_equal(a.pos[0], "a");
        assert_string_equal(a.pos[1], "b");
        assert_string_equal(f.name, "x");
        assert_int_equal(f.yes, !literal);
    }
}

/* `ls -l`, `cp -r`: a letter is a flag where the verb's table has its row, and nowhere else. */
static void test_letters(void **state)
{
    (void)state;
    static const struct {
        char letter[4];
        bool details, recursive;
    } good[] = {{"-l", true, false}, {"-r", false, true}, {"-lr", true, true}, {"-R", false, true}};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        cleanup_args struct args a;
        bool details = false, recursive = false;
        const struct opt table[] = {{"long", OPT_BOOL, &details, NULL, "print more"},
            {"recursive", OPT_BOOL, &recursive, NULL, "all below"}};
        char *argv[] = {"many", (char *)good[i].letter, "a", "b"};
        assert_int_equal(args_parse(&a, &many, table, ARRAY_LEN(table), 4, argv), -1);
        assert_int_equal(details, good[i].details);
        assert_int_equal(recursive, good[i].recursive);
        assert_int_equal(a.npos, 2);
        assert_string_equal(a.pos[0], "a");
        cleanup_args struct args alone;
        assert_int_equal(args_parse(&alone, &many, &table[i == 0], 1, 4, argv), CLI_MISUSE);
    }
}

/* `tail -n 5`, `-n5`, `-n=5`: what is behind the letter is its value. */
static void test_letters_with_values(void **state)
{
    (void)state;
    static const char *const lines[][3] = {
        {"-n", "+5"}, {"-n+5", NULL}, {"-n=+5", NULL}, {"-rn", "+5"}, {"-rn+5", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        cleanup_args struct args a;
        const char *n = NULL;
        bool recursive = false;
        const struct opt table[] = {{"lines", OPT_STRING, &n, "N", "how many"},
            {"recursive", OPT_BOOL, &recursive, NULL, "all below"}};
        char *argv[5] = {(char *)"many", (char *)"a"};
        int argc = 2;
        for (size_t k = 0; lines[i][k]; k++)
            argv[argc++] = (char *)lines[i][k];
        assert_int_equal(args_parse(&a, &many, table, ARRAY_LEN(table), argc, argv), -1);
        assert_string_equal(n, "+5");
        assert_int_equal(recursive, i >= 3);
        assert_int_equal(a.npos, 1);
    }
    cleanup_args struct args none;
    const char *n = NULL;
    const struct opt table[] = {{"lines", OPT_STRING, &n, "N", "how many"}};
    char *argv[] = {(char *)"many", (char *)"a", (char *)"-n"};
    assert_int_equal(args_parse(&none, &many, table, 1, 3, argv), CLI_MISUSE);
}

static void test_values(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int64_t size, number, time_ns;
    } good[] = {
        {"many a", 7, 0, 0},
        {"many a --size 10Gi", INT64_C(10) << 30, 0, 0},
        {"many a --size=512Mi --number -3", 512 << 20, -3, 0},
        {"many a --size 1k", 1000, 0, 0},
        {"many a --size 80MiB", 80 << 20, 0, 0},
        {"many a --size 10.00GiB", INT64_C(10) << 30, 0, 0},
        {"many a --size 512B", 512, 0, 0},
        {"many a --time 1m30s", 7, 0, INT64_C(90000000000)},
        {"many a --time 200ms", 7, 0, 200000000},
        {"many a --time 5", 7, 0, INT64_C(5000000000)},
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        cleanup_args struct args a;
        struct flags f;
        assert_int_equal(parse(&many, good[i].line, &a, &f), -1);
        assert_int_equal(f.size, good[i].size);
        assert_int_equal(f.number, good[i].number);
        assert_int_equal(f.time_ns, good[i].time_ns);
    }
}

static void test_dashes(void **state)
{
    (void)state;
    cleanup_args struct args a, b, c;
    struct flags f;
    assert_int_equal(parse(&one, "one -", &a, &f), -1); /* standard input */
    assert_string_equal(a.pos[0], "-");
    assert_int_equal(parse(&many, "many --way down -- -l", &b, &f), -1);
    assert_string_equal(b.pos[0], "-l");
    assert_string_equal(f.way, "down");
    assert_int_equal(parse(&one, "one -h", &c, &f), CLI_DONE);
}

static void test_misuse(void **state)
{
    (void)state;
    static const struct {
        const struct verb *v;
        const char *line;
    } bad[] = {
        {&many, "many"},
        {&one, "one"},
        {&one, "one a b"},
        {&many, "many a --colour red"},
        {&many, "many a --name"},
        {&many, "many a --size ten"},
        {&many, "many a --size B"},
        {&many, "many a --size 10mB"},
        {&many, "many a --size 10BB"},
        {&many, "many a --size"},
        {&many, "many a --number 1x"},
        {&many, "many a --time soon"},
        {&many, "many a --yes=maybe"},
        {&many, "many a --option x=y"},
        {&one, "one a --option"},
        {&one, "one a --option x"},
        {&one, "one a --option =x"},
        {&one, "one a --secrets-dir"},
        {&one, "one -l"},
        {&one, "one -la b"},
        {&many, "many a --way up|down"},
        {&many, "many a --way=u"},
        {&many, "many a --way sideways"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        cleanup_args struct args a;
        struct flags f;
        assert_int_equal(parse(bad[i].v, bad[i].line, &a, &f), CLI_MISUSE);
    }
}

static void test_options_of_the_store(void **state)
{
    (void)state;
    cleanup_args struct args a;
    struct flags f;
    assert_int_equal(
        parse(&one, "one --option a=1 u://x --option=b=2=3 --secrets-dir d --option c=", &a, &f),
        -1);
    assert_int_equal(a.noptions, 3);
    static const char *const want[][2] = {{"a", "1"}, {"b", "2=3"}, {"c", ""}};
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        assert_string_equal(a.options[i].key, want[i][0]);
        assert_string_equal(a.options[i].value, want[i][1]);
    }
    assert_string_equal(a.secrets_dir, "d");
    assert_string_equal(a.pos[0], "u://x");
}

/* What a person is told to type is what he types. */
static void test_words_of_a_plugin(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"`millrace ls` lists it", "`kubectl millrace ls` lists it"},
        {"millrace umount /a", "kubectl millrace umount /a"},
        {"not served; millrace umount unmounts it",
            "not served; kubectl millrace umount unmounts it"},
        {"(millrace unpin), or", "(kubectl millrace unpin), or"},
        {"as `kubectl millrace doctor`, `millrace check URL`",
            "as `kubectl millrace doctor`, `kubectl millrace check URL`"},
        {"`millrace VERB --help`", "`kubectl millrace VERB --help`"},
        {"a mount of millrace (it is)", "a mount of millrace (it is)"},
        {"in my-millrace ls, millrace is", "in my-millrace ls, millrace is"},
        {"", ""},
        {"millrace ", "millrace "},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (int plugin = 0; plugin < 2; plugin++) {
            cli_called(plugin ? "/usr/local/bin/kubectl-millrace" : "/usr/bin/millrace");
            cleanup_free char *words = cli_words(rows[i][0]);
            assert_string_equal(words, rows[i][plugin]);
        }
    cli_called("millrace");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags_stand_anywhere),
        cmocka_unit_test(test_letters),
        cmocka_unit_test(test_letters_with_values),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_dashes),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_options_of_the_store),
        cmocka_unit_test(test_words_of_a_plugin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
