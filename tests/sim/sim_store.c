/* SPDX-License-Identifier: Apache-2.0 */
/* An object store in shared memory that loses answers, and does late what was given up. */
#include "fuse/store/impl.h"
#include "tests/sim/world.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int file_of(const char *path)
{
    return path[0] == 'f' && path[1] >= '0' && path[1] < '0' + FILES && !path[2] ? path[1] - '0'
                                                                                 : -1;
}

static void stat_of(const struct object *o, struct store_stat *st)
{
    *st = (struct store_stat){.size = o->c.len, .mtime_ns = (int64_t)o->serial * NS_PER_S};
    snprintf(st->version, sizeof st->version, "v%" PRIu64, o->serial);
}

static void object_set(unsigned file, const struct content *c, bool others)
{
    struct object *o = &world->objects[file];
    o->c = *c;
    o->serial = ++world->serial;
    o->at = world->now;
    o->others = others;
    o->moved = false;
}

/* -- others ---------------------------------------------------------------------------------- */

void others_put(unsigned file)
{
    static struct content c;
    memset(&c, 0, sizeof c);
    content_fill(&c, sim_random(&world->random), 0, 1 + (uint32_t)world_random(CONTENT_MAX));
    if (world->alone)
        return;
    truth_add(file, OTHERS, &c);
    object_set(file, &c, true);
}

bool others_have(unsigned file)
{
    return world->objects[file].others && world->objects[file].c.there;
}

void others_remove(unsigned file)
{
    static const struct content none;
    if (!world->objects[file].c.there || world->alone)
        return;
    truth_add(file, OTHERS, &none);
    object_set(file, &none, true);
}

/* -- this node ------------------------------------------------------------------------------- */

static int refused(struct err *e)
{
    world->refused_ns = world->clock_ns;
    return store_err(e, ERR_RETRY, ETIMEDOUT, REASON_UNREACHABLE, "memory", ": no answer");
}

/* Does the call happen, and is it told? */
static enum answer answer_now(bool put)
{
    enum answer a = world->outage ? ANSWER_REFUSED : world->next_answer;
    world->next_answer = ANSWER_FINE;
    return world->alone && (a == ANSWER_LATE || (a == ANSWER_LOST && !put)) ? ANSWER_REFUSED : a;
}

static bool expected(const struct object *o, const char *expect)
{
    struct store_stat st;
    if (!expect)
        return true;
    if (!*expect || !o->c.there)
        return !*expect && !o->c.there;
    stat_of(o, &st);
    return strcmp(st.version, expect) == 0;
}

static void put_now(unsigned file, const struct content *c)
{
    const struct object *o = &world->objects[file];
    if (o->others && o->c.there && o->at > world->files[file].based_at
        && content_hash(&o->c) != content_hash(c))
        world_wrong("f%u: what another node wrote (event %" PRIu64
                    ") was written over by what began before (event %" PRIu64 ")",
            file, o->at, world->files[file].based_at);
    truth_put(file, &o->c, c);
    object_set(file, c, false);
    truth_stored(file, c);
}

void late_happens(void)
{
    struct late *l = &world->late;
    if (!l->waits)
        return;
    l->waits = false;
    bool does = expected(&world->objects[l->file], l->conditional ? l->expect : NULL);
    world_say("f%u: a put that was given up comes: %s", l->file, does ? "it is done" : "refused");
    if (!does)
        return;
    truth_add(l->file, BEGUN, &l->c); /* also after its name was removed here: nobody can tell */
    put_now(l->file, &l->c);
}

static int sim_put(
    void *impl, const char *path, const struct store_put *put, struct store_stat *st, struct err *e)
{
    static struct content c;
    (void)impl;
    int file = file_of(path);
    if (file < 0 || put->len > CONTENT_MAX)
        return err_set(e, ERR_INVALID, "%s: not in this world", path);
    if (world->elsewhere)
        world_wrong("f%d: %zu bytes are put into another store than they were written to", file,
            (size_t)put->len);
    memset(&c, 0, sizeof c);
    c.there = true;
    c.len = (uint32_t)put->len;
    if (pread(put->fd, c.bytes, c.len, 0) != (ssize_t)c.len)
        return err_sys(e, EIO, "read what is to be put");
    if (!content_was_ever((unsigned)file, &c))
        world_wrong("f%d: %u bytes are put that nobody ever wrote", file, c.len);
    truth_tried((unsigned)file, &c);
    enum answer a = answer_now(true);
    if (a == ANSWER_REFUSED)
        return refused(e);
    if (a == ANSWER_LATE) {
        world->late = (struct late){
            .waits = true, .file = (unsigned)file, .c = c, .conditional = put->expect != NULL};
        snprintf(
            world->late.expect, sizeof world->late.expect, "%s", put->expect ? put->expect : "");
        return refused(e);
    }
    if (!expected(&world->objects[file], put->expect))
        return store_err(e, ERR_CONFLICT, *put->expect ? ESTALE : EEXIST, REASON_STORE_ERROR, path,
            ": another version is there");
    put_now((unsigned)file, &c);
    world_say("f%d is put%s", file, a == ANSWER_LOST ? ", but the answer is lost" : "");
    if (a == ANSWER_LOST)
        return refused(e);
    stat_of(&world->objects[file], st);
    return 0;
}

