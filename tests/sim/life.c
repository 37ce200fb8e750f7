/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/life.h"

#include "fuse/cache/cache.h"
#include "fuse/file/commit.h"
#include "fuse/file/create.h"
#include "fuse/file/open.h"
#include "fuse/file/read.h"
#include "fuse/file/recover.h"
#include "fuse/file/remove.h"
#include "fuse/file/rename.h"
#include "fuse/file/stage.h"
#include "fuse/file/upload.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/sim/world.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYNC_NS (60 * NS_PER_S)
#define PIECE   5000u

static struct conf_mount mount = {.mount_point = (char *)"memory://store", .path = (char *)"/"};
static struct conf_rule rule = {(char *)"/", CONF_CACHE_THROUGH};
static struct conf conf = {.mounts = &mount, .nmounts = 1, .rules = &rule, .nrules = 1};
static struct conf_tier tier = {CONF_SSD, INT64_C(64) << 20};
static char stage_dir[DISK_PATH + 32], blocks_dir[DISK_PATH + 32], index_path[DISK_PATH + 32];
static struct store *store;
static struct cache *cache;
static struct inodes *inodes;
static struct tree *tree;
static struct files *files;

static _Noreturn void end_wrong(const char *what, const struct err *e)
{
    world_wrong("%s: %s", what, e->msg);
    _exit(0);
}

/* -- the process ----------------------------------------------------------------------------- */

static int fetch(void *user, const struct cache_key *key, uint64_t off, size_t len,
    struct cache_sink *sink, const atomic_bool *cancel, struct err *e)
{
    (void)user;
    return store_stream(
        store, key->path, key->version, off, len, sink->take, sink->user, cancel, e);
}

static void changed(void *user, uint64_t dir, const char *name)
{
    (void)user, (void)dir, (void)name;
}

/* One life in four: what close and fsync say is not that the store has it. */
static bool is_async(void) { return world->seed % 4 == 3; }

static void begin(void)
{
    struct err e = ERR_INIT;
    bool fresh;
    const char *root = world->disk.root;
    snprintf(stage_dir, sizeof stage_dir, "%s/stage", root);
    snprintf(blocks_dir, sizeof blocks_dir, "%s/blocks", root);
    snprintf(index_path, sizeof index_path, "%s/index", root);
    rule.write = is_async() ? CONF_ASYNC_THROUGH : CONF_CACHE_THROUGH;
    mount.mount_point = (char *)(world->elsewhere ? "memory://other" : "memory://store");
    store = sim_store_new();
    if (file_mkdirs(stage_dir, 0700, &e) || file_mkdirs(blocks_dir, 0700, &e))
        end_wrong("directories", &e);
    struct cache_conf cc = {.dir = blocks_dir,
        .tiers = &tier,
        .ntiers = 1,
        .mounts = &mount,
        .nmounts = 1,
        .fetch_threads = 1,
        .source = {fetch, NULL}};
    if (!(cache = cache_new(&cc, &e)))
        end_wrong("the cache does not open", &e);
    struct inodes_conf ic = {.path = index_path,
        .identity = world->elsewhere ? 2 : 1,
        .resume = world->resume,
        .dir_mode = 0777,
        .file_mode = 0666,
        .nmounts = 1};
    if (!(inodes = inodes_open(&ic, &fresh, &e)))
        end_wrong("the index does not open", &e);
    struct tree_conf tc = {
        .conf = &conf, .inodes = inodes, .stores = &store, .sync_ns = SYNC_NS, .changed = changed};
    struct files_conf fc = {.inodes = inodes,
        .cache = cache,
        .conf = &conf,
        .stage_dir = stage_dir,
        .file_mode = 0666,
        .dir_mode = 0777};
    if (!(tree = tree_new(&tc, &e)))
        end_wrong("the tree does not open", &e);
    fc.tree = tree;
    if (!(files = files_new(&fc, &e)))
        end_wrong("the files do not open", &e);
    recover_begin(files);
}

static unsigned pending;

static bool read_staged(const struct file *f, struct content *c)
{
    cleanup_free char *staged = stage_path(f, "");
    return content_read(staged, c);
}

static void upload_begins(const struct file *f)
{
    static struct content c;
    struct inode n;
    for (unsigned i = 0; i < FILES; i++)
        if (inodes_find(inodes, INODE_ROOT, name_of(i), &n) && n.ino == f->ino
            && read_staged(f, &c))
            truth_tried(i, &c);
}

