/* SPDX-License-Identifier: Apache-2.0 */
/* Writers whose files say what they are, and a journal of what they were told, for machines that
 * lose their power.
 *   fuse_cut load DIR JOURNAL SECONDS WRITERS SEED   makes, rewrites, changes in place, appends to
 *                                                    and replaces files until it is over or fails
 *   fuse_cut check DIR JOURNAL                       every file is what the journal allows
 *   fuse_cut settle DIR JOURNAL                      the same, and from now on it is what is there
 * A line of the journal: B (begun), A (close returned 0), E (close failed) or N (found there),
 * file, generation, length; or C: power is cut from here on, and no failure after it promises
 * anything. Byte i of a generation is the same whatever its length: what is appended to has a
 * common beginning. A file may be what was acknowledged last, or begun since; one whose close
 * failed was promised to be kept, so nothing of before it may be there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILES      24 /* shared out among the writers */
#define CANDIDATES 4096
#define LEN_MAX    ((uint64_t)3 << 20)

struct content {
    uint64_t gen, len; /* gen 0: there is no such file */
    bool partly;
};

static struct file {
    struct content may[CANDIDATES];
    unsigned n;
    uint64_t next; /* generation */
} files[FILES];

static const char *dir;
static int journal = -1;
static time_t end;
static atomic_bool failed;
static atomic_ulong acknowledged, promised;

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fprintf(stderr, "\n");
    exit(2);
}

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void fill(char *buf, unsigned file, struct content c)
{
    for (uint64_t i = 0; i < c.len; i += 8) {
        uint64_t word = mix(mix((uint64_t)file << 48 | c.gen) + i) | 1; /* never zeros */
        memcpy(buf + i, &word, c.len - i < 8 ? (size_t)(c.len - i) : 8);
    }
}

/* -- the journal ----------------------------------------------------------------------------- */

static void note(char what, unsigned file, struct content c)
{
    char line[64];
    int n = snprintf(
        line, sizeof line, "%c %u %" PRIu64 " %" PRIu64 "\n", what, file, c.gen, c.len);
    if (write(journal, line, (size_t)n) != n)
        die("write the journal: %s", strerror(errno));
}

static void only(struct file *f, struct content c)
{
    f->may[0] = c;
    f->n = 1;
}

/* Begun later than it: still possible. */
static void since(struct file *f, struct content c)
{
    unsigned i = 0;
    while (i < f->n && (f->may[i].gen != c.gen || f->may[i].len != c.len))
        i++;
    if (i == f->n)
        die("the journal tells of an end without a beginning");
    f->n -= i;
    memmove(f->may, f->may + i, f->n * sizeof f->may[0]);
}

static void journal_read(const char *path)
{
    FILE *in = fopen(path, "r");
    char line[128], what;
    bool cut = false;
    for (unsigned i = 0; i < FILES; i++) {
        only(&files[i], (struct content){0});
        files[i].next = 1;
    }
    while (in && fgets(line, sizeof line, in)) {
        unsigned k;
        struct content c = {0};
        if (line[0] == 'C') {
            cut = true;
            continue;
        }
        if (sscanf(line, "%c %u %" SCNu64 " %" SCNu64, &what, &k, &c.gen, &c.len) != 4
            || k >= FILES)
            die("the journal says %s", line);
        struct file *f = &files[k];
        if (c.gen >= f->next)
            f->next = c.gen + 1;
        if (what == 'W') {
            f->may[f->n - 1].partly = true;
        } else if (what == 'N') {
            only(f, c);
            cut = false;
        } else if (what == 'B') {
            if (f->n == CANDIDATES)
                die("too many beginnings");
            f->may[f->n++] = c;
        } else if (what == 'A' || (what == 'E' && !cut)) {
            since(f, c);
        }
    }
    if (in)
        fclose(in);
}

/* -- writing --------------------------------------------------------------------------------- */

static int write_all(int fd, const char *buf, size_t len, uint64_t off, uint64_t *seed)
{
    for (size_t done = 0; done < len;) {
        *seed = mix(*seed);
        size_t want = 1 + (size_t)(*seed % 300000);
        ssize_t n = pwrite(
            fd, buf + done, want < len - done ? want : len - done, (off_t)(off + done));
        if (n <= 0)
            return -1;
        done += (size_t)n;
    }
    return 0;
}

/* One change of a file. -1: it failed, as the journal says. */
static int change(unsigned k, char *buf, uint64_t *seed)
{
    struct file *f = &files[k];
    struct content now = f->may[f->n - 1], next = {.gen = f->next, .len = 1 + mix(*seed) % LEN_MAX};
    char path[4096], tmp[4096];
    snprintf(path, sizeof path, "%s/f%u", dir, k);
    snprintf(tmp, sizeof tmp, "%s/f%u.tmp", dir, k);
    *seed = mix(*seed);
    enum { REWRITE, IN_PLACE, APPEND, REPLACE } how = now.gen ? (int)(*seed % 4) : REWRITE;
    uint64_t from = 0;
    int flags = O_WRONLY | O_CREAT | O_TRUNC;
    if (how == IN_PLACE) {
        next.len = now.len;
        flags = O_RDWR;
    } else if (how == APPEND && now.len < LEN_MAX / 2) {
        next.gen = now.gen;
        next.len = now.len + next.len / 2 + 1;
        from = now.len;
        flags = O_WRONLY | O_APPEND;
    }
    fill(buf, k, next);
    /* O_TRUNC alone is a change, too, and what is closed after a failed write is kept as it is */
    note('B', k, next);
    f->next = next.gen >= f->next ? next.gen + 1 : f->next;
    f->may[f->n++] = next;
    int fd = open(how == REPLACE ? tmp : path, flags, 0644);
    if (fd < 0)
        return -1;
    int rc = write_all(fd, buf + from, (size_t)(next.len - from), from, seed);
    bool written = rc == 0;
    if (!written)
        note('W', k, next);
    rc |= *seed % 3 == 0 ? fsync(fd) : 0;
    rc |= close(fd);
    if (how == REPLACE && (rc || rename(tmp, path)))
        return -1; /* of the name, nothing was promised */
    if (rc == 0) {
        note('A', k, next);
        atomic_fetch_add(&acknowledged, 1);
    } else if (written) {
        note('E', k, next);
        atomic_fetch_add(&promised, 1);
    }
    only(f, next);
    return rc ? -1 : 0;
}

