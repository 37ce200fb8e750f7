/* SPDX-License-Identifier: Apache-2.0 */
/* golden_tfjob — tfjob_plan() behind the golden interface. world.json may have "clusterDomain"
 * beside now and objects. */
#ifndef MILLRACE_TESTS_GOLDEN_GOLDEN_TFJOB_H
#define MILLRACE_TESTS_GOLDEN_GOLDEN_TFJOB_H

#include "tests/golden/golden.h"

int golden_tfjob_plan(const json_t *cr, const json_t *world, struct plan *plan, struct err *e);

#endif
