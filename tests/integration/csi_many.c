/* SPDX-License-Identifier: Apache-2.0 */
/* Many volumes on one node: 16 callers stage, publish, unpublish and unstage 200 volumes at random,
 * and repeat what fails as kubelet does, while the plugin is killed again and again. In the end
 * exactly what was asked for is mounted, and then nothing at all. MANY_SECONDS: how long; 10. */
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

#include <grpc/status.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define VOLUMES    200
#define CALLERS    16
#define PATIENT_NS (120 * NS_PER_S) /* for one step to succeed at last */
#define CALL_MS    20000
#define TIMES_MAX  100000
#define MODE       CSI__VOLUME_CAPABILITY__ACCESS_MODE__MODE__MULTI_NODE_MULTI_WRITER

extern char **environ;

static struct csi_env *env;
static char *kubelet, *root, *sock;
static atomic_int plugin, ntimes, failures;
static atomic_bool over;
static int64_t times[TIMES_MAX];

static struct one {
    pthread_mutex_t mu;
    char uid[64], inline_id[64];
    char *dir, *staging, *target; /* dir: of its client */
    bool staged, published;       /* mu */
    pid_t client;
} all[VOLUMES];

struct caller { /* one thread's */
    struct grpc_client *rpc;
    unsigned seed;
    pthread_t thread;
};

static void start_plugin(void)
{
    char *argv[] = {(char *)MILLRACE_CSI, (char *)"--node-id", (char *)"node-1",
        (char *)"--kubelet-dir", kubelet, (char *)"--http", (char *)"", (char *)"--metrics",
        (char *)"127.0.0.1:0", NULL};
    pid_t pid;
    assert_int_equal(posix_spawn(&pid, MILLRACE_CSI, NULL, NULL, argv, environ), 0);
    plugin = pid;
}

static void end_plugin(int sig, int *status)
{
    kill(plugin, sig);
    assert_int_equal(waitpid(plugin, status, 0), plugin);
}

/* Kubelet's way: until it succeeds. False: it never did. */
static bool until_ok(struct caller *c, const char *method, const ProtobufCMessage *req,
    const ProtobufCMessageDescriptor *out)
{
    cleanup_free char *path = xasprintf("/csi.v1.Node/%s", method);
    char why[512] = "";
    int64_t began = clock_mono_ns();
    while (clock_mono_ns() < began + PATIENT_NS) {
        ProtobufCMessage *answer = NULL;
        int64_t start = clock_mono_ns();
        int status = grpc_client_call(c->rpc, path, req, out, &answer, CALL_MS, why);
        int64_t took = clock_mono_ns() - start;
        if (answer)
            protobuf_c_message_free_unpacked(answer, NULL);
        if (status == GRPC_STATUS_OK) {
            int at = strcmp(method, "NodePublishVolume") ? TIMES_MAX : atomic_fetch_add(&ntimes, 1);
            if (at < TIMES_MAX)
                times[at] = took;
            return true;
        }
        grpc_client_free(c->rpc);
        clock_sleep_ns(50 * NS_PER_MS);
        c->rpc = grpc_client_new(sock);
    }
    fprintf(stderr, "%s: %s\n", method, why);
    failures++;
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

static void of_dataset(struct context *c, const struct one *v)
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

static bool stage(struct caller *c, struct one *v)
{
    struct context x;
    struct capability cap;
    Csi__NodeStageVolumeRequest r = CSI__NODE_STAGE_VOLUME_REQUEST__INIT;
    of_dataset(&x, v);
    r.volume_id = v->uid;
    r.staging_target_path = v->staging;
    r.volume_capability = capability(&cap);
    r.volume_context = x.list;
    r.n_volume_context = x.n;
    return until_ok(c, "NodeStageVolume", &r.base, &csi__node_stage_volume_response__descriptor);
}

static bool publish(struct caller *c, struct one *v, bool is_inline)
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
    r.volume_id = is_inline ? v->inline_id : v->uid;
    r.target_path = is_inline ? v->dir : v->target;
    r.volume_capability = capability(&cap);
    r.volume_context = x.list;
    r.n_volume_context = x.n;
    return until_ok(
        c, "NodePublishVolume", &r.base, &csi__node_publish_volume_response__descriptor);
}

static bool unpublish(struct caller *c, const char *id, const char *target)
{
    Csi__NodeUnpublishVolumeRequest r = CSI__NODE_UNPUBLISH_VOLUME_REQUEST__INIT;
    r.volume_id = (char *)id;
    r.target_path = (char *)target;
    return until_ok(
        c, "NodeUnpublishVolume", &r.base, &csi__node_unpublish_volume_response__descriptor);
}

static bool unstage(struct caller *c, const struct one *v)
{
    Csi__NodeUnstageVolumeRequest r = CSI__NODE_UNSTAGE_VOLUME_REQUEST__INIT;
    r.volume_id = (char *)v->uid;
    r.staging_target_path = v->staging;
    return until_ok(
        c, "NodeUnstageVolume", &r.base, &csi__node_unstage_volume_response__descriptor);
}

/* Until it is as it shall be. */
static void bring(struct caller *c, struct one *v, bool staged, bool published)
{
    if (v->published && !published && unpublish(c, v->uid, v->target))
        v->published = false;
    if (v->staged && !staged && unstage(c, v))
        v->staged = false;
    if (!v->staged && staged && stage(c, v))
        v->staged = true;
    if (v->staged && !v->published && published && publish(c, v, false))
        v->published = true;
}

