/* SPDX-License-Identifier: Apache-2.0 */
/* The Node service: kubelet stages a volume once (the FUSE mount), publishes it for each pod (a
 * bind mount), and takes both back. An inline volume is a directory and is published only. */
#include "csi/client_config.h"
#include "csi/client_proc.h"
#include "csi/mount.h"
#include "csi/plugin.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNSTAGE_NS (30 * NS_PER_S)

static bool node_cancelled(const void *call) { return rpc_cancelled(call); }

static int node_check_id(const char *id, struct err *e)
{
    if (!id[0])
        return err_set(e, ERR_INVALID, "volume_id is missing");
    return volume_is_id(id)
        ? 0
        : err_set(e, ERR_INVALID, "volume_id '%.64s' is none of this driver", id);
}

static int node_check_path(const char *field, const char *path, struct err *e)
{
    if (!path[0])
        return err_set(e, ERR_INVALID, "%s is missing", field);
    return volume_is_path(path)
        ? 0
        : err_set(e, ERR_INVALID, "%s '%.128s' is not an absolute path without '..'", field, path);
}

/* Fills *s for a volume that is staged, and whether its mount is to be writable. */
static int context_of_stage(struct rpc_call *call, const Csi__NodeStageVolumeRequest *in,
    const struct volume *v, struct volume_context *s, struct err *e)
{
    const struct plugin *p = rpc_user(call);
    const struct volume_pair *context = plugin_pairs(
        call, in->volume_context, in->n_volume_context);
    if (!p->standalone)
        return volume_context_persistent(context, in->n_volume_context, s, e);
    if (!v->created)
        return err_set(
            e, ERR_NOTFOUND, "volume %s was not made by CreateVolume of this driver", v->id);
    *s = v->context;
    return 0;
}

static int write_client(struct rpc_call *call, const Csi__NodeStageVolumeRequest *in,
    const struct volume *v, struct err *e)
{
    const struct plugin *p = rpc_user(call);
    struct volume_pair *params = rpc_alloc(call, v->nparams * sizeof *params);
    for (size_t i = 0; i < v->nparams; i++)
        params[i] = (struct volume_pair){v->params[i].key, v->params[i].value};
    const struct volume_pair *pairs = plugin_pairs(call, in->secrets, in->n_secrets);
    struct client_proc_secret *secrets = rpc_alloc(call, in->n_secrets * sizeof *secrets);
    for (size_t i = 0; i < in->n_secrets; i++)
        secrets[i] = (struct client_proc_secret){pairs[i].key, pairs[i].value};
    if (client_config_check(params, v->nparams, v->read_only, e))
        return -1;
    cleanup_free char *config = client_config(
        v->id, v->read_only, params, v->nparams, in->n_secrets > 0);
    cleanup_free char *run = path_join(p->run_dir, v->id);
    return client_proc_write(run, config, secrets, in->n_secrets, e);
}

static void unstage_record(struct plugin *p, struct volume *v)
{
    free(v->staging);
    v->staging = NULL;
    if (v->created || v->ntargets)
        plugin_save(p, v);
}

static int stage_held(struct rpc_call *call, const Csi__NodeStageVolumeRequest *in,
    struct volume *v, int mode, struct err *e)
{
    struct plugin *p = rpc_user(call);
    struct volume_context s;
    if (context_of_stage(call, in, v, &s, e))
        return -1;
    bool read_only = s.read_only < 0 ? capability_read_only(mode) : s.read_only;
    if (v->staging && strcmp(v->staging, in->staging_target_path) != 0) {
        err_set(e, ERR_CONFLICT, "volume %s is staged at %s", v->id, v->staging);
        e->sys = EBUSY;
        return -1;
    }
    if (v->staging && (v->read_only != read_only || v->mode != mode))
        return err_set(e, ERR_EXISTS, "volume %s is staged with another access mode", v->id);
    bool fresh = !v->staging;
    if (fresh) {
        v->context = s;
        v->read_only = read_only;
        v->mode = mode;
        if (p->standalone && write_client(call, in, v, e))
            return -1;
        v->staging = xstrdup(in->staging_target_path);
        if (volume_save(p->volumes, v, e)) {
            unstage_record(p, v);
            return -1;
        }
    }
    if (stage_mount(p, v, plugin_deadline(call), node_cancelled, call, e) == 0)
        return 0;
    if (fresh) {
        stage_release(p, v);
        unstage_record(p, v);
    }
    return -1;
}

