/* observe — the world of one TFJob out of the caches. Threads: any. */
#ifndef MILLRACE_TFJOB_OBSERVE_H
#define MILLRACE_TFJOB_OBSERVE_H

#include "operator/ctl/cache.h"
#include "operator/ctl/env.h"
#include "operator/tfjob/world.h"

struct tfjob_caches {
    struct cache *jobs, *pods, *services; /* owned by env */
};

void tfjob_caches_make(struct operator_env *env, struct tfjob_caches *out);

struct tfjob_observed {
    struct tfjob_world world; /* borrows from the references below */
    struct obj *job;
    struct objs pods, services;
};

void tfjob_observe(const struct tfjob_caches *c, const char *key, int64_t now_ns, const char *domain, struct tfjob_observed *out);
void tfjob_observed_free(struct tfjob_observed *o);

#endif
