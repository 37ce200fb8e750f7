/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: flags anywhere, --option many times, --help; and what is said on stderr. */
#include "fuse/cli/cli.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_MAX 24

int cli_failed(const struct err *e)
{
    char text[sizeof e->msg];
    memcpy(text, e->msg, sizeof text);
    log_redact_text(text);
    cleanup_free char *words = cli_words(text);
    fprintf(stderr, "%s: ", cli_name());
    cli_put(stderr, words);
    fputs("\n", stderr);
    return CLI_FAILED;
}

int cli_finish(int status)
{
    int sys = fflush(stdout) ? errno : 0;
    if (!sys && !ferror(stdout))
        return status;
    cli_end_if_closed(sys);
    cli_end_if_unread();
    struct err e = ERR_INIT;
    err_sys(&e, sys ? sys : EIO, "write to stdout");
    cli_failed(&e);
    return status == CLI_DONE ? CLI_FAILED : status;
}

int cli_misuse(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cleanup_free char *text = xvasprintf(fmt, ap), *words = cli_words(text);
    va_end(ap);
    fprintf(stderr, "%s: %s\n", cli_name(), words);
    return CLI_MISUSE;
}

static const struct opt *find_opt(const struct opt *table, size_t n, const char *flag)
{
    size_t len = strcspn(flag, "=");
    for (size_t i = 0; i < n; i++)
        if (strlen(table[i].name) == len && strncmp(table[i].name, flag, len) == 0)
            return &table[i];
    return NULL;
}

/* Flags of one letter, each where its row is in the verb's table; of two rows the first counts. */
static const struct letter {
    char letter;
    const char *name;
} letters[] = {{'h', "--help"}, {'l', "--long"}, {'r', "--recursive"}, {'R', "--recursive"},
    {'n', "--lines"}, {'c', "--bytes"}, {'p', "--parents"}, {'n', "--namespace"},
    {'A', "--all-namespaces"}, {'v', "--verbose"}};

static const char *letter_flag(const struct opt *table, size_t n, char letter)
{
    for (size_t i = 0; i < ARRAY_LEN(letters); i++)
        if (letters[i].letter == letter && find_opt(table, n, letters[i].name + 2))
            return letters[i].name;
    return NULL;
}

/* Adds a flag, and its value if that is the next word. */
static void add_flag(struct args *a, const struct opt *table, size_t n, char *flag, char **argv,
    int argc, int *i, int *nflags)
{
    const struct opt *o = find_opt(table, n, flag + 2);
    a->order[(*nflags)++] = flag;
    if (o && o->type != OPT_BOOL && !strchr(flag, '=') && *i + 1 < argc)
        a->order[(*nflags)++] = argv[++*i];
}

/* "-l", "-lr", "-n 5", "-n5", "-n=5". -1: done, else the exit status. */
static int add_letters(struct args *a, const struct opt *table, size_t n, char *arg, char **argv,
    int argc, int *i, int *nflags)
{
    for (char *p = arg + 1; *p; p++) {
        const char *flag = letter_flag(table, n, *p);
        if (!flag)
            return cli_misuse("unknown flag %s; --help lists the flags", arg);
        a->order[(*nflags)++] = (char *)flag;
        if (find_opt(table, n, flag + 2)->type == OPT_BOOL)
            continue;
        if (p[1])
            a->order[(*nflags)++] = p + 1 + (p[1] == '=');
        else if (*i + 1 < argc)
            a->order[(*nflags)++] = argv[++*i];
        break;
    }
    return -1;
}

/* More words than there are in argv: "-lr" is two. */
static size_t words_max(int argc, char **argv)
{
    size_t n = 2;
    for (int i = 0; i < argc; i++)
        n += strlen(argv[i]) + 1;
    return n;
}

/* NAME=VALUE, split at the equals sign, which is at `at`. */
static int keep_pair(struct conf_pair *pairs, size_t max, size_t *n, const char *flag,
    const char *text, const char *at)
{
    if (*n == max)
        return cli_misuse("%s %s: more than %zu of them", flag, text, max);
    char *copy = xstrdup(text);
    copy[at - text] = '\0';
    pairs[(*n)++] = (struct conf_pair){copy, copy + (at - text) + 1};
    return -1;
}

static int add_option(struct args *a, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return cli_misuse("--option %s: write --option name=value", text);
    return keep_pair(a->options, ARRAY_LEN(a->options), &a->noptions, "--option", text, equals);
}

