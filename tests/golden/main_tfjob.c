/* SPDX-License-Identifier: Apache-2.0 */
/* The golden cases of tfjob. */
#include "tests/golden/golden_tfjob.h"

int main(void) { return golden_run(&golden_tfjob); }
