/* SPDX-License-Identifier: Apache-2.0 */
/* The golden cases of attach. */
#include "tests/golden/golden_dataset.h"

int main(void) { return golden_run(&golden_attach); }
