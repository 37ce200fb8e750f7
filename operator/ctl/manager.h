/* SPDX-License-Identifier: Apache-2.0 */
/* manager — the informers and controllers of the process, and what each kind may read. Order: every
 * <kind>_controller_start() makes its informers and controllers (nothing runs yet) → main starts
 * the manager → waits until it is synced → takes the lease → lets it lead. On SIGTERM it stops
 * leading, then main gives up the lease. */
#ifndef MILLRACE_OPERATOR_CTL_MANAGER_H
#define MILLRACE_OPERATOR_CTL_MANAGER_H

#include "lib/base/buf.h"
#include "lib/sign/sign.h"
#include "operator/ctl/apply.h"
#include "operator/ctl/controller.h"
#include "operator/ctl/informer.h"

struct manager_hook {
    int (*start)(void *user, struct err *e);
    void (*stop)(void *user);
    void *user;
};

struct manager {
    /* for everyone to read */
    struct kube *kube;
    struct events *events;
    const char *image;             /* of client and worker pods */
    const char *pull_policy;       /* "", "Always", "IfNotPresent", "Never" */
    const char *pull_secrets;      /* comma-separated names of Secrets, "" if none */
    const json_t *config;          /* of render_env_check(); NULL if none */
    const struct sign_key *master; /* of which keys of Datasets are made; NULL: they have none */
    const char *ns;                /* the operator's own namespace */
    const char *watch_ns;          /* only this namespace's datasets and jobs; NULL: all */
    bool tfjobs;                   /* there are TFJobs, and they may be watched */
    unsigned workers;              /* per controller */
    /* "", "volcano", or the name of a scheduler with scheduler-plugins' coscheduling */
    const char *gang_scheduler;

    /* filled by the functions below */
    struct apply apply;
    struct controller **controllers; /* owned, like the informers in apply */
    size_t ncontrollers;
    struct manager_hook *hooks;
    size_t nhooks, hooks_started;
    /* Of operator/crd_check: why the API server does not keep the status of TFJobs, and the remedy;
     * a literal, or NULL: all is well. Any thread. */
    _Atomic(const char *) crd_problem;
    struct poll *poll; /* operator/dataset: the one that all kinds share; NULL until one asks */
};

/* A new informer, owned by the manager. Two controllers that want the same objects share one
 * through manager_shared_informer: the same resource, namespace and selectors give the same
 * informer; it has the indexes of all callers (add before start). */
struct informer *manager_informer(struct manager *mgr, const struct informer_conf *conf);
struct informer *manager_shared_informer(struct manager *mgr, const struct informer_conf *conf);
/* The one of this manager, owned by it: made on the first call. */
struct verdicts *manager_verdicts(struct manager *mgr);
/* owned by the manager */
struct controller *manager_controller(struct manager *mgr, const struct controller_conf *conf);
/* start runs when we begin to lead; stop runs before the controllers stop. Either may be NULL. For
 * pollers. */
void manager_on_lead(struct manager *mgr, int (*start)(void *user, struct err *e),
    void (*stop)(void *user), void *user);

/* ---- a life, by one thread ---- */

int manager_start(struct manager *mgr, struct err *e); /* the informers */
/* The next informer, from *i on, whose first list is not in, and why; NULL: there is none. Any
 * thread. */
struct informer *manager_unsynced(const struct manager *mgr, size_t *i, struct err *why);
/* Whether an informer that was synced has not followed the API server for limit_ns though the
 * server does what others ask (answered_ns: when it last did): starting anew may mend that. Not
 * where the server itself says why: a right or a kind that is missing. Appends which. */
bool manager_stuck(
    const struct manager *mgr, int64_t answered_ns, int64_t limit_ns, struct buf *out);
int manager_lead(struct manager *mgr, struct err *e); /* hooks, then controllers */
void manager_stop_leading(struct manager *mgr);       /* what runs finishes */
/* Frees informers and controllers; kube and events stay the caller's. */
void manager_close(struct manager *mgr);

/* Each kind's front door: makes its informers and controllers in mgr. */
int dataset_controller_start(struct manager *mgr, struct err *e);
int attach_controller_start(struct manager *mgr, struct err *e);
int dataload_controller_start(struct manager *mgr, struct err *e);
int tfjob_controller_start(struct manager *mgr, struct err *e);
int node_controller_start(struct manager *mgr, struct err *e);
int gate_controller_start(struct manager *mgr, struct err *e);

#endif
