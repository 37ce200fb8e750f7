/* SPDX-License-Identifier: Apache-2.0 */
/* env — what main gives to each controller at start-up, and where each tells main what it needs.
 * Order: every <kind>_controller_start() makes caches and controllers (nothing runs yet) → main
 * starts the caches → waits until they are synced → takes the lease → starts controllers and the
 * `lead` hooks. On SIGTERM: hooks, controllers, lease, caches. */
#ifndef MILLRACE_OPERATOR_CTL_MANAGER_H
#define MILLRACE_OPERATOR_CTL_MANAGER_H

#include "operator/ctl/apply.h"
#include "operator/ctl/controller.h"
#include "operator/ctl/informer.h"

struct env_hook {
    int (*start)(void *user, struct err *e);
    void (*stop)(void *user);
    void *user;
};

struct operator_env {
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

    /* filled by env_* below */
    struct apply apply;
    struct controller **controllers; /* owned by main, like the caches in apply */
    size_t ncontrollers;
    struct env_hook *hooks;
    size_t nhooks;
};

/* A new cache, owned and started by main. Two controllers that want the same objects share one
 * through env_cache_shared: the same resource, namespace and selectors give the same cache; its
 * indexes are those of all who asked (add before start). */
struct cache *env_cache(struct operator_env *env, const struct cache_conf *conf);
struct cache *env_cache_shared(struct operator_env *env, const struct cache_conf *conf);
/* owned, started by main */
struct controller *env_controller(struct operator_env *env, const struct controller_conf *conf);
/* start runs once we lead and the caches are synced; stop runs before the controllers stop. Either
 * may be NULL. For pollers. */
void env_on_lead(struct operator_env *env, int (*start)(void *user, struct err *e),
    void (*stop)(void *user), void *user);
/* NULL if there is none (yet) */
struct controller *env_find_controller(struct operator_env *env, const char *name);

/* Each kind's front door: makes its caches and controllers in env. */
int dataset_controller_start(struct operator_env *env, struct err *e);
int attach_controller_start(struct operator_env *env, struct err *e);
int dataload_controller_start(struct operator_env *env, struct err *e);
int tfjob_controller_start(struct operator_env *env, struct err *e);

#endif
