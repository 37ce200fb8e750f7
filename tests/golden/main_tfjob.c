/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/golden/golden_tfjob.h"

int main(void) { return golden_run(&golden_tfjob); }
