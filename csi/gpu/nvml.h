/* SPDX-License-Identifier: Apache-2.0 */
/* nvml — NVIDIA's library, loaded where it is there: which GPUs are lost, and how much memory each
 * has. One thread. */
#ifndef MILLRACE_CSI_GPU_NVML_H
#define MILLRACE_CSI_GPU_NVML_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_UUID_MAX 64 /* "GPU-…", with its NUL */
#define NVML_GPUS    64

struct nvml_gpu {
    unsigned minor;
    char uuid[GPU_UUID_MAX];
    int64_t memory; /* bytes */
    bool sound;     /* it answers */
};

struct nvml; /* opaque */
/* path: of libnvidia-ml.so.1, or its name alone. INVALID: it cannot be loaded, or lacks a function;
 * FATAL: it finds no driver. */
struct nvml *nvml_new(const char *path, struct err *e);
void nvml_free(struct nvml *n); /* NULL is fine */
/* Every GPU that was ever seen; one that is seen no more is not sound. */
size_t nvml_look(struct nvml *n, struct nvml_gpu *out, size_t max);

#endif
