/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/backing.h"

#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/handoff/fuse_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define TEXT_MAX     ((size_t)64 << 20)
#define LOG_LINE_MAX 128
#define COMPACT_AT   4096 /* lines of the log that are no longer needed … */
/* … and this share of those that are: a log is never longer than a few times what it holds */
#define COMPACT_SHARE 2
/* One inode of the client's names one file; a few may share it. More is nobody's need. */
#define USES_MAX 1024

struct backing_file {
    uint64_t dev, ino;
    int64_t id;
    unsigned uses;   /* how often it was given out and has not come back */
    unsigned claims; /* … as its client tells it */
};

struct backing {
    char *path;
    size_t max;
    int log_fd;          /* -1 until the first line */
    size_t dead_lines;   /* of the log: those that say what no longer holds */
    struct map *by_file; /* "dev:ino" → entry, owned */
    struct map *by_id;   /* id → the same entry, borrowed */
};

struct backing *backing_new(const char *path, size_t max)
{
    struct backing *b = xcalloc(1, sizeof *b);
    b->path = xstrdup(path);
    b->max = max;
    b->log_fd = -1;
    b->by_file = map_new(free);
    b->by_id = map_new(NULL);
    return b;
}

static void forget_all(struct backing *b)
{
    map_free(b->by_id);
    map_free(b->by_file);
    b->by_file = map_new(free);
    b->by_id = map_new(NULL);
    b->dead_lines = 0;
    if (b->log_fd >= 0)
        close(b->log_fd);
    b->log_fd = -1;
}

void backing_reset(struct backing *b)
{
    forget_all(b);
    unlink(b->path);
}

void backing_free(struct backing *b)
{
    if (!b)
        return;
    if (b->log_fd >= 0)
        close(b->log_fd);
    map_free(b->by_id);
    map_free(b->by_file);
    free(b->path);
    free(b);
}

size_t backing_count(const struct backing *b) { return map_len(b->by_file); }

static void backing_file_key(uint64_t dev, uint64_t ino, char out[48])
{
    snprintf(out, 48, "%" PRIx64 ":%" PRIx64, dev, ino);
}

static void backing_id_key(int64_t id, char out[24]) { snprintf(out, 24, "%" PRId64, id); }

/* The file has that id, and this many uses of it more. */
static void backing_put(struct backing *b, uint64_t dev, uint64_t ino, int64_t id, unsigned uses)
{
    char file[48], number[24];
    backing_file_key(dev, ino, file);
    backing_id_key(id, number);
    struct backing_file *n = map_get(b->by_id, number);
    if (n) {
        n->uses = MIN(n->uses + uses, USES_MAX);
        b->dead_lines++;
        return;
    }
    /* of a log that was cut: its id is nobody's any more */
    const struct backing_file *other = map_get(b->by_file, file);
    if (other) {
        char before[24];
        backing_id_key(other->id, before);
        map_steal(b->by_id, before);
        b->dead_lines++;
    } else if (map_len(b->by_file) >= b->max) {
        b->dead_lines++;
        return;
    }
    n = xmalloc(sizeof *n);
    *n = (struct backing_file){dev, ino, id, MIN(uses, USES_MAX), 0};
    map_put(b->by_file, file, n);
    map_put(b->by_id, number, n);
}

static void backing_del(struct backing *b, int64_t id)
{
    char file[48], number[24];
    backing_id_key(id, number);
    struct backing_file *n = map_get(b->by_id, number);
    b->dead_lines++;
    if (!n || --n->uses)
        return;
    b->dead_lines++; /* that of its open */
    map_steal(b->by_id, number);
    backing_file_key(n->dev, n->ino, file);
    map_del(b->by_file, file);
}

/* One use is not written, as it never was: a plugin of before reads that, too. */
static void log_line(struct buf *out, const struct backing_file *n, unsigned uses)
{
    buf_addf(out, "+ %" PRIx64 " %" PRIx64 " %" PRId64, n->dev, n->ino, n->id);
    if (uses > 1)
        buf_addf(out, " %u", uses);
    buf_addc(out, '\n');
}

