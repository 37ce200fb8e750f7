/* SPDX-License-Identifier: Apache-2.0 */
/* libnvidia-ml.so.1 of a node that is a file, FAKE_NVML: a line a GPU, "MINOR UUID BYTES ERROR". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS_MAX 8

struct fake_nvml_gpu {
    unsigned minor;
    char uuid[64];
    unsigned long long memory;
    int error;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle);
int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor);
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size);
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory);

static unsigned read_gpus(struct fake_nvml_gpu *gpus)
{
    const char *path = getenv("FAKE_NVML");
    FILE *f = path ? fopen(path, "r") : NULL;
    unsigned n = 0;
    while (f && n < GPUS_MAX
        && fscanf(
               f, "%u %63s %llu %d", &gpus[n].minor, gpus[n].uuid, &gpus[n].memory, &gpus[n].error)
            == 4)
        n++;
    if (f)
        fclose(f);
    return n;
}

/* handles are minors, and one more */
static int find(void *handle, struct fake_nvml_gpu *out)
{
    struct fake_nvml_gpu gpus[GPUS_MAX];
    unsigned n = read_gpus(gpus);
    for (unsigned i = 0; i < n; i++)
        if (gpus[i].minor + 1 == (unsigned)(size_t)handle) {
            *out = gpus[i];
            return gpus[i].error;
        }
    return 15; /* NVML_ERROR_GPU_IS_LOST */
}

int nvmlInit_v2(void) { return getenv("FAKE_NVML") ? 0 : 9; /* NVML_ERROR_DRIVER_NOT_LOADED */ }

int nvmlShutdown(void) { return 0; }

int nvmlDeviceGetCount_v2(unsigned *count)
{
    struct fake_nvml_gpu gpus[GPUS_MAX];
    *count = read_gpus(gpus);
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
    struct fake_nvml_gpu gpus[GPUS_MAX];
    if (index >= read_gpus(gpus))
        return 2;
    *handle = (void *)(size_t)(gpus[index].minor + 1);
    return 0;
}

int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor)
{
    struct fake_nvml_gpu g;
    int rc = find(handle, &g);
    if (rc == 0)
        *minor = g.minor;
    return rc;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size)
{
    struct fake_nvml_gpu g;
    int rc = find(handle, &g);
    if (rc == 0)
        snprintf(uuid, size, "%s", g.uuid);
    return rc;
}

int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory)
{
    struct fake_nvml_gpu g;
    int rc = find(handle, &g);
    if (rc == 0)
        memcpy(memory, (unsigned long long[]){g.memory, g.memory, 0}, 3 * sizeof *memory);
    return rc;
}
