/* SPDX-License-Identifier: Apache-2.0 */
/* The device plugin as kubelet sees it: a server of ours is kubelet's side of the registration, a
 * client of gRPC core the other one. */
#include "tests/lib/unit.h"

#include "csi/gpu/registration.h"
#include "csi/rpc_ask.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "tests/fake/grpc_client.h"
#include "tests/lib/eventually.h"
#include "tests/unit/csi/gpu/gpu_node.h"

#include "csi/proto/deviceplugin.pb-c.h"

#include <grpc/status.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENT_MS 60000
#define RESOURCE   "millrace.dev/gpu-percent"

struct gpu_fixture {
    struct gpu_node *node;
    char *plugins, *kubelet_sock, *plugin_sock;
    struct rpc_server *kubelet;
    pthread_t kubelet_thread, plugin_thread;
    atomic_int registered;
    atomic_bool refuse, stop;
    bool runs;
    char request[512]; /* the last registration */
    struct service *service;
    struct inventory inventory;
    struct service_conf conf;
    struct grpc_client *client;
};

static int on_register(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)resp;
    struct gpu_fixture *f = rpc_user(call);
    const Deviceplugin__RegisterRequest *r = (const void *)req;
    if (atomic_exchange(&f->refuse, false))
        return err_set(e, ERR_RETRY, "not yet");
    snprintf(f->request, sizeof f->request, "%s %s %s %d", r->version, r->endpoint,
        r->resource_name, r->options && r->options->get_preferred_allocation_available);
    atomic_fetch_add(&f->registered, 1);
    return 0;
}

static int on_list(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)req, (void)e;
    Podresources__ListResponse *out = (void *)resp;
    Podresources__PodResources *pod = rpc_alloc(call, sizeof *pod);
    Podresources__ContainerResources *c = rpc_alloc(call, sizeof *c);
    Podresources__ContainerDevices *d = rpc_alloc(call, sizeof *d);
    podresources__pod_resources__init(pod);
    podresources__container_resources__init(c);
    podresources__container_devices__init(d);
    d->resource_name = (char *)"nvidia.com/gpu";
    d->device_ids = rpc_alloc(call, sizeof *d->device_ids);
    d->device_ids[d->n_device_ids++] = (char *)UUID_1;
    c->devices = rpc_alloc(call, sizeof *c->devices);
    c->devices[c->n_devices++] = d;
    pod->containers = rpc_alloc(call, sizeof *pod->containers);
    pod->containers[pod->n_containers++] = c;
    out->pod_resources = rpc_alloc(call, sizeof *out->pod_resources);
    out->pod_resources[out->n_pod_resources++] = pod;
    return 0;
}

static void *run_kubelet(void *arg)
{
    rpc_run(((struct gpu_fixture *)arg)->kubelet);
    return NULL;
}

static void start_kubelet(struct gpu_fixture *f)
{
    struct err e = ERR_INIT;
    const char *sockets[] = {f->kubelet_sock};
    const struct rpc_method methods[] = {
        {"/v1beta1.Registration/Register", &deviceplugin__register_request__descriptor,
            &deviceplugin__empty__descriptor, on_register, false},
        {"/v1.PodResourcesLister/List", &podresources__list_request__descriptor,
            &podresources__list_response__descriptor, on_list, false}};
    struct rpc_conf conf = {.sockets = sockets,
        .nsockets = 1,
        .methods = methods,
        .nmethods = ARRAY_LEN(methods),
        .workers = 2,
        .user = f};
    f->kubelet = rpc_new(&conf, &e);
    if (!f->kubelet)
        fail_msg("%s", e.msg);
    assert_int_equal(pthread_create(&f->kubelet_thread, NULL, run_kubelet, f), 0);
}

static void stop_kubelet(struct gpu_fixture *f)
{
    rpc_stop(f->kubelet, NS_PER_S, 10 * NS_PER_S);
    pthread_join(f->kubelet_thread, NULL);
    rpc_free(f->kubelet);
    f->kubelet = NULL;
}

