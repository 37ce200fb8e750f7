/* SPDX-License-Identifier: Apache-2.0 */
/* Many volumes of one node wait for clients that never come, as somebody may bring about who makes
 * many Datasets: the volumes of others do not wait with them. */
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "tests/fake/grpc_client.h"
#include "tests/unit/csi/csi_env.h"

#include "csi/proto/csi.pb-c.h"

#include <grpc/status.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAITING   100   /* about as many pods as a node may have */
#define CROWD_MS  20000 /* for these */
#define OTHERS_MS 10000 /* for another volume, while all of these wait */

extern char **environ;

static char *dir, *sock;

static void *wait_for_client(void *arg)
{
    char why[512], *id = arg;
    cleanup_free char *staging = path_join(dir, id);
    struct grpc_client *rpc = grpc_client_new(sock);
    ProtobufCMessage *answer = NULL;
    Csi__Pair pairs[] = {CSI__PAIR__INIT, CSI__PAIR__INIT, CSI__PAIR__INIT},
              *list[] = {&pairs[0], &pairs[1], &pairs[2]};
    const char *texts[][2] = {
        {VOL_DATASET_NAMESPACE, "team-a"}, {VOL_DATASET_NAME, "many"}, {VOL_DATASET_UID, id}};
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        pairs[i].key = (char *)texts[i][0];
        pairs[i].value = (char *)texts[i][1];
    }
    Csi__VolumeCapability c = CSI__VOLUME_CAPABILITY__INIT;
    Csi__VolumeCapability__MountVolume mount = CSI__VOLUME_CAPABILITY__MOUNT_VOLUME__INIT;
    Csi__VolumeCapability__AccessMode mode = CSI__VOLUME_CAPABILITY__ACCESS_MODE__INIT;
    mode.mode = CSI__VOLUME_CAPABILITY__ACCESS_MODE__MODE__MULTI_NODE_READER_ONLY;
    c.access_type_case = CSI__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
    c.mount = &mount;
    c.access_mode = &mode;
    Csi__NodeStageVolumeRequest r = CSI__NODE_STAGE_VOLUME_REQUEST__INIT;
    r.volume_id = id;
    r.staging_target_path = staging;
    r.volume_capability = &c;
    r.volume_context = list;
    r.n_volume_context = ARRAY_LEN(list);
    int status = grpc_client_call(rpc, "/csi.v1.Node/NodeStageVolume", &r.base,
        &csi__node_stage_volume_response__descriptor, &answer, CROWD_MS, why);
    grpc_client_free(rpc);
    return (void *)(intptr_t)status;
}

/* A volume that is not there any more is unpublished. */
static int other_volume(int ms, char *why)
{
    struct grpc_client *rpc = grpc_client_new(sock);
    cleanup_free char *target = path_join(dir, "target");
    ProtobufCMessage *answer = NULL;
    Csi__NodeUnpublishVolumeRequest r = CSI__NODE_UNPUBLISH_VOLUME_REQUEST__INIT;
    r.volume_id = (char *)"pv-other";
    r.target_path = target;
    int status = grpc_client_call(rpc, "/csi.v1.Node/NodeUnpublishVolume", &r.base,
        &csi__node_unpublish_volume_response__descriptor, &answer, ms, why);
    if (answer)
        protobuf_c_message_free_unpacked(answer, NULL);
    grpc_client_free(rpc);
    return status;
}

static void test_crowd(void **state)
{
    const struct csi_env *env = *state;
    char why[512] = "";
    dir = (char *)env->dir;
    char *argv[] = {(char *)MILLRACE_CSI, (char *)"--node-id", (char *)"node-1",
        (char *)"--kubelet-dir", dir, (char *)"--http", (char *)"", (char *)"--metrics",
        (char *)"127.0.0.1:0", NULL};
    cleanup_free char *registry = path_join(dir, "plugins_registry");
    struct err e = ERR_INIT;
    assert_int_equal(file_mkdirs(registry, 0700, &e), 0);
    sock = path_join(dir, "plugins/" NAME_DRIVER "/csi.sock");
    pid_t pid;
    assert_int_equal(posix_spawn(&pid, MILLRACE_CSI, NULL, NULL, argv, environ), 0);
    eventually(other_volume(OTHERS_MS, why) == GRPC_STATUS_OK);
    pthread_t threads[WAITING];
    char *ids[WAITING];
    for (size_t i = 0; i < WAITING; i++) {
        ids[i] = xasprintf("0b2c7a9e-1f7d-4f0e-9a0a-7a0e8c1d%04zx", i);
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_client, ids[i]), 0);
    }
    int status = GRPC_STATUS_OK;
    /* while they come, and once they are there */
    for (int i = 0; i < 20 && status == GRPC_STATUS_OK; i++) {
        clock_sleep_ns(100 * NS_PER_MS);
        status = other_volume(OTHERS_MS, why);
    }
    for (size_t i = 0; i < WAITING; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_int_not_equal((intptr_t)result, GRPC_STATUS_OK); /* nobody came */
        free(ids[i]);
    }
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    free(sock);
    if (status != GRPC_STATUS_OK)
        fail_msg("another volume waited with them: %d %s", status, why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_crowd, csi_env_setup, csi_env_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
