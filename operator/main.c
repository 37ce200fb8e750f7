/* SPDX-License-Identifier: Apache-2.0 */
/* millrace-operator — watches Datasets, DataLoads, TFJobs and VolumeAttachments and makes
 * what they ask for. Order of a life: informers synced → lease held → controllers and pollers run →
 * SIGTERM → they finish → lease given up → exit. */
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/program.h"
#include "lib/http/health.h"
#include "lib/http/metric.h"
#include "lib/http/scrape.h"
#include "lib/json/obj.h"
#include "operator/api/dataset.h"
#include "operator/crd_check.h"
#include "operator/ctl/lease.h"
#include "operator/ctl/manager.h"
#include "operator/dataset/metrics.h"
#include "operator/master_key.h"
#include "operator/render/env.h"
#include "operator/uninstall.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_NS       (100 * NS_PER_MS)
#define REMIND_NS     (30 * NS_PER_S) /* how often the log names the informers that are not synced */
#define STUCK_NS      (300 * NS_PER_S) /* an informer that does not follow for so long is stuck */
#define DRAIN_S       25               /* kubelet kills after 30 */
#define LEASE_TIMEOUT (5 * NS_PER_S)
#define CONFIG_MAX    ((size_t)1 << 20)
#define SAID_MAX      ((size_t)1 << 20)

struct operator_flags {
    const char *kubeconfig, *context, *ns, *watch_ns, *http, *metrics, *image, *pull_policy,
        *pull_secrets, *gang, *lease_name, *config, *uninstall_keep;
    bool leader_elect, list_metrics, tfjob, startup_taint, uninstall_check;
    int64_t workers, max_in_flight;
};

struct operator_main {
    struct operator_flags flags;
    struct manager mgr;
    struct sign_key master;
    struct crd_check crds;
    struct kube *lease_kube; /* its own client: a renewal must not wait behind other requests */
    struct lease *lease;
    struct http_server *serve;
    struct health health;
    struct scrape scrape;
    char identity[160];
    atomic_bool synced, leading, stopping;
    sigset_t signals;
};

static const struct program program = {"millrace-operator", "operator", "millrace-operator [FLAGS]",
    "Runs Datasets and training jobs on Kubernetes.", false};

/* As program_flags. */
static int parse_flags(struct operator_flags *f, int argc, char **argv)
{
    const struct opt table[] = {
        {"kubeconfig", OPT_STRING, &f->kubeconfig, "FILE",
            "instead of $KUBECONFIG, the pod's service account or ~/.kube/config"},
        {"context", OPT_STRING, &f->context, "NAME",
            "context of the kubeconfig instead of its current one"},
        {"namespace", OPT_STRING, &f->ns, "NAME",
            "where the lease is; otherwise the pod's or the context's namespace"},
        {"watch-namespace", OPT_STRING, &f->watch_ns, "NAME",
            "only this namespace's Datasets and jobs; otherwise all"},
        {"leader-elect", OPT_BOOL, &f->leader_elect, NULL,
            "work only while holding the lease, so that replicas can stand by"},
        {"lease-name", OPT_STRING, &f->lease_name, "NAME", "name of the lease"},
        {"http", OPT_STRING, &f->http, "ADDRESS",
            "serve /healthz and /readyz there; empty: nowhere"},
        {"metrics", OPT_STRING, &f->metrics, "ADDRESS", SCRAPE_HELP},
        {"list-metrics", OPT_BOOL, &f->list_metrics, NULL, SCRAPE_LIST_HELP},
        {"image", OPT_STRING, &f->image, "IMAGE", "image of client and cache worker pods"},
        {"image-pull-policy", OPT_STRING, &f->pull_policy, "POLICY",
            "of those pods: Always, IfNotPresent or Never"},
        {"image-pull-secrets", OPT_STRING, &f->pull_secrets, "NAMES",
            "of those pods, separated by commas"},
        {"gang-scheduler", OPT_STRING, &f->gang, "NAME",
            "of TFJobs whose pods start together: volcano, or the name of one with coscheduling"},
        {"config", OPT_STRING, &f->config, "FILE",
            "JSON: environment, labels, certificates, defaults of those pods; read once"},
        {"tfjob", OPT_BOOL, &f->tfjob, NULL, "run TFJobs"},
        {"startup-taint", OPT_BOOL, &f->startup_taint, NULL,
            "take the taint " TAINT_NOT_READY " from nodes once the driver is registered there"},
        {"uninstall-check", OPT_BOOL, &f->uninstall_check, NULL,
            "do nothing but tell whose Datasets and jobs need an operator; 1: there are some"},
        {"uninstall-keep", OPT_STRING, &f->uninstall_keep, "COMMAND",
            "what --uninstall-check says to do to keep the release"},
        {"workers", OPT_INT, &f->workers, "N", "threads of each controller"},
        {"max-in-flight", OPT_INT, &f->max_in_flight, "N",
            "requests to the API server at once, watches not counted"},
    };
    int rc = program_flags(&program, table, ARRAY_LEN(table), argc, argv, NULL);
    bool sane = f->workers >= 1 && f->workers <= 256 && f->max_in_flight >= 1
        && f->max_in_flight <= 4096;
    if (rc < 0 && !sane)
        return program_misuse(&program, "--workers must be 1 to 256, --max-in-flight 1 to 4096");
    return rc;
}

