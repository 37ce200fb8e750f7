/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen pods do what they can to the node plugin over the sockets of their volumes, while two
 * volumes of others are staged, published, unpublished and unstaged over and over: these do not
 * wait, and the plugin stays small and says little. MILLRACE_HOSTILE_SECONDS: how long; 10. */
#include "tests/integration/csi_calls.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/handoff/wire.h"
#include "tests/unit/csi/csi_env.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOSTILE 16
#define HONEST  2
/* What a client says in its life, together with connecting and closing: at least so many of them.
 */
#define LIVES_MIN 1000
#define P99_NS    NS_PER_S
#define RSS_KIB   (64 << 10)
/* with shadow memory, and a quarantine of what was freed */
#define P99_CHECKED_NS  (30 * NS_PER_S)
#define RSS_CHECKED_KIB (768 << 10)
/* Lines of one mount: 20 at once and one a second; and what is said of each once. */
#define LINES_BURST 20
#define LINES_MORE  20

static struct csi_env *env;
static char *kubelet, *sock, *log_file;
static struct csi_volume hostile[HOSTILE], honest[HONEST];
static struct csi_times stages, publishes;
static atomic_bool over;
static atomic_int rounds;

static struct shared { /* with the hostile processes */
    atomic_long lives, messages;
    atomic_bool over;
} * shared;

/* -- the hostile ------------------------------------------------------------------------------ */

