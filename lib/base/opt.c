/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/opt.h"

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Go's notation; a bare number: seconds; -1 if neither. */
static int parse_duration(const char *text, int64_t *ns)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"h", 3600e9}, {"m", 60e9}, {"s", 1e9}};
    double total = 0;
    if (!*text)
        return -1;
    while (*text) {
        if (!strchr("0123456789.", *text))
            return -1;
        char *end;
        double v = strtod(text, &end);
        size_t i = 0, len = 0;
        for (; i < ARRAY_LEN(units); i++)
            if (strncmp(end, units[i].unit, len = strlen(units[i].unit)) == 0)
                break;
        if (i == ARRAY_LEN(units)) {
            if (*end || total > 0)
                return -1;
            total = v * 1e9;
            break;
        }
        total += v * units[i].factor;
        text = end + len;
    }
    if (!(total >= 0 && total < 9e18))
        return -1;
    *ns = (int64_t)total;
    return 0;
}

/* As quantities are written, and as human_bytes() prints them: "80.00MiB", "512B". */
static int parse_bytes(const char *text, int64_t *bytes)
{
    size_t n = strlen(text);
    bool printed = n > 1 && text[n - 1] == 'B' && text[n - 2] != 'm';
    cleanup_free char *bare = xstrndup(text, printed ? n - 1 : n);
    return quantity_parse(bare, bytes);
}

/* Is text one of the words of "a|b|c"? */
static bool opt_has_word(const char *words, const char *text)
{
    size_t len = strlen(text);
    for (const char *word = words;; word++) {
        size_t n = strcspn(word, "|");
        if (n == len && strncmp(word, text, n) == 0)
            return true;
        word += n;
        if (!*word)
            return false;
    }
}

static int set(const struct opt *o, const char *text, struct err *e)
{
    char *end;
    switch (o->type) {
    case OPT_STRING:
        if (o->arg && strchr(o->arg, '|') && !opt_has_word(o->arg, text))
            return err_set(e, ERR_INVALID, "--%s: '%s' is none of %s", o->name, text, o->arg);
        *(const char **)o->value = text;
        return 0;
    case OPT_INT:
        errno = 0;
        *(int64_t *)o->value = strtoll(text, &end, 10);
        if (!*text || *end || errno)
            return err_set(e, ERR_INVALID, "--%s: '%s' is not a whole number", o->name, text);
        return 0;
    case OPT_BYTES:
        if (parse_bytes(text, o->value))
            return err_set(e, ERR_INVALID,
                "--%s: '%s' is not a size; write for example 512Mi or 10Gi", o->name, text);
        return 0;
    case OPT_SECONDS:
        if (parse_duration(text, o->value))
            return err_set(e, ERR_INVALID,
                "--%s: '%s' is not a duration; write for example 30s or 1m30s", o->name, text);
        return 0;
    case OPT_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return err_set(e, ERR_INVALID, "--%s: '%s' is neither true nor false", o->name, text);
        *(bool *)o->value = text[0] == 't';
        return 0;
    }
    return err_set(e, ERR_FATAL, "--%s has an unknown type", o->name);
}

int opt_parse(
    const struct opt *table, size_t n, int argc, char **argv, int *first_positional, struct err *e)
{
    int at = 1;
    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        const char *flag = argv[at] + 2;
        if (!*flag) {
            at++;
            break;
        }
        size_t len = strcspn(flag, "=");
        size_t i = 0;
        while (i < n && (strlen(table[i].name) != len || strncmp(table[i].name, flag, len) != 0))
            i++;
        if (i == n)
            return err_set(
                e, ERR_INVALID, "unknown flag --%.*s; --help lists the flags", (int)len, flag);
        const char *value = flag[len] ? flag + len + 1 : NULL;
        if (!value && table[i].type == OPT_BOOL)
            value = "true";
        if (!value && at + 1 >= argc)
            return err_set(e, ERR_INVALID, "--%s needs a value: --%s %s", table[i].name,
                table[i].name, table[i].arg);
        if (!value)
            value = argv[++at];
        if (set(&table[i], value, e))
            return -1;
    }
    *first_positional = at;
    return 0;
}

void opt_add_default(struct buf *b, const struct opt *o)
{
    char text[HUMAN_BYTES_LEN];
    switch (o->type) {
    case OPT_STRING:
        if (*(const char **)o->value && **(const char **)o->value)
            buf_addf(b, " (default %s)", *(const char **)o->value);
        return;
    case OPT_INT:
        buf_addf(b, " (default %" PRId64 ")", *(int64_t *)o->value);
        return;
    case OPT_BYTES:
        buf_addf(b, " (default %s)", human_bytes((uint64_t) * (int64_t *)o->value, text));
        return;
    case OPT_SECONDS:
        if (*(int64_t *)o->value)
            buf_addf(b, " (default %gs)", (double)*(int64_t *)o->value / 1e9);
        return;
    case OPT_BOOL:
        if (*(bool *)o->value)
            buf_adds(b, " (default true)");
        return;
    }
}

char *opt_help(const struct opt *table, size_t n, const char *usage, const char *about)
{
    struct buf b = BUF_INIT(1 << 20);
    buf_addf(&b, "usage: %s\n\n%s\n\nflags:\n", usage, about);
    for (size_t i = 0; i < n; i++) {
        cleanup_free char *left = xasprintf(
            "--%s%s%s", table[i].name, table[i].arg ? " " : "", table[i].arg ? table[i].arg : "");
        buf_addf(&b, "  %-28s %s", left, table[i].help);
        opt_add_default(&b, &table[i]);
        buf_addc(&b, '\n');
    }
    return buf_take(&b);
}
