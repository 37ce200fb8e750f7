/* SPDX-License-Identifier: Apache-2.0 */
/* Plays kubelet to the real node plugin, with the real client as an unprivileged user in the place
 * of its pod: registration, inline volumes, staging, publishing, reading; the plugin and the client
 * killed under a reader; and nothing left behind in the end. MILLRACE_CSI and MILLRACE_FUSE: the
 * programs. */
#include "tests/integration/csi_reader.h"
#include "tests/lib/unit.h"

#include "csi/mount.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/mountinfo.h"
#include "lib/base/names.h"
#include "tests/fake/grpc_client.h"
#include "tests/unit/csi/csi_env.h"

#include "csi/proto/csi.pb-c.h"
#include "csi/proto/registration.pb-c.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <grpc/status.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define DATASET_UID "0b2c7a9e-1f7d-4f0e-9a0a-7a0e8c1d2e3f"
#define READER      ((int)CSI__VOLUME_CAPABILITY__ACCESS_MODE__MODE__MULTI_NODE_READER_ONLY)
#define WRITER      ((int)CSI__VOLUME_CAPABILITY__ACCESS_MODE__MODE__MULTI_NODE_MULTI_WRITER)

static struct csi_env *env;
static char *kubelet, *root, *csi_sock, *reg_sock, *data, *staging, *pod_a, *pod_b, *inline_client,
    *inline_worker;
static struct grpc_client *rpc;
static pid_t plugin, client;
static char why[512];
static const char *abandon_after = "60s";

static char *in(const char *dir, const char *name) { return path_join(dir, name); }

static pid_t spawn(bool unprivileged, char *const argv[], const char *config)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if (config)
        setenv(ENV_CONFIG, config, 1);
    setpgid(0, 0);
    /* the checkout may be in a home that others cannot enter */
    int program = open(argv[0], O_PATH | O_CLOEXEC);
    if (unprivileged && (setgroups(0, NULL) || setgid(POD_UID) || setuid(POD_UID)))
        _exit(126);
    fexecve(program, argv, environ);
    _exit(127);
}

static void start_plugin(void)
{
    char *argv[] = {(char *)MILLRACE_CSI, (char *)"--node-id", (char *)"node-1",
        (char *)"--kubelet-dir", kubelet, (char *)"--http", (char *)"127.0.0.1:0",
        (char *)"--metrics", (char *)"127.0.0.1:0", (char *)"--abandon-after",
        (char *)abandon_after, NULL};
    plugin = spawn(false, argv, NULL);
    int64_t until = clock_mono_ns() + PATIENT_MS * NS_PER_MS;
    while (access(csi_sock, F_OK) && clock_mono_ns() < until)
        clock_sleep_ns(20 * NS_PER_MS);
    if (rpc)
        grpc_client_free(rpc);
    rpc = grpc_client_new(csi_sock);
}

static void start_client(void)
{
    cleanup_free char *sock = in(inline_client, VOLUME_SOCKET),
                      *cache = in(inline_client, VOLUME_CACHE);
    cleanup_free char *config = xasprintf(
        "{\"namespace\":\"team-a\",\"name\":\"mnist\",\"uid\":\"" DATASET_UID
        "\",\"readOnly\":true,"
        "\"mounts\":[{\"mountPoint\":\"file://%s\",\"path\":\"/\",\"readOnly\":true}],"
        "\"cache\":{\"tiers\":[{\"medium\":\"SSD\",\"quota\":67108864}]}}",
        data);
    char *argv[] = {(char *)MILLRACE_FUSE, (char *)"--socket", sock, (char *)"--cache-dir", cache,
        (char *)"--http", (char *)"", NULL};
    client = spawn(true, argv, config);
}

static void end_process(pid_t *pid, int sig)
{
    kill(sig == SIGKILL ? -*pid : *pid, sig);
    waitpid(*pid, NULL, 0);
    *pid = 0;
}

/* --- the RPCs ------------------------------------------------------------------------------- */

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

static int call(const char *method, const ProtobufCMessage *req,
    const ProtobufCMessageDescriptor *out, ProtobufCMessage **answer, int ms)
{
    ProtobufCMessage *ignored = NULL;
    cleanup_free char *path = xasprintf("/csi.v1.%s", method);
    int status = grpc_client_call(rpc, path, req, out, answer ? answer : &ignored, ms, why);
    if (ignored)
        protobuf_c_message_free_unpacked(ignored, NULL);
    return status;
}

