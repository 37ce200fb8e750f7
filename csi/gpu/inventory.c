/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/gpu/inventory.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INFORMATION_MAX 4096
#define MINORS_OF_GPUS  254 /* 254: modeset, 255: nvidiactl */

static void cleanup_dirp(DIR **d)
{
    if (*d)
        closedir(*d);
}

/* The value of a line "Name: \t value", or NULL. */
static const char *line_value(const char *text, const char *name, size_t *len)
{
    size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) != 0 || line[n] != ':')
            continue;
        line += n + 1;
        line += strspn(line, " \t");
        *len = strcspn(line, " \t\r\n");
        return line;
    }
    return NULL;
}

int gpu_information(const char *text, unsigned *minor, char uuid[GPU_UUID_MAX])
{
    size_t len = 0;
    const char *v = line_value(text, "Device Minor", &len);
    char *end;
    if (!v || len == 0 || *v < '0' || *v > '9')
        return -1;
    unsigned long m = strtoul(v, &end, 10);
    if (end != v + len || m >= MINORS_OF_GPUS)
        return -1;
    v = line_value(text, "GPU UUID", &len);
    if (!v || len < 5 || len >= GPU_UUID_MAX || strncmp(v, "GPU-", 4) != 0)
        return -1;
    for (size_t i = 0; i < len; i++)
        if (!strchr("0123456789abcdefABCDEFGPU-", v[i]))
            return -1;
    *minor = (unsigned)m;
    memcpy(uuid, v, len);
    uuid[len] = '\0';
    return 0;
}

/* "nvidia7": 7; GPU_MINORS: it is something else */
static unsigned minor_of(const char *name)
{
    char again[32];
    char *end;
    if (strncmp(name, "nvidia", 6) != 0 || name[6] < '0' || name[6] > '9')
        return GPU_MINORS;
    unsigned long m = strtoul(name + 6, &end, 10);
    snprintf(again, sizeof again, "nvidia%lu", m);
    return m < MINORS_OF_GPUS && strcmp(again, name) == 0 ? (unsigned)m : GPU_MINORS;
}

static struct gpu *gpu_of(struct inventory *v, unsigned minor)
{
    size_t i = 0;
    while (i < v->n && v->gpus[i].minor < minor)
        i++;
    if (i < v->n && v->gpus[i].minor == minor)
        return &v->gpus[i];
    memmove(&v->gpus[i + 1], &v->gpus[i], (v->n - i) * sizeof *v->gpus);
    v->n++;
    v->gpus[i] = (struct gpu){.minor = minor};
    return &v->gpus[i];
}

static bool is_device(const char *dir, const char *name)
{
    struct stat st;
    cleanup_free char *path = path_join(dir, name);
    return stat(path, &st) == 0 && S_ISCHR(st.st_mode);
}

static bool is_wanted(const char *only, const struct gpu *g)
{
    char minor[16];
    if (!only || !*only)
        return true;
    snprintf(minor, sizeof minor, "%u", g->minor);
    for (const char *p = only; *p;) {
        size_t n = strcspn(p, ",");
        if ((n == strlen(minor) && strncmp(p, minor, n) == 0)
            || (n && n == strlen(g->uuid) && strncmp(p, g->uuid, n) == 0))
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

/* What the driver says of the GPUs of `found`. */
static void read_driver(struct gpu *found, const char *driver_dir)
{
    cleanup_free char *gpus = path_join(driver_dir, "gpus");
    __attribute__((cleanup(cleanup_dirp))) DIR *dir = opendir(gpus);
    for (const struct dirent *d; dir && (d = readdir(dir));) {
        if (d->d_name[0] == '.')
            continue;
        cleanup_free char *path = xasprintf("%s/%s/information", gpus, d->d_name);
        size_t len;
        cleanup_free char *text = file_read(path, INFORMATION_MAX, &len, NULL);
        unsigned minor;
        char uuid[GPU_UUID_MAX];
        if (text && gpu_information(text, &minor, uuid) == 0)
            memcpy(found[minor].uuid, uuid, sizeof uuid);
    }
}

int inventory_scan(struct inventory *v, const struct inventory_conf *conf, struct err *e)
{
    cleanup_free struct gpu *found = xcalloc(GPU_MINORS, sizeof *found);
    for (size_t i = 0; i < v->n; i++)
        v->gpus[i].there = false;
    __attribute__((cleanup(cleanup_dirp))) DIR *dir = opendir(conf->dev_dir);
    if (!dir)
        return err_sys(e, errno, "list the devices in %s", conf->dev_dir);
    for (const struct dirent *d; (d = readdir(dir));) {
        unsigned minor = minor_of(d->d_name);
        if (minor < GPU_MINORS && is_device(conf->dev_dir, d->d_name))
            found[minor] = (struct gpu){.minor = minor, .there = true, .sound = true};
    }
    read_driver(found, conf->driver_dir);
    struct nvml_gpu seen[NVML_GPUS];
    size_t nseen = conf->nvml ? nvml_look(conf->nvml, seen, NVML_GPUS) : 0;
    for (size_t i = 0; i < nseen; i++) {
        struct gpu *g = &found[seen[i].minor];
        g->sound = seen[i].sound;
        g->memory = seen[i].memory;
        memcpy(g->uuid, seen[i].uuid, sizeof g->uuid);
    }
    for (unsigned minor = 0; minor < MINORS_OF_GPUS; minor++) {
        if (!found[minor].there || !is_wanted(conf->only, &found[minor]))
            continue;
        struct gpu *g = gpu_of(v, minor);
        bool taken = g->taken;
        *g = found[minor];
        g->taken = taken;
        g->memory = g->memory ? g->memory : conf->memory;
    }
    return 0;
}

/* Device plugins name whole GPUs by UUID, shared ones by UUID and more: "GPU-…::2". */
static bool is_of(const char *device, const char *uuid)
{
    size_t n = strlen(uuid);
    return n && strncmp(device, uuid, n) == 0
        && (device[n] == '\0' || device[n] == ':' || device[n] == '/');
}

static void take(struct inventory *v, const Podresources__ContainerDevices *d)
{
    for (size_t k = 0; k < d->n_device_ids; k++)
        for (size_t i = 0; i < v->n; i++)
            if (is_of(d->device_ids[k], v->gpus[i].uuid))
                v->gpus[i].taken = true;
}

void inventory_tenants(
    struct inventory *v, const Podresources__ListResponse *holders, const char *own)
{
    for (size_t i = 0; i < v->n; i++)
        v->gpus[i].taken = false;
    for (size_t i = 0; i < holders->n_pod_resources; i++) {
        const Podresources__PodResources *pod = holders->pod_resources[i];
        for (size_t k = 0; k < pod->n_containers; k++) {
            const Podresources__ContainerResources *c = pod->containers[k];
            for (size_t j = 0; j < c->n_devices; j++)
                if (strcmp(c->devices[j]->resource_name, own) != 0)
                    take(v, c->devices[j]);
        }
    }
}

bool gpu_usable(const struct gpu *g) { return g->there && g->sound && !g->taken; }

const struct gpu *inventory_find(const struct inventory *v, unsigned minor)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->gpus[i].minor == minor)
            return &v->gpus[i];
    return NULL;
}

bool inventory_differs(const struct inventory *a, const struct inventory *b)
{
    if (a->n != b->n)
        return true;
    for (size_t i = 0; i < a->n; i++)
        if (a->gpus[i].minor != b->gpus[i].minor
            || gpu_usable(&a->gpus[i]) != gpu_usable(&b->gpus[i]))
            return true;
    return false;
}
