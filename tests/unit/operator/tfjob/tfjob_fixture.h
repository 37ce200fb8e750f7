/* SPDX-License-Identifier: Apache-2.0 */
/* tfjob_fixture — TFJobs and their pods in a few letters, and a look at a plan's outcome. */
#ifndef MILLRACE_TESTS_UNIT_OPERATOR_TFJOB_TFJOB_FIXTURE_H
#define MILLRACE_TESTS_UNIT_OPERATOR_TFJOB_TFJOB_FIXTURE_H

#include "operator/ctl/plan.h"
#include "tests/golden/golden.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define FX_NOW GOLDEN_NOW

/* JSON with ' in place of "; aborts if it is none. Caller owns. */
json_t *fx_json(const char *text);

/* A TFJob ns/j. replicas: "chief=1 worker=4:ExitCode ps=2:Never"; spec: more of the spec, or NULL.
 * Caller owns. */
json_t *fx_job(const char *replicas, const char *spec);
/* A world with pods and services for a job ns/j. pods: "chief:R worker:RSF-", the letters of
 * golden_tfjob.h. */
json_t *fx_world(const char *pods);
void fx_set_pod(json_t *world, const char *type, int index, char state);

/* plans for cr in world and applies that to both; the number of writes */
size_t fx_reconcile(json_t *cr, json_t *world);
void fx_advance(json_t *world, int64_t seconds);

bool fx_cond(const json_t *cr, const char *type);               /* there, whatever its status */
const char *fx_cond_status(const json_t *cr, const char *type); /* "" if absent */
/* objects of a kind, with or without deletionTimestamp */
size_t fx_count(const json_t *world, const char *kind, bool leaving);

#endif
