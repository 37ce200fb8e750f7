/* SPDX-License-Identifier: Apache-2.0 */
/* Two mounts of one store that replace, append, rename and lock against each other, and a checker
 * over their history. One step at a time, drawn from a seed: opens and closes of the two overlap,
 * and a seed that fails fails again.
 *
 *   fuse_history MOUNT_A MOUNT_B SEED STEPS [OUT]
 *
 * With OUT, a path, the machine of A loses its power once: while there is a file OUT, what A does
 * may fail, and after it what A had open is lost; B goes on meanwhile, "alone" is said once it has
 * saved something, and STEPS more follow.
 * Writers are cut off in the middle: the first half of a value is written when its file is opened.
 *
 * What is checked (docs/concepts.md):
 * - a reader sees a whole value that somebody wrote, never a mix;
 * - a node sees what it has written itself and was told is saved, or something later;
 * - what was saved is lost to no write that began before: of two that overlap one is told, by an
 *   error of open, write, fsync or close; and none that failed before comes back later;
 * - a line that was appended and saved is there, once;
 * - O_EXCL has one owner. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define REGISTERS  3
#define LOGS       2
#define LOCKS      2
#define HANDLES    4
#define WRITES_MAX 4096
#define FILE_MAX   400000
#define END_S      90
#define PACE_US    4000 /* a step, while a machine is down: a history that can be looked through */
#define UNKNOWN    (-2) /* owner of a lock: the power went while it was taken or given back */

enum result { OPEN, SAVED, FAILED };

struct change {
    int node, file; /* file: a register, or REGISTERS + a log */
    unsigned begin, end;
    enum result result;
};

struct handle {
    int fd;
    unsigned change; /* its number; 0: none */
    size_t written;
};

static const char *mounts[2], *out_file;
static struct change changes[WRITES_MAX];
static unsigned nchanges = 1, step, saved, failed, refused, alone, seed;
static struct handle handles[2][HANDLES];
static int owner[LOCKS] = {-1, -1};
static char text[FILE_MAX + 1];

static void fail(const char *what, unsigned change, const char *file)
{
    fprintf(stderr, "seed %u, step %u: %s: %s, write %u\n", seed, step, file, what, change);
    for (unsigned i = 1; i < nchanges; i++)
        if (change == 0 || changes[i].file == changes[change].file)
            fprintf(stderr, "  write %u of node %c to %d: steps %u to %u, %s\n", i,
                'A' + changes[i].node, changes[i].file, changes[i].begin, changes[i].end,
                changes[i].result == SAVED        ? "saved"
                    : changes[i].result == FAILED ? "failed"
                                                  : "open");
    exit(1);
}

static bool is_out(int node) { return node == 0 && out_file && access(out_file, F_OK) == 0; }

static void path_of(int node, int file, char path[512])
{
    if (file < REGISTERS)
        snprintf(path, 512, "%s/r%d", mounts[node], file);
    else
        snprintf(path, 512, "%s/log%d", mounts[node], file - REGISTERS);
}

/* All of the file; -1 and errno. */
static ssize_t read_all(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = fd < 0 ? -1 : 0;
    while (fd >= 0 && len < FILE_MAX && (n = read(fd, text + len, FILE_MAX - len)) > 0)
        len += (size_t)n;
    int errnum = errno;
    if (fd >= 0)
        close(fd);
    errno = errnum;
    text[len] = '\0';
    return n < 0 ? -1 : (ssize_t)len;
}

/* A register's content: its number, again and again, of a length that tells it, too. */
static size_t value_of(unsigned change, char *out)
{
    size_t len = 0, want = 10 * (1 + change * 7919 % 9000);
    while (len < want)
        len += (size_t)sprintf(out + len, "%09u\n", change);
    return len;
}

/* The write that made it. */
static unsigned check_value(int file, size_t len, const char *path)
{
    static char want[FILE_MAX + 1];
    unsigned change = (unsigned)strtoul(text, NULL, 10);
    if (len == 0) /* truncated, by one whose other bytes are not there yet */
        return 0;
    if (change == 0 || change >= nchanges || changes[change].file != file)
        fail("a value that nobody wrote", 0, path);
    size_t whole = value_of(change, want);
    if (changes[change].result == OPEN && len < whole && memcmp(text, want, len) == 0)
        return 0; /* on the node that has it open */
    if (whole != len || memcmp(text, want, len) != 0)
        fail("a value that is not whole", change, path);
    return change;
}

/* Is there a write that was saved and began after this one had ended, well or not? (of that node;
 * -1: of any) */
