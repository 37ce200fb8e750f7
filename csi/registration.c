/* SPDX-License-Identifier: Apache-2.0 */
/* kubelet watches plugins_registry, connects to the socket that it finds there, asks who we are,
 * and tells how it went. After a restart it finds the socket again and asks again, so nothing is
 * kept here. */
#include "csi/plugin.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/http/metric.h"

#include "csi/proto/registration.pb-c.h"

static int get_info(
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

static int notify(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)call, (void)resp, (void)e;
    const Registration__RegistrationStatus *in = (const Registration__RegistrationStatus *)req;
    metric_set(metric_gauge("millrace_csi_registered", "", "1: kubelet has accepted this plugin"),
        in->plugin_registered);
    if (in->plugin_registered)
        log_kv(LOG_INFO, "registered with kubelet", NULL);
    else
        log_kv(LOG_ERROR, "kubelet refuses this plugin", "error", in->error, NULL);
    return 0;
}

const struct rpc_method registration_methods[] = {
    {"/pluginregistration.Registration/GetInfo", &registration__info_request__descriptor,
        &registration__plugin_info__descriptor, get_info, true},
    {"/pluginregistration.Registration/NotifyRegistrationStatus",
        &registration__registration_status__descriptor,
        &registration__registration_status_response__descriptor, notify, true},
};
const size_t registration_nmethods = ARRAY_LEN(registration_methods);
