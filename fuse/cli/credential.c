/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the program that a kubeconfig names for credentials (`aws eks get-token`,
 * `gke-gcloud-auth-plugin`), as kubectl does: without a shell, with the words that stand there. The
 * only place of the product that starts a program that is not ours: a person does, with the rights
 * of that person. */
#include "fuse/cli/cluster.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MAX (1u << 20)
#define INSTEAD    "; or start `kubectl proxy` and use --server http://127.0.0.1:8001"

extern char **environ;

/* The array and its strings are the caller's. */
static void free_words(char **words)
{
    for (size_t i = 0; words && words[i]; i++)
        free(words[i]);
    free(words);
}

static char **program_words(const json_t *spec)
{
    size_t n = jget_len(spec, "args");
    char **argv = xcalloc(n + 2, sizeof *argv);
    argv[0] = xstrdup(jget_str(spec, "command", ""));
    for (size_t i = 0; i < n; i++) {
        const char *word = json_string_value(json_array_get(jget_arr(spec, "args"), i));
        argv[i + 1] = xstrdup(word ? word : "");
    }
    return argv;
}

static char **program_environment(const json_t *spec, const json_t *info)
{
    size_t n = 0, more = jget_len(spec, "env");
    while (environ[n])
        n++;
    char **env = xcalloc(n + more + 2, sizeof *env);
    cleanup_free char *text = json_text(info);
    size_t k = 0;
    /* what is first counts, for getenv */
    for (size_t i = 0; i < more; i++) {
        const json_t *v = json_array_get(jget_arr(spec, "env"), i);
        env[k++] = xasprintf("%s=%s", jget_str(v, "name", ""), jget_str(v, "value", ""));
    }
    env[k++] = xasprintf("KUBERNETES_EXEC_INFO=%s", text);
    for (size_t i = 0; i < n; i++)
        env[k++] = xstrdup(environ[i]);
    return env;
}

/* stdout is the pipe, stdin nothing: it cannot ask. Returns errno. */
static int spawn_program(pid_t *pid, const json_t *spec, const json_t *info, int out)
{
    char **argv = program_words(spec), **env = program_environment(spec, info);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    int rc = posix_spawnp(pid, argv[0], &files, NULL, argv, env);
    posix_spawn_file_actions_destroy(&files);
    free_words(argv);
    free_words(env);
    return rc;
}

static int read_answer(int fd, struct buf *out)
{
    char part[4096];
    for (;;) {
        ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -1 : 0;
        buf_add(out, part, (size_t)n);
    }
}

/* 0 if it ended well. */
static int wait_program(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

json_t *credential_exec(const json_t *spec, const json_t *info, struct err *e)
{
    const char *command = jget_str(spec, "command", ""), *hint = jget_str(spec, "installHint", "");
    cleanup_buf struct buf answer = BUF_INIT(ANSWER_MAX);
    int pipes[2];
    pid_t pid;
    if (pipe2(pipes, O_CLOEXEC)) {
        err_sys(e, errno, "make a pipe");
        return NULL;
    }
    int rc = spawn_program(&pid, spec, info, pipes[1]);
    close(pipes[1]);
    if (rc) {
        close(pipes[0]);
        err_set(e, ERR_DENIED, "the kubeconfig's program \"%s\" cannot be started: %s%s%s" INSTEAD,
            command, strerrordesc_np(rc), *hint ? ": " : "", hint);
        return NULL;
    }
    rc = read_answer(pipes[0], &answer);
    close(pipes[0]);
    int status = wait_program(pid);
    if (rc || status) {
        err_set(e, ERR_DENIED,
            "the kubeconfig's program \"%s\" failed with status %d: log in again" INSTEAD, command,
            status);
        return NULL;
    }
    json_t *credential = json_parse(buf_str(&answer), answer.len, e);
    if (!credential)
        err_wrap(e, "what the kubeconfig's program \"%s\" printed", command);
    explicit_bzero(buf_str(&answer), answer.len);
    return credential;
}