static int node_stage(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)resp;
    struct plugin *p = rpc_user(call);
    const Csi__NodeStageVolumeRequest *in = (const Csi__NodeStageVolumeRequest *)req;
    int mode;
    if (node_check_id(in->volume_id, e)
        || node_check_path("staging_target_path", in->staging_target_path, e)
        || capability_check(in->volume_capability, &mode, e))
        return -1;
    struct stat st;
    if (lstat(in->staging_target_path, &st) && errno == ENOENT
        && mkdir(in->staging_target_path, 0750))
        return err_sys(e, errno, "mkdir %s", in->staging_target_path);
    struct volume *v = volume_hold(p->volumes, in->volume_id, true, plugin_deadline(call), e);
    if (!v)
        return -1;
    int rc = stage_held(call, in, v, mode, e);
    volume_release(p->volumes, v);
    return rc;
}

static int unstage_held(
    struct plugin *p, struct volume *v, const char *staging, int64_t deadline_ns, struct err *e)
{
    if (!v->staging || strcmp(v->staging, staging) != 0)
        /* not ours as far as we know; nothing there: fine */
        return mount_end_fuse(staging, false, deadline_ns, e);
    stage_forget_stale(v);
    if (v->ntargets) {
        err_set(e, ERR_CONFLICT, "volume %s is still published at %s", v->id, v->targets[0].path);
        e->sys = EBUSY;
        return -1;
    }
    if (stage_unmount(p, v, deadline_ns, e))
        return -1;
    unstage_record(p, v);
    return 0;
}

static int node_unstage(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)resp;
    struct plugin *p = rpc_user(call);
    const Csi__NodeUnstageVolumeRequest *in = (const Csi__NodeUnstageVolumeRequest *)req;
    if (!in->volume_id[0])
        return err_set(e, ERR_INVALID, "volume_id is missing");
    if (node_check_path("staging_target_path", in->staging_target_path, e))
        return -1;
    int64_t deadline = MIN(plugin_deadline(call), clock_mono_ns() + UNSTAGE_NS);
    struct volume *v = volume_hold(p->volumes, in->volume_id, false, deadline, e);
    if (!v && e->cls != ERR_NOTFOUND)
        return -1;
    if (!v)
        return mount_end_fuse(in->staging_target_path, false, deadline, e);
    int rc = unstage_held(p, v, in->staging_target_path, deadline, e);
    volume_release(p->volumes, v);
    return rc;
}

/* Binds and notes it: the note first, so that whatever happens the mount is known. */
static int bind_target(struct plugin *p, struct volume *v, const char *from, const char *target,
    bool read_only, int mode, struct err *e)
{
    if (mount_detach(target, e)) /* left over from before, or dead */
        return -1;
    bool made = mkdir(target, 0750) == 0;
    if (!made && errno != EEXIST)
        return err_sys(e, errno, "mkdir %s", target);
    if (!volume_target_find(v, target))
        volume_target_add(v, target, read_only, mode);
    /* clients and workers keep data in theirs; a Dataset may have programs in it */
    bool for_data = v->context.kind == VOLUME_KIND_CLIENT || v->context.kind == VOLUME_KIND_WORKER;
    uint64_t attr = (read_only ? MOUNT_ATTR_RDONLY : 0) | (for_data ? MOUNT_ATTR_NOEXEC : 0);
    if (volume_save(p->volumes, v, e) == 0 && mount_bind(from, target, attr, e) == 0)
        return 0;
    volume_target_del(v, target);
    if (v->staging || v->ntargets || v->created)
        plugin_save(p, v);
    if (made)
        rmdir(target);
    return -1;
}

/* 1: published already, exactly so; 0: not yet; -1: in another way, or not allowed. */
static int already(
    struct volume *v, const char *target, bool read_only, int mode, dev_t want, struct err *e)
{
    const struct volume_target *t = volume_target_find(v, target);
    if (t && (t->read_only != read_only || t->mode != mode))
        return err_set(
            e, ERR_EXISTS, "volume %s is published at %s with another access mode", v->id, target);
    if (!t && v->ntargets && capability_exclusive(mode)) {
        err_set(e, ERR_CONFLICT,
            "volume %s is published at %s and its access mode allows one place only", v->id,
            v->targets[0].path);
        e->sys = EBUSY;
        return -1;
    }
    dev_t dev = 0;
    int rc = t ? mount_at(target, &dev, NULL, NULL, e) : 0;
    return rc == 1 ? dev == want : rc;
}

