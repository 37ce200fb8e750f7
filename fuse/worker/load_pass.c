/* SPDX-License-Identifier: Apache-2.0 */
/* One pass of a loader over files of the stores: each chunk is loaded into the worker that owns it.
 */
#include "fuse/worker/load_pass.h"

#include "fuse/peers/peers.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* files listed and not yet asked for: bounds memory, whatever the size of the dataset */
#define QUEUE_MAX    1024
#define TRIES        6
#define PAUSE_MIN_NS (500 * NS_PER_MS)
#define PAUSE_MAX_NS (8 * NS_PER_S)
#define STALL_NS     (120 * NS_PER_S)
#define RATE_NS      (10 * NS_PER_MS)
#define GONE_MOST    320 /* of what is said of paths that are not there: people see 400 */
#define NAMED_MAX    100 /* failed files in the log */
/* that many files failed one after the other, each after all its tries: nothing works */
#define ROW_MAX 16

struct load_item {
    struct load *l;
    size_t mount;
    char *path;
    struct store_stat st;
    enum request_pin pin;
};

/* -- one chunk ------------------------------------------------------------------------------- */

/* A number of an answer, by its key; dflt if it is not there. */
static uint64_t number_in(const char *text, const char *key, uint64_t dflt)
{
    const char *p = strstr(text, key);
    return p ? strtoull(p + strlen(key), NULL, 10) : dflt;
}

static void count_missing(struct load *l)
{
    pthread_mutex_lock(&l->mu);
    l->n.missing++;
    pthread_mutex_unlock(&l->mu);
}

static int refused(struct load *l, int owner, int status, const char *text, struct err *e)
{
    if (status == 507 && strstr(text, "\"PinLimit\"")) {
        pthread_mutex_lock(&l->mu);
        l->pins_full = true;
        pthread_mutex_unlock(&l->mu);
    }
    enum err_class cls = status == 507 ? ERR_EXHAUSTED : http_class_of_status(status);
    cleanup_json json_t *said = json_loads(text, 0, NULL);
    cleanup_free char *line = xstrndup(text, strcspn(text, "\r\n"));
    const char *message = jget_str(said, "message", line);
    /* that there is no room is for people, and of any worker */
    return status == 507 && message != line ? err_set(e, cls, "%s", message)
                                            : err_set(e, cls, "%s: %s", l->urls[owner], message);
}

/* 0: all of the chunk is in its worker; *had: it was there before; *came: how much of it was not.
 * -1: e; CONFLICT and NOTFOUND are about the file itself. */
static int ask_worker(struct load *l, const struct load_item *it, uint64_t off, uint64_t len,
    bool *had, uint64_t *came, struct err *e)
{
    const struct conf *conf = l->s->conf;
    struct cache_key key = {(uint32_t)it->mount, it->path, it->st.version, it->st.size};
    int owner = peers_owner(conf->worker_name ? conf->worker_name : "worker", l->nurls,
        conf->mounts[it->mount].mount_point, it->path, off);
    cleanup_free char *query = peers_query(&key);
    static const char *const pins[] = {
        [REQUEST_PIN_AS_IS] = "", [REQUEST_PIN] = "&pin=1", [REQUEST_UNPIN] = "&pin=0"};
    cleanup_free char *mark = l->mark ? xasprintf("&mark=%u", l->mark) : xstrdup("");
    cleanup_free char *whole = xasprintf(
        "%s&off=%" PRIu64 "&len=%" PRIu64 "%s%s", query, off, len, pins[it->pin], mark);
    const struct peers_call call = {
        "POST", l->urls[owner], "/v1/load", whole, STALL_NS, &l->s->cancel};
    cleanup_resp struct http_resp resp = {0};
    if (peers_call(l->http, l->s->key, &call, &resp, e))
        return -1;
    char *text = buf_str(&resp.body);
    if (resp.status != 200)
        return refused(l, owner, resp.status, text, e);
    uint64_t cached = number_in(text, "\"cachedBytes\":", 0);
    /* a worker of before does not say what it had */
    uint64_t before = number_in(text, "\"hadBytes\":", cached);
    *had = before >= len;
    *came = cached > before ? cached - before : 0;
    if (cached != len)
        return err_set(
            e, ERR_RETRY, "%s holds %" PRIu64 " bytes of %" PRIu64, l->urls[owner], cached, len);
    return 0;
}

bool load_pause(struct load *l, int64_t ns)
{
    for (int64_t until = clock_mono_ns() + ns;
         clock_mono_ns() < until && !atomic_load(&l->s->cancel);)
        clock_sleep_ns(MIN(ns, 100 * NS_PER_MS));
    return !atomic_load(&l->s->cancel);
}

