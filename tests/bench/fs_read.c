/* SPDX-License-Identifier: Apache-2.0 */
/* fs_read — reads a directory tree as training jobs do, and says how long it took.
 *   fs_read WORKLOAD ROOT LIST THREADS [OPS SEED]
 * WORKLOAD: small (open, fstat, read all, close), seq (1 MiB reads), rand (OPS reads of 128 KiB),
 * mmap (every cache line), find (names only), stat. LIST: paths relative to ROOT, one a line;
 * threads take the next one. Prints: seconds bytes operations cpu-seconds. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BUFFER      (4u << 20)
#define SEQ_READ    (1u << 20)
#define RAND_READ   (128u << 10)
#define THREADS_MAX 256

static char **paths;
static size_t npaths;
static atomic_size_t next_item;
static _Atomic uint64_t bytes, ops;
static size_t nops;
static uint64_t seed;
static int root_fd;
static int *fds; /* rand: one a path, and its size */
static uint64_t *sizes;
static volatile uint64_t sink;
static void (*work)(char *buf);
static pthread_barrier_t ready;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "fs_read: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int open_path(const char *path)
{
    int fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die(path);
    return fd;
}

static uint64_t read_whole(int fd, char *buf, size_t size, size_t step, const char *path)
{
    uint64_t sum = 0;
    while (sum < size) {
        ssize_t n = read(fd, buf, step < size - sum ? step : size - sum);
        if (n <= 0)
            die(path);
        sum += (uint64_t)n;
    }
    return sum;
}

static void small_or_seq(char *buf, size_t step)
{
    for (size_t i; (i = next_item++) < npaths;) {
        struct stat st;
        int fd = open_path(paths[i]);
        if (fstat(fd, &st))
            die(paths[i]);
        bytes += read_whole(fd, buf, (size_t)st.st_size, step, paths[i]);
        ops++;
        close(fd);
    }
}

static void run_small(char *buf) { small_or_seq(buf, BUFFER); }

static void run_seq(char *buf) { small_or_seq(buf, SEQ_READ); }

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

static void run_rand(char *buf)
{
    for (size_t i; (i = next_item++) < nops;) {
        uint64_t r = mix(seed * UINT64_C(1000003) + i);
        size_t f = r % npaths;
        uint64_t off = (r >> 16) % (sizes[f] / RAND_READ) * RAND_READ;
        if (pread(fds[f], buf, RAND_READ, (off_t)off) != RAND_READ)
            die(paths[f]);
        bytes += RAND_READ;
        ops++;
    }
}

static void run_mmap(char *buf)
{
    (void)buf;
    for (size_t i; (i = next_item++) < npaths;) {
        struct stat st;
        int fd = open_path(paths[i]);
        if (fstat(fd, &st))
            die(paths[i]);
        const uint64_t *m = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (m == MAP_FAILED)
            die(paths[i]);
        uint64_t sum = 0;
        for (size_t k = 0; k < (size_t)st.st_size / 8; k += 8)
            sum += m[k];
        sink += sum;
        munmap((void *)m, (size_t)st.st_size);
        bytes += (uint64_t)st.st_size;
        ops++;
        close(fd);
    }
}

static void run_stat(char *buf)
{
    (void)buf;
    for (size_t i; (i = next_item++) < npaths;) {
        struct stat st;
        if (fstatat(root_fd, paths[i], &st, 0))
            die(paths[i]);
        ops++;
    }
}

static void walk(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d)
        die(name);
    for (struct dirent *de; (de = readdir(d));) {
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
            continue;
        ops++;
        if (de->d_type == DT_DIR)
            walk(fd, de->d_name);
    }
    closedir(d);
}

static void run_find(char *buf)
{
    (void)buf;
    walk(root_fd, ".");
}

static void read_list(const char *file)
{
    size_t cap = 0, len = 0;
    char *line = NULL;
    FILE *f = fopen(file, "re");
    if (!f)
        die(file);
    for (ssize_t n; (n = getline(&line, &len, f)) > 0;) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        if (npaths == cap
            && !(paths = realloc(paths, (cap = cap ? cap * 2 : 1024) * sizeof *paths)))
            die("list");
        if (!(paths[npaths++] = strdup(line)))
            die("list");
    }
    free(line);
    fclose(f);
}

static void open_all(void)
{
    fds = calloc(npaths, sizeof *fds);
    sizes = calloc(npaths, sizeof *sizes);
    for (size_t i = 0; i < npaths; i++) {
        struct stat st;
        fds[i] = open_path(paths[i]);
        if (fstat(fds[i], &st) || st.st_size < (off_t)RAND_READ)
            die(paths[i]);
        sizes[i] = (uint64_t)st.st_size;
    }
}

static void *thread(void *arg)
{
    char *buf = aligned_alloc(4096, BUFFER);
    (void)arg;
    if (!buf)
        die("buffer");
    memset(buf, 1, BUFFER); /* its page faults are not the file system's */
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&ready);
    work(buf);
    free(buf);
    return NULL;
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double cpu(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec)
        + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(char *buf);
    } workloads[] = {{"small", run_small}, {"seq", run_seq}, {"rand", run_rand}, {"mmap", run_mmap},
        {"find", run_find}, {"stat", run_stat}};
    for (size_t i = 0; argc >= 5 && i < sizeof workloads / sizeof workloads[0]; i++)
        if (strcmp(argv[1], workloads[i].name) == 0)
            work = workloads[i].run;
    int n = argc >= 5 ? atoi(argv[4]) : 0;
    if (!work || n < 1 || n > THREADS_MAX) {
        fputs(
            "usage: fs_read small|seq|rand|mmap|find|stat ROOT LIST THREADS [OPS SEED]\n", stderr);
        return 2;
    }
    nops = argc > 5 ? (size_t)atol(argv[5]) : 0;
    seed = argc > 6 ? (uint64_t)atol(argv[6]) : 1;
    read_list(argv[3]);
    root_fd = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        die(argv[2]);
    if (work == run_rand)
        open_all();
    pthread_t threads[THREADS_MAX];
    pthread_barrier_init(&ready, NULL, (unsigned)n + 1);
    for (int i = 0; i < n; i++)
        if ((errno = pthread_create(&threads[i], NULL, thread, NULL)))
            die("thread");
    pthread_barrier_wait(&ready);
    double cpu0 = cpu(), start = now();
    pthread_barrier_wait(&ready);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    printf("%.6f %llu %llu %.4f\n", now() - start, (unsigned long long)bytes,
        (unsigned long long)ops, cpu() - cpu0);
    return 0;
}
