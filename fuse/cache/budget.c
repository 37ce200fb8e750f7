/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/budget.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define IDLE_BYTES_MAX (64u << 20)
#define BUDGET_MIN     (INT64_C(16) << 20)
#define BUDGET_MAX     (INT64_C(256) << 20)

void budget_init(struct budget *b, int64_t limit)
{
    memset(b, 0, sizeof *b);
    b->limit = limit;
    pthread_mutex_init(&b->mu, NULL);
}

void budget_fini(struct budget *b)
{
    budget_trim(b, INT64_MAX);
    pthread_mutex_destroy(&b->mu);
}

static void note_peak(struct budget *b, int64_t now)
{
    int64_t peak = atomic_load_explicit(&b->peak, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak(&b->peak, &peak, now))
        ;
}

bool budget_try(struct budget *b, int64_t n)
{
    int64_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
    do {
        if (used + n > b->limit)
            return false;
    } while (!atomic_compare_exchange_weak(&b->used, &used, used + n));
    note_peak(b, used + n);
    return true;
}

void budget_force(struct budget *b, int64_t n) { note_peak(b, atomic_fetch_add(&b->used, n) + n); }

void budget_release(struct budget *b, int64_t n) { atomic_fetch_sub(&b->used, n); }

static int class_of(size_t len)
{
    int k = 0;
    while (k < BUDGET_CLASSES - 1 && len > (size_t)1 << (20 + k))
        k++;
    return k;
}

void *budget_buffer(struct budget *b, size_t len)
{
    if (len > BUDGET_BUFFER_MAX)
        return NULL;
    int k = class_of(len);
    size_t bytes = (size_t)1 << (20 + k);
    pthread_mutex_lock(&b->mu);
    struct budget_free *f = b->idle[k];
    if (f) {
        b->idle[k] = f->next;
        b->idle_bytes -= bytes;
    }
    pthread_mutex_unlock(&b->mu);
    if (f)
        return f;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void budget_buffer_put(struct budget *b, void *buf, size_t len)
{
    if (!buf)
        return;
    int k = class_of(len);
    size_t bytes = (size_t)1 << (20 + k);
    struct budget_free *f = buf;
    f->since_ns = clock_mono_ns();
    pthread_mutex_lock(&b->mu);
    bool keep = b->idle_bytes + bytes <= IDLE_BYTES_MAX
        && (int64_t)(b->idle_bytes + bytes) <= b->limit;
    if (keep) {
        f->next = b->idle[k];
        b->idle[k] = f;
        b->idle_bytes += bytes;
    }
    pthread_mutex_unlock(&b->mu);
    if (!keep)
        munmap(buf, bytes);
}

void budget_trim(struct budget *b, int64_t idle_since_ns)
{
    for (int k = 0; k < BUDGET_CLASSES; k++) {
        size_t bytes = (size_t)1 << (20 + k);
        struct budget_free *gone = NULL;
        pthread_mutex_lock(&b->mu);
        for (struct budget_free **at = &b->idle[k]; *at;) {
            struct budget_free *f = *at;
            if (f->since_ns > idle_since_ns) {
                at = &f->next;
                continue;
            }
            *at = f->next;
            f->next = gone;
            gone = f;
            b->idle_bytes -= bytes;
        }
        pthread_mutex_unlock(&b->mu);
        while (gone) {
            struct budget_free *next = gone->next;
            munmap(gone, bytes);
            gone = next;
        }
    }
}

/* -- the cgroup's limit ---------------------------------------------------------------------- */

static int64_t read_number(
    budget_read read, void *user, const char *dir, const char *group, const char *file)
{
    cleanup_free char *path = xasprintf("%s%s/%s", dir, group, file);
    cleanup_free char *text = read(user, path);
    if (!text)
        return INT64_MAX;
    char *end;
    unsigned long long v = strtoull(text, &end, 10); /* "max" is no number */
    return end == text || v > INT64_MAX / 2 ? INT64_MAX : (int64_t)v;
}

/* The smallest limit from the group up to the root of the hierarchy. Inside a container the group
 * may be named by a path that its own view of the file system does not have: then only the mount's
 * root is there, and it is our group. */
static int64_t group_limit(
    budget_read read, void *user, const char *dir, const char *group, const char *file)
{
    cleanup_free char *g = xstrdup(group);
    int64_t least = INT64_MAX;
    for (;;) {
        least = MIN(least, read_number(read, user, dir, strcmp(g, "/") == 0 ? "" : g, file));
        char *slash = strrchr(g, '/');
        if (!slash || !*g)
            return least;
        *slash = '\0';
    }
}

int64_t budget_limit_of(budget_read read, void *user)
{
    int64_t least = INT64_MAX;
    cleanup_free char *groups = read(user, "/proc/self/cgroup");
    char *save = NULL;
    for (char *line = groups ? strtok_r(groups, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        char *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group || strlen(group) > PATH_MAX)
            continue;
        *group++ = '\0';
        if (controllers[1] == '\0')
            least = MIN(least, group_limit(read, user, "/sys/fs/cgroup", group, "memory.max"));
        else if (strstr(controllers + 1, "memory"))
            least = MIN(least,
                group_limit(read, user, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
    cleanup_free char *info = read(user, "/proc/meminfo");
    const char *total = info ? strstr(info, "MemTotal:") : NULL;
    int64_t kib;
    if (total && sscanf(total, "MemTotal: %" SCNd64, &kib) == 1 && kib > 0
        && kib <= INT64_MAX >> 10)
        least = MIN(least, kib << 10);
    return least == INT64_MAX ? INT64_C(1) << 30 : least;
}

static char *read_below(void *root, const char *path)
{
    cleanup_free char *whole = xasprintf("%s%s", (const char *)root, path);
    return file_read(whole, 65536, NULL, NULL);
}

int64_t budget_memory_limit(const char *root)
{
    cleanup_free char *below = xstrdup(strcmp(root, "/") == 0 ? "" : root);
    return budget_limit_of(read_below, below);
}

int64_t budget_detect(int64_t mem_quota)
{
    int64_t left = budget_memory_limit("/") - mem_quota;
    return MAX(BUDGET_MIN, MIN(BUDGET_MAX, left / 2));
}
