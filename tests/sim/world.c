/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/world.h"

#include "lib/base/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct world *world;

uint64_t world_random(uint64_t below) { return sim_random(&world->random) % below; }

void world_wrong(const char *format, ...)
{
    va_list ap;
    if (world->wrong[0])
        return;
    va_start(ap, format);
    vsnprintf(world->wrong, sizeof world->wrong, format, ap);
    va_end(ap);
}

static void world_hash(const char *text)
{
    for (; *text; text++)
        world->trace = (world->trace ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
}

void world_say(const char *format, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    world_hash(text);
    if (!world->verbose)
        return;
    printf("%4" PRIu64 " %s\n", world->now, text);
    fflush(stdout);
}

void world_trace(const char *what, uint64_t n)
{
    world_hash(what);
    world->trace = (world->trace ^ n) * UINT64_C(0x9e3779b97f4a7c15);
}

/* -- contents -------------------------------------------------------------------------------- */

uint64_t content_hash(const struct content *c)
{
    uint64_t h = c->there ? UINT64_C(0xcbf29ce484222325) + c->len : 0;
    for (uint32_t i = 0; c->there && i < c->len; i++)
        h = (h ^ c->bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* Bytes that are never zero: those are what a disk makes of itself. */
void content_fill(struct content *c, uint64_t seed, uint32_t off, uint32_t len)
{
    for (uint32_t i = 0; i < len; i += 8) {
        uint64_t word = sim_random(&seed) | UINT64_C(0x0101010101010101);
        memcpy(c->bytes + off + i, &word, len - i < 8 ? len - i : 8);
    }
    c->there = true;
    c->len = off + len > c->len ? off + len : c->len;
}

/* The last truth with that content; -1: none. */
static int truth_find(const struct file_model *f, const struct content *c)
{
    uint64_t hash = content_hash(c);
    for (unsigned i = f->ntruths; i-- > 0;)
        if (f->truths[i].hash == hash)
            return (int)i;
    return -1;
}

void truth_put(unsigned file, const struct content *was, const struct content *c)
{
    const struct file_model *f = &world->files[file];
    int over = truth_find(f, was), put = truth_find(f, c);
    if (over >= 0 && f->truths[over].kind == DONE && f->truths[over].there && put < over)
        world_wrong("f%u: what was acknowledged (event %" PRIu64
                    ") is written over by what was before",
            file, f->truths[over].at);
    truth_add(file, BEGUN, c);
}

void truth_stored(unsigned file, const struct content *c)
{
    struct file_model *f = &world->files[file];
    uint64_t hash = content_hash(c);
    for (unsigned i = 0; i < f->ntruths; i++)
        f->truths[i].kept |= f->truths[i].hash == hash;
}

void truth_tried(unsigned file, const struct content *c)
{
    struct file_model *f = &world->files[file];
    int i = truth_find(f, c);
    if (i >= 0)
        f->truths[i].tried = true;
}

void truth_removed(unsigned file, bool local)
{
    static const struct content none;
    const struct object *o = &world->objects[file];
    truth_add(file, DONE, &none);
    if (local && (o->others || o->moved) && o->c.there)
        truth_add(file, OTHERS, &o->c);
}

/* -- truths ---------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"begun", "promised", "done", "others"};

void truth_add(unsigned file, enum truth_kind kind, const struct content *c)
{
    struct file_model *f = &world->files[file];
    uint64_t hash = content_hash(c);
    if (f->ntruths == TRUTHS) { /* what was acknowledged long ago cannot matter any more */
        memmove(f->truths, f->truths + TRUTHS / 2, sizeof f->truths / 2);
        f->ntruths = TRUTHS / 2;
    }
    f->truths[f->ntruths++] = (struct truth){
        .kind = kind, .there = c->there, .len = c->len, .hash = hash, .at = ++world->now};
    if (!content_was_ever(file, c) && f->nseen < 2 * TRUTHS)
        f->seen[f->nseen++] = hash;
    world_say("f%u %s: %s%u bytes %016" PRIx64, file, kind_names[kind], c->there ? "" : "gone, ",
        c->len, hash);
}

bool content_was_ever(unsigned file, const struct content *c)
{
    const struct file_model *f = &world->files[file];
    uint64_t hash = content_hash(c);
    for (unsigned i = 0; i < f->nseen; i++)
        if (f->seen[i] == hash)
            return true;
    return false;
}

void truths_cut(void)
{
    for (unsigned i = 0; i < FILES; i++) {
        struct file_model *f = &world->files[i];
        uint64_t stored = content_hash(&world->objects[i].c), late = 0;
        unsigned n = 0;
        if (world->late.waits && world->late.file == i)
            late = content_hash(&world->late.c);
        for (unsigned k = f->ntruths, since = 0; k-- > 0; since |= f->truths[k].kind == BEGUN)
            f->truths[k].kept |= f->truths[k].torn |= since; /* nobody has a copy */
        for (unsigned k = 0; k < f->ntruths; k++)
            if (f->truths[k].kind != BEGUN || f->truths[k].tried || f->truths[k].hash == stored
                || f->truths[k].hash == late)
                f->truths[n++] = f->truths[k];
        f->ntruths = n;
    }
}

/* While the store is away a reader sees what this node knew under the name before. */
static void content_renamed(unsigned from, unsigned to)
{
    const struct file_model *a = &world->files[from];
    struct file_model *b = &world->files[to];
    for (unsigned i = 0; i < a->nseen && b->nseen < 2 * TRUTHS; i++)
        b->seen[b->nseen++] = a->seen[i];
}

void truth_moves(unsigned from, unsigned to, const struct content *c)
{
    static const struct content none;
    world->files[to].based_at = world->now;
    if (world->objects[from].c.there) /* it moves first, where c waits for its upload */
        truth_add(to, BEGUN, &world->objects[from].c);
    truth_add(to, BEGUN, c);
    truth_tried(to, c);
    truth_add(from, BEGUN, &none);
    content_renamed(from, to);
}

void truth_moved(unsigned from, unsigned to, const struct content *c, bool waits, bool local)
{
    const struct file_model *f = &world->files[from];
    enum truth_kind kind = waits ? BEGUN : DONE;
    for (unsigned i = 0; i < f->ntruths; i++)
        if (waits && f->truths[i].hash == content_hash(c) && f->truths[i].kind != BEGUN)
            kind = PROMISED;
    truth_add(to, kind, c);
    if (content_hash(&world->objects[to].c) == content_hash(c))
        truth_stored(to, c);
    truth_removed(from, local);
}

/* Since when nothing older may be there. */
static unsigned last_told(const struct file_model *f)
{
    unsigned last = 0;
    for (unsigned i = 0; i < f->ntruths; i++)
        if (f->truths[i].kind == DONE || f->truths[i].kind == OTHERS
            || (world->alone && f->truths[i].kind == PROMISED && !f->truths[i].torn))
            last = i;
    return last;
}

static bool is_kept(const uint64_t *kept, unsigned nkept, uint64_t hash)
{
    for (unsigned i = 0; i < nkept; i++)
        if (kept[i] == hash)
            return true;
    return false;
}

/* A promise is fulfilled by what is there, by what the same users wrote or removed later, or by a
 * copy. */
static void check_promises(unsigned file, unsigned found, const uint64_t *kept, unsigned nkept)
{
    const struct file_model *f = &world->files[file];
    for (unsigned i = 0; i < f->ntruths; i++) {
        if (f->truths[i].kind != PROMISED || f->truths[i].kept || i == found)
            continue;
        bool later = false;
        for (unsigned k = i + 1; k < f->ntruths; k++)
            later |= f->truths[k].kind != OTHERS;
        if (!later && !is_kept(kept, nkept, f->truths[i].hash))
            world_wrong("f%u: what fsync or close promised to keep (event %" PRIu64
                        ") is neither in the store nor kept",
                file, f->truths[i].at);
    }
}

void world_check(const uint64_t *kept, unsigned nkept)
{
    for (unsigned i = 0; i < FILES; i++) {
        const struct file_model *f = &world->files[i];
        uint64_t stored = content_hash(&world->objects[i].c);
        unsigned k = f->ntruths, first = last_told(f);
        while (k > first && f->truths[k - 1].hash != stored)
            k--;
        if (f->ntruths && k == first) {
            world_wrong("f%u: the store has %s of %u bytes %016" PRIx64 ", but %s of event %" PRIu64
                        " was told last",
                i, world->objects[i].c.there ? "an object" : "none", world->objects[i].c.len,
                stored, kind_names[f->truths[first].kind], f->truths[first].at);
            return;
        }
        check_promises(i, k - 1, kept, nkept);
    }
}

bool content_read(const char *path, struct content *c)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    memset(c, 0, sizeof *c);
    ssize_t len = fd < 0 ? -1 : read(fd, c->bytes, CONTENT_MAX);
    c->there = len >= 0;
    c->len = c->there ? (uint32_t)len : 0;
    return c->there;
}

