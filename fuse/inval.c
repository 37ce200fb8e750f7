/* Invalidations go to the kernel from a thread of their own: a request that waits for the lock of the directory would wait for itself. */
#include "fuse/fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE 4096 /* more are dropped: the kernel's timeouts bring them in later */

struct item {
    uint64_t dir;
    char *name;
};

struct inval {
    struct fs *fs;
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t wake;
    struct item queue[QUEUE]; /* mu */
    unsigned head, n;         /* mu */
    bool stop;                /* mu */
};

void inval_add(void *inval, uint64_t dir, const char *name)
{
    struct inval *v = inval;
    char *copy = strdup(name);
    pthread_mutex_lock(&v->mu);
    if (copy && v->n < QUEUE) {
        v->queue[(v->head + v->n++) % QUEUE] = (struct item){dir, copy};
        copy = NULL;
        pthread_cond_signal(&v->wake);
    }
    pthread_mutex_unlock(&v->mu);
    free(copy);
}

static void *run(void *arg)
{
    struct inval *v = arg;
    pthread_mutex_lock(&v->mu);
    while (!v->stop) {
        if (v->n == 0 || !v->fs->session) {
            pthread_cond_wait(&v->wake, &v->mu);
            continue;
        }
        struct item it = v->queue[v->head];
        v->head = (v->head + 1) % QUEUE;
        v->n--;
        pthread_mutex_unlock(&v->mu);
        if (*it.name)
            session_inval_entry(v->fs->session, it.dir, it.name);
        else
            session_inval_dir(v->fs->session, it.dir);
        free(it.name);
        pthread_mutex_lock(&v->mu);
    }
    pthread_mutex_unlock(&v->mu);
    return NULL;
}

struct inval *inval_start(struct fs *fs, struct err *e)
{
    struct inval *v = calloc(1, sizeof *v);
    if (!v) {
        err_sys(e, ENOMEM, "queue of invalidations");
        return NULL;
    }
    v->fs = fs;
    pthread_mutex_init(&v->mu, NULL);
    pthread_cond_init(&v->wake, NULL);
    int rc = pthread_create(&v->thread, NULL, run, v);
    if (rc) {
        err_sys(e, rc, "start a thread");
        free(v);
        return NULL;
    }
    return v;
}

void inval_stop(struct inval *v)
{
    if (!v)
        return;
    pthread_mutex_lock(&v->mu);
    v->stop = true;
    pthread_cond_signal(&v->wake);
    pthread_mutex_unlock(&v->mu);
    pthread_join(v->thread, NULL);
    for (; v->n; v->n--, v->head = (v->head + 1) % QUEUE)
        free(v->queue[v->head].name);
    pthread_mutex_destroy(&v->mu);
    pthread_cond_destroy(&v->wake);
    free(v);
}
