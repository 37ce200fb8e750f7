/* SPDX-License-Identifier: Apache-2.0 */
/* cat, head and tail: what is in a file, on stdout. */
#include "fuse/cli/place.h"

#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINES_FIRST (256u << 10) /* bytes, which are enough for a few lines */
#define BACK_FIRST  (64u << 10)  /* bytes from the end, where the last lines are looked for */
#define BACK_MAX    (64u << 20)  /* at a time */

/* Bytes on their way to stdout; lines and bytes: how many more may go, UINT64_MAX: all. */
struct content {
    uint64_t lines, bytes;
    uint64_t skip_lines; /* before the first that goes */
    bool done;
    int sys; /* why stdout takes no more */
};

static int content_sink(void *user, const void *data, size_t len)
{
    struct content *c = user;
    const char *at = data, *end = at + len;
    while (c->skip_lines && at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        c->skip_lines -= newline != NULL;
        at = newline ? newline + 1 : end;
    }
    const char *stop = at + MIN((uint64_t)(end - at), c->bytes);
    for (const char *p = at; c->lines != UINT64_MAX && c->lines && p < stop;) {
        const char *newline = memchr(p, '\n', (size_t)(stop - p));
        p = newline ? newline + 1 : stop;
        if (newline && --c->lines == 0)
            stop = p;
    }
    if (c->bytes != UINT64_MAX)
        c->bytes -= (uint64_t)(stop - at);
    if (io_write(STDOUT_FILENO, at, (size_t)(stop - at)))
        c->sys = errno;
    c->done = !c->lines || !c->bytes;
    return c->done || c->sys;
}

static int content_send(struct cli_place *p, const struct store_stat *st, struct content *c,
    uint64_t off, struct err *e)
{
    off = MIN(off, st->size);
    size_t first = c->lines == UINT64_MAX ? PLACE_PIECE : LINES_FIRST;
    if (!c->lines || !c->bytes
        || place_read_slowly(
               p, "", st, off, MIN(st->size - off, c->bytes), first, content_sink, c, e)
            == 0)
        return 0;
    if (c->done)
        return 0;
    cli_end_if_closed(c->sys);
    return c->sys ? err_sys(e, c->sys, "write to stdout") : -1;
}

static int content_stat(struct cli_place *p, struct store_stat *st, struct err *e)
{
    struct place_entry entry;
    if (place_stat(p, &entry, e))
        return -1;
    *st = entry.st;
    if (entry.st.is_dir)
        return err_set(e, ERR_INVALID, "%s is a directory; `millrace ls` lists it", p->said);
    return entry.other ? err_set(e, ERR_INVALID, "%s is not a regular file", p->said) : 0;
}

/* -- from the end ---------------------------------------------------------------------------- */

/* Where the last n lines begin in what is at the file's end; false: before it. */
static bool last_lines(const char *text, size_t len, uint64_t n, size_t *at)
{
    if (n == 0) {
        *at = len;
        return true;
    }
    for (size_t i = len; i-- > 0;)
        if (text[i] == '\n' && i + 1 < len && --n == 0) {
            *at = i + 1;
            return true;
        }
    return false;
}

static int tail_lines(struct cli_place *p, const struct store_stat *st, uint64_t n, struct err *e)
{
    for (uint64_t back = MIN(BACK_FIRST, st->size);; back = MIN(back * 4, st->size)) {
        cleanup_free char *text = xmalloc((size_t)back + 1);
        struct sink_memory memory = {text, (size_t)back};
        size_t at = 0;
        if (place_read(p, "", st, st->size - back, back, sink_to_memory, &memory, e))
            return -1;
        bool found = last_lines(text, (size_t)back, n, &at);
        if (found || back == st->size || back >= BACK_MAX) {
            if (!found && back < st->size)
                return err_set(e, ERR_INVALID,
                    "%s: its last %" PRIu64
                    " lines have more than %u MiB: take bytes (--bytes), or a copy of it",
                    p->said, n, BACK_MAX >> 20);
            if (io_write(STDOUT_FILENO, text + at, (size_t)back - at) == 0)
                return 0;
            int sys = errno;
            cli_end_if_closed(sys);
            return err_sys(e, sys, "write to stdout");
        }
    }
}