static int any_fd(unsigned *seed, const char *cache)
{
    cleanup_free char *path = path_join(cache, "backing");
    int pair[2];
    switch (rand_r(seed) % 5) {
    case 0:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 1:
        return open(cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    case 2: /* one that might be registered */
        return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    case 3:
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
            return -1;
        close(pair[1]);
        return pair[0];
    default:
        return memfd_create("none", MFD_CLOEXEC);
    }
}

static bool tell(int s, enum handoff_type type, const void *payload, size_t len, int fd)
{
    atomic_fetch_add(&shared->messages, 1);
    return handoff_send(s, type, payload, len, fd, NULL) == 0;
}

/* What comes back is not looked at. */
static void drop_answers(int s)
{
    struct handoff_msg m;
    struct pollfd p = {.fd = s, .events = POLLIN};
    int fd = -1;
    while (poll(&p, 1, 0) > 0 && handoff_recv(s, NULL, &m, &fd, NULL) == 1)
        if (fd >= 0)
            close(fd);
}

static void say_anything(int s, unsigned *seed, const char *cache)
{
    const struct handoff_hello hello = {HANDOFF_VERSION, HANDOFF_CAN_PONG};
    static const char why[] = "the store says no";
    int64_t pid = rand_r(seed) % 2 ? getpid() : rand_r(seed) % 400;
    bool goes = rand_r(seed) % 8 == 0 || tell(s, HANDOFF_HELLO, &hello, sizeof hello, -1);
    for (int i = rand_r(seed) % 32; goes && i > 0; i--) {
        cleanup_fd int fd = rand_r(seed) % 3 == 0 ? any_fd(seed, cache) : -1;
        switch (rand_r(seed) % 64) {
        case 0: /* after it the plugin waits for who stages the volume */
            goes = tell(s, HANDOFF_RETURN_FD, NULL, 0, fd);
            break;
        case 1 ... 12:
            goes = tell(s, HANDOFF_FAILED, why, sizeof why - 1, fd);
            break;
        case 13 ... 24:
            goes = tell(s, HANDOFF_BACKING_OPEN, NULL, 0, fd);
            break;
        case 25 ... 36:
            goes = tell(s, HANDOFF_BACKING_CLOSE, &pid, sizeof pid, fd);
            break;
        case 37 ... 48: /* of no type, of any length */
            goes = tell(s, (enum handoff_type)(rand_r(seed) % 99), kubelet,
                (size_t)rand_r(seed) % strlen(kubelet), fd);
            break;
        default:
            goes = tell(s, HANDOFF_WHO, &pid, sizeof pid, fd);
        }
        drop_answers(s);
    }
}

static void hostile_process(const struct csi_volume *v, unsigned seed)
{
    cleanup_free char *path = path_join(v->dir, VOLUME_SOCKET),
                      *cache = path_join(v->dir, VOLUME_CACHE);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    while (!atomic_load(&shared->over)) {
        int s = handoff_connect(path, NULL);
        if (s < 0) {
            clock_sleep_ns(NS_PER_MS); /* the plugin has not taken those before it */
            continue;
        }
        fcntl(s, F_SETFL, O_NONBLOCK);
        say_anything(s, &seed, cache);
        close(s);
        atomic_fetch_add(&shared->lives, 1);
    }
    _exit(0);
}

/* -- the others ------------------------------------------------------------------------------- */

static void *honest_thread(void *arg)
{
    struct csi_volume *v = arg;
    struct csi_caller c;
    csi_caller_open(&c, sock);
    c.stages = &stages;
    c.publishes = &publishes;
    bool done = true;
    while (done && !over) {
        done = csi_stage(&c, v) && csi_publish(&c, v) && csi_unpublish(&c, v) && csi_unstage(&c, v);
        rounds += done;
    }
    csi_caller_close(&c);
    return (void *)(intptr_t)done;
}

/* -- the test --------------------------------------------------------------------------------- */

static int lines_about(const char *uid)
{
    size_t len;
    cleanup_free char *text = file_read(log_file, 256 << 20, &len, NULL);
    int n = 0;
    assert_non_null(text);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        n += strstr(line, uid) != NULL;
    return n;
}

/* Everybody does what he does; how long that was, in seconds. */
static double let_them_for(int64_t ns)
{
    pid_t pids[HOSTILE];
    pthread_t threads[HONEST];
    int64_t began = clock_mono_ns();
    for (unsigned i = 0; i < HOSTILE; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            hostile_process(&hostile[i], i + 1);
    }
    for (int i = 0; i < HONEST; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, honest_thread, &honest[i]), 0);
    /* on a machine that is busy with other things, longer */
    while (clock_mono_ns() < began + ns || atomic_load(&shared->lives) < LIVES_MIN)
        clock_sleep_ns(100 * NS_PER_MS);
    over = true;
    bool done = true;
    for (int i = 0; i < HONEST; i++) {
        void *result;
        pthread_join(threads[i], &result);
        done = done && result;
    }
    atomic_store(&shared->over, true);
    double took = (double)(clock_mono_ns() - began) / 1e9;
    for (int i = 0; i < HOSTILE; i++) {
        int status = -1;
        waitpid(pids[i], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_true(done);
    return took;
}

static void test_hostile(void **state)
{
    (void)state;
    const char *seconds = getenv("MILLRACE_HOSTILE_SECONDS");
    struct csi_caller c;
    bool checked = csi_plugin_is_checked();
    int status = -1;
    pid_t plugin = csi_start_plugin(kubelet, log_file);
    csi_caller_open(&c, sock);
    for (int i = 0; i < HOSTILE + HONEST; i++) {
        struct csi_volume *v = i < HOSTILE ? &hostile[i] : &honest[i - HOSTILE];
        csi_volume_init(v, kubelet, env->dir, i);
        assert_true(csi_publish_inline(&c, v));
        if (i >= HOSTILE)
            csi_start_client(v);
    }
    double took = let_them_for((seconds ? atoi(seconds) : 10) * NS_PER_S);
    long rss = csi_memory_of(plugin, "VmHWM:");
    int64_t stage = csi_times_percentile(&stages, 99),
            publish = csi_times_percentile(&publishes, 99);
    print_message("# %.1f s: %ld lives with %ld messages, %.0f and %.0f a second\n", took,
        shared->lives, shared->messages, (double)shared->lives / took,
        (double)shared->messages / took);
    print_message(
        "# the others: %d rounds; stage p50 %.1f ms, p99 %.1f ms; publish p50 %.1f ms, p99 %.1f ms\n",
        (int)rounds, (double)csi_times_percentile(&stages, 50) / 1e6, (double)stage / 1e6,
        (double)csi_times_percentile(&publishes, 50) / 1e6, (double)publish / 1e6);
    int most = 0;
    for (int i = 0; i < HOSTILE; i++)
        most = MAX(most, lines_about(hostile[i].uid));
    print_message("# plugin: peak %ld MiB; most lines about one of them: %d\n", rss >> 10, most);
    assert_true(stage < (checked ? P99_CHECKED_NS : P99_NS));
    assert_true(publish < (checked ? P99_CHECKED_NS : P99_NS));
    assert_true(rss > 0 && rss < (checked ? RSS_CHECKED_KIB : RSS_KIB));
    assert_true(most <= LINES_BURST + LINES_MORE + (int)took);
    for (int i = 0; i < HOSTILE + HONEST; i++) {
        struct csi_volume *v = i < HOSTILE ? &hostile[i] : &honest[i - HOSTILE];
        if (i >= HOSTILE)
            csi_end_client(v);
        assert_true(csi_unpublish_inline(&c, v));
        csi_volume_free(v);
    }
    csi_caller_close(&c);
    kill(plugin, SIGTERM);
    waitpid(plugin, &status, 0);
    assert_int_equal(status, 0);
}

static int setup(void **state)
{
    struct err e = ERR_INIT;
    if (csi_env_setup(state))
        return -1;
    env = *state;
    kubelet = path_join(env->dir, "kubelet");
    sock = path_join(kubelet, "plugins/" NAME_DRIVER "/csi.sock");
    log_file = path_join(env->dir, "log");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    setenv("FAKE_DIE_WITH_PARENT", "1", 1);
    cleanup_free char *pods = path_join(kubelet, "pods"),
                      *registry = path_join(kubelet, "plugins_registry");
    return shared == MAP_FAILED || file_mkdirs(pods, 0755, &e) || file_mkdirs(registry, 0755, &e)
        ? -1
        : 0;
}

static int teardown(void **state)
{
    free(kubelet);
    free(sock);
    free(log_file);
    return csi_env_teardown(state);
}

int main(void)
{
    if (!csi_env_can_mount()) {
        puts("1..0 # SKIP needs root and /dev/fuse");
        return 77;
    }
    csi_env_private_mounts();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hostile)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
