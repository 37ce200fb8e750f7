/* SPDX-License-Identifier: Apache-2.0 */
/* millrace-csi — the node plugin: CSI for kubelet, keeper of the FUSE mounts, owner of the node's
 * cache directories. */
#include "csi/plugin.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/opt.h"
#include "lib/http/metric.h"
#include "lib/http/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORKERS    16 /* RPCs that may wait for something at a time */
#define GRACE_NS   (10 * NS_PER_S)
#define HARD_NS    (10 * NS_PER_S)
#define COLLECT_NS (30 * NS_PER_S)

struct options {
    const char *node_id, *kubelet_dir, *root, *mode, *socket, *registration, *http, *log_level,
        *client, *run_dir;
    int64_t read_ahead, abandon, cache_keep, backing_max;
    bool keep_idle, help, version;
};

struct running {
    struct plugin plugin;
    struct rpc_server *rpc;
    struct serve *http;
    int lock_fd;
    atomic_bool stopping;
    pthread_t signals, collector;
};

static int parse(int argc, char **argv, struct options *o, struct err *e)
{
    const struct opt table[] = {
        {"node-id", OPT_STRING, &o->node_id, "NAME", "this node's name; default: the host's"},
        {"kubelet-dir", OPT_STRING, &o->kubelet_dir, "DIR", "where kubelet keeps its files"},
        {"mode", OPT_STRING, &o->mode, "MODE",
            "kubernetes, or standalone: clients are processes, no registration"},
        {"root", OPT_STRING, &o->root, "DIR",
            "directories and records; default: <kubelet-dir>/plugins/" NAME_DRIVER},
        {"socket", OPT_STRING, &o->socket, "PATH", "the CSI socket; default: <root>/csi.sock"},
        {"registration", OPT_STRING, &o->registration, "PATH",
            "default: <kubelet-dir>/plugins_registry/" NAME_DRIVER "-reg.sock"},
        {"http", OPT_STRING, &o->http, "ADDRESS", "/healthz, /readyz and /metrics; empty: none"},
        {"client", OPT_STRING, &o->client, "PATH", "program of a client process (standalone)"},
        {"run-dir", OPT_STRING, &o->run_dir, "DIR",
            "configuration and secrets of client processes (standalone)"},
        {"read-ahead", OPT_BYTES, &o->read_ahead, "SIZE", "of every mount"},
        {"abandon-after", OPT_SECONDS, &o->abandon, "TIME",
            "a mount without a client for so long is aborted; 0: never"},
        {"cache-keep", OPT_SECONDS, &o->cache_keep, "TIME",
            "an unused cache directory is removed after it"},
        {"keep-idle-on-exit", OPT_BOOL, &o->keep_idle, NULL,
            "leave unused cache directories when the plugin ends"},
        {"backing-files-max", OPT_INT, &o->backing_max, "N",
            "cache files a dataset that the kernel may read directly at a time"},
        {"log-level", OPT_STRING, &o->log_level, "LEVEL", "debug, info, warn or error"},
        {"version", OPT_BOOL, &o->version, NULL, "print the version and end"},
        {"help", OPT_BOOL, &o->help, NULL, "print this and end"},
    };
    int first;
    if (opt_parse(table, ARRAY_LEN(table), argc, argv, &first, e))
        return -1;
    if (first < argc)
        return err_set(
            e, ERR_INVALID, "unexpected argument '%s'; --help lists the flags", argv[first]);
    if (o->help) {
        cleanup_free char *text = opt_help(
            table, ARRAY_LEN(table), "millrace-csi [flags]", "CSI node plugin of Millrace.");
        fputs(text, stdout);
    }
    enum log_level level;
    if (log_level_parse(o->log_level, &level))
        return err_set(
            e, ERR_INVALID, "--log-level: '%s' is none of debug, info, warn, error", o->log_level);
    log_init("csi", level);
    if (strcmp(o->mode, "kubernetes") != 0 && strcmp(o->mode, "standalone") != 0)
        return err_set(
            e, ERR_INVALID, "--mode: '%s' is neither kubernetes nor standalone", o->mode);
    return 0;
}

