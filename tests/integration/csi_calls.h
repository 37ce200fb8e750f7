/* SPDX-License-Identifier: Apache-2.0 */
/* csi_calls — kubelet's calls to a node plugin that runs as a process of its own, with clients that
 * are fakes. MILLRACE_CSI_PROGRAM: another plugin than the one that was built with the test, for
 * example a release. */
#ifndef MILLRACE_TESTS_INTEGRATION_CSI_CALLS_H
#define MILLRACE_TESTS_INTEGRATION_CSI_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How long calls took that succeeded. Any thread adds; the rest is for one. */
struct csi_times {
    _Atomic int n;
    int64_t ns[100000];
};
int64_t csi_times_percentile(struct csi_times *t, int percent);

struct csi_caller { /* one thread's */
    const char *sock;
    struct grpc_client *rpc;
    struct csi_times *stages, *publishes; /* NULL: not kept */
    char why[512];                        /* the last call failed */
};
void csi_caller_open(struct csi_caller *c, const char *sock);
void csi_caller_close(struct csi_caller *c);

struct csi_volume {
    char uid[64], inline_id[64];
    char *dir, *staging, *target; /* dir: of its client */
    pid_t client;
};
/* Names and the staging directory; the rest is made by calls. */
void csi_volume_init(struct csi_volume *v, const char *kubelet, const char *above, int number);
void csi_volume_free(struct csi_volume *v);
void csi_start_client(struct csi_volume *v);
void csi_end_client(struct csi_volume *v);

/* Each is repeated, as kubelet does, until it succeeds. False: it never did. */
bool csi_stage(struct csi_caller *c, const struct csi_volume *v);
bool csi_publish(struct csi_caller *c, const struct csi_volume *v);
bool csi_unpublish(struct csi_caller *c, const struct csi_volume *v);
bool csi_unstage(struct csi_caller *c, const struct csi_volume *v);
bool csi_publish_inline(struct csi_caller *c, const struct csi_volume *v);
bool csi_unpublish_inline(struct csi_caller *c, const struct csi_volume *v);

/* The plugin, and true if it is built with sanitizers. log: where its stderr goes; NULL: ours. */
pid_t csi_start_plugin(const char *kubelet, const char *log);
bool csi_plugin_is_checked(void);
/* What it has open, and its threads: names in /proc/PID/fd and /proc/PID/task. */
int csi_count_of(pid_t plugin, const char *what);
/* A number of /proc/PID/status, for example "VmHWM", in KiB; -1: there is none. */
long csi_memory_of(pid_t plugin, const char *what);

#endif
