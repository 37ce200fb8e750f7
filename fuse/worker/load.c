/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/worker/load.h"

#include "fuse/peers/peers.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/human.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/pool.h"
#include "lib/http/http.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 16
/* files listed and not yet asked for: bounds memory, whatever the size of the dataset */
#define QUEUE_MAX    1024
#define TRIES        6
#define PAUSE_MIN_NS (500 * NS_PER_MS)
#define PAUSE_MAX_NS (8 * NS_PER_S)
#define ROUNDS       3 /* of looking whether everything is there */
#define STALL_NS     (120 * NS_PER_S)
#define NAMED_MAX    100 /* failed files in the log */
/* that many files failed one after the other, each after all its tries: nothing works */
#define ROW_MAX 16

struct load_item {
    struct load *l;
    size_t mount;
    char *path;
    struct store_stat st;
};

struct load {
    struct server *s;
    struct http *http;
    char **urls;
    int nurls;
    enum request_pin pin;
    bool check; /* this pass checks what is cached, and loads what is not */
    pthread_mutex_t mu;
    struct pool *pool;                                                    /* of this pass */
    uint64_t files, bytes, done_files, done_bytes, failed_files, missing; /* mu: of this pass */
    unsigned row;          /* mu: files failed since the last that did not */
    bool complete;         /* mu */
    bool pins_full;        /* mu: a worker takes no more pins */
    char first_error[512]; /* mu */
};

/* -- which part of which mount --------------------------------------------------------------- */

/* Is dir the same as path or above it? Both begin with "/" and have no trailing one but "/" itself.
 * *rest: what is below. */
static bool is_above(const char *dir, const char *path, const char **rest)
{
    size_t n = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
    if (strncmp(dir, path, n) != 0 || (path[n] != '/' && path[n] != '\0'))
        return false;
    *rest = path + n + (path[n] == '/');
    return true;
}

struct load_target *load_targets(const struct conf *conf, const char *text, size_t *n)
{
    cleanup_free char *path = xasprintf("%s%s", text[0] == '/' ? "" : "/", text);
    for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
        path[len - 1] = '\0';
    struct load_target *t = xcalloc(conf->nmounts + 1, sizeof *t);
    const char *rest;
    *n = 0;
    size_t best = SIZE_MAX, best_len = 0;
    for (size_t i = 0; i < conf->nmounts; i++) { /* the deepest mount at or above the path */
        if (is_above(conf->mounts[i].path, path, &rest)
            && (best == SIZE_MAX || strlen(conf->mounts[i].path) > best_len)) {
            best = i;
            best_len = strlen(conf->mounts[i].path);
        }
    }
    if (best != SIZE_MAX) {
        is_above(conf->mounts[best].path, path, &rest);
        t[(*n)++] = (struct load_target){best, xstrdup(rest)};
    }
    for (size_t i = 0; i < conf->nmounts; i++)
        if (i != best && strcmp(conf->mounts[i].path, path) != 0
            && is_above(path, conf->mounts[i].path, &rest))
            t[(*n)++] = (struct load_target){i, xstrdup("")};
    if (*n)
        return t;
    free(t);
    return NULL;
}

void load_targets_free(struct load_target *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(t[i].dir);
    free(t);
}

/* -- one chunk ------------------------------------------------------------------------------- */

static uint64_t cached_bytes(const struct http_resp *resp, const char *text)
{
    const char *p = resp->status == 200 ? strstr(text, "\"cachedBytes\":") : NULL;
    return p ? strtoull(p + 14, NULL, 10) : 0;
}

