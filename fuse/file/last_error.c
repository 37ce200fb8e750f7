/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/last_error.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT 64

struct last_error {
    uint64_t ino, generation; /* .ino 0: unused */
    char text[LAST_ERROR_MAX];
};

struct last_errors {
    pthread_mutex_t mu;
    struct last_error kept[KEPT]; /* mu */
    unsigned next;                /* mu; replaced next */
};

struct last_errors *last_errors_new(struct err *e)
{
    struct last_errors *l = calloc(1, sizeof *l);
    if (l)
        pthread_mutex_init(&l->mu, NULL);
    else
        err_sys(e, ENOMEM, "table of errors");
    return l;
}

void last_errors_free(struct last_errors *l)
{
    if (!l)
        return;
    pthread_mutex_destroy(&l->mu);
    free(l);
}

/* l->mu is held. */
static struct last_error *last_error_find(struct last_errors *l, uint64_t ino)
{
    for (size_t i = 0; i < KEPT; i++)
        if (l->kept[i].ino == ino)
            return &l->kept[i];
    return NULL;
}

void last_errors_set(struct last_errors *l, uint64_t ino, uint64_t generation, const struct err *e)
{
    char when[CLOCK_RFC3339_LEN];
    clock_rfc3339(clock_real_ns(), when);
    pthread_mutex_lock(&l->mu);
    struct last_error *at = last_error_find(l, ino);
    if (!at)
        at = &l->kept[l->next++ % KEPT];
    at->ino = ino;
    at->generation = generation;
    snprintf(at->text, sizeof at->text, "%s %s", when, e->msg);
    pthread_mutex_unlock(&l->mu);
}

bool last_errors_get(
    struct last_errors *l, uint64_t ino, uint64_t generation, char text[LAST_ERROR_MAX])
{
    pthread_mutex_lock(&l->mu);
    const struct last_error *at = last_error_find(l, ino);
    bool found = at && at->generation == generation;
    if (found)
        memcpy(text, at->text, LAST_ERROR_MAX);
    pthread_mutex_unlock(&l->mu);
    return found;
}
