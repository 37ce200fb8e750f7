/* The TFJob controller: caches, the clock and the queue around tfjob_plan(). */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "operator/ctl/controller.h"
#include "operator/ctl/env.h"
#include "operator/tfjob/observe.h"
#include "operator/tfjob/plan.h"

#include <stdlib.h>

struct tfjob_controller {
    struct tfjob_caches caches;
    const char *domain; /* borrowed from the environment */
};

static int reconcile(void *user, const char *key, struct plan *plan, struct err *e)
{
    (void)e;
    const struct tfjob_controller *c = user;
    struct tfjob_observed seen;
    tfjob_observe(&c->caches, key, clock_real_ns(), c->domain, &seen);
    tfjob_plan(&seen.world, plan);
    tfjob_observed_free(&seen);
    return 0;
}

static void refused(void *user, const char *key, const struct plan_action *failed, const struct err *why, struct plan *then)
{
    const struct tfjob_controller *c = user;
    cleanup_obj struct obj *job = cache_get(c->caches.jobs, key); /* as it is now: with the status that was just written */
    if (job)
        tfjob_plan_refused(obj_json(job), failed, why, clock_real_ns(), then);
}

int tfjob_controller_start(struct operator_env *env, struct err *e)
{
    (void)e;
    static struct tfjob_controller state; /* lives as long as the process */
    const char *domain = getenv("CUSTOM_CLUSTER_DOMAIN"); /* upstream's variable, read by the same name */
    state.domain = domain ? domain : "";
    tfjob_caches_make(env, &state.caches);
    struct controller *c = env_controller(env, &(struct controller_conf){.name = "tfjob",
                                                                         .keys = state.caches.jobs,
                                                                         .reconcile = reconcile,
                                                                         .on_apply_error = refused,
                                                                         .user = &state});
    static char kind[] = "TFJob";
    controller_watch(c, state.caches.jobs, controller_map_self, NULL);
    controller_watch(c, state.caches.pods, controller_map_owner, kind);
    controller_watch(c, state.caches.services, controller_map_owner, kind);
    return 0;
}