static void *run_plugin(void *arg)
{
    struct gpu_fixture *f = arg;
    struct err e = ERR_INIT;
    if (registration_run(
            &(struct registration_conf){f->plugins, RESOURCE, f->service, &f->stop}, &e)) {
        print_error("%s\n", e.msg);
        abort();
    }
    return NULL;
}

static void rescan(struct gpu_fixture *f)
{
    struct inventory_conf look = {f->node->dev, f->node->driver, "", INT64_C(80) << 30, NULL};
    struct err e = ERR_INIT;
    assert_int_equal(inventory_scan(&f->inventory, &look, &e), 0);
    service_update(f->service, &f->inventory);
}

static void start_plugin(struct gpu_fixture *f)
{
    f->service = service_new(&f->conf);
    rescan(f);
    atomic_store(&f->stop, false);
    assert_int_equal(pthread_create(&f->plugin_thread, NULL, run_plugin, f), 0);
    f->runs = true;
}

static void stop_plugin(struct gpu_fixture *f)
{
    if (!f->runs)
        return;
    atomic_store(&f->stop, true);
    pthread_join(f->plugin_thread, NULL);
    service_free(f->service);
    f->runs = false;
}

static int setup(void **state)
{
    struct gpu_fixture *f = xcalloc(1, sizeof *f);
    void *node;
    if (gpu_node_setup(&node))
        return -1;
    f->node = node;
    f->plugins = path_join(f->node->dir, "p");
    f->kubelet_sock = path_join(f->plugins, "kubelet.sock");
    cleanup_free char *name = registration_endpoint(RESOURCE);
    f->plugin_sock = path_join(f->plugins, name);
    f->conf = (struct service_conf){f->node->dev, "/node/dev", "", ""};
    f->client = grpc_client_new(f->plugin_sock);
    *state = f;
    return file_mkdirs(f->plugins, 0755, NULL);
}

static int teardown(void **state)
{
    struct gpu_fixture *f = *state;
    grpc_client_free(f->client);
    stop_plugin(f);
    if (f->kubelet)
        stop_kubelet(f);
    bool left = access(f->plugin_sock, F_OK) == 0;
    void *node = f->node;
    free(f->plugins);
    free(f->kubelet_sock);
    free(f->plugin_sock);
    free(f);
    return gpu_node_teardown(&node) || left;
}

static void up(struct gpu_fixture *f)
{
    start_kubelet(f);
    start_plugin(f);
    eventually(atomic_load(&f->registered) > 0);
}

static struct grpc_stream *watch(struct gpu_fixture *f)
{
    Deviceplugin__Empty empty = DEVICEPLUGIN__EMPTY__INIT;
    return grpc_stream_open(f->client, "/v1beta1.DevicePlugin/ListAndWatch", &empty.base);
}

/* The next list: how many units are healthy, of each GPU. */
static void next_list(struct grpc_stream *s, size_t healthy[2])
{
    ProtobufCMessage *m = grpc_stream_next(s, &deviceplugin__list_and_watch_response__descriptor);
    const Deviceplugin__ListAndWatchResponse *list = (const void *)m;
    assert_non_null(m);
    healthy[0] = healthy[1] = 0;
    for (size_t i = 0; i < list->n_devices; i++) {
        unsigned minor, unit;
        struct err e = ERR_INIT;
        assert_int_equal(unit_parse(list->devices[i]->id, &minor, &unit, &e), 0);
        assert_in_range(minor, 0, 1);
        healthy[minor] += strcmp(list->devices[i]->health, "Healthy") == 0;
    }
    protobuf_c_message_free_unpacked(m, NULL);
}

static int ask_preferred(struct gpu_fixture *f, char **available, size_t n, int size,
    Deviceplugin__PreferredAllocationResponse **answer, char *text)
{
    Deviceplugin__ContainerPreferredAllocationRequest c =
        DEVICEPLUGIN__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT;
    Deviceplugin__PreferredAllocationRequest req = DEVICEPLUGIN__PREFERRED_ALLOCATION_REQUEST__INIT;
    c.available = available;
    c.n_available = n;
    c.allocation_size = size;
    req.container_requests = (Deviceplugin__ContainerPreferredAllocationRequest *[]){&c};
    req.n_container_requests = 1;
    return grpc_client_call(f->client, "/v1beta1.DevicePlugin/GetPreferredAllocation", &req.base,
        &deviceplugin__preferred_allocation_response__descriptor, (ProtobufCMessage **)answer,
        PATIENT_MS, text);
}

