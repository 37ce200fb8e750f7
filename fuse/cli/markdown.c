/* SPDX-License-Identifier: Apache-2.0 */
/* docs/reference/cli.md. */
#include "fuse/cli/cli.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"

#include <stdlib.h>

/* Of a cell in a table: "|" would end it. */
void markdown_cell(FILE *out, const char *text)
{
    for (; *text; text++)
        fprintf(out, *text == '|' ? "\\%c" : "%c", *text);
}

void markdown_begin(FILE *out)
{
    fputs("<!-- Made by `millrace help --markdown`. -->\n# millrace\n\n"
          "Datasets from object stores and directories, as local files. `millrace VERB [flags] "
          "[arguments]`;\nexit status: 0 done, 1 failed, 2 misuse. Verbs that take a URL also take "
          "the [options of its store](options.md).\n\n| verb | |\n|---|---|\n",
        out);
    for (const struct verb *v = verbs; v->name; v++) {
        fprintf(out, "| [`%s`](#%s) | ", v->name, v->name);
        markdown_cell(out, v->brief);
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
        markdown_cell(out, table[i].arg ? table[i].arg : "");
        fputs("` | ", out);
        markdown_cell(out, buf_str(&help));
        fputs(" |\n", out);
    }
}
