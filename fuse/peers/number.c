/* SPDX-License-Identifier: Apache-2.0 */
/* How many workers there are. The number may change while others fetch: workers that went are kept
 * for those who still ask them, and begin anew when they come back. */
#include "fuse/peers/priv.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>

#define LOOK_NS    (1 * NS_PER_S)
#define CONNECT_NS (1 * NS_PER_S)

/* What only peers with workers need. */
static int peers_open(struct peers *p, struct err *e)
{
    struct http_conf hc = {.direct = true, .connect_ns = CONNECT_NS, .max_idle = PEERS_THREADS};
    if (!p->http && !(p->http = http_new(&hc, e))) /* others read it: it is written once */
        return -1;
    if (!p->pool)
        p->pool = pool_new(&(struct pool_conf){.name = "peers", .threads = PEERS_THREADS});
    if (p->pool && !p->hedge_pool)
        p->hedge_pool = pool_new(
            &(struct pool_conf){.name = "hedge", .threads = PEERS_HEDGE_THREADS});
    return p->hedge_pool ? 0 : err_sys(e, ENOMEM, "start the threads for cache workers");
}

/* mu is held, or nobody else knows p yet. */
static int change_number(struct peers *p, int n, struct err *e)
{
    const char *name = peers_worker_name(p->conf);
    int before = atomic_load(&p->nworkers);
    if (n > 0 && peers_open(p, e))
        return -1;
    for (int i = before; i < MIN(n, p->made); i++)
        peer_begin_anew(&p->workers[i]);
    for (; p->made < n; p->made++) {
        struct peer *w = &p->workers[p->made];
        w->url = p->urls ? xstrdup(p->urls[p->made]) : peers_url(p->conf, p->made);
        w->seed = peer_seed(name, p->made);
        pthread_mutex_init(&w->mu, NULL);
    }
    atomic_store(&p->nworkers, n);
    return 0;
}

static int number_said(const struct peers *p, int last)
{
    int n = conf_workers(p->conf, last);
    return MIN(n, p->max_workers);
}

static void look(struct peers *p)
{
    int now = atomic_load(&p->nworkers), n = number_said(p, now);
    struct err e = ERR_INIT;
    if (n == now)
        return;
    if (change_number(p, n, &e))
        log_kv(LOG_ERROR, "cache workers are not asked", "error", e.msg, NULL);
    else
        log_fmt(LOG_INFO, "there are %d cache workers now, not %d", n, now);
}

int peers_number(struct peers *p)
{
    int64_t now = p->conf->worker_count_file ? clock_mono_ns() : 0;
    if (p->conf->worker_count_file && now >= atomic_load(&p->next_look_ns)
        && pthread_mutex_trylock(&p->mu) == 0) { /* another looks already */
        if (now >= atomic_load(&p->next_look_ns)) {
            look(p);
            atomic_store(&p->next_look_ns, clock_mono_ns() + p->look_ns);
        }
        pthread_mutex_unlock(&p->mu);
    }
    return atomic_load(&p->nworkers);
}

int peers_count(struct peers *p, const struct peers_conf *rc, struct err *e)
{
    const struct conf *conf = rc->conf;
    bool changes = conf->worker_count_file;
    int given = rc->nurls ? rc->nurls : conf->worker_name ? conf->worker_count : 0;
    p->max_workers = rc->nurls || !changes ? given : CONF_WORKERS_MAX;
    p->look_ns = rc->look_ns ? rc->look_ns : LOOK_NS;
    p->workers = xcalloc((size_t)p->max_workers + 1, sizeof *p->workers);
    return change_number(p, changes ? number_said(p, 0) : given, e);
}