/* A URL may have equals signs in it. */
static int add_also(struct args *a, const char *text)
{
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text || equals[1] != '/' || !equals[2] || !is_url(text))
        return cli_misuse(
            "--also %s: write --also URL=/PATH, for example --also s3://bucket/prefix=/labels",
            text);
    return keep_pair(a->also, ARRAY_LEN(a->also), &a->nalso, "--also", text, equals);
}

/* A flag that may be given more than once. -2: it is another, -1: taken, else the exit status. */
static int add_repeated(struct args *a, const char *flag,
    int (*add)(struct args *a, const char *text), char **argv, int argc, int *i)
{
    size_t n = strlen(flag);
    if (strncmp(argv[*i], flag, n) != 0 || (argv[*i][n] && argv[*i][n] != '='))
        return -2;
    if (argv[*i][n])
        return add(a, argv[*i] + n + 1);
    return *i + 1 < argc ? add(a, argv[++*i]) : cli_misuse("%s needs a value", flag);
}

/* Flags first, then what is positional: opt_parse() gets the flags alone. */
static int sort_args(
    struct args *a, const struct verb *v, const struct opt *table, size_t n, int argc, char **argv)
{
    int nflags = 1, npos = 0, rc = -1;
    char **pos = xcalloc((size_t)argc + 1, sizeof *pos);
    a->order = xcalloc(words_max(argc, argv), sizeof *a->order);
    a->order[0] = argv[0];
    bool flags = true;
    for (int i = 1; i < argc && rc < 0; i++) {
        if (flags && strcmp(argv[i], "--") == 0) {
            flags = false;
        } else if (!flags || argv[i][0] != '-' || !argv[i][1]) {
            pos[npos++] = argv[i];
        } else if (argv[i][1] != '-') {
            rc = add_letters(a, table, n, argv[i], argv, argc, &i, &nflags);
        } else {
            rc = v->store ? add_repeated(a, "--option", add_option, argv, argc, &i) : -2;
            if (rc == -2 && find_opt(table, n, "also"))
                rc = add_repeated(a, "--also", add_also, argv, argc, &i);
            if (rc == -2) {
                add_flag(a, table, n, argv[i], argv, argc, &i, &nflags);
                rc = -1;
            }
        }
    }
    memcpy(&a->order[nflags], pos, (size_t)npos * sizeof *pos);
    a->pos = &a->order[nflags];
    a->npos = npos;
    free(pos);
    return rc;
}

int args_parse(
    struct args *a, const struct verb *v, const struct opt *table, size_t n, int argc, char **argv)
{
    bool help = false;
    struct opt all[TABLE_MAX];
    *a = (struct args){0};
    if (n)
        memcpy(all, table, n * sizeof *table);
    const char *unused = NULL; /* sort_args takes every --option out: the row is for the pages */
    if (v->store) {
        all[n++] = (struct opt){"secrets-dir", OPT_STRING, &a->secrets_dir, "DIR",
            "directory of files with secrets, named like options"};
        all[n++] = (struct opt){"option", OPT_STRING, &unused, "NAME=VALUE",
            "an option of the store; may be given more than once"};
    }
    all[n++] = (struct opt){"help", OPT_BOOL, &help, NULL, "print this"};
    int rc = sort_args(a, v, all, n, argc, argv);
    if (rc >= 0)
        return rc;
    struct err e = ERR_INIT;
    int first = 0;
    int flags = (int)(a->pos - a->order);
    if (opt_parse(all, n, flags, a->order, &first, &e))
        return cli_misuse("%s", e.msg);
    if (help) {
        help = false; /* its default */
        page_print(v, all, n);
        return CLI_DONE;
    }
    if (a->npos < v->min_pos || a->npos > v->max_pos) {
        cleanup_free char *line = page_usage(v, n);
        return cli_misuse("usage: %s\n%s: --help tells more", line, cli_name());
    }
    return -1;
}

unsigned args_given(const struct args *a, const char *name)
{
    size_t len = strlen(name);
    unsigned n = 0;
    for (char **arg = a->order + 1; arg < a->pos; arg++)
        if (strncmp(*arg, "--", 2) == 0 && strncmp(*arg + 2, name, len) == 0
            && (!(*arg)[len + 2] || (*arg)[len + 2] == '='))
            n++;
    return n;
}

void args_free(struct args *a)
{
    for (size_t i = 0; i < a->noptions; i++)
        free(a->options[i].key); /* the value is in the same string */
    for (size_t i = 0; i < a->nalso; i++)
        free(a->also[i].key);
    free(a->order);
    *a = (struct args){0};
}
