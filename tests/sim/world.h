/* SPDX-License-Identifier: Apache-2.0 */
/* world — what outlives the processes of a simulation: the disk, the store, the other node's
 * writers, what users were told, and what may therefore be true. In memory that the processes
 * share; they follow each other, so nothing is locked. */
#ifndef MILLRACE_TESTS_SIM_WORLD_H
#define MILLRACE_TESTS_SIM_WORLD_H

#include "fuse/store/store.h"
#include "tests/sim/disk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILES       4
#define CONTENT_MAX (12u << 10)
#define TRUTHS      256

struct content {
    bool there;
    uint32_t len;
    unsigned char bytes[CONTENT_MAX];
};

/* What a file may turn out to be. */
enum truth_kind {
    BEGUN,    /* a change was begun, nobody was told that it is done */
    PROMISED, /* fsync or close failed: it is kept, and tried again */
    DONE,     /* users were told that it is in the store */
    OTHERS,   /* the same, by another node */
};
struct truth {
    enum truth_kind kind;
    bool there, kept, tried, torn; /* torn: written to in place, and then the power went */
    uint32_t len;
    uint64_t hash, at;
};

struct object {
    struct content c;
    uint64_t serial; /* of its version */
    uint64_t at;
    bool others;
    bool moved; /* by a rename whose answer was lost: users were told that it failed */
};

struct file_model {
    struct content local; /* as this node's users see it while they write */
    bool open;
    uint64_t ino;
    /* when what is written here began from the store's content: what others put later must not be
     * written over */
    uint64_t based_at;
    struct truth truths[TRUTHS];
    unsigned ntruths;
    /* contents that were ever there: what a reader may see; hashes of them */
    uint64_t seen[2 * TRUTHS];
    unsigned nseen;
};

enum op_kind { OP_NONE, OP_OPEN, OP_WRITE, OP_FSYNC, OP_CLOSE, OP_READ, OP_UNLINK, OP_RENAME };
struct op {
    enum op_kind kind;
    unsigned file, to;
    bool truncate, create;
    uint32_t off, len;
    uint64_t seed;
};

enum answer { ANSWER_FINE, ANSWER_REFUSED, ANSWER_LOST, ANSWER_LATE };

struct late { /* a put that was given up, and has not happened yet */
    bool waits;
    unsigned file;
    struct content c;
    bool conditional;
    char expect[STORE_VERSION_MAX];
};

struct world {
    uint64_t seed, random, entropy; /* of this run; its states */
    uint64_t asked;                 /* for the time */
    uint64_t trace;                 /* a hash of all that happened */
    bool verbose;
    uint64_t now;                 /* counts events */
    int64_t clock_ns, refused_ns; /* refused_ns: the store's last refusal */
    uint64_t boot, serial;
    struct disk disk;
    struct object objects[FILES];
    struct file_model files[FILES];
    struct late late;
    /* No other node does anything, and of all answers only those to uploads are lost: then nothing
     * that was promised is put aside for what is older. */
    bool alone;
    bool outage;
    enum answer next_answer;
    struct op op;          /* under way */
    struct content before; /* the file that op writes to, until that is done */
    bool mounted;          /* the kernel has got ids */
    bool resume;           /* … and handles, of the process before */
    bool elsewhere;        /* the mount's place is another store's in this life */
    char wrong[512];
};

extern struct world *world; /* the one that is being simulated */

uint64_t world_random(uint64_t below);
uint64_t content_hash(const struct content *c);
void content_fill(struct content *c, uint64_t seed, uint32_t off, uint32_t len);
/* The first thing that is wrong ends the run. */
void world_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
void world_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* It happened: two runs of a seed that differ in it differ in their hash. */
void world_trace(const char *what, uint64_t n);

const char *name_of(unsigned file);
/* world->op: what users do next. */
void op_pick(void);
/* Runs so many of the jobs that wait for another thread, at most; returns how many there were. */
unsigned world_work(unsigned most);
int64_t world_file_time(void); /* what a file system notes of a change that is made now */

/* A content of the file comes into being. */
void truth_add(unsigned file, enum truth_kind kind, const struct content *c);
/* This node puts c over was, under the condition that it gave: it is there from now on. */
void truth_put(unsigned file, const struct content *was, const struct content *c);
/* It is in the store: whatever was promised of it is done. */
void truth_stored(unsigned file, const struct content *c);
/* An upload of it was begun, which may end before anything is sent: if it fails, it is kept as if
 * somebody had asked for that. */
void truth_tried(unsigned file, const struct content *c);
/* Users were told that its name is removed. local: it was never in the store, so that what another
 * node has put there meanwhile, or a rename that failed for them, is another file, which they have
 * not seen yet. */
void truth_removed(unsigned file, bool local);
bool content_was_ever(unsigned file, const struct content *c);
/* A rename is begun, and told to be done, of what has c as its users see it; waits: not all of that
 * is in the store; local: nothing of it. */
void truth_moves(unsigned from, unsigned to, const struct content *c);
void truth_moved(unsigned from, unsigned to, const struct content *c, bool waits, bool local);
/* The power went: what nobody was promised is as before. */
void truths_cut(void);
bool content_read(const char *path, struct content *c); /* false: there is no such file */
/* Of what was kept aside in a directory of staged files; how many there are. */
unsigned kept_hashes(const char *stage_dir, uint64_t *out, unsigned most);
/* All is quiet: is what the store has what it may have? kept: hashes of the contents that were
 * kept aside. */
void world_check(const uint64_t *kept, unsigned nkept);

/* Another node puts an object, or removes it. */
void others_put(unsigned file);
void others_remove(unsigned file);
bool others_have(unsigned file); /* is an object there, by another node? */
void late_happens(void);

struct store *sim_store_new(void);

#endif
