/* SPDX-License-Identifier: Apache-2.0 */
/* millrace-csi — the node plugin: CSI for kubelet, owner of the FUSE mounts and of the node's
 * cache directories. */
#include "csi/feature.h"
#include "csi/plugin.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/program.h"
#include "lib/base/task.h"
#include "lib/http/health.h"
#include "lib/http/metric.h"
#include "lib/http/scrape.h"
#include "lib/http/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* RPCs that may wait for something at a time. Each pod of a node may wait for a client that never
 * comes, and no other pod is to wait behind it: more than a node has pods. They are threads that
 * begin when they are needed. */
#define WORKERS    256
#define GRACE_NS   (10 * NS_PER_S)
#define HARD_NS    (10 * NS_PER_S)
#define CLIENTS_NS (8 * NS_PER_S) /* beside both of them in the 30 s that the pod has */
#define COLLECT_NS (30 * NS_PER_S)
#define STUCK_NS   (RPC_ENDLESS_NS + 60 * NS_PER_S)

struct options {
    const char *node_id, *kubelet_dir, *root, *cache_root, *mode, *socket, *registration, *http,
        *metrics, *client, *run_dir;
    int64_t read_ahead, abandon, unused_ns, backing_max;
    bool keep_idle, list_metrics, root_disk, callers;
};

struct running {
    struct plugin plugin;
    struct rpc_server *_Atomic rpc; /* the health listener asks for it before it is there */
    struct http_server *http;
    struct health health;
    struct scrape scrape;
    int lock_fd;
    sigset_t stop; /* signals */
    struct task stopper, collector;
};

static const struct program program = {
    "millrace-csi", "csi", "millrace-csi [flags]", "CSI node plugin of Millrace.", false};

/* As program_flags. */
static int plugin_flags(int argc, char **argv, struct options *o)
{
    const struct opt table[] = {
        {"node-id", OPT_STRING, &o->node_id, "NAME", "this node's name; default: the host's"},
        {"kubelet-dir", OPT_STRING, &o->kubelet_dir, "DIR", "where kubelet keeps its files"},
        {"mode", OPT_STRING, &o->mode, "MODE",
            "kubernetes, or standalone: clients are processes, no registration"},
        {"root", OPT_STRING, &o->root, "DIR",
            "socket and records; default: <kubelet-dir>/plugins/" NAME_DRIVER},
        {"cache-root", OPT_STRING, &o->cache_root, "DIR",
            "directories of caches; what lies in <root> stays there while it is used; default: <root>"},
        {"allow-root-disk", OPT_BOOL, &o->root_disk, NULL,
            "let caches share the file system of <kubelet-dir>; otherwise refuse to start"},
        {"socket", OPT_STRING, &o->socket, "PATH", "the CSI socket; default: <root>/csi.sock"},
        {"registration", OPT_STRING, &o->registration, "PATH",
            "default: <kubelet-dir>/plugins_registry/" NAME_DRIVER "-reg.sock"},
        {"http", OPT_STRING, &o->http, "ADDRESS",
            "serve /healthz and /readyz there; empty: nowhere"},
        {"metrics", OPT_STRING, &o->metrics, "ADDRESS", SCRAPE_HELP},
        {"list-metrics", OPT_BOOL, &o->list_metrics, NULL, SCRAPE_LIST_HELP},
        {"client", OPT_STRING, &o->client, "PATH", "program of a client process (standalone)"},
        {"run-dir", OPT_STRING, &o->run_dir, "DIR",
            "configuration and secrets of client processes (standalone)"},
        {"read-ahead", OPT_BYTES, &o->read_ahead, "SIZE", "of every mount"},
        {"abandon-after", OPT_SECONDS, &o->abandon, "TIME",
            "a mount that no client serves for so long is aborted; 0: never"},
        {"callers", OPT_BOOL, &o->callers, NULL,
            "tell clients which pod a process is of, for their metrics; needs the host's pids"},
        {"cache-keep", OPT_SECONDS, &o->unused_ns, "TIME",
            "an unused cache directory is removed after it"},
        {"keep-idle-on-exit", OPT_BOOL, &o->keep_idle, NULL,
            "leave unused cache directories when the plugin ends"},
        {"backing-files-max", OPT_INT, &o->backing_max, "N",
            "cache files a dataset that the kernel may read directly at a time"},
    };
    int rc = program_flags(&program, table, ARRAY_LEN(table), argc, argv, NULL);
    if (rc < 0 && strcmp(o->mode, "kubernetes") != 0 && strcmp(o->mode, "standalone") != 0)
        return program_misuse(
            &program, "--mode: '%s' is neither kubernetes nor standalone", o->mode);
    return rc;
}

