/* SPDX-License-Identifier: Apache-2.0 */
/* Who the plugin is and what it can do: CSI's Identity service, kubelet's registration of plugins,
 * and which capabilities of a volume it accepts. kubelet watches plugins_registry, connects to the
 * socket that it finds there, asks who we are, and tells how it went. After a restart it finds the
 * socket again and asks again, so nothing is kept here. */
#include "csi/plugin.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/http/metric.h"

#include "csi/proto/registration.pb-c.h"

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

static int identity_probe(
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
        identity_probe, true},
};
const size_t identity_nmethods = ARRAY_LEN(identity_methods);

static int registration_info(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)req, (void)e;
    const struct plugin *p = rpc_user(call);
    static char *versions[] = {(char *)"1.0.0"};
    Registration__PluginInfo *out = (Registration__PluginInfo *)resp;
    out->type = (char *)"CSIPlugin";
    out->name = (char *)NAME_DRIVER;
    out->endpoint = (char *)p->endpoint;
    out->n_supported_versions = ARRAY_LEN(versions);
    out->supported_versions = versions;
    return 0;
}

METRIC_GAUGE(csi_registered, "millrace_csi_registered", "",
    "1: kubelet has accepted this plugin; 0: it has refused it.");

static int registration_status(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)call, (void)resp, (void)e;
    const Registration__RegistrationStatus *in = (const Registration__RegistrationStatus *)req;
    metric_set(metric_of(&csi_registered), in->plugin_registered);
    if (in->plugin_registered)
        log_kv(LOG_INFO, "registered with kubelet", NULL);
    else
        log_kv(LOG_ERROR, "kubelet refuses this plugin", "error", in->error, NULL);
    return 0;
}

const struct rpc_method registration_methods[] = {
    {"/pluginregistration.Registration/GetInfo", &registration__info_request__descriptor,
        &registration__plugin_info__descriptor, registration_info, true},
    {"/pluginregistration.Registration/NotifyRegistrationStatus",
        &registration__registration_status__descriptor,
        &registration__registration_status_response__descriptor, registration_status, true},
};
const size_t registration_nmethods = ARRAY_LEN(registration_methods);

#define MODE(m) CSI__VOLUME_CAPABILITY__ACCESS_MODE__MODE__##m

int capability_check(const Csi__VolumeCapability *c, int *mode, struct err *e)
{
    if (!c)
        return err_set(e, ERR_INVALID, "volume_capability is missing");
    if (c->access_type_case == CSI__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK)
        return err_set(
            e, ERR_INVALID, "a dataset is a file system: volumeMode must be Filesystem, not Block");
    if (c->access_type_case != CSI__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT)
        return err_set(e, ERR_INVALID, "volume_capability.access_type is missing");
    if (!c->access_mode || c->access_mode->mode <= MODE(UNKNOWN)
        || c->access_mode->mode > MODE(SINGLE_NODE_MULTI_WRITER))
        return err_set(e, ERR_INVALID, "volume_capability.access_mode is missing or unknown");
    *mode = (int)c->access_mode->mode;
    return 0;
}

bool capability_read_only(int mode)
{
    return mode == MODE(SINGLE_NODE_READER_ONLY) || mode == MODE(MULTI_NODE_READER_ONLY);
}

bool capability_exclusive(int mode)
{
    return mode == MODE(SINGLE_NODE_WRITER) || mode == MODE(SINGLE_NODE_SINGLE_WRITER);
}
