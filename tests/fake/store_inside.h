/* SPDX-License-Identifier: Apache-2.0 */
/* store_inside — what the store's calls (store.c) and the test's hands (store_hands.c) share. */
#ifndef MILLRACE_TESTS_FAKE_STORE_INSIDE_H
#define MILLRACE_TESTS_FAKE_STORE_INSIDE_H

#include "fuse/store/impl.h"
#include "tests/fake/store.h"

#include <pthread.h>

struct fake_object {
    char *path, *data;
    struct store_stat st;
    uint64_t mark; /* of the put that made it */
};

struct fake_store {
    struct store_ops ops;
    struct store *store;
    pthread_mutex_t mu;
    pthread_cond_t changed;
    struct fake_object *objects; /* mu; in no order */
    size_t n;                    /* mu */
    unsigned versions, waiting;  /* mu; so many were made; calls that are held up */
    int64_t mtime_ns;            /* mu */
    size_t page;                 /* mu; entries; 0: all of them */
    struct {
        unsigned calls, skip, fail; /* mu */
        enum err_class cls;         /* mu */
        int sys;                    /* mu */
        bool held;                  /* mu */
        bool late, kept;            /* mu; the next answer is to wait; one does */
    } on[FAKE_CALLS];
    bool lose_answer; /* mu */
    bool heed_cancel; /* mu */
    bool unasked;     /* mu */
};

#endif
