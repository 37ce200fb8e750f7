/* SPDX-License-Identifier: Apache-2.0 */
/* millrace-worker — a cache worker of a dataset, or what fills the workers: once
 * (--load), or for as long as it runs (--preload). */
#include "fuse/worker/load.h"
#include "fuse/worker/preload.h"
#include "fuse/worker/server.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/program.h"
#include "lib/base/task.h"
#include "lib/http/metric.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVE_THREADS 512
#define WAIT_S        600

struct worker_flags {
    const char *cache_dir, *secrets_dir, *key_file, *http, *metrics, *config, *report, *pin;
    int64_t index, wait_ns, bandwidth;
    bool load, preload, list_metrics;
};

static const struct program program = {
    .name = "millrace-worker",
    .component = "worker",
    .usage = "millrace-worker [FLAGS] [--load PATH… | --preload [PATH|pin=PATH]…]",
    .about =
        "Serves the bytes of one dataset from a cache to its clients. Without --cache-key-file it trusts its network: whoever "
        "reaches its port can read the dataset's bytes.",
    .arguments = true,
};

/* As program_flags. */
static int worker_flags_parse(struct worker_flags *f, int argc, char **argv, int *first)
{
    const struct opt table[] = {
        {"cache-dir", OPT_STRING, &f->cache_dir, "DIR",
            "directory for cached bytes; needed for tiers on disk"},
        {"secrets-dir", OPT_STRING, &f->secrets_dir, "DIR", "credentials, <mount>/<option> each"},
        {"cache-key-file", OPT_STRING, &f->key_file, "FILE",
            "the dataset's key, 64 hexadecimal characters: bytes are for those who have it, too"},
        {"config", OPT_STRING, &f->config, "FILE",
            "the dataset's configuration; default: the environment variable " ENV_CONFIG},
        {"http", OPT_STRING, &f->http, "ADDRESS", "serve data, health and status there"},
        {"metrics", OPT_STRING, &f->metrics, "ADDRESS", SCRAPE_HELP},
        {"list-metrics", OPT_BOOL, &f->list_metrics, NULL, SCRAPE_LIST_HELP},
        {"index", OPT_INT, &f->index, "N", "which worker this is; default: from the host name"},
        {"load", OPT_BOOL, &f->load, NULL,
            "load the given paths (or everything) into the workers and end"},
        {"preload", OPT_BOOL, &f->preload, NULL,
            "load the given paths into the workers, and again whenever something of them is missing there; "
            "pin=PATH pins it, and nothing else stays pinned"},
        {"pin", OPT_STRING, &f->pin, "true|false",
            "with --load: pin what is loaded, or unpin it; default: as it is"},
        {"bandwidth", OPT_BYTES, &f->bandwidth, "BYTES",
            "with --load: fetch so much a second from the stores, at most; default: no bound"},
        {"wait", OPT_SECONDS, &f->wait_ns, "TIME", "with --load: how long to wait for the store"},
        {"report", OPT_STRING, &f->report, "FILE",
            "with --load: file that gets a sentence about the end"},
    };
    int rc = program_flags(&program, table, ARRAY_LEN(table), argc, argv, first);
    if (rc >= 0)
        return rc;
    if (f->pin && (!f->load || (strcmp(f->pin, "true") != 0 && strcmp(f->pin, "false") != 0)))
        return program_misuse(&program, "--pin is true or false, and for --load");
    if (f->load && f->preload)
        return program_misuse(&program, "either --load or --preload is possible");
    if (*first < argc && !f->load && !f->preload)
        return program_misuse(&program, "paths are given with --load or --preload only");
    return -1;
}

/* "<worker name>-<i>" → i; -1 if the host is called something else. */
static int64_t index_from_host(const struct conf *conf)
{
    char host[256] = "";
    if (!conf->worker_name || gethostname(host, sizeof host - 1))
        return -1;
    size_t n = strlen(conf->worker_name);
    if (strncmp(host, conf->worker_name, n) != 0 || host[n] != '-' || !host[n + 1]
        || strspn(host + n + 1, "0123456789") != strlen(host + n + 1))
        return -1;
    return strtol(host + n + 1, NULL, 10);
}

struct canceller {
    struct task task;
    sigset_t stop;
    struct server *s;
};

/* A signal ends a load early. */
static void cancel_thread(void *user)
{
    struct canceller *c = user;
    static const struct timespec tick = {0, 100 * NS_PER_MS};
    while (!task_wait(&c->task, 0))
        if (sigtimedwait(&c->stop, NULL, &tick) > 0)
            atomic_store(&c->s->cancel, true);
}

