/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/csi/csi_fixture.h"

#include "csi/mount.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/handoff/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The one that is told of in tests. */
static void someone(pid_t pid, char out[CALLER_MAX])
{
    snprintf(out, CALLER_MAX, "pod of %d", (int)pid);
}

void csi_fixture_open(struct csi_fixture *w, int64_t abandon_ns)
{
    struct err e = ERR_INIT;
    struct handoff_conf conf = {.state_dir = w->state,
        .node = "node-1",
        .read_ahead_kib = 4096,
        .abandon_ns = abandon_ns,
        .backing_max = 3,
        .caller = someone};
    w->handoff = handoff_new(&conf);
    w->mount = handoff_get(w->handoff, "default", "0b2c", w->dir, &e);
    assert_string_equal(e.msg, "");
}

void csi_fixture_close(struct csi_fixture *w)
{
    handoff_put(w->mount);
    handoff_free(w->handoff);
    w->mount = NULL;
}

int csi_fixture_hello(struct csi_fixture *w)
{
    struct err e = ERR_INIT;
    uint32_t version = HANDOFF_VERSION;
    int sock = handoff_connect(w->sock, &e);
    assert_true(sock >= 0);
    assert_int_equal(handoff_send(sock, HANDOFF_HELLO, &version, sizeof version, -1, &e), 0);
    return sock;
}

int csi_fixture_setup(void **state)
{
    if (csi_env_setup(state))
        return -1;
    struct csi_fixture *w = xcalloc(1, sizeof *w);
    struct err e = ERR_INIT;
    w->env = *state;
    w->state = path_join(w->env->dir, "state");
    w->dir = path_join(w->env->dir, "volume");
    w->sock = path_join(w->dir, "fuse.sock");
    w->cache = path_join(w->dir, "cache");
    w->staging = path_join(w->env->dir, "staging");
    w->file = path_join(w->staging, "f");
    w->trace = path_join(w->env->dir, "trace");
    w->context = (struct volume_context){
        .kind = VOLUME_KIND_DATASET, .ns = "default", .uid = "0b2c", .name = "mnist"};
    if (file_mkdirs(w->state, 0755, &e) || file_mkdirs(w->cache, 0755, &e)
        || file_mkdirs(w->staging, 0755, &e))
        return -1;
    setenv("FAKE_TRACE", w->trace, 1);
    setenv("FAKE_DIE_WITH_PARENT", "1", 1);
    unsetenv("FAKE_FAIL");
    unsetenv("FAKE_SLEEP_MS");
    *state = w;
    return 0;
}

int csi_fixture_teardown(void **state)
{
    struct csi_fixture *w = *state;
    struct err e = ERR_INIT;
    void *env = w->env;
    mount_end_fuse(w->staging, false, 0, &e);
    char **all[] = {&w->state, &w->dir, &w->sock, &w->cache, &w->staging, &w->file, &w->trace};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(*all[i]);
    free(w);
    return csi_env_teardown(&env);
}

void end_client(pid_t pid)
{
    kill(pid, SIGKILL);
    kill(pid, SIGCONT);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int stage(struct csi_fixture *w, int64_t ms, struct err *e)
{
    struct handoff_want want = {.staging = w->staging,
        .context = &w->context,
        .deadline_ns = clock_mono_ns() + ms * NS_PER_MS};
    return handoff_stage(w->mount, &want, e);
}

void must_stage(struct csi_fixture *w)
{
    struct err e = ERR_INIT;
    assert_int_equal(stage(w, 60000, &e), 0);
    assert_string_equal(e.msg, "");
    publish(w, true);
}

void publish(struct csi_fixture *w, bool published)
{
    struct err e = ERR_INIT;
    assert_int_equal(
        handoff_published(w->mount, published, clock_mono_ns() + 60 * NS_PER_S, &e), 0);
}

void must_unstage(struct csi_fixture *w)
{
    struct err e = ERR_INIT;
    assert_int_equal(handoff_unstage(w->mount, clock_mono_ns() + 60 * NS_PER_S, &e), 0);
}

bool mounted(struct csi_fixture *w)
{
    struct err e = ERR_INIT;
    bool fuse = false;
    return mount_at(w->staging, NULL, &fuse, NULL, &e) == 1 && fuse;
}

/* The whole file, compared; the first errno. */
int check_fd(int fd)
{
    static unsigned char data[FILE_BYTES];
    for (size_t at = 0; at < FILE_BYTES;) {
        ssize_t n = pread(fd, data + at, FILE_BYTES - at, (off_t)at);
        if (n <= 0)
            return n < 0 ? errno : EPIPE;
        at += (size_t)n;
    }
    for (unsigned i = 0; i < FILE_BYTES; i++)
        if (data[i] != (unsigned char)(i * 2654435761u >> 24))
            return EBADMSG;
    return 0;
}

int check_file(struct csi_fixture *w)
{
    cleanup_fd int fd = open(w->file, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? errno : check_fd(fd);
}

void *slow_reader(void *arg) { return (void *)(intptr_t)check_file(arg); }

struct handoff_state state_of(struct csi_fixture *w)
{
    struct handoff_state s;
    struct err e = ERR_INIT;
    assert_int_equal(handoff_state(w->mount, clock_mono_ns() + 60 * NS_PER_S, &s, &e), 0);
    return s;
}

/* The lines "pid what value" of the clients: how many have this `what`, and the last one's value.
 */
int traced(struct csi_fixture *w, const char *what, long long *value)
{
    struct err e = ERR_INIT;
    cleanup_free char *text = file_read(w->trace, 1 << 20, NULL, &e);
    int n = 0;
    for (char *save = NULL, *line = text ? strtok_r(text, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        char word[32];
        long long v;
        if (sscanf(line, "%*d %31s %lld", word, &v) == 2 && strcmp(word, what) == 0) {
            n++;
            if (value)
                *value = v;
        }
    }
    return n;
}

/* Starting a process closes its copies of our open files, which is a FLUSH: with a file of the
 * mount open, there must be a client to answer it. So the next client is started before the last
 * one is killed; it waits behind it. */
pid_t client(struct csi_fixture *w)
{
    char *argv[] = {
        (char *)FAKE_CLIENT, (char *)"--socket", w->sock, (char *)"--cache-dir", w->cache, NULL};
    pid_t pid;
    int before = traced(w, "started", NULL);
    assert_int_equal(posix_spawn(&pid, FAKE_CLIENT, NULL, NULL, argv, environ), 0);
    eventually(traced(w, "started", NULL) > before);
    return pid;
}
