/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of Dataset, of its attachments and of DataLoad for golden worlds. Besides objects a world
 * may have: "reports": {pod: what its /status said}, "gpuNodes", "waiting": specs of pods, "users":
 * names, "retired": {cache, worker, store, direct, written}, "pv", "foreign": of the attach plan,
 * "image": of our pods. */
#ifndef MILLRACE_TESTS_GOLDEN_GOLDEN_DATASET_H
#define MILLRACE_TESTS_GOLDEN_GOLDEN_DATASET_H

#include "tests/golden/golden.h"

void golden_dataset_plan(const json_t *cr, const json_t *world, struct plan *plan);
void golden_attach_plan(const json_t *cr, const json_t *world, struct plan *plan);
void golden_dataload_plan(const json_t *cr, const json_t *world, struct plan *plan);

extern const struct golden_kind golden_dataset, golden_attach, golden_dataload;

#endif