static unsigned superseded_by(unsigned change, int file, int node)
{
    for (unsigned i = 1; i < nchanges; i++)
        if (changes[i].file == file && changes[i].result == SAVED && i != change
            && (node < 0 || changes[i].node == node)
            && (change == 0
                || (changes[change].result != OPEN && changes[i].begin > changes[change].end)))
            return i;
    return 0;
}

/* How often the line of that write is in the log. */
static unsigned count_lines(unsigned change)
{
    char line[32];
    unsigned n = 0;
    snprintf(line, sizeof line, "%09u\n", change);
    for (const char *p = text; (p = strstr(p, line)); p += strlen(line))
        n++;
    return n;
}

/* node: whose writes must be there; -1: those of both */
static void check_log(int file, size_t len, int node, const char *path)
{
    for (size_t at = 0; at < len; at += 10) {
        unsigned change = (unsigned)strtoul(text + at, NULL, 10);
        if (len - at < 10 || text[at + 9] != '\n' || change == 0 || change >= nchanges
            || changes[change].file != file)
            fail("a line that nobody wrote", 0, path);
    }
    for (unsigned i = 1; i < nchanges; i++) {
        if (changes[i].file != file)
            continue;
        unsigned n = count_lines(i);
        if (n > 1)
            fail("a line that is there twice", i, path);
        if (n == 0 && changes[i].result == SAVED && (node < 0 || changes[i].node == node))
            fail("a saved line is lost", i, path);
    }
}

/* -- steps ----------------------------------------------------------------------------------- */

static void begin_change(int node, int file, struct handle *h)
{
    static char value[FILE_MAX + 1];
    char path[512];
    path_of(node, file, path);
    int flags = file < REGISTERS ? O_WRONLY | O_CREAT | O_TRUNC : O_WRONLY | O_CREAT | O_APPEND;
    unsigned began = step;
    int fd = open(path, flags | O_CLOEXEC, 0644);
    if (fd < 0) {
        refused++;
        return;
    }
    if (nchanges == WRITES_MAX)
        exit(2);
    changes[nchanges] = (struct change){node, file, began, 0, OPEN};
    *h = (struct handle){.fd = fd, .change = nchanges++};
    if (out_file && file < REGISTERS) {
        ssize_t n = write(fd, value, value_of(h->change, value) / 20 * 10);
        h->written = n > 0 ? (size_t)n : 0;
    }
}

static void count(struct change *c, bool good)
{
    c->end = step;
    c->result = good ? SAVED : FAILED;
    *(good ? &saved : &failed) += 1;
    if (!good || c->node != 1 || !is_out(0) || alone++)
        return;
    puts("alone"); /* the power may come back */
    fflush(stdout);
}

static void end_change(struct handle *h)
{
    static char value[FILE_MAX + 1];
    struct change *c = &changes[h->change];
    size_t len = c->file < REGISTERS ? value_of(h->change, value)
                                     : (size_t)sprintf(value, "%09u\n", h->change);
    size_t rest = len - h->written;
    bool good = write(h->fd, value + h->written, rest) == (ssize_t)rest;
    good = close(h->fd) == 0 && good;
    count(c, good);
    *h = (struct handle){.fd = -1};
}

/* A new file that takes a register's name, as checkpoints are written. */
static void replace_by_rename(int node, int file)
{
    char path[512], temp[600];
    static char value[FILE_MAX + 1];
    path_of(node, file, path);
    snprintf(temp, sizeof temp, "%s/tmp-%d-%u", mounts[node], node, step);
    if (nchanges == WRITES_MAX)
        exit(2);
    struct change *c = &changes[nchanges];
    *c = (struct change){node, file, step, step, FAILED};
    size_t len = value_of(nchanges++, value);
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 && is_out(node))
        return count(c, false);
    if (fd < 0)
        fail("a name of its own cannot be made", nchanges - 1, temp);
    bool good = write(fd, value, len) == (ssize_t)len;
    good = close(fd) == 0 && good && rename(temp, path) == 0;
    count(c, good);
    if (!good)
        unlink(temp);
}

static void read_step(int node, int file)
{
    char path[512];
    path_of(node, file, path);
    ssize_t len = read_all(path);
    if (len < 0)
        return; /* not there, or replaced while it was read: an error, never wrong bytes */
    if (file >= REGISTERS)
        return check_log(file, (size_t)len, node, path);
    unsigned change = check_value(file, (size_t)len, path);
    unsigned later = change ? superseded_by(change, file, node) : 0;
    if (later)
        fail("a node does not see what it has saved itself", later, path);
}

