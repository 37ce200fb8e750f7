/* SPDX-License-Identifier: Apache-2.0 */
/* registration — one life of the plugin's socket: from listening and registering until kubelet's
 * socket is another one, ours is gone, or it shall end. Kubelet empties the directory when it
 * starts. */
#ifndef MILLRACE_CSI_GPU_REGISTRATION_H
#define MILLRACE_CSI_GPU_REGISTRATION_H

#include "csi/gpu/service.h"

#include <stdatomic.h>

struct registration_conf {
    const char *plugins_dir; /* kubelet.sock is there, and ours */
    const char *resource;    /* NAME_GPU_PERCENT */
    struct service *service;
    const atomic_bool *stop;
};

/* Goes on until *stop. -1: something that does not go away by itself. */
int registration_run(const struct registration_conf *conf, struct err *e);
/* The name of our socket for a resource; caller frees. */
char *registration_endpoint(const char *resource);

#endif
