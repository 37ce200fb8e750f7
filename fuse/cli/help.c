/* SPDX-License-Identifier: Apache-2.0 */
/* help, completion and version: what the other verbs' tables say, in the format that is asked for.
 */
#include "fuse/cli/cli.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct verb *verb_find(const char *name)
{
    static const struct {
        const char *alias, *name;
    } aliases[] = {{"copyFromLocal", "cp"}, {"copyToLocal", "cp"}, /* Alluxio's words */
        {"check", "doctor"}};
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
        if (strcmp(aliases[i].alias, name) == 0)
            name = aliases[i].name;
    for (const struct verb *v = verbs; v->name; v++)
        if (strcmp(v->name, name) == 0)
            return v;
    return NULL;
}

int verb_unknown(const char *name)
{
    const struct verb *best = NULL;
    unsigned least = 1 + (unsigned)strlen(name) / 3;
    for (const struct verb *v = verbs; v->name; v++) {
        unsigned n = name_edits(name, v->name);
        if (n < least || (n == least && !best)) {
            least = n;
            best = v;
        }
    }
    return cli_misuse("there is no verb '%s'%s%s%s (`%s help` lists them)", name,
        best ? ": is " : "", best ? best->name : "", best ? " meant?" : "", cli_name());
}

void help_overview(FILE *out)
{
    fprintf(out,
        "usage: %s VERB [flags] [arguments]\n\nDatasets from object stores and directories, as local "
        "files.\n\nverbs:\n",
        cli_name());
    for (const struct verb *v = verbs; v->name; v++)
        fprintf(out, "  %-10s %-14s %s\n", v->name, v->args, v->brief);
    fprintf(out,
        "\n`%s VERB --help` prints a verb's flags. Exit status: 0 done, 1 failed, 2 misuse.\n",
        cli_name());
}

/* The page of one verb: its flags are in a table in its function, which shows them for --help. */
int help_page(const struct verb *v, page_fn format, FILE *out)
{
    char *argv[] = {(char *)v->name, (char *)"--help", NULL};
    page_format(format, out);
    int rc = v->run(v, 2, argv);
    page_format(NULL, NULL);
    return rc;
}

static int print_pages(page_fn format, FILE *out)
{
    int rc = CLI_DONE;
    for (const struct verb *v = verbs; v->name && rc == CLI_DONE; v++)
        rc = help_page(v, format, out);
    return rc;
}

/* v NULL: the page of millrace itself */
static int write_man_page(const char *dir, const struct verb *v)
{
    struct err e = ERR_INIT;
    cleanup_free char *path = xasprintf("%s/millrace%s%s.1", dir, v ? "-" : "", v ? v->name : "");
    FILE *out = fopen(path, "we");
    if (!out)
        return err_sys(&e, errno, "create %s", path), cli_failed(&e);
    int rc = CLI_DONE;
    if (v)
        rc = help_page(v, man_page, out);
    else
        man_main_page(out);
    if (ferror(out) | fclose(out))
        return err_sys(&e, errno, "write %s", path), cli_failed(&e);
    return rc;
}

static int write_man_pages(const char *dir)
{
    int rc = write_man_page(dir, NULL);
    for (const struct verb *v = verbs; v->name && rc == CLI_DONE; v++)
        rc = write_man_page(dir, v);
    return rc;
}

int help_markdown(FILE *out)
{
    markdown_begin(out);
    int rc = print_pages(markdown_page, out);
    return rc;
}

int help_completion(const struct completion *c, FILE *out)
{
    c->begin(out);
    int rc = print_pages(c->page, out);
    c->end(out);
    return rc;
}

int verb_help(const struct verb *v, int argc, char **argv)
{
    bool man = false, markdown = false;
    const char *to = NULL;
    const struct opt table[] = {
        {"man", OPT_BOOL, &man, NULL, "as a manual page, for `man -l -`"},
        {"to", OPT_STRING, &to, "DIR", "with --man: the pages of all verbs, as files in DIR"},
        {"markdown", OPT_BOOL, &markdown, NULL, "all verbs, or the options, as a page in Markdown"},
    };
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    bool options = a.npos && strcmp(a.pos[0], "options") == 0;
    const struct verb *of = a.npos ? verb_find(a.pos[0]) : NULL;
    if (a.npos && !of && !options)
        return verb_unknown(a.pos[0]);
    if (man + markdown > 1 || (to && !man) || (of && (to || markdown)) || (options && man))
        return cli_misuse("help: these do not go together; millrace help --help tells what does");
    if (options) {
        (markdown ? options_markdown : options_text)(stdout);
        return CLI_DONE;
    }
    if (markdown)
        return help_markdown(stdout);
    if (to)
        return write_man_pages(to);
    if (of)
        return help_page(of, man ? man_page : NULL, stdout);
    if (man)
        man_main_page(stdout);
    else
        help_overview(stdout);
    return CLI_DONE;
}

int verb_completion(const struct verb *v, int argc, char **argv)
{
    cleanup_args struct args a;
    int rc = args_parse(&a, v, NULL, 0, argc, argv);
    if (rc >= 0)
        return rc;
    for (const struct completion *c = completions; c->shell; c++)
        if (strcmp(c->shell, a.pos[0]) == 0)
            return help_completion(c, stdout);
    return cli_misuse("completion: '%s' is none of %s", a.pos[0], v->args);
}

int verb_version(const struct verb *v, int argc, char **argv)
{
    cleanup_args struct args a;
    int rc = args_parse(&a, v, NULL, 0, argc, argv);
    if (rc < 0)
        puts("millrace " MILLRACE_VERSION);
    return rc < 0 ? CLI_DONE : rc;
}
