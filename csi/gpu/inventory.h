/* SPDX-License-Identifier: Apache-2.0 */
/* inventory — the node's GPUs: device nodes, what the driver says of them in /proc, NVML where it
 * is there, and who else holds one. One thread; a copy is a snapshot. */
#ifndef MILLRACE_CSI_GPU_INVENTORY_H
#define MILLRACE_CSI_GPU_INVENTORY_H

#include "csi/gpu/nvml.h"
#include "csi/gpu/units.h"

#include "csi/proto/podresources.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

struct gpu {
    unsigned minor;
    char uuid[GPU_UUID_MAX]; /* "": not known */
    int64_t memory;          /* bytes; 0: not known */
    bool there;              /* its device node */
    bool sound;              /* NVML has nothing against it, or is not there */
    bool taken;              /* another resource's containers hold it */
};

struct inventory {
    struct gpu gpus[GPU_MINORS]; /* in the order of their minors; one that is gone stays listed */
    size_t n;
};

struct inventory_conf {
    const char *dev_dir;    /* "/dev" */
    const char *driver_dir; /* "/proc/driver/nvidia" */
    const char *only;       /* minors or UUIDs of the GPUs to list, with commas; "": all */
    int64_t memory;         /* of each GPU where NVML does not tell; 0: not known */
    struct nvml *nvml;      /* NULL: none */
};

/* Looks again. -1: dev_dir cannot be read; what was known stays, as not there. */
int inventory_scan(struct inventory *v, const struct inventory_conf *conf, struct err *e);
/* Sets `taken` by what kubelet says; own: the resource whose holders do not count. */
void inventory_tenants(
    struct inventory *v, const Podresources__ListResponse *holders, const char *own);

bool gpu_usable(const struct gpu *g);
const struct gpu *inventory_find(const struct inventory *v, unsigned minor); /* NULL: none */
/* What is different that kubelet is to know of. */
bool inventory_differs(const struct inventory *a, const struct inventory *b);
/* A GPU's `information` file of the driver. -1: it names no minor or no UUID. */
int gpu_information(const char *text, unsigned *minor, char uuid[GPU_UUID_MAX]);

#endif
