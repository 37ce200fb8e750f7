/* SPDX-License-Identifier: Apache-2.0 */
/* The cache workers that a load is for. */
#include "fuse/peers/peers.h"
#include "fuse/worker/load_pass.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <stdlib.h>

static void take_workers(struct load *l, int n)
{
    char **old = l->urls, **urls = xcalloc((size_t)n + 1, sizeof *urls);
    int before = l->nurls;
    for (int i = 0; i < n; i++)
        urls[i] = l->given ? xstrdup(l->given[i]) : peers_url(l->s->conf, i);
    pthread_mutex_lock(&l->mu);
    l->urls = urls;
    l->nurls = n;
    pthread_mutex_unlock(&l->mu);
    for (int i = 0; i < before; i++)
        free(old[i]);
    free(old);
}

static int number_now(const struct load *l, int last)
{
    const struct conf *conf = l->s->conf;
    if (!conf || !conf->worker_count_file)
        return l->given ? l->ngiven : conf && conf->worker_name ? conf->worker_count : 0;
    int n = conf_workers(conf, last);
    return l->given ? MIN(n, l->ngiven) : n;
}

bool load_look(struct load *l)
{
    int before = l->nurls, n = number_now(l, before);
    if (n == before)
        return false;
    log_fmt(LOG_INFO, "there are %d cache workers now, not %d", n, before);
    take_workers(l, n);
    return true;
}

int load_open(struct load *l, struct server *s, const char *const *urls, int nurls, struct err *e)
{
    *l = (struct load){.s = s, .given = nurls ? urls : NULL, .ngiven = nurls};
    pthread_mutex_init(&l->mu, NULL);
    take_workers(l, number_now(l, 0));
    struct http_conf hc = {.direct = true, .max_idle = LOAD_THREADS};
    l->http = http_new(&hc, e);
    if (!l->http)
        return -1;
    if (s->conf && l->nurls == 0 && !s->conf->worker_count_file)
        return err_set(e, ERR_INVALID, LOAD_NO_WORKERS);
    return 0;
}

void load_close(struct load *l)
{
    http_free(l->http);
    for (int i = 0; i < l->nurls; i++)
        free(l->urls[i]);
    free(l->urls);
    load_failed_clear(&l->failed);
    pthread_mutex_destroy(&l->mu);
}

int load_wait_ready(struct load *l, int64_t wait_ns, struct err *e)
{
    struct server *s = l->s;
    for (int64_t until = clock_mono_ns() + wait_ns;;) {
        if (server_ready(s))
            return 0;
        pthread_mutex_lock(&s->mu);
        struct report_problem t = s->whole;
        for (size_t i = 0; s->conf && !*t.reason && i < s->conf->nmounts; i++)
            t = s->mounts[i];
        pthread_mutex_unlock(&s->mu);
        if (!s->conf)
            return err_set(e, ERR_INVALID, "%s", t.message);
        if (clock_mono_ns() >= until)
            return err_set(e, ERR_RETRY, "the store can't be used: %s: %s", t.reason, t.message);
        if (!load_pause(l, 200 * NS_PER_MS))
            return err_set(e, ERR_RETRY, "stopped before the end");
    }
}