static void append_line(struct backing *b, const char *line)
{
    if (b->log_fd < 0)
        b->log_fd = open(b->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (b->log_fd < 0 || write(b->log_fd, line, strlen(line)) != (ssize_t)strlen(line))
        log_kv(LOG_WARN,
            "cannot note a backing file: after a restart of the plugin its reads take the slow way",
            "file", b->path, "error", strerror(errno), NULL);
}

/* Writes the log anew with the ids that are open. */
static void compact_log(struct backing *b)
{
    struct buf text = BUF_INIT(TEXT_MAX);
    const char *key;
    void *value;
    for (size_t i = 0; map_next(b->by_file, &i, &key, &value);) {
        const struct backing_file *n = value;
        log_line(&text, n, n->uses);
    }
    struct err e = ERR_INIT;
    if (file_write_atomic(b->path, buf_str(&text), text.len, 0600, &e))
        log_kv(LOG_WARN, "cannot shorten the log of backing files", "error", e.msg, NULL);
    buf_free(&text);
    if (b->log_fd >= 0)
        close(b->log_fd);
    b->log_fd = -1;
    b->dead_lines = 0;
}

static void shorten_log(struct backing *b)
{
    if (b->dead_lines > COMPACT_AT + map_len(b->by_file) * COMPACT_SHARE)
        compact_log(b);
}

int backing_replay(struct backing *b, FILE *log, struct err *e)
{
    char line[LOG_LINE_MAX];
    size_t broken = 0;
    forget_all(b);
    while (fgets(line, sizeof line, log)) {
        uint64_t dev, ino;
        int64_t id;
        unsigned uses = 1;
        if (sscanf(line, "+ %" SCNx64 " %" SCNx64 " %" SCNd64 " %u", &dev, &ino, &id, &uses) >= 3
            && id > 0 && id <= INT32_MAX && uses > 0)
            backing_put(b, dev, ino, id, uses);
        else if (sscanf(line, "- %" SCNd64, &id) == 1)
            backing_del(b, id);
        else
            broken++;
    }
    if (broken)
        log_kv(LOG_WARN, "the log of backing files has broken lines", "file", b->path, NULL);
    b->dead_lines += broken;
    return ferror(log) ? err_sys(e, errno, "read %s", b->path) : 0;
}

int backing_load(struct backing *b, struct err *e)
{
    cleanup_file FILE *log = fopen(b->path, "re");
    if (!log) {
        forget_all(b);
        return errno == ENOENT ? 0 : err_sys(e, errno, "read %s", b->path);
    }
    if (backing_replay(b, log, e))
        return -1;
    if (b->dead_lines)
        compact_log(b);
    return 0;
}

int64_t backing_open(struct backing *b, int fuse_fd, int fd, dev_t dev, uid_t owner)
{
    struct statx st;
    /* DONT_SYNC: a file of some other FUSE mount must not make us wait for its server. */
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_UID | STATX_INO, &st))
        return -errno;
    int flags = fcntl(fd, F_GETFL);
    if (!S_ISREG(st.stx_mode) || st.stx_uid != owner
        || makedev(st.stx_dev_major, st.stx_dev_minor) != dev || flags < 0 || (flags & O_PATH)
        || (flags & O_ACCMODE) == O_WRONLY)
        return -EPERM;
    char key[48];
    backing_file_key((uint64_t)dev, st.stx_ino, key);
    const struct backing_file *known = map_get(b->by_file, key);
    int64_t id = known ? known->id : 0;
    if (!known && map_len(b->by_file) >= b->max)
        return -ENFILE;
    if (known && known->uses >= USES_MAX)
        return -EMFILE;
    struct fuse_kernel_backing m = {.fd = fd};
    if (!known && (id = ioctl(fuse_fd, FUSE_KERNEL_BACKING_OPEN, &m)) <= 0)
        return id < 0 ? -errno : -EIO;
    backing_put(b, (uint64_t)dev, st.stx_ino, id, 1);
    struct buf line = BUF_INIT(LOG_LINE_MAX);
    log_line(&line, map_get(b->by_file, key), 1);
    append_line(b, buf_str(&line));
    buf_free(&line);
    shorten_log(b);
    return id;
}

static void backing_close_id(int fuse_fd, int64_t id)
{
    uint32_t number = (uint32_t)id;
    if (ioctl(fuse_fd, FUSE_KERNEL_BACKING_CLOSE, &number))
        log_warn("backing id %u cannot be closed: %s", number, strerror(errno));
}

void backing_close(struct backing *b, int fuse_fd, int64_t id)
{
    char key[24];
    backing_id_key(id, key);
    const struct backing_file *n = map_get(b->by_id, key);
    if (!n)
        return;
    if (n->uses == 1)
        backing_close_id(fuse_fd, id);
    backing_del(b, id);
    char line[32];
    snprintf(line, sizeof line, "- %" PRId64 "\n", id);
    append_line(b, line);
    shorten_log(b);
}

void backing_claim_none(struct backing *b)
{
    const char *key;
    void *value;
    for (size_t i = 0; map_next(b->by_file, &i, &key, &value);)
        ((struct backing_file *)value)->claims = 0;
}

void backing_claim(struct backing *b, int64_t id)
{
    char key[24];
    backing_id_key(id, key);
    struct backing_file *n = map_get(b->by_id, key);
    if (n && n->claims < USES_MAX)
        n->claims++;
}

void backing_claimed(struct backing *b, int fuse_fd)
{
    cleanup_free int64_t *lost = xmalloc((map_len(b->by_file) + 1) * sizeof *lost);
    size_t nlost = 0;
    bool same = true;
    const char *key;
    void *value;
    for (size_t i = 0; map_next(b->by_file, &i, &key, &value);) {
        struct backing_file *n = value;
        same &= n->uses == n->claims;
        n->uses = MAX(n->claims, 1u);
        if (!n->claims)
            lost[nlost++] = n->id;
        n->claims = 0;
    }
    for (size_t i = 0; i < nlost; i++) {
        backing_close_id(fuse_fd, lost[i]);
        backing_del(b, lost[i]);
    }
    if (!same)
        compact_log(b);
    if (nlost)
        log_info("%zu backing files that nobody holds are closed", nlost);
}
