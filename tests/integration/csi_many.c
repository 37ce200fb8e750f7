/* SPDX-License-Identifier: Apache-2.0 */
/* Many volumes on one node: 16 callers stage, publish, unpublish and unstage 200 volumes at random,
 * and repeat what fails as kubelet does, while the plugin is killed again and again. In the end
 * exactly what was asked for is mounted, and then nothing at all. MANY_SECONDS: how long; 10. */
#include "tests/integration/csi_calls.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/mountinfo.h"
#include "lib/base/names.h"
#include "tests/unit/csi/csi_env.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define VOLUMES 200
#define CALLERS 16
/* Half of the NodePublish calls: the goal is 20 ms, of a release on a machine that is not busy.
 * Under sanitizers, beside all other tests, only what hangs is found. */
#define PUBLISH_NS         (20 * NS_PER_MS)
#define PUBLISH_CHECKED_NS (5 * NS_PER_S)

static struct csi_env *env;
static char *kubelet, *root, *sock;
static atomic_int plugin, failures;
static atomic_bool over;
static struct csi_times publishes;

static struct one {
    pthread_mutex_t mu;
    struct csi_volume v;
    bool staged, published; /* mu */
} all[VOLUMES];

struct caller { /* one thread's */
    struct csi_caller rpc;
    unsigned seed;
    pthread_t thread;
};

static void end_plugin(int sig, int *status)
{
    kill(plugin, sig);
    assert_int_equal(waitpid(plugin, status, 0), plugin);
}

static bool ok(bool done)
{
    failures += !done;
    return done;
}

/* Until it is as it shall be. */
static void bring(struct caller *c, struct one *v, bool staged, bool published)
{
    if (v->published && !published && ok(csi_unpublish(&c->rpc, &v->v)))
        v->published = false;
    if (v->staged && !staged && ok(csi_unstage(&c->rpc, &v->v)))
        v->staged = false;
    if (!v->staged && staged && ok(csi_stage(&c->rpc, &v->v)))
        v->staged = true;
    if (v->staged && !v->published && published && ok(csi_publish(&c->rpc, &v->v)))
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

static void one_client(struct caller *c, int i)
{
    struct one *v = &all[i];
    pthread_mutex_init(&v->mu, NULL);
    csi_volume_init(&v->v, kubelet, env->dir, i);
    assert_true(csi_publish_inline(&c->rpc, &v->v));
    csi_start_client(&v->v);
}

static void check_all(void)
{
    int want = VOLUMES;
    for (int i = 0; i < VOLUMES; i++) {
        struct one *v = &all[i];
        cleanup_free char *file = path_join(v->v.target, "f");
        struct stat st;
        want += v->staged + v->published;
        if (v->published)
            assert_int_equal(stat(file, &st), 0);
    }
    assert_int_equal(mounts_below(env->dir), want);
}

/* One volume comes and goes, so that the plugin has all that it keeps. */
static void warm_up(struct caller *c)
{
    one_client(c, 0);
    bring(c, &all[0], true, true);
    bring(c, &all[0], false, false);
    csi_end_client(&all[0].v);
    assert_true(csi_unpublish_inline(&c->rpc, &all[0].v));
    assert_int_equal(rmdir(all[0].v.staging), 0);
    csi_volume_free(&all[0].v);
}

static int kill_it_for(int64_t ns, struct caller *callers)
{
    unsigned seed = 1;
    int kills = 0;
    int64_t until = clock_mono_ns() + ns;
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&callers[i].thread, NULL, caller_thread, &callers[i]), 0);
    while (clock_mono_ns() < until && !failures) {
        clock_sleep_ns((500 + rand_r(&seed) % 3000) * NS_PER_MS);
        end_plugin(SIGKILL, NULL);
        plugin = csi_start_plugin(kubelet, NULL);
        kills++;
    }
    over = true;
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i].thread, NULL);
    return kills;
}

static void test_many(void **state)
{
    (void)state;
    const char *seconds = getenv("MANY_SECONDS");
    struct caller callers[CALLERS];
    int status;
    plugin = csi_start_plugin(kubelet, NULL);
    for (int i = 0; i < CALLERS; i++) {
        callers[i].seed = (unsigned)i + 100;
        csi_caller_open(&callers[i].rpc, sock);
    }
    warm_up(&callers[0]);
    int fds = csi_count_of(plugin, "fd"), threads = csi_count_of(plugin, "task");
    for (int i = 0; i < VOLUMES; i++)
        one_client(&callers[0], i);
    for (int i = 0; i < CALLERS; i++)
        callers[i].rpc.publishes = &publishes;
    int kills = kill_it_for((seconds ? atoi(seconds) : 10) * NS_PER_S, callers);
    assert_int_equal(failures, 0);
    int64_t p50 = csi_times_percentile(&publishes, 50), p99 = csi_times_percentile(&publishes, 99);
    print_message("# plugin killed %d times; %d NodePublish, p50 %.1f ms, p99 %.1f ms\n", kills,
        (int)publishes.n, (double)p50 / 1e6, (double)p99 / 1e6);
    check_all();
    for (int i = 0; i < VOLUMES; i++)
        bring(&callers[0], &all[i], false, false);
    for (int i = 0; i < VOLUMES; i++) {
        csi_end_client(&all[i].v);
        assert_true(csi_unpublish_inline(&callers[0].rpc, &all[i].v));
    }
    assert_int_equal(mounts_below(env->dir), 0);
    for (int i = 1; i < CALLERS; i++)
        csi_caller_close(&callers[i].rpc);
    print_message(
        "# plugin with no volume: %d descriptors and %d threads before, %d and %d after\n", fds,
        threads, csi_count_of(plugin, "fd"), csi_count_of(plugin, "task"));
    /* threads that answer calls are as many as there were callers; volumes leave none */
    eventually(
        csi_count_of(plugin, "fd") <= fds && csi_count_of(plugin, "task") <= threads + 2 * CALLERS);
    end_plugin(SIGTERM, &status);
    assert_int_equal(status, 0);
    assert_int_equal(access(root, F_OK), -1); /* no record, no directory */
    csi_caller_close(&callers[0].rpc);
    for (int i = 0; i < VOLUMES; i++)
        csi_volume_free(&all[i].v);
    assert_true(p50 < (csi_plugin_is_checked() ? PUBLISH_CHECKED_NS : PUBLISH_NS));
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