static void visit(void *user, struct file *f)
{
    struct err e = ERR_INIT;
    (void)user;
    if (!file_is_dirty(f))
        return;
    upload_begins(f);
    pthread_mutex_lock(&f->state_lock);
    if ((commit_may_wait(f) ? file_upload_behind(f, &e) : file_upload_locked(f, &e)) == 0)
        file_finish(f);
    else
        pending++;
    pthread_mutex_unlock(&f->state_lock);
}

/* What the uploader does now and then. */
static void upload_waiting(void)
{
    pending = 0;
    files_each(files, visit, NULL);
}

/* -- what users do --------------------------------------------------------------------------- */

/* The whole file as a reader of that inode gets it; false: an error. */
static bool read_all(uint64_t ino, struct content *c, struct err *e)
{
    struct file *f = files_get(files, ino, e);
    memset(c, 0, sizeof *c);
    ssize_t n = f ? 1 : -1;
    /* in pieces: of a whole block the sum would be looked at */
    while (n > 0 && c->len < CONTENT_MAX) {
        world_work((unsigned)world_random(2));
        n = file_pread(f, c->bytes + c->len, MIN(PIECE, CONTENT_MAX - c->len), c->len, e);
        c->len += n > 0 ? (uint32_t)n : 0;
    }
    if (f)
        files_put(f);
    c->there = n >= 0;
    world_trace("read", content_hash(c));
    return n >= 0;
}

static void check_seen(unsigned file, const struct content *c, const char *what)
{
    if (!content_was_ever(file, c))
        world_wrong("f%u: %s gives %u bytes that nobody ever wrote", file, what, c->len);
}

static void do_open(const struct op *op, bool resent)
{
    static struct content was;
    struct file_model *m = &world->files[op->file];
    struct new_name w = {
        .dir = INODE_ROOT, .name = name_of(op->file), .mode = 0644, .resent = resent};
    struct err e = ERR_INIT;
    struct inode n;
    int32_t backing;
    bool made = false;
    static const struct content empty = {.there = true};
    int flags = O_RDWR | (op->truncate ? O_TRUNC : 0);
    int rc = tree_lookup(tree, INODE_ROOT, w.name, &n, &e);
    uint64_t based_at = m->based_at;
    if (op->truncate || (rc && op->create)) { /* whether we see the end of it or not */
        truth_add(op->file, BEGUN, &empty);
        m->based_at = world->now;
    }
    if (rc && err_errno(&e) == ENOENT && op->create) {
        rc = files_create(files, &w, flags, &n, &e);
        made = rc == 0;
    } else if (rc == 0) {
        if (resent)
            files_open_resent(files, n.ino);
        rc = files_open(files, n.ino, flags, &backing, &e);
    }
    if (rc) {
        m->based_at = based_at;
        return;
    }
    inodes_ref(inodes, n.ino);
    m->open = true;
    m->ino = n.ino;
    m->based_at = ++world->now;
    memset(&m->local, 0, sizeof m->local);
    m->local.there = true;
    if (op->truncate || made) {
        m->local = empty;
    } else if (!read_all(n.ino, &was, &e)) {
        files_close(files, n.ino, true, false);
        inodes_forget(inodes, n.ino, 1);
        m->open = false;
        return;
    } else {
        check_seen(op->file, &was, "a file that is opened for writing");
        m->local = was;
        /* a store that has just failed is not asked */
        if (world->clock_ns > world->refused_ns + 6 * NS_PER_S && !world->outage
            && inodes_get(inodes, n.ino, &n) == 0 && !(n.flags & (INODE_DIRTY | INODE_STAGED))
            && content_hash(&was) != content_hash(&world->objects[op->file].c))
            world_wrong(
                "f%u: writing begins from %u bytes %016llx, which is not in the store any more",
                op->file, was.len, (unsigned long long)content_hash(&was));
    }
    world_say("f%u is opened%s", op->file, op->truncate || made ? ", empty" : "");
}

/* Users were told that it is done, or not. */
static void told(unsigned file, int rc)
{
    truth_add(file, rc || is_async() ? PROMISED : DONE, &world->files[file].local);
    if (content_hash(&world->objects[file].c) == content_hash(&world->files[file].local))
        truth_stored(file, &world->files[file].local);
}

