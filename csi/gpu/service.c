/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/gpu/service.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include "csi/proto/deviceplugin.pb-c.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LOOK_NS    (200 * NS_PER_MS) /* how late a stream notices that its caller is gone */
#define MPS_PIPE   "/tmp/nvidia-mps" /* in the container: CUDA's default */
#define ENVS_MAX   8
#define MOUNTS_MAX 2
#define MIB        (INT64_C(1) << 20)

/* Beside the GPU's own: what there is of them goes into the container. */
static const char *const common_devices[] = {
    "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"};

struct service {
    struct service_conf conf;
    pthread_mutex_t mu; /* a leaf */
    pthread_cond_t changed;
    struct inventory inventory; /* mu */
    uint64_t version;           /* mu: of the inventory */
};

struct service *service_new(const struct service_conf *conf)
{
    struct service *s = xcalloc(1, sizeof *s);
    s->conf = *conf;
    pthread_mutex_init(&s->mu, NULL);
    clock_cond_init(&s->changed);
    return s;
}

void service_free(struct service *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->mu);
    pthread_cond_destroy(&s->changed);
    free(s);
}

static void service_tell(const struct inventory *before, const struct inventory *now)
{
    for (size_t i = 0; i < now->n; i++) {
        const struct gpu *g = &now->gpus[i], *old = inventory_find(before, g->minor);
        if (old && gpu_usable(old) == gpu_usable(g))
            continue;
        cleanup_free char *name = xasprintf("/dev/nvidia%u", g->minor);
        const char *why = !g->there ? "its device is gone"
            : !g->sound             ? "NVML says that it does not answer"
                                    : "containers of another resource hold it";
        if (gpu_usable(g))
            log_kv(LOG_INFO, "a GPU is offered", "gpu", name, "uuid", g->uuid, NULL);
        else
            log_kv(
                LOG_WARN, "a GPU is not offered", "gpu", name, "uuid", g->uuid, "why", why, NULL);
    }
}

void service_update(struct service *s, const struct inventory *v)
{
    pthread_mutex_lock(&s->mu);
    cleanup_free struct inventory *before = xmalloc(sizeof *before);
    *before = s->inventory;
    s->inventory = *v;
    if (inventory_differs(before, v)) {
        s->version++;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->mu);
    service_tell(before, v);
}

static int get_options(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)call, (void)req, (void)e;
    ((Deviceplugin__DevicePluginOptions *)resp)->get_preferred_allocation_available = true;
    return 0;
}

/* caller frees: one block */
static Deviceplugin__Device *list_units(const struct inventory *v, Deviceplugin__Device ***list)
{
    size_t n = v->n * GPU_UNITS;
    Deviceplugin__Device *devices = xcalloc(n + 1, sizeof *devices + sizeof *list + UNIT_ID_MAX);
    *list = (Deviceplugin__Device **)(devices + n + 1);
    char(*ids)[UNIT_ID_MAX] = (void *)(*list + n + 1);
    for (size_t i = 0; i < n; i++) {
        const struct gpu *g = &v->gpus[i / GPU_UNITS];
        deviceplugin__device__init(&devices[i]);
        unit_print(g->minor, i % GPU_UNITS, ids[i]);
        devices[i].id = ids[i];
        devices[i].health = (char *)(gpu_usable(g) ? "Healthy" : "Unhealthy");
        (*list)[i] = &devices[i];
    }
    return devices;
}

static int list_and_watch(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)req, (void)resp;
    struct service *s = rpc_user(call);
    uint64_t sent = UINT64_MAX;
    while (!rpc_cancelled(call) && !rpc_stopping(call)) {
        Deviceplugin__ListAndWatchResponse list = DEVICEPLUGIN__LIST_AND_WATCH_RESPONSE__INIT;
        pthread_mutex_lock(&s->mu);
        if (s->version == sent)
            clock_cond_wait(&s->changed, &s->mu, clock_mono_ns() + LOOK_NS);
        bool news = s->version != sent;
        sent = s->version;
        list.n_devices = s->inventory.n * GPU_UNITS;
        cleanup_free Deviceplugin__Device *devices = news ? list_units(&s->inventory, &list.devices)
                                                          : NULL;
        pthread_mutex_unlock(&s->mu);
        if (news && rpc_send(call, &list.base, e))
            break; /* its caller has gone: no error of ours */
    }
    return 0;
}