static void lock_step(int node, int lock)
{
    char path[512];
    snprintf(path, sizeof path, "%s/lock%d", mounts[node], lock);
    if (owner[lock] == UNKNOWN)
        return;
    if (owner[lock] == node) {
        bool removed = unlink(path) == 0;
        if (!removed && !is_out(node))
            fail("the owner cannot remove its lock", 0, path);
        owner[lock] = removed ? -1 : UNKNOWN;
        return;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        if (owner[lock] < 0 && is_out(node))
            owner[lock] = UNKNOWN;
        return;
    }
    if (owner[lock] >= 0)
        fail("two nodes own one lock", 0, path);
    bool closed = close(fd) == 0;
    if (!closed && !is_out(node))
        fail("an empty lock cannot be closed", 0, path);
    owner[lock] = closed ? node : UNKNOWN;
}

static bool is_open(int node, int file)
{
    for (int i = 0; i < HANDLES; i++)
        if (handles[node][i].change && changes[handles[node][i].change].file == file)
            return true;
    return false;
}

static void one_step(void)
{
    int node = rand() % 2, file = rand() % (REGISTERS + LOGS);
    struct handle *h = &handles[node][rand() % HANDLES];
    switch (rand() % 10) {
    case 0:
        return lock_step(node, rand() % LOCKS);
    case 1:
        return replace_by_rename(node, rand() % REGISTERS);
    case 2:
    case 3:
    case 4:
        return read_step(node, file);
    default:
        if (h->change)
            end_change(h);
        else if (!is_open(node, file)) /* two on one node mix what they write, as on a disk */
            begin_change(node, file, h);
    }
}

static void end_all(int node)
{
    for (int i = 0; i < HANDLES; i++)
        if (handles[node][i].change)
            end_change(&handles[node][i]);
}

/* Until A was out and is back. */
static void steps_through_cut(void)
{
    for (bool was_out = false, back = false; !back; back = was_out && !is_out(0)) {
        step++;
        one_step();
        was_out = was_out || is_out(0);
        usleep(PACE_US);
    }
    end_all(0); /* what the old mount had open */
    if (!alone)
        fail("the other node saves nothing meanwhile", 0, mounts[1]);
}

/* -- the end --------------------------------------------------------------------------------- */

/* Both nodes have the same, once what they knew is old: that is the file. */
static size_t settle(int file, char path[512])
{
    static char other[FILE_MAX + 1];
    time_t until = time(NULL) + END_S;
    for (;;) {
        path_of(0, file, path);
        ssize_t a = read_all(path);
        memcpy(other, text, a > 0 ? (size_t)a : 0);
        path_of(1, file, path);
        ssize_t b = read_all(path);
        if (a >= 0 && a == b && memcmp(other, text, (size_t)a) == 0)
            return (size_t)b;
        if (time(NULL) > until)
            fail("the two nodes do not come to see the same", 0, path);
        usleep(200000);
    }
}

static void check_end(void)
{
    char path[512];
    for (int file = 0; file < REGISTERS + LOGS; file++) {
        size_t len = settle(file, path);
        if (file >= REGISTERS) {
            check_log(file, len, -1, path);
            continue;
        }
        unsigned change = check_value(file, len, path), later = superseded_by(change, file, -1);
        if (later)
            fail("a saved write is lost", later, path);
    }
}

int main(int argc, char **argv)
{
    if (argc != 5 && argc != 6) {
        fprintf(stderr, "usage: fuse_history MOUNT_A MOUNT_B SEED STEPS [OUT]\n");
        return 2;
    }
    out_file = argv[5];
    mounts[0] = argv[1];
    mounts[1] = argv[2];
    seed = (unsigned)strtoul(argv[3], NULL, 10);
    srand(seed);
    unsigned steps = (unsigned)strtoul(argv[4], NULL, 10);
    for (int file = 0; file < REGISTERS + LOGS; file++) { /* all are there */
        struct handle h = {.fd = -1};
        begin_change(0, file, &h);
        if (h.change)
            end_change(&h);
    }
    if (saved != REGISTERS + LOGS)
        fail("a first file cannot be written", 0, mounts[0]);
    if (out_file) {
        puts("begun");
        fflush(stdout);
        steps_through_cut();
    }
    for (unsigned last = step + steps; step < last;) {
        step++;
        one_step();
    }
    end_all(0);
    end_all(1);
    step++;
    /* what nobody else touched can be saved, whatever went on before */
    replace_by_rename(0, 0);
    check_end();
    printf("seed %u: %u saved (%u of them while A was out), %u failed, %u not opened\n", seed,
        saved, alone, failed, refused);
    if (saved < steps / 20)
        fail("hardly a write was saved", 0, mounts[0]);
    return 0;
}
