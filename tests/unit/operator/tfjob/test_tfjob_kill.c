/* SPDX-License-Identifier: Apache-2.0 */
/* The operator is killed at one of its writes, before the API server does it or after, again and
 * again while JOBS jobs run whose pods fail now and then. However often: no index runs once more
 * than it failed, no failure and no end is forgotten, every job ends. MILLRACE_KILLS (60) kills
 * from MILLRACE_RANDOM_SEED (1) on; MILLRACE_OPERATOR is the program. */
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "operator/api/cond.h"
#include "operator/api/tfjob.h"
#include "tests/fake/api.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS        50 /* that have not ended, while there are kills to come */
#define JOBS_MAX    2000
#define WORKERS     2
#define WRITES_MAX  8 /* the operator dies at one of its first writes */
#define PATIENCE_NS (240 * NS_PER_S)

struct index {
    int left; /* failures to come */
    int failed, runs;
    bool succeeded;
};
struct job {
    struct index index[WORKERS];
    bool over;
};

static struct fake_api *api;
static struct kube *kubelet; /* our own client */
static char dir[64];
static struct job jobs[JOBS_MAX];
static int njobs, nover, kills;
static uint64_t dice = 1;
static atomic_int victim;    /* process id; 0: nobody */
static atomic_int countdown; /* its writes until it is killed; < 0: it is not */

static int roll(int n)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (int)((dice >> 33) % (unsigned)n);
}

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

/* On a thread of the server. Events are no part of the memory: nobody has to survive at them. */
static enum fake_verdict judge(
    void *user, const char *method, const char *target, const char *agent)
{
    (void)user;
    (void)method;
    if (strncmp(agent, "millrace-operator/", 18) || strstr(target, "/events")
        || atomic_fetch_sub(&countdown, 1) != 1)
        return FAKE_DO;
    kill(atomic_load(&victim), SIGKILL);
    return clock_mono_ns() & 1024 ? FAKE_DROP : FAKE_DO_AND_DROP;
}

/* ---- the operator ---- */

static void start(bool to_be_killed)
{
    static int serial;
    cleanup_free char *config = path_join(dir, "kubeconfig"),
                      *log = xasprintf("%s/log.%d", dir, serial++ % 2);
    const char *program = getenv("MILLRACE_OPERATOR");
    assert_non_null(program);
    atomic_store(&countdown, to_be_killed ? 1 + roll(WRITES_MAX) : -1);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(log, O_CREAT | O_WRONLY | O_TRUNC, 0600);
        dup2(fd, 1);
        dup2(fd, 2);
        execl(program, program, "--kubeconfig", config, "--http", "", "--metrics", "", NULL);
        _exit(127);
    }
    atomic_store(&victim, pid);
}

static void look_after_operator(int wanted)
{
    int status;
    pid_t pid = atomic_load(&victim);
    if (pid && waitpid(pid, &status, WNOHANG) == 0) {
        /* the last write of the one before may have come late, and taken this one's turn */
        if (kills < wanted && atomic_load(&countdown) < 0)
            atomic_store(&countdown, 1 + roll(WRITES_MAX));
        return;
    }
    if (pid) {
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
            cleanup_free char *a = xasprintf("%s/log.0", dir), *b = xasprintf("%s/log.1", dir);
            cleanup_free char *x = file_read(a, 1 << 20, NULL, NULL),
                              *y = file_read(b, 1 << 20, NULL, NULL);
            fail_msg("the operator ended by itself, status %#x:\n%s\n%s", (unsigned)status,
                x ? x : "", y ? y : "");
        }
        kills++;
    }
    start(kills < wanted);
}

/* ---- jobs and their pods ---- */

static void submit(void)
{
    cleanup_free char *name = xasprintf("j%d", njobs);
    for (int i = 0; i < WORKERS; i++) {
        int what = roll(20);
        jobs[njobs].index[i].left = what < 12 ? 0 : what < 19 ? 1 : 2;
    }
    njobs++;
    fake_api_put(api, &kube_tfjobs,
        json_pack("{s:s s:s s:{s:s s:s} s:{s:s s:{s:{s:i s:s s:{s:{s:[{s:s s:s}]}}}}}}",
            "apiVersion", "kubeflow.org/v1", "kind", "TFJob", "metadata", "name", name, "namespace",
            "ns", "spec", "successPolicy", "AllWorkers", "tfReplicaSpecs", "Worker", "replicas",
            WORKERS, "restartPolicy", "ExitCode", "template", "spec", "containers", "name",
            "tensorflow", "image", "none"));
}

/* False: the pod is another one by now, or gone. */
static bool patch(const json_t *pod, json_t *patch_take, const char *sub)
{
    struct err e = ERR_INIT;
    cleanup_json json_t *p = patch_take;
    json_object_set_new(p, "metadata", json_pack("{s:s}", "uid", kube_uid(pod)));
    return kube_patch(kubelet, &kube_pods, "ns", kube_name(pod), sub, KUBE_PATCH_MERGE, p, NULL, &e)
        == 0;
}