static int get_preferred(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    const Deviceplugin__PreferredAllocationRequest *in = (const void *)req;
    Deviceplugin__PreferredAllocationResponse *out = (void *)resp;
    out->container_responses = rpc_alloc(
        call, in->n_container_requests * sizeof *out->container_responses);
    for (size_t i = 0; i < in->n_container_requests; i++) {
        const Deviceplugin__ContainerPreferredAllocationRequest *c = in->container_requests[i];
        Deviceplugin__ContainerPreferredAllocationResponse *r = rpc_alloc(call, sizeof *r);
        deviceplugin__container_preferred_allocation_response__init(r);
        r->n_device_ids = (size_t)MAX(c->allocation_size, 0);
        r->device_ids = rpc_alloc(call, GPU_UNITS * sizeof *r->device_ids);
        if (units_choose(c->available, c->n_available, c->must_include, c->n_must_include,
                r->n_device_ids, r->device_ids, e))
            return -1;
        out->container_responses[out->n_container_responses++] = r;
    }
    return 0;
}

static void share_env(struct rpc_call *call, Deviceplugin__ContainerAllocateResponse *r,
    const char *key, const char *value)
{
    if (r->n_envs == ENVS_MAX)
        abort();
    Deviceplugin__Env *env = rpc_alloc(call, sizeof *env);
    deviceplugin__env__init(env);
    env->key = (char *)key;
    env->value = rpc_strdup(call, value);
    r->envs[r->n_envs++] = env;
}

static void share_mount(struct rpc_call *call, Deviceplugin__ContainerAllocateResponse *r,
    const char *inside, const char *outside)
{
    if (r->n_mounts == MOUNTS_MAX)
        abort();
    Deviceplugin__Mount *mount = rpc_alloc(call, sizeof *mount);
    deviceplugin__mount__init(mount);
    mount->container_path = (char *)inside;
    mount->host_path = rpc_strdup(call, outside);
    r->mounts[r->n_mounts++] = mount;
}

static void share_device(struct rpc_call *call, const struct service *s,
    Deviceplugin__ContainerAllocateResponse *r, const char *name)
{
    cleanup_free char *inside = xasprintf("/dev/%s", name),
                      *outside = xasprintf("%s/%s", s->conf.node_dev_dir, name),
                      *seen = xasprintf("%s/%s", s->conf.dev_dir, name);
    struct stat st;
    if (stat(seen, &st) || !S_ISCHR(st.st_mode))
        return;
    Deviceplugin__DeviceSpec *d = rpc_alloc(call, sizeof *d);
    deviceplugin__device_spec__init(d);
    d->container_path = rpc_strdup(call, inside);
    d->host_path = rpc_strdup(call, outside);
    d->permissions = (char *)"rw";
    r->devices[r->n_devices++] = d;
}