static int publish_mount(struct rpc_call *call, const Csi__NodePublishVolumeRequest *in,
    struct volume *v, int mode, struct err *e)
{
    struct plugin *p = rpc_user(call);
    bool read_only = in->readonly || v->read_only;
    dev_t dev = 0;
    /* The mount may have been lost since it was staged (with its client, while this plugin was
     * away): then it is made again. */
    if (stage_mount(p, v, plugin_deadline(call), node_cancelled, call, e)
        || mount_at(v->staging, &dev, NULL, NULL, e) < 0)
        return -1;
    int rc = already(v, in->target_path, read_only, mode, dev, e);
    return rc == 0 ? bind_target(p, v, v->staging, in->target_path, read_only, mode, e)
        : rc < 0   ? -1
                   : 0;
}

static int publish_staged(struct rpc_call *call, const Csi__NodePublishVolumeRequest *in,
    struct volume *v, int mode, struct err *e)
{
    if (!v->staging
        || (in->staging_target_path[0] && strcmp(in->staging_target_path, v->staging) != 0)) {
        err_set(e, ERR_CONFLICT, "volume %s is not staged at %s", v->id, in->staging_target_path);
        e->sys = EBUSY;
        return -1;
    }
    int64_t deadline = plugin_deadline(call);
    /* before it is bound: a pod must not get a mount that is about to be aborted */
    if (v->handoff && handoff_published(v->handoff, true, deadline, e))
        return -1;
    int rc = publish_mount(call, in, v, mode, e);
    if (rc && v->handoff && !v->ntargets)
        handoff_published(v->handoff, false, deadline, NULL);
    return rc;
}

/* The fsGroup of the pod; 0: none, or root's, which needs nothing. INVALID: it is no number. */
static int mount_group(const Csi__VolumeCapability *c, gid_t *group, struct err *e)
{
    const char *text = c->access_type_case == CSI__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT
        ? c->mount->volume_mount_group
        : "";
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    *group = (gid_t)n;
    return *end || n > INT32_MAX
        ? err_set(e, ERR_INVALID, "volume_mount_group '%.32s' is no number of a group", text)
        : 0;
}

static int publish_inline(struct rpc_call *call, const Csi__NodePublishVolumeRequest *in,
    struct volume *v, const struct volume_context *s, int mode, struct err *e)
{
    struct plugin *p = rpc_user(call);
    cleanup_free char *dir = NULL;
    if (v->ntargets
        && (v->context.kind != s->kind || strcmp(v->context.ns, s->ns) != 0
            || strcmp(v->context.uid, s->uid) != 0))
        return err_set(e, ERR_EXISTS, "volume %s is published with other attributes", v->id);
    struct stat st;
    gid_t group;
    if (mount_group(in->volume_capability, &group, e))
        return -1;
    if (!v->ntargets)
        v->context = *s;
    if (stage_inline(p, v, &dir, e) == 0 && (!group || node_dirs_give(dir, group, e) == 0)
        && stat(dir, &st) == 0) {
        int rc = already(v, in->target_path, false, mode, st.st_dev, e);
        if (rc == 1 || (rc == 0 && bind_target(p, v, dir, in->target_path, false, mode, e) == 0))
            return 0;
    } else if (dir && e->cls == ERR_NONE) {
        err_sys(e, errno, "stat %s", dir);
    }
    if (!v->ntargets)
        stage_release(p, v);
    return -1;
}

static int node_publish(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)resp;
    struct plugin *p = rpc_user(call);
    const Csi__NodePublishVolumeRequest *in = (const Csi__NodePublishVolumeRequest *)req;
    int mode;
    if (node_check_id(in->volume_id, e) || node_check_path("target_path", in->target_path, e)
        || capability_check(in->volume_capability, &mode, e))
        return -1;
    const struct volume_pair *context = plugin_pairs(
        call, in->volume_context, in->n_volume_context);
    bool is_inline = !p->standalone && volume_context_is_inline(context, in->n_volume_context);
    struct volume_context s;
    if (is_inline && volume_context_inline(context, in->n_volume_context, &s, e))
        return -1;
    struct volume *v = volume_hold(p->volumes, in->volume_id, is_inline, plugin_deadline(call), e);
    if (!v)
        return -1;
    int rc = is_inline ? publish_inline(call, in, v, &s, mode, e)
                       : publish_staged(call, in, v, mode, e);
    volume_release(p->volumes, v);
    return rc;
}

