/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/worker/server.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"
#include "lib/base/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_MIN_NS (2 * NS_PER_S)
#define RETRY_MAX_NS (30 * NS_PER_S)
#define CHECK_NS     (60 * NS_PER_S)

struct server *server_new(const char *component, const char *secrets_dir, const char *cache_dir)
{
    struct server *s = xcalloc(1, sizeof *s);
    s->component = component;
    s->secrets_dir = secrets_dir;
    s->cache_dir = cache_dir;
    s->started_ms = (uint64_t)(clock_real_ns() / NS_PER_MS);
    pthread_mutex_init(&s->mu, NULL);
    return s;
}

void server_tell_more(
    struct server *s, void (*more)(void *user, bool known, struct buf *out), void *user)
{
    pthread_mutex_lock(&s->mu);
    s->more = more;
    s->more_user = user;
    pthread_mutex_unlock(&s->mu);
}

static void server_set_problem(
    struct server *s, struct report_problem *t, const char *reason, const char *message)
{
    struct report_problem now;
    report_problem_set(&now, reason, message);
    pthread_mutex_lock(&s->mu);
    bool changed = strcmp(now.reason, t->reason) != 0;
    *t = now;
    pthread_mutex_unlock(&s->mu);
    if (changed && *reason)
        log_kv(LOG_WARN, "not ready", "reason", reason, "error", now.message, NULL);
}

void server_fail(struct server *s, const char *reason, const char *message)
{
    server_set_problem(s, &s->whole, reason, message);
}

void server_configure(struct server *s, const char *json)
{
    struct err e = ERR_INIT;
    struct conf *conf = NULL;
    if (!json)
        err_set(&e, ERR_INVALID, "the environment variable %s is not set", ENV_CONFIG);
    else
        conf = conf_parse(json, strlen(json), &e);
    if (!conf) {
        server_fail(s, "InvalidOption", e.msg);
        return;
    }
    s->conf = conf;
    s->stores = xcalloc(conf->nmounts, sizeof *s->stores);
    s->mounts = xcalloc(conf->nmounts, sizeof *s->mounts);
}

struct store *server_store(struct server *s, size_t mount)
{
    if (!s->conf || mount >= s->conf->nmounts)
        return NULL;
    pthread_mutex_lock(&s->mu);
    struct store *st = s->stores[mount];
    pthread_mutex_unlock(&s->mu);
    return st;
}

static int server_fetch(void *user, const struct cache_key *key, uint64_t off, size_t len,
    struct cache_sink *sink, const atomic_bool *cancel, struct err *e)
{
    struct server *s = user;
    struct store *st = server_store(s, key->mount);
    if (!st)
        return err_set(e, ERR_RETRY, "the store of %s can't be used yet", key->path);
    if (sink->is_ahead && store_is_silent(st))
        return err_set(e, ERR_RETRY, "%s is not read ahead: its store does not answer", key->path);
    return store_stream_of(
        st, key->path, key->version, key->size, off, len, sink->take, sink->user, cancel, e);
}

static size_t server_part(void *user, uint32_t mount)
{
    const struct conf *conf = ((struct server *)user)->conf;
    return mount < conf->nmounts ? store_part(conf->mounts[mount].mount_point) : 0;
}

/* -- looking at the stores ------------------------------------------------------------------- */

static bool make_cache(struct server *s)
{
    if (atomic_load(&s->cache) || strcmp(s->component, COMPONENT_LOADER) == 0)
        return true;
    const struct conf *conf = s->conf;
    struct cache_conf cc = {.dir = s->cache_dir,
        .tiers = conf->tiers,
        .ntiers = conf->ntiers,
        .mounts = conf->mounts,
        .nmounts = conf->nmounts,
        .fetch_threads = 32,
        .scrub_ns = CACHE_SCRUB_NS,
        .keep_free = conf->keep_free,
        .source = {server_fetch, s, server_part}};
    struct err e = ERR_INIT;
    struct cache *c = cache_new(&cc, &e);
    if (c) {
        atomic_store(&s->cache, c);
        server_fail(s, "", "");
        return true;
    }
    server_fail(s, e.sys == ENOSPC || e.sys == EDQUOT ? "CacheDiskFull" : "CacheError", e.msg);
    return false;
}

