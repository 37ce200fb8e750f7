/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/process/store_watch.h"

#include "fuse/report/status.h"
#include "fuse/store/store.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/task.h"

#include <stdlib.h>

#define LOOK_NS  (5 * NS_PER_S) /* that one look may take */
#define FIRST_NS (2 * NS_PER_S) /* between two of them */
#define LAST_NS  (30 * NS_PER_S)
#define POLL_NS  (20 * NS_PER_MS)

enum watch_state { WATCH_ASKED, WATCH_GOOD, WATCH_FAILED };

struct watched {
    struct store_watch *w;
    size_t i;
    /* of its own: its calls end sooner than those of the store that serves */
    struct store *store;
    struct task task;
    enum watch_state state; /* w->mu */
    struct err why;         /* w->mu; of WATCH_FAILED */
};

struct store_watch {
    struct status *status;
    size_t n;
    struct watched *all; /* n */
    pthread_mutex_t mu;
};

static void watched_tell(struct watched *x, int rc, const struct err *e)
{
    pthread_mutex_lock(&x->w->mu);
    bool was_known = x->state == WATCH_FAILED;
    x->state = rc ? WATCH_FAILED : WATCH_GOOD;
    x->why = *e;
    pthread_mutex_unlock(&x->w->mu);
    status_mount(x->w->status, x->i, rc ? store_reason(e) : "", rc ? e->msg : "");
    if (rc && !was_known)
        log_kv(LOG_ERROR, "a store cannot be used; it is looked at again", "reason",
            store_reason(e), "error", e->msg, NULL);
    else if (!rc && was_known)
        log_info("a store that could not be used can be");
}

static void watched_run(void *user)
{
    struct watched *x = user;
    for (int64_t wait = FIRST_NS;; wait = MIN(wait * 2, LAST_NS)) {
        struct err e = ERR_INIT;
        int rc = store_check(x->store, &e);
        watched_tell(x, rc, &e);
        if (!rc || task_wait(&x->task, clock_mono_ns() + wait))
            return;
    }
}

static int watch_store(
    struct store_watch *w, const struct conf *conf, const char *secrets_dir, struct err *e)
{
    struct watched *x = &w->all[w->n];
    const struct store_conf sc = {.mount = &conf->mounts[w->n],
        .secrets_dir = conf_mount_has_secrets(conf, w->n) ? secrets_dir : NULL,
        .deadline_ns = LOOK_NS};
    x->w = w;
    x->i = w->n++;
    return (x->store = store_new(&sc, e)) ? task_start(&x->task, "look", watched_run, x, e) : -1;
}

/* -1: not each is known yet; else how many have answered. */
static int count_good(struct store_watch *w, struct err *first)
{
    int good = 0, asked = 0;
    pthread_mutex_lock(&w->mu);
    for (size_t i = w->n; i-- > 0;) {
        good += w->all[i].state == WATCH_GOOD;
        asked += w->all[i].state == WATCH_ASKED;
        if (w->all[i].state == WATCH_FAILED)
            *first = w->all[i].why;
    }
    pthread_mutex_unlock(&w->mu);
    return asked ? -1 : good;
}

struct store_watch *store_watch_start(struct conf *conf, const char *secrets_dir,
    struct status *status, const volatile sig_atomic_t *stopping, struct err *e)
{
    int good = 0;
    struct store_watch *w = xcalloc(1, sizeof *w);
    w->status = status;
    w->all = xcalloc(conf->nmounts, sizeof *w->all);
    pthread_mutex_init(&w->mu, NULL);
    while (w->n < conf->nmounts && watch_store(w, conf, secrets_dir, e) == 0) {
    }
    bool all = w->n == conf->nmounts && e->cls == ERR_NONE;
    while (all && (good = count_good(w, e)) < 0 && !*stopping)
        clock_sleep_ns(POLL_NS);
    if (good < 0)
        err_set(e, ERR_RETRY, "told to end");
    if (good <= 0) {
        store_watch_stop(w);
        return NULL;
    }
    for (size_t i = 0; (size_t)good < conf->nmounts && i < conf->nmounts; i++)
        if (conf->mounts[i].immutable == CONF_IMMUTABLE_UNSET)
            conf->mounts[i].immutable = CONF_IMMUTABLE_FALSE;
    return w;
}

void store_watch_stop(struct store_watch *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n; i++)
        task_cancel(&w->all[i].task);
    for (size_t i = 0; i < w->n; i++) {
        task_stop(&w->all[i].task);
        store_free(w->all[i].store);
    }
    pthread_mutex_destroy(&w->mu);
    free(w->all);
    free(w);
}