struct capability {
    Csi__VolumeCapability c;
    Csi__VolumeCapability__MountVolume mount;
    Csi__VolumeCapability__AccessMode mode;
};

static Csi__VolumeCapability *capability(struct capability *c, int mode)
{
    csi__volume_capability__init(&c->c);
    csi__volume_capability__mount_volume__init(&c->mount);
    csi__volume_capability__access_mode__init(&c->mode);
    c->mode.mode = (Csi__VolumeCapability__AccessMode__Mode)mode;
    c->c.access_type_case = CSI__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
    c->c.mount = &c->mount;
    c->c.access_mode = &c->mode;
    return &c->c;
}

static int publish_inline(const char *id, const char *target, const char *kind, const char *ns,
    const char *pod, const char *uid)
{
    struct context c = {.n = 0};
    struct capability cap;
    Csi__NodePublishVolumeRequest r = CSI__NODE_PUBLISH_VOLUME_REQUEST__INIT;
    add(&c, VOL_EPHEMERAL, "true");
    add(&c, VOL_KIND, kind);
    add(&c, VOL_POD_NAMESPACE, ns);
    add(&c, VOL_POD_NAME, pod);
    add(&c, VOL_DATASET_UID, uid);
    r.volume_id = (char *)id;
    r.target_path = (char *)target;
    r.volume_capability = capability(
        &cap, (int)CSI__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER);
    r.volume_context = c.list;
    r.n_volume_context = c.n;
    return call("Node/NodePublishVolume", &r.base, &csi__node_publish_volume_response__descriptor,
        NULL, PATIENT_MS);
}

static void dataset_context(struct context *c)
{
    *c = (struct context){.n = 0};
    add(c, VOL_DATASET_NAMESPACE, "team-a");
    add(c, VOL_DATASET_NAME, "mnist");
    add(c, VOL_DATASET_UID, DATASET_UID);
    add(c, VOL_READ_ONLY, "true");
}

static int stage(int ms)
{
    struct context c;
    struct capability cap;
    Csi__NodeStageVolumeRequest r = CSI__NODE_STAGE_VOLUME_REQUEST__INIT;
    dataset_context(&c);
    r.volume_id = (char *)DATASET_UID;
    r.staging_target_path = staging;
    r.volume_capability = capability(&cap, READER);
    r.volume_context = c.list;
    r.n_volume_context = c.n;
    return call(
        "Node/NodeStageVolume", &r.base, &csi__node_stage_volume_response__descriptor, NULL, ms);
}

static int publish(const char *target, int mode, bool read_only)
{
    struct context c;
    struct capability cap;
    Csi__NodePublishVolumeRequest r = CSI__NODE_PUBLISH_VOLUME_REQUEST__INIT;
    dataset_context(&c);
    r.volume_id = (char *)DATASET_UID;
    r.staging_target_path = staging;
    r.target_path = (char *)target;
    r.readonly = read_only;
    r.volume_capability = capability(&cap, mode);
    r.volume_context = c.list;
    r.n_volume_context = c.n;
    return call("Node/NodePublishVolume", &r.base, &csi__node_publish_volume_response__descriptor,
        NULL, PATIENT_MS);
}

static int unpublish(const char *id, const char *target)
{
    Csi__NodeUnpublishVolumeRequest r = CSI__NODE_UNPUBLISH_VOLUME_REQUEST__INIT;
    r.volume_id = (char *)id;
    r.target_path = (char *)target;
    return call("Node/NodeUnpublishVolume", &r.base,
        &csi__node_unpublish_volume_response__descriptor, NULL, PATIENT_MS);
}

static int unstage(void)
{
    Csi__NodeUnstageVolumeRequest r = CSI__NODE_UNSTAGE_VOLUME_REQUEST__INIT;
    r.volume_id = (char *)DATASET_UID;
    r.staging_target_path = staging;
    return call("Node/NodeUnstageVolume", &r.base, &csi__node_unstage_volume_response__descriptor,
        NULL, PATIENT_MS);
}

