/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/lease.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/task.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <stdlib.h>
#include <string.h>

struct lease {
    struct kube *kube;
    char *ns, *name, *identity;
    int64_t duration_ns, deadline_ns, retry_ns;
    void (*lost)(void *user, const char *why);
    void *user;
    struct task runner, watchdog;
    pthread_mutex_t mu; /* a leaf */
    bool held;          /* mu */
    int64_t renewed_ns; /* mu: mono, when the last renewal that succeeded was begun */
    struct err why;     /* mu: the last failure */
    json_t *seen;       /* runner: the Lease as last read or written; NULL: not known */
    char *seen_stamp;   /* runner: holder and renewTime of another holder … */
    int64_t seen_ns;    /* … and since when, by our clock, they have not changed */
    char *holder;       /* runner: as last logged */
};

static json_t *lease_spec(const struct lease *l, const json_t *old, bool release)
{
    char now[CLOCK_RFC3339_MICRO_LEN];
    clock_rfc3339_micro(clock_real_ns(), now);
    const char *before = jget_str(old, "spec.holderIdentity", "");
    bool takes_over = strcmp(before, l->identity) != 0;
    int64_t transitions = jget_int(old, "spec.leaseTransitions", 0)
        + (old && takes_over && !release);
    const char *acquired = takes_over ? now : jget_str(old, "spec.acquireTime", now);
    int64_t seconds = release ? 1 : MAX((l->duration_ns + NS_PER_S - 1) / NS_PER_S, 1);
    return json_pack("{s:s,s:I,s:s,s:s,s:I}", "holderIdentity", release ? "" : l->identity,
        "leaseDurationSeconds", (json_int_t)seconds, "acquireTime", acquired, "renewTime", now,
        "leaseTransitions", (json_int_t)transitions);
}

/* Forgets the Lease after a failure, so that the next try reads it. */
static int lease_forget(struct lease *l)
{
    json_decref(l->seen);
    l->seen = NULL;
    return -1;
}

static int lease_write(struct lease *l, bool release, struct err *e)
{
    cleanup_json json_t *next = json_deep_copy(l->seen);
    json_object_set_new(next, "spec", lease_spec(l, l->seen, release));
    json_t *answer = NULL;
    if (kube_update(l->kube, &kube_leases, l->ns, l->name, next, &answer, e))
        return lease_forget(l);
    json_decref(l->seen);
    l->seen = answer;
    return 0;
}

static int lease_create(struct lease *l, struct err *e)
{
    cleanup_json json_t *lease = json_pack("{s:s,s:s,s:{s:s,s:s},s:o}", "apiVersion",
        "coordination.k8s.io/v1", "kind", "Lease", "metadata", "name", l->name, "namespace", l->ns,
        "spec", lease_spec(l, NULL, false));
    return kube_create(l->kube, &kube_leases, l->ns, lease, &l->seen, e);
}

/* Does another process hold it, as far as our own clock can tell? */
static bool lease_taken(struct lease *l)
{
    const char *holder = jget_str(l->seen, "spec.holderIdentity", "");
    if (!*holder || strcmp(holder, l->identity) == 0)
        return false;
    int64_t now = clock_mono_ns();
    char *stamp = xasprintf("%s %s", holder, jget_str(l->seen, "spec.renewTime", ""));
    if (!l->seen_stamp || strcmp(l->seen_stamp, stamp) != 0)
        l->seen_ns = now;
    free(l->seen_stamp);
    l->seen_stamp = stamp;
    if (!l->holder || strcmp(l->holder, holder) != 0) {
        log_kv(LOG_INFO, "another one is leading", "leader", holder, "lease", l->name, NULL);
        free(l->holder);
        l->holder = xstrdup(holder);
    }
    int64_t duration = jget_int(l->seen, "spec.leaseDurationSeconds", l->duration_ns / NS_PER_S)
        * NS_PER_S;
    return now - l->seen_ns <= duration;
}

/* One try to get or keep it: 0 held, 1 another one holds it, -1 with *e. */
static int try_once(struct lease *l, struct err *e)
{
    if (l->seen && strcmp(jget_str(l->seen, "spec.holderIdentity", ""), l->identity) == 0)
        if (lease_write(l, false, e) == 0 || e->cls != ERR_CONFLICT)
            return l->seen ? 0 : -1;
    lease_forget(l);
    if (kube_get(l->kube, &kube_leases, l->ns, l->name, &l->seen, e))
        return e->cls == ERR_NOTFOUND ? lease_create(l, e) : -1;
    return lease_taken(l) ? 1 : lease_write(l, false, e);
}

