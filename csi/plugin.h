/* SPDX-License-Identifier: Apache-2.0 */
/* plugin — what all RPC handlers share, and the tables of methods that they make up. */
#ifndef MILLRACE_CSI_PLUGIN_H
#define MILLRACE_CSI_PLUGIN_H

#include "csi/handoff.h"
#include "csi/node_dirs.h"
#include "csi/rpc.h"
#include "csi/volume.h"

#include "csi/proto/csi.pb-c.h"

/* an answer leaves so long before the caller stops listening */
#define RPC_MARGIN_NS  (2 * NS_PER_S)
#define RPC_ENDLESS_NS (110 * NS_PER_S) /* for callers that set no deadline */
#define STATS_NS       (2 * NS_PER_S)   /* for a file system to answer a question about its size */

struct plugin {
    const char *node_id;
    const char *endpoint;      /* the CSI socket's path */
    const char *root;          /* directories and records */
    const char *run_dir;       /* of client processes (standalone) */
    const char *client_binary; /* (standalone) */
    /* no Kubernetes: clients are processes, volumes come from CreateVolume */
    bool standalone;
    struct volumes *volumes;
    struct node_dirs *dirs;
    struct handoff *handoff;
};

extern const struct rpc_method identity_methods[], registration_methods[], controller_methods[],
    node_methods[];
extern const size_t identity_nmethods, registration_nmethods, controller_nmethods, node_nmethods;

/* When a handler must stop waiting: the caller's deadline less a margin. */
int64_t plugin_deadline(const struct rpc_call *call);
/* Of the call's memory. */
struct volume_pair *plugin_pairs(struct rpc_call *call, Csi__Pair *const *list, size_t n);
/* volume_save() where nothing can be done about a failure but to log it. */
void plugin_save(struct plugin *p, const struct volume *v);

/* stage — what makes a volume's mount come and go; v is held. */
int stage_mount(struct plugin *p, struct volume *v, int64_t deadline_ns,
    bool (*cancelled)(const void *), const void *arg, struct err *e);
int stage_unmount(struct plugin *p, struct volume *v, int64_t deadline_ns, struct err *e);
/* directory and socket of an inline volume */
int stage_inline(struct plugin *p, struct volume *v, char **dir, struct err *e);
/* the reverse of what the above got, but for the mount */
void stage_release(struct plugin *p, struct volume *v);
/* at our end: mounts and processes go on without us */
void stage_leave(struct plugin *p, struct volume *v);
/* Forgets targets where nothing is mounted any more: the node was booted, or a person unmounted
 * them. true: there were some. */
bool stage_forget_stale(struct volume *v);
/* after a start: takes up what the records and the kernel's mounts say */
void stage_restore(struct plugin *p);

/* capability — checks of VolumeCapability. 0 and the access mode, or INVALID. */
int capability_check(const Csi__VolumeCapability *c, int *mode, struct err *e);
bool capability_read_only(int mode); /* the mode is for readers */
bool capability_exclusive(int mode); /* one target at a time */

#endif
