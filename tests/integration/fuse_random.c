/* SPDX-License-Identifier: Apache-2.0 */
/* Random operations on a directory of the mount and on a shadow of it on a native file system:
 * every result, every error number and every byte must be the same. fuse_random DIRECTORY SHADOW
 * SECONDS [THREADS [SEED]]       each thread has its own subdirectory */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HANDLES  6
#define MAX_SIZE 400000

struct job {
    int a, b; /* directories: the mount's and the shadow's */
    unsigned seed, number;
    double end;
    int fa[HANDLES], fb[HANDLES];
    char log[256][200];
    unsigned long steps;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void note(struct job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct job *j, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(j->log[j->steps % 256], sizeof j->log[0], format, ap);
    va_end(ap);
}

static void die(struct job *j, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
static void die(struct job *j, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fprintf(stderr, "thread %u, step %lu: ", j->number, j->steps);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fprintf(stderr, "\nthe steps before it:\n");
    for (unsigned long i = j->steps > 250 ? j->steps - 250 : 0; i <= j->steps; i++)
        fprintf(stderr, "  %s\n", j->log[i % 256]);
    exit(1);
}

static unsigned rnd(struct job *j, unsigned n) { return (unsigned)rand_r(&j->seed) % n; }

static void same(struct job *j, long ra, int ea, long rb, int eb)
{
    if ((ra < 0) != (rb < 0) || (ra >= 0 && ra != rb) || (ra < 0 && ea != eb))
        die(j, "the mount gave %ld (%s), the native file system %ld (%s)", ra,
            ra < 0 ? strerror(ea) : "ok", rb, rb < 0 ? strerror(eb) : "ok");
}

#define BOTH(j, what_a, what_b)        \
    do {                               \
        errno = 0;                     \
        long ra_ = (what_a);           \
        int ea_ = errno;               \
        errno = 0;                     \
        long rb_ = (what_b);           \
        same(j, ra_, ea_, rb_, errno); \
    } while (0)

static const char *pick(struct job *j, char name[64])
{
    static const char *const dirs[] = {"", "", "d1/", "d2/", "d1/e1/", "d2/e2/"};
    snprintf(name, 64, "%s%s%u", dirs[rnd(j, 6)], rnd(j, 5) ? "f" : "d", rnd(j, 7));
    if (rnd(j, 12) == 0)
        snprintf(name, 64, "%s",
            rnd(j, 2) ? (rnd(j, 2) ? "d1" : "d2") : (rnd(j, 2) ? "d1/e1" : "d2/e2"));
    return name;
}

static void compare_file(struct job *j, int fa, int fb)
{
    static __thread char x[MAX_SIZE * 2], y[MAX_SIZE * 2];
    struct stat sa, sb;
    if (fstat(fa, &sa) || fstat(fb, &sb) || sa.st_size != sb.st_size)
        die(j, "sizes %lld and %lld", (long long)sa.st_size, (long long)sb.st_size);
    BOTH(j, pread(fa, x, sizeof x, 0), pread(fb, y, sizeof y, 0));
    if (memcmp(x, y, (size_t)sb.st_size) != 0)
        die(j, "bytes differ in a file of %lld", (long long)sb.st_size);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void compare_dir(struct job *j, int a, int b)
{
    struct dirent **la, **lb;
    int na = scandirat(a, ".", &la, NULL, by_name), nb = scandirat(b, ".", &lb, NULL, by_name);
    if (na != nb)
        die(j, "a directory has %d and %d entries", na, nb);
    for (int i = 0; i < na; i++) {
        struct stat sa, sb;
        const char *name = lb[i]->d_name;
        if (strcmp(la[i]->d_name, name) != 0)
            die(j, "entries %s and %s", la[i]->d_name, name);
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            if (fstatat(a, name, &sa, 0) || fstatat(b, name, &sb, 0)
                || (sa.st_mode & S_IFMT) != (sb.st_mode & S_IFMT))
                die(j, "%s: another type, or none", name);
            int fa = openat(a, name, O_RDONLY), fb = openat(b, name, O_RDONLY);
            if (fa < 0 || fb < 0)
                die(j, "%s: %s", name, strerror(errno));
            if (S_ISDIR(sb.st_mode))
                compare_dir(j, fa, fb);
            else
                compare_file(j, fa, fb);
            close(fa);
            close(fb);
        }
        free(la[i]);
        free(lb[i]);
    }
    free(la);
    free(lb);
}

static void open_both(struct job *j, unsigned h)
{
    static const int flags[] = {O_RDONLY, O_RDWR, O_WRONLY, O_RDWR | O_CREAT, O_RDONLY | O_TRUNC,
        O_RDWR | O_CREAT | O_TRUNC, O_WRONLY | O_CREAT | O_EXCL, O_RDWR | O_APPEND,
        O_WRONLY | O_TRUNC};
    char name[64];
    int f = flags[rnd(j, sizeof flags / sizeof *flags)];
    pick(j, name);
    note(j, "open %s %#o as %u", name, (unsigned)f, h);
    errno = 0;
    j->fa[h] = openat(j->a, name, f, 0644);
    int ea = errno;
    errno = 0;
    j->fb[h] = openat(j->b, name, f, 0644);
    same(j, j->fa[h] < 0 ? -1 : 0, ea, j->fb[h] < 0 ? -1 : 0, errno);
    struct stat st;
    if (j->fb[h] >= 0 && fstat(j->fb[h], &st) == 0 && S_ISDIR(st.st_mode)) {
        close(j->fa[h]);
        close(j->fb[h]);
        j->fa[h] = j->fb[h] = -1;
    }
}

static void close_both(struct job *j, unsigned h)
{
    note(j, "close %u", h);
    BOTH(j, close(j->fa[h]), close(j->fb[h]));
    j->fa[h] = j->fb[h] = -1;
}

static void use_handle(struct job *j, unsigned h)
{
    static __thread char x[70000], y[70000];
    int fa = j->fa[h], fb = j->fb[h];
    unsigned len = 1 + rnd(j, sizeof x), off = rnd(j, MAX_SIZE);
    switch (rnd(j, 7)) {
    case 0:
    case 1:
        note(j, "pread %u %u+%u", h, off, len);
        memset(x, 0, len);
        memset(y, 0, len);
        BOTH(j, pread(fa, x, len, off), pread(fb, y, len, off));
        if (memcmp(x, y, len) != 0)
            die(j, "bytes differ");
        break;
    case 2:
    case 3:
        note(j, "pwrite %u %u+%u", h, off, len);
        for (unsigned i = 0; i < len; i++)
            x[i] = (char)rand_r(&j->seed);
        BOTH(j, pwrite(fa, x, len, off), pwrite(fb, x, len, off));
        break;
    case 4:
        note(j, "ftruncate %u %u", h, off);
        BOTH(j, ftruncate(fa, off), ftruncate(fb, off));
        break;
    case 5:
        note(j, "fsync %u", h);
        BOTH(j, fsync(fa), fsync(fb));
        break;
    default:
        close_both(j, h);
    }
}

static void use_names(struct job *j)
{
    char name[64], other[64];
    struct stat sa, sb;
    pick(j, name);
    switch (rnd(j, 9)) {
    case 0:
        note(j, "unlink %s", name);
        BOTH(j, unlinkat(j->a, name, 0), unlinkat(j->b, name, 0));
        break;
    case 1:
    case 2:
        note(j, "mkdir %s", name);
        BOTH(j, mkdirat(j->a, name, 0755), mkdirat(j->b, name, 0755));
        break;
    case 3:
        note(j, "rmdir %s", name);
        BOTH(j, unlinkat(j->a, name, AT_REMOVEDIR), unlinkat(j->b, name, AT_REMOVEDIR));
        break;
    case 4:
    case 5:
        pick(j, other);
        note(j, "rename %s %s", name, other);
        BOTH(j, renameat(j->a, name, j->a, other), renameat(j->b, name, j->b, other));
        break;
    case 6:
        note(j, "truncate %s", name);
        {
            int fa = openat(j->a, name, O_WRONLY | O_TRUNC), ea = errno,
                fb = openat(j->b, name, O_WRONLY | O_TRUNC);
            same(j, fa < 0 ? -1 : 0, ea, fb < 0 ? -1 : 0, errno);
            if (fa >= 0)
                BOTH(j, close(fa), close(fb));
        }
        break;
    default:
        note(j, "stat %s", name);
        BOTH(j, fstatat(j->a, name, &sa, 0), fstatat(j->b, name, &sb, 0));
        if (fstatat(j->b, name, &sb, 0) == 0 && S_ISREG(sb.st_mode)
            && (fstatat(j->a, name, &sa, 0) || sa.st_size != sb.st_size))
            die(j, "sizes %lld and %lld", (long long)sa.st_size, (long long)sb.st_size);
    }
}

static void *run(void *arg)
{
    struct job *j = arg;
    for (unsigned i = 0; i < HANDLES; i++)
        j->fa[i] = j->fb[i] = -1;
    while (now() < j->end) {
        unsigned h = rnd(j, HANDLES);
        if (rnd(j, 10) < 4)
            use_names(j);
        else if (j->fa[h] < 0)
            open_both(j, h);
        else
            use_handle(j, h);
        j->steps++;
        if (j->steps % 400 == 0) {
            note(j, "compare everything");
            compare_dir(j, j->a, j->b);
            j->steps++;
        }
    }
    for (unsigned i = 0; i < HANDLES; i++)
        if (j->fa[i] >= 0)
            close_both(j, i);
    compare_dir(j, j->a, j->b);
    return NULL;
}

static int sub(const char *base, unsigned n)
{
    char path[500];
    snprintf(path, sizeof path, "%s/t%u", base, n);
    int fd = mkdir(path, 0755) ? -1 : open(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        perror(path);
        exit(2);
    }
    return fd;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "fuse_random DIRECTORY SHADOW SECONDS [THREADS [SEED]]\n");
        return 2;
    }
    unsigned threads = argc > 4 ? (unsigned)atoi(argv[4]) : 2,
             seed = argc > 5 ? (unsigned)strtoul(argv[5], NULL, 10) : (unsigned)time(NULL);
    struct job *jobs = calloc(threads, sizeof *jobs);
    pthread_t *t = calloc(threads, sizeof *t);
    printf("seed %u\n", seed);
    fflush(stdout);
    umask(0);
    unsigned long steps = 0;
    for (unsigned i = 0; i < threads; i++) {
        jobs[i] = (struct job){.a = sub(argv[1], i),
            .b = sub(argv[2], i),
            .seed = seed + i,
            .number = i,
            .end = now() + atof(argv[3])};
        pthread_create(&t[i], NULL, run, &jobs[i]);
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(t[i], NULL);
        steps += jobs[i].steps;
    }
    printf("%lu steps, no difference\n", steps);
    free(jobs);
    free(t);
    return 0;
}
