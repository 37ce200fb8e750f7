/* SPDX-License-Identifier: Apache-2.0 */
/* sim_api — an API server and the operator's informers of it, in one thread and with dice: what is
 * written is known at once to the server, and to the operator when the watch of its kind gets
 * there, or from the answer, as ctl/informer and ctl/apply have it. Writes are refused, lost on
 * their way back, or die with the operator. The same seed is the same run. */
#ifndef MILLRACE_TESTS_UNIT_OPERATOR_SIM_SIM_API_H
#define MILLRACE_TESTS_UNIT_OPERATOR_SIM_SIM_API_H

#include "operator/ctl/plan.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_KINDS 6 /* at most */

struct sim_api {
    uint64_t random;
    int64_t now_ns;
    json_t *objects; /* owned: what the server has */
    json_t *cache;   /* owned: what the operator knows */
    struct {
        const char *kind;
        json_t *events; /* owned: {"gone": bool, "object": …} that the watch has not brought yet */
        int64_t delivered; /* version that it has come to */
    } watches[SIM_KINDS];
    size_t nwatches;
    int64_t version;
    bool fair;                 /* no faults */
    bool updates;              /* what is applied again is merged; else it is made once */
    bool failed;               /* the last plan was not run to its end */
    unsigned faults, restarts; /* of writes; of the operator */
    unsigned counted;          /* for uids */
};

/* kinds: those that are watched, up to a NULL. */
void sim_open(struct sim_api *s, uint64_t seed, const char *const *kinds);
void sim_close(struct sim_api *s);
uint32_t sim_roll(struct sim_api *s, uint32_t n); /* 0 … n-1 */

/* As another client: put creates or replaces. */
void sim_put(struct sim_api *s, json_t *object_take);
void sim_remove(struct sim_api *s, const char *kind, const char *name);
json_t *sim_find(json_t *objects, const char *kind, const char *name); /* borrowed */

/* Some of what the watches have to bring; or, if they were dropped, a list anew. */
void sim_deliver(struct sim_api *s);
void sim_deliver_all(struct sim_api *s);
/* The operator begins again: it lists everything. */
void sim_restart(struct sim_api *s);

/* What the test looks at before a write is done. */
typedef void (*sim_look)(void *user, const struct plan_action *a);
/* As the controller, after a turn that failed: the object as the server has it. false: it does not
 * say, nothing is planned. */
bool sim_ask_again(struct sim_api *s, const char *kind, const char *name);
/* As apply_plan: up to the first error, or to the operator's end. */
void sim_apply(struct sim_api *s, const struct plan *p, sim_look look, void *user);

#endif
