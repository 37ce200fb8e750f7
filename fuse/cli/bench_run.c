/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured: the same files by the store layer alone, and through a mount. */
#include "fuse/cli/bench.h"
#include "fuse/cli/copy.h"
#include "fuse/cli/mounting.h"
#include "fuse/cli/place.h"

#include "lib/base/file.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGE_READ (1u << 20)   /* bytes of one read through a mount */
#define CACHE_MORE (256u << 20) /* bytes that the cache may have beside what is read */

/* -- by the store layer alone ---------------------------------------------------------------- */

/* Of the large file, as far as is read at all. */
static uint64_t large_bytes(const struct bench *b)
{
    return MIN(b->large.st.size, (uint64_t)b->size);
}

static int bench_ignore(void *user, const void *data, size_t len)
{
    (void)user, (void)data, (void)len;
    return 0;
}

static int bench_raw_piece(void *user, size_t i, uint64_t *bytes, struct err *e)
{
    struct bench *b = user;
    uint64_t off = i * (uint64_t)BENCH_PIECE;
    *bytes = MIN((uint64_t)BENCH_PIECE, large_bytes(b) - off);
    return store_stream(b->at.store, b->large.name, b->large.st.version, off, (size_t)*bytes,
        bench_ignore, NULL, copy_cancel(), e);
}

static int bench_raw_small(void *user, size_t i, uint64_t *bytes, struct err *e)
{
    struct bench *b = user;
    const struct bench_file *f = &b->small[i];
    *bytes = f->st.size;
    return store_stream_of(b->at.store, f->name, f->st.version, f->st.size, 0, (size_t)f->st.size,
        bench_ignore, NULL, copy_cancel(), e);
}

static uint64_t small_bytes(const struct bench *b)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < b->nsmall; i++)
        bytes += b->small[i].st.size;
    return bytes;
}

int bench_raw(struct bench *b, struct err *e)
{
    const struct bench_work large = {.n = (large_bytes(b) + BENCH_PIECE - 1) / BENCH_PIECE,
        .parallel = (unsigned)b->parallel,
        .limit_ns = b->limit_ns,
        .fn = bench_raw_piece,
        .user = b,
        .bytes = large_bytes(b)};
    const struct bench_work small = {.n = b->nsmall,
        .parallel = (unsigned)b->parallel,
        .limit_ns = b->limit_ns,
        .fn = bench_raw_small,
        .user = b,
        .files = true,
        .bytes = small_bytes(b)};
    const struct bench_result as = {.op = "read", .what = "large", .how = "raw"};
    if (b->large.name && bench_measure(b, &large, &as, e))
        return -1;
    return b->nsmall ? bench_measure(
               b, &small, &(struct bench_result){.op = "read", .what = "small", .how = "raw"}, e)
                     : 0;
}

/* -- through a mount ------------------------------------------------------------------------- */

struct bench_mount {
    struct bench *b;
    char *dir, *point, *cache; /* owned; the two are in dir */
    char *large;               /* path of the large file; its descriptor */
    int fd;
};

static int bench_mount_piece(void *user, size_t i, uint64_t *bytes, struct err *e)
{
    struct bench_mount *m = user;
    uint64_t off = i * (uint64_t)LARGE_READ;
    cleanup_free char *piece = xmalloc(LARGE_READ);
    *bytes = MIN((uint64_t)LARGE_READ, large_bytes(m->b) - off);
    return io_pread_exact(m->fd, piece, (size_t)*bytes, off) ? local_failed(m->large, errno, e) : 0;
}

static int bench_mount_small(void *user, size_t i, uint64_t *bytes, struct err *e)
{
    struct bench_mount *m = user;
    const struct bench_file *f = &m->b->small[i];
    cleanup_free char *path = path_join(m->point, f->name);
    *bytes = f->st.size;
    return local_read(path, &f->st, 0, f->st.size, bench_ignore, NULL, e);
}

static int bench_read_mount(struct bench_mount *m, const char *cache, struct err *e)
{
    struct bench *b = m->b;
    const struct bench_work large = {.n = (large_bytes(b) + LARGE_READ - 1) / LARGE_READ,
        .parallel = 1,
        .limit_ns = b->limit_ns,
        .fn = bench_mount_piece,
        .user = m,
        .bytes = large_bytes(b)};
    const struct bench_work small = {.n = b->nsmall,
        .parallel = (unsigned)b->parallel,
        .limit_ns = b->limit_ns,
        .fn = bench_mount_small,
        .user = m,
        .files = true,
        .bytes = small_bytes(b)};
    if (b->large.name
        && bench_measure(b, &large,
            &(struct bench_result){.op = "read", .what = "large", .how = "mounted", .cache = cache},
            e))
        return -1;
    return b->nsmall
        ? bench_measure(b, &small,
            &(struct bench_result){.op = "read", .what = "small", .how = "mounted", .cache = cache},
            e)
        : 0;
}

