/* SPDX-License-Identifier: Apache-2.0 */
/* `millrace help options`: what stores take, from their tables; as text, and as
 * docs/reference/options.md. */
#include "fuse/cli/cli.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"

#include <stdlib.h>

#define SECRETS_APART                                                                  \
    "Secrets are never given on a command line: they come from the environment (%s)\n" \
    "or from files in --secrets-dir that are named like the options.\n"

void options_text(FILE *out)
{
    const struct store_kind *k;
    fputs(
        "Options are given as --option NAME=VALUE, of a Dataset in spec.mounts[].options.\n", out);
    for (size_t i = 0; (k = store_kind_at(i)); i++) {
        const struct store_option *o = k->options;
        fprintf(out, "\noptions of %s%s\n", k->url_help, o->name ? ":" : ": none");
        for (; o->name; o++)
            fprintf(out, "  %-28s %s%s%s%s\n", o->name, o->help, o->env[0] ? " (environment: " : "",
                o->env[0] ? o->env[0] : "", o->env[0] ? ")" : "");
        cleanup_free char *secrets = page_secrets(k);
        if (*secrets)
            fprintf(out, "\n" SECRETS_APART, secrets);
    }
}

/* Names in backquotes with commas between, up to NULL or n of them. */
static void put_names(FILE *out, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n && names[i]; i++)
        fprintf(out, "%s`%s`", i ? ", " : "", names[i]);
}

static void put_options(FILE *out, const struct store_kind *k)
{
    fputs("\n| option | | other names | environment |\n|---|---|---|---|\n", out);
    for (const struct store_option *o = k->options; o->name; o++) {
        fprintf(out, "| `%s` | ", o->name);
        markdown_cell(out, o->help);
        fputs(" | ", out);
        put_names(out, o->aliases, ARRAY_LEN(o->aliases));
        fputs(" | ", out);
        put_names(out, o->env, ARRAY_LEN(o->env));
        fputs(" |\n", out);
    }
}

/* A column for each option that a Secret's keys give by spelling. */
static void put_spellings(FILE *out, const struct store_kind *k)
{
    fputs("\n### Keys of a Secret\n\n"
          "`secretRef: {name: …}` takes the whole Secret. Its keys may be spelled in any of these "
          "ways; the first complete pair of\naccess key and secret key wins. Halves of different "
          "spellings go together only where there is one of each.\n`options` and `encryptOptions` "
          "win over the Secret. Other options are read from it by their name, other names or\n"
          "environment. Keys that mean nothing here are ignored.\n\n| spelling of |",
        out);
    for (const struct store_option *o = k->options; o->name; o++)
        if (o->secret_keys)
            fprintf(out, " %s |", o->help);
    fputs("\n|---|", out);
    for (const struct store_option *o = k->options; o->name; o++)
        if (o->secret_keys)
            fputs("---|", out);
    for (size_t i = 0; i < k->nspellings; i++) {
        fprintf(out, "\n| %s%s |", k->spellings[i].whose,
            k->spellings[i].together ? " (only both together)" : "");
        for (const struct store_option *o = k->options; o->name; o++)
            if (o->secret_keys && o->secret_keys[i])
                fprintf(out, " `%s` |", o->secret_keys[i]);
            else if (o->secret_keys)
                fputs(" |", out);
    }
    fputs("\n", out);
}

void options_markdown(FILE *out)
{
    const struct store_kind *k;
    fputs(
        "<!-- Made by `millrace help options --markdown`. -->\n# Options of stores\n\n"
        "Of a Dataset in `spec.mounts[].options` (strings: put `\"true\"` and numbers in quotes), "
        "single keys of Secrets in\n`spec.mounts[].encryptOptions`; on a command line as `--option "
        "NAME=VALUE`. Secrets are never given on a command line:\nthere they come from the "
        "environment or from files in `--secrets-dir` that are named like the options.\n"
        "A `pvc://` mount is a directory: it takes the options of `file://`.\n",
        out);
    for (size_t i = 0; (k = store_kind_at(i)); i++) {
        fprintf(out, "\n## %s\n", k->url_help);
        put_options(out, k);
        if (k->nspellings)
            put_spellings(out, k);
    }
}