/* The same, no faster than is allowed. */
static int ask_worker_bound(struct load *l, const struct load_item *it, uint64_t off, uint64_t len,
    bool *had, struct err *e)
{
    for (bool begun = false; !begun;) {
        pthread_mutex_lock(&l->mu);
        begun = load_rate_begin(&l->rate, len, clock_mono_ns());
        pthread_mutex_unlock(&l->mu);
        if (!begun && !load_pause(l, RATE_NS))
            return err_set(e, ERR_FATAL, "stopped before the end");
    }
    uint64_t came = 0;
    int rc = ask_worker(l, it, off, len, had, &came, e);
    pthread_mutex_lock(&l->mu);
    load_rate_end(&l->rate, len, came, clock_mono_ns());
    pthread_mutex_unlock(&l->mu);
    return rc;
}

static int load_chunk(
    struct load *l, const struct load_item *it, uint64_t off, uint64_t len, struct err *e)
{
    int64_t pause = PAUSE_MIN_NS;
    for (int i = 0; i < TRIES; i++) {
        bool had = false;
        int rc = ask_worker_bound(l, it, off, len, &had, e);
        if (i == 0 && !had)
            count_missing(l);
        if (rc == 0)
            return 0;
        if (e->cls != ERR_RETRY && e->cls != ERR_DENIED)
            return -1;
        if (!load_pause(l, pause))
            return -1;
        pause = MIN(pause * 2, PAUSE_MAX_NS);
    }
    return -1;
}

/* -- one file -------------------------------------------------------------------------------- */

static void load_failed(struct load *l, const struct load_item *it, const struct err *e)
{
    pthread_mutex_lock(&l->mu);
    bool named = l->n.failed_files++ < NAMED_MAX;
    l->row++;
    load_failed_add(&l->failed, l->s->conf->mounts[it->mount].path, it->path, e->msg);
    if (!*l->first_error)
        snprintf(l->first_error, sizeof l->first_error, "%s: %.300s", it->path, e->msg);
    pthread_mutex_unlock(&l->mu);
    if (named)
        log_kv(LOG_ERROR, "not loaded", "file", it->path, "error", e->msg, NULL);
}

static int load_chunks(struct load *l, const struct load_item *it, struct err *e)
{
    for (uint64_t off = 0; off < it->st.size; off += PEERS_CHUNK) {
        uint64_t len = MIN(PEERS_CHUNK, it->st.size - off);
        if (load_chunk(l, it, off, len, e))
            return -1;
        pthread_mutex_lock(&l->mu);
        l->n.done_bytes += len;
        pthread_mutex_unlock(&l->mu);
    }
    return 0;
}

static void load_file(struct load *l, struct load_item *it)
{
    struct err e = ERR_INIT;
    int rc = load_chunks(l, it, &e);
    /* it changed under us */
    for (int again = 0; rc && (e.cls == ERR_CONFLICT || e.cls == ERR_NOTFOUND) && again < 2;
         again++) {
        struct store *st = server_store(l->s, it->mount);
        struct err gone = ERR_INIT;
        if (store_stat_path(st, it->path, &it->st, &gone) && gone.cls == ERR_NOTFOUND)
            rc = 0; /* deleted: nothing to load */
        else if (gone.cls == ERR_NONE)
            rc = load_chunks(l, it, &e);
    }
    if (rc) {
        load_failed(l, it, &e);
        return;
    }
    pthread_mutex_lock(&l->mu);
    l->row = 0;
    l->n.done_files++;
    pthread_mutex_unlock(&l->mu);
}

/* -- listing ---------------------------------------------------------------------------------- */

struct load_listing {
    struct load *l;
    const struct load_path *paths; /* all that are listed; npaths */
    size_t npaths, at;             /* this one */
    size_t mount;
    const char *dir;
    bool found; /* a file */
    bool asks;  /* and has no answer */
    const struct load_each *each;
};

/* e: it refuses, and is asked again; NULL: it says something. */
static void listing_answered(struct load_listing *li, const struct err *e)
{
    if (li->asks || e)
        load_answered(li->l, li->asks, e);
    li->asks = false;
}

static bool is_changing(const struct load *l, size_t mount)
{
    return l->s->conf->mounts[mount].immutable != CONF_IMMUTABLE_TRUE;
}

void load_count(const struct load *l, struct load_counts *n, size_t mount, const char *path,
    const struct store_stat *st, enum request_pin pin)
{
    n->files++;
    n->bytes += st->size;
    if (!is_changing(l, mount))
        return;
    n->changing++;
    n->digest += hash64_mix(hash64(path, strlen(path)),
        hash64(st->version, strlen(st->version)) + mount + (uint64_t)pin);
}

/* Is the listed path the file, or above it? path may lack the first "/" and have one at the end.
 * *len: of path. */
