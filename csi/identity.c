/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/plugin.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"

static int get_plugin_info(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)call, (void)req, (void)e;
    Csi__GetPluginInfoResponse *out = (Csi__GetPluginInfoResponse *)resp;
    out->name = (char *)NAME_DRIVER;
    out->vendor_version = (char *)MILLRACE_VERSION;
    return 0;
}

static int get_plugin_capabilities(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)req, (void)e;
    const struct plugin *p = rpc_user(call);
    Csi__GetPluginCapabilitiesResponse *out = (Csi__GetPluginCapabilitiesResponse *)resp;
    if (!p->standalone)
        return 0;
    Csi__PluginCapability__Service *service = rpc_alloc(call, sizeof *service);
    Csi__PluginCapability *capability = rpc_alloc(call, sizeof *capability);
    csi__plugin_capability__service__init(service);
    service->type = CSI__PLUGIN_CAPABILITY__SERVICE__TYPE__CONTROLLER_SERVICE;
    csi__plugin_capability__init(capability);
    capability->type_case = CSI__PLUGIN_CAPABILITY__TYPE_SERVICE;
    capability->service = service;
    out->n_capabilities = 1;
    out->capabilities = rpc_alloc(call, sizeof *out->capabilities);
    out->capabilities[0] = capability;
    return 0;
}

static int probe(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)req, (void)e;
    Csi__BoolValue *ready = rpc_alloc(call, sizeof *ready);
    csi__bool_value__init(ready);
    ready->value = true;
    ((Csi__ProbeResponse *)resp)->ready = ready;
    return 0;
}

const struct rpc_method identity_methods[] = {
    {"/csi.v1.Identity/GetPluginInfo", &csi__get_plugin_info_request__descriptor,
        &csi__get_plugin_info_response__descriptor, get_plugin_info, true},
    {"/csi.v1.Identity/GetPluginCapabilities", &csi__get_plugin_capabilities_request__descriptor,
        &csi__get_plugin_capabilities_response__descriptor, get_plugin_capabilities, true},
    {"/csi.v1.Identity/Probe", &csi__probe_request__descriptor, &csi__probe_response__descriptor,
        probe, true},
};
const size_t identity_nmethods = ARRAY_LEN(identity_methods);