static json_t *status(const char *phase, int code)
{
    char now[CLOCK_RFC3339_LEN];
    clock_rfc3339(clock_real_ns(), now);
    json_t *state = code < 0 ? json_pack("{s:{s:s}}", "running", "startedAt", now)
                             : json_pack("{s:{s:i s:s s:s}}", "terminated", "exitCode", code,
                                 "startedAt", now, "finishedAt", now);
    return json_pack("{s:{s:s s:[{s:s s:i s:o}]}}", "status", "phase", phase, "containerStatuses",
        "name", "tensorflow", "restartCount", 0, "state", state);
}

static int run_pod(void *user, json_t *pod_take)
{
    (void)user;
    cleanup_json json_t *pod = pod_take;
    int job, i;
    if (sscanf(kube_name(pod), "j%d-worker-%d", &job, &i) != 2 || job >= njobs || i >= WORKERS)
        fail_msg("what is pod %s?", kube_name(pod));
    struct index *x = &jobs[job].index[i];
    const char *phase = jget_str(pod, "status.phase", "");
    if (!*phase && roll(2) && patch(pod, status("Running", -1), "status")) {
        x->runs++;
        if (x->succeeded || x->runs > x->failed + 1)
            fail_msg("%s runs for the %d. time; it failed %d times%s", kube_name(pod), x->runs,
                x->failed, x->succeeded ? ", then succeeded" : "");
    } else if (!strcmp(phase, "Running") && roll(2)
        && patch(pod, x->left ? status("Failed", 130) : status("Succeeded", 0), "status")) {
        x->failed += x->left > 0;
        x->succeeded = x->left == 0;
        x->left -= x->left > 0;
    }
    return 0;
}

/* A job that has succeeded has forgotten nothing; it is taken away, so that the server has no more
 * to do than is needed. */
static void check_memory(int job, const json_t *cr)
{
    cleanup_tfjob_status struct tfjob_status s;
    tfjob_status_read(cr, &s);
    for (int i = 0; i < WORKERS; i++) {
        const struct index *x = &jobs[job].index[i];
        assert_true(tfjob_completed(&s.indexes[TFJOB_WORKER], (size_t)i));
        assert_int_equal(tfjob_restarts(&s.indexes[TFJOB_WORKER], (size_t)i), x->failed);
        assert_int_equal(x->runs, x->failed + 1);
        cleanup_free char *child = xasprintf(
            "%s/%s-worker-%d", kube_namespace(cr), kube_name(cr), i);
        fake_api_remove(api, &kube_pods, child);
        fake_api_remove(api, &kube_services, child);
    }
    cleanup_free char *key = kube_key_of(cr);
    fake_api_remove(api, &kube_tfjobs, key);
}

static bool look_at(int job)
{
    cleanup_free char *key = xasprintf("ns/j%d", job);
    cleanup_json json_t *cr = fake_api_get(api, &kube_tfjobs, key);
    assert_non_null(cr);
    const json_t *conditions = jget_arr(cr, "status.conditions");
    if (cond_is_true(conditions, "Failed"))
        fail_msg("%s has failed: %s", key, cond_message(conditions, "Failed"));
    if (!cond_is_true(conditions, "Succeeded"))
        return false;
    check_memory(job, cr);
    nover++;
    return jobs[job].over = true;
}

static void nothing_is_lost(void **state)
{
    (void)state;
    int wanted = setting("MILLRACE_KILLS", 60);
    for (int64_t until = clock_mono_ns() + PATIENCE_NS; kills < wanted || nover < njobs;) {
        while (kills < wanted && njobs - nover < JOBS && njobs < JOBS_MAX)
            submit();
        look_after_operator(wanted);
        struct err e = ERR_INIT;
        cleanup_free char *version = NULL;
        if (kube_list(kubelet, &kube_pods, "ns", NULL, 0, run_pod, NULL, &version, &e))
            fail_msg("%s", e.msg);
        for (int job = 0; job < njobs; job++)
            if (!jobs[job].over && look_at(job))
                until = clock_mono_ns() + PATIENCE_NS;
        if (clock_mono_ns() > until)
            fail_msg("%d of %d jobs never end", njobs - nover, njobs);
        clock_sleep_ns(10 * NS_PER_MS);
    }
    print_message("%d kills, %d jobs\n", kills, njobs);
}

static int setup(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    strcpy(dir, "/tmp/test_tfjob_kill.XXXXXX");
    dice = (uint64_t)setting("MILLRACE_RANDOM_SEED", 1) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    api = fake_api_start();
    fake_api_put(api, &kube_secrets,
        json_pack("{s:{s:s, s:s}}", "metadata", "name", NAME_MASTER_KEY, "namespace", "default"));
    fake_api_judge(api, judge, NULL);
    kubelet = fake_api_client(api);
    if (!mkdtemp(dir))
        return -1;
    cleanup_free char *path = path_join(dir, "kubeconfig"), *text = fake_api_kubeconfig(api);
    return file_write_atomic(path, text, strlen(text), 0600, &e);
}

static int teardown(void **state)
{
    (void)state;
    pid_t pid = atomic_load(&victim);
    if (pid) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    kube_free(kubelet);
    fake_api_stop(api);
    return file_remove_tree(dir, NULL);
}

int main(void)
{
    log_init("test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_lost, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