static int ask_allocate(struct gpu_fixture *f, char **units, size_t n,
    Deviceplugin__AllocateResponse **answer, char *text)
{
    Deviceplugin__ContainerAllocateRequest c = DEVICEPLUGIN__CONTAINER_ALLOCATE_REQUEST__INIT;
    Deviceplugin__AllocateRequest req = DEVICEPLUGIN__ALLOCATE_REQUEST__INIT;
    c.device_ids = units;
    c.n_device_ids = n;
    req.container_requests = (Deviceplugin__ContainerAllocateRequest *[]){&c};
    req.n_container_requests = 1;
    return grpc_client_call(f->client, "/v1beta1.DevicePlugin/Allocate", &req.base,
        &deviceplugin__allocate_response__descriptor, (ProtobufCMessage **)answer, PATIENT_MS,
        text);
}

static const char *env_of(const Deviceplugin__ContainerAllocateResponse *r, const char *key)
{
    for (size_t i = 0; i < r->n_envs; i++)
        if (strcmp(r->envs[i]->key, key) == 0)
            return r->envs[i]->value;
    return NULL;
}

static void test_registers(void **state)
{
    struct gpu_fixture *f = *state;
    atomic_store(&f->refuse, true); /* the first time */
    up(f);
    assert_string_equal(f->request, "v1beta1 millrace.dev-gpu-percent.sock " RESOURCE " 1");
    char text[512];
    Deviceplugin__Empty empty = DEVICEPLUGIN__EMPTY__INIT;
    ProtobufCMessage *answer;
    assert_int_equal(
        grpc_client_call(f->client, "/v1beta1.DevicePlugin/GetDevicePluginOptions", &empty.base,
            &deviceplugin__device_plugin_options__descriptor, &answer, PATIENT_MS, text),
        0);
    const Deviceplugin__DevicePluginOptions *o = (const void *)answer;
    assert_true(o->get_preferred_allocation_available);
    assert_false(o->pre_start_required);
    protobuf_c_message_free_unpacked(answer, NULL);
}

static void test_list_and_watch(void **state)
{
    struct gpu_fixture *f = *state;
    up(f);
    size_t healthy[2];
    struct grpc_stream *s = watch(f);
    next_list(s, healthy);
    assert_int_equal(healthy[0], 100);
    assert_int_equal(healthy[1], 100);
    gpu_node_remove(f->node, "nvidia1");
    rescan(f);
    next_list(s, healthy);
    assert_int_equal(healthy[0], 100);
    assert_int_equal(healthy[1], 0);
    rescan(f); /* nothing new: no message */
    gpu_node_add(f->node, "nvidia1");
    rescan(f);
    next_list(s, healthy);
    assert_int_equal(healthy[1], 100);
    assert_int_equal(grpc_stream_close(s), GRPC_STATUS_CANCELLED);
    s = watch(f); /* kubelet's next one */
    next_list(s, healthy);
    assert_int_equal(healthy[0] + healthy[1], 200);
    stop_plugin(f);
    assert_null(grpc_stream_next(s, &deviceplugin__list_and_watch_response__descriptor));
    assert_int_equal(grpc_stream_close(s), GRPC_STATUS_OK);
}

