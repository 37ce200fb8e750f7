/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_node — a directory that looks like a node with GPUs: links to /dev/null are its devices. */
#ifndef MILLRACE_TESTS_UNIT_CSI_GPU_GPU_NODE_H
#define MILLRACE_TESTS_UNIT_CSI_GPU_GPU_NODE_H

#define UUID_0 "GPU-00000000-1111-2222-3333-444444444444"
#define UUID_1 "GPU-11111111-1111-2222-3333-444444444444"

struct gpu_node {
    char dir[200], dev[232], driver[232];
};

int gpu_node_setup(void **state); /* *state: struct gpu_node *; two GPUs with UUIDs */
int gpu_node_teardown(void **state);
void gpu_node_add(const struct gpu_node *n, const char *device);
void gpu_node_remove(const struct gpu_node *n, const char *device);
void gpu_node_nvml(const struct gpu_node *n, const char *text); /* what the fake NVML sees */

#endif