/* As a program does that keeps a file: it is in the store when close() returns. */
static int bench_write_file(void *user, const char *what, size_t i, uint64_t len, struct err *e)
{
    struct bench_mount *m = user;
    cleanup_free char *name = bench_own_name(m->b, true, what, i),
                      *path = path_join(m->point, name), *piece = xmalloc(LARGE_READ);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int rc = fd < 0 ? local_failed(path, errno, e) : 0;
    for (uint64_t off = 0; rc == 0 && off < len; off += LARGE_READ) {
        size_t n = (size_t)MIN((uint64_t)LARGE_READ, len - off);
        if (copy_interrupted())
            rc = err_set(e, ERR_RETRY, "interrupted");
        else if (io_pread_exact(m->fd, piece, n, off % large_bytes(m->b))
            || io_pwrite(fd, piece, n, off))
            rc = local_failed(path, errno, e);
    }
    if (rc == 0 && fsync(fd))
        rc = local_failed(path, errno, e);
    if (fd >= 0 && close(fd) && rc == 0)
        rc = local_failed(path, errno, e);
    return rc;
}

static int bench_write_large(void *user, size_t i, uint64_t *bytes, struct err *e)
{
    struct bench_mount *m = user;
    *bytes = large_bytes(m->b);
    return bench_write_file(m, "large", i, *bytes, e);
}

static int bench_write_small(void *user, size_t i, uint64_t *bytes, struct err *e)
{
    *bytes = BENCH_OWN_SMALL;
    return bench_write_file(user, "small", i + 1, *bytes, e);
}

static int bench_write_mount(struct bench_mount *m, struct err *e)
{
    struct bench *b = m->b;
    const struct bench_work large = {.n = 1,
        .parallel = 1,
        .fn = bench_write_large,
        .user = m,
        .files = true,
        .bytes = large_bytes(b)};
    const struct bench_work small = {.n = b->nsmall,
        .parallel = (unsigned)b->parallel,
        .fn = bench_write_small,
        .user = m,
        .files = true,
        .bytes = small_bytes(b)};
    return bench_measure(b, &large,
               &(struct bench_result){.op = "write", .what = "large", .how = "mounted"}, e)
            || bench_measure(b, &small,
                &(struct bench_result){.op = "write", .what = "small", .how = "mounted"}, e)
        ? -1
        : 0;
}

/* What was read once is read again from the cache, and from the kernel's pages. */
static int bench_use_mount(struct bench_mount *m, struct err *e)
{
    struct bench *b = m->b;
    if (b->large.name) {
        m->large = path_join(m->point, b->large.name);
        m->fd = open(m->large, O_RDONLY | O_CLOEXEC);
        if (m->fd < 0)
            return local_failed(m->large, errno, e);
    }
    int rc = bench_read_mount(m, "cold", e) || bench_read_mount(m, "warm", e)
            || (b->own && bench_write_mount(m, e))
        ? -1
        : 0;
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
    return rc;
}

/* Nobody else knows of this mount: it is not in use by others. */
static int bench_unmount(struct bench_mount *m, struct err *e)
{
    struct err first = ERR_INIT;
    if (mounting_end(m->point, false, &first) == 0 || first.cls == ERR_NOTFOUND)
        return 0;
    *e = first;
    return first.cls == ERR_CONFLICT ? mounting_end(m->point, true, e) : -1;
}

static int bench_mount(struct bench_mount *m, struct err *e)
{
    struct bench *b = m->b;
    struct mounting w = {.conf = {.url = b->root,
                             .read_only = !b->own,
                             .disk = (int64_t)(large_bytes(b) + small_bytes(b)) + CACHE_MORE,
                             .keep_free = 0},
        .dir = m->point,
        .cache_dir = m->cache,
        .log_level = "warn"};
    if (b->own)
        w.conf.disk *= 2;
    if (mkdir(m->point, 0700) || mkdir(m->cache, 0700))
        return err_sys(e, errno, "make directories in %s", m->dir);
    return mounting_start(b->args, &w, e);
}

int bench_mounted(struct bench *b, struct err *e)
{
    struct bench_mount m = {.b = b, .fd = -1};
    cleanup_free char *dir = path_join(b->cache_base, "millrace-bench-XXXXXX");
    if (!mkdtemp(dir))
        return err_sys(e, errno, "make %s", dir);
    cleanup_free char *point = path_join(dir, "mnt"), *cache = path_join(dir, "cache");
    m.dir = dir, m.point = point, m.cache = cache;
    int rc = bench_mount(&m, e);
    if (rc == 0)
        rc = bench_use_mount(&m, e);
    struct err after = ERR_INIT;
    if (bench_unmount(&m, &after) || file_remove_tree(dir, &after)) {
        if (rc == 0)
            *e = after;
        else
            cli_failed(&after);
        rc = -1;
    }
    free(m.large);
    return rc;
}
