/* SPDX-License-Identifier: Apache-2.0 */
/* fs_download — the raw rate of an S3 server and a disk: objects downloaded by plain threads over
 * kept connections, each written to a file. fs_download ENDPOINT BUCKET LIST DIRECTORY THREADS
 * [SIZE] LIST: keys, one a line. Without SIZE each thread takes the next object; with it all
 * objects have SIZE bytes and threads take the next 8 MiB range. Keys of the account:
 * AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY. Prints: seconds bytes operations cpu-seconds. */
#include "fuse/store/sigv4.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/http.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define RANGE       (8u << 20)
#define OBJECT_MAX  (64u << 20)
#define THREADS_MAX 256

static const char *endpoint, *bucket, *directory, *key_id;
static char **keys;
static int *fds; /* with SIZE */
static size_t nkeys;
static uint64_t size;
static struct http *http;
static struct sigv4_scope scope = {.region = "us-east-1", .service = "s3"};
static unsigned char key[32];
static atomic_size_t next_item;
static _Atomic uint64_t bytes, ops;

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "fs_download: %s: %s\n", what, why);
    exit(1);
}

struct body {
    char *data;
    size_t len;
};

static int take(void *user, const void *data, size_t len)
{
    struct body *b = user;
    if (len > OBJECT_MAX - b->len)
        return 1;
    memcpy(b->data + b->len, data, len);
    b->len += len;
    return 0;
}

static void get(const char *object, uint64_t off, uint64_t len, struct body *body)
{
    cleanup_free char *path = xasprintf("/%s/%s", bucket, object),
                      *url = xasprintf("%s%s", endpoint, path);
    struct sigv4_pair pairs[] = {{"host", strstr(endpoint, "//") + 2},
        {"x-amz-content-sha256", SIGV4_UNSIGNED}, {"x-amz-date", scope.time}};
    struct sigv4_req sign = {"GET", path, "", pairs, ARRAY_LEN(pairs), SIGV4_UNSIGNED};
    cleanup_free char *auth = sigv4_authorization(&sign, &scope, key_id, key);
    cleanup_free char *h1 = xasprintf("authorization: %s", auth),
                      *h2 = xasprintf("x-amz-date: %s", scope.time);
    cleanup_free char *range = len
        ? xasprintf("range: bytes=%" PRIu64 "-%" PRIu64, off, off + len - 1)
        : NULL;
    const char *headers[] = {h1, h2, "x-amz-content-sha256: " SIGV4_UNSIGNED, range, NULL};
    struct http_req req = {
        .method = "GET", .url = url, .headers = headers, .sink = take, .sink_user = body};
    struct http_resp resp = {0};
    struct err e = ERR_INIT;
    body->len = 0;
    if (http_do(http, &req, &resp, &e))
        die(object, e.msg);
    if (resp.status / 100 != 2 || (len && body->len != len))
        die(object, "the server did not send it");
    http_resp_free(&resp);
}

static void put(int fd, const struct body *b, uint64_t off, const char *name)
{
    for (size_t done = 0; done < b->len;) {
        ssize_t n = pwrite(fd, b->data + done, b->len - done, (off_t)(off + done));
        if (n <= 0)
            die(name, strerror(errno));
        done += (size_t)n;
    }
    bytes += b->len;
    ops++;
}

static int make(size_t i)
{
    cleanup_free char *name = xasprintf("%s/%zu", directory, i);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        die(name, strerror(errno));
    return fd;
}

static void *thread(void *arg)
{
    struct body b = {malloc(OBJECT_MAX), 0};
    (void)arg;
    uint64_t ranges = size ? (size + RANGE - 1) / RANGE : 1;
    for (size_t i; (i = next_item++) < nkeys * ranges;) {
        size_t k = i / ranges;
        uint64_t off = i % ranges * RANGE;
        get(keys[k], off, size ? MIN(size - off, (uint64_t)RANGE) : 0, &b);
        int fd = size ? fds[k] : make(k);
        put(fd, &b, off, keys[k]);
        if (!size)
            close(fd);
    }
    free(b.data);
    return NULL;
}

static void read_list(const char *file)
{
    size_t cap = 0, len = 0;
    char *line = NULL;
    FILE *f = fopen(file, "re");
    if (!f)
        die(file, strerror(errno));
    for (ssize_t n; (n = getline(&line, &len, f)) > 0;) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        if (nkeys == cap)
            keys = xrealloc(keys, (cap = cap ? cap * 2 : 1024) * sizeof *keys);
        keys[nkeys++] = xstrdup(line);
    }
    free(line);
    fclose(f);
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    int n = argc >= 6 ? atoi(argv[5]) : 0;
    const char *secret = getenv("AWS_SECRET_ACCESS_KEY");
    key_id = getenv("AWS_ACCESS_KEY_ID");
    if (n < 1 || n > THREADS_MAX || !key_id || !secret || !strstr(argv[1], "//")) {
        fputs(
            "usage: fs_download ENDPOINT BUCKET LIST DIRECTORY THREADS [SIZE], with keys in the environment\n",
            stderr);
        return 2;
    }
    endpoint = argv[1];
    bucket = argv[2];
    directory = argv[4];
    size = argc > 6 ? strtoull(argv[6], NULL, 10) : 0;
    read_list(argv[3]);
    sigv4_time(clock_real_ns(), scope.time);
    sigv4_key(secret, &scope, key);
    if (!(http = http_new(&(struct http_conf){.max_idle = THREADS_MAX}, &e)))
        die(endpoint, e.msg);
    int64_t start = clock_mono_ns();
    fds = xcalloc(nkeys + 1, sizeof *fds);
    for (size_t i = 0; size && i < nkeys; i++)
        fds[i] = make(i);
    pthread_t threads[THREADS_MAX];
    for (int i = 0; i < n; i++)
        if ((errno = pthread_create(&threads[i], NULL, thread, NULL)))
            die("thread", strerror(errno));
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    double took = (double)(clock_mono_ns() - start) / NS_PER_S;
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    printf("%.6f %" PRIu64 " %" PRIu64 " %.4f\n", took, bytes, ops,
        (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec)
            + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6);
    return 0;
}
