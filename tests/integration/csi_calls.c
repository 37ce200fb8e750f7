/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/csi_calls.h"

#include "tests/lib/unit.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "tests/fake/grpc_client.h"

#include "csi/proto/csi.pb-c.h"

#include <dirent.h>
#include <fcntl.h>
#include <grpc/status.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENT_NS (120 * NS_PER_S) /* for one step to succeed at last */
#define CALL_MS    20000
#define MODE       CSI__VOLUME_CAPABILITY__ACCESS_MODE__MODE__MULTI_NODE_MULTI_WRITER

extern char **environ;

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t csi_times_percentile(struct csi_times *t, int percent)
{
    int n = MIN(atomic_load(&t->n), (int)ARRAY_LEN(t->ns));
    assert_true(n > 0);
    qsort(t->ns, (size_t)n, sizeof *t->ns, compare_times);
    return t->ns[n * percent / 100];
}

static void add_time(struct csi_times *t, int64_t ns)
{
    int at = t ? atomic_fetch_add(&t->n, 1) : 0;
    if (t && at < (int)ARRAY_LEN(t->ns))
        t->ns[at] = ns;
}

void csi_caller_open(struct csi_caller *c, const char *sock)
{
    *c = (struct csi_caller){.sock = sock, .rpc = grpc_client_new(sock)};
}

void csi_caller_close(struct csi_caller *c) { grpc_client_free(c->rpc); }

static bool until_ok(struct csi_caller *c, const char *method, const ProtobufCMessage *req,
    const ProtobufCMessageDescriptor *out, struct csi_times *times)
{
    cleanup_free char *path = xasprintf("/csi.v1.Node/%s", method);
    int64_t began = clock_mono_ns();
    while (clock_mono_ns() < began + PATIENT_NS) {
        ProtobufCMessage *answer = NULL;
        int64_t start = clock_mono_ns();
        int status = grpc_client_call(c->rpc, path, req, out, &answer, CALL_MS, c->why);
        int64_t took = clock_mono_ns() - start;
        if (answer)
            protobuf_c_message_free_unpacked(answer, NULL);
        if (status == GRPC_STATUS_OK) {
            add_time(times, took);
            return true;
        }
        grpc_client_free(c->rpc);
        clock_sleep_ns(50 * NS_PER_MS);
        c->rpc = grpc_client_new(c->sock);
    }
    fprintf(stderr, "%s: %s\n", method, c->why);
    return false;
}

struct context {
    Csi__Pair pairs[8], *list[8];
    size_t n;
};

static void add(struct context *c, const char *key, const char *value)
{
    csi__pair__init(&c->pairs[c->n]);
    c->pairs[c->n].key = (char *)key;
    c->pairs[c->n].value = (char *)value;
    c->list[c->n] = &c->pairs[c->n];
    c->n++;
}

static void of_dataset(struct context *c, const struct csi_volume *v)
{
    c->n = 0;
    add(c, VOL_DATASET_NAMESPACE, "team-a");
    add(c, VOL_DATASET_NAME, "many");
    add(c, VOL_DATASET_UID, v->uid);
}

struct capability {
    Csi__VolumeCapability c;
    Csi__VolumeCapability__MountVolume mount;
    Csi__VolumeCapability__AccessMode mode;
};

static Csi__VolumeCapability *capability(struct capability *c)
{
    csi__volume_capability__init(&c->c);
    csi__volume_capability__mount_volume__init(&c->mount);
    csi__volume_capability__access_mode__init(&c->mode);
    c->mode.mode = MODE;
    c->c.access_type_case = CSI__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
    c->c.mount = &c->mount;
    c->c.access_mode = &c->mode;
    return &c->c;
}

bool csi_stage(struct csi_caller *c, const struct csi_volume *v)
{
    struct context x;
    struct capability cap;
    Csi__NodeStageVolumeRequest r = CSI__NODE_STAGE_VOLUME_REQUEST__INIT;
    of_dataset(&x, v);
    r.volume_id = (char *)v->uid;
    r.staging_target_path = v->staging;
    r.volume_capability = capability(&cap);
    r.volume_context = x.list;
    r.n_volume_context = x.n;
    return until_ok(
        c, "NodeStageVolume", &r.base, &csi__node_stage_volume_response__descriptor, c->stages);
}