static void test_allocate(void **state)
{
    struct gpu_fixture *f = *state;
    up(f);
    char text[512];
    Deviceplugin__AllocateResponse *answer;
    char *units[] = {(char *)"gpu1-03", (char *)"gpu1-04", (char *)"gpu1-99"};
    assert_int_equal(ask_allocate(f, units, 3, &answer, text), 0);
    assert_int_equal(answer->n_container_responses, 1);
    const Deviceplugin__ContainerAllocateResponse *r = answer->container_responses[0];
    assert_string_equal(env_of(r, "CUDA_VISIBLE_DEVICES"), UUID_1);
    assert_string_equal(env_of(r, "NVIDIA_VISIBLE_DEVICES"), UUID_1);
    assert_string_equal(env_of(r, "MILLRACE_GPU_MEMORY_PERCENT"), "3");
    assert_string_equal(env_of(r, "MILLRACE_GPU_MEMORY_MIB"), "2457"); /* of 80 GiB */
    assert_string_equal(env_of(r, "TF_FORCE_GPU_ALLOW_GROWTH"), "true");
    assert_null(env_of(r, "CUDA_MPS_PIPE_DIRECTORY"));
    assert_int_equal(r->n_mounts, 0);
    static const char *const devices[] = {"nvidia1", "nvidiactl", "nvidia-uvm"};
    assert_int_equal(r->n_devices, ARRAY_LEN(devices));
    for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
        cleanup_free char *inside = xasprintf("/dev/%s", devices[i]),
                          *outside = path_join("/node/dev", devices[i]);
        assert_string_equal(r->devices[i]->container_path, inside);
        assert_string_equal(r->devices[i]->host_path, outside);
        assert_string_equal(r->devices[i]->permissions, "rw");
    }
    protobuf_c_message_free_unpacked(&answer->base, NULL);
}

