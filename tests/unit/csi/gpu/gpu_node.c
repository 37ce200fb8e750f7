/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/csi/gpu/gpu_node.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void information(const struct gpu_node *n, const char *bus, int minor, const char *uuid)
{
    cleanup_free char *dir = xasprintf("%s/gpus/%s", n->driver, bus),
                      *path = path_join(dir, "information"),
                      *text = xasprintf(
                          "Model: \t\t Fake\nIRQ:   \t\t 0\nGPU UUID: \t %s\nBus Type: \t PCIe\n"
                          "Device Minor: \t %d\nGPU Excluded:\t No\n",
                          uuid, minor);
    if (file_mkdirs(dir, 0755, NULL) || file_write_atomic(path, text, strlen(text), 0644, NULL))
        abort();
}

void gpu_node_add(const struct gpu_node *n, const char *device)
{
    cleanup_free char *path = path_join(n->dev, device);
    if (symlink("/dev/null", path))
        abort();
}

void gpu_node_remove(const struct gpu_node *n, const char *device)
{
    cleanup_free char *path = path_join(n->dev, device);
    if (unlink(path))
        abort();
}

void gpu_node_nvml(const struct gpu_node *n, const char *text)
{
    cleanup_free char *path = path_join(n->dir, "nvml");
    if (file_write_atomic(path, text, strlen(text), 0644, NULL)
        || setenv("FAKE_NVML", path, 1)) /* before threads start */
        abort();
}

int gpu_node_setup(void **state)
{
    struct gpu_node *n = xcalloc(1, sizeof *n);
    const char *tmp = getenv("TMPDIR");
    snprintf(n->dir, sizeof n->dir, "%.150s/gpu-node-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
    if (!mkdtemp(n->dir))
        return -1;
    snprintf(n->dev, sizeof n->dev, "%s/dev", n->dir);
    snprintf(n->driver, sizeof n->driver, "%s/driver", n->dir);
    if (file_mkdirs(n->dev, 0755, NULL))
        return -1;
    static const char *const devices[] = {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"};
    for (size_t i = 0; i < ARRAY_LEN(devices); i++)
        gpu_node_add(n, devices[i]);
    information(n, "0000:05:00.0", 1, UUID_1);
    information(n, "0000:06:00.0", 0, UUID_0);
    *state = n;
    return 0;
}

int gpu_node_teardown(void **state)
{
    struct gpu_node *n = *state;
    int rc = file_remove_tree(n->dir, NULL);
    unsetenv("FAKE_NVML");
    free(n);
    return rc;
}