/* ---- health ---- */

static bool operator_ready(void *user, struct buf *out)
{
    const struct operator_main *o = user;
    if (atomic_load(&o->synced) && !atomic_load(&o->stopping)) {
        buf_adds(out, atomic_load(&o->leading) ? "ok, leading\n" : "ok, standing by\n");
        return true;
    }
    struct informer *inf;
    struct err e = ERR_INIT;
    for (size_t i = 0; (inf = manager_unsynced(&o->mgr, &i, &e));)
        buf_addf(out, "%s: %s\n", informer_res(inf)->plural, e.msg);
    return false;
}

/* The lease is asked for every 2 s, by a client of its own. */
static bool operator_alive(void *user, struct buf *out)
{
    const struct operator_main *o = user;
    int64_t answered_ns = MAX(kube_answered_ns(o->mgr.kube), kube_answered_ns(o->lease_kube));
    return !manager_stuck(&o->mgr, answered_ns, STUCK_NS, out);
}

METRIC_GAUGE(cache_stale, "millrace_cache_stale_seconds", "resource,selector",
    "For how long an informer has not followed the API server; 0: it does.");
METRIC_GAUGE(cache_objects, "millrace_cache_objects", "resource,selector",
    "Objects that an informer holds.");
METRIC_GAUGE(leader, "millrace_leader", "", "1 while this process leads.");

static void operator_metrics(void *user, struct buf *out)
{
    const struct operator_main *o = user;
    if (atomic_load(&o->leading))
        dataset_metrics(&o->mgr, out);
    for (size_t i = 0; i < o->mgr.apply.ninformers; i++) {
        struct informer *inf = o->mgr.apply.informers[i];
        const struct informer_conf *conf = informer_conf(inf);
        metric_set(metric_of(&cache_objects, conf->res->plural, conf->labels ? conf->labels : ""),
            (int64_t)informer_count(inf));
        struct err e;
        metric_set(metric_of(&cache_stale, conf->res->plural, conf->labels ? conf->labels : ""),
            informer_stale_ns(inf, &e) / NS_PER_S);
    }
    metric_set(metric_of(&leader), atomic_load(&o->leading));
}

static int start_health(struct operator_main *o, struct err *e)
{
    struct serve_route routes[HEALTH_ROUTES];
    o->health = (struct health){.ready = operator_ready, .alive = operator_alive, .user = o};
    o->scrape = (struct scrape){.collect = operator_metrics, .user = o};
    health_routes(&o->health, routes);
    if (scrape_start(&o->scrape, o->flags.metrics, e))
        return -1;
    if (o->flags.http && !*o->flags.http)
        return 0;
    struct serve_conf conf = {.address = o->flags.http,
        .port = PORT_OPERATOR,
        .routes = routes,
        .nroutes = HEALTH_ROUTES,
        .max_threads = 8,
        .answer_ns = HEALTH_ANSWER_NS};
    o->serve = serve_start(&conf, e);
    return o->serve ? 0 : -1;
}

/* ---- waiting ---- */

/* Sleeps a moment; true once SIGTERM or SIGINT came. */
static bool told_to_stop(struct operator_main *o, int64_t ns)
{
    struct timespec t = {ns / NS_PER_S, ns % NS_PER_S};
    if (!atomic_load(&o->stopping) && sigtimedwait(&o->signals, NULL, &t) > 0) {
        log_info("told to stop: finishing what runs");
        atomic_store(&o->stopping, true);
        /* if something hangs, SIGALRM ends the process; the lease then runs out by itself */
        alarm(DRAIN_S);
    }
    return atomic_load(&o->stopping);
}