static void do_fsync(const struct op *op)
{
    struct file_model *m = &world->files[op->file];
    struct err e = ERR_INIT;
    struct inode n;
    bool dirty = inodes_get(inodes, m->ino, &n) == 0 && (n.flags & INODE_DIRTY);
    truth_tried(op->file, &m->local);
    int rc = files_save(files, m->ino, true, &e);
    world_say("f%u fsync: %s", op->file, rc ? e.msg : "done");
    if (dirty)
        told(op->file, rc);
}

static void do_close(const struct op *op, bool resent)
{
    struct file_model *m = &world->files[op->file];
    do_fsync(op);
    files_close(files, m->ino, true, resent);
    inodes_forget(inodes, m->ino, 1);
    m->open = false;
}

static void do_write(const struct op *op, bool resent)
{
    struct file_model *m = &world->files[op->file];
    struct content *c = &m->local;
    struct err e = ERR_INIT;
    uint32_t off = op->off < c->len ? op->off : c->len;
    uint32_t len = op->len < CONTENT_MAX - off ? op->len : CONTENT_MAX - off;
    world->op.off = off; /* sent again, it is the same */
    world->op.len = len;
    if (resent) /* the process that died has changed *c, and may not have written anything */
        *c = world->before;
    world->before = *c;
    if (world->disk.torn) { /* a process that dies in it leaves half, like on any disk */
        content_fill(c, op->seed, off, len / 2);
        truth_add(op->file, BEGUN, c);
        *c = world->before;
    }
    content_fill(c, op->seed, off, len);
    truth_add(op->file, BEGUN, c); /* when the process dies it may be done or not */
    struct file *f = files_get(files, m->ino, &e);
    ssize_t n = f ? file_pwrite(f, c->bytes + off, len, off, &e) : -1;
    if (f)
        files_put(f);
    if (n == (ssize_t)len)
        return;
    *c = world->before;
    if (err_errno(&e) == ESTALE) { /* its users open it anew */
        do_close(op, false);
    } else if (!world->outage) {
        world_wrong("f%u: a write fails: %s", op->file, e.msg);
    }
}

static void do_read(const struct op *op, bool resent)
{
    static struct content c;
    struct inode n;
    struct err e = ERR_INIT;
    int32_t backing;
    bool there = tree_lookup(tree, INODE_ROOT, name_of(op->file), &n, &e) == 0;
    if (there && resent)
        files_open_resent(files, n.ino);
    if (!there || files_open(files, n.ino, O_RDONLY, &backing, &e))
        return;
    if (read_all(n.ino, &c, &e)) {
        check_seen(op->file, &c, "a read");
        if (world->files[op->file].open && world->files[op->file].ino == n.ino
            && content_hash(&c) != content_hash(&world->files[op->file].local))
            world_wrong("f%u: a reader does not see what is being written", op->file);
    }
    files_close(files, n.ino, false, false);
}

static void do_unlink(const struct op *op, bool resent)
{
    static const struct content none;
    struct err e = ERR_INIT;
    struct inode n;
    bool local = inodes_find(inodes, INODE_ROOT, name_of(op->file), &n) && (n.flags & INODE_LOCAL);
    truth_add(op->file, BEGUN, &none);
    bool unseen = local && others_have(op->file);
    int rc = files_unlink(files, INODE_ROOT, name_of(op->file), resent, &e);
    if (unseen && !others_have(op->file))
        world_wrong("f%u: what another node put there goes with what was never uploaded", op->file);
    if (rc && err_errno(&e) == ENOENT && world->objects[op->file].c.there)
        return; /* not seen yet */
    if (rc == 0 || err_errno(&e) == ENOENT)
        truth_removed(op->file, local);
    world_say("f%u unlink: %s", op->file, rc ? e.msg : "done");
}

/* Neither is open; what was written to them may wait for its upload. */
static void do_rename(const struct op *op, bool resent)
{
    static struct content c;
    const struct rename_request r = {.dir = INODE_ROOT,
        .name = name_of(op->file),
        .newdir = INODE_ROOT,
        .newname = name_of(op->to),
        .resent = resent};
    struct err e = ERR_INIT;
    struct inode n = {0};
    if (tree_lookup(tree, INODE_ROOT, r.name, &n, &e))
        n.flags = 0;
    bool waits = n.flags & INODE_DIRTY;
    struct file *f = waits ? files_get(files, n.ino, &e) : NULL;
    c = world->objects[op->file].c;
    bool known = waits ? f && read_staged(f, &c) : !(n.flags & (INODE_STAGED | INODE_LOCAL));
    if (f)
        files_put(f);
    if (!known || (!c.there && !resent))
        return;
    if (c.there)
        truth_moves(op->file, op->to, &c);
    int rc = files_rename(files, &r, &e);
    world_say("f%u rename to f%u: %s", op->file, op->to, rc ? e.msg : "done");
    if (rc == 0 && c.there)
        truth_moved(op->file, op->to, &c, waits, n.flags & INODE_LOCAL);
}