/* MPS holds a client to its share; without it the share is an agreement. */
static void share_mps(struct rpc_call *call, const struct service *s,
    Deviceplugin__ContainerAllocateResponse *r, const char *percent, int64_t mib)
{
    if (!s->conf.mps_pipe[0])
        return;
    cleanup_free char *limit = xasprintf("0=%lldM", (long long)mib);
    share_env(call, r, "CUDA_MPS_PIPE_DIRECTORY", MPS_PIPE);
    share_env(call, r, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percent);
    if (mib)
        share_env(call, r, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", limit);
    share_mount(call, r, MPS_PIPE, s->conf.mps_pipe);
    if (s->conf.mps_shm[0])
        share_mount(call, r, "/dev/shm", s->conf.mps_shm);
}

/* The GPU is the only one in the container: there it is the first, whatever it is on the node. */
static void fill_share(struct rpc_call *call, const struct service *s, const struct gpu *g,
    size_t units, Deviceplugin__ContainerAllocateResponse *r)
{
    cleanup_free char *percent = xasprintf("%zu", units), *device = xasprintf("nvidia%u", g->minor);
    int64_t mib = g->memory / MIB * (int64_t)units / GPU_UNITS;
    cleanup_free char *memory = xasprintf("%lld", (long long)mib);
    r->envs = rpc_alloc(call, ENVS_MAX * sizeof *r->envs);
    r->mounts = rpc_alloc(call, MOUNTS_MAX * sizeof *r->mounts);
    r->devices = rpc_alloc(call, (1 + ARRAY_LEN(common_devices)) * sizeof *r->devices);
    share_env(call, r, "CUDA_VISIBLE_DEVICES", g->uuid[0] ? g->uuid : "0");
    if (g->uuid[0]) /* images of CUDA ask NVIDIA's container runtime for all GPUs */
        share_env(call, r, "NVIDIA_VISIBLE_DEVICES", g->uuid);
    share_env(call, r, "MILLRACE_GPU_MEMORY_PERCENT", percent);
    if (mib)
        share_env(call, r, "MILLRACE_GPU_MEMORY_MIB", memory);
    share_env(call, r, "TF_FORCE_GPU_ALLOW_GROWTH", "true");
    share_mps(call, s, r, percent, mib);
    share_device(call, s, r, device);
    for (size_t i = 0; i < ARRAY_LEN(common_devices); i++)
        share_device(call, s, r, common_devices[i]);
}

static int check_gpu(const struct gpu *g, unsigned minor, struct err *e)
{
    if (!g || !g->there)
        return err_set(e, ERR_RETRY, "/dev/nvidia%u is gone from the node", minor);
    if (!g->sound)
        return err_set(
            e, ERR_RETRY, "/dev/nvidia%u does not answer: its node should be looked at", minor);
    if (g->taken)
        return err_set(e, ERR_RETRY,
            "/dev/nvidia%u was given to a container that asked for a whole GPU", minor);
    return 0;
}

static int allocate_container(struct rpc_call *call, struct service *s,
    const Deviceplugin__ContainerAllocateRequest *c, Deviceplugin__ContainerAllocateResponse *r,
    struct err *e)
{
    unsigned minor;
    if (units_gpu(c->device_ids, c->n_device_ids, &minor, e))
        return -1;
    pthread_mutex_lock(&s->mu);
    const struct gpu *known = inventory_find(&s->inventory, minor);
    struct gpu g = known ? *known : (struct gpu){.minor = minor};
    pthread_mutex_unlock(&s->mu);
    if (check_gpu(&g, minor, e))
        return -1;
    fill_share(call, s, &g, c->n_device_ids, r);
    return 0;
}

static int allocate(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    const Deviceplugin__AllocateRequest *in = (const void *)req;
    Deviceplugin__AllocateResponse *out = (void *)resp;
    out->container_responses = rpc_alloc(
        call, in->n_container_requests * sizeof *out->container_responses);
    for (size_t i = 0; i < in->n_container_requests; i++) {
        Deviceplugin__ContainerAllocateResponse *r = rpc_alloc(call, sizeof *r);
        deviceplugin__container_allocate_response__init(r);
        if (allocate_container(call, rpc_user(call), in->container_requests[i], r, e))
            return -1;
        out->container_responses[out->n_container_responses++] = r;
    }
    return 0;
}

static int pre_start(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)call, (void)req, (void)resp, (void)e;
    return 0; /* kubelet was told not to ask */
}

#define METHOD(name, in, out, handler, fast)                              \
    {                                                                     \
        "/v1beta1.DevicePlugin/" name, &deviceplugin__##in##__descriptor, \
            &deviceplugin__##out##__descriptor, handler, fast             \
    }

const struct rpc_method service_methods[] = {
    METHOD("GetDevicePluginOptions", empty, device_plugin_options, get_options, true),
    METHOD("ListAndWatch", empty, list_and_watch_response, list_and_watch, false),
    METHOD("GetPreferredAllocation", preferred_allocation_request, preferred_allocation_response,
        get_preferred, true),
    METHOD("Allocate", allocate_request, allocate_response, allocate, true),
    METHOD("PreStartContainer", pre_start_container_request, pre_start_container_response,
        pre_start, true),
};
const size_t service_nmethods = ARRAY_LEN(service_methods);