static bool all_synced(const struct operator_main *o, bool log)
{
    struct informer *inf;
    struct err e = ERR_INIT;
    bool all = true;
    for (size_t i = 0; (inf = manager_unsynced(&o->mgr, &i, &e)); all = false)
        if (log)
            log_kv(LOG_WARN, "still waiting for the first list", "resource",
                informer_res(inf)->plural, "error", e.msg, NULL);
    return all;
}

static bool wait_synced(struct operator_main *o)
{
    int64_t remind = clock_mono_ns() + REMIND_NS;
    for (;;) {
        bool log = clock_mono_ns() >= remind;
        if (log)
            remind += REMIND_NS;
        if (all_synced(o, log))
            return true;
        if (told_to_stop(o, POLL_NS / 10))
            return false;
    }
}

static void on_lost(void *user, const char *why)
{
    (void)user;
    log_kv(LOG_ERROR, "leadership is lost: another process may be leading, this one ends", "why",
        why, NULL);
    _exit(1); /* no clean-up: nothing may be written any more */
}

static bool wait_lease(struct operator_main *o, struct err *e)
{
    struct lease_conf conf = {
        .ns = o->mgr.ns, .name = o->flags.lease_name, .identity = o->identity, .lost = on_lost};
    o->lease = lease_start(o->lease_kube, &conf, e);
    if (!o->lease)
        return false;
    while (!lease_held(o->lease))
        if (told_to_stop(o, POLL_NS))
            return false;
    return true;
}

/* ---- life ---- */

static struct kube *new_client(const struct operator_flags *f, int64_t timeout_ns,
    unsigned max_in_flight, char **ns, struct err *e)
{
    struct kube_conf *conf = kube_conf_load(
        &(struct kube_where){.file = f->kubeconfig, .context = f->context}, e);
    if (!conf)
        return NULL;
    if (ns)
        *ns = xstrdup(kube_conf_namespace(conf));
    struct kube_opts opts = {.user_agent = "millrace-operator/" MILLRACE_VERSION,
        .max_in_flight = max_in_flight,
        .timeout_ns = timeout_ns};
    return kube_new(conf, &opts, e);
}

static int load_config(struct operator_main *o, struct err *e)
{
    size_t len;
    const char *path = o->flags.config;
    if (!*path)
        return 0;
    cleanup_free char *text = file_read(path, CONFIG_MAX, &len, e);
    json_t *config = text ? json_parse(text, len, e) : NULL;
    o->mgr.config = config;
    if (config && render_env_check(config, e) == 0
        && dataset_check_defaults(json_object_get(config, "defaults"), e) == 0
        && dataset_check_limits(
               json_object_get(config, "defaults"), json_object_get(config, "limits"), e)
            == 0) {
        dataset_hold_to_plugin(config);
        return 0;
    }
    return err_wrap(e, "--config %s", path);
}

static int operator_prepare(struct operator_main *o, struct err *e)
{
    struct manager *mgr = &o->mgr;
    char host[100] = "operator", *ns = NULL;
    gethostname(host, sizeof host - 1);
    snprintf(o->identity, sizeof o->identity, "%s_%08lx", host, random() & 0xffffffffL);
    mgr->kube = new_client(&o->flags, 0, (unsigned)o->flags.max_in_flight, &ns, e);
    o->lease_kube = mgr->kube ? new_client(&o->flags, LEASE_TIMEOUT, 2, NULL, e) : NULL;
    mgr->ns = o->flags.ns ? xstrdup(o->flags.ns) : xstrdup(ns);
    free(ns);
    if (!o->lease_kube)
        return -1;
    mgr->events = events_new(mgr->kube, NAME_FIELD_MANAGER, host);
    mgr->image = o->flags.image;
    mgr->pull_policy = o->flags.pull_policy;
    mgr->pull_secrets = o->flags.pull_secrets;
    mgr->watch_ns = o->flags.watch_ns && *o->flags.watch_ns ? o->flags.watch_ns : NULL;
    mgr->workers = (unsigned)o->flags.workers;
    mgr->gang_scheduler = o->flags.gang;
    mgr->tfjobs = o->flags.tfjob;
    mgr->apply.kube = mgr->kube;
    mgr->apply.events = mgr->events;
    if (load_config(o, e) || dataset_controller_start(mgr, e) || attach_controller_start(mgr, e)
        || dataload_controller_start(mgr, e) || (o->flags.tfjob && tfjob_controller_start(mgr, e))
        || gate_controller_start(mgr, e)
        || (o->flags.startup_taint && node_controller_start(mgr, e)))
        return -1;
    return manager_start(mgr, e) ? -1 : start_health(o, e);
}

