/* SPDX-License-Identifier: Apache-2.0 */
/* Which files are read: of those that are there, the largest and the first small ones; or its own.
 */
#include "fuse/cli/bench.h"
#include "fuse/cli/copy.h"

#include "lib/base/each.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define LOOK_MAX       20000 /* files that are listed, at most, to find some */
#define REMOVE_THREADS 16
#define MIXED_PIECE    (1u << 20)

/* -- what is there --------------------------------------------------------------------------- */

static void bench_keep(struct bench_file *f, const char *name, const struct store_stat *st)
{
    free(f->name);
    *f = (struct bench_file){xstrdup(name), *st};
}

static bool enough(const struct bench *b)
{
    return b->seen >= LOOK_MAX
        || (b->nsmall == (size_t)b->files && b->large.name
            && b->large.st.size >= (uint64_t)b->size);
}

static int bench_look(void *user, const struct store_entry *entry)
{
    struct bench *b = user;
    if (entry->st.is_dir)
        return copy_interrupted();
    b->seen++;
    b->empty += entry->st.size == 0;
    if (entry->st.size > BENCH_SMALL_MAX && (!b->large.name || entry->st.size > b->large.st.size))
        bench_keep(&b->large, entry->name, &entry->st);
    else if (entry->st.size && entry->st.size <= BENCH_SMALL_MAX && b->nsmall < (size_t)b->files)
        bench_keep(&b->small[b->nsmall++], entry->name, &entry->st);
    return enough(b) || copy_interrupted();
}

static int bench_look_below(struct bench *b, struct err *e)
{
    char *cursor = NULL;
    int rc;
    do {
        rc = store_list_tree(b->at.store, "", &cursor, bench_look, b, e);
    } while (rc == 0 && cursor && !enough(b) && !copy_interrupted());
    free(cursor);
    return rc;
}

int bench_find(struct bench *b, struct err *e)
{
    struct store_stat st;
    if (target_stat(&b->at, &st, e))
        return -1;
    if (!st.is_dir) { /* of one file: the store is the directory above */
        struct store_entry one = {b->at.path, st};
        bench_look(b, &one);
        cleanup_free char *path = NULL;
        if (url_split(b->url, false, &b->root, &path, e))
            return -1;
    } else {
        target_close(&b->at);
        b->root = xstrdup(b->url);
        if (target_open(&b->at, b->args, b->url, true, true, e) || bench_look_below(b, e))
            return -1;
    }
    if (copy_interrupted())
        return err_set(e, ERR_RETRY, "interrupted");
    if (b->large.name || b->nsmall)
        return 0;
    return err_set(e, ERR_NOTFOUND,
        "%s: there is nothing to read%s: name another directory, or --write DIR, which makes files "
        "of its own below the URL and removes them",
        b->url, b->seen ? ", as all files there are empty" : "");
}

void bench_files_free(struct bench *b)
{
    free(b->large.name);
    for (size_t i = 0; i < b->nsmall; i++)
        free(b->small[i].name);
    free(b->small);
    free(b->root);
    b->root = NULL;
    b->small = NULL;
    b->large.name = NULL;
    b->nsmall = 0;
}

/* -- its own --------------------------------------------------------------------------------- */

char *bench_own_name(const struct bench *b, bool mounted, const char *what, size_t i)
{
    const char *way = mounted ? "mounted-" : "";
    return i ? xasprintf("%s/%s%s-%zu", b->own, way, what, i)
             : xasprintf("%s/%s%s", b->own, way, what);
}

/* Nothing that a store could pack together. */
static int random_file(uint64_t size, struct err *e)
{
    cleanup_free char *temp = xstrdup("/var/tmp/millrace-XXXXXX"), *piece = xmalloc(MIXED_PIECE);
    int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "make %s", temp);
    unlink(temp);
    for (uint64_t off = 0; off < size; off += MIXED_PIECE)
        if (getrandom(piece, MIXED_PIECE, 0) != MIXED_PIECE
            || io_pwrite(fd, piece, (size_t)MIN(size - off, MIXED_PIECE), off)) {
            err_sys(e, errno, "write %s", temp);
            close(fd);
            return -1;
        }
    return fd;
}

struct bench_put {
    struct bench *b;
    struct bench_file *files;
    int fd;
    uint64_t len;
};

static int bench_put_one(void *user, size_t i, uint64_t *bytes, struct err *e)
{
    struct bench_put *p = user;
    struct bench_file *f = &p->files[i];
    const struct store_put put = {
        .fd = p->fd, .len = p->len, .expect = "", .cancel = copy_cancel()};
    *bytes = p->len;
    return store_put(p->b->at.store, f->name, &put, &f->st, e);
}

static int bench_put_files(
    struct bench *b, int fd, struct bench_file *files, size_t n, uint64_t len, struct err *e)
{
    bool small = files == b->small;
    struct bench_put put = {b, files, fd, len};
    struct bench_work w = {.n = n,
        .parallel = small ? (unsigned)b->parallel : 1,
        .fn = bench_put_one,
        .user = &put,
        .files = true,
        .bytes = n * len};
    return bench_measure(b, &w,
        &(struct bench_result){
            .op = "write", .what = small ? "small" : "large", .how = "raw", .parallel = w.parallel},
        e);
}

int bench_make(struct bench *b, struct err *e)
{
    struct store_stat st;
    struct err inner = ERR_INIT;
    target_close(&b->at);
    b->root = xstrdup(b->url);
    if (target_open(&b->at, b->args, b->url, true, false, e))
        return -1;
    if (!store_path_ok(b->own) || !*b->own)
        return err_set(e, ERR_INVALID,
            "--write %s: write a directory below the URL, as in --write bench", b->own);
    if (store_stat_path(b->at.store, b->own, &st, &inner) == 0)
        return err_set(e, ERR_EXISTS,
            "--write %s: it is there already, and would be removed at the end: name a directory "
            "that is not there",
            b->own);
    if (inner.cls != ERR_NOTFOUND) {
        *e = inner;
        return -1;
    }
    cleanup_fd int fd = random_file((uint64_t)b->size, e);
    if (fd < 0 || store_mkdir(b->at.store, b->own, 0, e))
        return -1;
    b->own_made = true;
    b->large.name = bench_own_name(b, false, "large", 0);
    for (; b->nsmall < (size_t)b->files; b->nsmall++)
        b->small[b->nsmall].name = bench_own_name(b, false, "small", b->nsmall + 1);
    return bench_put_files(b, fd, &b->large, 1, (uint64_t)b->size, e)
        || bench_put_files(b, fd, b->small, b->nsmall, BENCH_OWN_SMALL, e);
}

static int bench_remove_one(void *user, size_t i, struct err *e)
{
    struct bench *b = user;
    struct err inner = ERR_INIT;
    bool mounted = i % 2;
    cleanup_free char *name = i < 2 ? bench_own_name(b, mounted, "large", 0)
                                    : bench_own_name(b, mounted, "small", i / 2);
    if (store_remove(b->at.store, name, &inner) == 0 || inner.cls == ERR_NOTFOUND)
        return 0;
    *e = inner;
    return -1;
}

int bench_remove(struct bench *b, struct err *e)
{
    if (!b->own_made)
        return 0;
    int rc = each("bench", 2 * (b->nsmall + 1), REMOVE_THREADS, bench_remove_one, b, NULL, e);
    if (rc == 0)
        rc = store_rmdir(b->at.store, b->own, e);
    if (rc)
        err_wrap(e, "%s/%s: remove what is left there: `millrace rm -r`", b->url, b->own);
    b->own_made = rc != 0;
    return rc;
}
