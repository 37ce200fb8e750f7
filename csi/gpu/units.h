/* SPDX-License-Identifier: Apache-2.0 */
/* units — the hundredths of GPUs that kubelet counts, "gpu3-07", and which of them a container
 * should get: all of one GPU, of the one that has the least room left for it. Pure. */
#ifndef MILLRACE_CSI_GPU_UNITS_H
#define MILLRACE_CSI_GPU_UNITS_H

#include "lib/base/err.h"

#include <stddef.h>

#define GPU_UNITS   100
#define GPU_MINORS  256 /* /dev/nvidia0 to 255: 254 and 255 are other devices */
#define UNIT_ID_MAX 16  /* with its NUL */

void unit_print(unsigned minor, unsigned unit, char out[UNIT_ID_MAX]);
/* INVALID: it is none of ours */
int unit_parse(const char *id, unsigned *minor, unsigned *unit, struct err *e);

/* Which n of the available units a container should have, those of must among them; chosen[n]
 * points into both lists. EXHAUSTED: no GPU has so many; INVALID: none ever will. */
int units_choose(char *const *available, size_t navailable, char *const *must, size_t nmust,
    size_t n, char **chosen, struct err *e);
/* The GPU whose units these are. INVALID: of several, or one twice, or none at all. */
int units_gpu(char *const *ids, size_t n, unsigned *minor, struct err *e);

#endif
