/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts for shells. The placeholder of an argument says what is completed there: DIR,
 * FILE or PATH; "VERB" a verb; one in lower case with "|" in it, one of these words. */
#include "fuse/cli/cli.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum value { VALUE_ANY, VALUE_DIR, VALUE_FILE, VALUE_WORDS };

/* *words: for VALUE_WORDS, with blanks between; caller frees */
static enum value value_of(const char *arg, char **words)
{
    struct buf b = BUF_INIT(1024);
    bool lower = false;
    for (const char *p = arg; *p; p++)
        lower |= islower((unsigned char)*p) != 0;
    bool is_verb = strcmp(arg, "[VERB|options]") == 0,
         choice = !is_verb && lower && strchr(arg, '|');
    for (const char *p = arg; choice && *p; p++)
        buf_addc(&b, *p == '|' ? ' ' : *p);
    for (const struct verb *v = verbs; is_verb && v->name; v++)
        buf_addf(&b, "%s ", v->name);
    if (is_verb)
        buf_adds(&b, "options");
    *words = buf_take(&b);
    if (choice || is_verb)
        return VALUE_WORDS;
    if (strcmp(arg, "DIR") == 0)
        return VALUE_DIR;
    return strstr(arg, "FILE") || strstr(arg, "PATH") || strstr(arg, "DIR") || strstr(arg, "SRC")
        ? VALUE_FILE
        : VALUE_ANY;
}

/* Text in single quotes, of which not is the only other character that has to be escaped. */
static void put_quoted(FILE *out, const char *text, const char * not )
{
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\'", out);
        else if (strchr(not, *text))
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('\'', out);
}

/* -- bash ------------------------------------------------------------------------------------ */

static void bash_begin(FILE *out)
{
    fputs(
        "# Completion of millrace in bash; made by `millrace completion bash`.\n"
        "_millrace()\n{\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]} words='' kind=files\n"
        "    COMPREPLY=()\n"
        "    [ \"$cur\" != '=' ] || cur=\n"
        "    [ \"$flag\" != '=' ] || flag=${COMP_WORDS[COMP_CWORD-2]}\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='",
        out);
    for (const struct verb *v = verbs; v->name; v++)
        fprintf(out, "%s%s", v == verbs ? "" : " ", v->name);
    fputs("' kind=words\n    else\n        case ${COMP_WORDS[1]}:$flag in\n", out);
}

static void bash_value(FILE *out, const char *arg)
{
    cleanup_free char *words = NULL;
    switch (value_of(arg, &words)) {
    case VALUE_WORDS:
        fprintf(out, " words='%s' kind=words", words);
        return;
    case VALUE_DIR:
        fputs(" kind=dirs", out);
        return;
    case VALUE_FILE:
        fputs(" kind=files", out);
        return;
    case VALUE_ANY:
        fputs(" kind=any", out);
        return;
    }
}

static void bash_page(FILE *out, const struct verb *v, const struct opt *table, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (table[i].type == OPT_BOOL)
            continue;
        fprintf(out, "        %s:--%s)", v->name, table[i].name);
        bash_value(out, table[i].arg);
        fputs(" ;;\n", out);
    }
    fprintf(out, "        %s:*)\n            case $cur in\n            -*) words='", v->name);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s--%s", i ? " " : "", table[i].name);
    fputs("' kind=words ;;\n            *)", out);
    bash_value(out, v->args);
    fputs(" ;;\n            esac\n            ;;\n", out);
}

static void bash_end(FILE *out)
{
    fputs("        esac\n    fi\n"
          "    case $kind in\n"
          "    words) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\") ;;\n"
          "    dirs)\n        compopt -o filenames\n"
          "        mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n        ;;\n"
          "    files)\n        compopt -o filenames\n"
          "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n        ;;\n"
          "    esac\n}\ncomplete -F _millrace millrace\n",
        out);
}

/* -- zsh ------------------------------------------------------------------------------------- */

static void zsh_begin(FILE *out)
{
    fputs("#compdef millrace\n# Made by `millrace completion zsh`.\n_millrace()\n{\n"
          "    local -a verbs\n    verbs=(\n",
        out);
    for (const struct verb *v = verbs; v->name; v++) {
        cleanup_free char *row = xasprintf("%s:%s", v->name, v->brief);
        fputs("        ", out);
        put_quoted(out, row, "");
        fputc('\n', out);
    }
    fputs("    )\n    if (( CURRENT == 2 )); then\n        _describe verb verbs\n        return\n"
          "    fi\n    local verb=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
          "    case $verb in\n",
        out);
}

