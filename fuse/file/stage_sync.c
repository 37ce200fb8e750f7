/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/stage_sync.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* so many at most are brought there one by one: what else is on that disk does not matter to them
 */
#define FEW 2

struct stage_syncing {
    struct stage_syncing *next;
    int content, note;
    int errnum;
    bool done; /* the round that it was in has ended */
};

void stage_sync_init(struct stage_sync *s, const char *dir)
{
    *s = (struct stage_sync){.dir = xstrdup(dir)};
    pthread_mutex_init(&s->mu, NULL);
    pthread_cond_init(&s->ended, NULL);
}

void stage_sync_destroy(struct stage_sync *s)
{
    free(s->dir);
    pthread_mutex_destroy(&s->mu);
    pthread_cond_destroy(&s->ended);
}

/* The file system says that it could not write something: was it this file? */
static int sync_failed(int fd)
{
    return fd >= 0 && sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE)
            && (errno == EIO || errno == ENOSPC || errno == EDQUOT)
        ? errno
        : 0;
}

static int sync_whole(int dir, struct stage_syncing *all)
{
    if (syncfs(dir))
        return errno;
    for (struct stage_syncing *w = all; w; w = w->next)
        if (!(w->errnum = sync_failed(w->content)))
            w->errnum = sync_failed(w->note);
    return 0;
}

static int sync_each(int dir, struct stage_syncing *all)
{
    for (struct stage_syncing *w = all; w; w = w->next)
        if ((w->content >= 0 && fsync(w->content)) || (w->note >= 0 && fsync(w->note)))
            w->errnum = errno;
    return fsync(dir) ? errno : 0;
}

static void sync_round(const char *where, struct stage_syncing *all, unsigned n)
{
    cleanup_fd int dir = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int errnum = dir < 0 ? errno : n <= FEW ? sync_each(dir, all) : sync_whole(dir, all);
    for (struct stage_syncing *w = all; errnum && w; w = w->next)
        w->errnum = errnum;
}

int stage_sync(struct stage_sync *s, int content, int note, struct err *e)
{
    struct stage_syncing me = {.content = content, .note = note};
    pthread_mutex_lock(&s->mu);
    me.next = s->waiting;
    s->waiting = &me;
    s->nwaiting++;
    while (!me.done) {
        if (s->busy) {
            pthread_cond_wait(&s->ended, &s->mu);
            continue;
        }
        struct stage_syncing *all = s->waiting;
        unsigned n = s->nwaiting;
        s->waiting = NULL;
        s->nwaiting = 0;
        s->busy = true;
        s->rounds++;
        pthread_mutex_unlock(&s->mu);
        sync_round(s->dir, all, n);
        pthread_mutex_lock(&s->mu);
        for (struct stage_syncing *w = all, *next; w; w = next) {
            next = w->next;
            w->done = true;
        }
        s->busy = false;
        pthread_cond_broadcast(&s->ended);
    }
    pthread_mutex_unlock(&s->mu);
    return me.errnum ? err_sys(e, me.errnum, "bring staged files to the disk") : 0;
}

void stage_sync_gone(struct stage_sync *s) { atomic_fetch_add(&s->gone, 1); }

void stage_sync_settle(struct stage_sync *s)
{
    struct err e = ERR_INIT;
    uint64_t gone = atomic_load(&s->gone), was = atomic_load(&s->settled);
    if (was >= gone)
        return;
    if (stage_sync(s, -1, -1, &e)) {
        log_kv(LOG_WARN, "what was removed or renamed may come back after a power cut", "error",
            e.msg, NULL);
        return;
    }
    while (was < gone && !atomic_compare_exchange_weak(&s->settled, &was, gone))
        ;
}