/* Defaults that depend on other flags. What is allocated lives until exit. */
static void complete(struct options *o)
{
    static char host[256];
    if (!o->node_id[0] && gethostname(host, sizeof host - 1) == 0)
        o->node_id = host;
    if (!o->root[0])
        o->root = xasprintf("%s/plugins/%s", o->kubelet_dir, NAME_DRIVER);
    if (!o->socket[0])
        o->socket = xasprintf("%s/csi.sock", o->root);
    if (!o->registration[0])
        o->registration = xasprintf("%s/plugins_registry/%s-reg.sock", o->kubelet_dir, NAME_DRIVER);
}

static void healthz(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    (void)user, (void)req;
    buf_adds(&resp->body, "ok\n");
}

static void metrics(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct running *r = user;
    (void)req;
    metric_set(metric_gauge("millrace_csi_volumes", "", "volumes that this node knows"),
        (int64_t)volumes_count(r->plugin.volumes));
    resp->content_type = "text/plain; version=0.0.4";
    metric_write(&resp->body);
}

static int start_http(struct running *r, const char *address, struct err *e)
{
    const struct serve_route routes[] = {{"GET", "/healthz", healthz, r},
        {"GET", "/readyz", healthz, r}, {"GET", "/metrics", metrics, r}};
    struct serve_conf conf = {
        .address = address, .routes = routes, .nroutes = ARRAY_LEN(routes), .max_threads = 8};
    if (!address[0])
        return 0;
    r->http = serve_start(&conf, e);
    return r->http ? 0 : -1;
}

/* One plugin a node: the next one waits here until the last one has ended, so that they never share
 * the records. */
static int lock_root(struct running *r, const char *root, struct err *e)
{
    if (file_mkdirs(root, 0750, e))
        return -1;
    for (;;) {
        struct stat held, there;
        r->lock_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (r->lock_fd < 0)
            return err_sys(e, errno, "open %s", root);
        if (flock(r->lock_fd, LOCK_EX | LOCK_NB)) {
            log_kv(LOG_INFO, "waiting for another plugin on this node to end", "root", root, NULL);
            if (flock(r->lock_fd, LOCK_EX))
                return err_sys(e, errno, "lock %s", root);
        }
        if (fstat(r->lock_fd, &held) == 0 && stat(root, &there) == 0 && held.st_ino == there.st_ino
            && held.st_dev == there.st_dev)
            return 0;
        close(r->lock_fd); /* the last one has removed it */
        if (file_mkdirs(root, 0750, e))
            return -1;
    }
}

static int open_state(struct running *r, const struct options *o, struct err *e)
{
    struct plugin *p = &r->plugin;
    cleanup_free char *records = path_join(o->root, "state"),
                      *keep = path_join(o->root, "state/keep");
    *p = (struct plugin){.node_id = o->node_id,
        .endpoint = o->socket,
        .root = o->root,
        .run_dir = o->run_dir,
        .client_binary = o->client,
        .standalone = strcmp(o->mode, "standalone") == 0};
    if (file_mkdirs(keep, 0700, e) || !(p->places = places_new(o->root, o->cache_keep, e))
        || !(p->volumes = volumes_open(records, e)))
        return -1;
    struct keeper_conf conf = {.state_dir = keep,
        .node = o->node_id,
        .read_ahead_kib = o->read_ahead >> 10,
        .abandon_ns = o->abandon,
        .backing_max = (size_t)MAX(o->backing_max, 1)};
    p->keeper = keeper_new(&conf);
    stage_restore(p);
    return 0;
}

static int start_rpc(struct running *r, const struct options *o, struct err *e)
{
    struct rpc_method all[32];
    size_t n = 0;
    const struct {
        const struct rpc_method *methods;
        size_t n;
        bool offered;
    } tables[] = {{identity_methods, identity_nmethods, true}, {node_methods, node_nmethods, true},
        {controller_methods, controller_nmethods, r->plugin.standalone},
        {registration_methods, registration_nmethods, !r->plugin.standalone}};
    for (size_t i = 0; i < ARRAY_LEN(tables); i++)
        for (size_t k = 0; tables[i].offered && k < tables[i].n; k++)
            all[n++] = tables[i].methods[k];
    const char *sockets[] = {o->socket, o->registration};
    struct rpc_conf conf = {.sockets = sockets,
        .nsockets = r->plugin.standalone ? 1 : 2,
        .methods = all,
        .nmethods = n,
        .workers = WORKERS,
        .user = &r->plugin};
    r->rpc = rpc_new(&conf, e);
    return r->rpc ? 0 : -1;
}