/* ":DIR:_directories" */
static void zsh_value(struct buf *b, const char *arg)
{
    cleanup_free char *words = NULL;
    enum value value = value_of(arg, &words);
    buf_adds(b, ":");
    for (const char *p = arg; *p; p++)
        buf_addf(b, *p == ':' ? "\\%c" : "%c", *p);
    if (value == VALUE_WORDS)
        buf_addf(b, ":(%s)", words);
    else
        buf_adds(b, value == VALUE_DIR ? ":_directories" : value == VALUE_FILE ? ":_files" : ": ");
}

static void zsh_page(FILE *out, const struct verb *v, const struct opt *table, size_t n)
{
    fprintf(out, "    %s)\n        _arguments", v->name);
    for (size_t i = 0; i < n; i++) {
        cleanup_buf struct buf b = BUF_INIT(4096);
        bool repeats = strcmp(table[i].name, "option") == 0;
        buf_addf(&b, "%s--%s%s[", repeats ? "*" : "", table[i].name,
            table[i].type == OPT_BOOL ? "" : "=");
        for (const char *p = table[i].help; *p; p++)
            buf_addf(&b, strchr("[]\\", *p) ? "\\%c" : "%c", *p);
        buf_addc(&b, ']');
        if (table[i].type != OPT_BOOL)
            zsh_value(&b, table[i].arg);
        fputs(" \\\n            ", out);
        put_quoted(out, buf_str(&b), "");
    }
    if (*v->args) {
        cleanup_buf struct buf b = BUF_INIT(4096);
        buf_addc(&b, '*');
        zsh_value(&b, v->args);
        fputs(" \\\n            ", out);
        put_quoted(out, buf_str(&b), "");
    }
    fputs("\n        ;;\n", out);
}

static void zsh_end(FILE *out)
{
    fputs("    esac\n}\n"
          "if [ \"$funcstack[1]\" = _millrace ]; then\n    _millrace \"$@\"\n"
          "else\n    compdef _millrace millrace\nfi\n",
        out);
}

/* -- fish ------------------------------------------------------------------------------------ */

static void fish_begin(FILE *out)
{
    fputs("# Completion of millrace in fish; made by `millrace completion fish`.\n", out);
    for (const struct verb *v = verbs; v->name; v++) {
        fprintf(out, "complete -c millrace -f -n __fish_use_subcommand -a %s -d ", v->name);
        put_quoted(out, v->brief, "\\");
        fputc('\n', out);
    }
}

static void fish_value(FILE *out, const char *arg)
{
    cleanup_free char *words = NULL;
    switch (value_of(arg, &words)) {
    case VALUE_WORDS:
        fprintf(out, " -x -a '%s'", words);
        return;
    case VALUE_DIR:
        fputs(" -x -a '(__fish_complete_directories (commandline -ct))'", out);
        return;
    case VALUE_FILE:
        fputs(" -r -F", out);
        return;
    case VALUE_ANY:
        fputs(" -x", out);
        return;
    }
}

static void fish_page(FILE *out, const struct verb *v, const struct opt *table, size_t n)
{
    cleanup_free char *words = NULL;
    enum value value = value_of(v->args, &words);
    cleanup_free char *row = xasprintf(
        "complete -c millrace -n '__fish_seen_subcommand_from %s'", v->name);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "%s -l %s", row, table[i].name);
        if (table[i].type != OPT_BOOL)
            fish_value(out, table[i].arg);
        fputs(" -d ", out);
        put_quoted(out, table[i].help, "\\");
        fputc('\n', out);
    }
    if (value == VALUE_WORDS)
        fprintf(out, "%s -f -a '%s'\n", row, words);
    else if (!*v->args)
        fprintf(out, "%s -f\n", row);
}

static void fish_end(FILE *out) { (void)out; }

const struct completion completions[] = {
    {"bash", bash_begin, bash_page, bash_end},
    {"zsh", zsh_begin, zsh_page, zsh_end},
    {"fish", fish_begin, fish_page, fish_end},
    {0},
};
