/* SPDX-License-Identifier: Apache-2.0 */
/* What the device plugin reads of kubelet and of the driver: requests, who holds which GPU, a GPU's
 * information. The first byte chooses. Whatever units it gives are of one GPU, and were free. */
#include "csi/gpu/inventory.h"
#include "csi/pbcheck.h"

#include "csi/proto/deviceplugin.pb-c.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void prefer(const Deviceplugin__PreferredAllocationRequest *in)
{
    for (size_t i = 0; i < in->n_container_requests; i++) {
        const Deviceplugin__ContainerPreferredAllocationRequest *c = in->container_requests[i];
        char *chosen[GPU_UNITS];
        unsigned minor;
        struct err e = ERR_INIT;
        if (c->allocation_size < 0
            || units_choose(c->available, c->n_available, c->must_include, c->n_must_include,
                (size_t)c->allocation_size, chosen, &e))
            continue;
        if (units_gpu(chosen, (size_t)c->allocation_size, &minor, &e))
            abort();
    }
}

static void allocate(const Deviceplugin__AllocateRequest *in)
{
    for (size_t i = 0; i < in->n_container_requests; i++) {
        const Deviceplugin__ContainerAllocateRequest *c = in->container_requests[i];
        unsigned minor;
        struct err e = ERR_INIT;
        if (units_gpu(c->device_ids, c->n_device_ids, &minor, &e) == 0
            && (minor >= GPU_MINORS || c->n_device_ids > GPU_UNITS))
            abort();
    }
}

static void hold(const Podresources__ListResponse *in)
{
    static struct inventory v = {.gpus = {{.minor = 0, .uuid = "GPU-0", .there = true},
                                     {.minor = 1, .uuid = "", .there = true}},
        .n = 2};
    inventory_tenants(&v, in, "millrace.dev/gpu-percent");
    if (v.gpus[1].taken) /* it has no name that somebody could hold */
        abort();
}

static void inform(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), uuid[GPU_UUID_MAX];
    unsigned minor;
    if (!text)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    if (gpu_information(text, &minor, uuid) == 0
        && (minor >= GPU_MINORS || strncmp(uuid, "GPU-", 4) != 0))
        abort();
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const ProtobufCMessageDescriptor *const messages[] = {
        &deviceplugin__preferred_allocation_request__descriptor,
        &deviceplugin__allocate_request__descriptor, &podresources__list_response__descriptor};
    if (size == 0)
        return 0;
    unsigned which = data[0] % 4;
    if (which == 3) {
        inform(data + 1, size - 1);
        return 0;
    }
    struct err e = ERR_INIT;
    uint8_t *copy = malloc(size); /* its own block, so that a read past the end is seen */
    if (!copy)
        return 0;
    memcpy(copy, data + 1, size - 1);
    ProtobufCMessage *m = NULL;
    if (pbcheck(messages[which], copy, size - 1, &e) == 0)
        m = protobuf_c_message_unpack(messages[which], NULL, size - 1, copy);
    if (m && which == 0)
        prefer((const void *)m);
    else if (m && which == 1)
        allocate((const void *)m);
    else if (m)
        hold((const void *)m);
    if (m)
        protobuf_c_message_free_unpacked(m, NULL);
    free(copy);
    return 0;
}
