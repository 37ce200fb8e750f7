/* SPDX-License-Identifier: Apache-2.0 */
/* Readers and writers that check every byte while something terrible happens to the process that
 * serves the mount. fuse_hammer MOUNT SOURCE SECONDS READERS WRITERS [STORE] SOURCE holds copies of
 * the files r0 … r9 of MOUNT. Writers create, rename over, read back, remove; with STORE (the
 * directory behind the mount) they look there, too, for what close() said is saved. SIGTERM ends it
 * sooner. Ends with 1 if anything was wrong; says how long the longest step took, a few calls each.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
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

#define FILES 10
#define CHUNK 131072

static const char *mount_dir, *store_dir;
static char *data[FILES];
static size_t size[FILES];
static double end;
static atomic_bool enough;
static atomic_ulong reads, writes, errors;
static _Atomic double worst;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void on_term(int sig)
{
    (void)sig;
    atomic_store(&enough, true);
}

static bool going_on(void) { return !atomic_load(&enough) && now() < end; }

static void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void wrong(const char *format, ...)
{
    if (atomic_fetch_add(&errors, 1) >= 20)
        return;
    va_list ap;
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fprintf(stderr, ": %s\n", strerror(errno));
}

/* A step that began then is over; returns when the next one begins. */
static double took(double since)
{
    double at = now(), t = at - since, w = atomic_load(&worst);
    while (t > w && !atomic_compare_exchange_weak(&worst, &w, t))
        continue;
    return at;
}

static char *load(const char *path, size_t *len)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    errno = fd < 0 ? errno : 0;
    if (fd < 0 || fstat(fd, &st))
        return NULL;
    char *b = malloc((size_t)st.st_size + 1);
    ssize_t n = 0;
    *len = 0;
    while (b && *len < (size_t)st.st_size
        && (n = pread(fd, b + *len, (size_t)st.st_size - *len, (off_t)*len)) > 0)
        *len += (size_t)n;
    int saved = errno;
    close(fd);
    errno = saved;
    if (n < 0 || *len != (size_t)st.st_size) {
        free(b);
        return NULL;
    }
    return b;
}

static void *reader(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg * 7919 + 1;
    char path[512], *buf = malloc(CHUNK);
    snprintf(path, sizeof path, "%s/r0", mount_dir);
    int held = open(path, O_RDONLY); /* since the beginning */
    if (held < 0)
        wrong("open %s", path);
    while (going_on()) {
        double t = now();
        unsigned f = (unsigned)rand_r(&seed) % FILES;
        size_t off = (size_t)rand_r(&seed) % size[f],
               want = size[f] - off < CHUNK ? size[f] - off : CHUNK;
        snprintf(path, sizeof path, "%s/r%u", mount_dir, f);
        int fd = open(path, O_RDONLY);
        errno = fd < 0 ? errno : 0;
        ssize_t n = fd < 0 ? -1 : pread(fd, buf, CHUNK, (off_t)off);
        if (n != (ssize_t)want || memcmp(buf, data[f] + off, want) != 0)
            wrong("read %s at %zu: %zd of %zu", path, off, n, want);
        if (fd >= 0 && rand_r(&seed) % 8 == 0)
            /* the kernel alone shall not answer the next ones */
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        if (fd >= 0 && close(fd))
            wrong("close %s", path);
        off = (size_t)rand_r(&seed) % (size[0] - 4096);
        errno = 0;
        if (pread(held, buf, 4096, (off_t)off) != 4096 || memcmp(buf, data[0] + off, 4096) != 0)
            wrong("read of the held file at %zu", off);
        took(t);
        atomic_fetch_add(&reads, 1);
    }
    close(held);
    free(buf);
    return NULL;
}

static int save(const char *path, const char *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0)
        return -1;
    for (size_t at = 0; at < len;) {
        size_t chunk = len - at < 40000 ? len - at : 40000;
        ssize_t n = write(fd, bytes + at, chunk);
        if (n <= 0) {
            close(fd);
            return -1;
        }
        at += (size_t)n;
    }
    return close(fd);
}

static void compare(const char *path, const char *bytes, size_t len)
{
    size_t n = 0;
    char *got = load(path, &n);
    if (!got || n != len || memcmp(got, bytes, len) != 0)
        wrong("%s is not what was written (%zu bytes of %zu)", path, got ? n : 0, len);
    free(got);
}

static void *writer(void *arg)
{
    unsigned id = (unsigned)(uintptr_t)arg, seed = id * 31337 + 5;
    char path[512], temp[520], dir[512], other[520], *bytes = malloc(300001);
    snprintf(dir, sizeof dir, "%s/dir%u", mount_dir, id);
    for (unsigned i = 0; going_on(); i++) {
        size_t len = 1 + (size_t)rand_r(&seed) % 300000;
        for (size_t k = 0; k < len; k++)
            bytes[k] = (char)rand_r(&seed);
        double t = now();
        snprintf(path, sizeof path, "%s/w%u-%u", mount_dir, id, i % 5);
        snprintf(temp, sizeof temp, "%s.tmp", path);
        if (save(temp, bytes, len))
            wrong("write %s", temp);
        t = took(t);
        if (rename(temp, path))
            wrong("rename %s", temp);
        t = took(t);
        compare(path, bytes, len);
        t = took(t);
        if (store_dir) {
            snprintf(other, sizeof other, "%s/w%u-%u", store_dir, id, i % 5);
            compare(other, bytes, len);
        }
        if (i % 7 == 6 && unlink(path))
            wrong("unlink %s", path);
        t = took(t);
        if (mkdir(dir, 0755))
            wrong("mkdir %s", dir);
        t = took(t);
        snprintf(other, sizeof other, "%s/x", dir);
        if (save(other, "1", 1) || unlink(other))
            wrong("write and unlink %s", other);
        t = took(t);
        if (rmdir(dir))
            wrong("rmdir %s", dir);
        took(t);
        atomic_fetch_add(&writes, 1);
    }
    free(bytes);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "fuse_hammer MOUNT SOURCE SECONDS READERS WRITERS [STORE]\n");
        return 2;
    }
    mount_dir = argv[1];
    store_dir = argc > 6 ? argv[6] : NULL;
    for (unsigned i = 0; i < FILES; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/r%u", argv[2], i);
        if (!(data[i] = load(path, &size[i]))) {
            perror(path);
            return 2;
        }
    }
    end = now() + atof(argv[3]);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term, .sa_flags = SA_RESTART}, NULL);
    int nreaders = atoi(argv[4]), n = nreaders + atoi(argv[5]);
    pthread_t t[64];
    for (int i = 0; i < n && i < 64; i++)
        pthread_create(&t[i], NULL, i < nreaders ? reader : writer, (void *)(uintptr_t)i);
    for (int i = 0; i < n && i < 64; i++)
        pthread_join(t[i], NULL);
    for (unsigned i = 0; i < FILES; i++)
        free(data[i]);
    printf("reads %lu writes %lu errors %lu worst %.0f ms\n", atomic_load(&reads),
        atomic_load(&writes), atomic_load(&errors), atomic_load(&worst) * 1000);
    return atomic_load(&errors) || (nreaders && !atomic_load(&reads)) ? 1 : 0;
}