static void record_try(struct lease *l, int rc, int64_t begun, const struct err *e)
{
    pthread_mutex_lock(&l->mu);
    bool was = l->held, lost = was && rc == 1;
    if (rc == 0) {
        l->held = true;
        l->renewed_ns = begun;
    } else if (rc == 1) {
        l->held = false;
    } else {
        l->why = *e;
    }
    pthread_mutex_unlock(&l->mu);
    if (rc == 0 && !was)
        log_kv(LOG_INFO, "this process leads", "lease", l->name, "identity", l->identity, NULL);
    if (rc < 0 && e->cls != ERR_CONFLICT && e->cls != ERR_EXISTS)
        log_kv(LOG_WARN, "the lease could not be renewed", "error", e->msg, NULL);
    if (lost && l->lost)
        l->lost(l->user, "another process took the lease");
}

static void lease_thread(void *user)
{
    struct lease *l = user;
    int64_t begun;
    do {
        struct err e = ERR_INIT;
        begun = clock_mono_ns();
        record_try(l, try_once(l, &e), begun, &e);
    } while (!task_wait(&l->runner, begun + l->retry_ns));
}

/* A renewal may hang in the network: this thread watches the clock meanwhile. */
static void watchdog_thread(void *user)
{
    struct lease *l = user;
    char why[700] = "";
    pthread_mutex_lock(&l->mu);
    while (!*why) {
        int64_t until = l->held ? l->renewed_ns + l->deadline_ns : clock_mono_ns() + l->deadline_ns;
        if (task_wait(&l->watchdog, until))
            break;
        if (l->held && clock_mono_ns() - l->renewed_ns >= l->deadline_ns) {
            snprintf(why, sizeof why, "not renewed for %.0f s: %s",
                (double)l->deadline_ns / (double)NS_PER_S, l->why.msg);
            l->held = false;
        }
    }
    pthread_mutex_unlock(&l->mu);
    if (*why && l->lost)
        l->lost(l->user, why);
}

static void lease_free(struct lease *l)
{
    json_decref(l->seen);
    free(l->seen_stamp);
    free(l->holder);
    free(l->ns);
    free(l->name);
    free(l->identity);
    pthread_mutex_destroy(&l->mu);
    free(l);
}

/* Cancels both before it waits for either: a last renewal may take a while, and must not be
 * taken for a loss. */
static void stop_threads(struct lease *l)
{
    task_cancel(&l->watchdog);
    task_stop(&l->runner);
    task_stop(&l->watchdog);
}

struct lease *lease_start(struct kube *k, const struct lease_conf *conf, struct err *e)
{
    struct lease *l = xcalloc(1, sizeof *l);
    l->kube = k;
    l->ns = xstrdup(conf->ns);
    l->name = xstrdup(conf->name);
    l->identity = xstrdup(conf->identity);
    l->duration_ns = conf->duration_ns ? conf->duration_ns : 15 * NS_PER_S;
    l->deadline_ns = conf->deadline_ns ? conf->deadline_ns : 10 * NS_PER_S;
    l->retry_ns = conf->retry_ns ? conf->retry_ns : 2 * NS_PER_S;
    l->lost = conf->lost;
    l->user = conf->user;
    pthread_mutex_init(&l->mu, NULL);
    if (task_start(&l->runner, "lease", lease_thread, l, e)
        || task_start_with(&l->watchdog, &l->mu, "lease-watchdog", watchdog_thread, l, e)) {
        stop_threads(l);
        lease_free(l);
        err_wrap(e, "lease %s", conf->name);
        return NULL;
    }
    return l;
}

bool lease_held(const struct lease *l)
{
    struct lease *unconst = (struct lease *)(uintptr_t)l;
    pthread_mutex_lock(&unconst->mu);
    bool held = l->held;
    pthread_mutex_unlock(&unconst->mu);
    return held;
}

void lease_stop(struct lease *l)
{
    if (!l)
        return;
    stop_threads(l);
    struct err e = ERR_INIT;
    bool mine = l->held && l->seen
        && strcmp(jget_str(l->seen, "spec.holderIdentity", ""), l->identity) == 0;
    if (mine && lease_write(l, true, &e))
        log_kv(LOG_WARN, "the lease could not be given up; the next leader waits for it to run out",
            "error", e.msg, NULL);
    lease_free(l);
}
