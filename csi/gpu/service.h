/* SPDX-License-Identifier: Apache-2.0 */
/* service — the device plugin's side of kubelet's v1beta1: the units of GPUs as a list that is sent
 * again at every change, and what a container gets with its share. Holds no allocations: kubelet
 * does, over restarts of either. Threads: any. */
#ifndef MILLRACE_CSI_GPU_SERVICE_H
#define MILLRACE_CSI_GPU_SERVICE_H

#include "csi/gpu/inventory.h"
#include "csi/rpc.h"

#include <stddef.h>
#include <stdint.h>

struct service_conf {         /* borrowed */
    const char *dev_dir;      /* as we see it */
    const char *node_dev_dir; /* the same on the node */
    const char *mps_pipe;     /* the MPS daemon's directory of pipes on the node; "": no MPS */
    const char *mps_shm;      /* its /dev/shm on the node; "": not shared */
};

struct service; /* opaque; rpc_conf.user of the methods */
struct service *service_new(const struct service_conf *conf);
void service_free(struct service *s);

/* What is known of the GPUs from now on; copied. */
void service_update(struct service *s, const struct inventory *v);

extern const struct rpc_method service_methods[];
extern const size_t service_nmethods;

#endif