static int remove_target(const char *target, struct err *e)
{
    if (mount_detach(target, e))
        return -1;
    if (rmdir(target) && errno != ENOENT && errno != ENOTDIR)
        return err_sys(e, errno, "remove %s", target);
    return 0;
}

static int node_unpublish(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)resp;
    struct plugin *p = rpc_user(call);
    const Csi__NodeUnpublishVolumeRequest *in = (const Csi__NodeUnpublishVolumeRequest *)req;
    if (!in->volume_id[0])
        return err_set(e, ERR_INVALID, "volume_id is missing");
    if (node_check_path("target_path", in->target_path, e))
        return -1;
    struct volume *v = volume_hold(p->volumes, in->volume_id, false, plugin_deadline(call), e);
    if (!v && e->cls != ERR_NOTFOUND)
        return -1;
    int rc = remove_target(in->target_path, e);
    if (!v)
        return rc;
    bool known = volume_target_find(v, in->target_path);
    if (rc == 0 && known && v->staging && v->handoff)
        rc = handoff_published(v->handoff, v->ntargets > 1, plugin_deadline(call), e);
    if (rc == 0 && known) {
        volume_target_del(v, in->target_path);
        if (!v->staging && !v->ntargets)
            stage_release(p, v);
        else
            rc = volume_save(p->volumes, v, e);
    }
    volume_release(p->volumes, v);
    return rc;
}

static void add_usage(struct rpc_call *call, Csi__NodeGetVolumeStatsResponse *out,
    Csi__VolumeUsage__Unit unit, int64_t total, int64_t available)
{
    Csi__VolumeUsage *u = rpc_alloc(call, sizeof *u);
    csi__volume_usage__init(u);
    u->unit = unit;
    u->total = total;
    u->available = available;
    u->used = total - available;
    out->usage[out->n_usage++] = u;
}

static void set_condition(
    struct rpc_call *call, struct volume *v, const struct err *stat_error, Csi__VolumeCondition *c)
{
    struct handoff_state state = {.connected = true};
    struct err busy = ERR_INIT;
    bool is_mount = v->context.kind == VOLUME_KIND_DATASET
        || v->context.kind == VOLUME_KIND_PROCESS;
    if (v->handoff && is_mount)
        handoff_state(v->handoff, plugin_deadline(call), &state, &busy);
    c->abnormal = true;
    if (busy.cls)
        c->message = rpc_strdup(call, busy.msg);
    else if (stat_error->sys == ENOTCONN && state.lost[0]) {
        cleanup_free char *text = xasprintf(
            "the mount of this pod was aborted (%s): restart the pod", state.lost);
        c->message = rpc_strdup(call, text);
    } else if (state.silent)
        c->message = (char *)"the client of this dataset does not answer: reads may wait";
    else if (stat_error->cls)
        c->message = rpc_strdup(call, stat_error->msg);
    else if (!state.connected)
        c->message =
            (char *)"the client of this dataset is not running: reads wait until it is back";
    else if (state.failed[0])
        c->message = rpc_strdup(call, state.failed);
    else
        c->abnormal = false;
}