static bool holds_file(const char *path, const char *file, size_t *len)
{
    path += strspn(path, "/");
    *len = strlen(path);
    while (*len && path[*len - 1] == '/')
        --*len;
    return *len == 0
        || (strncmp(path, file, *len) == 0 && (file[*len] == '/' || file[*len] == '\0'));
}

/* Of paths that hold the same file, the longest gives it: what is counted twice seems not to fit.
 * *pin: as any of them says. */
static bool is_given_by_this(const struct load_listing *li, const char *path, enum request_pin *pin)
{
    const char *root = li->l->s->conf->mounts[li->mount].path;
    root += strspn(root, "/");
    cleanup_free char *file = xasprintf("%s%s%s", root, *root ? "/" : "", path);
    size_t own, len;
    holds_file(li->paths[li->at].path, file, &own);
    for (size_t i = 0; i < li->npaths; i++) {
        if (!holds_file(li->paths[i].path, file, &len))
            continue;
        if (len > own || (len == own && i < li->at))
            return false;
        if (li->paths[i].pin == REQUEST_PIN)
            *pin = REQUEST_PIN;
    }
    return true;
}

static void give_file(struct load_listing *li, char *path_take, const struct store_stat *st)
{
    enum request_pin pin = li->paths[li->at].pin;
    li->found = true;
    if (li->npaths == 1 || is_given_by_this(li, path_take, &pin))
        li->each->fn(li->each->user, li->mount, path_take, st, pin);
    else
        free(path_take);
}

static int load_listed(void *user, const struct store_entry *entry)
{
    struct load_listing *li = user;
    listing_answered(li, NULL);
    if (!entry->st.is_dir && !entry->st.is_link)
        give_file(
            li, *li->dir ? path_join(li->dir, entry->name) : xstrdup(entry->name), &entry->st);
    return atomic_load(&li->l->s->cancel) ? 1 : 0;
}

static int list_target(const struct load_target *t, struct load_listing *li, struct err *e)
{
    struct load *l = li->l;
    struct store *st = server_store(l->s, t->mount);
    struct store_stat stat;
    li->mount = t->mount;
    li->dir = t->dir;
    if (!st)
        return err_set(e, ERR_RETRY, "the store does not answer yet");
    if (*t->dir) {
        if (store_stat_path(st, t->dir, &stat, e))
            return -1;
        if (!stat.is_dir) {
            give_file(li, xstrdup(t->dir), &stat);
            return 0;
        }
    }
    char *cursor = NULL;
    int64_t pause = PAUSE_MIN_NS;
    int tries = 0;
    do {
        char *before = cursor ? xstrdup(cursor) : NULL;
        li->asks = true;
        load_asks(l, t->mount);
        int rc = store_list_tree(st, t->dir, &cursor, load_listed, li, e);
        listing_answered(li, rc && e->cls == ERR_RETRY ? e : NULL);
        if (rc == 0) {
            free(before);
            tries = 0;
            continue;
        }
        free(cursor);
        cursor = before; /* the page again: files asked for twice cost little */
        if (e->cls != ERR_RETRY || ++tries == TRIES || !load_pause(l, pause)) {
            free(cursor);
            return -1;
        }
        pause = MIN(pause * 2, PAUSE_MAX_NS);
    } while (tries || cursor);
    return 0;
}

/* A directory may be there for the mounts below it alone. */
static int list_path(struct load *l, struct load_listing *li, struct err *e)
{
    const char *path = li->paths[li->at].path;
    size_t n = 0;
    struct load_target *t = load_targets(l->s->conf, path, &n);
    int rc = t ? 0 : err_set(e, ERR_NOTFOUND, "no mount of the dataset holds %s", path);
    for (size_t k = 0; k < n && rc == 0; k++) {
        if (li->each->changing && !is_changing(l, t[k].mount))
            continue;
        rc = list_target(&t[k], li, e);
        if (rc && e->cls == ERR_NOTFOUND && *t[k].dir && n > 1) {
            err_clear(e);
            rc = 0;
        }
    }
    load_targets_free(t, n);
    return rc ? err_wrap(e, "list %s%s", path, e->cls == ERR_NOTFOUND ? load_path_hint(path) : "")
              : 0;
}

/* Paths that are not there: the words about the first, and the names of others as long as there is
 * room. */
struct load_gone {
    struct err e;
    size_t n, unnamed;
};

static void add_gone(struct load_gone *g, const struct err *why, const char *path)
{
    size_t len = strlen(g->e.msg);
    if (g->n++ == 0)
        g->e = *why;
    else if (g->unnamed || len + strlen(path) > GONE_MOST)
        g->unnamed++;
    else
        snprintf(g->e.msg + len, sizeof g->e.msg - len, "%s%s",
            g->n == 2 ? "; not there either: " : ", ", path);
}

