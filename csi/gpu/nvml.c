/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/gpu/nvml.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MINORS_MAX 254

/* nvmlMemory_t */
struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml {
    void *library;
    bool open; /* nvmlInit has been done */
    struct nvml_gpu gpus[NVML_GPUS];
    void *handles[NVML_GPUS];
    size_t n;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, void **);
    int (*minor)(void *, unsigned *);
    int (*uuid)(void *, char *, unsigned);
    int (*memory)(void *, struct nvml_memory *);
};

static void remember(struct nvml *n, void *handle)
{
    struct nvml_gpu g = {.sound = true};
    struct nvml_memory m = {0};
    if (n->minor(handle, &g.minor) || g.minor >= MINORS_MAX
        || n->uuid(handle, g.uuid, sizeof g.uuid) || n->memory(handle, &m))
        return;
    g.uuid[sizeof g.uuid - 1] = '\0';
    g.memory = (int64_t)m.total;
    size_t i = 0;
    while (i < n->n && n->gpus[i].minor != g.minor)
        i++;
    if (i == NVML_GPUS)
        return;
    n->n = MAX(n->n, i + 1);
    n->gpus[i] = g;
    n->handles[i] = handle;
}

/* Handles do not outlive a driver that is loaded again: after an error all are asked for anew. */
static int nvml_open(struct nvml *n)
{
    unsigned count = 0;
    int rc = n->open ? 0 : n->init();
    n->open = rc == 0;
    if (rc == 0)
        rc = n->count(&count);
    for (size_t i = 0; i < n->n; i++)
        n->gpus[i].sound = false;
    for (unsigned i = 0; rc == 0 && i < count; i++) {
        void *handle = NULL;
        if (n->by_index(i, &handle) == 0)
            remember(n, handle);
    }
    return rc;
}

static void nvml_close(struct nvml *n)
{
    if (n->open)
        n->shutdown();
    n->open = false;
}

struct nvml *nvml_new(const char *path, struct err *e)
{
    struct nvml *n = xcalloc(1, sizeof *n);
    const struct {
        const char *name;
        void *into;
    } functions[] = {{"nvmlInit_v2", &n->init}, {"nvmlShutdown", &n->shutdown},
        {"nvmlDeviceGetCount_v2", &n->count}, {"nvmlDeviceGetHandleByIndex_v2", &n->by_index},
        {"nvmlDeviceGetMinorNumber", &n->minor}, {"nvmlDeviceGetUUID", &n->uuid},
        {"nvmlDeviceGetMemoryInfo", &n->memory}};
    n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!n->library) {
        err_set(e, ERR_INVALID, "load NVML: %s", dlerror());
        nvml_free(n);
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        void *f = dlsym(n->library, functions[i].name);
        if (!f) {
            err_set(e, ERR_INVALID, "%s has no function %s", path, functions[i].name);
            nvml_free(n);
            return NULL;
        }
        memcpy(functions[i].into, &f, sizeof f);
    }
    int rc = nvml_open(n);
    if (rc) {
        err_set(e, ERR_FATAL, "NVML of %s does not start: error %d", path, rc);
        nvml_free(n);
        return NULL;
    }
    return n;
}

void nvml_free(struct nvml *n)
{
    if (!n)
        return;
    nvml_close(n);
    if (n->library)
        dlclose(n->library);
    free(n);
}

size_t nvml_look(struct nvml *n, struct nvml_gpu *out, size_t max)
{
    bool lost = !n->open;
    for (size_t i = 0; i < n->n; i++) {
        struct nvml_memory m;
        int rc = n->gpus[i].sound ? n->memory(n->handles[i], &m) : -1;
        lost |= rc != 0;
        if (rc > 0)
            log_warn("GPU %s (/dev/nvidia%u) does not answer: NVML error %d", n->gpus[i].uuid,
                n->gpus[i].minor, rc);
    }
    if (lost) {
        nvml_close(n);
        nvml_open(n);
    }
    size_t count = MIN(max, n->n);
    memcpy(out, n->gpus, count * sizeof *out);
    return count;
}