/* Defaults that depend on other flags. What is allocated lives until exit. */
static void complete(struct options *o)
{
    static char host[256];
    if (!o->node_id[0] && gethostname(host, sizeof host - 1) == 0)
        o->node_id = host;
    if (!o->root[0])
        o->root = xasprintf("%s/plugins/%s", o->kubelet_dir, NAME_DRIVER);
    if (!o->cache_root[0])
        o->cache_root = o->root;
    if (!o->socket[0])
        o->socket = xasprintf("%s/csi.sock", o->root);
    if (!o->registration[0])
        o->registration = xasprintf("%s/plugins_registry/%s-reg.sock", o->kubelet_dir, NAME_DRIVER);
}

/* Requests wait, and no worker has taken one: longer than any of them may take. */
static bool workers_alive(void *user, struct buf *out)
{
    struct running *r = user;
    int64_t stuck = r->rpc ? rpc_stuck_ns(r->rpc) : 0;
    if (stuck < STUCK_NS)
        return true;
    buf_addf(out, "requests of kubelet have waited for %lld s and no worker takes them\n",
        (long long)(stuck / NS_PER_S));
    return false;
}

METRIC_GAUGE(csi_volumes, "millrace_csi_volumes", "", "Volumes that this node knows.");

METRIC_GAUGE(csi_shared_disk, "millrace_csi_shares_kubelet_disk", "",
    "1: caches of this node share the file system of kubelet, which evicts pods when it is full; 0: they have their own.");

static void collect_metrics(void *user, struct buf *out)
{
    struct running *r = user;
    (void)out;
    metric_set(metric_of(&csi_volumes), (int64_t)volumes_count(r->plugin.volumes));
}

static int start_http(struct running *r, const struct options *o, struct err *e)
{
    struct serve_route routes[HEALTH_ROUTES];
    r->scrape = (struct scrape){.collect = collect_metrics, .user = r};
    r->health = (struct health){.alive = workers_alive, .user = r};
    health_routes(&r->health, routes);
    struct serve_conf conf = {.address = o->http,
        .routes = routes,
        .nroutes = HEALTH_ROUTES,
        .max_threads = 8,
        .answer_ns = HEALTH_ANSWER_NS};
    if (scrape_start(&r->scrape, o->metrics, e))
        return -1;
    if (!o->http[0])
        return 0;
    r->http = serve_start(&conf, e);
    return r->http ? 0 : -1;
}

/* One plugin a node: the next one waits here until the last one has ended, so that they never share
 * the records. */
static int lock_root(struct running *r, const char *root, struct err *e)
{
    r->lock_fd = dir_lock(root, 0750, 0, e);
    if (r->lock_fd < 0 && e->cls == ERR_CONFLICT) {
        log_kv(LOG_INFO, "waiting for another plugin on this node to end", "root", root, NULL);
        r->lock_fd = dir_lock(root, 0750, INT64_MAX, e);
    }
    return r->lock_fd < 0 ? -1 : 0;
}

/* A cache that fills the disk of kubelet makes kubelet evict pods, other teams' too. */
static int check_disk(const struct options *o, struct err *e)
{
    struct stat cache, kubelet;
    if (file_mkdirs(o->cache_root, 0700, e))
        return -1;
    if (stat(o->cache_root, &cache) || stat(o->kubelet_dir, &kubelet))
        return err_sys(e, errno, "stat %s and %s", o->cache_root, o->kubelet_dir);
    bool shared = cache.st_dev == kubelet.st_dev;
    metric_set(metric_of(&csi_shared_disk), shared);
    if (!shared)
        return 0;
    if (!o->root_disk)
        return err_set(e, ERR_INVALID,
            "caches in %s would share the file system of kubelet's %s, and --allow-root-disk is false: mount a disk for them, name its directory with --cache-root (values csi.cacheDir, csi.cacheDirs), or allow it (csi.allowRootDisk)",
            o->cache_root, o->kubelet_dir);
    if (strcmp(o->cache_root, o->root) == 0)
        log_kv(LOG_INFO,
            "caches share kubelet's file system: a full cache makes kubelet evict pods; --cache-root (value csi.cacheDir) names another disk",
            "directory", o->cache_root, NULL);
    else
        log_kv(LOG_WARN,
            "caches share kubelet's file system, though a directory was named for them: no disk is mounted there on this node, and a full cache makes kubelet evict pods; mount one, or name where it is (values csi.cacheDir, csi.cacheDirs); csi.allowRootDisk=false refuses this",
            "directory", o->cache_root, NULL);
    return 0;
}

