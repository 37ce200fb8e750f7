/* SPDX-License-Identifier: Apache-2.0 */
/* What --help prints: text for a terminal, unless another format is set. */
#include "fuse/cli/cli.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH 100

static page_fn format; /* the CLI is one thread */
static FILE *format_out;

void page_format(page_fn fn, FILE *out)
{
    format = fn;
    format_out = out;
}

char *page_usage(const struct verb *v, size_t n)
{
    return xasprintf(
        "%s %s%s%s%s", cli_name(), v->name, n > 1 ? " [flags]" : "", *v->args ? " " : "", v->args);
}

char *page_secrets(const struct store_kind *kind)
{
    struct buf b = BUF_INIT(1024);
    for (const struct store_option *o = kind->options; o->name; o++)
        if (o->kind == STORE_OPTION_SECRET && o->env[0])
            buf_addf(&b, "%s%s", b.len ? ", " : "", o->env[0]);
    return buf_take(&b);
}

/* Lines of at most WIDTH columns; caller frees. */
static char *wrap_text(const char *text)
{
    struct buf b = BUF_INIT(64 << 10);
    size_t column = 0;
    for (const char *p = text; *p;) {
        if (*p == '\n') {
            buf_addc(&b, *p++);
            column = 0;
            continue;
        }
        size_t n = strcspn(p, " \n");
        if (column && column + 1 + n > WIDTH) {
            buf_addc(&b, '\n');
            column = 0;
        }
        buf_addf(&b, "%s%.*s", column ? " " : "", (int)n, p);
        column += n + (column ? 1 : 0);
        p += n;
        p += strspn(p, " ");
    }
    return buf_take(&b);
}

static void print_text(FILE *out, const struct verb *v, const struct opt *table, size_t n)
{
    cleanup_free char *words = cli_words(v->about), *usage = page_usage(v, n),
                      *about = wrap_text(words), *text = opt_help(table, n, usage, about);
    fputs(text, out);
    if (v->store)
        fprintf(out,
            "\nThe options of stores, and where their secrets come from: %s help options\n",
            cli_name());
}

void page_print(const struct verb *v, const struct opt *table, size_t n)
{
    (format ? format : print_text)(format ? format_out : stdout, v, table, n);
}
