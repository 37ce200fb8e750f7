/* SPDX-License-Identifier: Apache-2.0 */
/* What the product asks of the machine: the time, random numbers, and threads. There is one thread
 * only: what is handed to others waits until world_work() is called, or until somebody waits for
 * it. So the same seed is the same run, however busy the machine is. */
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/pool.h"
#include "lib/base/task.h"
#include "tests/sim/world.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- time and chance ------------------------------------------------------------------------- */

#define EPOCH_S 1001000000 /* of a clock on the wall, in a world that begins */
#define TICK_NS (4 * NS_PER_MS)

/* Time is what the world says, and a moment more each time it is asked. */
static int64_t sim_now(void) { return world->clock_ns + (int64_t)++world->asked * 1000; }

int64_t __wrap_clock_mono_ns(void);
int64_t __wrap_clock_mono_ns(void) { return 1000000 * NS_PER_S + sim_now(); }

int64_t __wrap_clock_real_ns(void);
int64_t __wrap_clock_real_ns(void) { return EPOCH_S * NS_PER_S + sim_now(); }

void __wrap_clock_sleep_ns(int64_t ns);
void __wrap_clock_sleep_ns(int64_t ns)
{
    world->clock_ns += ns;
    world_work(1);
}

int64_t world_file_time(void)
{
    int64_t now = __wrap_clock_real_ns();
    return world->seed & 1 ? now - now % TICK_NS : now; /* as file systems differ */
}

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)buf)[i] = (unsigned char)sim_random(&world->entropy);
    return (ssize_t)len;
}

void __wrap_boot_id(char *out, size_t size);
void __wrap_boot_id(char *out, size_t size)
{
    snprintf(out, size, "00000000-0000-4000-8000-%012" PRIx64, world->boot);
}

/* -- threads --------------------------------------------------------------------------------- */

struct pool {
    unsigned queued[POOL_LANES];
};

struct job {
    struct job *next;
    struct pool *pool;
    unsigned lane;
    void (*run)(void *arg);
    void *arg;
};

static struct job *jobs; /* lane by lane, the first first */

static int job_add(struct pool *p, unsigned lane, void (*run)(void *arg), void *arg)
{
    struct job *j = malloc(sizeof *j), **at = &jobs;
    if (!j)
        return -1;
    while (*at && (*at)->lane <= lane)
        at = &(*at)->next;
    *j = (struct job){*at, p, lane, run, arg};
    *at = j;
    if (p)
        p->queued[lane]++;
    return 0;
}

unsigned world_work(unsigned most)
{
    unsigned n = 0;
    for (struct job *j; n < most && (j = jobs); n++) {
        jobs = j->next;
        if (j->pool)
            j->pool->queued[j->lane]--;
        j->run(j->arg);
        free(j);
    }
    return n;
}

struct pool *__wrap_pool_new(const struct pool_conf *conf);
struct pool *__wrap_pool_new(const struct pool_conf *conf)
{
    (void)conf;
    return calloc(1, sizeof(struct pool));
}

int __wrap_pool_add(struct pool *p, unsigned lane, void (*run)(void *arg), void *arg);
int __wrap_pool_add(struct pool *p, unsigned lane, void (*run)(void *arg), void *arg)
{
    return job_add(p, lane, run, arg);
}

unsigned __wrap_pool_queued(struct pool *p, unsigned lane);
unsigned __wrap_pool_queued(struct pool *p, unsigned lane) { return p->queued[lane]; }

void __wrap_pool_free(struct pool *p);
void __wrap_pool_free(struct pool *p)
{
    world_work(UINT_MAX);
    free(p);
}

static void task_run(void *arg)
{
    struct task *t = arg;
    t->fn(t->user);
}

int __wrap_task_start(
    struct task *t, const char *name, void (*fn)(void *user), void *user, struct err *e);
int __wrap_task_start(
    struct task *t, const char *name, void (*fn)(void *user), void *user, struct err *e)
{
    (void)e;
    *t = (struct task){.started = true, .name = name, .fn = fn, .user = user};
    return job_add(NULL, POOL_LANES - 1, task_run, t);
}

/* Its time comes once. */
bool __wrap_task_wait(struct task *t, int64_t until_mono_ns);
bool __wrap_task_wait(struct task *t, int64_t until_mono_ns)
{
    (void)until_mono_ns;
    bool stop = t->woken;
    t->woken = true;
    return stop;
}

void __wrap_task_stop(struct task *t);
void __wrap_task_stop(struct task *t) { t->started = false; }

static void work_for(pthread_mutex_t *mu)
{
    pthread_mutex_unlock(mu);
    if (!world_work(1)) {
        world_wrong("the process waits for nobody");
        _exit(0);
    }
    pthread_mutex_lock(mu);
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *mu);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *mu)
{
    (void)c;
    work_for(mu);
    return 0;
}

int __wrap_clock_cond_wait(pthread_cond_t *c, pthread_mutex_t *mu, int64_t until_mono_ns);
int __wrap_clock_cond_wait(pthread_cond_t *c, pthread_mutex_t *mu, int64_t until_mono_ns)
{
    (void)c;
    (void)until_mono_ns;
    work_for(mu);
    return 0;
}

int __wrap_pthread_create(
    pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(
    pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    (void)thread;
    (void)attr;
    (void)fn;
    (void)arg;
    world_wrong("a thread is started past pool and task: no run would be the same again");
    _exit(0);
}

/* -- directories ----------------------------------------------------------------------------- */

/* Each file system has an order of its own: here it is by name. */
static struct listing {
    DIR *dir;
    struct dirent *entries;
    size_t n, at;
} listings[8];

struct dirent *__real_readdir(DIR *dir);
int __real_closedir(DIR *dir);

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct dirent *)a)->d_name, ((const struct dirent *)b)->d_name);
}

static struct listing *listing_of(DIR *dir)
{
    for (size_t i = 0; i < sizeof listings / sizeof *listings; i++)
        if (listings[i].dir == dir)
            return &listings[i];
    return NULL;
}

static struct listing *listing_new(DIR *dir)
{
    struct listing *l = listing_of(NULL);
    if (!l)
        abort();
    *l = (struct listing){.dir = dir};
    for (struct dirent *de; (de = __real_readdir(dir)); l->n++) {
        l->entries = realloc(l->entries, (l->n + 1) * sizeof *de);
        if (!l->entries)
            abort();
        memcpy(&l->entries[l->n], de, de->d_reclen);
    }
    if (l->n)
        qsort(l->entries, l->n, sizeof *l->entries, by_name);
    return l;
}

struct dirent *__wrap_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir)
{
    struct listing *l = listing_of(dir);
    if (!l)
        l = listing_new(dir);
    return l->at < l->n ? &l->entries[l->at++] : NULL;
}

int __wrap_closedir(DIR *dir);
int __wrap_closedir(DIR *dir)
{
    struct listing *l = listing_of(dir);
    if (l) {
        free(l->entries);
        *l = (struct listing){0};
    }
    return __real_closedir(dir);
}

/* A file's ctime is no time of this world: its mtime is. */
int __real_fstatat(int dir, const char *path, struct stat *st, int flags);
int __wrap_fstatat(int dir, const char *path, struct stat *st, int flags);
int __wrap_fstatat(int dir, const char *path, struct stat *st, int flags)
{
    int rc = __real_fstatat(dir, path, st, flags);
    if (rc == 0)
        st->st_ctim = st->st_mtim;
    return rc;
}