/* The condition's message; "" when normal; NULL when refused. */
static char *condition(const char *path, int64_t *total)
{
    Csi__NodeGetVolumeStatsRequest r = CSI__NODE_GET_VOLUME_STATS_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    r.volume_id = (char *)DATASET_UID;
    r.volume_path = (char *)path;
    if (call("Node/NodeGetVolumeStats", &r.base, &csi__node_get_volume_stats_response__descriptor,
            &answer, PATIENT_MS)
        != GRPC_STATUS_OK)
        return NULL;
    const Csi__NodeGetVolumeStatsResponse *s = (const Csi__NodeGetVolumeStatsResponse *)answer;
    assert_int_equal(s->n_usage, 2);
    if (total)
        *total = s->usage[0]->total;
    char *text = xstrdup(s->volume_condition->message);
    assert_int_equal(s->volume_condition->abnormal, text[0] != '\0');
    protobuf_c_message_free_unpacked(answer, NULL);
    return text;
}

/* The plugin hears from a connection that its client came or went. */
static char *condition_becomes(const char *path, bool abnormal)
{
    int64_t until = clock_mono_ns() + PATIENT_MS * NS_PER_MS;
    char *text = condition(path, NULL);
    while (text && (text[0] != '\0') != abnormal && clock_mono_ns() < until) {
        free(text);
        clock_sleep_ns(20 * NS_PER_MS);
        text = condition(path, NULL);
    }
    return text;
}

/* --- the tests, in this order --------------------------------------------------------------- */

static void test_registers(void **state)
{
    (void)state;
    struct grpc_client *reg = grpc_client_new(reg_sock);
    Registration__InfoRequest ask = REGISTRATION__INFO_REQUEST__INIT;
    Registration__RegistrationStatus tell = REGISTRATION__REGISTRATION_STATUS__INIT;
    ProtobufCMessage *answer = NULL;
    for (int i = 0; i < 2; i++) { /* kubelet restarts and asks again */
        assert_int_equal(
            grpc_client_call(reg, "/pluginregistration.Registration/GetInfo", &ask.base,
                &registration__plugin_info__descriptor, &answer, PATIENT_MS, why),
            GRPC_STATUS_OK);
        const Registration__PluginInfo *info = (const Registration__PluginInfo *)answer;
        assert_string_equal(info->type, "CSIPlugin");
        assert_string_equal(info->name, NAME_DRIVER);
        assert_string_equal(info->endpoint, csi_sock);
        assert_int_equal(info->n_supported_versions, 1);
        protobuf_c_message_free_unpacked(answer, NULL);
        tell.plugin_registered = true;
        assert_int_equal(
            grpc_client_call(reg, "/pluginregistration.Registration/NotifyRegistrationStatus",
                &tell.base, &registration__registration_status_response__descriptor, &answer,
                PATIENT_MS, why),
            GRPC_STATUS_OK);
        protobuf_c_message_free_unpacked(answer, NULL);
    }
    grpc_client_free(reg);
    Csi__NodeGetInfoRequest who = CSI__NODE_GET_INFO_REQUEST__INIT;
    assert_int_equal(call("Node/NodeGetInfo", &who.base, &csi__node_get_info_response__descriptor,
                         &answer, PATIENT_MS),
        GRPC_STATUS_OK);
    assert_string_equal(((Csi__NodeGetInfoResponse *)answer)->node_id, "node-1");
    protobuf_c_message_free_unpacked(answer, NULL);
    assert_int_equal(call("Controller/CreateVolume", &who.base,
                         &csi__node_get_info_response__descriptor, NULL, PATIENT_MS),
        GRPC_STATUS_UNIMPLEMENTED);
}

static void test_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *ns, *pod, *uid;
    } bad[] = {{"dataset", "team-a", "p", DATASET_UID}, {"client", "../team-b", "p", DATASET_UID},
        {"client", "team-a", "p", ".."}, {"client", "team-a", "p", "../../../../etc"},
        {"worker", "team-a", "../../x", DATASET_UID}, {"", "team-a", "p", DATASET_UID},
        {"client", "", "p", DATASET_UID}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(
            publish_inline("csi-1", inline_client, bad[i].kind, bad[i].ns, bad[i].pod, bad[i].uid),
            GRPC_STATUS_INVALID_ARGUMENT);
        assert_int_equal(access(inline_client, F_OK), -1);
    }
    assert_int_equal(publish_inline("../csi", inline_client, "client", "team-a", "p", DATASET_UID),
        GRPC_STATUS_INVALID_ARGUMENT);
    assert_int_equal(publish_inline("csi-1", "relative/path", "client", "team-a", "p", DATASET_UID),
        GRPC_STATUS_INVALID_ARGUMENT);
    assert_int_equal(publish(pod_a, READER, true), GRPC_STATUS_NOT_FOUND);
    int status = stage(3000);
    /* it answers just before that: a busy machine is too late */
    for (int i = 0; i < 10 && status == GRPC_STATUS_DEADLINE_EXCEEDED; i++)
        status = stage(3000);
    assert_int_equal(status, GRPC_STATUS_UNAVAILABLE);
    assert_string_equal(why,
        "the client pod of dataset team-a/mnist has not connected on node node-1 yet: "
        "kubectl -n team-a get pod -l millrace.dev/dataset=mnist -o wide");
    assert_null(condition(staging, NULL)); /* nothing of it has stayed */
}