static void do_op(bool resent)
{
    const struct op *op = &world->op;
    switch (op->kind) {
    case OP_OPEN:
        do_open(op, resent);
        break;
    case OP_WRITE:
        do_write(op, resent);
        break;
    case OP_FSYNC:
        do_fsync(op);
        break;
    case OP_CLOSE:
        do_close(op, resent);
        break;
    case OP_READ:
        do_read(op, resent);
        break;
    case OP_UNLINK:
        do_unlink(op, resent);
        break;
    case OP_RENAME:
        do_rename(op, resent);
        break;
    case OP_NONE:
        break;
    }
    world->op.kind = OP_NONE;
    world_work((unsigned)world_random(3));
}

/* -- chance ---------------------------------------------------------------------------------- */

static void chance(void)
{
    switch (world_random(14)) {
    case 0:
        others_put((unsigned)world_random(FILES));
        break;
    case 1:
        if (world_random(3) == 0)
            others_remove((unsigned)world_random(FILES));
        break;
    case 2:
        world->outage = !world->outage && world_random(2);
        break;
    case 3:
        world->next_answer = (enum answer)world_random(4);
        break;
    case 4:
        world->clock_ns += (int64_t)world_random(100) * NS_PER_S;
        break;
    case 5:
        late_happens();
        break;
    case 6:
        upload_waiting();
        break;
    default:
        break;
    }
}

/* -- the end --------------------------------------------------------------------------------- */

static void look_at_all(void)
{
    static struct content c;
    struct err e = ERR_INIT;
    struct inode n;
    int32_t backing;
    world->clock_ns += 1000 * NS_PER_S;
    for (unsigned i = 0; i < FILES; i++) {
        int rc = tree_lookup(tree, INODE_ROOT, name_of(i), &n, &e);
        if (rc || !world->objects[i].c.there) {
            if ((rc == 0) != world->objects[i].c.there)
                world_wrong(
                    "f%u: the mount %s it, the store does not agree", i, rc ? "lacks" : "has");
            continue;
        }
        if (files_open(files, n.ino, O_RDONLY, &backing, &e))
            end_wrong("a file does not open in the end", &e);
        if (!read_all(n.ino, &c, &e))
            end_wrong("a file cannot be read in the end", &e);
        if (content_hash(&c) != content_hash(&world->objects[i].c))
            world_wrong("f%u: the mount gives %u bytes that are not those of the store", i, c.len);
        files_close(files, n.ino, false, false);
    }
}

static void finish(void)
{
    uint64_t kept[512];
    world->outage = false;
    world->next_answer = ANSWER_FINE;
    late_happens();
    for (unsigned i = 0; i < FILES; i++)
        if (world->files[i].open) {
            world->op = (struct op){.kind = OP_CLOSE, .file = i};
            do_op(false);
        }
    pending = 1;
    for (unsigned round = 0; pending && round < 8; round++) {
        world->clock_ns += 100 * NS_PER_S;
        upload_waiting();
    }
    if (pending)
        world_wrong("%u files still wait for their upload although the store is well", pending);
    world_work(UINT_MAX);
    unsigned n = kept_hashes(stage_dir, kept, 512);
    world_check(kept, n);
    look_at_all();
}

void life_run(unsigned ops, int last)
{
    disk_use(&world->disk);
    begin();
    if (world->elsewhere) { /* what was written belongs to the mount that it was written in */
        upload_waiting();
        _exit(0);
    }
    world->mounted = true;
    if (world->resume && world->op.kind != OP_NONE)
        do_op(true);
    world->op.kind = OP_NONE;
    for (unsigned i = 0; i < ops && !world->wrong[0]; i++) {
        chance();
        op_pick();
        do_op(false);
    }
    if (last && !world->wrong[0])
        finish();
    _exit(0);
}