static int operator_lead(struct operator_main *o, struct err *e)
{
    while (master_key_get(o->mgr.kube, o->mgr.ns, &o->master, e)) {
        if (e->cls != ERR_RETRY)
            return err_wrap(e, "the key of this installation");
        if (told_to_stop(o, NS_PER_S))
            return 0;
    }
    o->mgr.master = &o->master;
    if (crd_check_start(&o->crds, &o->mgr, o->flags.tfjob, e)) /* before a job is worked on */
        return -1;
    atomic_store(&o->leading, true);
    if (manager_lead(&o->mgr, e))
        return -1;
    log_info("controllers run");
    while (!told_to_stop(o, NS_PER_S)) {
    }
    return 0;
}

static void operator_stop(struct operator_main *o)
{
    struct manager *mgr = &o->mgr;
    atomic_store(&o->stopping, true);
    manager_stop_leading(mgr);
    crd_check_stop(&o->crds);
    events_free(mgr->events);
    lease_stop(o->lease); /* nothing is written after this */
    serve_stop(o->serve);
    scrape_stop(&o->scrape);
    manager_close(mgr);
    kube_free(o->lease_kube);
    kube_free(mgr->kube);
    json_decref((json_t *)(uintptr_t)mgr->config);
    free((char *)(uintptr_t)mgr->ns);
}

static int operator_run(struct operator_main *o, struct err *e)
{
    if (operator_prepare(o, e))
        return -1;
    log_kv(LOG_INFO, "started", "version", MILLRACE_VERSION, "server", kube_server(o->mgr.kube),
        "namespace", o->mgr.ns, NULL);
    if (!wait_synced(o))
        return 0;
    atomic_store(&o->synced, true);
    if (o->flags.leader_elect && !wait_lease(o, e))
        return o->lease ? 0 : -1;
    return operator_lead(o, e);
}

/* A program of its own: the exit status. */
static int run_uninstall_check(const struct operator_flags *f)
{
    struct err e = ERR_INIT;
    cleanup_buf struct buf said = BUF_INIT(SAID_MAX);
    struct kube *kube = new_client(f, 0, 2, NULL, &e);
    const struct uninstall_scope scope = {
        f->watch_ns && *f->watch_ns ? f->watch_ns : NULL, f->tfjob, f->uninstall_keep};
    if (!kube || uninstall_check(kube, &scope, &said, &e))
        buf_addf(&said,
            "It is not known whether Millrace is in use: %s\nTo uninstall all the same: helm uninstall --no-hooks\n",
            e.msg);
    kube_free(kube);
    fputs(buf_str(&said), stdout);
    return said.len ? 1 : 0;
}

int main(int argc, char **argv)
{
    static struct operator_main o = {.flags = {.image = "localhost/millrace:" MILLRACE_VERSION,
                                         .pull_policy = "IfNotPresent",
                                         .pull_secrets = "",
                                         .gang = "",
                                         .config = "",
                                         .tfjob = true,
                                         .lease_name = NAME_LEASE,
                                         .uninstall_keep = "",
                                         .workers = 8,
                                         .max_in_flight = 64}};
    struct err e = ERR_INIT;
    int rc = parse_flags(&o.flags, argc, argv);
    if (rc >= 0)
        return rc;
    if (o.flags.list_metrics)
        return metric_list();
    if (o.flags.uninstall_check)
        return run_uninstall_check(&o.flags);
    srandom((unsigned)(clock_real_ns() ^ getpid()));
    program_start(&o.signals); /* only told_to_stop() takes these */
    rc = operator_run(&o, &e);
    if (rc)
        log_kv(LOG_ERROR, "cannot go on", "error", e.msg, NULL);
    alarm(DRAIN_S);
    operator_stop(&o);
    if (rc == 0)
        log_info("stopped");
    return rc ? 1 : 0;
}