static int set_gone(struct load_gone *g, struct err *e)
{
    size_t len = strlen(g->e.msg);
    if (g->unnamed)
        snprintf(g->e.msg + len, sizeof g->e.msg - len, ", and %zu more", g->unnamed);
    *e = g->e;
    return g->n ? -1 : 0;
}

int load_list(
    struct load *l, const struct load_path *paths, size_t n, struct load_each *each, struct err *e)
{
    struct load_gone gone = {.e = ERR_INIT};
    each->empty = NULL;
    for (size_t i = 0; i < n; i++) {
        struct load_listing li = {.l = l, .paths = paths, .npaths = n, .at = i, .each = each};
        struct err one = ERR_INIT;
        int rc = list_path(l, &li, &one);
        if (rc && one.cls != ERR_NOTFOUND) {
            *e = one;
            return -1;
        }
        if (rc)
            add_gone(&gone, &one, paths[i].path);
        else if (!li.found && !each->empty)
            each->empty = &paths[i];
    }
    return set_gone(&gone, e);
}

/* -- one pass over everything ---------------------------------------------------------------- */

static void load_item_run(void *arg)
{
    struct load_item *it = arg;
    struct load *l = it->l;
    pthread_mutex_lock(&l->mu);
    bool hopeless = l->row >= ROW_MAX || l->pins_full || l->enough;
    pthread_mutex_unlock(&l->mu);
    if (!hopeless && !atomic_load(&l->s->cancel))
        load_file(l, it);
    free(it->path);
    free(it);
}

static void load_add(
    void *user, size_t mount, char *path_taken, const struct store_stat *st, enum request_pin pin)
{
    struct load *l = user;
    struct load_item *it = xcalloc(1, sizeof *it);
    *it = (struct load_item){l, mount, path_taken, *st, pin};
    pthread_mutex_lock(&l->mu);
    load_count(l, &l->n, mount, it->path, st, pin);
    pthread_mutex_unlock(&l->mu);
    if (pool_add(l->pool, 0, load_item_run, it))
        load_item_run(it);
}

int load_pass(struct load *l, const struct load_path *paths, size_t n, struct err *e)
{
    unsigned threads = l->threads ? l->threads : LOAD_THREADS;
    if (l->nurls == 0)
        return err_set(e, ERR_RETRY, LOAD_NO_WORKERS);
    pthread_mutex_lock(&l->mu);
    l->n = (struct load_counts){0};
    l->row = 0;
    l->pins_full = false;
    l->empty = NULL;
    l->first_error[0] = '\0';
    load_failed_clear(&l->failed);
    pthread_mutex_unlock(&l->mu);
    l->pool = pool_new(
        &(struct pool_conf){.name = "load", .threads = threads, .queue_max = QUEUE_MAX});
    struct load_each each = {.fn = load_add, .user = l};
    int rc = l->pool ? load_list(l, paths, n, &each, e) : err_sys(e, ENOMEM, "start threads");
    pool_free(l->pool); /* all of it is done */
    if (rc && e->cls != ERR_NOTFOUND)
        return rc;
    pthread_mutex_lock(&l->mu);
    bool enough = l->enough; /* who says so may still count */
    pthread_mutex_unlock(&l->mu);
    if (enough || atomic_load(&l->s->cancel))
        return err_set(e, ERR_RETRY, "stopped before the end");
    if (l->pins_full)
        return err_set(e, ERR_EXHAUSTED,
            "pins may take half of a cache worker's quota, and do: %s, or raise spec.cache.tiers[].quota; first: %.150s",
            l->unpin_how, l->first_error);
    if (l->row >= ROW_MAX)
        return err_set(
            e, ERR_RETRY, "gave up after %u files in a row; first: %s", l->row, l->first_error);
    if (rc == 0)
        l->empty = each.empty;
    return rc;
}

/* -- beside passes --------------------------------------------------------------------------- */

static int ask_all(struct load *l, const char *route, const char *query, struct err *e)
{
    for (int i = 0; i < l->nurls; i++) {
        const struct peers_call call = {"POST", l->urls[i], route, query, STALL_NS, &l->s->cancel};
        cleanup_resp struct http_resp resp = {0};
        if (peers_call(l->http, l->s->key, &call, &resp, e))
            return -1;
        if (resp.status != 200)
            return refused(l, i, resp.status, buf_str(&resp.body), e);
    }
    return 0;
}

int load_unpin_all(struct load *l, const char *unless, struct err *e)
{
    cleanup_free char *query = unless ? xasprintf("unless=%s", unless) : xstrdup("");
    return ask_all(l, "/v1/unpin", query, e);
}

int load_unmark(struct load *l, struct err *e)
{
    cleanup_free char *query = xasprintf("mark=%u", l->mark);
    return ask_all(l, "/v1/unmark", query, e);
}
