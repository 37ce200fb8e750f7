/* SPDX-License-Identifier: Apache-2.0 */
/* fs_make — files like a folder of photographs: FILES of 20 to 204 KB, 112 KB in the mean, spread
 * over DIRECTORIES; or, with BYTES, files of that size. The same arguments make the same bytes,
 * which do not compress. Prints their paths. fs_make ROOT FILES DIRECTORIES|- [BYTES] */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (1u << 20)

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "fs_make: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void fill(uint64_t *words, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof *words + 1; i++)
        words[i] = draw();
}

static void make(const char *path, uint64_t bytes, uint64_t *words)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        die(path);
    for (uint64_t done = 0; done < bytes;) {
        size_t part = bytes - done < CHUNK ? (size_t)(bytes - done) : CHUNK;
        fill(words, part);
        if (write(fd, words, part) != (ssize_t)part)
            die(path);
        done += part;
    }
    close(fd);
    puts(path);
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5) {
        fputs("usage: fs_make ROOT FILES DIRECTORIES|- [BYTES]\n", stderr);
        return 2;
    }
    long files = atol(argv[2]), dirs = atol(argv[3]);
    uint64_t fixed = argc > 4 ? strtoull(argv[4], NULL, 10) : 0,
             *words = malloc(CHUNK + sizeof *words);
    if (!words || chdir(argv[1]))
        die(argv[1]);
    char path[64];
    for (long i = 0; i < dirs; i++) {
        snprintf(path, sizeof path, "d%03ld", i);
        if (mkdir(path, 0755))
            die(path);
    }
    for (long i = 0; i < files; i++) {
        uint64_t bytes = 20000;
        for (int k = 0; k < 4; k++) /* a sum of four is nearly a bell */
            bytes += draw() % 46000;
        if (dirs > 0)
            snprintf(path, sizeof path, "d%03ld/f%05ld.jpg", i % dirs, i);
        else
            snprintf(path, sizeof path, "shard-%ld", i);
        make(path, fixed ? fixed : bytes, words);
    }
    free(words);
    return 0;
}