unsigned kept_hashes(const char *stage_dir, uint64_t *out, unsigned most)
{
    static struct content c;
    char path[DISK_PATH + 64];
    unsigned n = 0;
    snprintf(path, sizeof path, "%s/kept", stage_dir);
    DIR *d = opendir(path);
    for (struct dirent *de; d && (de = readdir(d)) && n < most;) {
        char file[sizeof path + 260];
        snprintf(file, sizeof file, "%s/%s", path, de->d_name);
        if (!strchr(de->d_name, '.') && content_read(file, &c))
            out[n++] = content_hash(&c);
    }
    if (d)
        closedir(d);
    return n;
}

const char *name_of(unsigned file)
{
    static const char *const names[FILES] = {"f0", "f1", "f2", "f3"};
    return names[file];
}

/* What users do next. */
void op_pick(void)
{
    struct op *op = &world->op;
    *op = (struct op){.file = (unsigned)world_random(FILES),
        .to = (unsigned)world_random(FILES),
        .truncate = world_random(2),
        .create = world_random(4) != 0,
        .off = (uint32_t)world_random(CONTENT_MAX),
        .len = 1 + (uint32_t)world_random(6000),
        .seed = sim_random(&world->random)};
    const struct file_model *m = &world->files[op->file];
    unsigned what = (unsigned)world_random(10);
    if (m->open)
        op->kind = what < 5 ? OP_WRITE : what < 6 ? OP_FSYNC : what < 9 ? OP_CLOSE : OP_READ;
    else
        op->kind = what < 6                                                ? OP_OPEN
            : what < 8                                                     ? OP_READ
            : what < 9 && op->to != op->file && !world->files[op->to].open ? OP_RENAME
                                                                           : OP_UNLINK;
}