static bool check_mount(struct server *s, size_t i, unsigned *failures)
{
    struct err e = ERR_INIT;
    struct store *st = server_store(s, i);
    if (!st) {
        struct store_conf sc = {.mount = &s->conf->mounts[i], .secrets_dir = s->secrets_dir};
        st = store_new(&sc, &e);
        pthread_mutex_lock(&s->mu);
        s->stores[i] = st;
        pthread_mutex_unlock(&s->mu);
    }
    if (st && store_check(st, &e) == 0) {
        *failures = 0;
        server_set_problem(s, &s->mounts[i], "", "");
        return true;
    }
    pthread_mutex_lock(&s->mu);
    bool was_fine = s->checked && !*s->mounts[i].reason;
    pthread_mutex_unlock(&s->mu);
    if (!was_fine || ++*failures >= 2) /* one failure of a store that worked is no news */
        server_set_problem(s, &s->mounts[i], store_reason(&e), e.msg);
    return false;
}

static void server_thread(void *arg)
{
    struct server *s = arg;
    int64_t pause = RETRY_MIN_NS, wait;
    cleanup_free unsigned *failures = xcalloc(s->conf->nmounts, sizeof *failures);
    do {
        bool fine = make_cache(s);
        for (size_t i = 0; i < s->conf->nmounts && !atomic_load(&s->cancel); i++)
            if (!check_mount(s, i, &failures[i]))
                fine = false;
        pthread_mutex_lock(&s->mu);
        bool first = !s->checked;
        s->checked = true;
        pthread_mutex_unlock(&s->mu);
        if (fine && first)
            log_kv(LOG_INFO, "ready", NULL);
        wait = fine ? CHECK_NS : pause;
        pause = fine ? RETRY_MIN_NS : MIN(pause * 2, RETRY_MAX_NS);
    } while (!task_wait(&s->checker, clock_mono_ns() + wait));
}

void server_start(struct server *s)
{
    struct err e = ERR_INIT;
    if (s->conf && task_start(&s->checker, "check-stores", server_thread, s, &e))
        server_fail(s, "StoreError", e.msg);
}

const struct report_problem *server_worst(const struct server *s)
{
    static const struct report_problem starting = {"Starting", "the store is being looked at"},
                                       none;
    mutex_assert_held(&s->mu);
    if (*s->whole.reason)
        return &s->whole;
    for (size_t i = 0; s->conf && i < s->conf->nmounts; i++)
        if (*s->mounts[i].reason)
            return &s->mounts[i];
    return s->checked ? &none : &starting;
}

bool server_ready(struct server *s)
{
    pthread_mutex_lock(&s->mu);
    bool ready = !*server_worst(s)->reason;
    pthread_mutex_unlock(&s->mu);
    return ready;
}

void server_stop(struct server *s)
{
    atomic_store(&s->cancel, true);
    task_stop(&s->checker);
}

void server_free(struct server *s)
{
    if (!s)
        return;
    cache_free(atomic_load(&s->cache));
    for (size_t i = 0; s->conf && i < s->conf->nmounts; i++)
        if (s->stores[i])
            store_free(s->stores[i]);
    free(s->stores);
    free(s->mounts);
    conf_free((struct conf *)s->conf);
    pthread_mutex_destroy(&s->mu);
    free(s);
}

/* -- answers --------------------------------------------------------------------------------- */

void server_answer_error(
    struct serve_resp *resp, int status, const char *reason, const char *message)
{
    resp->status = status;
    resp->content_type = "application/json";
    cleanup_free char *clean = xstrdup(message);
    log_redact_text(clean);
    buf_adds(&resp->body, "{\"reason\":");
    buf_add_json_string(&resp->body, reason);
    buf_adds(&resp->body, ",\"message\":");
    buf_add_json_string(&resp->body, clean);
    buf_adds(&resp->body, "}\n");
}

int server_status_of(const struct err *e)
{
    switch (e->cls) {
    case ERR_CONFLICT:
        return 409;
    case ERR_NOTFOUND:
        return 404;
    case ERR_DENIED:
    case ERR_INVALID:
        return 502; /* the store says so, of what we asked */
    case ERR_RETRY:
    case ERR_EXHAUSTED:
        return 503;
    case ERR_NONE:
    case ERR_EXISTS:
    case ERR_FATAL:
        break;
    }
    return 500;
}
