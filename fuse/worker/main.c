/* SPDX-License-Identifier: Apache-2.0 */
/* millrace-worker — a cache worker of a dataset, or (--load) the loader that fills the workers. */
#include "fuse/worker/load.h"
#include "fuse/worker/server.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/program.h"
#include "lib/base/task.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVE_THREADS 512
#define WAIT_S        600

struct worker_flags {
    const char *cache_dir, *secrets_dir, *http, *config, *report, *pin;
    int64_t index, wait_ns;
    bool load;
};

static const struct program program = {
    .name = "millrace-worker",
    .component = "worker",
    .usage = "millrace-worker [FLAGS] [--load PATH…]",
    .about =
        "Serves the bytes of one dataset from a cache to its clients. It trusts its network: whoever reaches its port can read the "
        "dataset's bytes, so let only the dataset's namespace reach it.",
    .arguments = true,
};

/* As program_flags. */
static int worker_flags_parse(struct worker_flags *f, int argc, char **argv, int *first)
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
    };
    int rc = program_flags(&program, table, ARRAY_LEN(table), argc, argv, first);
    if (rc >= 0)
        return rc;
    if (f->pin && (!f->load || (strcmp(f->pin, "true") != 0 && strcmp(f->pin, "false") != 0)))
        return program_misuse(&program, "--pin is true or false, and for --load");
    if (*first < argc && !f->load)
        return program_misuse(&program, "paths are given with --load only");
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

static struct http_server *worker_listen(
    const struct worker_flags *f, const struct serve_route *routes, size_t n, struct err *e)
{
    char any6[32], any4[32];
    snprintf(any6, sizeof any6, "[::]:%d", PORT_HTTP);
    snprintf(any4, sizeof any4, "0.0.0.0:%d", PORT_HTTP);
    const char *tries[] = {f->http ? f->http : any6, f->http ? NULL : any4};
    struct http_server *server = NULL;
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

static int run_load(
    const struct worker_flags *f, struct server *s, const sigset_t *stop, char **paths, int npaths)
{
    struct err e = ERR_INIT;
    struct canceller c = {.stop = *stop, .s = s};
    struct load_conf lc = {.paths = paths,
        .npaths = npaths,
        .pin = pin_of(f),
        .wait_ns = f->wait_ns,
        .report = f->report};
    if (task_start(&c.task, "signals", cancel_thread, &c, &e))
        log_kv(LOG_WARN, "a signal will not end this load", "error", e.msg, NULL);
    int rc = load_run(s, &lc);
    task_stop(&c.task);
    return rc;
}

static int serve_or_load(
    const struct worker_flags *f, struct server *s, const sigset_t *stop, char **paths, int npaths)
{
    struct serve_route routes[STATUS_ROUTES + SERVE_RANGE_ROUTES];
    size_t n = STATUS_ROUTES;
    status_routes(s, routes);
    if (!f->load && s->conf) {
        serve_range_routes(s, routes + n);
        n += SERVE_RANGE_ROUTES;
    }
    struct err e = ERR_INIT;
    struct http_server *http = worker_listen(f, routes, n, &e);
    if (!http && !f->load) {
        log_kv(LOG_ERROR, "can't serve", "error", e.msg, NULL);
        return 1;
    }
    if (http)
        log_fmt(LOG_INFO, "listening on port %d", serve_port(http));
    server_start(s);
    /* the first worker counts for all; one without a number is the first */
    if (!f->load && s->conf && (f->index >= 0 ? f->index : index_from_host(s->conf)) <= 0)
        inventory_start(s);
    int rc = 0, sig;
    if (f->load)
        rc = run_load(f, s, stop, paths, npaths);
    else
        sigwait(stop, &sig);
    atomic_store(&s->cancel, true);
    server_fail(s, "Draining", "the worker ends");
    if (http)
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
    program_start(&stop);
    struct server *s = server_new(
        f.load ? COMPONENT_LOADER : COMPONENT_WORKER, f.secrets_dir, f.load ? NULL : f.cache_dir);
    cleanup_free char *text = f.config ? file_read(f.config, 1 << 20, NULL, &e) : NULL;
    const char *json = f.config ? text : getenv(ENV_CONFIG);
    if (f.config && !text)
        server_fail(s, "InvalidOption", e.msg);
    else
        server_configure(s, json);
    rc = serve_or_load(&f, s, &stop, argv + first, argc - first);
    server_free(s);
    return rc;
}
