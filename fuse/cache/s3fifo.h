/* SPDX-License-Identifier: Apache-2.0 */
/* s3fifo — which unit of a tier goes first: the S3-FIFO policy (a small and a main FIFO queue and a
 * ghost of recent victims). One pass over many units costs the small queue only, so a shuffled
 * epoch does not flush what is re-used; a hit writes one counter and moves nothing. Units are named
 * by 32-bit ids; their links live in the caller's records. Not locked: the caller's lock. */
#ifndef MILLRACE_FUSE_CACHE_S3FIFO_H
#define MILLRACE_FUSE_CACHE_S3FIFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define S3F_NONE UINT32_MAX

enum s3f_queue { S3F_OUT, S3F_SMALL, S3F_MAIN };

struct s3f_unit { /* embedded in the caller's record, all zero before the first insert */
    uint32_t prev, next;
    uint32_t weight;
    uint8_t queue; /* enum s3f_queue */
    uint8_t freq;  /* hits since it came in, at most 3 */
};

struct s3f_ops {
    struct s3f_unit *(*at)(void *user, uint32_t id); /* valid until the caller's records move */
    /* hits counted elsewhere since the last question, to be added to freq; NULL: none are */
    unsigned (*touched)(void *user, uint32_t id);
    void *user;
};

struct s3f {
    struct s3f_ops ops;
    struct s3f_list {
        uint32_t head, tail; /* head: newest */
        uint64_t weight;
        uint32_t count;
    } lists[3];        /* by enum s3f_queue; [S3F_OUT] unused */
    uint64_t capacity; /* weight that all units may have together */
    struct s3f_ghost {
        uint32_t print, born;
        /* 4-way sets, ghost_sets of them; NULL if there was no memory for it: then nothing is
         * remembered */
    } * ghost;
    uint32_t ghost_sets, ghost_clock;
};

void s3f_init(struct s3f *p, uint64_t capacity, const struct s3f_ops *ops);
void s3f_fini(struct s3f *p);
/* key: a hash of what the unit holds; a key among the recent victims goes to the main queue at
 * once. */
void s3f_insert(struct s3f *p, uint32_t id, uint32_t weight, uint64_t key);
void s3f_remove(struct s3f *p, uint32_t id);                 /* no-op if it is in no queue */
void s3f_weigh(struct s3f *p, uint32_t id, uint32_t weight); /* it grew or shrank */
void s3f_touch(struct s3f *p, uint32_t id, unsigned hits);
/* The unit to evict next, still in its queue, or S3F_NONE. Then either s3f_evicted (gone, key
 * remembered) or s3f_skip (it may not go now: it is put where the policy comes across it last). */
uint32_t s3f_victim(struct s3f *p);
void s3f_evicted(struct s3f *p, uint32_t id, uint64_t key);
void s3f_skip(struct s3f *p, uint32_t id);
uint64_t s3f_weight(const struct s3f *p); /* of all units */
/* Is there a unit for which fn says so? Those that go first are asked first. */
bool s3f_any(const struct s3f *p, bool (*fn)(void *user, uint32_t id), void *user);
void s3f_remember(struct s3f *p, uint64_t key); /* as if a unit of that key had just been evicted */

#endif
