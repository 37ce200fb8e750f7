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
    struct session *session; /* set before the thread is */
    pthread_t thread;
    bool running;
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
        if (v->n == 0) {
            pthread_cond_wait(&v->wake, &v->mu);
            continue;
        }
        struct item it = v->queue[v->head];
        v->head = (v->head + 1) % QUEUE;
        v->n--;
        pthread_mutex_unlock(&v->mu);
        if (*it.name)
            session_inval_entry(v->session, it.dir, it.name);
        else
            session_inval_dir(v->session, it.dir);
        free(it.name);
        pthread_mutex_lock(&v->mu);
    }
    pthread_mutex_unlock(&v->mu);
    return NULL;
}

struct inval *inval_new(struct err *e)
{
    struct inval *v = calloc(1, sizeof *v);
    if (!v) {
        err_sys(e, ENOMEM, "queue of invalidations");
        return NULL;
    }
    pthread_mutex_init(&v->mu, NULL);
    pthread_cond_init(&v->wake, NULL);
    return v;
}

int inval_start(struct inval *v, struct session *s, struct err *e)
{
    v->session = s;
    int rc = pthread_create(&v->thread, NULL, run, v);
    v->running = rc == 0;
    return rc ? err_sys(e, rc, "start a thread") : 0;
}

void inval_stop(struct inval *v)
{
    if (!v)
        return;
    pthread_mutex_lock(&v->mu);
    v->stop = true;
    pthread_cond_signal(&v->wake);
    pthread_mutex_unlock(&v->mu);
    if (v->running)
        pthread_join(v->thread, NULL);
    for (; v->n; v->n--, v->head = (v->head + 1) % QUEUE)
        free(v->queue[v->head].name);
    pthread_mutex_destroy(&v->mu);
    pthread_cond_destroy(&v->wake);
    free(v);
}