/* -- the verbs ------------------------------------------------------------------------------- */

/* "10", or "+5": from there on. */
static int parse_number(const char *flag, const char *text, bool plus_ok, bool *plus, uint64_t *n)
{
    char *end;
    *plus = *text == '+';
    const char *digits = text + *plus;
    errno = 0;
    *n = strtoull(digits, &end, 10);
    if (*digits < '0' || *digits > '9' || *end || errno || (*plus && !plus_ok))
        return cli_misuse("%s: '%s' is not a number%s", flag, text,
            plus_ok ? "; +5 is all from the fifth on" : "");
    return -1;
}

struct content_flags {
    const char *lines, *bytes;
    bool plus, by_bytes;
    uint64_t n;
};

static int head_one(struct cli_place *p, const struct content_flags *w, struct err *e)
{
    struct store_stat st;
    struct content c = {
        .lines = w->by_bytes ? UINT64_MAX : w->n, .bytes = w->by_bytes ? w->n : UINT64_MAX};
    return content_stat(p, &st, e) || content_send(p, &st, &c, 0, e) ? -1 : 0;
}

static int tail_one(struct cli_place *p, const struct content_flags *w, struct err *e)
{
    struct store_stat st;
    struct content c = {.lines = UINT64_MAX, .bytes = UINT64_MAX};
    if (content_stat(p, &st, e))
        return -1;
    uint64_t first = w->n ? w->n - 1 : 0; /* "+1" is all of it */
    if (w->by_bytes)
        return content_send(p, &st, &c, w->plus ? first : st.size - MIN(w->n, st.size), e);
    if (!w->plus)
        return tail_lines(p, &st, w->n, e);
    c.skip_lines = first;
    return content_send(p, &st, &c, 0, e);
}

static int cat_one(struct cli_place *p, const struct content_flags *w, struct err *e)
{
    struct store_stat st;
    struct content c = {.lines = UINT64_MAX, .bytes = UINT64_MAX};
    (void)w;
    return content_stat(p, &st, e) || content_send(p, &st, &c, 0, e) ? -1 : 0;
}

static int content_each(const struct args *a, const struct content_flags *w, bool headings,
    int (*one)(struct cli_place *p, const struct content_flags *w, struct err *e))
{
    int rc = CLI_DONE;
    for (int i = 0; i < a->npos; i++) {
        struct err e = ERR_INIT;
        cleanup_place struct cli_place p = {0};
        if (headings && a->npos > 1)
            printf("%s==> %s <==\n", i ? "\n" : "", a->pos[i]);
        fflush(stdout);
        if (place_open(&p, a, a->pos[i], true, &e) || one(&p, w, &e))
            rc = cli_failed(&e);
    }
    return rc;
}

int verb_cat(const struct verb *v, int argc, char **argv)
{
    cleanup_args struct args a;
    int rc = args_parse(&a, v, NULL, 0, argc, argv);
    return rc >= 0 ? rc : content_each(&a, NULL, false, cat_one);
}

static int content_parts(const struct verb *v, int argc, char **argv, bool tail)
{
    struct content_flags w = {0};
    const struct opt table[] = {
        {"lines", OPT_STRING, &w.lines, "N",
            tail ? "how many lines; +N: all from the Nth on; 10 if nothing is said (-n)"
                 : "how many lines; 10 if nothing is said (-n)"},
        {"bytes", OPT_STRING, &w.bytes, "N",
            tail ? "how many bytes; +N: all from the Nth on (-c)" : "how many bytes (-c)"},
    };
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    if (w.lines && w.bytes)
        return cli_misuse("%s: give --lines or --bytes, not both", v->name);
    w.by_bytes = w.bytes;
    rc = parse_number(w.bytes ? "--bytes" : "--lines",
        w.bytes       ? w.bytes
            : w.lines ? w.lines
                      : "10",
        tail, &w.plus, &w.n);
    return rc >= 0 ? rc : content_each(&a, &w, true, tail ? tail_one : head_one);
}

int verb_head(const struct verb *v, int argc, char **argv)
{
    return content_parts(v, argc, argv, false);
}

int verb_tail(const struct verb *v, int argc, char **argv)
{
    return content_parts(v, argc, argv, true);
}