struct writer {
    pthread_t thread;
    unsigned first, step;
    uint64_t seed;
};

static void *writer_run(void *arg)
{
    struct writer *w = arg;
    char *buf = malloc(2 * LEN_MAX);
    for (unsigned failures = 0; buf && time(NULL) < end && failures < 3;) {
        w->seed = mix(w->seed);
        unsigned k = w->first + w->step * (unsigned)(w->seed % (FILES / w->step));
        failures += change(k, buf, &w->seed) != 0;
        if (failures)
            break; /* what a file is after a failure is for the check to say */
    }
    free(buf);
    return NULL;
}

static int load(const char *path, unsigned seconds, unsigned n, uint64_t seed)
{
    struct writer w[FILES];
    journal_read(path);
    journal = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (journal < 0)
        die("open %s: %s", path, strerror(errno));
    end = time(NULL) + seconds;
    for (unsigned i = 0; i < n; i++) {
        w[i] = (struct writer){.first = i, .step = n, .seed = mix(seed + i)};
        if (pthread_create(&w[i].thread, NULL, writer_run, &w[i]))
            die("no thread");
    }
    for (unsigned i = 0; i < n; i++)
        pthread_join(w[i].thread, NULL);
    printf("%lu acknowledged, %lu failed\n", atomic_load(&acknowledged), atomic_load(&promised));
    return 0;
}

/* -- looking --------------------------------------------------------------------------------- */

/* Every byte is of the one or of the other. */
static bool is_mixed(const char *is, size_t len, unsigned k, struct content a, struct content b)
{
    static char first[2 * LEN_MAX], second[2 * LEN_MAX];
    fill(first, k, a);
    fill(second, k, b);
    for (size_t i = 0; i < len; i++)
        if (!(i < a.len && is[i] == first[i]) && !(i < b.len && is[i] == second[i]))
            return false;
    return true;
}

static int check(const char *path, bool settle)
{
    char *buf = malloc(2 * LEN_MAX), *is = malloc(2 * LEN_MAX);
    if (!buf || !is)
        die("no memory");
    journal_read(path);
    if (settle)
        journal = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    for (unsigned k = 0; k < FILES; k++) {
        struct file *f = &files[k];
        char name[4096];
        snprintf(name, sizeof name, "%s/f%u", dir, k);
        int fd = open(name, O_RDONLY | O_CLOEXEC);
        ssize_t len = 0, n = 0;
        /* less than a page at a time: the rest of a block is not looked at by whoever serves it */
        while (fd >= 0 && (n = pread(fd, is + len, 3000, len)) > 0)
            len += n;
        if ((fd < 0 && errno != ENOENT) || n < 0)
            die("read f%u: %s", k, strerror(errno));
        bool found = false;
        for (unsigned i = 0; i < f->n && !found; i++) {
            struct content c = f->may[i];
            if (c.partly && fd >= 0 && is_mixed(is, (size_t)len, k, f->may[0], c)) {
                found = true;
                if (settle) { /* to be written anew */
                    unlink(name);
                    note('N', k, (struct content){0});
                }
                continue;
            }
            if (c.gen == 0 ? fd >= 0 : fd < 0 || c.len != (uint64_t)len)
                continue;
            fill(buf, k, c);
            found = memcmp(buf, is, (size_t)c.len) == 0;
            if (found && settle)
                note('N', k, c);
        }
        if (!found) {
            struct content c = f->may[0];
            uint64_t bad = 0;
            fill(buf, k, c);
            while (bad < c.len && bad < (uint64_t)len && buf[bad] == is[bad])
                bad++;
            fprintf(stderr,
                "f%u: %zd bytes%s are none of %u possible contents; the first is generation %" PRIu64
                " of %" PRIu64 " bytes, the same up to byte %" PRIu64 "\n",
                k, len, fd < 0 ? " (no file)" : "", f->n, c.gen, c.len, bad);
            atomic_store(&failed, true);
        }
        if (fd >= 0)
            close(fd);
    }
    free(buf);
    free(is);
    return atomic_load(&failed);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: fuse_cut load|check|settle DIR JOURNAL …");
    dir = argv[2];
    if (strcmp(argv[1], "load") == 0 && argc == 7)
        return load(
            argv[3], (unsigned)atoi(argv[4]), (unsigned)atoi(argv[5]), strtoull(argv[6], NULL, 10));
    return check(argv[3], strcmp(argv[1], "settle") == 0);
}