static void *caller_thread(void *arg)
{
    struct caller *c = arg;
    while (!over && !failures) {
        struct one *v = &all[rand_r(&c->seed) % VOLUMES];
        if (pthread_mutex_trylock(&v->mu))
            continue;
        int want = rand_r(&c->seed) % 3;
        bring(c, v, want > 0, want > 1);
        pthread_mutex_unlock(&v->mu);
    }
    return NULL;
}

static void start_client(struct one *v)
{
    cleanup_free char *s = path_join(v->dir, VOLUME_SOCKET),
                      *cache = path_join(v->dir, VOLUME_CACHE);
    char *argv[] = {(char *)FAKE_CLIENT, (char *)"--socket", s, (char *)"--cache-dir", cache, NULL};
    assert_int_equal(posix_spawn(&v->client, FAKE_CLIENT, NULL, NULL, argv, environ), 0);
}

static int mounts_below(const char *dir)
{
    struct err e = ERR_INIT;
    cleanup_mountinfo struct mountinfo m;
    int n = 0;
    assert_int_equal(mountinfo_read(&m, &e), 0);
    for (size_t i = 0; i < m.n; i++)
        n += strncmp(m.entries[i].point, dir, strlen(dir)) == 0;
    return n;
}

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void one_client(struct caller *c, int i)
{
    struct one *v = &all[i];
    pthread_mutex_init(&v->mu, NULL);
    snprintf(v->uid, sizeof v->uid, "0b2c7a9e-1f7d-4f0e-9a0a-%012d", i);
    snprintf(v->inline_id, sizeof v->inline_id, "csi-%d", i);
    v->dir = xasprintf("%s/pods/client-%d", kubelet, i);
    v->staging = xasprintf("%s/staging-%d", env->dir, i);
    v->target = xasprintf("%s/pods/pod-%d", kubelet, i);
    assert_int_equal(mkdir(v->staging, 0755), 0);
    assert_true(publish(c, v, true));
    start_client(v);
}

static void check_all(void)
{
    int want = VOLUMES;
    for (int i = 0; i < VOLUMES; i++) {
        struct one *v = &all[i];
        cleanup_free char *file = path_join(v->target, "f");
        struct stat st;
        want += v->staged + v->published;
        if (v->published)
            assert_int_equal(stat(file, &st), 0);
    }
    assert_int_equal(mounts_below(env->dir), want);
}

static void test_many(void **state)
{
    (void)state;
    const char *seconds = getenv("MANY_SECONDS");
    int64_t until;
    struct caller callers[CALLERS];
    unsigned seed = 1;
    int kills = 0, status;
    start_plugin();
    for (int i = 0; i < CALLERS; i++)
        callers[i] = (struct caller){.rpc = grpc_client_new(sock), .seed = (unsigned)i + 100};
    for (int i = 0; i < VOLUMES; i++)
        one_client(&callers[0], i);
    ntimes = 0;
    until = clock_mono_ns() + (seconds ? atoi(seconds) : 10) * NS_PER_S;
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&callers[i].thread, NULL, caller_thread, &callers[i]), 0);
    while (clock_mono_ns() < until && !failures) {
        clock_sleep_ns((500 + rand_r(&seed) % 3000) * NS_PER_MS);
        end_plugin(SIGKILL, NULL);
        start_plugin();
        kills++;
    }
    over = true;
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i].thread, NULL);
    assert_int_equal(failures, 0);
    int n = MIN(ntimes, TIMES_MAX);
    assert_true(n > 0);
    qsort(times, (size_t)n, sizeof *times, compare_times);
    print_message("# plugin killed %d times; %d NodePublish, p50 %.1f ms, p99 %.1f ms\n", kills, n,
        (double)times[n / 2] / 1e6, (double)times[n * 99 / 100] / 1e6);
    check_all();
    for (int i = 0; i < VOLUMES; i++)
        bring(&callers[0], &all[i], false, false);
    for (int i = 0; i < VOLUMES; i++) {
        kill(all[i].client, SIGKILL);
        waitpid(all[i].client, NULL, 0);
        assert_true(unpublish(&callers[0], all[i].inline_id, all[i].dir));
    }
    assert_int_equal(mounts_below(env->dir), 0);
    end_plugin(SIGTERM, &status);
    assert_int_equal(status, 0);
    assert_int_equal(access(root, F_OK), -1); /* no record, no directory */
    for (int i = 0; i < CALLERS; i++)
        grpc_client_free(callers[i].rpc);
    for (int i = 0; i < VOLUMES; i++) {
        free(all[i].dir);
        free(all[i].staging);
        free(all[i].target);
    }
}

static int setup(void **state)
{
    struct err e = ERR_INIT;
    if (csi_env_setup(state))
        return -1;
    env = *state;
    kubelet = path_join(env->dir, "kubelet");
    root = path_join(kubelet, "plugins/" NAME_DRIVER);
    sock = path_join(root, "csi.sock");
    setenv("FAKE_DIE_WITH_PARENT", "1", 1);
    cleanup_free char *pods = path_join(kubelet, "pods"),
                      *registry = path_join(kubelet, "plugins_registry");
    return file_mkdirs(pods, 0755, &e) || file_mkdirs(registry, 0755, &e) ? -1 : 0;
}

static int teardown(void **state)
{
    free(kubelet);
    free(root);
    free(sock);
    return csi_env_teardown(state);
}

int main(void)
{
    if (!csi_env_can_mount()) {
        puts("1..0 # SKIP needs root and /dev/fuse");
        return 77;
    }
    csi_env_private_mounts();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
