/* SPDX-License-Identifier: Apache-2.0 */
/* The Controller of standalone mode. On Kubernetes the operator makes PersistentVolumes and none of
 * this is offered. */
#include "csi/client_config.h"
#include "csi/plugin.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 256
#define STANDALONE_NS  "standalone"

static void answer_volume(
    struct rpc_call *call, const struct volume *v, Csi__CreateVolumeResponse *out)
{
    Csi__Volume *volume = rpc_alloc(call, sizeof *volume);
    csi__volume__init(volume);
    volume->volume_id = rpc_strdup(call, v->id);
    volume->capacity_bytes = v->capacity;
    volume->volume_context = rpc_alloc(call, v->nparams * sizeof *volume->volume_context);
    for (size_t i = 0; i < v->nparams; i++) {
        Csi__Pair *pair = rpc_alloc(call, sizeof *pair);
        csi__pair__init(pair);
        pair->key = rpc_strdup(call, v->params[i].key);
        pair->value = rpc_strdup(call, v->params[i].value);
        volume->volume_context[i] = pair;
    }
    volume->n_volume_context = v->nparams;
    out->volume = volume;
}

static int check_create(
    const Csi__CreateVolumeRequest *in, const struct volume_pair *params, struct err *e)
{
    int mode;
    if (!in->name[0])
        return err_set(e, ERR_INVALID, "name is missing");
    if (strlen(in->name) > NAME_MAX_BYTES)
        return err_set(e, ERR_INVALID, "name is longer than %d bytes", NAME_MAX_BYTES);
    if (in->n_volume_capabilities == 0)
        return err_set(e, ERR_INVALID, "volume_capabilities is missing");
    for (size_t i = 0; i < in->n_volume_capabilities; i++)
        if (capability_check(in->volume_capabilities[i], &mode, e))
            return -1;
    if (in->capacity_range
        && (in->capacity_range->required_bytes < 0 || in->capacity_range->limit_bytes < 0))
        return err_set(e, ERR_INVALID, "capacity_range has a negative size");
    return client_config_check(params, in->n_parameters, true, e);
}

/* The same name again: the same volume, if the rest is the same as well. */
static int check_same(const struct volume *v, const Csi__CreateVolumeRequest *in,
    const struct volume_pair *params, struct err *e)
{
    const Csi__CapacityRange *range = in->capacity_range;
    bool same = strcmp(v->name, in->name) == 0 && v->nparams == in->n_parameters;
    for (size_t i = 0; same && i < v->nparams; i++) {
        const char *value = volume_pair_value(params, in->n_parameters, v->params[i].key);
        same = value && strcmp(value, v->params[i].value) == 0;
    }
    if (range && v->capacity)
        same = same && range->required_bytes <= v->capacity
            && (range->limit_bytes == 0 || v->capacity <= range->limit_bytes);
    return same ? 0
                : err_set(e, ERR_EXISTS, "volume %s exists with other parameters or another size",
                    in->name);
}

static int controller_create_volume(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    struct plugin *p = rpc_user(call);
    const Csi__CreateVolumeRequest *in = (const Csi__CreateVolumeRequest *)req;
    const struct volume_pair *params = plugin_pairs(call, in->parameters, in->n_parameters);
    if (check_create(in, params, e))
        return -1;
    char id[32];
    snprintf(id, sizeof id, "vol-%016" PRIx64, hash64(in->name, strlen(in->name)));
    struct volume *v = volume_hold(p->volumes, id, true, plugin_deadline(call), e);
    if (!v)
        return -1;
    int rc = 0;
    if (v->created) {
        rc = check_same(v, in, params, e);
    } else {
        v->context = (struct volume_context){
            .kind = VOLUME_KIND_PROCESS, .ns = STANDALONE_NS, .read_only = -1};
        memcpy(v->context.uid, id, strlen(id) + 1);
        v->name = xstrdup(in->name);
        v->capacity = in->capacity_range ? in->capacity_range->required_bytes : 0;
        for (size_t i = 0; i < in->n_parameters; i++)
            volume_param_add(v, params[i].key, params[i].value);
        v->created = true;
        if ((rc = volume_save(p->volumes, v, e)))
            v->created = false;
    }
    if (rc == 0)
        answer_volume(call, v, (Csi__CreateVolumeResponse *)resp);
    volume_release(p->volumes, v);
    return rc;
}