static void *wait_signals(void *arg)
{
    struct running *r = arg;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    int sig;
    sigwait(&set, &sig);
    log_kv(LOG_INFO, "ending", "signal", strsignal(sig), NULL);
    atomic_store(&r->stopping, true);
    rpc_stop(r->rpc, GRACE_NS, HARD_NS);
    return NULL;
}

static void *collect(void *arg)
{
    struct running *r = arg;
    for (int64_t next = clock_mono_ns(); !atomic_load(&r->stopping);
         clock_sleep_ns(100 * NS_PER_MS)) {
        if (clock_mono_ns() < next)
            continue;
        places_collect(r->plugin.places, false);
        next = clock_mono_ns() + COLLECT_NS;
    }
    return NULL;
}

static void put_volume(struct volume *v, void *arg) { stage_leave(arg, v); }

/* In good order: mounts and the processes that serve them stay. If nothing is in use, nothing of us
 * stays on the node. */
static void close_state(struct running *r, const struct options *o, bool clean)
{
    struct plugin *p = &r->plugin;
    size_t volumes = p->volumes ? volumes_count(p->volumes) : 0;
    if (p->volumes)
        volumes_each(p->volumes, put_volume, p);
    if (p->places && clean)
        places_collect(p->places, true);
    keeper_free(p->keeper);
    volumes_free(p->volumes);
    places_free(p->places);
    if (volumes || !clean)
        return;
    cleanup_free char *keep = path_join(o->root, "state/keep"),
                      *records = path_join(o->root, "state");
    cleanup_free char *staging = xasprintf(
        "%s/plugins/kubernetes.io/csi/%s", o->kubelet_dir, NAME_DRIVER);
    const char *dirs[] = {keep, records, o->root, staging}; /* kubelet leaves the last one behind */
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        rmdir(dirs[i]);
}

static int run(struct running *r, const struct options *o, struct err *e)
{
    if (lock_root(r, o->root, e) || open_state(r, o, e) || start_http(r, o->http, e)
        || start_rpc(r, o, e))
        return -1;
    if (pthread_create(&r->signals, NULL, wait_signals, r)
        || pthread_create(&r->collector, NULL, collect, r))
        return err_set(e, ERR_FATAL, "cannot start a thread");
    log_kv(LOG_INFO, "ready", "node", o->node_id, "socket", o->socket, "mode", o->mode, "version",
        MILLRACE_VERSION, NULL);
    rpc_run(r->rpc);
    pthread_join(r->signals, NULL);
    pthread_join(r->collector, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    /* static: what it points to lives as long as the process */
    static struct options o = {.node_id = "",
        .kubelet_dir = "/var/lib/kubelet",
        .root = "",
        .mode = "kubernetes",
        .socket = "",
        .registration = "",
        .http = "0.0.0.0:9401",
        .log_level = "info",
        .client = "/usr/bin/millrace-fuse",
        .run_dir = "/run/millrace-csi",
        .read_ahead = 4 << 20,
        .abandon = 600 * NS_PER_S,
        .cache_keep = 3600 * NS_PER_S,
        .backing_max = 16384};
    struct err e = ERR_INIT;
    log_init("csi", LOG_INFO);
    if (parse(argc, argv, &o, &e)) {
        log_kv(LOG_ERROR, e.msg, NULL);
        return 2;
    }
    if (o.version)
        puts(MILLRACE_VERSION);
    if (o.version || o.help)
        return 0;
    complete(&o);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* before any thread: one of ours waits for them */
    signal(SIGPIPE, SIG_IGN);
    umask(0022);
    static struct running r;
    r.lock_fd = -1;
    int rc = run(&r, &o, &e);
    if (rc)
        log_kv(LOG_ERROR, "cannot run", "error", e.msg, NULL);
    rpc_free(r.rpc);
    if (r.http)
        serve_stop(r.http);
    close_state(&r, &o, rc == 0 && !o.keep_idle);
    if (r.lock_fd >= 0)
        close(r.lock_fd);
    return rc ? 1 : 0;
}
