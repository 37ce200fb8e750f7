/* SPDX-License-Identifier: Apache-2.0 */
/* du, count and checksum: of files and of all that is below directories. */
#include "fuse/cli/cached.h"
#include "fuse/cli/place.h"
#include "fuse/cli/progress.h"
#include "fuse/cli/shown.h"
#include "fuse/store/digest.h"

#include "lib/base/file.h"
#include "lib/base/human.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- du and count ---------------------------------------------------------------------------- */

struct sum {
    struct cli_place *at;
    bool ask; /* how much of it is cached */
    struct cached_ask cache;
    struct progress *progress;
    struct map *dirs; /* those seen, of a store: by the files in them */
    uint64_t files, ndirs, bytes, cached, unsaved;
    bool cached_known;
};

static void sum_dirs_above(struct sum *s, const char *name)
{
    cleanup_free char *dir = xstrdup(name);
    for (char *slash; (slash = strrchr(dir, '/'));) {
        *slash = '\0';
        if (map_get(s->dirs, dir))
            return;
        map_put(s->dirs, dir, s);
        s->ndirs++;
    }
}

static void sum_file(struct sum *s, const struct place_entry *entry, const char *path)
{
    struct cached c = {0};
    s->files++;
    s->bytes += entry->st.size;
    if (s->ask) {
        cached_ask(&s->cache, path, &c);
        s->cached += c.bytes;
        s->cached_known |= c.known;
        s->unsaved += c.known && !c.persisted;
    }
    progress_add(s->progress, 1, entry->st.size);
}

static int sum_found(void *user, const struct place_entry *entry)
{
    struct sum *s = user;
    if (entry->st.is_dir) {
        s->ndirs++;
        return 0;
    }
    if (entry->other)
        return 0;
    if (s->at->url)
        sum_dirs_above(s, entry->name);
    cleanup_free char *path = path_join(s->at->said, entry->name);
    sum_file(s, entry, path);
    return 0;
}

static void sum_unreadable(void *user, const struct err *e)
{
    struct sum *s = user;
    progress_failed(s->progress, e);
}

static int sum_place(struct sum *s, struct cli_place *p, struct err *e)
{
    struct place_entry entry;
    s->at = p;
    s->ask = s->ask && p->point;
    if (place_stat(p, &entry, e))
        return -1;
    if (!entry.st.is_dir) {
        sum_file(s, &entry, p->said);
        return 0;
    }
    s->ndirs++;
    return place_walk(p, sum_found, sum_unreadable, s, e);
}

static json_t *sum_json(const struct sum *s, const char *said)
{
    json_t *o = json_pack("{s:o, s:I, s:I, s:I}", "path", shown_text(said), "files",
        (json_int_t)s->files, "directories", (json_int_t)s->ndirs, "bytes", (json_int_t)s->bytes);
    if (s->cached_known) {
        json_object_set_new(o, "cachedBytes", json_integer((json_int_t)s->cached));
        json_object_set_new(o, "notPersisted", json_integer((json_int_t)s->unsaved));
    }
    return o;
}

static void print_du(const struct sum *s, const char *said)
{
    char size[HUMAN_BYTES_LEN], cached[HUMAN_BYTES_LEN];
    printf("%10s ", human_bytes(s->bytes, size));
    if (s->cached_known)
        printf("%10s cached  ", human_bytes(s->cached, cached));
    if (s->unsaved)
        printf("%" PRIu64 " files NOT_PERSISTED  ", s->unsaved);
    cli_put_name(said);
    puts("");
}

static void print_counted(const struct sum *s, const char *said)
{
    printf("%12" PRIu64 " files %12" PRIu64 " directories %16" PRIu64 " bytes  ", s->files,
        s->ndirs, s->bytes);
    cli_put_name(said);
    puts("");
}

static int sum_each(const struct verb *v, int argc, char **argv, bool ask,
    void (*print)(const struct sum *s, const char *said))
{
    bool json = false;
    const struct opt table[] = {SHOWN_FLAG(json)};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct shown out;
    struct progress progress;
    shown_begin(&out, json, "paths");
    progress_start(&progress, "counted");
    for (int i = 0; i < a.npos; i++) {
        struct err e = ERR_INIT;
        cleanup_place struct cli_place p = {0};
        struct sum s = {
            .ask = ask, .cache = CACHED_ASK_INIT, .progress = &progress, .dirs = map_new(NULL)};
        bool good = place_open(&p, &a, a.pos[i], true, &e) == 0 && sum_place(&s, &p, &e) == 0;
        progress_hide(&progress);
        if (!good)
            progress_failed(&progress, &e);
        else if (json)
            shown_add(&out, sum_json(&s, a.pos[i]));
        else
            print(&s, a.pos[i]);
        cached_ask_end(&s.cache);
        map_free(s.dirs);
    }
    shown_end(&out);
    return progress_end(&progress) ? CLI_FAILED : CLI_DONE;
}