static void test_inline_volumes(void **state)
{
    (void)state;
    struct stat st;
    cleanup_free char *cache = in(inline_client, VOLUME_CACHE),
                      *sock = in(inline_client, VOLUME_SOCKET);
    for (int i = 0; i < 3; i++)
        assert_int_equal(publish_inline("csi-client", inline_client, "client", "team-a",
                             "mnist-client-1", DATASET_UID),
            GRPC_STATUS_OK);
    assert_int_equal(publish_inline("csi-client", inline_client, "client", "team-b",
                         "mnist-client-1", DATASET_UID),
        GRPC_STATUS_ALREADY_EXISTS);
    assert_int_equal(publish_inline("csi-worker", inline_worker, "worker", "team-a",
                         "mnist-cache-0", DATASET_UID),
        GRPC_STATUS_OK);
    assert_int_equal(stat(cache, &st), 0);
    assert_int_equal(st.st_uid, POD_UID);
    assert_int_equal(stat(sock, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    struct statvfs fs;
    const char *volumes[] = {inline_client, inline_worker};
    for (size_t i = 0; i < ARRAY_LEN(volumes); i++) { /* they are for data */
        assert_int_equal(statvfs(volumes[i], &fs), 0);
        assert_int_equal(
            fs.f_flag & (ST_NOEXEC | ST_NOSUID | ST_NODEV), ST_NOEXEC | ST_NOSUID | ST_NODEV);
    }
    cleanup_free char *worker_sock = in(inline_worker, VOLUME_SOCKET),
                      *worker_cache = in(inline_worker, VOLUME_CACHE);
    assert_int_equal(access(worker_sock, F_OK), -1);
    assert_int_equal(access(worker_cache, F_OK), 0);
}

static void test_reads(void **state)
{
    (void)state;
    cleanup_free char *a = in(pod_a, "file"), *b = in(pod_b, "file");
    start_client();
    assert_int_equal(stage(PATIENT_MS), GRPC_STATUS_OK);
    assert_int_equal(stage(PATIENT_MS), GRPC_STATUS_OK);
    assert_int_equal(publish(pod_a, READER, true), GRPC_STATUS_OK);
    assert_int_equal(publish(pod_a, READER, true), GRPC_STATUS_OK);
    assert_int_equal(publish(pod_a, WRITER, false), GRPC_STATUS_ALREADY_EXISTS);
    assert_int_equal(publish(pod_b, READER, false), GRPC_STATUS_OK);
    assert_int_equal(reader_once(a), 0);
    assert_int_equal(reader_once(b), 0);
    assert_int_equal(open(b, O_WRONLY | O_CLOEXEC), -1);
    assert_int_equal(errno, EROFS); /* the PersistentVolume says so, whatever the pod asked for */
    int64_t total = -1;
    cleanup_free char *normal = condition(pod_a, &total);
    assert_string_equal(normal, "");
    assert_int_equal(unstage(), GRPC_STATUS_FAILED_PRECONDITION);
}

/* The log of the backing files, which the plugin goes on with. */
static char *backing_log(void)
{
    return xasprintf("%s/state/keep/team-a." DATASET_UID ".ids", root);
}

/* Its client gave it back, and the plugin was killed before it heard that. */
static void lose_a_close(void)
{
    cleanup_free char *path = backing_log();
    cleanup_file FILE *log = fopen(path, "ae");
    assert_non_null(log);
    assert_true(fputs("+ 1 1 4000\n", log) >= 0);
}

static bool nobody_holds_it(void)
{
    struct err e = ERR_INIT;
    cleanup_free char *path = backing_log(), *text = NULL;
    int64_t until = clock_mono_ns() + PATIENT_MS * NS_PER_MS;
    do {
        free(text);
        text = file_read(path, 1 << 20, NULL, &e);
        if (text && !strstr(text, "4000"))
            return true;
        clock_sleep_ns(20 * NS_PER_MS);
    } while (clock_mono_ns() < until);
    return false;
}

static void test_killed(void **state)
{
    (void)state;
    cleanup_free char *a = in(pod_a, "file"), *b = in(pod_b, "file"),
                      *third = in(env->dir, "kubelet/pods/c"), *c = in(third, "file");
    struct reader *r = reader_start(a);
    reader_goes_on(r);
    for (int i = 0; i < 2; i++) {
        end_process(&plugin, SIGKILL);
        reader_goes_on(r);
        lose_a_close();
        start_plugin();
        /* waits for the fd to come back */
        assert_int_equal(publish(third, READER, true), GRPC_STATUS_OK);
        assert_int_equal(reader_once(c), 0);
        assert_true(nobody_holds_it());
        assert_int_equal(unpublish(DATASET_UID, third), GRPC_STATUS_OK);
        cleanup_free char *normal = condition_becomes(pod_b, false);
        assert_string_equal(normal, "");
        reader_goes_on(r);
        end_process(&client, SIGKILL); /* the whole container */
        cleanup_free char *alone = condition_becomes(pod_b, true);
        assert_non_null(strstr(alone, "not"));
        start_client();
        reader_goes_on(r);
    }
    reader_end(r);
    assert_int_equal(reader_once(b), 0);
}

/* An upgrade replaces both in good order, each while the other is away: whoever has the fuse fd
 * alone waits for somebody to give it to. */
static void test_replaced(void **state)
{
    (void)state;
    cleanup_free char *a = in(pod_a, "file");
    struct reader *r = reader_start(a);
    reader_goes_on(r);
    for (int i = 0; i < 3; i++) {
        end_process(&plugin, SIGTERM);
        kill(client, SIGTERM);
        clock_sleep_ns(300 * NS_PER_MS);
        start_plugin();
        waitpid(client, NULL, 0);
        start_client();
        reader_goes_on(r);
        end_process(&client, SIGTERM);
        kill(plugin, SIGTERM);
        clock_sleep_ns(300 * NS_PER_MS);
        start_client();
        waitpid(plugin, NULL, 0);
        reader_goes_on(r);
        start_plugin();
        reader_goes_on(r);
    }
    reader_end(r);
}

/* The process below the client's supervisor. */
static pid_t serving_process(void)
{
    struct err e = ERR_INIT;
    cleanup_free char *path = xasprintf("/proc/%d/task/%d/children", client, client);
    cleanup_free char *text = file_read(path, 4096, NULL, &e);
    return text ? (pid_t)atoi(text) : 0;
}

/* The plugin and the process that serves, at once: the supervisor has the fd. */
static void test_plugin_and_serving_killed(void **state)
{
    (void)state;
    cleanup_free char *a = in(pod_a, "file"), *third = in(env->dir, "kubelet/pods/c"),
                      *c = in(third, "file");
    struct reader *r = reader_start(a);
    reader_goes_on(r);
    for (int i = 0; i < 3; i++) {
        pid_t serving = serving_process();
        assert_true(serving > 0);
        kill(plugin, SIGKILL);
        kill(serving, SIGKILL);
        waitpid(plugin, NULL, 0);
        reader_goes_on(r); /* there is no plugin */
        start_plugin();
        assert_int_equal(publish(third, READER, true), GRPC_STATUS_OK);
        assert_int_equal(reader_once(c), 0);
        assert_int_equal(unpublish(DATASET_UID, third), GRPC_STATUS_OK);
        reader_goes_on(r);
    }
    reader_end(r);
}

static int mounts_at(const char *path)
{
    struct err e = ERR_INIT;
    cleanup_mountinfo struct mountinfo all;
    int n = 0;
    assert_int_equal(mountinfo_read(&all, &e), 0);
    for (size_t i = 0; i < all.n; i++)
        n += strcmp(all.entries[i].point, path) == 0;
    return n;
}

/* The plugin and the whole client, at once: nobody has the fd. Pods of before have lost their
 * mount, and are told; what is published now works, also where a dead mount is. */
static void test_plugin_and_client_killed(void **state)
{
    (void)state;
    cleanup_free char *a = in(pod_a, "file"), *b = in(pod_b, "file");
    kill(plugin, SIGKILL);
    kill(-client, SIGKILL);
    waitpid(plugin, NULL, 0);
    waitpid(client, NULL, 0);
    int64_t began = clock_mono_ns();
    start_plugin();
    start_client();
    assert_int_equal(publish(pod_a, READER, true), GRPC_STATUS_OK);
    assert_int_equal(reader_once(a), 0);
    int64_t took = clock_mono_ns() - began;
    print_message("# served again after %d ms\n", (int)(took / NS_PER_MS));
    assert_true(took < 20 * NS_PER_S); /* the aim is 10 s; this is a test machine */
    assert_int_equal(reader_once(b), ENOTCONN);
    cleanup_free char *lost = condition_becomes(pod_b, true);
    assert_non_null(strstr(lost, "restart the pod"));
    assert_int_equal(publish(pod_b, READER, false), GRPC_STATUS_OK);
    assert_int_equal(reader_once(b), 0);
    assert_int_equal(mounts_at(staging), 1);
    assert_int_equal(mounts_at(pod_a), 1);
    assert_int_equal(mounts_at(pod_b), 1);
}

/* A mount that no pod has any more does not wait for a client as one that pods read does. */
static void test_unused_is_aborted(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct statfs fs;
    assert_int_equal(unpublish(DATASET_UID, pod_a), GRPC_STATUS_OK);
    assert_int_equal(unpublish(DATASET_UID, pod_b), GRPC_STATUS_OK);
    end_process(&client, SIGKILL);
    int64_t until = clock_mono_ns() + 30 * NS_PER_S; /* half of --abandon-after */
    while (mount_statfs(staging, clock_mono_ns() + NS_PER_S, &fs, &e) == 0 || e.sys != ENOTCONN)
        assert_true(clock_mono_ns() < until);
    start_client();
    assert_int_equal(publish(pod_a, READER, true), GRPC_STATUS_OK);
    assert_int_equal(publish(pod_b, READER, false), GRPC_STATUS_OK);
    cleanup_free char *b = in(pod_b, "file");
    assert_int_equal(reader_once(b), 0);
}

static void reader_is_refused(const char *file)
{
    int64_t until = clock_mono_ns() + PATIENT_MS * NS_PER_MS;
    while (reader_once(file) == 0)
        assert_true(clock_mono_ns() < until);
}

/* A client that cannot take its mount over, and one that hangs: the mount is aborted, and the same
 * client, let be, serves the next pods. */
static void test_cannot_resume(void **state)
{
    (void)state;
    cleanup_free char *a = in(pod_a, "file"), *b = in(pod_b, "file"),
                      *index = in(inline_client, VOLUME_CACHE "/index");
    for (int hangs = 0; hangs < 2; hangs++) {
        end_process(&plugin, SIGTERM);
        abandon_after = hangs ? "5s" : "600s"; /* one that says so need not be waited for */
        start_plugin();
        cleanup_free char *normal = condition_becomes(pod_b, false);
        assert_string_equal(normal, "");
        if (hangs) {
            kill(-client, SIGSTOP);
        } else {
            end_process(&client, SIGKILL);
            int fd = open(index, O_WRONLY | O_CLOEXEC);
            uint32_t version = 99; /* behind magic and identity */
            assert_true(fd >= 0);
            assert_int_equal(pwrite(fd, &version, sizeof version, 16), sizeof version);
            close(fd);
            start_client();
        }
        reader_is_refused(a);
        if (hangs)
            kill(-client, SIGCONT);
        assert_int_equal(publish(pod_a, READER, true), GRPC_STATUS_OK);
        assert_int_equal(reader_once(a), 0);
        assert_int_equal(publish(pod_b, READER, false), GRPC_STATUS_OK);
        assert_int_equal(reader_once(b), 0);
        assert_int_equal(mounts_at(staging), 1);
    }
}

static void test_leaves_nothing(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_int_equal(unpublish(DATASET_UID, pod_a), GRPC_STATUS_OK);
    assert_int_equal(unpublish(DATASET_UID, pod_a), GRPC_STATUS_OK);
    assert_int_equal(unpublish(DATASET_UID, pod_b), GRPC_STATUS_OK);
    assert_int_equal(access(pod_a, F_OK), -1);
    assert_int_equal(unstage(), GRPC_STATUS_OK);
    assert_int_equal(unstage(), GRPC_STATUS_OK);
    assert_int_equal(mount_at(staging, NULL, NULL, NULL, &e), 0);
    /* the next pod on this node, before the client has gone */
    assert_int_equal(stage(PATIENT_MS), GRPC_STATUS_OK);
    assert_int_equal(publish(pod_a, READER, true), GRPC_STATUS_OK);
    cleanup_free char *a = in(pod_a, "file");
    assert_int_equal(reader_once(a), 0);
    assert_int_equal(unpublish(DATASET_UID, pod_a), GRPC_STATUS_OK);
    assert_int_equal(unstage(), GRPC_STATUS_OK);
    end_process(&client, SIGTERM);
    assert_int_equal(unpublish("csi-client", inline_client), GRPC_STATUS_OK);
    assert_int_equal(unpublish("csi-worker", inline_worker), GRPC_STATUS_OK);
    kill(plugin, SIGTERM);
    int status = 0;
    assert_int_equal(waitpid(plugin, &status, 0), plugin);
    plugin = 0;
    assert_int_equal(status, 0);
    assert_int_equal(access(root, F_OK), -1);
    assert_int_equal(access(reg_sock, F_OK), -1);
    cleanup_free char *kubelets = in(kubelet, "plugins/kubernetes.io/csi/" NAME_DRIVER);
    assert_int_equal(rmdir(staging), 0);
    assert_int_equal(access(kubelets, F_OK), 0); /* was not empty yet */
}

static int setup(void **state)
{
    struct err e = ERR_INIT;
    if (csi_env_setup(state))
        return -1;
    env = *state;
    kubelet = in(env->dir, "kubelet");
    root = in(kubelet, "plugins/" NAME_DRIVER);
    csi_sock = in(root, "csi.sock");
    reg_sock = in(kubelet, "plugins_registry/" NAME_DRIVER "-reg.sock");
    data = in(env->dir, "data");
    staging = in(kubelet, "plugins/kubernetes.io/csi/" NAME_DRIVER "/hash/globalmount");
    pod_a = in(kubelet, "pods/a");
    pod_b = in(kubelet, "pods/b");
    inline_client = in(kubelet, "pods/client");
    inline_worker = in(kubelet, "pods/worker");
    cleanup_free char *pods = in(kubelet, "pods"), *registry = in(kubelet, "plugins_registry");
    if (chmod(env->dir, 0755) || file_mkdirs(pods, 0755, &e) || file_mkdirs(registry, 0755, &e)
        || file_mkdirs(staging, 0755, &e) || file_mkdirs(data, 0755, &e))
        return -1;
    cleanup_free char *path = in(data, "file");
    reader_data(path);
    start_plugin();
    return 0;
}

static int teardown(void **state)
{
    struct err e = ERR_INIT;
    void *mine = env;
    (void)state;
    char *targets[] = {pod_a, pod_b, inline_client, inline_worker};
    if (plugin)
        end_process(&plugin, SIGKILL);
    if (client)
        end_process(&client, SIGKILL);
    for (size_t i = 0; i < ARRAY_LEN(targets); i++)
        mount_detach(targets[i], &e);
    mount_end_fuse(staging, false, 0, &e);
    grpc_client_free(rpc);
    char **all[] = {&kubelet, &root, &csi_sock, &reg_sock, &data, &staging, &pod_a, &pod_b,
        &inline_client, &inline_worker};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(*all[i]);
    return csi_env_teardown(&mine);
}

int main(void)
{
    if (!csi_env_can_mount()) {
        puts("1..0 # SKIP needs root and /dev/fuse");
        return 77;
    }
    csi_env_private_mounts();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_registers),
        cmocka_unit_test(test_refuses), cmocka_unit_test(test_inline_volumes),
        cmocka_unit_test(test_reads), cmocka_unit_test(test_killed),
        cmocka_unit_test(test_replaced), cmocka_unit_test(test_plugin_and_serving_killed),
        cmocka_unit_test(test_plugin_and_client_killed), cmocka_unit_test(test_unused_is_aborted),
        cmocka_unit_test(test_cannot_resume), cmocka_unit_test(test_leaves_nothing)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
