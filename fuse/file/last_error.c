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
    int64_t at_ns;            /* monotonic */
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
    at->at_ns = clock_mono_ns();
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

int64_t last_errors_latest(struct last_errors *l, char text[LAST_ERROR_MAX])
{
    const struct last_error *latest = NULL;
    int64_t age = -1;
    pthread_mutex_lock(&l->mu);
    for (size_t i = 0; i < KEPT; i++)
        if (l->kept[i].ino && (!latest || l->kept[i].at_ns > latest->at_ns))
            latest = &l->kept[i];
    if (latest) {
        const char *space = strchr(latest->text, ' ');
        snprintf(text, LAST_ERROR_MAX, "%s", space ? space + 1 : latest->text);
        age = clock_mono_ns() - latest->at_ns;
    }
    pthread_mutex_unlock(&l->mu);
    return age;
}
