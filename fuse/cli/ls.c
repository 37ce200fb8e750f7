/* SPDX-License-Identifier: Apache-2.0 */
/* ls: what is in a directory of a store or of a mount. */
#include "fuse/cli/cached.h"
#include "fuse/cli/place.h"
#include "fuse/cli/shown.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct ls {
    bool details, recursive;
    struct shown out;
    struct cached_ask ask;
    const struct cli_place *at;
    bool failed;
    /* entries of one directory of this machine, which come in no order */
    struct place_entry *entries;
    size_t n, cap;
};

static void mode_text(mode_t mode, char out[11])
{
    static const char bits[] = "rwxrwxrwx";
    out[0] = S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : S_ISREG(mode) ? '-' : '?';
    for (int i = 0; i < 9; i++)
        out[i + 1] = mode & (0400u >> i) ? bits[i] : '-';
    out[10] = '\0';
}

/* Caller frees. */
static char *user_name(uid_t uid)
{
    const struct passwd *u = getpwuid(uid);
    return u ? xstrdup(u->pw_name) : xasprintf("%u", (unsigned)uid);
}

static char *group_name(gid_t gid)
{
    const struct group *g = getgrgid(gid);
    return g ? xstrdup(g->gr_name) : xasprintf("%u", (unsigned)gid);
}

/* Of a store: what it lists, it has. */
static const char *ls_state(
    const struct ls *l, const struct place_entry *entry, const struct cached *c)
{
    if (entry->st.is_dir || entry->other)
        return "-";
    return l->at->url || (c->known && c->persisted) ? "PERSISTED"
        : c->known                                  ? "NOT_PERSISTED"
                                                    : "-";
}

static void print_details(
    const struct ls *l, const struct place_entry *entry, const struct cached *c)
{
    char when[CLOCK_RFC3339_LEN] = "-", mode[11];
    if (entry->st.mtime_ns)
        clock_rfc3339(entry->st.mtime_ns, when);
    if (!l->at->url) {
        cleanup_free char *user = user_name(entry->uid), *group = group_name(entry->gid);
        mode_text(entry->mode, mode);
        printf("%s %-8s %-8s ", mode, user, group);
    }
    if (entry->st.is_dir)
        printf("%14s", "-");
    else
        printf("%14" PRIu64, entry->st.size);
    printf("  %-13s  %-20s  ", ls_state(l, entry, c), when);
    if (!l->at->url && c->known)
        printf("%3u%%  ", cached_percent(c));
    else if (!l->at->url)
        printf("%4s  ", "-");
}

static void add_json(
    struct ls *l, const struct place_entry *entry, const struct cached *c, const char *path)
{
    json_t *o = json_pack("{s:o, s:o, s:s, s:o}", "name", shown_text(entry->name), "path",
        shown_text(path), "type",
        entry->st.is_dir   ? "directory"
            : entry->other ? "other"
                           : "file",
        "modified", shown_time(entry->st.mtime_ns));
    if (!entry->st.is_dir)
        json_object_set_new(o, "size", json_integer((json_int_t)entry->st.size));
    if (!entry->st.is_dir && (l->at->url || c->known))
        json_object_set_new(o, "persisted", json_boolean(l->at->url || c->persisted));
    if (c->known) {
        json_object_set_new(o, "cachedBytes", json_integer((json_int_t)c->bytes));
        json_object_set_new(o, "pinned", json_boolean(c->pinned));
    }
    if (entry->st.version[0] && l->at->url)
        json_object_set_new(o, "version", json_string(entry->st.version));
    shown_add(&l->out, o);
}

/* path: of the entry, as one could write it */
static void show_entry(struct ls *l, const struct place_entry *entry, const char *path)
{
    struct cached c = {0};
    cli_end_if_unread();
    if (l->at->point && !entry->st.is_dir && !entry->other && (l->details || l->out.json))
        cached_ask(&l->ask, path, &c);
    if (l->out.json) {
        add_json(l, entry, &c, path);
        return;
    }
    if (l->details)
        print_details(l, entry, &c);
    cli_put_name(entry->name);
    puts(entry->st.is_dir ? "/" : "");
}

static int show_listed(void *user, const struct place_entry *entry)
{
    struct ls *l = user;
    if (l->recursive && entry->st.is_dir)
        return 0;
    cleanup_free char *path = path_join(l->at->said, entry->name);
    show_entry(l, entry, path);
    return 0;
}

static int keep_listed(void *user, const struct place_entry *entry)
{
    struct ls *l = user;
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->entries = xrealloc(l->entries, l->cap * sizeof *l->entries);
    }
    l->entries[l->n] = *entry;
    l->entries[l->n++].name = xstrdup(entry->name);
    return 0;
}

static int ls_by_name(const void *a, const void *b)
{
    const struct place_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void show_kept(struct ls *l)
{
    if (l->n)
        qsort(l->entries, l->n, sizeof *l->entries, ls_by_name);
    for (size_t i = 0; i < l->n; i++) {
        show_listed(l, &l->entries[i]);
        free((char *)l->entries[i].name);
    }
    free(l->entries);
    l->entries = NULL;
    l->n = l->cap = 0;
}

static void ls_failed(void *user, const struct err *e)
{
    struct ls *l = user;
    cli_failed(e);
    l->failed = true;
}

static int ls_place(struct ls *l, struct cli_place *p, bool heading, struct err *e)
{
    struct place_entry entry;
    l->at = p;
    if (place_stat(p, &entry, e))
        return -1;
    cleanup_free char *name = place_name(p->said);
    if (!entry.st.is_dir) {
        entry.name = p->url ? name : p->said;
        show_entry(l, &entry, p->said);
        return 0;
    }
    if (heading && !l->out.json)
        cli_put_name(p->said), puts(":");
    if (l->recursive)
        return place_walk(p, show_listed, ls_failed, l, e);
    if (p->url)
        return place_list(p, show_listed, l, e);
    int rc = place_list(p, keep_listed, l, e);
    show_kept(l);
    return rc;
}

int verb_ls(const struct verb *v, int argc, char **argv)
{
    struct ls l = {.ask = CACHED_ASK_INIT};
    bool json = false;
    const struct opt table[] = {
        {"long", OPT_BOOL, &l.details, NULL,
            "print size, whether the store has it, time and how much is in this node's cache, too (-l)"},
        {"recursive", OPT_BOOL, &l.recursive, NULL,
            "list all files below, not only the direct entries (-r)"},
        SHOWN_FLAG(json),
    };
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    shown_begin(&l.out, json, "entries");
    for (int i = 0; i < a.npos; i++) {
        struct err e = ERR_INIT;
        cleanup_place struct cli_place p = {0};
        if (place_open(&p, &a, a.pos[i], true, &e) || ls_place(&l, &p, a.npos > 1, &e))
            ls_failed(&l, &e);
    }
    shown_end(&l.out);
    cached_ask_end(&l.ask);
    return l.failed ? CLI_FAILED : CLI_DONE;
}
