/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of a node: devices that come and go, what the driver and NVML say, who else holds one.
 */
#include "tests/lib/unit.h"

#include "csi/gpu/inventory.h"
#include "lib/base/mem.h"
#include "tests/unit/csi/gpu/gpu_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB (INT64_C(1) << 30)

static struct inventory v;

static void look_with(const struct gpu_node *n, const char *only, struct nvml *nvml)
{
    struct inventory_conf conf = {n->dev, n->driver, only, 16 * GIB, nvml};
    struct err e = ERR_INIT;
    if (inventory_scan(&v, &conf, &e))
        fail_msg("%s", e.msg);
}

static void test_devices(void **state)
{
    const struct gpu_node *n = *state;
    gpu_node_add(n, "nvidia12");
    gpu_node_add(n, "nvidia254"); /* as the driver numbers what is no GPU */
    gpu_node_add(n, "nvidia007");
    gpu_node_add(n, "nvidia-modeset");
    cleanup_free char *path = xasprintf("%s/nvidia5", n->dev);
    FILE *f = fopen(path, "w"); /* a file is no device */
    assert_non_null(f);
    fclose(f);
    look_with(n, "", NULL);
    assert_int_equal(v.n, 3);
    assert_int_equal(v.gpus[0].minor, 0);
    assert_int_equal(v.gpus[2].minor, 12);
    assert_string_equal(v.gpus[0].uuid, UUID_0);
    assert_string_equal(v.gpus[1].uuid, UUID_1);
    assert_string_equal(v.gpus[2].uuid, "");
    assert_int_equal(v.gpus[1].memory, 16 * GIB);
    for (size_t i = 0; i < v.n; i++)
        assert_true(gpu_usable(&v.gpus[i]));
}

static void test_lost_and_back(void **state)
{
    const struct gpu_node *n = *state;
    look_with(n, "", NULL);
    struct inventory before = v;
    gpu_node_remove(n, "nvidia1");
    look_with(n, "", NULL);
    assert_int_equal(v.n, 2); /* it stays listed: its units are unhealthy, not forgotten */
    assert_false(gpu_usable(inventory_find(&v, 1)));
    assert_true(gpu_usable(inventory_find(&v, 0)));
    assert_true(inventory_differs(&before, &v));
    gpu_node_add(n, "nvidia1");
    look_with(n, "", NULL);
    assert_true(gpu_usable(inventory_find(&v, 1)));
    assert_false(inventory_differs(&before, &v));
}

static void test_some(void **state)
{
    const struct gpu_node *n = *state;
    look_with(n, UUID_1, NULL);
    assert_int_equal(v.n, 1);
    assert_int_equal(v.gpus[0].minor, 1);
    memset(&v, 0, sizeof v);
    look_with(n, "3,0", NULL);
    assert_int_equal(v.n, 1);
    assert_int_equal(v.gpus[0].minor, 0);
}

static void test_no_directory(void **state)
{
    const struct gpu_node *n = *state;
    struct err e = ERR_INIT;
    look_with(n, "", NULL);
    cleanup_free char *none = xasprintf("%s/none", n->dir);
    struct inventory_conf conf = {none, n->driver, "", 0, NULL};
    assert_int_equal(inventory_scan(&v, &conf, &e), -1);
    assert_non_null(strstr(e.msg, none));
    assert_int_equal(v.n, 2);
    assert_false(gpu_usable(&v.gpus[0]));
}

static void test_nvml(void **state)
{
    const struct gpu_node *n = *state;
    struct err e = ERR_INIT;
    gpu_node_nvml(n, "0 " UUID_0 " 85899345920 0\n1 " UUID_1 " 42949672960 0\n");
    struct nvml *nvml = nvml_new(getenv("FAKE_NVML_SO"), &e);
    if (!nvml)
        fail_msg("%s", e.msg);
    look_with(n, "", nvml);
    assert_int_equal(v.gpus[0].memory, 80 * GIB);
    assert_int_equal(v.gpus[1].memory, 40 * GIB);
    assert_true(gpu_usable(&v.gpus[0]) && gpu_usable(&v.gpus[1]));

    gpu_node_nvml(n, "0 " UUID_0 " 85899345920 15\n1 " UUID_1 " 42949672960 0\n");
    look_with(n, "", nvml);
    assert_false(gpu_usable(&v.gpus[0])); /* lost, though its device is there */
    assert_true(gpu_usable(&v.gpus[1]));

    gpu_node_nvml(n, "1 " UUID_1 " 42949672960 0\n"); /* fallen off the bus */
    look_with(n, "", nvml);
    assert_false(gpu_usable(&v.gpus[0]));
    assert_true(gpu_usable(&v.gpus[1]));

    gpu_node_nvml(n, "0 " UUID_0 " 85899345920 0\n1 " UUID_1 " 42949672960 0\n");
    look_with(n, "", nvml);
    assert_true(gpu_usable(&v.gpus[0]));
    nvml_free(nvml);
}

