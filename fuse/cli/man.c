/* SPDX-License-Identifier: Apache-2.0 */
/* Manual pages in roff: millrace(1), and millrace-VERB(1) of each verb. */
#include "fuse/cli/cli.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* One character of text; at the beginning of a line "." and "'" would be requests. */
static void put_char(FILE *out, char c, bool line_begins, bool literal)
{
    if (line_begins && (c == '.' || c == '\''))
        fputs("\\&", out);
    if (c == '\\')
        fputs("\\e", out);
    else if (c == '-' && literal)
        fputs("\\-", out);
    else
        fputc(c, out);
}

/* Words that begin with "--" or stand in backquotes are literal, and bold. */
static void put_text(FILE *out, const char *text)
{
    bool code = false, flag = false, begins = true;
    for (const char *p = text; *p; p++) {
        if (flag && !islower((unsigned char)*p) && *p != '-') {
            fputs("\\fR", out);
            flag = false;
        }
        if (*p == '`') {
            code = !code;
            fputs(code ? "\\fB" : "\\fR", out);
        } else if (*p == '\n') {
            fputs(p[1] == '\n' ? "\n.PP\n" : "\n", out);
            p += p[1] == '\n';
        } else {
            if (!code && !flag && p[0] == '-' && p[1] == '-' && (p == text || p[-1] == ' ')) {
                fputs("\\fB", out);
                flag = true;
            }
            put_char(out, *p, begins, code || flag);
        }
        begins = *p == '\n';
    }
    fputs(flag || code ? "\\fR\n" : "\n", out);
}

static void put_literal(FILE *out, const char *text)
{
    for (const char *p = text; *p; p++)
        put_char(out, *p, p == text, true);
}

static void put_head(FILE *out, const char *name, const char *brief)
{
    fputs(".\\\" Made by `millrace help \\-\\-man`.\n.TH ", out);
    for (const char *p = name; *p; p++)
        put_char(out, (char)toupper((unsigned char)*p), false, true);
    fputs(" 1 \"\" \"Millrace " MILLRACE_VERSION "\" \"User Commands\"\n.SH NAME\n", out);
    put_literal(out, name);
    fprintf(out, " \\- %s\n", brief);
}

static void put_flags(FILE *out, const struct opt *table, size_t n)
{
    fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; i < n; i++) {
        cleanup_buf struct buf help = BUF_INIT(4096);
        buf_adds(&help, table[i].help);
        opt_add_default(&help, &table[i]);
        fputs(".TP\n\\fB\\-\\-", out);
        put_literal(out, table[i].name);
        fputs("\\fR", out);
        if (table[i].arg) {
            fputs(" \\fI", out);
            put_literal(out, table[i].arg);
            fputs("\\fR", out);
        }
        fputc('\n', out);
        put_text(out, buf_str(&help));
    }
}

static void put_synopsis(FILE *out, const struct verb *v, size_t n)
{
    fprintf(out, ".SH SYNOPSIS\n\\fBmillrace %s\\fR%s", v->name, n > 1 ? " [\\fIflags\\fR]" : "");
    if (*v->args) {
        fputs(" \\fI", out);
        put_literal(out, v->args);
        fputs("\\fR", out);
    }
    fputc('\n', out);
}

void man_page(FILE *out, const struct verb *v, const struct opt *table, size_t n)
{
    cleanup_free char *name = xasprintf("millrace-%s", v->name);
    put_head(out, name, v->brief);
    put_synopsis(out, v, n);
    fputs(".SH DESCRIPTION\n", out);
    put_text(out, v->about);
    put_flags(out, table, n);
    fputs(".SH EXIT STATUS\n0 done, 1 failed, 2 misuse.\n.SH SEE ALSO\n\\fBmillrace\\fR(1)", out);
    fputs(v->store ? ", which has the options of stores, too.\n" : "\n", out);
}

static void put_stores(FILE *out)
{
    const struct store_kind *k;
    fputs(".SH STORES\n", out);
    for (size_t i = 0; (k = store_kind_at(i)); i++) {
        fputs(".SS ", out);
        put_literal(out, k->url_help);
        fputc('\n', out);
        for (const struct store_option *o = k->options; o->name; o++) {
            fputs(".TP\n\\fB", out);
            put_literal(out, o->name);
            fputs("\\fR\n", out);
            cleanup_free char *text = o->env[0]
                ? xasprintf("%s (environment: %s)", o->help, o->env[0])
                : xstrdup(o->help);
            put_text(out, text);
        }
    }
    fputs(".PP\nSecrets are never given on a command line: they come from the environment or from "
          "files in\n\\fB\\-\\-secrets\\-dir\\fR that are named like the options.\n",
        out);
}

void man_main_page(FILE *out)
{
    put_head(out, "millrace", "datasets from object stores and directories, as local files");
    fputs(".SH SYNOPSIS\n\\fBmillrace\\fR \\fIverb\\fR [\\fIflags\\fR] [\\fIarguments\\fR]\n"
          ".SH DESCRIPTION\nMounts datasets on a machine without Kubernetes, and looks at stores "
          "and mounts.\n.SH VERBS\n",
        out);
    for (const struct verb *v = verbs; v->name; v++) {
        fprintf(out, ".TP\n\\fBmillrace\\-%s\\fR(1)\n", v->name);
        put_text(out, v->brief);
    }
    put_stores(out);
    fputs(".SH EXIT STATUS\n0 done, 1 failed, 2 misuse.\n", out);
}
