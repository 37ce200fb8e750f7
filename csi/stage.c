/* SPDX-License-Identifier: Apache-2.0 */
/* What a volume holds while it is staged or published: its directory, its handoff, its client
 * process; and how they are taken up again after a restart. */
#include "csi/client_proc.h"
#include "csi/mount.h"
#include "csi/plugin.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

static int get_dir(struct plugin *p, struct volume *v, bool handoff, char **dir, struct err *e)
{
    cleanup_free char *path = node_dirs_get(p->dirs, &v->context, e);
    if (!path)
        return -1;
    if (v->has_dir)
        node_dirs_put(p->dirs, &v->context); /* asked for the path only */
    v->has_dir = true;
    if (handoff && !v->handoff
        && !(v->handoff = handoff_get(p->handoff, v->context.ns, v->context.uid, path, e)))
        return -1;
    if (dir)
        *dir = steal(&path);
    return 0;
}

static int start_client(struct plugin *p, struct volume *v, const char *dir, struct err *e)
{
    cleanup_free char *run = path_join(p->run_dir, v->id);
    struct client_proc_conf conf = {.binary = p->client_binary, .dir = dir, .run_dir = run};
    if (!v->proc)
        v->proc = client_proc_start(&conf, e);
    return v->proc ? 0 : -1;
}

int stage_mount(struct plugin *p, struct volume *v, int64_t deadline_ns,
    bool (*cancelled)(const void *), const void *arg, struct err *e)
{
    cleanup_free char *dir = NULL;
    if (get_dir(p, v, true, &dir, e)
        || (v->context.kind == VOLUME_KIND_PROCESS && start_client(p, v, dir, e)))
        return -1;
    struct handoff_want want = {.staging = v->staging,
        .read_only = v->read_only,
        .context = &v->context,
        .deadline_ns = deadline_ns,
        .cancelled = cancelled,
        .arg = arg};
    return handoff_stage(v->handoff, &want, e);
}

int stage_unmount(struct plugin *p, struct volume *v, int64_t deadline_ns, struct err *e)
{
    if (v->handoff ? handoff_unstage(v->handoff, deadline_ns, e)
                   : mount_end_fuse(v->staging, false, deadline_ns, e))
        return -1;
    stage_release(p, v);
    return 0;
}

int stage_inline(struct plugin *p, struct volume *v, char **dir, struct err *e)
{
    return get_dir(p, v, v->context.kind == VOLUME_KIND_CLIENT, dir, e);
}

void stage_release(struct plugin *p, struct volume *v)
{
    client_proc_stop(v->proc);
    v->proc = NULL;
    if (v->handoff)
        handoff_put(v->handoff);
    v->handoff = NULL;
    if (v->has_dir)
        node_dirs_put(p->dirs, &v->context);
    v->has_dir = false;
}

void stage_leave(struct plugin *p, struct volume *v)
{
    if (v->proc)
        client_proc_leave(v->proc);
    v->proc = NULL;
    if (v->handoff)
        handoff_put(v->handoff);
    v->handoff = NULL;
    /* its directory stays in use: there may be no next plugin for a while, but its users are still
     * here
     */
    (void)p;
}

bool stage_forget_stale(struct volume *v)
{
    bool changed = false;
    for (size_t i = v->ntargets; i-- > 0;) {
        struct err e = ERR_INIT;
        if (mount_at(v->targets[i].path, NULL, NULL, NULL, &e) != 0)
            continue;
        cleanup_free char *path = xstrdup(v->targets[i].path);
        volume_target_del(v, path);
        changed = true;
    }
    return changed;
}

static void restore_mount(struct plugin *p, struct volume *v, struct err *e)
{
    bool fuse = false, read_only = false;
    dev_t dev = 0;
    cleanup_free char *dir = NULL;
    int there = mount_at(v->staging, &dev, &fuse, &read_only, e);
    if (there < 0 || get_dir(p, v, true, &dir, e))
        return;
    if (there == 1 && fuse) {
        handoff_adopt(v->handoff, v->staging, dev, read_only);
        handoff_published(v->handoff, v->ntargets > 0, clock_mono_ns() + NS_PER_S, e);
        if (v->context.kind == VOLUME_KIND_PROCESS)
            start_client(p, v, dir, e);
        return;
    }
    /* one that still runs is taken over, and ended */
    if (v->context.kind == VOLUME_KIND_PROCESS && start_client(p, v, dir, e))
        log_kv(LOG_WARN, "the client process of a volume that is no longer mounted", "error",
            e->msg, NULL);
    err_clear(e);
    stage_release(p, v);
    free(v->staging);
    v->staging = NULL;
}

static void restore_one(struct volume *v, void *arg)
{
    struct plugin *p = arg;
    struct err e = ERR_INIT;
    bool was_staged = v->staging != NULL;
    bool changed = stage_forget_stale(v);
    switch (v->context.kind) {
    case VOLUME_KIND_DATASET:
    case VOLUME_KIND_PROCESS:
        if (v->staging)
            restore_mount(p, v, &e);
        break;
    case VOLUME_KIND_CLIENT:
    case VOLUME_KIND_WORKER:
        if (v->ntargets)
            stage_inline(p, v, NULL, &e);
        break;
    }
    /* what is mounted is not collected, even if its pod has made a link of its cache */
    if (!v->has_dir && (v->staging || v->ntargets)) {
        node_dirs_hold(p->dirs, &v->context);
        v->has_dir = true;
    }
    changed = changed || was_staged != (v->staging != NULL);
    if (e.cls)
        log_kv(
            LOG_ERROR, "a volume cannot be taken up again", "volume", v->id, "error", e.msg, NULL);
    else
        log_kv(LOG_INFO, "volume taken up again", "volume", v->id, "staging", v->staging, NULL);
    if (changed)
        plugin_save(p, v);
    volume_release(p->volumes, v); /* which forgets it if nothing is left */
}

void stage_restore(struct plugin *p) { volumes_each(p->volumes, restore_one, p); }
