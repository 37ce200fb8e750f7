/* SPDX-License-Identifier: Apache-2.0 */
/* golden — plans checked against files. Every folder tests/golden/<kind>/<case>/ is a test:
 *   cr.json     the object that is reconciled (null: there is none)
 *   world.json  {"now": "2026-01-31T12:00:00Z", "objects": [everything else, with kind and
 * metadata], …what the kind wants} plan.json   what plan_json() must give MILLRACE_UPDATE_GOLDEN=1
 * writes plan.json instead: read the diff before you commit it. Besides, for each case: the plan
 * for the world after the plan has no writes (deleted objects linger with a deletionTimestamp); and
 * when they go, plan after plan comes to rest within GOLDEN_ROUNDS.
 *
 * golden_apply() is the small API server behind that; tests that move a world on by themselves use
 * it too. */
#ifndef MILLRACE_TESTS_GOLDEN_GOLDEN_H
#define MILLRACE_TESTS_GOLDEN_GOLDEN_H

#include "lib/base/err.h"
#include "operator/ctl/plan.h"

#include <jansson.h>

#define GOLDEN_ROUNDS 10

/* cr is NULL if there is none */
typedef int (*golden_plan)(const json_t *cr, const json_t *world, struct plan *plan, struct err *e);

/* Runs every case of tests/golden/<dir>/ as a cmocka group; returns the number of failures. No case
 * at all is a failure. */
int golden_run(const char *dir, golden_plan fn);

int64_t golden_now(const json_t *world); /* "now", ns since the epoch */
/* The world's objects of a kind. Caller frees the array; the objects are borrowed. *n: how many. */
const json_t **golden_objects(const json_t *world, const char *kind, size_t *n);
/* borrowed; NULL if absent */
json_t *golden_find(json_t *world, const char *kind, const char *ns, const char *name);

enum golden_delete {
    GOLDEN_LINGER, /* deletionTimestamp is set, and that is all: finalizers, a kubelet at work */
    GOLDEN_GONE,
};
/* Runs the actions on cr and world, in place. Stops in front of write `stop_at` (counted from 0;
 * SIZE_MAX: never), as an operator does that is killed. Returns how many writes were done. */
size_t golden_apply(
    json_t *cr, json_t *world, const struct plan *p, enum golden_delete how, size_t stop_at);

#endif