int verb_du(const struct verb *v, int argc, char **argv)
{
    return sum_each(v, argc, argv, true, print_du);
}

int verb_count(const struct verb *v, int argc, char **argv)
{
    return sum_each(v, argc, argv, false, print_counted);
}

/* -- checksum -------------------------------------------------------------------------------- */

struct checksum {
    struct cli_place *at;
    const char *kind;
    struct shown *out;
    struct progress *progress;
    struct digest *digest; /* of the file that is read */
};

static int checksum_sink(void *user, const void *data, size_t len)
{
    struct checksum *c = user;
    progress_add(c->progress, 0, len);
    return digest_sink(c->digest, data, len);
}

/* name: in the place; path: as it is printed */
static void checksum_file(
    struct checksum *c, const struct place_entry *entry, const char *name, const char *path)
{
    struct err e = ERR_INIT;
    char text[DIGEST_TEXT];
    if (entry->other)
        return;
    c->digest = digest_new(c->kind);
    int rc = place_read_slowly(
        c->at, name, &entry->st, 0, entry->st.size, PLACE_PIECE, checksum_sink, c, &e);
    digest_end(c->digest, text);
    if (rc) {
        progress_failed(c->progress, strstr(e.msg, path) ? &e : (err_wrap(&e, "%s", path), &e));
        return;
    }
    progress_add(c->progress, 1, 0);
    progress_hide(c->progress);
    if (c->out->json) {
        shown_add(c->out,
            json_pack("{s:o, s:s, s:s, s:I}", "path", shown_text(path), "type", c->kind, "sum",
                text, "size", (json_int_t)entry->st.size));
        return;
    }
    printf("%s  ", text);
    cli_put_name(path);
    puts("");
}

static int checksum_found(void *user, const struct place_entry *entry)
{
    struct checksum *c = user;
    if (entry->st.is_dir)
        return 0;
    cleanup_free char *path = path_join(c->at->said, entry->name);
    checksum_file(c, entry, entry->name, path);
    return 0;
}

static void checksum_unreadable(void *user, const struct err *e)
{
    struct checksum *c = user;
    progress_failed(c->progress, e);
}

static int checksum_place(struct checksum *c, struct cli_place *p, bool recursive, struct err *e)
{
    struct place_entry entry;
    c->at = p;
    if (place_stat(p, &entry, e))
        return -1;
    if (entry.st.is_dir && !recursive)
        return err_set(
            e, ERR_INVALID, "%s is a directory; --recursive sums all files in it", p->said);
    if (entry.st.is_dir)
        return place_walk(p, checksum_found, checksum_unreadable, c, e);
    if (entry.other)
        return err_set(e, ERR_INVALID, "%s is not a regular file", p->said);
    checksum_file(c, &entry, "", p->said);
    return 0;
}

int verb_checksum(const struct verb *v, int argc, char **argv)
{
    bool json = false, recursive = false;
    const char *kind = "sha256";
    const struct opt table[] = {
        {"type", OPT_STRING, &kind, DIGEST_KINDS, "which sum"},
        {"recursive", OPT_BOOL, &recursive, NULL, "of all files below directories (-r)"},
        SHOWN_FLAG(json),
    };
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct shown out;
    struct progress progress;
    shown_begin(&out, json, "sums");
    progress_start(&progress, "summed");
    for (int i = 0; i < a.npos; i++) {
        struct err e = ERR_INIT;
        cleanup_place struct cli_place p = {0};
        struct checksum c = {.kind = kind, .out = &out, .progress = &progress};
        if (place_open(&p, &a, a.pos[i], true, &e) || checksum_place(&c, &p, recursive, &e))
            progress_failed(&progress, &e);
    }
    shown_end(&out);
    return progress_end(&progress) ? CLI_FAILED : CLI_DONE;
}
