/* SPDX-License-Identifier: Apache-2.0 */
/* manager — what main gives to each controller at start-up, and where each tells main what it
 * needs. Order: every <kind>_controller_start() makes informers and controllers (nothing runs yet)
 * → main starts the informers → waits until they are synced → takes the lease → starts controllers
 * and the `lead` hooks. On SIGTERM: hooks, controllers, lease, informers. */
#ifndef MILLRACE_OPERATOR_CTL_MANAGER_H
#define MILLRACE_OPERATOR_CTL_MANAGER_H

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
    const char *image;        /* of client and worker pods */
    const char *pull_policy;  /* "", "Always", "IfNotPresent", "Never" */
    const char *pull_secrets; /* comma-separated names of Secrets, "" if none */
    const char *ns;           /* the operator's own namespace */
    const char *watch_ns;     /* only this namespace's datasets and jobs; NULL: all */
    unsigned workers;         /* per controller */
    /* "", "volcano", or the name of a scheduler with scheduler-plugins' coscheduling */
    const char *gang_scheduler;

    /* filled by the functions below */
    struct apply apply;
    struct controller **controllers; /* owned by main, like the informers in apply */
    size_t ncontrollers;
    struct manager_hook *hooks;
    size_t nhooks;
    struct poll *poll; /* operator/dataset: the one that all kinds share; NULL until one asks */
};

/* A new informer, owned and started by main. Two controllers that want the same objects share one
 * through manager_shared_informer: the same resource, namespace and selectors give the same
 * informer; it has the indexes of all callers (add before start). */
struct informer *manager_informer(struct manager *mgr, const struct informer_conf *conf);
struct informer *manager_shared_informer(struct manager *mgr, const struct informer_conf *conf);
/* owned, started by main */
struct controller *manager_controller(struct manager *mgr, const struct controller_conf *conf);
/* start runs once we lead and the informers are synced; stop runs before the controllers stop.
 * Either may be NULL. For pollers. */
void manager_on_lead(struct manager *mgr, int (*start)(void *user, struct err *e),
    void (*stop)(void *user), void *user);

/* Each kind's front door: makes its informers and controllers in mgr. */
int dataset_controller_start(struct manager *mgr, struct err *e);
int attach_controller_start(struct manager *mgr, struct err *e);
int dataload_controller_start(struct manager *mgr, struct err *e);
int tfjob_controller_start(struct manager *mgr, struct err *e);

#endif
