/* SPDX-License-Identifier: Apache-2.0 */
/* sim — staging, index, cache and recovery of a mount on a disk that forgets, a store that loses
 * answers, users of this node and of another one, and processes that die anywhere. Each run is a
 * seed; the same seed is the same run.
 *   sim [FIRST [COUNT]]      runs so many seeds, a process for each core
 *   sim -1 [FIRST [COUNT]]   the same, until one of them fails
 *   sim -t [FIRST [COUNT]]   the same, and prints a hash of all that happened in each: it is the
 * same whenever and wherever the seed is run sim -v SEED              one, in words */
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "tests/sim/life.h"
#include "tests/sim/world.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIVES     4
#define WRONG_MAX 20

/* -- one run --------------------------------------------------------------------------------- */

/* What happens to the process, and what that means for the next one. */
static void end_of_life(void)
{
    switch (world_random(4)) {
    case 0: /* the pod is gone, too: nobody has its mount any more */
        world->mounted = false;
        break;
    case 1: /* the machine */
        disk_cut(&world->disk, sim_random(&world->random));
        truths_cut();
        world->boot++;
        world->mounted = false;
        break;
    default:
        break;
    }
    world->resume = world->mounted;
    if (!world->resume && (world->op.kind == OP_UNLINK || world->op.kind == OP_RENAME))
        world->alone = false; /* the store may have done it, and nobody goes on with it */
    if (!world->resume) {
        for (unsigned i = 0; i < FILES; i++)
            world->files[i].open = false;
        world->op.kind = OP_NONE;
    }
    world->clock_ns += (int64_t)world_random(100) * NS_PER_S;
    world_say("%s", world->resume ? "killed" : "gone");
}

static void live(unsigned ops, bool last)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        alarm(120);
        life_run(ops, last);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        abort();
    if (WIFSIGNALED(status))
        world_wrong("the process ended with signal %d%s", WTERMSIG(status),
            WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    else if (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != DISK_KILLED)
        world_wrong("the process ended with %d", WEXITSTATUS(status));
}

/* The cache makes hundreds of directories at its first start. A process that died at one of them
 * would have shown no more than that: they are made once, before anything is counted. */
static void furnish(const char *dir)
{
    memset(world, 0, sizeof *world);
    disk_init(&world->disk, dir);
    live(0, false);
    disk_clear(&world->disk, "blocks");
}

/* Another store is mounted there for a while: nothing of ours may come into it. */
static void live_elsewhere(void)
{
    world_say("another store is mounted");
    world->disk.ops = world->disk.die_at = 0;
    world->elsewhere = true;
    live(0, false);
    world->elsewhere = false;
}

static bool traced;

static bool run(uint64_t seed, const char *dir, bool verbose)
{
    memset(world, 0, sizeof *world);
    world->seed = world->random = world->entropy = seed;
    world->verbose = verbose;
    world->boot = 1;
    world->refused_ns = -100 * NS_PER_S;
    disk_init(&world->disk, dir);
    disk_settle(&world->disk);
    static const struct content none;
    for (unsigned i = 0; i < FILES; i++) {
        truth_add(i, DONE, &none);
        if (world_random(2))
            others_put(i);
    }
    world->alone = seed / 4 % 2;
    unsigned lives = 1 + (unsigned)world_random(LIVES);
    for (unsigned i = 0; i < lives && !world->wrong[0]; i++) {
        world->disk.ops = 0;
        world->disk.die_at = world_random(4) ? 1 + world_random(120) : 0;
        world->disk.torn = world_random(2);
        live(5 + (unsigned)world_random(30), false);
        if (!world->wrong[0])
            end_of_life();
        if (!world->wrong[0] && !world->mounted && world_random(3) == 0)
            live_elsewhere();
    }
    world->disk.ops = world->disk.die_at = 0;
    if (!world->wrong[0])
        live(0, true);
    disk_clear(&world->disk, "blocks");
    if (world->wrong[0])
        printf("seed %" PRIu64 ": %s\n", seed, world->wrong);
    if (traced)
        printf("%" PRIu64 " %016" PRIx64 "\n", seed, world->trace);
    fflush(stdout);
    return !world->wrong[0];
}

/* -- many ------------------------------------------------------------------------------------ */

static int run_many(
    uint64_t first, uint64_t count, unsigned step, const char *top, _Atomic unsigned *left)
{
    char dir[128];
    int wrong = 0;
    snprintf(dir, sizeof dir, "%s/%u", top, (unsigned)getpid());
    if (mkdir(dir, 0700))
        abort();
    furnish(dir);
    for (uint64_t i = 0; i < count && atomic_load(left); i += step)
        if (!run(first + i, dir, false)) {
            wrong++;
            unsigned now = atomic_load(left);
            while (now && !atomic_compare_exchange_weak(left, &now, now - 1))
                continue;
        }
    disk_remove(&world->disk);
    rmdir(dir);
    return wrong ? 1 : 0;
}

static void *shared(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        abort();
    return at;
}

int main(int argc, char **argv)
{
    char top[] = "/dev/shm/millrace-sim.XXXXXX";
    bool one = argc == 3 && strcmp(argv[1], "-v") == 0;
    bool until = argc > 1 && strcmp(argv[1], "-1") == 0;
    traced = argc > 1 && strcmp(argv[1], "-t") == 0;
    argc -= until || traced;
    argv += until || traced;
    uint64_t first = argc > 1 && !one ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 && !one ? strtoull(argv[2], NULL, 10) : 1000;
    unsigned cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    int failed = 0, status;
    if (!mkdtemp(top)) {
        perror(top);
        return 2;
    }
    log_init("sim", one ? LOG_DEBUG : LOG_ERROR);
    log_plain();
    if (!one && !freopen("/dev/null", "w", stderr)) /* errors are what it is made of */
        return 2;
    _Atomic unsigned *left = shared(sizeof *left);
    atomic_store(left, until ? 1 : WRONG_MAX);
    for (unsigned i = 0; i < (one ? 1 : cores); i++) {
        if (!one && fork())
            continue;
        world = shared(sizeof *world);
        if (!one)
            exit(run_many(first + i, count > i ? count - i : 0, cores, top, left));
        furnish(top);
        failed = !run(strtoull(argv[2], NULL, 10), top, true);
        disk_remove(&world->disk);
    }
    while (!one && wait(&status) > 0)
        failed |= status != 0;
    rmdir(top);
    if (!failed)
        printf("%" PRIu64 " seeds from %" PRIu64 ": nothing wrong\n", one ? 1 : count, first);
    return failed;
}