/* 0: all of the chunk is in its worker. -1: e; CONFLICT and NOTFOUND are about the file itself. */
static int ask_worker(struct load *l, const struct load_item *it, uint64_t off, uint64_t len,
    bool check, struct err *e)
{
    const struct conf *conf = l->s->conf;
    struct cache_key key = {(uint32_t)it->mount, it->path, it->st.version, it->st.size};
    int owner = peers_owner(conf->worker_name ? conf->worker_name : "worker", l->nurls,
        conf->mounts[it->mount].mount_point, it->path, off);
    cleanup_free char *query = peers_query(&key);
    static const char *const pins[] = {
        [REQUEST_PIN_AS_IS] = "", [REQUEST_PIN] = "&pin=1", [REQUEST_UNPIN] = "&pin=0"};
    cleanup_free char *url = xasprintf("%s/v1/load?%s&off=%" PRIu64 "&len=%" PRIu64 "%s%s",
        l->urls[owner], query, off, len, check ? "&check=1" : "", pins[l->pin]);
    struct http_req req = {
        .method = "POST", .url = url, .stall_ns = STALL_NS, .cancel = &l->s->cancel};
    cleanup_resp struct http_resp resp = {0};
    if (http_do(l->http, &req, &resp, e))
        return -1;
    char *text = buf_str(&resp.body);
    if (resp.status == 507 && strstr(text, "\"PinLimit\"")) {
        pthread_mutex_lock(&l->mu);
        l->pins_full = true;
        pthread_mutex_unlock(&l->mu);
    }
    if (resp.status != 200) {
        enum err_class cls = resp.status == 507 ? ERR_EXHAUSTED : http_class_of_status(resp.status);
        return err_set(e, cls, "%s: %.*s", l->urls[owner], (int)strcspn(text, "\r\n"), text);
    }
    if (cached_bytes(&resp, text) != len)
        return err_set(e, ERR_RETRY, "%s holds %" PRIu64 " bytes of %" PRIu64, l->urls[owner],
            cached_bytes(&resp, text), len);
    return 0;
}

static bool load_pause(struct load *l, int64_t ns)
{
    for (int64_t until = clock_mono_ns() + ns;
         clock_mono_ns() < until && !atomic_load(&l->s->cancel);)
        clock_sleep_ns(MIN(ns, 100 * NS_PER_MS));
    return !atomic_load(&l->s->cancel);
}