static int open_state(struct running *r, const struct options *o, struct err *e)
{
    struct plugin *p = &r->plugin;
    cleanup_free char *records = path_join(o->root, "state"),
                      *mounts = path_join(o->root, "state/keep");
    *p = (struct plugin){.node_id = o->node_id,
        .endpoint = o->socket,
        .root = o->root,
        .run_dir = o->run_dir,
        .client_binary = o->client,
        .standalone = strcmp(o->mode, "standalone") == 0};
    if (file_mkdirs(mounts, 0700, e)
        || !(p->dirs = node_dirs_new(o->cache_root, o->root, o->unused_ns, e))
        || !(p->volumes = volumes_open(records, e)))
        return -1;
    struct handoff_conf conf = {.state_dir = mounts,
        .node = o->node_id,
        .read_ahead_kib = o->read_ahead >> 10,
        .abandon_ns = o->abandon,
        .backing_max = (size_t)MAX(o->backing_max, 1),
        .caller = o->callers ? caller_of_pid : NULL};
    p->handoff = handoff_new(&conf);
    stage_restore(p);
    handoff_remove_orphans(p->handoff);
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

/* Ends the RPCs at the first signal; the main thread goes on from there. */
static void stop_at_signal(void *arg)
{
    struct running *r = arg;
    int sig;
    sigwait(&r->stop, &sig);
    log_kv(LOG_INFO, "ending", "signal", strsignal(sig), NULL);
    rpc_stop(r->rpc, GRACE_NS, HARD_NS);
}

static void collect_dirs(void *arg)
{
    struct running *r = arg;
    do
        node_dirs_collect(r->plugin.dirs, false);
    while (!task_wait(&r->collector, clock_mono_ns() + COLLECT_NS));
}

static void look_at_mount(struct volume *v, void *arg)
{
    if (v->handoff && !handoff_survives(v->handoff))
        ++*(size_t *)arg;
}

/* A mount whose client is being replaced has its fuse fd with us alone: it would end with us. */
static void wait_for_clients(struct plugin *p)
{
    int64_t until = clock_mono_ns() + CLIENTS_NS;
    bool told = false;
    for (size_t alone;; told = true) {
        alone = 0;
        if (p->volumes)
            volumes_each(p->volumes, look_at_mount, &alone);
        if (!alone || clock_mono_ns() >= until) {
            if (alone)
                log_warn("%zu mounts have no client, and are lost with this process", alone);
            return;
        }
        if (!told)
            log_info("waiting for the clients of %zu mounts", alone);
        clock_sleep_ns(20 * NS_PER_MS);
    }
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
    if (p->dirs && clean)
        node_dirs_collect(p->dirs, true);
    handoff_free(p->handoff);
    volumes_free(p->volumes);
    node_dirs_free(p->dirs);
    if (volumes || !clean)
        return;
    cleanup_free char *mounts = path_join(o->root, "state/keep"),
                      *records = path_join(o->root, "state");
    cleanup_free char *staging = xasprintf(
        "%s/plugins/kubernetes.io/csi/%s", o->kubelet_dir, NAME_DRIVER);
    const char *dirs[] = {
        mounts, records, o->cache_root, o->root, staging}; /* kubelet leaves the last one behind */
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        rmdir(dirs[i]);
}

static int plugin_run(struct running *r, const struct options *o, struct err *e)
{
    bool standalone = strcmp(o->mode, "standalone") == 0;
    if (lock_root(r, o->root, e) || (!standalone && check_disk(o, e)) || open_state(r, o, e)
        || start_http(r, o, e) || start_rpc(r, o, e))
        return -1;
    if (task_start(&r->stopper, "stopper", stop_at_signal, r, e)
        || task_start(&r->collector, "collector", collect_dirs, r, e))
        return -1;
    features_tell();
    log_kv(LOG_INFO, "ready", "node", o->node_id, "socket", o->socket, "mode", o->mode, "version",
        MILLRACE_VERSION, NULL);
    rpc_run(r->rpc);
    task_stop(&r->stopper);
    task_stop(&r->collector);
    wait_for_clients(&r->plugin);
    return 0;
}

int main(int argc, char **argv)
{
    /* static: what it points to lives as long as the process */
    static struct options o = {.node_id = "",
        .kubelet_dir = "/var/lib/kubelet",
        .root = "",
        .cache_root = "",
        .root_disk = true,
        .mode = "kubernetes",
        .socket = "",
        .registration = "",
        .http = "0.0.0.0:9401",
        .client = "/usr/bin/millrace-fuse",
        .run_dir = "/run/millrace-csi",
        .read_ahead = 4 << 20,
        .abandon = 600 * NS_PER_S,
        .unused_ns = 3600 * NS_PER_S,
        .backing_max = 16384};
    struct err e = ERR_INIT;
    int rc = plugin_flags(argc, argv, &o);
    if (rc >= 0)
        return rc;
    if (o.list_metrics)
        return metric_list();
    complete(&o);
    umask(0022);
    static struct running r;
    r.lock_fd = -1;
    program_start(&r.stop); /* the stopper waits for these */
    rc = plugin_run(&r, &o, &e);
    if (rc)
        log_kv(LOG_ERROR, "cannot run", "error", e.msg, NULL);
    serve_stop(r.http); /* asks for the RPCs */
    rpc_free(r.rpc);
    scrape_stop(&r.scrape);
    close_state(&r, &o, rc == 0 && !o.keep_idle);
    if (r.lock_fd >= 0)
        close(r.lock_fd);
    return rc ? 1 : 0;
}
