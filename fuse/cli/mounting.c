/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cli/mounting.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define ALSO_DEADLINE_NS (10 * NS_PER_S) /* of the look at one store of several */

/* The client lies beside this program, or is found on the PATH; caller frees. */
static char *client_beside(void)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return xstrdup(MOUNTING_CLIENT);
    self[n] = '\0';
    cleanup_free char *path = xasprintf(
        "%.*s/" MOUNTING_CLIENT, (int)(strrchr(self, '/') - self), self);
    return access(path, X_OK) ? xstrdup(MOUNTING_CLIENT) : steal(&path);
}

/* Reports on the terminal all that can be known before, instead of in the log of a process in the
 * background. One of several stores that does not answer is no reason to do without the others. */
static int mount_check_stores(
    const struct args *a, const struct mounting *w, const struct conf *conf, struct err *e)
{
    size_t silent = 0;
    for (size_t i = 0; i < conf->nmounts; i++) {
        const struct conf_mount *m = &conf->mounts[i];
        const struct store_conf sc = {.mount = m,
            .secrets_dir = conf_mount_has_secrets(conf, i) ? a->secrets_dir : NULL,
            .deadline_ns = conf->nmounts > 1 ? ALSO_DEADLINE_NS : 0};
        struct store *s = store_new(&sc, e);
        bool known = s != NULL;
        int rc = !s ? -1 : w->check ? store_check(s, e) : 0;
        store_free(s);
        if (rc && (!known || e->cls != ERR_RETRY || ++silent == conf->nmounts))
            return -1;
        if (rc) {
            cli_failed(e);
            fprintf(stderr,
                "millrace: %s is mounted all the same, and can be read once it answers\n", m->path);
            *e = (struct err)ERR_INIT;
        }
    }
    return 0;
}

/* Its command line and configuration. */
struct client_start {
    char *program, *env; /* owned; env: "NAME=…" */
    const char *argv[24];
};

static void client_start_free(struct client_start *c)
{
    free(c->program);
    free(c->env);
}
#define cleanup_client_start __attribute__((cleanup(client_start_free)))

static int client_prepare(struct client_start *c, const struct args *a, const struct mounting *w,
    const char *way, struct err *e)
{
    cleanup_free char *root = NULL, *path = NULL, *text = NULL;
    if (url_split(w->conf.url, true, &root, &path, e) || !(text = conf_text(a, &w->conf, e)))
        return -1;
    cleanup_conf struct conf *conf = conf_parse(text, strlen(text), e);
    if (!conf || mount_check_stores(a, w, conf, e))
        return -1;
    const struct {
        const char *flag, *value;
    } given[] = {{"--mountpoint", w->dir}, {"--log-format", "text"}, {"--log-level", w->log_level},
        {"--cache-dir", w->cache_dir}, {"--http", w->http}, {"--metrics", w->metrics},
        {"--secrets-dir", a->secrets_dir}};
    size_t n = 0;
    c->program = client_beside();
    c->env = xasprintf(ENV_CONFIG "=%s", text);
    c->argv[n++] = MOUNTING_CLIENT;
    c->argv[n++] = way;
    for (size_t i = 0; i < ARRAY_LEN(given); i++)
        if (given[i].value) {
            c->argv[n++] = given[i].flag;
            c->argv[n++] = given[i].value;
        }
    if (w->allow_other)
        c->argv[n++] = "--allow-other";
    return 0;
}

static int client_missing(int errnum, struct err *e)
{
    return err_sys(
        e, errnum, "start " MOUNTING_CLIENT " (it belongs beside this program, or on the PATH)");
}

int mounting_exec(const struct args *a, const struct mounting *w, struct err *e)
{
    cleanup_client_start struct client_start c = {0};
    if (client_prepare(&c, a, w, w->foreground ? "--foreground" : "--daemonize", e))
        return -1;
    char *equals = strchr(c.env, '=');
    *equals = '\0';
    if (setenv(c.env, equals + 1, 1))
        return err_sys(e, errno, "set " ENV_CONFIG);
    execvp(c.program, (char **)c.argv);
    return client_missing(errno, e);
}

/* This process's, with one more; caller frees the array alone. Other threads may look at the
 * environment meanwhile: it is left as it is. */
static char **environ_with(char *one)
{
    size_t n = 0, kept = 1, name = (size_t)(strchr(one, '=') + 1 - one);
    while (environ[n])
        n++;
    char **all = xcalloc(n + 2, sizeof *all);
    all[0] = one;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], one, name) != 0)
            all[kept++] = environ[i];
    return all;
}

int mounting_start(const struct args *a, const struct mounting *w, struct err *e)
{
    cleanup_client_start struct client_start c = {0};
    if (client_prepare(&c, a, w, "--daemonize", e))
        return -1;
    cleanup_free char **env = environ_with(c.env);
    posix_spawnattr_t attr;
    pid_t pid;
    int status = 0;
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID); /* Ctrl-C is for this process alone */
    int rc = posix_spawnp(&pid, c.program, NULL, &attr, (char **)c.argv, env);
    posix_spawnattr_destroy(&attr);
    if (rc)
        return client_missing(rc, e);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(e, ERR_FATAL, "%s could not be mounted: its client says why above, or in %s/log",
        w->conf.url, w->cache_dir ? w->cache_dir : "the cache directory");
}