static int load_chunk(
    struct load *l, const struct load_item *it, uint64_t off, uint64_t len, struct err *e)
{
    if (l->check && ask_worker(l, it, off, len, true, e) == 0)
        return 0;
    if (l->check) {
        pthread_mutex_lock(&l->mu);
        l->missing++;
        pthread_mutex_unlock(&l->mu);
    }
    int64_t pause = PAUSE_MIN_NS;
    for (int i = 0; i < TRIES; i++) {
        if (ask_worker(l, it, off, len, false, e) == 0)
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
    bool named = l->failed_files++ < NAMED_MAX;
    l->row++;
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
        l->done_bytes += len;
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
    l->done_files++;
    pthread_mutex_unlock(&l->mu);
}

/* -- one pass over everything ---------------------------------------------------------------- */

static void load_item_run(void *arg)
{
    struct load_item *it = arg;
    struct load *l = it->l;
    pthread_mutex_lock(&l->mu);
    bool hopeless = l->row >= ROW_MAX || l->pins_full;
    pthread_mutex_unlock(&l->mu);
    if (!hopeless && !atomic_load(&l->s->cancel))
        load_file(l, it);
    free(it->path);
    free(it);
}

struct load_listing {
    struct load *l;
    size_t mount;
    const char *dir;
};

static void load_add(struct load *l, size_t mount, char *path_taken, const struct store_stat *st)
{
    struct load_item *it = xcalloc(1, sizeof *it);
    *it = (struct load_item){.l = l, .mount = mount, .path = path_taken, .st = *st};
    pthread_mutex_lock(&l->mu);
    l->files++;
    l->bytes += st->size;
    pthread_mutex_unlock(&l->mu);
    if (pool_add(l->pool, 0, load_item_run, it))
        load_item_run(it);
}

static int load_listed(void *user, const struct store_entry *entry)
{
    struct load_listing *li = user;
    if (!entry->st.is_dir)
        load_add(li->l, li->mount,
            *li->dir ? path_join(li->dir, entry->name) : xstrdup(entry->name), &entry->st);
    return atomic_load(&li->l->s->cancel) ? 1 : 0;
}

static int list_target(struct load *l, const struct load_target *t, struct err *e)
{
    struct store *st = server_store(l->s, t->mount);
    struct store_stat stat;
    if (*t->dir) {
        if (store_stat_path(st, t->dir, &stat, e))
            return -1;
        if (!stat.is_dir) {
            load_add(l, t->mount, xstrdup(t->dir), &stat);
            return 0;
        }
    }
    struct load_listing li = {l, t->mount, t->dir};
    char *cursor = NULL;
    int64_t pause = PAUSE_MIN_NS;
    int tries = 0;
    do {
        char *before = cursor ? xstrdup(cursor) : NULL;
        if (store_list_tree(st, t->dir, &cursor, load_listed, &li, e) == 0) {
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

static int list_paths(struct load *l, const struct load_conf *lc, struct err *e)
{
    static char *everything[] = {(char *)"/"};
    char **paths = lc->npaths ? lc->paths : everything;
    for (int i = 0; i < (lc->npaths ? lc->npaths : 1); i++) {
        size_t n = 0;
        struct load_target *t = load_targets(l->s->conf, paths[i], &n);
        int rc = t ? 0 : err_set(e, ERR_NOTFOUND, "no mount of the dataset holds %s", paths[i]);
        for (size_t k = 0; k < n && rc == 0; k++)
            rc = list_target(l, &t[k], e);
        load_targets_free(t, n);
        if (rc)
            return err_wrap(e, "list %s", paths[i]);
    }
    return 0;
}

static int load_pass(struct load *l, const struct load_conf *lc, bool check, struct err *e)
{
    unsigned threads = lc->threads ? (unsigned)lc->threads : THREADS;
    pthread_mutex_lock(&l->mu);
    l->check = check;
    l->files = l->bytes = l->done_files = l->done_bytes = l->failed_files = l->missing = 0;
    l->row = 0;
    l->first_error[0] = '\0';
    pthread_mutex_unlock(&l->mu);
    l->pool = pool_new(
        &(struct pool_conf){.name = "load", .threads = threads, .queue_max = QUEUE_MAX});
    int rc = l->pool ? list_paths(l, lc, e) : err_sys(e, ENOMEM, "start threads");
    pool_free(l->pool); /* all of it is done */
    if (rc == 0 && atomic_load(&l->s->cancel))
        rc = err_set(e, ERR_RETRY, "stopped before the end");
    if (rc == 0 && l->pins_full)
        rc = err_set(e, ERR_EXHAUSTED,
            "pins may take half of a cache worker's quota, and do: unpin something (a DataLoad with pin: false), or "
            "raise spec.cache.tiers[].quota; first: %.150s",
            l->first_error);
    if (rc == 0 && l->row >= ROW_MAX)
        rc = err_set(
            e, ERR_RETRY, "gave up after %u files in a row; first: %s", l->row, l->first_error);
    return rc;
}

/* -- the whole ------------------------------------------------------------------------------- */

static void add_status(void *user, struct buf *out)
{
    struct load *l = user;
    pthread_mutex_lock(&l->mu);
    buf_addf(out,
        ",\"load\":{\"files\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"loadedFiles\":%" PRIu64
        ",\"loadedBytes\":%" PRIu64 ",\"failedFiles\":%" PRIu64
        ",\"verifying\":%s,\"complete\":%s}",
        l->files, l->bytes, l->done_files, l->done_bytes, l->failed_files,
        l->check ? "true" : "false", l->complete ? "true" : "false");
    pthread_mutex_unlock(&l->mu);
}

static int wait_ready(struct load *l, int64_t wait_ns, struct err *e)
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

/* Files that are gone from the store are in no listing: the workers know them alone. */
static int unpin_everything(struct load *l, struct err *e)
{
    for (int i = 0; i < l->nurls; i++) {
        cleanup_free char *url = xasprintf("%s/v1/unpin", l->urls[i]);
        struct http_req req = {
            .method = "POST", .url = url, .stall_ns = STALL_NS, .cancel = &l->s->cancel};
        cleanup_resp struct http_resp resp = {0};
        if (http_do(l->http, &req, &resp, e))
            return -1;
        if (resp.status != 200)
            return err_set(e, http_class_of_status(resp.status), "%s: status %d", url, resp.status);
    }
    return 0;
}

static bool is_everything(const struct load_conf *lc)
{
    bool all = lc->npaths == 0;
    for (int i = 0; i < lc->npaths; i++)
        all |= strcmp(lc->paths[i], "/") == 0;
    return all;
}

static int load_all(struct load *l, const struct load_conf *lc, struct err *e)
{
    if (wait_ready(l, lc->wait_ns, e))
        return -1;
    if (lc->pin == REQUEST_UNPIN && is_everything(lc) && unpin_everything(l, e))
        return -1;
    if (load_pass(l, lc, false, e))
        return -1;
    for (int round = 0; round < ROUNDS; round++) { /* files that failed are tried again here */
        if (load_pass(l, lc, true, e))
            return -1;
        if (l->failed_files == 0 && l->missing == 0)
            return 0;
    }
    if (l->failed_files)
        return err_set(e, ERR_RETRY,
            "%" PRIu64 " of %" PRIu64 " files are not in the cache; first: %s", l->failed_files,
            l->files, l->first_error);
    return err_set(e, ERR_EXHAUSTED,
        "the cache loses files while others are loaded: raise the quota of its tiers");
}

/* First line: the final counters as {"load":{…}}, since /status may be gone before it is asked
 * again. Last line: the sentence. */
static void write_report(struct load *l, const struct load_conf *lc, const char *text)
{
    int fd = lc->report ? open(lc->report, O_WRONLY | O_TRUNC | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    cleanup_buf struct buf member = BUF_INIT(1024), out = BUF_INIT(4096);
    add_status(l, &member);
    buf_addf(&out, "{%s}\n%s", buf_str(&member) + 1, text);
    if (write(fd, out.data, out.len) < 0)
        log_debug("no report: %s", strerror(errno));
    close(fd);
}

static char **worker_urls(const struct load_conf *lc, const struct conf *conf, int *n)
{
    *n = lc->nurls ? lc->nurls : conf && conf->worker_name ? conf->worker_count : 0;
    char **urls = xcalloc((size_t)*n + 1, sizeof *urls);
    for (int i = 0; i < *n; i++)
        urls[i] = lc->nurls ? xstrdup(lc->urls[i]) : peers_url(conf, i);
    return urls;
}

int load_run(struct server *s, const struct load_conf *lc)
{
    struct err e = ERR_INIT;
    struct load l = {.s = s, .pin = lc->pin};
    pthread_mutex_init(&l.mu, NULL);
    l.urls = worker_urls(lc, s->conf, &l.nurls);
    struct http_conf hc = {.max_idle = THREADS};
    l.http = http_new(&hc, &e);
    pthread_mutex_lock(&s->mu);
    s->more_user = &l;
    s->more = add_status;
    pthread_mutex_unlock(&s->mu);
    int rc = l.http ? 0 : -1;
    if (rc == 0 && s->conf && l.nurls == 0)
        rc = err_set(&e, ERR_INVALID, "the dataset has no cache workers to load into");
    if (rc == 0)
        rc = load_all(&l, lc, &e);
    char bytes[HUMAN_BYTES_LEN];
    cleanup_free char *text = rc ? xasprintf("load failed: %s", e.msg)
                                 : xasprintf("loaded %" PRIu64 " files, %s, into %d cache workers",
                                     l.files, human_bytes(l.bytes, bytes), l.nurls);
    log_redact_text(text);
    log_kv(rc ? LOG_ERROR : LOG_INFO, text, NULL);
    write_report(&l, lc, text);
    pthread_mutex_lock(&l.mu);
    l.complete = rc == 0;
    pthread_mutex_unlock(&l.mu);
    pthread_mutex_lock(&s->mu);
    s->more = NULL;
    pthread_mutex_unlock(&s->mu);
    http_free(l.http);
    for (int i = 0; i < l.nurls; i++)
        free(l.urls[i]);
    free(l.urls);
    pthread_mutex_destroy(&l.mu);
    return rc ? 1 : 0;
}