static int node_get_stats(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    struct plugin *p = rpc_user(call);
    const Csi__NodeGetVolumeStatsRequest *in = (const Csi__NodeGetVolumeStatsRequest *)req;
    Csi__NodeGetVolumeStatsResponse *out = (Csi__NodeGetVolumeStatsResponse *)resp;
    if (!in->volume_id[0])
        return err_set(e, ERR_INVALID, "volume_id is missing");
    if (!in->volume_path[0])
        return err_set(e, ERR_INVALID, "volume_path is missing");
    struct volume *v = volume_hold(p->volumes, in->volume_id, false, plugin_deadline(call), e);
    if (!v)
        return -1;
    bool known = volume_target_find(v, in->volume_path)
        || (v->staging && strcmp(v->staging, in->volume_path) == 0);
    struct statfs fs = {.f_bsize = 1};
    struct err why = ERR_INIT;
    if (known) {
        if (mount_statfs(
                in->volume_path, MIN(clock_mono_ns() + STATS_NS, plugin_deadline(call)), &fs, &why))
            fs = (struct statfs){.f_bsize = 1};
        out->volume_condition = rpc_alloc(call, sizeof *out->volume_condition);
        csi__volume_condition__init(out->volume_condition);
        set_condition(call, v, &why, out->volume_condition);
    }
    volume_release(p->volumes, v);
    if (!known)
        return err_set(
            e, ERR_NOTFOUND, "volume %s is not published at %s", in->volume_id, in->volume_path);
    out->usage = rpc_alloc(call, 2 * sizeof *out->usage);
    add_usage(call, out, CSI__VOLUME_USAGE__UNIT__BYTES, (int64_t)fs.f_blocks * fs.f_bsize,
        (int64_t)fs.f_bavail * fs.f_bsize);
    add_usage(call, out, CSI__VOLUME_USAGE__UNIT__INODES, (int64_t)fs.f_files, (int64_t)fs.f_ffree);
    return 0;
}

static int node_get_capabilities(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)req, (void)e;
    static const Csi__NodeServiceCapability__RPC__Type types[] = {
        CSI__NODE_SERVICE_CAPABILITY__RPC__TYPE__STAGE_UNSTAGE_VOLUME,
        CSI__NODE_SERVICE_CAPABILITY__RPC__TYPE__GET_VOLUME_STATS,
        CSI__NODE_SERVICE_CAPABILITY__RPC__TYPE__VOLUME_CONDITION,
        CSI__NODE_SERVICE_CAPABILITY__RPC__TYPE__VOLUME_MOUNT_GROUP,
        CSI__NODE_SERVICE_CAPABILITY__RPC__TYPE__SINGLE_NODE_MULTI_WRITER};
    Csi__NodeGetCapabilitiesResponse *out = (Csi__NodeGetCapabilitiesResponse *)resp;
    out->capabilities = rpc_alloc(call, ARRAY_LEN(types) * sizeof *out->capabilities);
    for (; out->n_capabilities < ARRAY_LEN(types); out->n_capabilities++) {
        Csi__NodeServiceCapability__RPC *rpc = rpc_alloc(call, sizeof *rpc);
        Csi__NodeServiceCapability *c = rpc_alloc(call, sizeof *c);
        csi__node_service_capability__rpc__init(rpc);
        rpc->type = types[out->n_capabilities];
        csi__node_service_capability__init(c);
        c->type_case = CSI__NODE_SERVICE_CAPABILITY__TYPE_RPC;
        c->rpc = rpc;
        out->capabilities[out->n_capabilities] = c;
    }
    return 0;
}

static int node_get_info(
    struct rpc_call *call, const ProtobufCMessage *req, ProtobufCMessage *resp, struct err *e)
{
    (void)req, (void)e;
    const struct plugin *p = rpc_user(call);
    ((Csi__NodeGetInfoResponse *)resp)->node_id = (char *)p->node_id;
    return 0;
}

#define METHOD(name, in, out, handler, fast)                                                     \
    {                                                                                            \
        "/csi.v1.Node/" name, &csi__##in##__descriptor, &csi__##out##__descriptor, handler, fast \
    }
const struct rpc_method node_methods[] = {
    METHOD("NodeStageVolume", node_stage_volume_request, node_stage_volume_response, node_stage,
        false),
    METHOD("NodeUnstageVolume", node_unstage_volume_request, node_unstage_volume_response,
        node_unstage, false),
    METHOD("NodePublishVolume", node_publish_volume_request, node_publish_volume_response,
        node_publish, false),
    METHOD("NodeUnpublishVolume", node_unpublish_volume_request, node_unpublish_volume_response,
        node_unpublish, false),
    METHOD("NodeGetVolumeStats", node_get_volume_stats_request, node_get_volume_stats_response,
        node_get_stats, false),
    METHOD("NodeGetCapabilities", node_get_capabilities_request, node_get_capabilities_response,
        node_get_capabilities, true),
    METHOD("NodeGetInfo", node_get_info_request, node_get_info_response, node_get_info, true),
};
const size_t node_nmethods = ARRAY_LEN(node_methods);