static void test_no_nvml(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_null(nvml_new("/nonexistent/libnvidia-ml.so.1", &e));
    assert_int_equal(e.cls, ERR_INVALID);
    assert_null(nvml_new("libm.so.6", &e)); /* another library */
    assert_non_null(strstr(e.msg, "has no function nvmlInit_v2"));
    assert_null(nvml_new(getenv("FAKE_NVML_SO"), &e)); /* without a driver */
    assert_int_equal(e.cls, ERR_FATAL);
}

/* What kubelet says of one container that holds one device. */
static void hold(const char *resource, const char *device)
{
    Podresources__ContainerDevices devices = PODRESOURCES__CONTAINER_DEVICES__INIT;
    Podresources__ContainerResources container = PODRESOURCES__CONTAINER_RESOURCES__INIT;
    Podresources__PodResources pod = PODRESOURCES__POD_RESOURCES__INIT;
    Podresources__ListResponse list = PODRESOURCES__LIST_RESPONSE__INIT;
    char *ids[] = {(char *)device};
    devices.resource_name = (char *)resource;
    devices.device_ids = ids;
    devices.n_device_ids = 1;
    container.devices = (Podresources__ContainerDevices *[]){&devices};
    container.n_devices = 1;
    pod.containers = (Podresources__ContainerResources *[]){&container};
    pod.n_containers = 1;
    list.pod_resources = (Podresources__PodResources *[]){&pod};
    list.n_pod_resources = 1;
    inventory_tenants(&v, &list, "millrace.dev/gpu-percent");
}

static void test_tenants(void **state)
{
    look_with(*state, "", NULL);
    static const struct {
        const char *resource, *device;
        bool taken;
    } cases[] = {
        {"nvidia.com/gpu", UUID_1, true},
        {"nvidia.com/gpu.shared", UUID_1 "::3", true},
        {"nvidia.com/gpu", "GPU-11111111", false},
        {"nvidia.com/gpu", UUID_1 "5", false},
        {"rdma/hca", "mlx5_0", false},
        {"millrace.dev/gpu-percent", UUID_1, false},
        {"nvidia.com/gpu", "", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        hold(cases[i].resource, cases[i].device);
        assert_false(v.gpus[0].taken);
        if (v.gpus[1].taken != cases[i].taken)
            fail_msg("%s %s: %d", cases[i].resource, cases[i].device, v.gpus[1].taken);
        assert_int_equal(gpu_usable(&v.gpus[1]), !cases[i].taken);
        look_with(*state, "", NULL); /* what kubelet said stays until it says something else */
        assert_int_equal(v.gpus[1].taken, cases[i].taken);
    }
}

static void test_information(void **state)
{
    (void)state;
    unsigned minor;
    char uuid[GPU_UUID_MAX];
    assert_int_equal(gpu_information("GPU UUID:\tGPU-0f\nDevice Minor: \t 17\n", &minor, uuid), 0);
    assert_int_equal(minor, 17);
    assert_string_equal(uuid, "GPU-0f");
    static const char *const bad[] = {"", "Device Minor: 1\n", "GPU UUID: GPU-0f\n",
        "GPU UUID: GPU-??????\nDevice Minor: 0\n", "GPU UUID: GPU-0f\nDevice Minor: 255\n",
        "GPU UUID: GPU-0f\nDevice Minor: -1\n", "GPU UUID: GPU-0f\nDevice Minor: 1x\n",
        "GPU UUID: 0f\nDevice Minor: 1\n",
        "GPU UUID: GPU-00000000000000000000000000000000000000000000000000000000000000000000\n"
        "Device Minor: 1\n"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (gpu_information(bad[i], &minor, uuid) == 0)
            fail_msg("taken for a GPU: %s", bad[i]);
}

static int setup(void **state)
{
    memset(&v, 0, sizeof v);
    return gpu_node_setup(state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, gpu_node_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_devices), TEST(test_lost_and_back),
        TEST(test_some), TEST(test_no_directory), TEST(test_nvml), TEST(test_no_nvml),
        TEST(test_tenants), TEST(test_information)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
