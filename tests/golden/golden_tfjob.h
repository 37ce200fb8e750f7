/* SPDX-License-Identifier: Apache-2.0 */
/* golden_tfjob — tfjob_plan() behind the golden interface, and TFJobs and their pods in a few
 * letters. A world may have "clusterDomain", "gangScheduler", "cached", "claims" and "crdProblem"
 * beside now and objects.
 */
#ifndef MILLRACE_TESTS_GOLDEN_GOLDEN_TFJOB_H
#define MILLRACE_TESTS_GOLDEN_GOLDEN_TFJOB_H

#include "tests/golden/golden.h"

#define GOLDEN_TFJOB_UID "uid-of-j"

void golden_tfjob_plan(const json_t *cr, const json_t *world, struct plan *plan);

/* "chief=1 worker=4:ExitCode ps=2:Never" as spec.tfReplicaSpecs: a type as the word spells it, or
 * as the API does where the word is in small letters. Caller owns it. */
json_t *golden_tfjob_replicas(const char *words);

/* The state of a pod as a letter and, for some, a number behind it:
 *   P pending
 *   R running (R5: since 5 s)
 *   S succeeded
 *   s succeeded, but no container status says so
 *   F failed with exit code 1 (F137: that one)
 *   K failed with exit code 130, which asks for a restart
 *   N failed without an exit code
 *   E evicted
 *   D running, and being deleted since 5 s
 *   T running, its container restarted once (T3: three times)
 *   - no pod */
struct golden_tfjob_state {
    char letter;
    int number; /* -1: none */
};
/* Puts the status, and what else shows the state, into the pod. It was made, and its container
 * started, age_s ago, and if that has ended, it did 10 s ago. */
void golden_tfjob_set_state(
    json_t *pod, struct golden_tfjob_state state, int64_t now_ns, int64_t age_s);
/* A pod or service of ns/j as the operator labels them. Caller owns it. */
json_t *golden_tfjob_child(const char *kind, const char *type, int index);
/* Calls fn for each index of "worker:RF137- ps:RR". */
void golden_tfjob_each(const char *words,
    void (*fn)(void *arg, const char *type, int index, struct golden_tfjob_state state), void *arg);

extern const struct golden_kind golden_tfjob;

#endif