static int controller_delete_volume(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)resp;
    struct plugin *p = rpc_user(call);
    const Csi__DeleteVolumeRequest *in = (const Csi__DeleteVolumeRequest *)req;
    if (!in->volume_id[0])
        return err_set(e, ERR_INVALID, "volume_id is missing");
    struct volume *v = volume_hold(p->volumes, in->volume_id, false, plugin_deadline(call), e);
    if (!v && e->cls == ERR_NOTFOUND)
        return 0;
    if (!v)
        return -1;
    int rc = 0;
    if (v->staging || v->ntargets) {
        rc = err_set(e, ERR_CONFLICT, "volume %s is in use on this node", v->id);
        e->sys = EBUSY;
    } else {
        v->created = false; /* the data is the user's and stays where it is */
    }
    volume_release(p->volumes, v);
    return rc;
}

static int controller_validate(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    struct plugin *p = rpc_user(call);
    const Csi__ValidateVolumeCapabilitiesRequest *in =
        (const Csi__ValidateVolumeCapabilitiesRequest *)req;
    Csi__ValidateVolumeCapabilitiesResponse *out = (Csi__ValidateVolumeCapabilitiesResponse *)resp;
    if (!in->volume_id[0])
        return err_set(e, ERR_INVALID, "volume_id is missing");
    if (in->n_volume_capabilities == 0)
        return err_set(e, ERR_INVALID, "volume_capabilities is missing");
    struct volume *v = volume_hold(p->volumes, in->volume_id, false, plugin_deadline(call), e);
    if (!v)
        return -1;
    volume_release(p->volumes, v);
    for (size_t i = 0; i < in->n_volume_capabilities; i++) {
        int mode;
        struct err why = ERR_INIT;
        if (capability_check(in->volume_capabilities[i], &mode, &why)) {
            out->message = rpc_strdup(call, why.msg);
            return 0;
        }
    }
    Csi__ValidateVolumeCapabilitiesResponse__Confirmed *c = rpc_alloc(call, sizeof *c);
    csi__validate_volume_capabilities_response__confirmed__init(c);
    c->n_volume_context = in->n_volume_context;
    c->volume_context = in->volume_context;
    c->n_volume_capabilities = in->n_volume_capabilities;
    c->volume_capabilities = in->volume_capabilities;
    c->n_parameters = in->n_parameters;
    c->parameters = in->parameters;
    out->confirmed = c;
    return 0;
}

static int controller_get_capabilities(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)req, (void)e;
    Csi__ControllerGetCapabilitiesResponse *out = (Csi__ControllerGetCapabilitiesResponse *)resp;
    Csi__ControllerServiceCapability__RPC *rpc = rpc_alloc(call, sizeof *rpc);
    Csi__ControllerServiceCapability *capability = rpc_alloc(call, sizeof *capability);
    csi__controller_service_capability__rpc__init(rpc);
    rpc->type = CSI__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__CREATE_DELETE_VOLUME;
    csi__controller_service_capability__init(capability);
    capability->type_case = CSI__CONTROLLER_SERVICE_CAPABILITY__TYPE_RPC;
    capability->rpc = rpc;
    out->n_capabilities = 1;
    out->capabilities = rpc_alloc(call, sizeof *out->capabilities);
    out->capabilities[0] = capability;
    return 0;
}

const struct rpc_method controller_methods[] = {
    {"/csi.v1.Controller/CreateVolume", &csi__create_volume_request__descriptor,
        &csi__create_volume_response__descriptor, controller_create_volume, false},
    {"/csi.v1.Controller/DeleteVolume", &csi__delete_volume_request__descriptor,
        &csi__delete_volume_response__descriptor, controller_delete_volume, false},
    {"/csi.v1.Controller/ValidateVolumeCapabilities",
        &csi__validate_volume_capabilities_request__descriptor,
        &csi__validate_volume_capabilities_response__descriptor, controller_validate, false},
    {"/csi.v1.Controller/ControllerGetCapabilities",
        &csi__controller_get_capabilities_request__descriptor,
        &csi__controller_get_capabilities_response__descriptor, controller_get_capabilities, true},
};
const size_t controller_nmethods = ARRAY_LEN(controller_methods);
