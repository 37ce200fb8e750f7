/* SPDX-License-Identifier: Apache-2.0 */
/* docs/reference/cli.md. */
#include "fuse/cli/cli.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"

#include <stdlib.h>

/* Of a cell in a table: "|" would end it. */
static void put_cell(FILE *out, const char *text)
{
    for (; *text; text++)
        fprintf(out, *text == '|' ? "\\%c" : "%c", *text);
}

void markdown_begin(FILE *out)
{
    fputs("<!-- Made by `millrace help --markdown`. -->\n# millrace\n\n"
          "Datasets from object stores and directories, as local files. `millrace VERB [flags] "
          "[arguments]`;\nexit status: 0 done, 1 failed, 2 misuse. Verbs that take a URL also take "
          "the [options of its store](#stores).\n\n| verb | |\n|---|---|\n",
        out);
    for (const struct verb *v = verbs; v->name; v++) {
        fprintf(out, "| [`%s`](#%s) | ", v->name, v->name);
        put_cell(out, v->brief);
        fputs(" |\n", out);
    }
}

void markdown_page(FILE *out, const struct verb *v, const struct opt *table, size_t n)
{
    cleanup_free char *usage = page_usage(v, n);
    fprintf(out, "\n## %s\n\n    %s\n\n%s\n\n| flag | |\n|---|---|\n", v->name, usage, v->about);
    for (size_t i = 0; i < n; i++) {
        cleanup_buf struct buf help = BUF_INIT(4096);
        buf_adds(&help, table[i].help);
        opt_add_default(&help, &table[i]);
        fprintf(out, "| `--%s%s", table[i].name, table[i].arg ? " " : "");
        put_cell(out, table[i].arg ? table[i].arg : "");
        fputs("` | ", out);
        put_cell(out, buf_str(&help));
        fputs(" |\n", out);
    }
}

void markdown_end(FILE *out)
{
    const struct store_kind *k;
    fputs("\n## Stores\n\nOptions are given as `--option NAME=VALUE`. Secrets are never given on a "
          "command line: they come from\nthe environment or from files in `--secrets-dir` that are "
          "named like the options.\n",
        out);
    for (size_t i = 0; (k = store_kind_at(i)); i++) {
        fprintf(out, "\n### %s\n\n| option | | environment |\n|---|---|---|\n", k->url_help);
        for (const struct store_option *o = k->options; o->name; o++) {
            fprintf(out, "| `%s` | ", o->name);
            put_cell(out, o->help);
            fprintf(out, " |%s%s%s |\n", o->env[0] ? " `" : "", o->env[0] ? o->env[0] : "",
                o->env[0] ? "`" : "");
        }
    }
}
