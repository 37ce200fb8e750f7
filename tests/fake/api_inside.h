/* SPDX-License-Identifier: Apache-2.0 */
/* api_inside — what the server's threads (api.c) and the test's hands (api_hands.c) share. */
#ifndef MILLRACE_TESTS_FAKE_API_INSIDE_H
#define MILLRACE_TESTS_FAKE_API_INSIDE_H

#include "tests/fake/api.h"
#include "tests/fake/api_store.h"

#include <pthread.h>

#define FAULTS_MAX 64

struct request {
    char *method, *target, *body;
    struct request *next;
};

struct conn {
    struct fake_api *f;
    int fd;
    pthread_t thread;
    struct conn *next;
    const char *watching; /* mu: collection, while it is a watch; owned by the watch's stack */
};

struct fake_api {
    int listen_fd;
    char url[64];
    pthread_t acceptor;
    pthread_mutex_t mu;
    pthread_cond_t changed;
    struct api_store store;               /* mu */
    struct conn *conns;                   /* mu; freed by stop */
    struct fake_fault faults[FAULTS_MAX]; /* mu */
    size_t nfaults;                       /* mu */
    struct request *first, **last;        /* mu */
    char *last_headers;                   /* mu */
    char *uninstalled;                    /* mu: collection, or NULL */
    unsigned bookmarks, drops;            /* mu: counters that watches follow */
    unsigned connections;                 /* mu: accepted so far */
    bool stopping;                        /* mu */
    fake_judge judge;
    void *judge_user;
};

#endif