static void test_allocate_mps(void **state)
{
    struct gpu_fixture *f = *state;
    f->conf.mps_pipe = "/run/mps/pipe";
    f->conf.mps_shm = "/run/mps/shm";
    up(f);
    char text[512];
    Deviceplugin__AllocateResponse *answer;
    char *units[] = {(char *)"gpu0-00", (char *)"gpu0-01"};
    assert_int_equal(ask_allocate(f, units, 2, &answer, text), 0);
    const Deviceplugin__ContainerAllocateResponse *r = answer->container_responses[0];
    assert_string_equal(env_of(r, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "2");
    assert_string_equal(env_of(r, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=1638M");
    assert_string_equal(env_of(r, "CUDA_MPS_PIPE_DIRECTORY"), "/tmp/nvidia-mps");
    assert_int_equal(r->n_mounts, 2);
    assert_string_equal(r->mounts[0]->host_path, "/run/mps/pipe");
    assert_string_equal(r->mounts[0]->container_path, "/tmp/nvidia-mps");
    assert_string_equal(r->mounts[1]->host_path, "/run/mps/shm");
    assert_string_equal(r->mounts[1]->container_path, "/dev/shm");
    protobuf_c_message_free_unpacked(&answer->base, NULL);
}

static void test_refusals(void **state)
{
    struct gpu_fixture *f = *state;
    up(f);
    char text[512];
    Deviceplugin__AllocateResponse *answer;
    Deviceplugin__PreferredAllocationResponse *preferred;
    char *apart[] = {(char *)"gpu0-00", (char *)"gpu1-00"}, *gone[] = {(char *)"gpu7-00"},
         *whole[] = {(char *)"gpu1-00"};
    assert_int_equal(ask_allocate(f, apart, 2, &answer, text), GRPC_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(text, "pieces of gpu0 and gpu1"));
    assert_int_equal(ask_allocate(f, gone, 1, &answer, text), GRPC_STATUS_UNAVAILABLE);
    assert_non_null(strstr(text, "/dev/nvidia7 is gone"));
    assert_int_equal(
        ask_preferred(f, apart, 2, 2, &preferred, text), GRPC_STATUS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(text, "more than 1 % free"));
    assert_int_equal(
        ask_preferred(f, apart, 2, -5, &preferred, text), GRPC_STATUS_INVALID_ARGUMENT);
    assert_int_equal(
        ask_preferred(f, apart, 2, 2000000000, &preferred, text), GRPC_STATUS_INVALID_ARGUMENT);

    ProtobufCMessage *holders; /* another plugin's container gets the whole of gpu1 */
    Podresources__ListRequest req = PODRESOURCES__LIST_REQUEST__INIT;
    struct err e = ERR_INIT;
    if (rpc_ask(f->kubelet_sock, "/v1.PodResourcesLister/List", &req.base,
            &podresources__list_response__descriptor, 60 * NS_PER_S, &holders, &e))
        fail_msg("%s", e.msg);
    inventory_tenants(&f->inventory, (const void *)holders, RESOURCE);
    protobuf_c_message_free_unpacked(holders, NULL);
    service_update(f->service, &f->inventory);
    size_t healthy[2];
    struct grpc_stream *s = watch(f);
    next_list(s, healthy);
    assert_int_equal(healthy[0], 100);
    assert_int_equal(healthy[1], 0);
    grpc_stream_close(s);
    assert_int_equal(ask_allocate(f, whole, 1, &answer, text), GRPC_STATUS_UNAVAILABLE);
    assert_non_null(strstr(text, "asked for a whole GPU"));
}

static void test_preferred(void **state)
{
    struct gpu_fixture *f = *state;
    up(f);
    char text[512];
    Deviceplugin__PreferredAllocationResponse *answer;
    char *available[] = {(char *)"gpu0-07", (char *)"gpu1-10", (char *)"gpu0-09", (char *)"gpu0-01",
        (char *)"gpu1-11"};
    assert_int_equal(ask_preferred(f, available, 5, 2, &answer, text), 0);
    assert_int_equal(answer->n_container_responses, 1);
    assert_int_equal(answer->container_responses[0]->n_device_ids, 2);
    assert_string_equal(answer->container_responses[0]->device_ids[0], "gpu1-10");
    assert_string_equal(answer->container_responses[0]->device_ids[1], "gpu1-11");
    protobuf_c_message_free_unpacked(&answer->base, NULL);
}

/* Kubelet that starts empties the directory, and knows of no plugin. */
static void test_kubelet_restarts(void **state)
{
    struct gpu_fixture *f = *state;
    size_t healthy[2];
    up(f);
    for (int i = 2; i < 5; i++) {
        int64_t began = clock_mono_ns();
        stop_kubelet(f);
        unlink(f->plugin_sock);
        start_kubelet(f);
        eventually(atomic_load(&f->registered) >= i);
        print_message("# registered again after %lld ms\n",
            (long long)((clock_mono_ns() - began) / NS_PER_MS));
        struct grpc_stream *s = watch(f);
        next_list(s, healthy);
        assert_int_equal(healthy[0] + healthy[1], 200);
        grpc_stream_close(s);
    }
}

static void test_plugin_restarts(void **state)
{
    struct gpu_fixture *f = *state;
    up(f);
    stop_plugin(f);
    assert_int_not_equal(access(f->plugin_sock, F_OK), 0);
    start_plugin(f);
    eventually(atomic_load(&f->registered) == 2);
}

static void test_waits_for_kubelet(void **state)
{
    struct gpu_fixture *f = *state;
    start_plugin(f);
    clock_sleep_ns(300 * NS_PER_MS);
    assert_int_not_equal(access(f->plugin_sock, F_OK), 0);
    start_kubelet(f);
    eventually(atomic_load(&f->registered) == 1);
}

static void test_ask(void **state)
{
    struct gpu_fixture *f = *state;
    struct err e = ERR_INIT;
    Podresources__ListRequest req = PODRESOURCES__LIST_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    assert_int_equal(rpc_ask(f->kubelet_sock, "/v1.PodResourcesLister/List", &req.base,
                         &podresources__list_response__descriptor, NS_PER_S, &answer, &e),
        -1);
    assert_int_equal(e.cls, ERR_RETRY); /* nobody is there */
    start_kubelet(f);
    assert_int_equal(rpc_ask(f->kubelet_sock, "/v1.PodResourcesLister/Nothing", &req.base,
                         &podresources__list_response__descriptor, 60 * NS_PER_S, &answer, &e),
        -1);
    assert_int_equal(e.cls, ERR_INVALID);
    assert_non_null(strstr(e.msg, "no method"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_registers), TEST(test_list_and_watch),
        TEST(test_allocate), TEST(test_allocate_mps), TEST(test_refusals), TEST(test_preferred),
        TEST(test_kubelet_restarts), TEST(test_plugin_restarts), TEST(test_waits_for_kubelet),
        TEST(test_ask)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
