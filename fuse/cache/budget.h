/* SPDX-License-Identifier: Apache-2.0 */
/* budget — the memory that fetches may hold together, and the buffers themselves. What a reader
 * waits for is always admitted (force); reading ahead must reserve (try) and does without where it
 * can't. Threads: any. Locks: budget.mu, a leaf. */
#ifndef MILLRACE_FUSE_CACHE_BUDGET_H
#define MILLRACE_FUSE_CACHE_BUDGET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUDGET_CLASSES    6 /* buffers of 1, 2, 4, 8, 16, 32 MiB */
#define BUDGET_BUFFER_MAX ((size_t)1 << (20 + BUDGET_CLASSES - 1))

struct budget {
    int64_t limit; /* bytes */
    _Atomic int64_t used, peak;
    pthread_mutex_t mu;
    struct budget_free {
        struct budget_free *next;
        int64_t since_ns;
    } * idle[BUDGET_CLASSES]; /* mu: buffers ready for re-use */
    size_t idle_bytes;        /* mu */
};

void budget_init(struct budget *b, int64_t limit);
void budget_fini(struct budget *b);
bool budget_try(struct budget *b, int64_t n);
void budget_force(struct budget *b, int64_t n);
void budget_release(struct budget *b, int64_t n);
/* at least len bytes; NULL: no memory, or more than BUDGET_BUFFER_MAX */
void *budget_buffer(struct budget *b, size_t len);
void budget_buffer_put(struct budget *b, void *buf, size_t len); /* the same len */
/* frees buffers that were not used since then */
void budget_trim(struct budget *b, int64_t idle_since_ns);

/* Bytes for buffers in this process: a share of what the cgroup (v2 or v1) leaves after mem_quota
 * bytes of memory tier; of the machine's memory if there is no limit. Between 16 and 256 MiB. */
int64_t budget_detect(int64_t mem_quota);
/* The memory limit of this process's cgroup, or the machine's memory; root: "/" (tests: a directory
 * that holds proc/ and sys/). */
int64_t budget_memory_limit(const char *root);
/* the text of a file, to be freed; NULL: it cannot be read */
typedef char *(*budget_read)(void *user, const char *path);
int64_t budget_limit_of(budget_read read, void *user); /* the same, from such files */

#endif
