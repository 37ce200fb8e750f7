/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/csi_reader.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct reader {
    atomic_int rounds, failed;
    atomic_bool stop;
    pid_t pid;
};

static unsigned char byte_of(size_t i) { return (unsigned char)(i * 2654435761u >> 21); }

int reader_once(const char *path)
{
    static unsigned char block[1 << 16];
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    size_t at = 0;
    for (ssize_t n; (n = read(fd, block, sizeof block)) != 0; at += (size_t)n) {
        if (n < 0)
            return errno;
        for (ssize_t i = 0; i < n; i++)
            if (block[i] != byte_of(at + (size_t)i))
                return EBADMSG;
    }
    return at == FILE_BYTES ? 0 : EMSGSIZE;
}

struct reader *reader_start(const char *path)
{
    struct reader *r = mmap(
        NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(r != MAP_FAILED);
    pid_t pid = fork();
    if (pid > 0) {
        r->pid = pid;
        return r;
    }
    while (!atomic_load(&r->stop)) {
        int error = reader_once(path);
        if (error)
            atomic_store(&r->failed, error);
        atomic_fetch_add(&r->rounds, 1);
    }
    _exit(0);
}

void reader_goes_on(struct reader *r)
{
    int64_t until = clock_mono_ns() + PATIENT_MS * NS_PER_MS;
    int was = atomic_load(&r->rounds);
    while (atomic_load(&r->rounds) < was + 3 && clock_mono_ns() < until)
        clock_sleep_ns(10 * NS_PER_MS);
    assert_true(atomic_load(&r->rounds) >= was + 3);
    assert_int_equal(atomic_load(&r->failed), 0);
}

void reader_end(struct reader *r)
{
    atomic_store(&r->stop, true);
    assert_int_equal(waitpid(r->pid, NULL, 0), r->pid);
    assert_int_equal(atomic_load(&r->failed), 0);
    print_message("# the reader read the file %d times\n", atomic_load(&r->rounds));
    munmap(r, sizeof *r);
}

void reader_data(const char *path)
{
    struct err e = ERR_INIT;
    unsigned char *bytes = xmalloc(FILE_BYTES);
    for (size_t i = 0; i < FILE_BYTES; i++)
        bytes[i] = byte_of(i);
    if (file_write_atomic(path, bytes, FILE_BYTES, 0644, &e))
        exit(1);
    free(bytes);
}