static enum request_pin pin_of(const struct worker_flags *f)
{
    return !f->pin ? REQUEST_PIN_AS_IS : strcmp(f->pin, "true") == 0 ? REQUEST_PIN : REQUEST_UNPIN;
}

static int run_preload(struct server *s, char **words, int nwords)
{
    struct load_path *paths = xcalloc((size_t)nwords + 1, sizeof *paths);
    for (int i = 0; i < nwords; i++) {
        bool pin = strncmp(words[i], PRELOAD_PIN, strlen(PRELOAD_PIN)) == 0;
        paths[i] = (struct load_path){
            words[i] + (pin ? strlen(PRELOAD_PIN) : 0), pin ? REQUEST_PIN : REQUEST_PIN_AS_IS};
    }
    struct preload_conf kc = {.paths = paths, .npaths = (size_t)nwords};
    int rc = preload_run(s, &kc);
    free(paths);
    return rc;
}

static int run_load(
    const struct worker_flags *f, struct server *s, const sigset_t *stop, char **paths, int npaths)
{
    struct err e = ERR_INIT;
    struct canceller c = {.stop = *stop, .s = s};
    struct load_conf lc = {.paths = paths,
        .npaths = npaths,
        .pin = pin_of(f),
        .bandwidth = f->bandwidth,
        .wait_ns = f->wait_ns,
        .report = f->report};
    if (task_start(&c.task, "signals", cancel_thread, &c, &e))
        log_kv(LOG_WARN, "a signal will not end this load", "error", e.msg, NULL);
    int rc = f->preload ? run_preload(s, paths, npaths) : load_run(s, &lc);
    task_stop(&c.task);
    return rc;
}

static int serve_or_load(
    const struct worker_flags *f, struct server *s, const sigset_t *stop, char **paths, int npaths)
{
    struct serve_route routes[STATUS_ROUTES + SERVE_RANGE_ROUTES];
    size_t n = STATUS_ROUTES;
    bool loads = f->load || f->preload;
    status_routes(s, routes);
    if (!loads && s->conf) {
        serve_range_routes(s, routes + n);
        n += SERVE_RANGE_ROUTES;
    }
    struct err e = ERR_INIT;
    struct http_server *http = server_listen(f->http, SERVE_THREADS, routes, n, &e);
    if (!http && !loads) {
        log_kv(LOG_ERROR, "can't serve", "error", e.msg, NULL);
        return 1;
    }
    if (http)
        log_fmt(LOG_INFO, "listening on port %d", serve_port(http));
    if (scrape_start(&s->scrape, f->metrics, &e))
        log_kv(LOG_ERROR, "metrics are not served", "error", e.msg, NULL);
    server_start(s);
    /* the first worker counts for all; one without a number is the first */
    if (!loads && s->conf && (f->index >= 0 ? f->index : index_from_host(s->conf)) <= 0)
        inventory_start(s);
    int rc = 0, sig;
    if (loads)
        rc = run_load(f, s, stop, paths, npaths);
    else
        sigwait(stop, &sig);
    atomic_store(&s->cancel, true);
    server_fail(s, "Draining", "the worker ends");
    scrape_stop(&s->scrape);
    serve_stop(http);
    inventory_stop();
    server_stop(s);
    return rc;
}

int main(int argc, char **argv)
{
    struct worker_flags f = {.secrets_dir = POD_SECRETS_DIR,
        .report = "/dev/termination-log",
        .index = -1,
        .wait_ns = WAIT_S * NS_PER_S};
    struct err e = ERR_INIT;
    sigset_t stop;
    int first, rc = worker_flags_parse(&f, argc, argv, &first);
    if (rc >= 0)
        return rc;
    if (f.list_metrics)
        return metric_list();
    program_start(&stop);
    struct sign_key key;
    if (f.key_file && sign_key_read(f.key_file, &key, &e)) {
        log_kv(LOG_ERROR, "the key of the dataset cannot be read", "error", e.msg, NULL);
        return 1;
    }
    bool loads = f.load || f.preload;
    struct server *s = server_new(
        loads ? COMPONENT_LOADER : COMPONENT_WORKER, f.secrets_dir, loads ? NULL : f.cache_dir);
    s->key = f.key_file ? &key : NULL;
    cleanup_free char *text = f.config ? file_read(f.config, 1 << 20, NULL, &e) : NULL;
    const char *json = f.config ? text : getenv(ENV_CONFIG);
    if (f.config && !text)
        server_fail(s, "InvalidOption", e.msg);
    else
        server_configure(s, json);
    rc = serve_or_load(&f, s, &stop, argv + first, argc - first);
    server_free(s);
    if (f.key_file)
        sign_key_wipe(&key);
    return rc;
}