static bool publish(struct csi_caller *c, const struct csi_volume *v, bool is_inline)
{
    struct context x = {.n = 0};
    struct capability cap;
    Csi__NodePublishVolumeRequest r = CSI__NODE_PUBLISH_VOLUME_REQUEST__INIT;
    if (is_inline) {
        add(&x, VOL_EPHEMERAL, "true");
        add(&x, VOL_KIND, "client");
        add(&x, VOL_POD_NAMESPACE, "team-a");
        add(&x, VOL_POD_NAME, "client");
        add(&x, VOL_DATASET_UID, v->uid);
    } else {
        of_dataset(&x, v);
        r.staging_target_path = v->staging;
    }
    r.volume_id = (char *)(is_inline ? v->inline_id : v->uid);
    r.target_path = is_inline ? v->dir : v->target;
    r.volume_capability = capability(&cap);
    r.volume_context = x.list;
    r.n_volume_context = x.n;
    return until_ok(c, "NodePublishVolume", &r.base, &csi__node_publish_volume_response__descriptor,
        is_inline ? NULL : c->publishes);
}

bool csi_publish(struct csi_caller *c, const struct csi_volume *v) { return publish(c, v, false); }

bool csi_publish_inline(struct csi_caller *c, const struct csi_volume *v)
{
    return publish(c, v, true);
}

static bool unpublish(struct csi_caller *c, const char *id, const char *target)
{
    Csi__NodeUnpublishVolumeRequest r = CSI__NODE_UNPUBLISH_VOLUME_REQUEST__INIT;
    r.volume_id = (char *)id;
    r.target_path = (char *)target;
    return until_ok(
        c, "NodeUnpublishVolume", &r.base, &csi__node_unpublish_volume_response__descriptor, NULL);
}

bool csi_unpublish(struct csi_caller *c, const struct csi_volume *v)
{
    return unpublish(c, v->uid, v->target);
}

bool csi_unpublish_inline(struct csi_caller *c, const struct csi_volume *v)
{
    return unpublish(c, v->inline_id, v->dir);
}

bool csi_unstage(struct csi_caller *c, const struct csi_volume *v)
{
    Csi__NodeUnstageVolumeRequest r = CSI__NODE_UNSTAGE_VOLUME_REQUEST__INIT;
    r.volume_id = (char *)v->uid;
    r.staging_target_path = v->staging;
    return until_ok(
        c, "NodeUnstageVolume", &r.base, &csi__node_unstage_volume_response__descriptor, NULL);
}

void csi_volume_init(struct csi_volume *v, const char *kubelet, const char *above, int number)
{
    *v = (struct csi_volume){.client = 0};
    snprintf(v->uid, sizeof v->uid, "0b2c7a9e-1f7d-4f0e-9a0a-%012d", number);
    snprintf(v->inline_id, sizeof v->inline_id, "csi-%d", number);
    v->dir = xasprintf("%s/pods/client-%d", kubelet, number);
    v->staging = xasprintf("%s/staging-%d", above, number);
    v->target = xasprintf("%s/pods/pod-%d", kubelet, number);
    assert_int_equal(mkdir(v->staging, 0755), 0);
}

void csi_volume_free(struct csi_volume *v)
{
    free(v->dir);
    free(v->staging);
    free(v->target);
}

void csi_start_client(struct csi_volume *v)
{
    cleanup_free char *s = path_join(v->dir, VOLUME_SOCKET),
                      *cache = path_join(v->dir, VOLUME_CACHE);
    char *argv[] = {(char *)FAKE_CLIENT, (char *)"--socket", s, (char *)"--cache-dir", cache, NULL};
    assert_int_equal(posix_spawn(&v->client, FAKE_CLIENT, NULL, NULL, argv, environ), 0);
}

void csi_end_client(struct csi_volume *v)
{
    kill(v->client, SIGKILL);
    waitpid(v->client, NULL, 0);
}

pid_t csi_start_plugin(const char *kubelet, const char *log)
{
    const char *other = getenv("MILLRACE_CSI_PROGRAM"), *program = other ? other : MILLRACE_CSI;
    char *argv[] = {(char *)program, (char *)"--node-id", (char *)"node-1", (char *)"--kubelet-dir",
        (char *)kubelet, (char *)"--http", (char *)"", (char *)"--metrics", (char *)"127.0.0.1:0",
        NULL};
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    if (log)
        posix_spawn_file_actions_addopen(
            &files, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    pid_t pid;
    assert_int_equal(posix_spawn(&pid, program, &files, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&files);
    return pid;
}

bool csi_plugin_is_checked(void)
{
#ifdef MILLRACE_CHECKED
    return !getenv("MILLRACE_CSI_PROGRAM");
#else
    return false;
#endif
}

int csi_count_of(pid_t plugin, const char *what)
{
    cleanup_free char *path = xasprintf("/proc/%d/%s", plugin, what);
    DIR *d = opendir(path);
    int n = -2; /* . and .. */
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

long csi_memory_of(pid_t plugin, const char *what)
{
    cleanup_free char *path = xasprintf("/proc/%d/status", plugin),
                      *text = file_read(path, 1 << 20, NULL, NULL);
    const char *at = text ? strstr(text, what) : NULL;
    return at ? strtol(at + strlen(what) + 1, NULL, 10) : -1;
}
