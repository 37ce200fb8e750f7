/* SPDX-License-Identifier: Apache-2.0 */
/* millrace-worker — a cache worker of a dataset, or (--load) the loader that fills the workers. */
#include "fuse/worker/load.h"
#include "fuse/worker/server.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/opt.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVE_THREADS 512
#define WAIT_S        600

struct worker_flags {
    const char *cache_dir, *secrets_dir, *http, *config, *level, *report, *pin;
    int64_t index, wait_ns;
    bool load, help, version;
};

static int worker_flags_parse(
    struct worker_flags *f, int argc, char **argv, int *first, struct err *e)
{
    const struct opt table[] = {
        {"cache-dir", OPT_STRING, &f->cache_dir, "DIR",
            "directory for cached bytes; needed for tiers on disk"},
        {"secrets-dir", OPT_STRING, &f->secrets_dir, "DIR", "credentials, <mount>/<option> each"},
        {"config", OPT_STRING, &f->config, "FILE",
            "the dataset's configuration; default: the environment variable " ENV_CONFIG},
        {"http", OPT_STRING, &f->http, "ADDRESS", "serve data, health, metrics and status there"},
        {"index", OPT_INT, &f->index, "N", "which worker this is; default: from the host name"},
        {"load", OPT_BOOL, &f->load, NULL,
            "load the given paths (or everything) into the workers and end"},
        {"pin", OPT_STRING, &f->pin, "true|false",
            "with --load: pin what is loaded, or unpin it; default: as it is"},
        {"wait", OPT_SECONDS, &f->wait_ns, "TIME", "with --load: how long to wait for the store"},
        {"report", OPT_STRING, &f->report, "FILE",
            "with --load: file that gets a sentence about the end"},
        {"log-level", OPT_STRING, &f->level, "LEVEL", "debug, info, warn or error"},
        {"version", OPT_BOOL, &f->version, NULL, "print the version"},
        {"help", OPT_BOOL, &f->help, NULL, "print this"},
    };
    if (opt_parse(table, ARRAY_LEN(table), argc, argv, first, e))
        return -1;
    if (f->help) {
        cleanup_free char *text = opt_help(table, ARRAY_LEN(table),
            "millrace-worker [FLAGS] [--load PATH…]",
            "Serves the bytes of one dataset from a cache to its clients. It trusts its network: whoever reaches its port can read the "
            "dataset's bytes, so let only the dataset's namespace reach it.");
        fputs(text, stdout);
    }
    return 0;
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

static struct serve *worker_listen(
    const struct worker_flags *f, const struct serve_route *routes, size_t n, struct err *e)
{
    char any6[32], any4[32];
    snprintf(any6, sizeof any6, "[::]:%d", PORT_HTTP);
    snprintf(any4, sizeof any4, "0.0.0.0:%d", PORT_HTTP);
    const char *tries[] = {f->http ? f->http : any6, f->http ? NULL : any4};
    struct serve *server = NULL;
    for (size_t i = 0; i < ARRAY_LEN(tries) && tries[i] && !server; i++) {
        struct serve_conf conf = {.address = tries[i],
            .routes = routes,
            .nroutes = n,
            .max_threads = SERVE_THREADS,
            .max_body = 4096};
        server = serve_start(&conf, e);
    }
    return server;
}

static void *wait_for_end(void *arg)
{
    struct server *s = arg;
    sigset_t set;
    int sig;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigwait(&set, &sig);
    atomic_store(&s->cancel, true);
    return NULL;
}

static enum request_pin pin_of(const struct worker_flags *f)
{
    return !f->pin ? REQUEST_PIN_AS_IS : strcmp(f->pin, "true") == 0 ? REQUEST_PIN : REQUEST_UNPIN;
}

static int serve_or_load(const struct worker_flags *f, struct server *s,
    const struct serve_route *status, char **paths, int npaths)
{
    struct serve_route routes[STATUS_ROUTES + SERVE_RANGE_ROUTES];
    size_t n = STATUS_ROUTES;
    memcpy(routes, status, STATUS_ROUTES * sizeof *status);
    if (!f->load && s->conf) {
        serve_range_routes(s, routes + n);
        n += SERVE_RANGE_ROUTES;
    }
    struct err e = ERR_INIT;
    struct serve *server = worker_listen(f, routes, n, &e);
    if (!server && !f->load) {
        log_kv(LOG_ERROR, "can't serve", "error", e.msg, NULL);
        return 1;
    }
    if (server)
        log_fmt(LOG_INFO, "listening on port %d", serve_port(server));
    server_start(s);
    if (!f->load && s->conf && (f->index >= 0 ? f->index : index_from_host(s->conf)) <= 0)
        inventory_start(
            s); /* the first worker counts for all; alone without a number it is the first */
    pthread_t waiter;
    bool waits = pthread_create(&waiter, NULL, wait_for_end, s) == 0;
    int rc = 0;
    if (f->load) {
        struct load_conf lc = {.paths = paths,
            .npaths = npaths,
            .pin = pin_of(f),
            .wait_ns = f->wait_ns,
            .report = f->report};
        rc = load_run(s, &lc);
        if (waits)
            pthread_kill(waiter, SIGTERM);
    }
    if (waits)
        pthread_join(waiter, NULL);
    server_fail(s, "Draining", "the worker ends");
    if (server)
        serve_stop(server);
    server_stop(s);
    inventory_stop();
    return rc;
}

int main(int argc, char **argv)
{
    /* many threads, few allocations: arenas would only be memory that nobody gives back */
    mallopt(M_ARENA_MAX, 2);
    struct worker_flags f = {.secrets_dir = POD_SECRETS_DIR,
        .level = "info",
        .report = "/dev/termination-log",
        .index = -1,
        .wait_ns = WAIT_S * INT64_C(1000000000)};
    struct err e = ERR_INIT;
    int first;
    if (worker_flags_parse(&f, argc, argv, &first, &e)) {
        fprintf(stderr, "millrace-worker: %s\n", e.msg);
        return 2;
    }
    if (f.help)
        return 0;
    if (f.version) {
        puts("millrace-worker " MILLRACE_VERSION);
        return 0;
    }
    if (f.pin && (!f.load || (strcmp(f.pin, "true") != 0 && strcmp(f.pin, "false") != 0))) {
        fprintf(stderr, "millrace-worker: --pin is true or false, and for --load\n");
        return 2;
    }
    enum log_level level;
    if (log_level_parse(f.level, &level) || (first < argc && !f.load)) {
        fprintf(stderr,
            first < argc && !f.load
                ? "millrace-worker: paths are given with --load only\n"
                : "millrace-worker: --log-level is debug, info, warn or error\n");
        return 2;
    }
    log_init("worker", level);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);

    struct server *s = server_new(
        f.load ? COMPONENT_LOADER : COMPONENT_WORKER, f.secrets_dir, f.load ? NULL : f.cache_dir);
    cleanup_free char *text = f.config ? file_read(f.config, 1 << 20, NULL, &e) : NULL;
    const char *json = f.config ? text : getenv(ENV_CONFIG);
    if (f.config && !text)
        server_fail(s, "InvalidOption", e.msg);
    else
        server_configure(s, json);
    struct serve_route status[STATUS_ROUTES];
    status_routes(s, status);
    int rc = serve_or_load(&f, s, status, argv + first, argc - first);
    server_free(s);
    return rc;
}