static int sim_stat(void *impl, const char *path, struct store_stat *st, struct err *e)
{
    (void)impl;
    world_trace(path, 1);
    if (world->outage)
        return refused(e);
    *st = (struct store_stat){.is_dir = true};
    int file = file_of(path);
    if (!*path)
        return 0;
    if (file < 0 || world->elsewhere || !world->objects[file].c.there)
        return store_err(e, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, path, ": no such object");
    stat_of(&world->objects[file], st);
    return 0;
}

static int sim_list(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e)
{
    (void)impl;
    world_trace(dir, 2);
    if (world->outage)
        return refused(e);
    for (unsigned i = 0; !*dir && !world->elsewhere && i < FILES; i++) {
        char name[3] = {'f', (char)('0' + i), '\0'};
        struct store_entry entry = {.name = name};
        stat_of(&world->objects[i], &entry.st);
        if (world->objects[i].c.there && fn(user, &entry))
            break;
    }
    free(*cursor);
    *cursor = NULL;
    return 0;
}

static int sim_read(void *impl, const char *path, const char *version, uint64_t off, size_t len,
    sink_fn sink, void *user, const atomic_bool *cancel, struct err *e)
{
    (void)impl;
    (void)cancel;
    int file = file_of(path);
    struct store_stat st;
    world_trace(path, off);
    if (sim_stat(NULL, path, &st, e))
        return -1;
    if (*version && strcmp(version, st.version) != 0)
        return store_err(
            e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, path, ": it has another version now");
    if (off + len > st.size)
        return err_set(e, ERR_INVALID, "%s: past its end", path);
    return sink(user, world->objects[file].c.bytes + off, len)
        ? err_sys(e, ECANCELED, "read %s", path)
        : 0;
}

static int sim_remove(void *impl, const char *path, struct err *e)
{
    static const struct content none;
    (void)impl;
    int file = file_of(path);
    enum answer a = answer_now(false);
    if (a == ANSWER_REFUSED || a == ANSWER_LATE)
        return refused(e);
    if (file >= 0)
        object_set((unsigned)file, &none, false);
    return a == ANSWER_LOST ? refused(e) : 0;
}

static int sim_rename(void *impl, const char *from, const char *to, const char *expect,
    struct store_stat *st, struct err *e)
{
    (void)impl;
    int a = file_of(from), b = file_of(to);
    enum answer how = answer_now(false);
    if (how == ANSWER_REFUSED || how == ANSWER_LATE)
        return refused(e);
    if (a < 0 || b < 0 || !world->objects[a].c.there)
        return store_err(e, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, from, ": no such object");
    if (!expected(&world->objects[a], expect))
        return store_err(
            e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, from, ": another version is there");
    static const struct content none;
    object_set((unsigned)b, &world->objects[a].c, false);
    object_set((unsigned)a, &none, false);
    world->objects[b].moved = how == ANSWER_LOST;
    if (how == ANSWER_LOST)
        return refused(e);
    stat_of(&world->objects[b], st);
    return 0;
}

static int sim_fine(void *impl, struct err *e)
{
    (void)impl;
    return world->outage ? refused(e) : 0;
}

static int sim_mkdir(void *impl, const char *path, uint64_t mark, struct err *e)
{
    (void)impl;
    (void)path;
    (void)mark;
    return world->outage ? refused(e) : 0;
}

static int sim_rmdir(void *impl, const char *path, struct err *e)
{
    (void)impl;
    (void)path;
    return world->outage ? refused(e) : 0;
}

static void *sim_open(const struct store_params *p, struct err *e)
{
    (void)p;
    (void)e;
    return world;
}

static void sim_close(void *impl) { (void)impl; }

struct store *sim_store_new(void)
{
    static const struct store_option none = {.name = NULL};
    static struct store_ops ops = {.kind = {"memory", "memory://", &none, STORE_CAP_WRITE, NULL, 0},
        .open = sim_open,
        .close = sim_close,
        .check = sim_fine,
        .stat_path = sim_stat,
        .list = sim_list,
        .list_tree = sim_list,
        .read = sim_read,
        .put = sim_put,
        .remove = sim_remove,
        .mkdir = sim_mkdir,
        .rmdir = sim_rmdir,
        .rename = sim_rename};
    struct conf_mount mount = {.mount_point = (char *)"memory://store"};
    struct err e = ERR_INIT;
    return store_new_of(&ops, &(struct store_conf){.mount = &mount}, &e);
}
